"""Reinject: packets that native code decided about go on in the kernel's level.

Where what is behind it is in the kernel, this is an entry as a device is: the packet is handed over with its record
(`_risen`), to a root program of its own, which goes on at the input behind the output.

    ahead? ─► record ─► try_out ─┬► died there, counted there
                                 ├► by a wire: give_live, to a program that redirects to the wire's interface
                                 └► up again: what came back is the packet, and goes on natively at once, by the way

Two calls, because a program of a live frame must not redirect it to an AF_XDP socket: the kernel takes no lock there,
since a queue's packets come from one place, which is its device (Linux 6.18, xsk_rcv).  So what goes up comes back by
the first call, and waits in no ring, where others that go on natively would overtake it.

Order: a packet that leaves by the kernel overtakes all that waits natively.  So only one is handed over that came up
when no other of its flow was there (FIRST).  The others go on natively, behind it: it has left when the call returns.
"""

import os
from typing import TYPE_CHECKING

from mezzo.elements import (
    Arg,
    Packet,
    Port,
    Word,
    flag,
    frame_address,
    frame_size,
    mem_u16,
    mem_u32,
    u16,
    u32,
    u64,
    write,
)
from mezzo.packet.arena import META, META_SIZE
from mezzo.ports._live_frames import BLOCK, MOST, NOWHERE, SIZE_OUT, TOLD, VERDICT, _LiveFrames
from mezzo.ports._memory import Memory
from mezzo.ports._risen import DATA, FIRST, FRONT, OWN, SIZE, _Recorded

if TYPE_CHECKING:
    from mezzo.ports.level import Entry

# Where the memory of a packet begins that the kernel gets: what was stripped goes along, since it may come back.  Those
# from sockets begin at XDP's 256 bytes, and have room for the call in front of that; others have the record there.
FAR, NEAR, ENOUGH = BLOCK + 8 + SIZE, SIZE, BLOCK + 8 + SIZE + 48
LEAST_FRONT = 14  # bytes of it in front of the data: XDP has no packet shorter than an Ethernet header
GROWTH = 128  # bytes that the packet may grow by, beyond these
WIRE, SENDER = 0x8000, 4  # the bit of ways that lead out; bytes of a program's descriptor in the table
DROP = 1  # verdicts up to this are the packet's death
REFUSED, GONE, TOO_LONG, UNSENT = 0, 1, 2, 3  # of a packet; no packet that comes back begins so early
NO_SPACE = -28  # errno of a packet that came back longer than its room


