"""A part of a router in the kernel: its maps, state and programs, and runs of it on packets that Python holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mezzo.base import bpf
from mezzo.ir.module import TABLES, Program
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.kernel import gates, notes, record
from mezzo.targets.kernel.cells import Views, make_cell
from mezzo.targets.kernel.emit import PROGRAMS, Emitter, Joints
from mezzo.targets.kernel.frame import ABORTED, DROP
from mezzo.targets.kernel.layout import NAMES, WORDS, Layout, Map, lanes_of, lay_out
from mezzo.targets.kernel.load import Compiler, Maps, load
from mezzo.targets.kernel.notes import NotingEmitter
from mezzo.targets.kernel.plan import KernelPlan, Port
from mezzo.targets.kernel.refusal import KernelRefusal
from mezzo.targets.kernel.roads import DEVICES, Road, Wire, halves, roads_of, same_sockets, split
from mezzo.targets.kernel.senders import load_senders

MOST_QUEUES = 256  # of a device that have sockets
KINDS = ("scalar", "array", *TABLES, "lpm", "blob")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program in the kernel; `text` is its assembly."""

    fd: int
    instructions: int
    text: str


@dataclass
class Draft:
    """A road on its way into the kernel: its instances, dealt out to programs, and these as they are written."""

    road: Road
    groups: list[list[int]]
    careful: bool = False
    joints: Joints = field(default_factory=lambda: Joints([], {}))
    programs: list[tuple[Emitter, str]] = field(default_factory=list)


