"""Packets out of capture files.

The file is memory (`mezzo.packet.capture_map`).  Classic files are walked by the packet code itself: byte order and
unit of time are constants in it.  Other forms (pcapng, old variants) come with a table, a row of five u64 a packet.

`advance` looks at the record at `at` and says what to do with it: a length to emit, or SKIP, WAIT, END.  It leaves what
it found in `where`, `kept_ns`, `extra` and `link`; `at` moves on only when the packet exists, so a packet for which
there is no frame, or that is not due yet, is looked at again.
"""

import os

import numpy as np

from mezzo.base import MezzoError
from mezzo.elements import (
    Arg,
    Blob,
    Bool,
    ConfigError,
    Duration,
    Element,
    Fixed,
    Int,
    Packet,
    Raw,
    Text,
    flag,
    i64,
    now,
    python,
    random,
    read,
    u32,
    u64,
    write,
)
from mezzo.elements.units import parse_duration
from mezzo.packet.capture import MAX_CAPTURED
from mezzo.packet.capture_map import map_capture
from mezzo.packet.linktypes import linktype_name

BURST = 32
RETRY_NS = 1_000_000
NONE = 0xFFFF_FFFF
SKIP, WAIT, END = 0xFFFF_FFFD, 0xFFFF_FFFE, 0xFFFF_FFFF  # larger than any length
NEVER = 0xFFFF_FFFF_FFFF_FFFF
SURE = 1 << 28  # SAMPLE 1, as in Click
ROW = 40  # offset, captured, wire length, time, link type
RAW_KINDS = (12, 14, 101, 228, 229)
EXTRA_LENGTH = 28  # annotation


