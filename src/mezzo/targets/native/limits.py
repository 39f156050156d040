"""Limits for LLVM: what it must fuse, what it must not, and what is not worth its time.

Inlining is LLVM's choice within these.  `fence` keeps every fused function below `FUSE` lines of assembly: without,
compile time is quadratic in the length of a chain of elements.  All work on the text of functions, by name.
"""

from __future__ import annotations

import re
from collections import Counter

FUSE = 2000  # lines
SMALL = 60  # lines: never fenced
STEP_SIZE, STEP_SITES = 120, 3  # a step of at most so many lines is fused into at most so many places

_FIXED = "wake|timer_set|timer_clear|run_task|fire_timer|trace|now"
NAME = re.compile(rf"@((?:push|pull|ready|leave)\d+|[ui]\d+_[\w.]+|{_FIXED})\(")
_STEP = re.compile(r"(?:push|pull|ready)\d+|i\d+_(?:push|pull|process)")
_APART = re.compile(r"\b(noinline|cold|minsize)\b")
# Doors that packets go through; the others are handlers.
_ROAD = re.compile(r"define void @door_(?:[ui]\d+_run|push\d+|pull\d+)\(")

Functions = dict[str, str]


def fence(functions: Functions) -> None:
    """Marks functions `noinline` so that what LLVM may fuse into one stays below FUSE lines."""
    size = {name: text.count("\n") for name, text in functions.items()}
    calls = {name: Counter(NAME.findall(text)) for name, text in functions.items()}
    apart = {name for name in functions if _APART.search(_head(functions[name]))}
    for called in calls.values():
        for name in [n for n in called if n not in functions or n in apart]:
            del called[name]
    total: dict[str, int] = {}
    for name in _callees_first(calls):
        grown = size[name]
        inner = [(total.get(n, FUSE), n, times) for n, times in calls[name].items() if n != name]
        for lines, callee, times in sorted(inner):
            if grown + lines * times > FUSE and lines > SMALL:
                total[callee] = 0
                if "noinline" not in _head(functions[callee]):
                    functions[callee] = _with_attribute(functions[callee], "noinline")
            else:
                grown += lines * times
        total[name] = grown


def fuse(functions: Functions, doors: list[str], never: set[str]) -> None:
    """Has short steps of the road fused into the few places that lead to them.

    LLVM alone refuses many: it counts a step that two loops of a source call as code that is copied.
    """
    sites = Counter(n for text in [*functions.values(), *doors] for n in NAME.findall(text))
    for name, text in functions.items():
        short = text.count("\n") <= STEP_SIZE and sites[name] <= STEP_SITES
        if short and _STEP.fullmatch(name) and name not in never and not _APART.search(_head(text)):
            functions[name] = _with_attribute(text, "alwaysinline")


def cool(functions: Functions, doors: list[str]) -> list[str]:
    """Spares LLVM work on what packets reach rarely (a tenth of it for an IP router); gives the doors.

    What only cold functions lead to is made small; what only Python calls (handlers), not optimised at all.
    """
    calls = {name: set(NAME.findall(text)) & functions.keys() for name, text in functions.items()}
    cold = {name for name in calls if " cold" in _head(functions[name])}
    roads = [text for text in doors if _ROAD.match(text)]
    if not roads:
        return doors
    starts = {name for text in roads for name in NAME.findall(text)}
    used = _reached(starts, calls)
    warm = _reached(starts - cold, {name: called - cold for name, called in calls.items()})
    for name in calls.keys() - warm:
        functions[name] = _with_attribute(functions[name], "minsize" if name in used else "optnone noinline")
    return [text if text in roads else _with_attribute(text, "optnone noinline") for text in doors]


def _callees_first(calls: dict[str, Counter[str]]) -> list[str]:
    order: list[str] = []
    seen: set[str] = set()
    for root in calls:
        stack = [(root, False)]
        while stack:
            name, done = stack.pop()
            if done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(n, False) for n in calls[name] if n not in seen]
    return order


def _head(text: str) -> str:
    return text.partition(" {\nentry:")[0]


def _with_attribute(text: str, attribute: str) -> str:
    head, brace, rest = text.partition(" {\nentry:")
    return f"{head} {attribute}{brace}{rest}"


def _reached(starts: set[str], calls: dict[str, set[str]]) -> set[str]:
    """All functions that some lead to, themselves included."""
    found, todo = set(starts), list(starts)
    while todo:
        fresh = calls.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found
