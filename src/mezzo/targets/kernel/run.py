"""A whole router of which everything that can is in the kernel, and the rest in Python: the target under test.

A packet that is pushed to an instance in the kernel is run there (BPF_PROG_TEST_RUN) with its record, as far as it
gets; where it leaves the part, Python takes it on.  Functions that handlers call, tasks and pulls are Python's, on the
same state.  So the vectors that define every target hold this one to them too, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mezzo.base import Diagnostic
from mezzo.ir.module import Program
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.kernel.part import Part
from mezzo.targets.kernel.plan import Port, punt
from mezzo.targets.python.run import Engine as PythonEngine
from mezzo.targets.python.run import Instance as PythonInstance

LONGEST = 3500  # bytes that XDP has room for in a page, beside headroom and what the kernel keeps behind a packet


class Instance(PythonInstance):
    """An instance that is in the kernel where packets are pushed to it."""

    part: Part

    def take_in(self, port: int, packet: Packet) -> None:
        engine, part = self.engine, self.part
        if packet.length > LONGEST or (self.number, port) not in part.entries:
            super().take_in(port, packet)
            return
        engine.saw(self.number, port, packet)
        part.set_word("now", engine.now_ns)
        part.set_word("epoch", engine.epoch_ns)
        part.set_word("random", engine.seed)
        where = part.run(engine.arena, packet, part.entries.index((self.number, port)))
        engine.seed = part.word("random")
        if where is None:
            engine.arena.free(packet.frame)
            return
        if where[1] < 0:
            assert isinstance(engine, Engine)
            engine.punted += 1
            engine.instances[where[0]].work_on(punt(where[1]), packet)
            return
        to = engine.program.instances[where[0]].outputs[where[1]]
        assert to is not None, "an exit leads somewhere"
        engine.instances[to[0]].take_in(to[1], packet)


class Engine(PythonEngine):
    """`parts`: what is in the kernel.  `refused`: why the other instances are not.  `punted`: how many packets went up
    as they had come to an instance."""

    def __init__(
        self,
        program: Program,
        arena: Arena,
        cells: list[dict[str, Any]],
        code: list[dict[str, Callable[..., Any]]],
        hosts: Mapping[tuple[int, str], Callable[..., int | None]],
        seed: int,
        virtual: bool,
        trace: Callable[[int, int, int], None] | None,
        parts: list[Part],
        refused: Mapping[int, list[Diagnostic]],
    ) -> None:
        self.parts, self.refused, self.punted = parts, refused, 0
        self.placed = {i: part for part in parts for i in part.placed}
        mine = [given | self.placed[i].cells[i] if i in self.placed else given for i, given in enumerate(cells)]
        super().__init__(program, arena, mine, code, hosts, seed, virtual, trace)
        for i, part in self.placed.items():
            made = Instance(self, i, program.instances[i], mine[i], code[i])
            made.part = part
            self.instances[i] = made

    def drops(self, instance: int) -> dict[str, int]:
        counts = super().drops(instance)
        if instance in self.placed:
            for name, count in self.placed[instance].drops(instance).items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def close(self) -> None:
        super().close()
        for part in self.parts:
            part.close()


__all__ = ["Engine", "Instance", "Port"]
