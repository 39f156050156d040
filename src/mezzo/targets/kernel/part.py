"""A part of a router in the kernel: its maps, its state, its program, and runs of it on packets that Python holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from mezzo.base import bpf
from mezzo.ir.module import Program
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.kernel import record
from mezzo.targets.kernel.cells import Views, make_cell
from mezzo.targets.kernel.emit import Emitter, Port, Wire
from mezzo.targets.kernel.frame import ABORTED, DROP
from mezzo.targets.kernel.layout import WORDS, lay_out
from mezzo.targets.kernel.load import Maps, load

NAMES = ("fault", "no output")
KINDS = ("scalar", "array", "table", "lpm", "blob")


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
        more: Mapping[str, Any] | None = None,
        use_disk: bool = True,
    ) -> None:
        self.program, self.placed, self.entries = program, tuple(placed), list(entries)
        # State of other kinds is not for packets that are pushed, and stays where it is.
        states = [(i, s) for i in placed for s in program.instances[i].unit.states if s.kind in KINDS]
        blobs = {(i, s.name): len(cells[i][s.name]) for i, s in states if s.kind == "blob"}
        self.layout = lay_out(program, self.placed, blobs)
        self.layout.maps.update(more or {})
        self.maps = Maps.make(self.layout)
        self.views = Views(self.maps)
        self.fd = -1
        try:
            self.cells: dict[int, dict[str, Any]] = {i: {} for i in placed}
            for i, state in states:
                place = self.layout.places[i, state.name]
                self.cells[i][state.name] = make_cell(self.views, place, state, cells[i][state.name])
            emitter = Emitter(
                program, self.placed, self.layout, self.entries,
                blobs=blobs, frame_size=frame_size, virtual=virtual, wire=wire, wires=wires,
            )  # fmt: skip
            self.text = emitter.module()
            self.exits = list(emitter.exits)
            self.fd, self.instructions = load(self.text, emitter.t.spans, self.maps, use_disk)
        except BaseException:
            self.close()
            raise

    # -- running

    def run(self, arena: Arena, packet: Packet, entry: int) -> Port | None:
        """Runs the program on a packet: (instance, output) by which it leaves, or None where it died; its frame is
        the caller's either way."""
        told = bpf.test_run(self.fd, *record.pack(arena, packet, entry), room=arena.frame_size + 512)
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

    def close(self) -> None:
        """Unloads the program and gives the maps back."""
        self.views.close()
        self.maps.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
