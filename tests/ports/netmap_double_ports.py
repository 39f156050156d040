"""The ports of the simulated netmap kernel side: interfaces with their host side, pipes, switches, monitors.

Each has receive and transmit krings and says what a sync of one does.  What an interface sends is in `sent`, what it is
to receive comes by `arrive`; faults of a device (completions that do not come, a ring that stalls) are its attributes.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

from mezzo.ports import _netmap_abi as abi
from tests.ports.netmap_double_rings import RX, TX, KernelError, Kring, Memory, Slot

EINVAL = 22


class Port:
    """What registers share: a name, memory, krings."""

    can_host = False

    def __init__(self, kernel: Any, name: str, memory: Memory, rings: tuple[int, int], slots: tuple[int, int]) -> None:
        self.kernel, self.name, self.memory = kernel, name, memory
        self.users = 0
        self.if_index = -1
        self.header_length = 0
        self.host: dict[int, list[Kring]] = {TX: [], RX: []}
        self.krings = {d: [Kring(self, d, k, slots[d == RX]) for k in range(rings[d == RX])] for d in (TX, RX)}
        if self.can_host:
            self.host = {d: [Kring(self, d, rings[d == RX], slots[d == RX], True)] for d in (TX, RX)}

    def all(self, direction: int) -> list[Kring]:
        return self.krings[direction] + self.host[direction]

    @property
    def in_netmap_mode(self) -> bool:
        return self.users > 0

    def start(self, rings: list[Kring]) -> None:
        """Rings that nobody had are made; those of receive first."""
        for ring in sorted(rings, key=lambda r: r.direction):
            if ring.index < 0:
                ring.create()

    def stop(self, rings: list[Kring]) -> None:
        for ring in rings:
            if ring.users == 0 and ring.index >= 0:
                ring.destroy()

    def gone(self) -> None:
        """The last user went."""

    def sync(self, ring: Kring) -> bool:
        """The port's half of a sync; False when it stopped at something that cannot be."""
        raise NotImplementedError

    def has_news(self, ring: Kring) -> bool:
        """Would a sync of a receive ring show more, or of a transmit ring give room?"""
        return ring.get("cur") != ring.hwtail


def release(ring: Kring) -> None:
    """Receive slots that the user gave back."""
    for k in ring.walk(ring.hwcur, ring.rhead):
        slot = ring.slot(k)
        slot.flags &= ~abi.BUF_CHANGED
        ring.put(k, slot)
    ring.hwcur = ring.rhead


