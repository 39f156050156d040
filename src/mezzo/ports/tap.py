"""Tap devices: the host's own stack, or a virtual machine, is at the other end of the wire.

    FromDevice(tap0, METHOD TAP) -> … -> ToDevice(tap0, METHOD TAP)

The device is made, and is up while the router runs; it is gone at the end, unless PERSISTENT or there before.  Ends
with a QUEUE each have a queue of the device of their own, and the kernel spreads flows over them.  KernelTap and
KernelTun are the same in one element, with addresses.
"""

import os
import select

from mezzo.elements import (
    NO_FRAME,
    Arg,
    Bool,
    bounded,
    flag,
    frame_address,
    i64,
    mem_u32,
    mem_u64,
    set_mem_u32,
    u32,
    u64,
)
from mezzo.ports import privileged
from mezzo.ports._mtu import _WithMtu, set_mtu
from mezzo.ports._slots import HEAD, TAIL, after, between, put_slot, slot_at
from mezzo.ports._tun import (
    AGAIN,
    BAD_STATE,
    IO,
    NO_BUFFERS,
    NOTHING,
    WOULD_BLOCK,
    TunPort,
    _Tun,
    offload_facts,
    open_queues,
    start_in,
)
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice

BATCH = 64
MOST = 1 << 16


class Port(TunPort):
    """A tap device, with a queue for each receiving end."""

    method = "tap"

    def __init__(self, device="", **hooks):
        super().__init__(device, **hooks)
        self.link, self.queues, self.rings, self.offloads = {}, [], {}, 0

    def open(self, arena):
        count = max([1, *(number + 1 for number in self.receivers)])
        persistent = any(end.persistent for end in self.ends)
        self.queues, self.link, self.offloads = open_queues(self.device, "tap", count, persistent)
        for descriptor in self.queues:
            self.defer("closing a queue", lambda fd=descriptor: os.close(fd))
        self.belongings.descriptors += self.queues
        set_mtu(self)
        _, facts = privileged.ask({"do": "link", "device": self.link["name"], "up": True})
        self.link |= facts
        self.defer("the interface's settings", lambda: self.put_back(facts["undo"]))
        for number, end in [*self.receivers.items(), *self.transmitters.items()]:
            memory = end.use_queue(self.queues[number % count], arena)
            self.keep("memory of super-packets", memory.free)
            direction = TRANSMIT if end.is_transmitter else RECEIVE
            self.rings[end] = Ring.make(end.slots_ or 2 * BATCH, direction, end.queue)
            self.keep("the ring", self.rings[end].close)
        self.watch_link(self.link["index"], self.tell)

    def put_back(self, changes):
        self.troubles += privileged.undo(changes)

    def facts(self):
        told = super().facts() | {k: self.link[k] for k in ("index", "name", "mac", "mtu") if k in self.link}
        return told | offload_facts(self.offloads) | {"queues": len(self.queues)}

    def descriptors(self):
        found = [(end, end.tun_fd, select.POLLIN) for end in self.receivers.values()]
        return found + [(end, end.tun_fd, select.POLLOUT) for end in self.transmitters.values()]

    def frames(self):
        return {f"ring of {end.name}": len(ring.slots()) for end, ring in self.rings.items()}

    def mac(self):
        """Nobody on this side of the wire has an address: every packet is for us."""
        return 0


class Receiver(FromDevice, _Tun, _WithMtu):
    """From a queue of the device into frames of the arena."""

    persistent = Arg(Bool(), False, "the device stays when the router ends", positional=False)
    knows = ("promisc", "sniffer")  # nothing else hears this wire, and nothing is filtered

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])

    def receive(self) -> u32:
        head, tail, n = mem_u32(self.ring + HEAD), mem_u32(self.ring + TAIL), self.slots
        for _ in bounded(min(n - 1 - between(head, tail, n), BATCH), BATCH):
            f = self.take_frame()
            if f == NO_FRAME:
                break
            length = self.fill(f)
            if length in (NOTHING, AGAIN):
                self.give_frame(f)
                if length == NOTHING:
                    break
            else:
                put_slot(self.ring, tail, u64(f) | u64(length) << 32, start_in(f))
                tail = after(tail, n)
        set_mem_u32(self.ring + TAIL, tail)
        return between(head, tail, n)


class Transmitter(ToDevice, _Tun, _WithMtu):
    """From frames of the arena to a queue of the device."""

    persistent = Arg(Bool(), False, "the device stays when the router ends", positional=False)
    wait_ns, unsent = 0, True  # what is in the ring has not been taken yet, and there are no completions
    waits: u64
    reads = {"waits": "how often the device had no room"}

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])

    def transmit(self):
        n = self.slots
        at = after(mem_u32(self.ring + TAIL), n)
        done: u32 = 0
        for _ in bounded(between(at, mem_u32(self.ring + HEAD), n), MOST):
            place = slot_at(self.ring, at)
            word = mem_u64(place)
            frame = u32(word)
            start = mem_u32(place + 8) & 0xFFFF
            answer = self.emit(frame_address(frame) + start, u32(word >> 32) & 0xFFFF, start)
            if not self.is_done(answer):
                break
            self.give_frame(frame)
            at = after(at, n)
            done += 1
        if done != 0:
            self.complete(done)

    def is_done(self, answer: i64) -> flag:
        """Is the packet off our hands, by what the system call said?"""
        if answer >= 0:
            return True
        if answer == -WOULD_BLOCK or answer == -NO_BUFFERS:
            self.waits += 1
            return False
        if answer == -IO or answer == -BAD_STATE:
            self.downs += 1
        else:
            self.errors += 1
        return True