class FromDump(Element):
    """Reads packets from a capture file, pcap or pcapng, maybe compressed.

    Packets keep their times, and where they were cut the missing length (EXTRA_LENGTH annotation).  Link types that are
    bare IP get their network mark.  Pushes, or gives one a pull.  A damaged file ends at the damage, with a message.
    """

    ports, processing, flow = "0/1-2", "a/ah", ""
    filename = Arg(Text(), doc="the file; `-` is the standard input")
    timing = Arg(Bool(), False, "keeps the time between packets; else they come as fast as they are taken")
    stop = Arg(Bool(), False, "stops the router at the end", positional=False)
    active = Arg(Bool(), True, "whether it emits packets", positional=False, live=flag)
    sample = Arg(Fixed(SURE, 0, SURE), SURE, "chance of each packet, 0 to 1", positional=False)
    force_ip = Arg(Bool(), False, "strips link headers; what is not IP goes to output 1, or dies", positional=False)
    start = Arg(Fixed(10**9), None, "skips packets before, s since 1970", positional=False)
    start_after = Arg(Duration(), None, "skips this much from the first packet on", positional=False)
    end = Arg(Fixed(10**9), None, "ends at the first packet then or later, s since 1970", positional=False)
    end_after = Arg(Duration(), None, "ends this long after the first packet", positional=False)
    interval = Arg(Duration(), None, "ends this long after the start", positional=False)
    end_call = Arg(Raw(), "", "`HANDLER [VALUE]` to write at the end", positional=False)
    filepos = Arg(Int(0), None, "place in the file of the first record", positional=False)
    mmap = Arg(Bool(), None, "map the file; by itself from 64 MB on", positional=False)

    file: Blob
    rows: Blob
    at: u64
    packet_at: u64
    begin: u64
    finish_at: u64
    base: u64
    based: flag
    ended: flag
    longest: u32
    where: u64
    following: u64
    kept_ns: u64
    extra: u32
    link: u32
    count: u64
    cut: u64
    trimmed: u64
    reads = ("count",)
    example = 'FromDump(examples/captures/eth0-in.pcap, STOP true) -> c :: Counter -> Discard;'
    example_reads = {"c.count": "253"}
    see = ("ToDump", "FromIPSummaryDump")

    def configure(self) -> None:
        try:
            self.capture = map_capture(self.path(), self.mmap)
        except MezzoError as trouble:
            raise ConfigError(str(trouble)) from None
        index = self.capture.index
        self.classic, self.little = index.is_classic, index.byte_order == "little"
        self.unit_ns = 1 if index.nanosecond else 1000
        self.linktype = index.linktype
        self.sampled = self.sample < SURE
        self.file.bind(self.capture.data)
        if not self.classic:
            self.rows.bind(self.table())
        self.at = self.first()
        self.longest = NONE
        self.set_window()

    def path(self) -> str:
        """FILENAME as it is, else beside the configuration."""
        beside = os.path.join(self.env.folder, self.filename)
        return beside if not os.path.exists(self.filename) and os.path.exists(beside) else self.filename

    def table(self) -> bytes:

        index = self.capture.index
        columns = (index.offset, index.captured, index.wire_length, index.time_ns, index.linktypes)
        return np.ascontiguousarray(np.stack(columns, axis=1)).tobytes()

    def first(self) -> int:
        """Where to begin: a place in the file, or a row."""
        index = self.capture.index
        if self.filepos is None:
            return index.first_record if self.classic else 0
        if self.classic:
            return max(self.filepos, index.first_record)
        return int((index.offset < self.filepos).sum())

    def set_window(self) -> None:
        """START, END and their likes as two times."""
        starts, ends = (self.start, self.start_after), (self.end, self.end_after, self.interval)
        if sum(x is not None for x in starts) > 1:
            self.error("START and START_AFTER exclude each other")
        if sum(x is not None for x in ends) > 1:
            self.error("END, END_AFTER and INTERVAL exclude each other")
        begun = self.first_time()
        self.begin = self.start if self.start is not None else begun + self.start_after if self.start_after else 0
        self.finish_at = NEVER
        if self.end is not None:
            self.finish_at = self.end
        elif self.end_after is not None:
            self.finish_at = begun + self.end_after
        elif self.interval is not None:
            self.finish_at = max(self.begin, begun) + self.interval

    def first_time(self) -> int:
        at, data = self.at, self.capture.data
        if not self.classic:
            times = self.capture.index.time_ns
            return int(times[at]) if at < len(times) else 0
        order = "little" if self.little else "big"
        seconds = int.from_bytes(data[at : at + 4], order)
        return seconds * 10**9 + int.from_bytes(data[at + 4 : at + 8], order) * self.unit_ns

    def initialize(self) -> None:
        self.longest = self.router.arena.longest

    # -- packets

    def task(self) -> bool:
        for _ in range(BURST):
            if not self.active or not self.ready(0):
                return False
            length = self.advance()
            if length < SKIP:
                p = self.make_from(self.file, self.where, length)
                if p is None:
                    self.timer_after(RETRY_NS)
                    return False
                self.accept(p)
                if self.mark(p):
                    self.count += 1
                    self.push(0, p)
                else:
                    self.push(1, p, "not IP")
            elif length == SKIP:
                self.at = self.following
            elif length == WAIT:
                return False
            else:
                self.come_to_end()
                return False
        return True

    def pull(self, port):
        for _ in range(4096):
            if not self.active:
                return None
            length = self.advance()
            if length < SKIP:
                p = self.make_from(self.file, self.where, length)
                if p is None:
                    self.timer_after(RETRY_NS)
                    return None
                self.accept(p)
                if self.mark(p):
                    self.count += 1
                    return p
                self.push(1, p, "not IP")
            elif length == SKIP:
                self.at = self.following
            elif length == WAIT:
                return None
            else:
                self.come_to_end()
                return None
        # There may be more behind all that was skipped.
        self.wake_down()
        return None

    def timer(self):
        self.wake()
        self.wake_down()

    def advance(self) -> u32:
        """What to do with the record at `at`."""
        captured: u64 = 0
        wire: u64 = 0
        time: u64 = 0
        at = self.at
        if self.classic:
            if at + 16 > u64(len(self.file)):
                return END
            if self.little:
                stamp = self.file.u64le(at)
                lengths = self.file.u64le(at + 8)
                time = u64(u32(stamp)) * 1_000_000_000 + (stamp >> 32) * self.unit_ns
                captured = u64(u32(lengths))
                wire = lengths >> 32
            else:
                time = u64(self.file.u32(at)) * 1_000_000_000 + u64(self.file.u32(at + 4)) * self.unit_ns
                captured = u64(self.file.u32(at + 8))
                wire = u64(self.file.u32(at + 12))
            if captured > MAX_CAPTURED or at + 16 + captured > u64(len(self.file)):
                return END
            self.where = at + 16
            self.following = at + 16 + captured
            self.link = self.linktype
        else:
            row = at * ROW
            if row >= u64(len(self.rows)):
                return END
            self.where = self.rows.u64le(row)
            captured = self.rows.u64le(row + 8)
            wire = self.rows.u64le(row + 16)
            time = self.rows.u64le(row + 24)
            self.link = u32(self.rows.u64le(row + 32))
            self.following = at + 1
        if time < self.begin:
            return SKIP
        if time >= self.finish_at:
            return END
        if self.timing and self.is_early(time):
            return WAIT
        if self.sampled and (random() & (SURE - 1)) >= self.sample:
            return SKIP
        self.kept_ns = time
        length = u32(captured)
        if captured > wire:
            length = u32(wire)
            self.trimmed += 1
        if length > self.longest:
            length = self.longest
            self.cut += 1
        self.extra = u32(wire) - length
        return length

    def is_early(self, time: u64) -> bool:
        """Whether the packet's time has not come; a timer is set for it then."""
        if not self.based:
            self.based = True
            self.base = now() - time
        due = self.base + time
        if i64(due - now()) > 0:
            self.timer_at(due)
            return True
        return False

    def accept(self, p: Packet):
        self.packet_at = self.at
        self.at = self.following
        p.timestamp = self.kept_ns
        p.set_mac(0)
        if self.extra != 0:
            p.set_anno_u32(EXTRA_LENGTH, self.extra)

    def ip_start(self, p: Packet, link: u32) -> u32:
        """Where an IPv4 or IPv6 header begins in a frame of this link type, NONE if there is none."""
        at: u32 = NONE
        if link in RAW_KINDS:
            at = 0
        elif link == 1:
            at = self.after_type(p, 12)
        elif link == 113:
            at = self.after_type(p, 14)
        elif link == 276:
            at = 20 if self.is_ip(p, 0) else NONE
        elif link == 0 or link == 108:
            at = 4 if self.is_family(p) else NONE
        elif link == 9 or link == 50:
            at = self.after_ppp(p)
        elif link == 51:
            at = 8 if self.is_ppp_ip(p, 6) else NONE
        elif link == 104:
            at = 4 if self.is_ip(p, 2) else NONE
        if at == NONE or p.length < at + 20:
            return NONE
        first = p.u8(at)
        if (first >> 4) == 4 and (first & 15) >= 5 and p.length >= at + 4 * u32(first & 15):
            return at
        if (first >> 4) == 6 and p.length >= at + 40:
            return at
        return NONE

    def is_ip(self, p: Packet, at: u32) -> bool:
        if p.length < at + 2:
            return False
        return p.u16(at) == 0x0800 or p.u16(at) == 0x86DD

    def after_type(self, p: Packet, at: u32) -> u32:
        """Past the ethertype at `at` and VLAN tags, of which no sane frame has more than four."""
        place: u32 = at
        for _ in range(4):
            if p.length < place + 2 or not (p.u16(place) == 0x8100 or p.u16(place) == 0x88A8 or p.u16(place) == 0x9100):
                break
            place += 4
        return place + 2 if self.is_ip(p, place) else NONE

    def is_family(self, p: Packet) -> bool:
        """A BSD loopback header, in the byte order of the machine that wrote it: 2, 10, 24, 28 and 30 are IP."""
        if p.length < 4:
            return False
        big = p.u32(0)
        family = big if big < 0x1_0000 else p.u32le(0)
        return family == 2 or family == 10 or family == 24 or family == 28 or family == 30

    def is_ppp_ip(self, p: Packet, at: u32) -> bool:
        if p.length < at + 2:
            return False
        return p.u16(at) == 0x0021 or p.u16(at) == 0x0057

    def after_ppp(self, p: Packet) -> u32:
        at: u32 = 0
        if p.length >= 2 and p.u16(0) == 0xFF03:
            at = 2
        return at + 2 if self.is_ppp_ip(p, at) else NONE

    def mark(self, p: Packet) -> bool:
        """Sets the marks of IP packets; False for a packet that FORCE_IP does not let pass."""
        if self.force_ip or (self.may_be_raw and self.link in RAW_KINDS):
            offset = self.ip_start(p, self.link)
            if offset == NONE:
                return not self.force_ip
            p.strip(offset)
            self.mark_ip(p)
        return True

    def mark_ip(self, p: Packet):
        p.set_network(0)
        first = p.u8(0)
        p.set_transport(4 * i64(first & 15) if (first >> 4) == 4 else 40)

    @property
    def may_be_raw(self) -> bool:
        kinds = {self.linktype} if self.classic else set(self.capture.index.linktypes.tolist())
        return bool(kinds & set(RAW_KINDS))

    # -- the end

    def come_to_end(self):
        if not self.ended:
            self.ended = True
            self.finish()

    @python
    def finish(self) -> None:
        for note in self.notes():
            self.say(f"{self.name}: `{self.capture.name}`: {note}")
        if self.end_call:
            handler, _, value = self.end_call.partition(" ")
            self.router.write(handler, value.strip())
        if self.stop:
            self.router.please_stop()

    def notes(self) -> list[str]:
        """What was wrong with the file, now that its end is reached."""
        found = list(self.capture.index.notes)
        if self.classic and self.finish_at == NEVER:
            found += self.damage()
        if self.trimmed and self.classic:
            found.append(f"{self.trimmed} records had more bytes than the packet; trimmed to its length")
        if self.cut:
            found.append(f"{self.cut} packets did not fit a frame; cut to {self.longest} bytes")
        return found

    def damage(self) -> list[str]:
        left = len(self.capture.data) - self.at
        if left <= 0:
            return []
        if left < 16:
            return ["the last record is cut inside its header; the file ends here"]
        order = "little" if self.little else "big"
        captured = int.from_bytes(self.capture.data[self.at + 8 : self.at + 12], order)
        if captured > MAX_CAPTURED:
            return [f"a record at byte {self.at} claims {captured} bytes, more than any packet; reading ends there"]
        return [f"the last record is cut after {left - 16} bytes; the file ends here"]

    def cleanup(self) -> None:
        self.file.bind(b"")
        self.capture = None

    # -- handlers

    def rouse(self) -> None:
        self.wake_task()
        self.wake_downstream()

    @write("active", "goes on, or stops, emitting packets")
    def set_active(self, text: str) -> None:
        self.active = Bool().parse(text.strip(), self.env)
        if self.active:
            self.rouse()

    @write("stop", "stops emitting packets, and the router")
    def write_stop(self, text: str) -> None:
        self.active = False
        self.router.please_stop()

    @read("sampling_prob", "the chance of each packet")
    def sampling_prob(self) -> str:
        return f"{self.sample / SURE:g}"

    @read("encap", "the link type")
    def encap(self) -> str:
        if self.force_ip or self.linktype in RAW_KINDS:
            return "IP"
        return "ETHER" if self.linktype == 1 else linktype_name(self.linktype)

    @read("filename", "the file's name")
    def read_filename(self) -> str:
        return str(self.filename)

    @read("filesize", "its length, unpacked, bytes")
    def filesize(self) -> int:
        return len(self.capture.data)

    @read("filepos", "where in the file it reads next, bytes")
    def read_filepos(self) -> int:
        return self.place_of(self.at)

    @read("packet_filepos", "where in the file the last packet was, bytes")
    def read_packet_filepos(self) -> int:
        return self.place_of(self.packet_at)

    def place_of(self, at: int) -> int:
        offsets = self.capture.index.offset
        return at if self.classic else int(offsets[at]) if at < len(offsets) else len(self.capture.data)

    @write("extend_interval", "moves the end by a time, and goes on")
    def extend_interval(self, text: str) -> None:
        if self.finish_at != NEVER:
            self.finish_at += parse_duration(text.strip())
        self.active, self.ended = True, False
        self.rouse()

    @write("reset_counts", "sets the count to 0")
    def reset_counts(self, text: str) -> None:
        self.count = 0

    @write("reset_timing", "the next packet is due at once")
    def reset_timing(self, text: str) -> None:
        self.based = False
        self.rouse()
