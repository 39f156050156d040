"""The words of the packet language's errors: what a piece of syntax is called and what to write instead."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

from mezzo.frontends.python.values import Lit, Method, Num, Pkt, Place, StateRef, Thing, Value, View
from mezzo.ir.module import State
from mezzo.ir.types import VOID, Type

# kind of syntax -> (what it is called, what to write instead)
STATEMENTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.While: ("`while`", "a loop has a bound: write `for _ in bounded(count, limit):` and leave it with `break`"),
    ast.Try: ("`try`", "packet code has no exceptions: a bad access already kills the packet and is counted"),
    ast.TryStar: ("`try`", "packet code has no exceptions: a bad access already kills the packet and is counted"),
    ast.Raise: ("`raise`", "packet code has no exceptions: use self.kill(p, 'reason')"),
    ast.With: ("`with`", "do this in configuration code"),
    ast.AsyncWith: ("`async with`", "do this in configuration code"),
    ast.AsyncFor: ("`async for`", "write a plain `for`"),
    ast.FunctionDef: ("a `def` inside a method", "make it a method of the element"),
    ast.AsyncFunctionDef: ("`async def`", "make it a method of the element, with a plain `def`"),
    ast.ClassDef: ("a `class` inside a method", "move it out of the method"),
    ast.Import: ("`import`", "import at the top of the file"),
    ast.ImportFrom: ("`import`", "import at the top of the file"),
    ast.Delete: ("`del`", "packets are given away with push, return, store or self.kill(p, 'reason')"),
    ast.Global: ("`global`", "state belongs to the element: declare it in the class"),
    ast.Nonlocal: ("`nonlocal`", "state belongs to the element: declare it in the class"),
    ast.Assert: ("`assert`", "test it with `if` and kill the packet"),
    ast.Match: ("`match`", "write if / elif / else"),
}
_IN_CONFIGURE = "build a tuple in configure() and loop over it, or declare an Array or a Table as state"
EXPRESSIONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.List: ("a list", _IN_CONFIGURE),
    ast.Dict: ("a dict", _IN_CONFIGURE),
    ast.Set: ("a set", _IN_CONFIGURE),
    ast.ListComp: ("a comprehension", "write a `for` loop, or build a tuple in configure()"),
    ast.SetComp: ("a comprehension", "write a `for` loop, or build a tuple in configure()"),
    ast.DictComp: ("a comprehension", "write a `for` loop, or build a tuple in configure()"),
    ast.GeneratorExp: ("a comprehension", "write a `for` loop, or build a tuple in configure()"),
    ast.Lambda: ("`lambda`", "make it a method of the element"),
    ast.JoinedStr: ("an f-string", "texts are there only as reasons of a drop; let a @python method print"),
    ast.NamedExpr: ("`:=`", "assign in a statement of its own before"),
    ast.Yield: ("`yield`", "push each packet: self.push(port, p)"),
    ast.YieldFrom: ("`yield`", "push each packet: self.push(port, p)"),
    ast.Await: ("`await`", "nothing waits in packet code: use self.timer_after(ns) and timer()"),
    ast.Starred: ("`*`", "write the values one by one"),
    ast.Slice: ("a slice", "read packets with p.u16(offset) and its like"),
}
BUILTINS = {
    "print": "let a method marked @python print, and call it",
    "int": "write u32(…) or another width",
    "float": "scale it to an integer in configure()",
    "abs": "write x if x >= 0 else -x",
    "str": "texts are there only as reasons of a drop",
    "sum": "write a `for` loop",
    "any": "write a `for` loop",
    "all": "write a `for` loop",
    "enumerate": "write `for i in range(n):`",
    "zip": "write `for i in range(n):`",
    "pow": "multiply, or shift: 1 << n",
    "divmod": "write a // b and a % b",
    "isinstance": "types are known here; nothing is to be asked",
}


def refusal(node: ast.AST, table: dict[type[ast.AST], tuple[str, str]]) -> tuple[str, str]:
    """Message and hint for syntax that the packet language does not have."""
    called, hint = table.get(
        type(node), (f"`{type(node).__name__}`", "see docs/language.md for what packet code can do")
    )
    return f"{called} is not part of the packet language", hint


def describe(value: Value) -> str:
    """What a value is, in the middle of a sentence."""
    match value:
        case Pkt():
            return "a packet"
        case View():
            return f"a header ({value.header.__name__}); name one of its fields"
        case Place():
            return "a place in a packet; read it with .u16(offset) and its like"
        case StateRef():
            return f"the {kind_of(value.state)} `{value.state.name}`"
        case Method():
            return f"the method `{value.name}` and not its result {value.name}(…)"
        case Num():
            return "nothing: that function gives nothing back" if value.type is VOID else f"a number ({value.type})"
        case Lit():
            return "a number"
        case Thing(object=None):
            return "None"
        case Thing(object=str()):
            return "a text"
        case Thing(object=Type()):
            return f"the type {value.object}"
        case Thing():
            return f"a {type(value.object).__name__} of configuration time"
    return "nothing"


def kind_of(state: State) -> str:
    return "table that forgets" if state.kind == "lru" else state.kind


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, or nothing when no known name is near."""
    near = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"; did you mean `{near[0]}`?" if near else ""
