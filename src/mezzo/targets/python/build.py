"""From a program to a running engine: emitted source is compiled once per equal unit and kept for the debugger."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from typing import Any

from mezzo.ir.module import Program, Unit
from mezzo.packet.arena import Arena
from mezzo.targets.python import raw, run
from mezzo.targets.python.emit import emit
from mezzo.targets.python.run import Engine


def build(
    program: Program,
    arena: Arena,
    cells: list[dict[str, Any]],
    hosts: Mapping[tuple[int, str], Callable[..., int | None]],
    *,
    seed: int = 1,
    virtual: bool = False,
    trace: Callable[[int, int, int], None] | None = None,
    cache: bool = True,
    whole: Callable[[], Program] | None = None,
) -> Engine:
    """Makes `program` runnable; `cells` are used as they are.  `whole` gives the bodies where it has none."""
    program = whole() if whole is not None else program
    made: dict[Unit, dict[str, Callable[..., Any]]] = {}
    code = []
    for linked in program.instances:
        if linked.unit not in made:
            made[linked.unit] = build_unit(linked.unit, len(made))
        code.append(made[linked.unit])
    return Engine(program, arena, cells, code, hosts, seed, virtual, trace)


def build_unit(unit: Unit, number: int) -> dict[str, Callable[..., Any]]:
    """The unit's functions, by name."""
    scope = vars(raw) | vars(run)
    code: dict[str, Callable[..., Any]] = {}
    for function in unit.functions:
        text = emit(function)
        file = f"<mezzo {unit.name}#{number}.{function.name}>"
        # pdb and tracebacks show lines that linecache knows.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        made: dict[str, Callable[..., Any]] = {}  # apart: a function may have the name of a helper that another uses
        exec(compile(text, file, "exec"), scope, made)
        code[function.name] = made[function.name.replace(".", "_")]
    return code


def source(unit: Unit) -> str:
    """All of a unit's emitted Python."""
    return "\n".join(emit(f) for f in unit.functions)