class Part:
    """The placed instances of a program; `cells`: the contents of its state, which it takes over.

    With a plan there is a root program for each device input, `roots[n]` for `plan.entries[n]`: to be attached to its
    interface, with sockets of its queues in map `sockets{n}`, by queue, and interfaces in `devices`, by `plan.keys`.
    Behind them are those of `plan.injections`, which native code runs, with programs that send what comes of it.
    Without one there is one root, for packets that are given to it at `entries` with a record.  `noted`: packets may be
    followed (see notes).  `later`: programs are to be loaded by `load_roads`.
    """

    plan: KernelPlan | None = None
    injectors: Sequence[Any] = ()  # elements that run the roots of its plan's injections
    keeper: Any = None  # who lowers its gates, where it has some; ends with it

    def __init__(
        self,
        program: Program,
        placed: Sequence[int],
        entries: Sequence[Port],
        cells: Sequence[Mapping[str, Any]],
        *,
        frame_size: int = 2048,
        virtual: bool = False,
        wire: bool = False,
        wires: Mapping[Port, Wire] | None = None,
        more: Mapping[str, Map] | None = None,
        use_disk: bool = True,
        roads: Sequence[Road] = (),
        apart: Collection[tuple[int, str]] = (),
        noted: bool = False,
        sockets: Mapping[str, str] | None = None,
        before: Part | None = None,
        keep: Callable[[str], bool] = lambda name: True,
        later: bool = False,
    ) -> None:
        self.program, self.placed, self.entries = program, tuple(placed), list(entries)
        self.emitter: Callable[..., Emitter] = NotingEmitter if noted else Emitter
        more = {**(more or {}), **({notes.SYMBOL: notes.MAP} if noted else {})}
        self.roads = tuple(roads) or (Road(self.placed, tuple(entries), wire, wires or {}),)
        self.how: dict[str, Any] = {"frame_size": frame_size, "virtual": virtual}
        self.compiler = Compiler(use_disk)
        # State of other kinds is not for packets that are pushed, and stays where it is.
        states = [(i, s) for i in placed for s in program.instances[i].unit.states if s.kind in KINDS]
        self.blobs = {(i, s.name): len(cells[i][s.name]) for i, s in states if s.kind == "blob"}
        same = going_on(before, program, self.placed, apart, keep) if before else {}
        self.layout: Layout = lay_out(program, self.placed, self.blobs, apart, before.layout if before else None, same)
        most = sum(len(road.placed) for road in self.roads)
        self.layout.maps.update({PROGRAMS: Map(bpf.MAP_PROG_ARRAY, 4, 4, max(most, 1)), **more})
        given = before.maps.descriptors if before else {}
        self.layout.taken.update(sockets or {})
        self.maps: Maps = Maps.make(self.layout, {mine: given[theirs] for mine, theirs in self.layout.taken.items()})
        self.views = Views(self.maps)
        self.programs: list[Loaded] = []
        self.roots: list[Loaded] = []
        self.senders: list[int] = []
        try:
            self.cells: dict[int, dict[str, Any]] = {i: {} for i in placed}
            for i, state in states:
                place = self.layout.places[i, state.name]
                old = before.cells[self.layout.same[i]][state.name] if before and i in self.layout.same else None
                self.cells[i][state.name] = make_cell(self.views, place, state, cells[i][state.name], old)
            self.drafts = self._drafts()
            (self.begin_roads if later else self.load_roads)()
        except BaseException:
            self.close()
            raise

    def begin_roads(self) -> None:
        """Another process has LLVM work at the programs, while there is other work to do before `load_roads`."""
        self.compiler.begin([text for draft in self.drafts for _, text in self._written(draft)])

    def load_roads(self) -> None:
        for draft in self.drafts:
            self._load(draft)
        self.drafts.clear()

    def _drafts(self) -> list[Draft]:
        return [Draft(road, split(self.program, road.placed)) for road in self.roads]

    def _written(self, draft: Draft) -> list[tuple[Emitter, str]]:
        """The programs of a road, each with who wrote it."""
        if not draft.programs:
            number = {i: n for n, group in enumerate(draft.groups) for i in group}
            draft.joints = Joints(draft.road.entries, number)
            how = {"blobs": self.blobs, "careful": draft.careful, **self.how}
            for n, group in enumerate(draft.groups):
                emitter = self.emitter(self.program, group, self.layout, draft.joints, draft.road, root=n == 0, **how)
                draft.programs.append((emitter, emitter.module()))
        return draft.programs

    @classmethod
    def of(
        cls,
        plan: KernelPlan,
        cells: Sequence[Mapping[str, Any]],
        *,
        frags: bool = False,
        before: Part | None = None,
        **options: Any,
    ) -> Part:
        """The part of a plan; with `frags` its programs take packets of several buffers (and send them up whole).

        With `before` it is to be put in the place of a part that runs: elements of the same name and kind that `keep`
        says yes to go on with their state, in the same maps; so do sockets, by interface.  See `replaced_by`."""
        roads = roads_of(plan, frags)
        more = {f"sockets{n}": Map(bpf.MAP_XSK, 4, 4, MOST_QUEUES) for n in range(len(plan.entries))}
        more[DEVICES] = Map(bpf.MAP_DEVMAP, 4, 4, max(len(plan.keys), 1))
        same = same_sockets(before.plan, plan) if before and before.plan else {}
        if plan.needs_gates(frags):
            more[gates.SYMBOL] = gates.MAP
            same |= {gates.SYMBOL: gates.SYMBOL} if before and gates.SYMBOL in before.layout.maps else {}
        options["sockets"] = same
        part = cls(plan.program, plan.placed, plan.entries, cells, more=more, roads=roads, before=before, **options)
        part.plan = plan
        try:
            part.senders = load_senders(plan, part.maps.descriptors, frags)
        except BaseException:
            part.close()
            raise
        if before is not None:
            part._copy_devices(before)
        return part

    def _copy_devices(self, before: Part) -> None:
        assert self.plan is not None and before.plan is not None
        there = {before.plan.devices[i]: key for i, key in before.plan.keys.items()}
        for i, key in self.plan.keys.items():
            place = there.get(self.plan.devices[i], -1).to_bytes(4, "little", signed=True)
            index = bpf.map_get(before.maps.descriptors[DEVICES], place, 4)
            with suppress(OSError):  # it is gone meanwhile
                if index:
                    bpf.map_put(self.maps.descriptors[DEVICES], key.to_bytes(4, "little"), index)

    def replaced_by(self, new: Part, links: Mapping[str, int]) -> None:
        """Puts the programs of `new` in the place of those that `links` attach to interfaces, by name: from packet to
        packet, without a moment in between."""
        assert new.plan is not None
        for root, (i, _) in zip(new.device_roots, new.plan.entries, strict=True):
            if new.plan.devices[i] in links:
                bpf.update_link(links[new.plan.devices[i]], root.fd)

    def _load(self, draft: Draft) -> None:
        """Loads the programs of a road; one that the verifier finds too large becomes two, and where it does not follow
        the quickest code, the road is written with more care."""
        groups, start = draft.groups, len(self.programs)
        while True:
            try:
                for n, (emitter, text) in enumerate(self._written(draft)):
                    self._load_one(emitter, text, draft.road, n)
            except KernelRefusal as refusal:
                at = len(self.programs) - start
                halve = refusal.is_size and len(groups[at]) > 1
                if halve:
                    groups[at : at + 1] = halves(groups[at])
                elif draft.careful:
                    refusal.instance = groups[at][0] if len(groups[at]) == 1 else refusal.instance
                    raise
                draft.careful = not halve
                draft.programs.clear()
                self._unload(start)
                continue
            self.number, self.exits = draft.joints.programs, draft.joints.exits
            self.roots.append(self.programs[start])
            return

    def _load_one(self, emitter: Emitter, text: str, road: Road, number: int) -> None:
        flags = bpf.HAS_FRAGS if road.frags else 0
        fd, size = load(text, emitter.t.spans, self.maps, self.compiler, flags, emitter.t.owners)
        self.programs.append(Loaded(fd, size, text))
        key = (road.first + number).to_bytes(4, "little")
        bpf.map_put(self.maps.descriptors[PROGRAMS], key, fd.to_bytes(4, "little"))

    # -- running

    def run(self, arena: Arena, packet: Packet, entry: int) -> Port | None:
        """Runs the program on a packet: (instance, output) by which it leaves, or None where it died; its frame is
        the caller's either way."""
        fd = self.programs[self.number[self.entries[entry][0]]].fd
        told = bpf.test_run(fd, *record.pack(arena, packet, entry), room=arena.frame_size + 512)
        assert told.verdict != ABORTED, "the program did not take the record"
        if told.verdict == DROP:
            return None
        return self.exits[record.unpack(arena, packet, told.metadata, told.packet)]

    # -- words of the runtime

    def word(self, name: str) -> int:
        return self.views.get("state", WORDS[name], 8)

    def set_word(self, name: str, value: int) -> None:
        self.views.put("state", WORDS[name], 8, value)

    # -- asking

    def drops(self, instance: int) -> dict[str, int]:
        """Packets that died here, by reason; zeros left out."""
        names = [*NAMES, *self.program.instances[instance].unit.reasons]
        first, lanes = self.layout.drops[instance], range(self.layout.lanes)
        counts = [
            sum(self.views.get("lanes", self.layout.lane * lane + first + 8 * n, 8) for lane in lanes)
            for n in range(len(names))
        ]
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    @property
    def device_roots(self) -> list[Loaded]:
        """The roots of the plan's entries."""
        return self.roots[: len(self.plan.entries)] if self.plan is not None else self.roots

    @property
    def injected_roots(self) -> list[Loaded]:
        """Those of its injections."""
        return self.roots[len(self.device_roots) :]

    @property
    def instructions(self) -> int:
        return sum(one.instructions for one in self.programs)

    @property
    def fd(self) -> int:
        """The program that packets from a wire come to."""
        return self.programs[0].fd

    def _unload(self, start: int = 0) -> None:
        for one in self.programs[start:]:
            os.close(one.fd)
        del self.programs[start:]

    def close(self) -> None:
        """Unloads the programs and gives the maps back."""
        self.compiler.close()
        if self.keeper is not None:
            self.keeper.close()
        for injector in self.injectors:
            injector.leave(self)
        self._unload()
        for fd in self.senders:
            os.close(fd)
        self.senders.clear()
        self.views.close()
        self.maps.close()


def going_on(
    before: Part,
    program: Program,
    placed: Sequence[int],
    apart: Collection[tuple[int, str]],
    keep: Callable[[str], bool],
) -> dict[int, int]:
    """Of each placed instance that goes on with the state of one of a part that runs, that one: it has the name, and
    its state and counters lie in the same way."""
    there = {before.program.instances[i].name: i for i in before.placed}
    found: dict[int, int] = {}
    for i in placed:
        unit, old = program.instances[i].unit, there.get(program.instances[i].name)
        if old is None or not keep(program.instances[i].name):
            continue
        other = before.program.instances[old].unit
        lanes = {name for (j, name), place in before.layout.places.items() if j == old and place.is_lane}
        if (unit.states, unit.reasons, lanes_of(unit, i, apart)) == (other.states, other.reasons, lanes):
            found[i] = old
    return found
