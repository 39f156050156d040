"""A script's instructions, read: words, labels, and what can be wrong with them before they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mezzo.elements.confparse import split_words
from mezzo.elements.units import parse_count, parse_duration

BEGIN, END, EXIT, ERROR, STOP = 0, -1, -2, -3, -4
SPECIAL = {"begin": BEGIN, "loop": BEGIN, "end": END, "exit": EXIT, "error": ERROR, "stop": STOP}

WORDS = (
    "append", "end", "error", "exit", "export", "goto", "init", "label", "loop", "pause", "print", "printn", "read",
    "return", "save", "set", "stop", "wait", "write",
)  # fmt: skip
# With a q behind they take quotes away.
QUOTED = ("error", "export", "init", "print", "printn", "read", "return", "set", "write")
SAME = {"wait_step": "pause", "wait_stop": "pause", "wait_time": "wait", "wait_for": "wait"}


@dataclass
class Instruction:
    """One instruction: `word`, the `text` behind it, the place a goto leads to, steps that a pause has seen, and the
    argument it was read from."""

    word: str
    text: str = ""
    unquoted: bool = False
    target: int = 0
    seen: int = 0
    written: str = ""


def split_first(text: str) -> tuple[str, str]:
    """(first word, the rest)."""
    text = text.strip()
    words = split_words(text)
    if not words:
        return "", ""
    return words[0], text[len(words[0]) :].strip()


def read_program(texts: Sequence[str], complain: Callable[[str, str], None]) -> list[Instruction]:
    """The instructions; every trouble goes to `complain`, with the argument that it is about."""
    program = []
    for text in texts:
        try:
            if text.strip():
                program.append(read_instruction(text))
        except ValueError as trouble:
            complain(str(trouble), text)
    _find_labels(program, complain)
    return program


def read_instruction(text: str) -> Instruction:
    """One instruction; ValueError says what is wrong."""
    first, rest = split_first(text)
    word = SAME.get(first, first)
    unquoted = word.endswith("q") and word[:-1] in QUOTED
    word = word[:-1] if unquoted else word
    if word not in WORDS:
        raise ValueError(f"`{first}` is no instruction; there are {', '.join(WORDS)}")
    if word == "wait" and not rest and first != "wait_time":
        word = "pause"
    trouble = _wrong_text(word, rest)
    if trouble:
        raise ValueError(f"`{text.strip()}`: {trouble}")
    if word == "loop":
        word, rest = "goto", "begin"
    return Instruction(word, rest, unquoted, written=text)


def _wrong_text(word: str, text: str) -> str:
    """What is wrong with an instruction's text, as far as it can be known before it runs."""
    first, rest = split_first(text)
    if word in ("stop", "end", "exit", "loop") and text:
        return "it takes no text"
    if word == "label" and (not first or rest):
        return "write label NAME"
    if (word in ("set", "init", "export") and not first) or (word == "set" and not rest):
        return f"write {word} VARIABLE TEXT"
    if word in ("goto", "read", "write", "save", "append") and not first:
        return f"write {word} {'LABEL' if word == 'goto' else 'HANDLER'}"
    return _wrong_number(word, text)


def _wrong_number(word: str, text: str) -> str:
    try:
        if word == "wait" and "$" not in text:
            parse_duration(text)
        if word == "pause" and text and "$" not in text:
            parse_count(text)
    except ValueError as trouble:
        return str(trouble)
    return ""


def _find_labels(program: Sequence[Instruction], complain: Callable[[str, str], None]) -> None:
    places: dict[str, int] = {}
    for i, one in enumerate(program):
        if one.word == "label":
            places.setdefault(one.text, i)  # of two labels of one name the first counts
    for one in program:
        if one.word != "goto":
            continue
        label, one.text = split_first(one.text)
        found = places.get(label, SPECIAL.get(label))
        if found is None:
            complain(f"there is no label `{label}`; there are {', '.join([*places, *SPECIAL])}", one.written)
        else:
            one.target = found