class Nic(Port):
    """An interface.  Its hardware keeps the addresses of buffers: it learns of another one by NS_BUF_CHANGED alone."""

    can_host = True

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.sent: list[bytes] = []
        self.to_host: list[bytes] = []  # what the user wrote to the host's ring
        self.dropped = 0
        self.peer: Nic | None = None  # a cable
        self.completions: int | None = None  # how many more slots are completed; None: all, at once
        self.stalled = False  # nothing is sent
        self.waiting: dict[Kring, deque[bytes]] = {r: deque() for r in self.all(RX)}
        self.hardware: dict[Kring, list[int]] = {}

    def start(self, rings: list[Kring]) -> None:
        super().start(rings)
        for ring in rings:
            self.hardware.setdefault(ring, ring.buffers())

    def stop(self, rings: list[Kring]) -> None:
        super().stop(rings)
        for ring in rings:
            if ring.users == 0:
                self.hardware.pop(ring, None)
                if ring.direction == RX:
                    self.waiting[ring].clear()

    def arrive(self, data: bytes, ring: int = 0, host: bool = False) -> bool:
        """A packet from the wire, or from the host's stack; False when there is no slot for it: it is lost."""
        kring = (self.host if host else self.krings)[RX][ring]
        queued = sum(kring.fits(len(d)) for d in self.waiting[kring])
        taken = kring.index >= 0 and queued + kring.fits(len(data)) <= kring.room()
        if taken:
            self.waiting[kring].append(data)
        else:
            self.dropped += 1
        self.kernel.changed()
        return taken

    def has_news(self, ring: Kring) -> bool:
        if ring.direction == TX:
            return super().has_news(ring) or (self.completions != 0 and ring.hwcur != ring.after(ring.hwtail))
        return super().has_news(ring) or bool(self.waiting[ring])

    def sync(self, ring: Kring) -> bool:
        return self.transmit(ring) if ring.direction == TX else self.receive(ring)

    def reload(self, ring: Kring, k: int) -> bool:
        """The hardware's idea of slot `k`'s buffer."""
        slot = ring.slot(k)
        if not self.memory.valid(slot.buf) or slot.len > self.memory.buffer_size:
            ring.reinit()
            return False
        if slot.flags & abi.BUF_CHANGED:
            self.hardware[ring][k] = slot.buf
            slot.flags &= ~abi.BUF_CHANGED
            ring.put(k, slot)
        return True

    def transmit(self, ring: Kring) -> bool:
        if self.stalled:
            return True
        for packet in ring.packet_slots(ring.hwcur, ring.rhead):
            if not all(self.reload(ring, k) for k, _ in packet):
                return False
            self.kernel.observe(ring, packet)
            data = b"".join(self.memory.buffer(self.hardware[ring][k], slot.len) for k, slot in packet)
            self.leave(ring, data)
            ring.hwcur = ring.after(packet[-1][0])
        done = len(ring.walk(ring.after(ring.hwtail), ring.hwcur))
        if self.completions is not None:
            done = min(done, self.completions)
            self.completions -= done
        old, ring.hwtail = ring.hwtail, ring.after(ring.hwtail, done)
        self.kernel.pass_on(ring, ring.after(old), ring.after(ring.hwtail))
        return True

    def leave(self, ring: Kring, data: bytes) -> None:
        if ring.is_host:
            self.to_host.append(data)
        elif self.peer is not None:
            self.peer.arrive(data, min(ring.number, len(self.peer.krings[RX]) - 1))
        else:
            self.sent.append(data)

    def receive(self, ring: Kring) -> bool:
        freed = ring.hwcur, ring.rhead
        self.kernel.pass_on(ring, *freed)
        for k in ring.walk(*freed):
            if not self.reload(ring, k):
                return False
        release(ring)
        queue, before = self.waiting[ring], ring.hwtail
        while queue:
            start = ring.hwtail
            if not self.fill(ring, queue[0]):
                break
            queue.popleft()
            self.kernel.observe(ring, [(k, ring.slot(k)) for k in ring.walk(start, ring.hwtail)])
        if before != ring.hwtail and ring.get("flags") & abi.TIMESTAMP:
            self.kernel.stamp(ring)
        return True

    def fill(self, ring: Kring, data: bytes) -> bool:
        """As `append`, to where the hardware thinks that the buffers are."""
        size, count = self.memory.buffer_size, ring.fits(len(data))
        if count > ring.room():
            return False
        for part in range(count):
            k = ring.hwtail
            piece = data[part * size : (part + 1) * size]
            self.memory.fill(self.hardware[ring][k], piece)
            slot = ring.slot(k)
            ring.put(k, Slot(slot.buf, len(piece), abi.MORE_FRAG if part < count - 1 else 0, slot.ptr))
            ring.hwtail = ring.after(k)
        return True


