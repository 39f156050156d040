"""From a program to an engine: everything that can goes into the kernel, as one part, the rest stays in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mezzo.base import Diagnostic
from mezzo.ir import ops
from mezzo.ir.module import Linked, Program, Unit
from mezzo.ir.spec import nodes
from mezzo.packet.arena import Arena
from mezzo.targets.kernel.layout import packet_functions
from mezzo.targets.kernel.part import Part
from mezzo.targets.kernel.plan import Port
from mezzo.targets.kernel.punt import Half, half_of_linked
from mezzo.targets.kernel.roads import order_of
from mezzo.targets.kernel.run import Engine
from mezzo.targets.python.build import build_unit


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
    most: int | None = None,
) -> Engine:
    """An engine that runs `program`; the contents of `cells` are taken over.  With `trace` each instance is a part of
    its own, so that Python sees every step.  `most`: nodes of IR that a way in the kernel has (see `punt`)."""
    program = whole() if whole is not None else program
    halves = [half_of_linked(linked, most) for linked in program.instances]
    refused = {i: list(half.ups) for i, half in enumerate(halves) if half.unit is None}
    placed = [i for i in range(len(halves)) if i not in refused]
    here = replace(program, instances=tuple(map(_with_half, program.instances, halves)))
    groups = [[i] for i in placed] if trace is not None else [placed] if placed else []
    parts: list[Part] = []
    try:
        for group in groups:
            entries = entries_of(program, group)
            parts.append(
                Part(here, group, entries, cells, frame_size=arena.frame_size, virtual=virtual, use_disk=cache)
            )
        made: dict[Unit, dict[str, Callable[..., Any]]] = {}
        for linked in program.instances:
            if linked.unit not in made:
                made[linked.unit] = build_unit(linked.unit, len(made))
        code = [made[linked.unit] for linked in program.instances]
        return Engine(program, arena, cells, code, hosts, seed, virtual, trace, parts, refused)
    except BaseException:
        for part in parts:
            part.close()
        raise


def entries_of(program: Program, placed: list[int]) -> list[Port]:
    """The inputs of a part by which packets come in: from outside, from nobody, back in a circle, or from functions of
    its instances that are not for packets that are pushed."""
    rank = {i: n for n, i in enumerate(order_of(program, placed))}
    forward: dict[Port, list[bool]] = {}  # of each connection that leads to an input: does it stay in the program
    for i, linked in enumerate(program.instances):
        for to in linked.outputs:
            if to is not None:
                inside = rank.get(i, len(rank)) < rank.get(to[0], -1) and not sends_otherwise(linked.unit)
                forward.setdefault(to, []).append(inside)
    inputs = [(i, port) for i in placed for port in range(max(len(program.instances[i].inputs), 1))]
    return [one for one in inputs if not all(forward.get(one, [False]))]


def sends_otherwise(unit: Unit) -> bool:
    """Whether tasks, timers or handlers send packets."""
    plain = packet_functions(unit)
    return any(isinstance(n, ops.Emit) for f in unit.functions if f not in plain for n in nodes(f.body))


def _with_half(linked: Linked, half: Half) -> Linked:
    return linked if half.unit is None else replace(linked, unit=half.unit)


def why_not(program: Program) -> dict[str, list[Diagnostic]]:
    """Per instance that stays out of the kernel, why."""
    halves = {x.name: half_of_linked(x, None) for x in program.instances}
    return {name: [_named(name, why) for why in half.ups] for name, half in halves.items() if half.unit is None}


def _named(name: str, why: Diagnostic) -> Diagnostic:
    return replace(why, message=f"`{name}` stays out of the kernel: {why.message}")
