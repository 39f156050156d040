"""Packets into capture files.

Packet code appends records to a buffer; Python writes the buffer to the file when it is full, at latest a tenth of a
second after a packet came, and at the end.  Files are little-endian.

When a write fails (a full disk, a reader that went away) the file is cut behind its last whole record, the trouble is
said once, and the router goes on: further packets pass, and are counted in `lost`.
"""

import os
from contextlib import suppress
from typing import Any

from mezzo.base import MezzoError
from mezzo.elements import (
    U32,
    Arg,
    Bool,
    Buffer,
    ConfigError,
    Many,
    Packet,
    Text,
    Word,
    flag,
    python,
    u8,
    u16,
    u32,
    u64,
    u128,
    walltime,
    write,
)
from mezzo.elements._recorder import _Recorder
from mezzo.packet.capture import MAX_CAPTURED
from mezzo.packet.capture_write import pcap_header, pcapng_header
from mezzo.packet.linktypes import ETHERNET, linktype_number

SIZE = 1 << 19
FLUSH_NS = 100_000_000
MOST_SECONDS = 0xFFFF_FFFF  # pcap's end of time, in 2106
EXTRA_LENGTH = 28  # annotation
BLOCK = 32  # bytes of a pcapng packet block around the data
PLAIN = 16  # bytes of a pcap record header


