"""What each instance can do in the kernel, and where packets come to from there.

The graph of the kernel is that of the router, but for queues in front of a device, which are passed, and for what goes
up.  Every circle has a LoopGuard, which stays native, so there are none here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from mezzo.base import Diagnostic
from mezzo.elements.element import Element
from mezzo.graph.codes import parse_ports
from mezzo.ir.module import Linked, Program, Unit
from mezzo.pipeline import devices
from mezzo.pipeline.devices import Road
from mezzo.pipeline.link import Linker
from mezzo.pipeline.told import NATIVE
from mezzo.pipeline.units import make
from mezzo.pipeline.ways import Ways, ways_of
from mezzo.pipeline.wire import has_wire, wire_unit
from mezzo.pipeline.wishes import Wish, wish_for
from mezzo.targets.kernel.plan import Port, punt
from mezzo.targets.kernel.punt import COSTLY, Half, half_of


class Reach:
    """Instances have the numbers of the program; 0 is the scheduler."""

    def __init__(self, linker: Linker, wishes: Sequence[Wish], virtual: bool) -> None:
        tasks, timers, linked = linker.run()
        self.program = Program((Linked("", Unit("", (), ())), *linked), tasks, timers)
        self.elements = [Element(), *linker.elements]
        self.linker, self.virtual = linker, virtual
        self.wishes = [wish_for(e.name, wishes) for e in self.elements]
        self.raced: dict[int, frozenset[str]] = {}  # state that the half of an instance must not change
        self.left: dict[int, str] = {}  # what could be in the kernel, and why it is not
        self.roads: dict[int, Road] = {}  # behind queues
        self.chain: dict[int, int] = {}  # elements between a queue and its device, and what comes behind each
        self.halves: dict[int, Half] = {}
        self.made: dict[tuple[str, int | None, frozenset[str]], Half] = {}  # by the unit's digest
        self.known: dict[str, Ways] = {}
        self.units: dict[str, Unit] = {}

    # -- what each can do

    def level(self, i: int) -> str:
        """What is wished of an instance; ends of devices and queues come along."""
        wish = self.wishes[i]
        return wish.level if wish is not None else "along" if self.comes_along(i) else NATIVE

    def comes_along(self, i: int) -> bool:
        element = self.elements[i]
        return has_wire(element) or devices.is_injector(element) or devices.is_queue(self.program.instances[i])

    def half(self, i: int) -> Half:
        if i not in self.halves:
            self.halves[i] = self.find_half(i)
        return self.halves[i]

    def find_half(self, i: int) -> Half:
        element = self.elements[i]
        if reason := type(element).stays_native:
            return Half(None, (Diagnostic(reason),))
        if has_wire(element):
            return self.wire_half(element)
        if devices.is_injector(element):
            return half_of(wire_unit(element), None)
        linked = self.program.instances[i]
        if any(linked.pull_inputs):
            return Half(None, (Diagnostic("packets are pulled through it"),))
        return self.cut(i)

    def whole(self, i: int) -> Unit:
        """The unit with its code."""
        unit = self.program.instances[i].unit
        if unit.is_skeleton and unit.digest not in self.units:
            self.units[unit.digest] = make(self.elements[i])
        return self.units[unit.digest] if unit.is_skeleton else unit

    def cut(self, i: int) -> Half:
        most = COSTLY if self.level(i) == "auto" else None
        unit, raced = self.whole(i), self.raced.get(i, frozenset())
        key = unit.digest, most, raced
        if key not in self.made:
            self.made[key] = half_of(unit, most, raced)
        return self.made[key]

    def wire_half(self, element: Element) -> Half:
        if devices.is_input(element):
            trouble = devices.input_trouble(element, self.elements, self.virtual)
        else:
            trouble = devices.output_trouble(element)
        return Half(None, (Diagnostic(trouble),)) if trouble else half_of(wire_unit(element), None)

    def road(self, i: int) -> Road:
        """What is behind a queue, by instances."""
        if i not in self.roads:
            found = devices.road_behind(i - 1, self.elements[1:], self.linker)
            road = Road(tuple(x + 1 for x in found.through), found.device + 1, found.why)
            self.roads[i] = road = replace(road, why=road.why or self.blocked(road))
            self.chain |= {} if road.why else pairwise((*road.through, road.device))
        return self.roads[i]

    def blocked(self, road: Road) -> str:
        """Why packets do not go this way in the kernel."""
        for i in (*road.through, road.device):
            half = self.half(i) if i == road.device else self.cut(i)
            if not half.is_whole:
                return f"`{self.elements[i].name}` behind it: {half.ups[0].message}"
            if self.level(i) == NATIVE and not (self.wishes[i] is None and i not in road.through):
                return f"`{self.elements[i].name}` behind it is to be native"
        return ""

    # -- what is reached

    def goes(self, i: int) -> bool:
        return i not in self.left and self.level(i) != NATIVE and self.half(i).unit is not None

    def next(self, i: int, port: int) -> Port | None:
        """Where a packet comes to in the kernel; None where it goes up, or nothing is connected."""
        if port >= len(self.program.instances[i].outputs):
            return None
        to = self.program.instances[i].outputs[port]
        if to is None:
            return None
        if devices.is_queue(self.program.instances[to[0]]):
            road = self.road(to[0])
            if road.why or self.level(to[0]) == NATIVE or to[0] in self.left:
                return None
            return ((*road.through, road.device)[0], 0)
        return to if self.goes(to[0]) else None

    def behind(self, i: int) -> dict[int, Port]:
        """Where packets come to from an instance in the kernel, by its output."""
        if i in self.chain:
            return {0: (self.chain[i], 0)}
        ways = self.ways(i)
        outputs = [port for port in range(len(self.program.instances[i].outputs)) if ways.uses(port)]
        return {port: to for port in outputs if (to := self.next(i, port)) is not None}

    def ways(self, i: int) -> Ways:
        """What the half of a placed instance does with packets."""
        unit = self.kernel_unit(i)
        if unit.digest not in self.known:
            self.known[unit.digest] = ways_of(unit)
        return self.known[unit.digest]

    def reached(self, entries: Sequence[int], usual: bool = False) -> set[int]:
        """The instances that packets reach in the kernel; `usual`: other than by outputs for what is wrong."""
        todo = [i for i in entries if self.goes(i)]
        seen = set(todo)
        while todo:
            i = todo.pop()
            for port, to in self.behind(i).items():
                if to[0] not in seen and not (usual and self.is_for_wrong(i, port)):
                    seen.add(to[0])
                    todo.append(to[0])
        return seen

    def is_for_wrong(self, i: int, port: int) -> bool:
        """Whether an output is one that may be left unconnected, because what leaves there would be dropped."""
        least = parse_ports(type(self.elements[i]).ports).least_outputs
        return 0 < least <= port

    def ups(self, placed: set[int]) -> dict[Port, list[Port]]:
        """Inputs at which packets go on natively, and the outputs that lead there."""
        found: dict[Port, list[Port]] = {}
        for i in sorted(placed):
            ways = self.ways(i)
            for port, to in enumerate(self.program.instances[i].outputs if i not in self.chain else ()):
                if to is not None and ways.uses(port) and self.next(i, port) is None:
                    found.setdefault(to, []).append((i, port))
            for port in range(max(len(self.program.instances[i].inputs), 1)) if ways.punts else ():
                found.setdefault((i, port), []).append((i, punt(port)))
        return found

    def natively_reached(self, placed: set[int], entries: Sequence[int]) -> set[int]:
        """The instances that native code may reach: from where packets come up, and from all other sources."""
        sources = [
            i for i, x in enumerate(self.program.instances) if (x.task >= 0 or x.timer >= 0) and i not in entries
        ]
        todo = [*sources, *(to[0] for to in self.ups(placed))]
        seen = set(todo)
        while todo:
            linked = self.program.instances[todo.pop()]
            ends = [to[0] for to in (*linked.outputs, *linked.inputs) if to is not None and to[0] not in seen]
            seen |= set(ends)
            todo += ends
        return seen - set(entries)

    def is_wire(self, i: int) -> bool:
        return has_wire(self.elements[i]) and not devices.is_input(self.elements[i])

    def kernel_unit(self, i: int) -> Unit:
        unit = self.placed_half(i).unit
        assert unit is not None, "a placed instance has a half"
        return unit

    def placed_half(self, i: int) -> Half:
        """The half of a placed instance; between a queue and its device packets are pushed through it as well."""
        return self.cut(i) if i in self.chain else self.half(i)
