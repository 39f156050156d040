"""A part of a router in the kernel: its maps, state and programs, and runs of it on packets that Python holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mezzo.base import bpf
from mezzo.ir.module import Program
from mezzo.ir.spec import nodes
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.kernel import record
from mezzo.targets.kernel.cells import Views, make_cell
from mezzo.targets.kernel.emit import PROGRAMS, Emitter, Joints, Port, Wire, order_of
from mezzo.targets.kernel.frame import ABORTED, DROP
from mezzo.targets.kernel.layout import WORDS, Map, lay_out, packet_functions
from mezzo.targets.kernel.load import Maps, load
from mezzo.targets.kernel.refusal import KernelRefusal

NAMES = ("fault", "no output")
MOST_NODES = 2000  # of IR in a program: twice as many take more than 512 bytes of stack
KINDS = ("scalar", "array", "table", "lpm", "blob")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program in the kernel; `text` is its assembly."""

    fd: int
    instructions: int
    text: str


class Part:
    """The placed instances of a program.  `entries`: where packets may be given to it; `cells`: the contents of its
    state, which it takes over."""

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
    ) -> None:
        self.program, self.placed, self.entries = program, tuple(placed), list(entries)
        # State of other kinds is not for packets that are pushed, and stays where it is.
        states = [(i, s) for i in placed for s in program.instances[i].unit.states if s.kind in KINDS]
        self.blobs = {(i, s.name): len(cells[i][s.name]) for i, s in states if s.kind == "blob"}
        self.layout = lay_out(program, self.placed, self.blobs)
        programs = Map(bpf.MAP_PROG_ARRAY, 4, 4, max(len(placed), 1))
        self.layout.maps.update({PROGRAMS: programs, **(more or {})})
        self.maps = Maps.make(self.layout)
        self.views = Views(self.maps)
        self.programs: list[Loaded] = []
        try:
            self.cells: dict[int, dict[str, Any]] = {i: {} for i in placed}
            for i, state in states:
                place = self.layout.places[i, state.name]
                self.cells[i][state.name] = make_cell(self.views, place, state, cells[i][state.name])
            self._load(split(program, self.placed), wire, use_disk, frame_size=frame_size, virtual=virtual, wires=wires)
        except BaseException:
            self.close()
            raise

    def _load(self, groups: list[list[int]], wire: bool, use_disk: bool, **options: Any) -> None:
        """Loads a program for each group; one that the verifier finds too large becomes two."""
        while True:
            number = {i: n for n, group in enumerate(groups) for i in group}
            joints = Joints(self.entries, number)
            try:
                for n, group in enumerate(groups):
                    emitter = Emitter(
                        self.program, group, self.layout, joints, blobs=self.blobs, wire=wire and n == 0, **options
                    )
                    text = emitter.module()
                    fd, size = load(text, emitter.t.spans, self.maps, use_disk)
                    self.programs.append(Loaded(fd, size, text))
                    bpf.map_put(self.maps.descriptors[PROGRAMS], n.to_bytes(4, "little"), fd.to_bytes(4, "little"))
            except KernelRefusal as refusal:
                large = groups[len(self.programs)]
                if not refusal.is_size or len(large) == 1:
                    raise
                groups[len(self.programs) : len(self.programs) + 1] = halves(large)
                self._unload()
                continue
            self.number, self.exits = number, joints.exits
            return

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

    def _unload(self) -> None:
        for one in self.programs:
            os.close(one.fd)
        self.programs.clear()

    def close(self) -> None:
        """Unloads the programs and gives the maps back."""
        self._unload()
        self.views.close()
        self.maps.close()


def split(program: Program, placed: Sequence[int]) -> list[list[int]]:
    """The placed instances as programs of a size that the verifier takes, cut between elements."""
    groups: list[list[int]] = [[]]
    room = MOST_NODES
    for i in order_of(program, placed):
        size = sum(1 for f in packet_functions(program.instances[i].unit) for _ in nodes(f.body))
        if size > room and groups[-1]:
            groups.append([])
            room = MOST_NODES
        groups[-1].append(i)
        room -= size
    return groups


def halves(group: list[int]) -> list[list[int]]:
    return [group[: len(group) // 2], group[len(group) // 2 :]]
