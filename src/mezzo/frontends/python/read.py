"""Finds the source of a method and the places in it.

A file is parsed once; a function is found by the line its code object starts at, so classes of files, tests and
notebook cells (whose lines `linecache` knows) are all read the same way.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from mezzo.base import Diagnostic, MezzoError, Note, Span


@dataclass(frozen=True)
class Source:
    """A function's syntax tree, the globals it sees, and its file's lines."""

    node: ast.FunctionDef
    scope: dict[str, Any]
    file: str
    lines: tuple[str, ...]

    def span(self, node: ast.AST) -> Span:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        same_line = getattr(node, "end_lineno", line) == line
        width = (getattr(node, "end_col_offset", column + 1) if same_line else len(text)) - column
        # ast counts columns in UTF-8 bytes, a caret wants characters.
        lead = len(text.encode()[:column].decode(errors="ignore"))
        return Span(self.file, line, lead + 1, text.rstrip("\n"), max(1, width))

    def fail(self, node: ast.AST, message: str, hint: str = "", notes: tuple[Note, ...] = ()) -> NoReturn:
        raise MezzoError(Diagnostic(message, self.span(node), notes, hint))


@cache
def _functions(file: str, text: str) -> dict[int, ast.FunctionDef]:
    found: dict[int, ast.FunctionDef] = {}
    todo: list[ast.AST] = [ast.parse(text, file)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef):
            found[min([node.lineno, *(d.lineno for d in node.decorator_list)])] = node
        # No expression has a `def` in it.
        todo += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt | ast.excepthandler | ast.match_case)]
    return found


def read_function(function: Callable[..., Any]) -> Source:
    """The source of a plain Python function or method."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise MezzoError(
            Diagnostic(
                f"the source of {function.__qualname__} is not to be found",
                hint="packet code is read from its source: define the class in a file or a notebook cell",
            )
        )
    node = _functions(code.co_filename, "".join(lines)).get(code.co_firstlineno)
    if node is None:
        text = lines[code.co_firstlineno - 1].rstrip("\n") if code.co_firstlineno <= len(lines) else ""
        place = Span(code.co_filename, code.co_firstlineno, 1 + len(text) - len(text.lstrip()), text, len(text.strip()))
        message = f"{function.__qualname__} is not a plain `def`"
        raise MezzoError(Diagnostic(message, place, hint="write packet code as `def` with its own name"))
    return Source(node, function.__globals__, code.co_filename, tuple(lines))