class ToDump(_Recorder):
    """Writes packets to a capture file, pcap or pcapng.

    A packet without timestamp gets the present time in the file.  Passes packets on where its output is connected; else
    it ends them, and pulls when its input is pull.
    """

    filename = Arg(Text(), doc="the file, written anew; `-` is the standard output")
    snaplen = Arg(U32(), 2000, "most bytes of a packet that are kept; 0 is all")
    encap = Arg(Word(), None, "link type: ETHER (the default), IP, SLL, NULL ... or its number")
    use_encap_from = Arg(Many(Word()), (), "elements whose `encap` handlers tell the link type", positional=False)
    extra_length = Arg(Bool(), True, "counts the EXTRA_LENGTH annotation to the length", positional=False)
    unbuffered = Arg(Bool(), False, "hands each packet to the file at once", positional=False)
    nano = Arg(Bool(), True, "times in nanoseconds; else cut to microseconds", positional=False)
    pcapng = Arg(Bool(), False, "writes pcapng", positional=False)

    out: Buffer[SIZE]
    count: u64
    lost: u64
    broken: flag
    armed: flag
    reads = {"count": "packets written", "lost": "packets that could not be written"}
    example = 'InfiniteSource(DATA "hello", LIMIT 3) -> d :: ToDump(/dev/null) -> c :: Counter -> Discard;'
    example_reads = {"d.count": "3", "c.count": "3"}
    see = ("FromDump", "ToIPSummaryDump", "Tee")

    def configure(self) -> None:
        self.descriptor = -1
        self.saved = 0
        self.kept = self.snaplen or MAX_CAPTURED
        self.room = SIZE - BLOCK - 4
        self.take_place()
        if self.encap is not None and self.use_encap_from:
            self.error("ENCAP and USE_ENCAP_FROM exclude each other")
        if self.encap is not None:
            linktype_number(self.encap)

    # -- packets

    def record(self, p: Packet):
        if self.broken:
            self.lost += 1
            return
        captured = min(p.length, u32(self.kept))
        if u64(len(self.out)) + captured > self.room:
            self.flush()
            if self.broken:
                self.lost += 1
                return
        wire = p.length
        if self.extra_length:
            wire += p.anno_u32(EXTRA_LENGTH)
        time = p.timestamp
        if time == 0:
            time = walltime()
        if self.pcapng:
            self.put_block(p, captured, wire, time)
        else:
            self.put_plain(p, captured, wire, time)
        self.count += 1
        if self.unbuffered:
            self.flush()
        elif not self.armed:
            self.armed = True
            self.timer_after(FLUSH_NS)

    def put_plain(self, p: Packet, captured: u32, wire: u32, time: u64):
        seconds = min(time // 1_000_000_000, u64(MOST_SECONDS))
        rest = time % 1_000_000_000
        fraction = rest if self.nano else rest // 1000
        self.out.put(u128(seconds | fraction << 32) | u128(u64(captured) | u64(wire) << 32) << 64)
        self.out.put_packet(p, 0, captured)

    def put_block(self, p: Packet, captured: u32, wire: u32, time: u64):
        """An enhanced packet block; its data is filled up to a multiple of four."""
        fill = (4 - (captured & 3)) & 3
        total = captured + fill + BLOCK
        ticks = time if self.nano else time // 1000
        self.out.put(u64(total) << 32 | 6)
        self.out.put(ticks >> 32 << 32)
        self.out.put((ticks & 0xFFFF_FFFF) | u64(captured) << 32)
        self.out.put(wire)
        self.out.put_packet(p, 0, captured)
        if fill & 1 != 0:
            self.out.put(u8(0))
        if fill & 2 != 0:
            self.out.put(u16(0))
        self.out.put(total)

    def timer(self):
        self.armed = False
        self.flush()

    # -- the file

    def initialize(self) -> None:
        linktype = self.linktype()
        header = pcapng_header if self.pcapng else pcap_header
        self.descriptor = 1 if self.filename == "-" else self.open()
        self.save(header(linktype, self.kept, self.nano))

    def same_file(self, old: Any) -> bool:
        """Whether it writes on where `old` is."""
        return bool(self.filename == old.filename and self.form() == old.form())

    def form(self) -> tuple[object, ...]:
        return self.pcapng, self.nano, self.kept, self.encap, self.use_encap_from

    def hands_over(self, old: Any) -> list[str]:
        apart = () if self.same_file(old) else ("out", "armed", "broken")  # what is in the buffer is for the other file
        return [name for name in super().hands_over(old) if name not in apart]

    def initialize_after(self, old: Any) -> None:
        if old is None or old.filename != self.filename:
            self.initialize()
        elif not self.same_file(old):
            raise ConfigError(f"`{self.filename}` is written in another form now; give another name")

    def moved(self, old: Any) -> None:
        if old is not self and self.same_file(old):
            self.descriptor, old.descriptor, self.saved = old.descriptor, -1, old.saved

    def open(self) -> int:
        try:
            return os.open(self.filename, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except (OSError, ValueError) as trouble:
            reason = getattr(trouble, "strerror", None) or trouble
            raise ConfigError(f"cannot write `{self.filename}`: {reason}") from None

    def linktype(self) -> int:
        if self.encap is not None:
            return linktype_number(self.encap)
        told = {name: self.encap_of(name) for name in self.use_encap_from}
        if len(set(told.values())) > 1:
            listed = ", ".join(f"{name} has {kind}" for name, kind in told.items())
            raise ConfigError(f"USE_ENCAP_FROM: the link types differ: {listed}")
        return linktype_number(next(iter(told.values()))) if told else ETHERNET

    def encap_of(self, name: str) -> str:
        """What the `encap` handler of an element says; names count from inside this compound element outwards."""
        scope = self.name
        while scope:
            scope = scope.rpartition("/")[0]
            full = f"{scope}/{name}" if scope else name
            if full in self.router.elements:
                break
        try:
            return str(self.router.handlers.read(f"{full}.encap"))
        except MezzoError as trouble:
            raise ConfigError(f"USE_ENCAP_FROM: {trouble}") from None

    @python
    def flush(self) -> None:
        """Moves the buffer to the file."""
        if len(self.out) and not self.broken:
            self.save(self.out.view())
        self.out.clear()

    def save(self, data: bytes | memoryview) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.write(self.descriptor, data[done:])
        except OSError as trouble:
            self.give_up(data, done, trouble)
        self.saved += done

    def give_up(self, data: bytes | memoryview, done: int, trouble: OSError) -> None:
        """The file ends behind the last whole record that is in it."""
        self.broken = True
        whole, count = self.whole_records(data, done)
        self.count, self.lost = self.count - count, self.lost + count
        with suppress(OSError):  # a pipe keeps what was written
            os.ftruncate(self.descriptor, self.saved + whole)
        name = "standard output" if self.filename == "-" else self.filename
        self.fail(f"{self.name}: cannot write `{name}`: {trouble.strerror}; going on without it")

    def whole_records(self, data: bytes | memoryview, done: int) -> tuple[int, int]:
        """(bytes of whole records among the first `done`, records behind them)."""
        at, whole, behind = 0, 0, 0
        if self.saved == 0:
            return 0, 0  # the file's header itself did not fit
        while at < len(data):
            field = at + (4 if self.pcapng else 8)
            size = int.from_bytes(data[field : field + 4], "little")
            at += size if self.pcapng else size + PLAIN
            whole, behind = (at, behind) if at <= done else (whole, behind + 1)
        return whole, behind

    def cleanup(self) -> None:
        if self.descriptor < 0:
            return
        self.flush()
        if self.filename != "-":
            os.close(self.descriptor)
        self.descriptor = -1

    # -- handlers

    @write("flush", "hands everything so far to the file")
    def write_flush(self, text: str) -> None:
        self.flush()

    @write("reset_counts", "sets the count to 0")
    def reset_counts(self, text: str) -> None:
        self.count = 0
