"""What viewers see of the kernel's level: while somebody looks, programs that note take the place of those that run.

They are the same programs over the same maps (`targets/kernel/noted`), put on the interfaces from one packet to the
next and taken back when nobody looks.  Their notes come by one ring; each viewer has an `Ear`, which hears all of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.ports import privileged
from mezzo.runtime.levels import enter
from mezzo.targets.kernel.noted import Noted
from mezzo.targets.kernel.notes import Note, Ring

if TYPE_CHECKING:
    from mezzo.ports.port import PortTable
    from mezzo.runtime.router import Router

MOST = 65_536  # notes that an ear keeps; who does not read in time loses the oldest


class Ear:
    """One viewer's reader of the notes."""

    def __init__(self, below: Below) -> None:
        self.below, self.notes, self.missed = below, deque[Note](maxlen=MOST), 0
        self._lost_before = below.ring.lost

    def follow(self, packets: int) -> None:
        """From now on at least the next `packets` packets are noted."""
        self.below.follow(packets)

    @property
    def lost(self) -> int:
        return self.below.lost - self._lost_before + self.missed

    def hear(self, note: Note) -> None:
        self.missed += len(self.notes) == MOST
        self.notes.append(note)

    def read(self) -> list[Note]:
        """The notes that have come since."""
        self.below.drain()
        return [self.notes.popleft() for _ in range(len(self.notes))]

    def close(self) -> None:
        self.below.forget(self)


class Below:
    """The noting programs of a router's part; `wanted`: at which instances, None for everywhere."""

    def __init__(self, router: Router, wanted: Collection[int] | None) -> None:
        self.of, self.wanted = router.parts[0], wanted
        plan = self.of.plan
        with privileged.making(plan.devices[plan.entries[0][0]]):
            self.part = Noted(self.of, wanted)
        self.ring = Ring(self.part)
        self.ears: dict[Any, Ear] = {}
        self.lost = 0
        self._closed = False
        self._turn = threading.Lock()

    def ear(self, viewer: object) -> Ear:
        """A new one for a viewer, in the place of what it had."""
        self.ears[viewer] = Ear(self)
        return self.ears[viewer]

    def forget(self, ear: Ear) -> None:
        self.ears = {viewer: one for viewer, one in self.ears.items() if one is not ear}

    def follow(self, packets: int) -> None:
        with self._turn:
            if not self._closed:
                self.ring.follow_at_least(packets)

    def drain(self) -> None:
        with self._turn:
            if self._closed:
                return
            self.lost = self.ring.lost
            for note in self.ring.read():
                for ear in self.ears.values():
                    ear.hear(note)

    def put(self, ports: PortTable, before: Below | None) -> None:
        """Its programs take the place of those that run; those who heard of the same part before go on hearing."""
        if before is not None and before.of is self.of:
            before.drain()
            for viewer, ear in before.ears.items():
                ear.missed, ear.below = ear.lost, self
                ear._lost_before = self.ring.lost
                self.ears[viewer] = ear
        else:
            self.ring.follow(0)  # what others asked for is over
        enter(self.part, ports)

    def take_back(self, ports: PortTable) -> None:
        with contextlib.suppress(OSError, MezzoError):  # of an interface that is gone
            enter(self.of, ports)

    def close(self) -> None:
        """Ears still have what they heard."""
        self.drain()
        with self._turn:
            self._closed = True
            self.ring.close()
            self.part.close()
