"""Which elements run in the kernel, and why the others do not: from wishes to a plan for the kernel.

The native program stays whole.  The kernel's is a second copy of a prefix of the graph, from the devices that packets
come from: it grows along push connections from element to element, as long as these have a half that goes (`punt`) and
nobody wishes otherwise.  Where it ends packets go up, and natively continue at that very input.  Ends of devices, and
the queue in front of one, come along by themselves.

Packets that native code has may go back there (`returns`): what is behind grows in the same way.

`auto` leaves out what is not worth its place:
* elements behind which every way goes up, when all they can do for a packet there is to change it before it does;
* elements that only packets reach that something is wrong with (they leave others by an output that may be left
  unconnected), when they are long: the verifier would prove them on each load for packets that hardly come.

What several CPUs would change at once stays out as well: the ways of an element that do so, or the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from mezzo.base import Diagnostic, MezzoError, Note, Span
from mezzo.graph import Graph, Resolved
from mezzo.ir.module import Program
from mezzo.pipeline import devices, kept, order
from mezzo.pipeline.link import Linker
from mezzo.pipeline.returns import Returns, up_places
from mezzo.pipeline.told import BOTH, KERNEL, NATIVE, Placement, Row
from mezzo.pipeline.units import units_of
from mezzo.pipeline.uses import read_by_packets
from mezzo.pipeline.wire import WIRE, has_wire
from mezzo.pipeline.wishes import Wish
from mezzo.targets.kernel.layout import looked_at
from mezzo.targets.kernel.plan import Injection, KernelPlan, Port
from mezzo.targets.kernel.punt import adds, adds_in_arrays, sets

RARE = 100  # nodes of an element that only wrong packets reach


def place_elements(
    linker: Linker, resolved: Resolved, wishes: Sequence[Wish], virtual: bool = False, ordered: bool = True
) -> Placement:
    """Where the elements of a router go; MezzoError tells of all that was wished for and cannot be.  `ordered`: the
    packets of a flow leave in the order in which they came."""
    placer = _Placer(linker, resolved.graph, wishes, virtual, ordered)
    known = [(w.level, str(w)) if w is not None else None for w in placer.wishes]
    name = kept.name_of(placer.elements, placer.program, [known, virtual, ordered])
    found = kept.load(name, placer.program)
    if found is None:
        found = placer.run()
        kept.save(name, found)
    graph = resolved.graph.instances
    return replace(found, rows=tuple(replace(row, place=graph[row.name].span) for row in found.rows))


def with_ups(linker: Linker, resolved: Resolved, placement: Placement) -> Linker:
    """The native router whose device inputs take in what comes up from the kernel."""
    kernel = placement.kernel
    places = {i - 1: to for i, to in up_places(kernel).items()} if kernel is not None else {}
    units = list(linker.units)
    for i, element in enumerate(linker.elements):
        if devices.takes_up(element) and getattr(element, "up", False) != (i in places):
            element.up = i in places  # type: ignore[attr-defined]  # a constant of its packet code
            units[i] = units_of([element])[0]
    return Linker(resolved, linker.elements, units, places)


class _Placer(Returns):
    """Decides, and tells why."""

    def __init__(self, linker: Linker, graph: Graph, wishes: Sequence[Wish], virtual: bool, ordered: bool) -> None:
        super().__init__(linker, wishes, virtual)
        self.graph, self.ordered = graph, ordered
        self.looks: dict[str, set[str]] = {}
        self.changed: dict[tuple[str, str, bool], frozenset[str]] = {}  # by digests; see raced_by

    def run(self) -> Placement:
        entries = self.inputs()
        placed = self.settle(entries)
        self.require(placed)
        plan = self.plan([i for i in entries if i in placed], placed) if placed else None
        rows = tuple(self.row(i, placed, plan) for i in range(1, len(self.elements)) if self.shown(i))
        return Placement(rows, plan, self.about_order(plan) if plan is not None else "")

    def settle(self, entries: Sequence[int]) -> set[int]:
        """The instances of the kernel: what is reached, less what is left out, until nothing changes."""
        while True:
            self.sources = self.handed_over(entries)
            starts = [*entries, *(to[0] for to, _ in self.sources.values())]
            placed = self.reached(starts)
            if self.tamed(placed, entries):
                continue
            out = self.strangers(placed, entries) or self.long_and_rare(placed, starts) or self.useless(placed)
            out = out or self.without_input(placed)
            if not out:
                return placed
            self.left |= out

    # -- what is left out

    def strangers(self, placed: set[int], entries: Sequence[int]) -> dict[int, str]:
        """Ways to the host's stack for packets of another interface: there the kernel passes on what came by it."""
        found = {}
        for i in sorted(placed):
            mine = getattr(self.elements[i], "host_device", None)
            starts = [(e, e) for e in entries] + [(to[0], e) for to, e in self.sources.values()]
            others = {self.device(e) for start, e in starts if mine is not None and i in self.reached([start])}
            if others - {mine}:
                found[i] = f"packets of {_listed(sorted(others - {mine}))} come here, and are to seem to be of `{mine}`"
        return found

    def long_and_rare(self, placed: set[int], entries: Sequence[int]) -> dict[int, str]:
        usual = self.reached(entries, usual=True)
        found = {}
        for i in sorted(placed - usual):
            size = self.ways(i).size
            if self.level(i) == "auto" and size > RARE:
                found[i] = f"only packets that something is wrong with come here, and it is long ({size} nodes of IR)"
        return found

    def useless(self, placed: set[int]) -> dict[int, str]:
        """What is not asked for by name and does nothing that saves a packet the way up."""
        useful = {i for i in placed if self.is_useful(i)}
        while True:
            more = {i for i in placed - useful if any(to[0] in useful for to in self.made_ways(i).values())}
            if not more:
                break
            useful |= more
        return {i: self.why_useless(i) for i in sorted(placed - useful)}

    def why_useless(self, i: int) -> str:
        if self.half(i).is_whole or self.ways(i).ports:
            return "not worth its place: what it sends on goes up behind it"
        return self.half(i).ups[0].message

    def is_useful(self, i: int) -> bool:
        """Whether it is worth its place by itself: asked for, the end of a way, or a filter."""
        asked = self.level(i) in ("kernel", "kernel?")
        return asked or self.is_wire(i) or not any(self.program.instances[i].outputs) or self.ways(i).filters

    def made_ways(self, i: int) -> dict[int, Port]:
        """Where packets come to that it has changed; where it changes none, all ways."""
        ways = self.ways(i)
        return {port: to for port, to in self.behind(i).items() if not ways.changed or ways.changes(port)}

    def tamed(self, placed: set[int], entries: Sequence[int]) -> bool:
        """Takes other halves of those whose code would be wrong on several CPUs at once; whether there were some."""
        native = self.natively_reached(placed, entries)
        if self.ordered and self.overtaken(placed):  # then packets may also go up whole
            native |= placed
        queues = {i: devices.queues_of(self.elements[i]) for i in entries}
        roads = {i: self.reached([i]) for i in entries}
        handed = [self.reached([to[0]]) for to, _ in self.sources.values()]
        found: dict[int, frozenset[str]] = {}
        for i in sorted(placed):
            sources = sum(queues[e] for e in entries if i in roads[e]) + (i in native)
            sources += sum(i in road for road in handed)
            raced = self.raced_by(i, i in native) if sources > 1 and not has_wire(self.elements[i]) else frozenset()
            found |= {i: raced} if raced else {}
        for i, raced in found.items():
            self.raced[i] = self.raced.get(i, frozenset()) | raced
            self.halves[i] = self.cut(i)
        if found:  # what is behind queues is looked at anew
            self.roads, self.chain = {}, {}
        return bool(found)

    def raced_by(self, i: int, native: bool) -> frozenset[str]:
        """State that kernel code changes and that must not be changed by two at once: what packets look at, too; and of
        what native code adds to, what has one place for both levels."""
        unit, whole = self.kernel_unit(i), self.whole(i)
        key = unit.digest, whole.digest, native
        if key not in self.changed:
            added = adds(unit) & self.looked_at(i) if native else set()
            changed = sets(unit) | adds_in_arrays(unit) & sets(whole)
            self.changed[key] = frozenset((changed & read_by_packets(whole)) | added)
        return self.changed[key] - set(type(self.elements[i]).racy)

    # -- the plan

    def plan(self, entries: Sequence[int], placed: set[int]) -> KernelPlan:
        program = self.kernel_program(placed)
        ups = self.ups(placed)
        placing = [*entries, *sorted(placed - set(entries))]
        found = KernelPlan(
            program,
            tuple(placing),
            tuple((i, 0) for i in entries),
            wires={(i, WIRE): i for i in placing if self.is_wire(i)},
            devices={i: name for i in placing if (name := getattr(self.elements[i], "devname", ""))},
            no_turn=frozenset(i for i in placing if devices.cannot_turn(self.elements[i])),
            apart=frozenset((i, name) for i in placing for name in self.looked_at(i)),
            injections=tuple(Injection(i, to, entries.index(e)) for i, (to, e) in self.sources.items()),
            ordered=self.ordered,
            overtaken=bool(self.overtaken(placed)),
        )
        number = {to: n for n, to in enumerate(ups)}
        ways = {source: number[to] for to, sources in ups.items() for source in sources}
        return replace(found, ups=tuple(ups), ways=ways)

    def overtaken(self, placed: set[int]) -> list[str]:
        """Devices to which packets go from the kernel, and from where they went up."""
        wires = [i for i in placed if self.is_wire(i)]
        return order.met(self.program, self.elements, {to[0] for to in self.ups(placed)}, wires) if wires else []

    def about_order(self, plan: KernelPlan) -> str:
        devices = self.overtaken(set(plan.placed))
        if not plan.wires:
            return ""
        if not devices:
            return "nothing that goes up comes to where the kernel sends, so a flow's packets stay in order"
        if not self.ordered:
            return f"a flow's packets may overtake those that are up on their way to {' and '.join(devices)} (loose)"
        return f"packets go up while others of their flow are up on their way to {' and '.join(devices)}"

    def looked_at(self, i: int) -> set[str]:
        """State of the half that native code does more with than add."""
        whole = self.whole(i)
        if whole.digest not in self.looks:
            self.looks[whole.digest] = looked_at(whole.functions)
        return self.looks[whole.digest] & {state.name for state in self.kernel_unit(i).states}

    def kernel_program(self, placed: set[int]) -> Program:
        """The program in which placed instances have their halves, and what is behind them in the kernel."""
        instances = list(self.program.instances)
        for i in placed:
            linked, behind = instances[i], self.behind(i)
            outputs = tuple(behind.get(port, to) for port, to in enumerate(linked.outputs))
            instances[i] = replace(linked, unit=self.kernel_unit(i), outputs=outputs, pull_inputs=(), pull_outputs=())
        return replace(self.program, instances=tuple(instances))

    # -- what is told

    def shown(self, i: int) -> bool:
        return self.elements[i].name in self.graph.instances

    def has_ports(self, i: int) -> bool:
        return bool(self.elements[i].ninputs or self.elements[i].noutputs)

    def require(self, placed: set[int]) -> None:
        """What was wished for and is not so is an error."""
        troubles = []
        for i, wish in enumerate(self.wishes):
            asked = wish is not None and wish.level == "kernel" and self.shown(i) and self.has_ports(i)
            if wish is not None and asked and i not in placed and i not in self.sources:
                if devices.is_queue(self.program.instances[i]) and not self.road(i).why:
                    continue
                why, span = self.why_native(i)
                notes = [Note(f"wished by `{wish}`", wish.span)] if wish.span is not None else []
                text = f"`{self.elements[i].name}` cannot be in the kernel: {why}"
                hint = f"say `{wish.pattern}=kernel?` for what can be, or `{self.elements[i].name}=native`"
                troubles.append(Diagnostic(text, span, notes=tuple(notes), hint=hint))
        if troubles:
            raise MezzoError(*troubles)

    def row(self, i: int, placed: set[int], plan: KernelPlan | None) -> Row:
        element, instance = self.elements[i], self.graph.instances[self.elements[i].name]
        level, why, span = self.told(i, placed, plan)
        return Row(element.name, type(element).__name__, level, why, span, instance.span)

    def told(self, i: int, placed: set[int], plan: KernelPlan | None) -> tuple[str, str, Span | None]:
        element = self.elements[i]
        if plan is not None and devices.is_queue(self.program.instances[i]) and self.is_passed(i, placed):
            return BOTH, "the device's own queue; what comes up waits here", None
        if plan is not None and i in self.sources:
            return BOTH, f"packets go back into the kernel here: {self.device(self.sources[i][1])}", None
        if i in placed and devices.is_injector(element):
            return KERNEL, f"packets pass; none go back: {self.why_not_handed_over(i, self.inputs())}", None
        if i not in placed:
            return NATIVE, *self.why_native(i)
        if devices.is_input(element):
            return KERNEL, f"packets enter here: {getattr(element, 'devname', '')}", None
        if self.is_wire(i):
            device = getattr(element, "devname", "")
            return BOTH, f"packets leave here: {device}" if device else "the host's stack gets them", None
        half = self.placed_half(i)
        if half.is_whole:
            return KERNEL, "all it does", None
        return BOTH, f"the rest goes up: {'; '.join(d.message for d in half.ups)}", half.ups[0].span

    def is_passed(self, queue: int, placed: set[int]) -> bool:
        """Whether packets of the kernel come to a queue."""
        road = self.road(queue)
        ends = [to for i in placed for to in self.program.instances[i].outputs if i not in self.chain]
        return not road.why and road.device in placed and any(to is not None and to[0] == queue for to in ends)

    def why_native(self, i: int) -> tuple[str, Span | None]:
        if i in self.left:
            told = self.half(i).ups
            return self.left[i], told[0].span if told and told[0].message == self.left[i] else None
        if self.level(i) == NATIVE:
            return ("so it is wished" if self.wishes[i] is not None else "nobody wishes otherwise"), None
        linked = self.program.instances[i]
        if devices.is_injector(self.elements[i]):
            return self.why_not_handed_over(i, self.inputs()), None
        if devices.is_queue(linked):
            return self.road(i).why or "no packets come to it in the kernel", None
        half = self.half(i)
        if half.unit is None:
            return half.ups[0].message, half.ups[0].span
        return self.why_apart(i), None

    @cached_property
    def pushers(self) -> dict[int, list[int]]:
        """The instances from which packets are pushed to each."""
        found: dict[int, list[int]] = {}
        for j, linked in enumerate(self.program.instances):
            for to in linked.outputs:
                if to:
                    found.setdefault(to[0], []).append(j)
        return found

    def why_apart(self, i: int) -> str:
        """Why no packets come to an instance in the kernel."""
        before = [self.elements[j].name for j in self.pushers.get(i, ())]
        if not before:
            return "no packets are pushed to it"
        return f"packets come to it from {_listed(before)}, which does not send them here in the kernel"


def _listed(names: Sequence[str]) -> str:
    shown = [f"`{n}`" for n in dict.fromkeys(names)]
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
