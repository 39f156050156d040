"""A part of a router in the kernel: its maps, state and programs, and runs of it on packets that Python holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mezzo.base import bpf
from mezzo.ir.module import TABLES, Program
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.kernel import gates, notes, record
from mezzo.targets.kernel.cells import Views, make_cell
from mezzo.targets.kernel.emit import PROGRAMS, Emitter, Joints
from mezzo.targets.kernel.frame import ABORTED, DROP
from mezzo.targets.kernel.layout import NAMES, WORDS, Layout, Map, lanes_of, lay_out
from mezzo.targets.kernel.load import Maps, load
from mezzo.targets.kernel.notes import NotingEmitter
from mezzo.targets.kernel.plan import KernelPlan, Port
from mezzo.targets.kernel.refusal import KernelRefusal
from mezzo.targets.kernel.roads import DEVICES, Road, Wire, halves, roads_of, same_sockets, split

MOST_QUEUES = 256  # of a device that have sockets
KINDS = ("scalar", "array", *TABLES, "lpm", "blob")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program in the kernel; `text` is its assembly."""

    fd: int
    instructions: int
    text: str


class Part:
    """The placed instances of a program; `cells`: the contents of its state, which it takes over.

    With a plan there is a root program for each device input, `roots[n]` for `plan.entries[n]`: to be attached to its
    interface, with sockets of its queues in map `sockets{n}`, by queue, and interfaces in `devices`, by `plan.keys`.
    Without one there is one root, for packets that are given to it at `entries` with a record.  `noted`: packets may be
    followed (see notes).
    """

    plan: KernelPlan | None = None
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
    ) -> None:
        self.program, self.placed, self.entries = program, tuple(placed), list(entries)
        self.emitter: Callable[..., Emitter] = NotingEmitter if noted else Emitter
        more = {**(more or {}), **({notes.SYMBOL: notes.MAP} if noted else {})}
        self.roads = tuple(roads) or (Road(self.placed, tuple(entries), wire, wires or {}),)
        self.how: dict[str, Any] = {"use_disk": use_disk, "frame_size": frame_size, "virtual": virtual}
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
        try:
            self.cells: dict[int, dict[str, Any]] = {i: {} for i in placed}
            for i, state in states:
                place = self.layout.places[i, state.name]
                old = before.cells[self.layout.same[i]][state.name] if before and i in self.layout.same else None
                self.cells[i][state.name] = make_cell(self.views, place, state, cells[i][state.name], old)
            self.load_roads()
        except BaseException:
            self.close()
            raise

    def load_roads(self) -> None:
        for road in self.roads:
            self._load(road, **self.how)

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
        more = {f"sockets{n}": Map(bpf.MAP_XSK, 4, 4, MOST_QUEUES) for n in range(len(roads))}
        more[DEVICES] = Map(bpf.MAP_DEVMAP, 4, 4, max(len(plan.keys), 1))
        same = same_sockets(before.plan, plan) if before and before.plan else {}
        if plan.needs_gates(frags):
            more[gates.SYMBOL] = gates.MAP
            same |= {gates.SYMBOL: gates.SYMBOL} if before and gates.SYMBOL in before.layout.maps else {}
        options["sockets"] = same
        part = cls(plan.program, plan.placed, plan.entries, cells, more=more, roads=roads, before=before, **options)
        part.plan = plan
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
        for root, (i, _) in zip(new.roots, new.plan.entries, strict=True):
            if new.plan.devices[i] in links:
                bpf.update_link(links[new.plan.devices[i]], root.fd)

    def _load(self, road: Road, *, use_disk: bool, **options: Any) -> None:
        """Loads the programs of a road; one that the verifier finds too large becomes two, and where it does not follow
        the quickest code, the road is written with more care."""
        groups, start, careful = split(self.program, road.placed), len(self.programs), False
        while True:
            number = {i: n for n, group in enumerate(groups) for i in group}
            joints = Joints(road.entries, number)
            try:
                for n, group in enumerate(groups):
                    how = {"root": n == 0, "blobs": self.blobs, "careful": careful, **options}
                    emitter = self.emitter(self.program, group, self.layout, joints, road, **how)
                    self._load_one(emitter, road, n, use_disk)
            except KernelRefusal as refusal:
                at = len(self.programs) - start
                halve = refusal.is_size and len(groups[at]) > 1
                if halve:
                    groups[at : at + 1] = halves(groups[at])
                elif careful:
                    refusal.instance = groups[at][0] if len(groups[at]) == 1 else refusal.instance
                    raise
                careful = not halve
                self._unload(start)
                continue
            self.number, self.exits = number, joints.exits
            self.roots.append(self.programs[start])
            return

    def _load_one(self, emitter: Emitter, road: Road, number: int, use_disk: bool) -> None:
        text = emitter.module()
        flags = bpf.HAS_FRAGS if road.frags else 0
        fd, size = load(text, emitter.t.spans, self.maps, use_disk, flags, emitter.t.owners)
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
        if self.keeper is not None:
            self.keeper.close()
        self._unload()
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
