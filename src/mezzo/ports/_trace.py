"""A tap on an end: every slot that passes is written to a capture file.

    FromDevice(eth0, TRACE in.pcap)

Records gather in memory and are written once a batch, so the file is whole also when the process is killed.  Behind the
faults of a receiving end, in front of those of a sending one: the file shows what the graph sees.  After a write that
failed the trace ends, is said once, and packets go on.
"""

import mmap
import os

from mezzo.elements import (
    flag,
    frame_address,
    i64,
    libc,
    mem_copy,
    python,
    set_mem_u32,
    u32,
    u64,
    walltime,
)
from mezzo.packet.capture_write import pcap_header
from mezzo.packet.linktypes import linktype_number
from mezzo.ports._libc import address_of
from mezzo.ports._rate import _Rated
from mezzo.ports.ring import address_of_map

ROOM = 1 << 20
LONGEST = 0x1_0000
RECORD = 16


class _Traced(_Rated):
    """The tap; an end inherits it, calls `trace_slot` for each slot and `trace_flush` for each batch."""

    trace_at: u64
    trace_fill: u32
    trace_fd: u32
    trace_write: u64
    trace_broken: flag

    def trace_slot(self, word: u64, more: u64):
        length = u32(word >> 32) & 0xFFFF
        if self.trace_fill + RECORD + length > ROOM:
            self.trace_flush()
        time = walltime()
        at = self.trace_at + self.trace_fill
        set_mem_u32(at, u32(time // 1_000_000_000))
        set_mem_u32(at + 4, u32(time % 1_000_000_000))
        set_mem_u32(at + 8, length)
        set_mem_u32(at + 12, length)
        mem_copy(at + RECORD, frame_address(u32(word)) + (more & 0xFFFF), length)
        self.trace_fill += RECORD + length

    def trace_flush(self):
        if self.trace_fill != 0 and not self.trace_broken:
            written = libc(self.trace_write, self.trace_fd, self.trace_at, self.trace_fill)
            if written != i64(self.trace_fill):
                self.trace_broken = True
                self.trace_failed(written)
        self.trace_fill = 0

    @python
    def trace_failed(self, written: int) -> None:
        reason = os.strerror(-written) if written < 0 else "it is full"
        self.fail(f"{self.name}: cannot write its capture: {reason}; going on without it")

    def open_trace(self, path: str, encap: str) -> None:
        """Python: both ends of a port may write to one file."""
        memory = mmap.mmap(-1, ROOM)
        self._port.keep("free the memory of the trace", memory.close)
        self.trace_at, self.trace_write = address_of_map(memory), address_of("write")
        self.trace_fd = self._port.trace_file(path, pcap_header(linktype_number(encap), LONGEST, True))
