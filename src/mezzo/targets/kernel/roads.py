"""The ways through a part: a road for each device input, cut into programs that the verifier takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from mezzo.ir.module import Program
from mezzo.ir.spec import nodes
from mezzo.targets.kernel.layout import packet_functions
from mezzo.targets.kernel.plan import KernelPlan, Port

MOST_NODES = 2000  # of IR in a program: twice as many take more than 512 bytes of stack
WIRE = 0x8000  # the bit of ways that lead out by a wire
DEVICES = "devices"  # the map of interfaces that packets are redirected to


@dataclass(frozen=True, slots=True)
class Wire:
    """How a packet leaves the kernel's levels: `verdict` pass, tx, or redirect to entry `key` of map `symbol`.  With a
    `way` (not 0) whoever ran the program sends the packet, and is told this."""

    verdict: str
    symbol: str = ""
    key: int = 0
    way: int = 0


@dataclass(frozen=True, slots=True)
class Road:
    """What one entry reaches: `placed`, entered by `entries`.

    With `wire` packets come from an interface, to the first entry; else with a record that says which.  `wires`: what
    leaves by a wire; `ups`: what goes up, and its way.  `sockets`: the map of AF_XDP sockets by which it does; without
    one it goes with XDP_PASS, and ways are numbered as found.  `first`: of its programs in the map of programs.
    """

    placed: tuple[int, ...]
    entries: tuple[Port, ...]
    wire: bool = False
    wires: Mapping[Port, Wire] = field(default_factory=dict)
    ups: Mapping[Port, int] = field(default_factory=dict)
    sockets: str = ""
    first: int = 0
    frags: bool = False  # packets of several buffers may come, and go up whole
    gates: bool = False  # a flow's packets stay in order
    injected: bool = False  # native code runs it on packets that it has, and takes up what goes up


def roads_of(plan: KernelPlan, frags: bool = False) -> list[Road]:
    """A road for each device input, with what can be reached from there; then for each place where native code hands
    packets over."""
    roads: list[Road] = []
    for n, entry in enumerate(plan.entries):
        placed = reached(plan, entry[0])
        wires = {port: _wire(plan, entry[0], to) for port, to in plan.wires.items() if port[0] in placed}
        ups = {port: way for port, way in plan.ways.items() if port[0] in placed}
        first = sum(len(road.placed) for road in roads)
        gates = plan.needs_gates(frags)
        roads.append(Road(placed, (entry,), True, wires, ups, f"sockets{n}", first, frags, gates))
    for one in plan.injections:
        placed = reached(plan, one.to[0])
        wires = {port: _told(plan, to) for port, to in plan.wires.items() if port[0] in placed}
        ups = {port: way for port, way in plan.ways.items() if port[0] in placed}
        first = sum(len(road.placed) for road in roads)
        roads.append(Road(placed, (one.to,), False, wires, ups, "", first, frags, injected=True))
    return roads


def _told(plan: KernelPlan, to: int) -> Wire:
    """A wire's way names the program that sends the packet (see senders)."""
    if to not in plan.devices:
        return Wire("pass", way=WIRE)
    return Wire("redirect", DEVICES, plan.keys[to], WIRE | 1 + plan.keys[to])


def _wire(plan: KernelPlan, entry: int, to: int) -> Wire:
    """What leads out by the interface by which it came in, needs no map."""
    if to not in plan.devices:
        return Wire("pass")
    turns = plan.devices[to] == plan.devices[entry] and to not in plan.no_turn
    return Wire("tx") if turns else Wire("redirect", DEVICES, plan.keys[to])


def reached(plan: KernelPlan, start: int) -> tuple[int, ...]:
    """The placed instances that packets reach from one, in the order of the plan."""
    placed, seen, todo = set(plan.placed), {start}, [start]
    while todo:
        i = todo.pop()
        for port, to in enumerate(plan.program.instances[i].outputs):
            leaves = (i, port) in plan.ways or (i, port) in plan.wires
            if to is not None and not leaves and to[0] in placed and to[0] not in seen:
                seen.add(to[0])
                todo.append(to[0])
    return tuple(i for i in plan.placed if i in seen)


def same_sockets(before: KernelPlan, plan: KernelPlan) -> dict[str, str]:
    """Maps of sockets that stay, by the name of the one there was for the interface."""
    there = {before.devices[i]: n for n, (i, _) in enumerate(before.entries)}
    mine = {n: there.get(plan.devices[i]) for n, (i, _) in enumerate(plan.entries)}
    return {f"sockets{n}": f"sockets{other}" for n, other in mine.items() if other is not None}


def order_of(program: Program, placed: Sequence[int]) -> list[int]:
    """The instances so that pushes lead forward, but for those that lead back in a circle."""
    members, seen, found = set(placed), set[int](), list[int]()
    for first in placed:
        stack = [(first, iter(_next(program, first)))] if first not in seen else []
        seen.add(first)
        while stack:
            i, rest = stack[-1]
            to = next((j for j in rest if j in members and j not in seen), None)
            if to is None:
                found.append(i)
                stack.pop()
            else:
                seen.add(to)
                stack.append((to, iter(_next(program, to))))
    return found[::-1]


def _next(program: Program, instance: int) -> list[int]:
    return [to[0] for to in program.instances[instance].outputs if to is not None]


def split(program: Program, placed: Sequence[int]) -> list[list[int]]:
    """The placed instances as programs of a size that the verifier takes, cut between elements."""
    groups: list[list[int]] = [[]]
    room = MOST_NODES
    for i in usual_first(program, placed):
        size = sum(1 for f in packet_functions(program.instances[i].unit) for _ in nodes(f.body))
        if size > room and groups[-1]:
            groups.append([])
            room = MOST_NODES
        groups[-1].append(i)
        room -= size
    return groups


def usual_first(program: Program, placed: Sequence[int]) -> list[int]:
    """The instances in an order of the same kind, in which those that most packets reach come as early as they can: a
    tail call is for the others.  An element's first output is the usual one."""
    order = order_of(program, placed)
    rank = {i: n for n, i in enumerate(order)}
    forward = {i: [(n, to[0]) for n, to in _ends(program, i) if rank.get(to[0], -1) > rank[i]] for i in order}
    turns = dict.fromkeys(order, len(order))  # outputs taken that are not the first, on the usual way there
    waiting = Counter(to for i in order for _, to in forward[i])
    for i in order:
        turns[i] = turns[i] if waiting[i] else 0
        for n, to in forward[i]:
            turns[to] = min(turns[to], turns[i] + (n > 0))
    urgent = dict(turns)  # what a usual one waits for is as urgent
    for i in reversed(order):
        urgent[i] = min([urgent[i], *(urgent[to] for _, to in forward[i])])
    ready = [(urgent[i], turns[i], rank[i]) for i in order if not waiting[i]]
    heapify(ready)
    found: list[int] = []
    while ready:
        i = order[heappop(ready)[2]]
        found.append(i)
        for _, to in forward[i]:
            waiting[to] -= 1
            if not waiting[to]:
                heappush(ready, (urgent[to], turns[to], rank[to]))
    return found


def _ends(program: Program, instance: int) -> list[tuple[int, Port]]:
    return [(n, to) for n, to in enumerate(program.instances[instance].outputs) if to is not None]


def halves(group: list[int]) -> list[list[int]]:
    return [group[: len(group) // 2], group[len(group) // 2 :]]
