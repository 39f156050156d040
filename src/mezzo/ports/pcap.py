"""A capture file as a device: it is replayed, and what is sent is recorded.

    FromDevice(in.pcap, METHOD PCAP, TIMING true) -> … -> ToDevice(out.pcap, METHOD PCAP)

`TIMING` keeps the gaps between the packets; without it they come as fast as the graph takes them.  Packets arrive as
from a wire, now: FromDump is for their old times.  Records are written once a batch.
"""

from array import array
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import (
    Arg,
    Bool,
    Int,
    Text,
    bounded,
    flag,
    frame_address,
    mem_copy,
    mem_u32,
    mem_u64,
    now,
    python,
    set_mem_u32,
    u32,
    u64,
)
from mezzo.packet.arena import HEADROOM, NO_FRAME, Arena
from mezzo.packet.capture_map import map_capture
from mezzo.packet.linktypes import ETHERNET, linktype_name
from mezzo.ports import port
from mezzo.ports._end import MOST
from mezzo.ports._slots import TAIL, after, put_slot, slot_at, space
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice

SLOTS = 256
ROW = 24  # bytes: where in the file, length, time
NEVER = (1 << 64) - 1
NO_MEMORY_NS = 10**6  # until a frame may be free


class Port(port.Port):
    """A file that is read, one that is written, or both."""

    method = "pcap"

    def open(self, arena: Arena) -> None:
        slots = next((e.slots_ for e in self.ends if e.slots_), SLOTS)
        self.receive, self.transmit = Ring.make(slots, RECEIVE), Ring.make(slots, TRANSMIT)
        self.keep("free the receive ring", self.receive.close)
        self.keep("free the transmit ring", self.transmit.close)
        for end in self.transmitters.values():
            if self.receivers and not end.record:
                hint = "say RECORD other.pcap, or send to another device"
                raise MezzoError(Diagnostic(f"`{self.device}` is read and would be overwritten", end.place, hint=hint))
        if self.receivers:
            self.map()

    def map(self) -> None:
        """The file and the table of its packets, as memory."""
        import numpy as np  # only for the address of read-only memory

        self.capture = map_capture(self.device, rows=True)
        index = self.capture.index
        rows = array("Q", bytes(ROW * len(index.offset)))
        for column, values in enumerate((index.offset, index.captured, index.time_ns)):
            rows[column :: ROW // 8] = values
        self.data, self.rows = np.frombuffer(self.capture.data, dtype=np.uint8), np.frombuffer(rows, dtype=np.uint64)
        self.keep("close the capture", self.unmap)

    def unmap(self) -> None:
        self.capture: Any = None
        self.data = self.rows = None

    def facts(self) -> dict[str, Any]:
        said = super().facts()
        return said | {"packets": len(self.capture.index.offset)} if self.receivers and self.opened else said

    def frames(self) -> dict[str, int]:
        return {"receive ring": len(self.receive.slots()), "transmit ring": len(self.transmit.slots())}


class Receiver(FromDevice):
    """Fills the ring from the file."""

    lossless = True
    watches = False
    timed = True
    knows = ("encap",)

    timing = Arg(Bool(), False, "keeps the gaps between packets", positional=False)
    repeat = Arg(Int(1), 1, "how many times the file is replayed", positional=False)
    stop = Arg(Bool(), False, "stops the router after the last packet", positional=False)

    file: u64
    table: u64
    rows: u64
    row: u64
    rounds: u64
    first_ns: u64
    began_ns: u64
    begun: flag
    ended: flag

    def initialize(self) -> None:
        super().initialize()
        self.use_ring(self._port.receive)
        self.file, self.table = self._port.data.ctypes.data, self._port.rows.ctypes.data
        self.rows = len(self._port.rows) * 8 // ROW
        self.rounds = self.repeat
        self.first_ns = int(self._port.rows[2]) if self.rows else 0

    def encap_word(self) -> str:
        linktype = self._port.capture.index.linktype
        return self.encap or ("ETHER" if linktype == ETHERNET else linktype_name(linktype))

    def receive(self) -> u32:
        self.again_ns = NEVER
        tail = mem_u32(self.ring + TAIL)
        if not self.begun:
            self.begun = True
            self.began_ns = now()
        for _ in bounded(self.slots - 1 - space(self.ring, self.slots), MOST):
            if self.row == self.rows:
                if self.rounds <= 1 or self.rows == 0:
                    break
                self.rounds -= 1
                self.row = 0
                self.began_ns = now()
            entry = self.table + self.row * ROW
            length = u32(mem_u64(entry + 8))
            if self.timing:
                due = self.began_ns + (mem_u64(entry + 16) - self.first_ns)
                if due > now() and due - now() < 1 << 62:
                    self.again_ns = due
                    break
            self.row += 1
            if HEADROOM + length > self.frame_size:
                self.misfits += 1
                continue
            frame = self.take_frame()
            if frame == NO_FRAME:
                self.row -= 1
                self.again_ns = now() + NO_MEMORY_NS
                break
            mem_copy(frame_address(frame) + HEADROOM, self.file + mem_u64(entry), length)
            put_slot(self.ring, tail, u64(frame) | u64(length) << 32, HEADROOM)
            tail = after(tail, self.slots)
        set_mem_u32(self.ring + TAIL, tail)
        there = space(self.ring, self.slots)
        if there == 0 and self.row == self.rows and not self.ended:
            self.ended = True
            self.end()
        return there

    @python
    def end(self) -> None:
        for note in self._port.capture.index.notes:
            self.say(f"{self.name}: {self.device}: {note}")
        if self.stop:
            self.router.please_stop()


class Transmitter(ToDevice):
    """Writes the slots to a file; they are done at once."""

    watches = False

    record = Arg(Text(), "", "the file that is written; else the device is", positional=False)

    def configure(self) -> None:
        super().configure()
        if self.trace:
            self.error("TRACE: METHOD PCAP records what it sends already")

    def initialize(self) -> None:
        super().initialize()
        self.use_ring(self._port.transmit)
        self.open_trace(self.record or self.device, self.encap_word())

    def transmit(self):
        n = self.slots - 1 - space(self.ring, self.slots)
        at = mem_u32(self.ring + TAIL)
        for _ in bounded(n, MOST):
            at = after(at, self.slots)
            place = slot_at(self.ring, at)
            word = mem_u64(place)
            self.trace_slot(word, mem_u64(place + 8))
            self.give_frame(u32(word))
        if n != 0:
            self.trace_flush()
            self.complete(n)