class Reinject(_Recorded, _LiveFrames):
    """Hands packets that are up natively back to the kernel's level (mezzo run --place), where they go on behind it.

    It passes packets on as they are, and where elements behind it are in the kernel, they go on there: they leave by a
    device, die, or come up again, as packets from DEVICE do.  Those that are in the kernel pass.  So put it where the
    slow way of a packet meets the fast one again.  A packet goes on natively, by the output, where what is behind is
    not in the kernel (`mezzo place` says why); where others of its flow were up when it came, which it must not
    overtake; and when the kernel cannot take it.  What did not come by XDP goes on natively, too, unless order is to be
    loose.
    """

    ports, processing, flow = "1/1", "h/h", "x/x"
    example = """InfiniteSource(LIMIT 3) -> back :: Reinject -> n :: Counter -> Discard;"""
    example_reads = {"back.count": "3", "n.count": "3"}
    injects = True
    up = False  # is what is behind it in the kernel; placement sets it
    _part, _held, _table = None, (), None  # whose programs it has, their descriptors, those that send for packet code
    device = Arg(Word(), "", "the input whose packets they are as, where there are several", keyword="DEVICE")
    see = ("FromDevice", "Place", "ToHost")

    count: u64
    byte_count: u64
    injected: u64
    came_back: u64
    not_injected: u64
    program: u32  # the root
    ready: u32  # is there one
    interface: u32
    senders: u64  # descriptors of the programs that send, by what a way says
    ordered: u32  # do packets stay in order
    gates_at: u64  # of the gate in the metadata of frame 0
    reads = {
        "count": "packets that came here",
        "byte_count": "bytes that came here",
        "injected": "packets that went on in the kernel",
        "came_back": "of those, packets that came up again",
        "not_injected": "packets that went on natively, though what is behind is in the kernel",
    }

    # -- packet code

    def push(self, port: u32, p: Packet):
        self.count += 1
        self.byte_count += p.length
        if not self.up or self.ready == 0:
            self.push(0, p)
            return
        start = p.frame_start
        at = self.block_at(start, p.length)
        came = self.hand_over(p, at) if at != NOWHERE and self.is_ahead(p.frame) else u32(REFUSED)
        if came == REFUSED:
            self.not_injected += 1
            self.push(0, p)
            return
        self.injected += 1
        if came == TOO_LONG:
            self.kill(p, "longer than its frame")
        elif came == UNSENT:
            self.kill(p, "not sent")
        elif came == GONE:
            self.kill(p)
        else:
            self.came_back += 1
            told = frame_address(p.frame) + self.first(start) - SIZE
            data = mem_u16(told + DATA)
            length = self.first(start) - SIZE + mem_u32(frame_address(p.frame) + at + SIZE_OUT) - came
            q = self.adopt(self.lend(p), came, length)
            self.restore(q, told, data)
            self.push(OWN + u32(mem_u16(told)), q)

    def hand_over(self, p: Packet, at: u32) -> u32:
        """Runs the program, and sends what leaves by a wire: what became of the packet, or where in its frame it begins
        when it came back.  The frame has its record in front of what it has in memory, before and after."""
        frame, first = frame_address(p.frame), self.first(p.frame_start)
        told, block = frame + first - SIZE, frame + at
        self.record(p, told, u16(first))
        size = SIZE + p.frame_start - first + p.length
        answer = self.try_out(block, self.program, told, size, SIZE, size + GROWTH)
        if answer < 0:
            return TOO_LONG if answer == NO_SPACE else u32(REFUSED)
        if mem_u32(block + VERDICT) <= DROP or mem_u32(block + TOLD) != SIZE:
            return GONE
        came = first + u16(mem_u16(told + DATA) - mem_u16(told + FRONT))
        if mem_u16(told) & WIRE == 0:
            return came
        length = first - SIZE + mem_u32(block + SIZE_OUT) - came
        program = mem_u32(self.senders + u64(mem_u16(told) & ~u16(WIRE)) * SENDER)
        return GONE if self.give_live(block, program, frame + came, length, self.interface) >= 0 else u32(UNSENT)

    def block_at(self, start: u32, length: u32) -> u32:
        """Where the call's arguments have room; nowhere, when the packet has not."""
        first, end = self.first(start), start + length + GROWTH
        if start < LEAST_FRONT + first or start + length > MOST + first or end > frame_size():
            return NOWHERE
        return self.room(first - SIZE, end)

    def first(self, start: u32) -> u32:
        """Where in the frame the memory begins that goes along."""
        return FAR if start >= ENOUGH else u32(NEAR)

    def is_ahead(self, frame: u32) -> flag:
        """Is nothing of its flow up natively that came before it?"""
        return self.ordered == 0 or (mem_u16(self.gates_at + u64(frame) * META_SIZE) & FIRST) != 0

    def through(self, p: Packet) -> Port:
        """The kernel's half: those that are there."""
        self.count += 1
        self.byte_count += p.length
        return 0

    # -- Python

    def enter(self, entry: "Entry") -> None:
        """What it has of the kernel's level; nobody runs packet code."""
        self.let_go()
        self._part = entry.part
        arena = self.router.arena
        self._held = tuple(os.dup(fd) for fd in (entry.program, *entry.senders))
        self._table = Memory(SENDER * max(len(entry.senders), 1))
        self._table.map[:] = b"".join(fd.to_bytes(SENDER, "little") for fd in self._held[1:]).ljust(SENDER, b"\0")
        self.senders, self.program, self.interface = self._table.address, self._held[0], entry.interface
        self.gates_at = arena.address + arena.meta_offset + META["gate"][0]
        self.ordered = int(entry.ordered)
        self.may_call()
        self.ready = 1

    def replace_root(self, program: int) -> None:
        """Another program in the place of the root, over the same maps."""
        os.dup2(program, self._held[0], inheritable=False)

    def let_go(self) -> None:
        for fd in self._held:
            os.close(fd)
        if self._table is not None:
            self._table.free()
        self._part, self._held, self._table = None, (), None

    def leave(self, part) -> None:
        """The part goes.  If no other has taken its place, packet code asks for it no more."""
        if self._part is part:
            self.let_go()

    def hands_over(self, old):
        own = ("program", "ready", "interface", "senders", "ordered", "gates_at", "number", "call_at")
        return [name for name in super().hands_over(old) if name not in own]

    def cleanup(self):
        self.let_go()

    @write("reset_counts", "sets the counts to 0", flags="b")
    def reset_counts(self, text: str) -> None:
        self.count = self.byte_count = self.injected = self.came_back = self.not_injected = 0