class Pipe(Port):
    """One end; the rings of the other are its own the other way round, slot by slot."""

    def __init__(self, kernel: Any, name: str, memory: Memory, rings: tuple[int, int], slots: tuple[int, int]) -> None:
        super().__init__(kernel, name, memory, rings, slots)
        self.other: Pipe | None = None

    def join(self, other: Pipe) -> None:
        self.other, other.other = other, self
        for mine, its in ((self, other), (other, self)):
            for tx, rx in zip(mine.krings[TX], its.krings[RX], strict=True):
                tx.pipe, rx.pipe = rx, tx

    def start(self, rings: list[Kring]) -> None:
        """Both ends are made by whoever comes first; a receive ring has the buffers of its transmit ring."""
        for ring in rings:
            pair = (ring, ring.pipe) if ring.direction == TX else (ring.pipe, ring)
            assert pair[0] is not None and pair[1] is not None
            if pair[0].index < 0:
                pair[0].create()
                pair[1].create(pair[0].buffers())

    def stop(self, rings: list[Kring]) -> None:
        for ring in rings:
            tx, rx = (ring, ring.pipe) if ring.direction == TX else (ring.pipe, ring)
            assert tx is not None and rx is not None
            if tx.users == rx.users == 0 and tx.index >= 0:
                tx_buffers, rx_buffers = tx.buffers(), rx.buffers()
                for index in {b for b in tx_buffers + rx_buffers if self.memory.valid(b)}:
                    self.memory.buffers.give(index)
                tx.destroy(with_buffers=False)
                rx.destroy(with_buffers=False)

    def has_news(self, ring: Kring) -> bool:
        return ring.get("cur") != ring.pipe_tail

    def sync(self, ring: Kring) -> bool:
        return self.transmit(ring) if ring.direction == TX else self.receive(ring)

    def transmit(self, tx: Kring) -> bool:
        """Slots go over as they are; an unfinished packet waits for its rest."""
        assert tx.pipe is not None
        old, tx.hwtail = tx.hwtail, tx.pipe_tail
        self.kernel.pass_on(tx, tx.after(old), tx.after(tx.hwtail))
        whole = None
        for k in tx.walk(tx.hwcur, tx.rhead):
            slot = tx.slot(k)
            tx.pipe.put(k, slot)
            tx.put(k, Slot(slot.buf, slot.len, slot.flags & ~abi.BUF_CHANGED, slot.ptr))
            if not slot.flags & abi.MORE_FRAG:
                whole = tx.after(k)
        for packet in tx.packet_slots(tx.hwcur, tx.rhead):
            self.kernel.observe(tx, packet)
        tx.hwcur = tx.rhead
        if whole is not None:
            tx.pipe.pipe_tail = whole
        return True

    def receive(self, rx: Kring) -> bool:
        assert rx.pipe is not None
        old, rx.hwtail = rx.hwtail, rx.pipe_tail
        for packet in rx.packet_slots(old, rx.hwtail):
            self.kernel.observe(rx, packet)
        freed = rx.walk(rx.hwcur, rx.rhead)
        for k in freed:
            slot = rx.slot(k)
            if slot.flags & abi.BUF_CHANGED:
                rx.pipe.put(k, slot)
                rx.put(k, Slot(slot.buf, slot.len, slot.flags & ~abi.BUF_CHANGED, slot.ptr))
        if freed:
            rx.hwcur = rx.rhead
            rx.pipe.pipe_tail = rx.after(rx.hwcur, -1)
        return True


