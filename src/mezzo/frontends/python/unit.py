"""From an element instance to its unit: every role, entry and helper is translated once, constants folded.

Equal instances give equal units; the translation of a class under equal constants is remembered.
"""

from __future__ import annotations

from typing import Any

from mezzo.base import MezzoError, Reporter
from mezzo.elements.element import Element, roles_of
from mezzo.frontends.python.read import read_function
from mezzo.frontends.python.statements import FunctionTranslator
from mezzo.ir.builder import UnitBuilder
from mezzo.ir.module import Function, Param, Unit
from mezzo.ir.types import BOOL, PACKET, U32, VOID, Type

SIGNATURES: dict[str, tuple[tuple[Type, ...], Type]] = {
    "process": ((PACKET,), U32),
    "push": ((U32, PACKET), VOID),
    "pull": ((U32,), PACKET),
    "task": ((), BOOL),
    "timer": ((), VOID),
    "init": ((), VOID),
    "ready": ((), BOOL),
}


def translate(element: Element, read: set[str] | None = None) -> Unit:
    """The unit of an element; MezzoError lists every trouble in its packet code.

    `read` gets the names of the attributes that became constants: elements of the class that agree in these, and in
    their states, have the same unit.  (Those that generate their code look at what they like.)
    """
    return UnitTranslator(element, set() if read is None else read).run()


def translate_wire(element: Element, method: str = "wire") -> Unit:
    """The unit of the kernel's half of an end of a device: its method `wire` is what a packet passes (`process`)."""
    translator = UnitTranslator(element, set())
    translator.translate_callable("process", getattr(type(element), method), bound=True)
    return translator.builder.unit()


class UnitTranslator:
    """Translates functions on demand; helpers are found as they are called."""

    def __init__(self, element: Element, read: set[str]) -> None:
        self.element, self.read = element, read
        self.builder = UnitBuilder(type(element).__name__, element.state_declarations())
        self.state_by_name = {s.name: s for s in self.builder.states}
        self.open: list[str] = []

    def run(self) -> Unit:
        reporter = Reporter()
        self.element.generate(self.builder)
        for name in self.wanted():
            if name in self.builder.functions:
                continue
            try:
                self.function(name)
            except MezzoError as trouble:
                reporter.extend(trouble)
        reporter.raise_if_errors()
        return self.builder.unit()

    def wanted(self) -> list[str]:
        cls = type(self.element)
        entries = [n for n in dir(cls) if getattr(getattr(cls, n, None), "__entry__", False)]
        return [*roles_of(cls), *entries]

    def function(self, name: str) -> Function:
        """The translated method `name`, translated now if it was not before."""
        found = self.builder.functions.get(name)
        if found is not None:
            return found
        method = getattr(type(self.element), name)
        if getattr(method, "__python__", False):
            return self.python_role(name)
        return self.translate_callable(name, method, bound=True)

    def translate_callable(self, name: str, method: Any, bound: bool) -> Function:
        source = read_function(method)
        if name in self.open:
            way = " and ".join(self.open[self.open.index(name) + 1 :])
            message = f"{name} calls itself" + (f" by way of {way}" if way else "")
            source.fail(source.node, message, "packet code has no recursion: use a bounded loop")
        self.open.append(name)
        try:
            made = FunctionTranslator(self, name, source, bound).run()
        except RecursionError:
            hint = "keep parts of its expressions in names of their own"
            source.fail(source.node, f"{name} is nested too deeply", hint)
        finally:
            self.open.pop()
        self.builder.add(made)
        return made

    def python_role(self, name: str) -> Function:
        """A role written in ordinary Python: the packet code only calls it."""
        from mezzo.ir import ops

        host = self.builder.host(name)
        cls = type(self.element).__name__
        if name == "process":
            port = ops.Cast(U32, ops.Host(host, ops.Local(PACKET, "p"), ()))
            made = Function(name, (Param("p", PACKET),), U32, (ops.Return(port),))
        elif name == "task":
            again = ops.Cast(BOOL, ops.Host(host, None, ()))
            made = Function(name, (), BOOL, (ops.Return(again),))
        elif name in ("timer", "init"):
            made = Function(name, (), VOID, (ops.Eval(ops.Host(host, None, ())), ops.Return()))
        else:
            source = read_function(getattr(type(self.element), name))
            hint = "process, task, timer and init can; write the others as packet code"
            source.fail(source.node, f"{cls}.{name} cannot be ordinary Python", hint)
        self.builder.add(made)
        return made
