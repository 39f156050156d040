"""A port of memory: packets are given and taken from Python.  The pattern of a driver, too.

    port = MemoryPort()
    with Router.from_elements(FromDevice(port) >> Counter() >> Queue() >> ToDevice(port)) as router:
        port.give([b"..."]); router.run(); print(port.take())

What is given lies in the receive ring; what the graph sent lies in the transmit ring, in flight, until it is taken.  So
a full ring stops the graph, and completions come when the test says so.  With `loopback` the port is a cable from its
own transmit ring to its receive ring: frames go over without a copy, and where the receive ring is full they wait.

In a configuration: `FromDevice(NAME, METHOD MEMORY)`, and `router.ports["NAME"]`.
"""

import itertools
from collections.abc import Iterable
from typing import Any

from mezzo.base import MezzoError
from mezzo.elements import Arg, Bool, bounded, entry, flag, mem_u32, mem_u64, python, store_release_u32, u32, u64
from mezzo.packet.arena import NO_FRAME, Arena, Packet
from mezzo.ports import port
from mezzo.ports._end import MOST
from mezzo.ports._slots import TAIL, after, put_slot, slot_at, space
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring, Slot
from mezzo.ports.to_device import ToDevice

SLOTS = 1024
_numbers = itertools.count(1)


class Port(port.Port):
    """A pair of rings in memory."""

    method = "memory"

    def __init__(self, device: str = "", loopback: bool = False, slots: int = SLOTS, **hooks: Any) -> None:
        super().__init__(device or f"memory{next(_numbers)}", **hooks)
        self.loopback, self.size = loopback, slots

    def open(self, arena: Arena) -> None:
        ends = self.ends
        self.loopback = self.loopback or any(e.loopback for e in ends)
        slots = next((e.slots_ for e in ends if e.slots_), self.size)
        self.receive, self.transmit = Ring.make(slots, RECEIVE), Ring.make(slots, TRANSMIT)
        self._next = 0  # the first slot that was sent and not taken
        self._lost: list[int] = []  # frames of slots that are used again although nobody took them
        self.keep("free the receive ring", self.receive.close)
        self.keep("free the transmit ring", self.transmit.close)

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"loopback": self.loopback, "slots": self.receive.size}

    def frames(self) -> dict[str, int]:
        sent = len(self.transmit.slots()) if self.loopback else len(self._sent())
        return {"receive ring": len(self.receive.slots()), "transmit ring": sent, "lost": len(self._lost)}

    def _sent(self) -> list[Slot]:
        """The slots that were sent and not taken; some that were taken may not be completed yet."""
        ring = self.transmit
        return [ring.slot(ring.after(self._next, k)) for k in range((ring.head - self._next) % ring.size)]

    def forget(self) -> None:
        """Nobody will take what is in flight."""
        self._lost += [slot.frame for slot in self._sent()]
        self._next = self.transmit.head

    # -- from Python

    def give(self, packets: Iterable[Any]) -> int:
        """Puts packets into the receive ring; how many there was room and frames for."""
        router = self._router()
        return router.at_rest(lambda: self._give_all(router, packets))

    def _give_all(self, router: Any, packets: Iterable[Any]) -> int:
        count = sum(1 for data in packets if self._give(router, bytes(data)))
        for end in self.receivers.values() if count else ():
            end.wake_task()
        return count

    def _give(self, router: Any, data: bytes) -> bool:
        arena, ring = router.arena, self.receive
        if len(data) > arena.longest:
            raise MezzoError(f"a packet of {len(data)} bytes: a frame has room for {arena.longest}")
        frame = arena.take_frame() if ring.pending else NO_FRAME
        if frame == NO_FRAME:
            return False
        start = arena.first_byte(frame)
        base = Packet(arena, frame).base + start
        arena.mem[base : base + len(data)] = data
        ring.put(ring.tail, Slot(frame, len(data), start=start))
        ring.tail = ring.after(ring.tail)
        return True

    def take(self, most: int = 1 << 30) -> list[bytes]:
        """The packets sent so far, at most `most`; their slots are room again."""
        router = self._router()
        return router.at_rest(lambda: self._take(router, most))

    def _take(self, router: Any, most: int) -> list[bytes]:
        arena, found = router.arena, list[bytes]()
        slots = self._sent()[:most]
        self._next = self.transmit.after(self._next, len(slots))
        for slot in slots:
            base = Packet(arena, slot.frame).base + slot.start
            found.append(bytes(arena.mem[base : base + slot.length]))
            arena.give_frame(slot.frame)
        for end in self.transmitters.values() if slots else ():
            end.call("done", len(slots))
            end.wake_task()
        return found

    def _router(self) -> Any:
        if self.state != "open":
            raise MezzoError(f"port {self.name} is not open: a router opens it when it is built")
        return self.ends[0].router


class Receiver(FromDevice):
    """Everything that arrived is in the ring already."""

    lossless = True
    watches = False

    loopback = Arg(Bool(), False, "what is sent comes back", positional=False)

    other: u64
    looped: flag

    def initialize(self) -> None:
        super().initialize()
        self.use_ring(self._port.receive)
        self.other, self.looped = self._port.transmit.address, self._port.loopback

    def receive(self) -> u32:
        if self.looped and space(self.other, self.slots) != self.slots - 1:
            self.wake_other()
        return space(self.ring, self.slots)

    @python
    def wake_other(self) -> None:
        for end in self._port.transmitters.values():
            end.wake_task()


class Transmitter(ToDevice):
    """Packets stay in the ring until Python takes them, or go over to the receive ring."""

    tells = True
    watches = False
    wait_ns = 0

    loopback = Arg(Bool(), False, "what is sent comes back", positional=False)

    other: u64
    looped: flag
    sleepers: flag

    def initialize(self) -> None:
        super().initialize()
        self.use_ring(self._port.transmit)
        self.other, self.looped = self._port.receive.address, self._port.loopback
        self.sleepers = any(not end.polls for end in self._port.receivers.values())

    def transmit(self):
        if self.looped:
            self.loop()

    def loop(self):
        """Slots in flight become slots that arrived, as far as there is room."""
        tail = mem_u32(self.other + TAIL)
        room = self.slots - 1 - space(self.other, self.slots)
        n = min(self.slots - 1 - space(self.ring, self.slots), room)
        at = mem_u32(self.ring + TAIL)
        for _ in bounded(n, MOST):
            at = after(at, self.slots)
            place = slot_at(self.ring, at)
            put_slot(self.other, tail, mem_u64(place), mem_u64(place + 8))
            tail = after(tail, self.slots)
        if n != 0:
            store_release_u32(self.other + TAIL, tail)
            self.complete(n)
            if self.sleepers:
                self.wake_other()

    def abandon(self):
        self.forget()

    @python
    def forget(self) -> None:
        self._port.forget()

    @entry
    def done(self, n: u32):
        self.complete(n)
        self.flying = self.slots - 1 - space(self.ring, self.slots)

    @python
    def wake_other(self) -> None:
        for end in self._port.receivers.values():
            end.wake_task()


MemoryPort = Port
