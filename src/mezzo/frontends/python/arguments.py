"""What all calls of the packet language share: their arguments, and the names that packets are born in."""

from __future__ import annotations

import ast

from mezzo.frontends.python.expressions import Expressions
from mezzo.frontends.python.values import StateRef, Thing
from mezzo.ir.types import PACKET, U8, U16, U32, U48, U64, U128, Type

WIDTHS: dict[str, Type] = {"u8": U8, "u16": U16, "u32": U32, "u48": U48, "u64": U64, "u128": U128}
NOTHING = Thing(None)


class Arguments(Expressions):
    """Adds to expressions what calls need."""

    def args(self, node: ast.Call, low: int, high: int, usage: str) -> list[ast.expr]:
        if not low <= len(node.args) <= high:
            self.fail(node, f"wrong number of arguments; it is {usage}")
        return node.args

    def birth(self, node: ast.Call, name: str) -> str:
        """The local a new packet is born in."""
        if not name:
            self.fail(node, "give the packet a name", f"write p = {ast.unparse(node)}")
        if name in self.types and self.types[name] is not PACKET:
            self.fail(node, f"`{name}` is {self.types[name]} already", "use another name")
        return name

    def blob(self, node: ast.expr) -> str:
        value = self.expr(node)
        if not isinstance(value, StateRef) or value.state.kind != "blob":
            self.fail(node, "a Blob of the element's state is wanted here")
        return value.state.name
