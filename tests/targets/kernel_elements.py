"""Elements for the tests of refusals: golden errors show their lines."""

from __future__ import annotations

from mezzo.elements import Element, Packet, Port, Table, u32, u64


class ReadsFar(Element):
    """Reads at a constant place."""

    ports, processing = "1/1", "a/a"

    def process(self, p: Packet) -> Port:
        if p.u16(12) == 0x0800:
            p.paint = 3
        return 0


class ReadsAnywhere(Element):
    """Reads where the packet says."""

    ports, processing = "1/1", "a/a"

    def process(self, p: Packet) -> Port:
        at = u32(p.u16(0))
        p.paint = p.u8(at)
        return 0


class Pushes(Element):
    """Grows in front, then reads."""

    ports, processing = "1/1", "a/a"

    def process(self, p: Packet) -> Port:
        p.prepend(100)
        p.set_u16(0, 7)
        return 0


class Keeps(Element):
    """Clones."""

    ports, processing = "1/2", "h/h"

    def push(self, port, p):
        q = p.clone()
        if q is not None:
            self.push(1, q)
        self.push(0, p)


class LooksUp(Element):
    """Asks a table."""

    ports, processing = "1/1", "a/a"
    seen: Table[u64, u64, 16]

    def process(self, p: Packet) -> Port:
        if self.seen.get(u64(p.u32(0)), 0) > 3:
            p.paint = 3
        return 0
