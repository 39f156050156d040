"""Conservation: every frame of the arena is free, a packet that an element holds, or in a ring that a port knows of.

The arena is walked frame by frame, and what is found is compared with what the free lists, the elements and the ports
say they have.  Where the two differ, a frame is lost or held twice, and the ledger says on whose account.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mezzo.packet.arena import FREE, IN_RING, META, META_SIZE

if TYPE_CHECKING:
    from mezzo.runtime.router import Router


@dataclass(frozen=True)
class Ledger:
    """Found by the walk: `free`, `packets`, `in_rings`.  Told: `listed` by free lists, `held` by elements, `ports`."""

    frames: int
    free: int
    packets: int
    in_rings: int
    listed: int
    held: dict[str, int]
    ports: dict[str, dict[str, int]]

    @property
    def balanced(self) -> bool:
        return not self.troubles()

    def troubles(self) -> list[str]:
        """What does not agree, in words."""
        ports = {name: sum(places.values()) for name, places in self.ports.items()}
        rows = (
            ("free", self.free, self.listed, "the free lists"),
            ("packets", self.packets, sum(self.held.values()), _names(self.held) or "elements"),
            ("in rings", self.in_rings, sum(ports.values()), _names(ports) or "ports"),
        )
        return [
            f"{found} frames are {what}, but {who} {'has' if who in (*self.held, *ports) else 'have'} {told}"
            for what, found, told, who in rows
            if found != told
        ]

    def table(self) -> str:
        rows = [("frames", self.frames), ("free", self.free), ("packets", self.packets)]
        rows += [(f"  {name}", n) for name, n in self.held.items()]
        rows += [("in rings", self.in_rings)]
        rows += [(f"  {name}, {place}", n) for name, places in self.ports.items() for place, n in places.items()]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {n:>8,}" for name, n in rows]
        return "\n".join([*lines, *(self.troubles() or ["every frame is accounted for"])]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "balanced": self.balanced, "troubles": self.troubles()}


def _names(told: Iterable[str]) -> str:
    return ", ".join(told)


def ledger(router: Router) -> Ledger:
    """The ledger of a router; no packet code may run meanwhile."""
    arena = router.arena
    begin, end = arena.meta_offset, arena.meta_offset + META_SIZE * arena.frames
    states = bytes(arena.mem[begin + META["live"][0] : end : META_SIZE])
    ports = {port.name: port.all_frames() for port in router.ports if port.opened}
    for number, port in enumerate(router.ports.gone, 1):
        ports[f"{port.name} (closed, {number})"] = port.all_frames()
    free, in_rings = states.count(FREE), states.count(IN_RING)
    packets = arena.frames - free - in_rings
    return Ledger(arena.frames, free, packets, in_rings, arena.frames - arena.held, router.holders(), ports)