class Vale(Port):
    """A port of a switch, which is the list of its ports and where each address was seen."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.switch: Switch | None = None
        self.number = -1
        self.dropped = 0

    def gone(self) -> None:
        assert self.switch is not None
        self.switch.leave(self)

    def sync(self, ring: Kring) -> bool:
        if ring.direction == RX:
            for packet in ring.packet_slots(ring.rtail, ring.hwtail):
                self.kernel.observe(ring, packet)
            self.kernel.pass_on(ring, ring.hwcur, ring.rhead)
            release(ring)
            return True
        for packet in ring.packet_slots(ring.hwcur, ring.rhead, cut=True):
            self.kernel.observe(ring, packet)
            self.forward(ring, packet)
        freed = ring.hwcur, ring.rhead
        ring.hwcur = ring.rhead
        ring.hwtail = ring.after(ring.hwcur, -1)
        self.kernel.pass_on(ring, *freed)
        return True

    def forward(self, ring: Kring, packet: list[tuple[int, Slot]]) -> None:
        assert self.switch is not None
        data = b"".join(self.read(slot) for _, slot in packet)
        first = packet[0][1]
        if len(data) < 14:
            return
        if not data[6] & 1 and not first.flags & abi.NO_LEARN:
            self.switch.seen[data[6:12]] = self
        for port in self.switch.targets(self, data, first.flags >> 8):
            to = port.krings[RX][ring.number % len(port.krings[RX])]
            if to.index < 0 or not to.append(data, fragments=True):
                port.dropped += 1

    def read(self, slot: Slot) -> bytes:
        if slot.flags & abi.INDIRECT:
            return ctypes.string_at(slot.ptr, slot.len)
        return self.memory.buffer(slot.buf, slot.len) if self.memory.valid(slot.buf) else b""


class Switch:
    MOST = 254

    def __init__(self, kernel: Any, name: str) -> None:
        self.kernel, self.name = kernel, name
        self.ports: dict[int, Vale] = {}
        self.seen: dict[bytes, Vale] = {}

    def enter(self, port: Vale) -> None:
        number = next((n for n in range(self.MOST) if n not in self.ports), None)
        if number is None:
            raise KernelError(12)
        self.ports[number], port.number, port.switch = port, number, self

    def leave(self, port: Vale) -> None:
        del self.ports[port.number]
        self.seen = {a: p for a, p in self.seen.items() if p is not port}

    def targets(self, source: Vale, data: bytes, forced: int) -> list[Vale]:
        if forced:
            return [p for n, p in self.ports.items() if n == forced and p is not source]
        known = None if data[0] & 1 else self.seen.get(data[:6])
        if known is not None:
            return [known] if known is not source else []
        return [p for p in self.ports.values() if p is not source]


class Monitor(Port):
    """Hears what another port sends and receives; it has receive rings only, one for each pair of the other's."""

    def __init__(self, kernel: Any, of: Port, memory: Memory, flags: int) -> None:
        count = max(len(of.krings[TX]), len(of.krings[RX]))
        slots = max(r.n for r in of.krings[RX])
        super().__init__(kernel, f"{of.name}/monitor", memory, (count, count), (slots, slots))
        self.of, self.is_zero_copy = of, bool(flags & abi.ZCOPY_MON)
        both = abi.MONITOR_TX | abi.MONITOR_RX
        wanted = flags & both or (both if self.is_zero_copy else 0)
        self.hears = {TX: bool(wanted & abi.MONITOR_TX), RX: bool(wanted & abi.MONITOR_RX)}
        self.dropped = 0
        for direction in (TX, RX):
            for ring in of.krings[direction] if self.hears[direction] else ():
                ring.monitors.append(self)

    def gone(self) -> None:
        for ring in self.of.krings[TX] + self.of.krings[RX]:
            if self in ring.monitors:
                ring.monitors.remove(self)

    def sync(self, ring: Kring) -> bool:
        if ring.direction == RX:
            release(ring)
        else:
            ring.hwcur = ring.rhead
            ring.hwtail = ring.after(ring.hwcur, -1)
        return True

    def copy(self, ring: Kring, packet: list[tuple[int, Slot]]) -> None:
        """A packet on its way is copied."""
        data = b"".join(ring.memory.buffer(slot.buf, slot.len) for _, slot in packet)
        mine = self.krings[RX][ring.number]
        if mine.index < 0 or not mine.append(data, abi.TX_MON if ring.direction == TX else 0):
            self.dropped += 1

    def swap(self, ring: Kring, k: int) -> None:
        """A slot that was done with: its buffer and one of the monitor's change places."""
        mine = self.krings[RX][ring.number]
        if mine.index < 0 or mine.room() < 1:
            self.dropped += 1
            return
        its, slot = ring.slot(k), mine.slot(mine.hwtail)
        mark = abi.TX_MON if ring.direction == TX else 0
        mine.put(mine.hwtail, Slot(its.buf, its.len, its.flags & abi.MORE_FRAG | mark | abi.BUF_CHANGED, its.ptr))
        ring.put(k, Slot(slot.buf, its.len, its.flags | abi.BUF_CHANGED, its.ptr))
        mine.hwtail = mine.after(mine.hwtail)
