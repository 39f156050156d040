"""Packets out of capture files, pcap and pcapng.

The file is memory (`mezzo.packet.capture_map`), of a pipe what came last, and is walked as `_reader` says; here is what
is peculiar to captures: the window of time, and where IP begins behind the link headers.
"""

from array import array
from typing import Any

from mezzo.base import MezzoError
from mezzo.elements import Arg, Bool, ConfigError, Duration, Fixed, Int, Packet, i64, python, read, u32, write
from mezzo.elements._reader import END, HEADER, NEVER, NONE, SHORT, SKIP, WAIT, _Reader
from mezzo.elements.units import parse_duration
from mezzo.packet.capture import MAX_CAPTURED
from mezzo.packet.capture_map import map_capture
from mezzo.packet.linktypes import linktype_name

VIRTUAL_WAIT_MS = 100
RAW_KINDS = (12, 14, 101, 228, 229)


class FromDump(_Reader):
    """Reads packets from a capture file, pcap or pcapng, maybe compressed.

    Packets keep their times, and where they were cut the missing length (EXTRA_LENGTH annotation).  Link types that are
    bare IP get their network mark.  Pushes, or gives one a pull.  A damaged file ends at the damage, with a message.
    Plain pcap out of a pipe goes on as soon as it comes, in bounded memory.
    """

    ports, processing = "0/1-2", "a/ah"
    force_ip = Arg(Bool(), False, "strips link headers; what is not IP goes to output 1, or dies", positional=False)
    start = Arg(Fixed(10**9), None, "skips packets before, s since 1970", positional=False)
    start_after = Arg(Duration(), None, "skips this much from the first packet on", positional=False)
    end = Arg(Fixed(10**9), None, "ends at the first packet then or later, s since 1970", positional=False)
    end_after = Arg(Duration(), None, "ends this long after the first packet", positional=False)
    interval = Arg(Duration(), None, "ends this long after the start", positional=False)
    filepos = Arg(Int(0), None, "place in the file of the first record", positional=False)
    mmap = Arg(Bool(), None, "map the file; by itself from 64 MB on", positional=False)
    example = "FromDump(examples/captures/eth0-in.pcap, STOP true) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "253"}
    see = ("ToDump", "FromIPSummaryDump")

    def configure(self) -> None:
        super().configure()
        try:
            self.capture = map_capture(self.path(), self.mmap, stream=True)
        except MezzoError as trouble:
            raise ConfigError(str(trouble)) from None
        index = self.capture.index
        self.classic, self.little = index.is_classic, index.byte_order == "little"
        self.unit_ns = 1 if index.nanosecond else 1000
        self.linktype = index.linktype
        self.streamed, self.passed = self.capture.pipe is not None, 0
        self.hold(self.capture.data)
        self.link = self.linktype if self.classic else 0
        self.is_plain = self.classic and not self.timing and not self.sampled and not self.force_ip
        if not self.classic:
            self.rows.bind(self.table())
        self.at = self.first()
        self.set_window()

    def hold(self, data: Any) -> None:
        """Makes these bytes the ones that packet code sees."""
        self.window, self.size = data, len(data)
        self.short_end = max(self.size - HEADER - SHORT + 1, 0)
        self.file.bind(data)

    @python
    def refill(self) -> int:
        # Virtual time would run away from whoever writes.
        piece = self.capture.pipe.maybe_read(VIRTUAL_WAIT_MS if self.router.virtual else 0)
        if piece is None:
            return WAIT
        self.move_on(piece)
        return SKIP if piece else END

    def move_on(self, piece: bytes) -> None:
        """Lets go of what was read, and takes in what follows."""
        done = min(self.at, self.size)
        self.hold(self.window[done:] + piece)
        self.passed += done
        self.at = self.following = self.at - done
        self.packet_at = (self.packet_at - done) % 2**64

    def table(self) -> bytes:
        index = self.capture.index
        columns = (index.offset, index.captured, index.wire_length, index.time_ns, index.linktypes)
        rows = array("Q", bytes(8 * len(columns) * len(index.offset)))
        for place, column in enumerate(columns):
            rows[place :: len(columns)] = column
        return rows.tobytes()

    def first(self) -> int:
        """Where to begin: a place in the file, or a row."""
        index = self.capture.index
        if self.filepos is None:
            return index.first_record if self.classic else 0
        if self.classic:
            return max(self.filepos, index.first_record)
        return sum(offset < self.filepos for offset in index.offset)

    def set_window(self) -> None:
        """START, END and their likes as two times."""
        starts, ends = (self.start, self.start_after), (self.end, self.end_after, self.interval)
        if sum(x is not None for x in starts) > 1:
            self.error("START and START_AFTER exclude each other")
        if sum(x is not None for x in ends) > 1:
            self.error("END, END_AFTER and INTERVAL exclude each other")
        begun = self.first_time() if any((self.start_after, self.end_after, self.interval)) else 0
        self.begin = self.start if self.start is not None else begun + self.start_after if self.start_after else 0
        if self.end is not None:
            self.finish_at = self.end
        elif self.end_after is not None:
            self.finish_at = begun + self.end_after
        elif self.interval is not None:
            self.finish_at = max(self.begin, begun) + self.interval

    def first_time(self) -> int:
        self.await_first()
        at, data = self.at, self.window
        if not self.classic:
            times = self.capture.index.time_ns
            return times[at] if at < len(times) else 0
        order = "little" if self.little else "big"
        seconds = int.from_bytes(data[at : at + 4], order)
        return seconds * 10**9 + int.from_bytes(data[at + 4 : at + 8], order) * self.unit_ns

    def await_first(self) -> None:
        """Fills the window of a pipe with the header of the first record."""
        missing = self.at + HEADER - self.size
        try:
            while self.streamed and missing > 0 and (piece := self.capture.pipe.read(missing)):
                self.move_on(piece)
                missing -= len(piece)
        except OSError as trouble:
            raise ConfigError(f"cannot read `{self.filename}`: {trouble.strerror}") from None

    # -- another configuration

    def same_file(self, old: Any) -> bool:
        """A pipe is read on where `old` is in it."""
        if not (self.streamed and old.streamed):
            return super().same_file(old) and not old.streamed
        return bool(self.path() == old.path() and self.capture.pipe.identity == old.capture.pipe.identity)

    def moved(self, old: Any) -> None:
        if old is not self and self.streamed and self.same_file(old):
            self.capture.pipe.go_on_from(old.capture.pipe)
            self.passed = old.passed
            self.hold(old.window)

    # -- packets

    def mark(self, p: Packet) -> bool:
        """Sets the marks of IP packets; False for a packet that FORCE_IP does not let pass."""
        is_raw = self.may_be_raw and self.link in RAW_KINDS
        if not is_raw:
            p.set_mac(0)
        if self.force_ip or is_raw:
            offset = self.ip_start(p, self.link)
            if offset == NONE:
                return not self.force_ip
            p.strip(offset)
            self.mark_ip(p)
        return True

    def mark_ip(self, p: Packet):
        """Sets the marks of a sound IP header at the start."""
        p.set_network(0)
        first = p.u8(0)
        p.set_transport(4 * i64(first & 15) if (first >> 4) == 4 else 40)

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

    @property
    def may_be_raw(self) -> bool:
        kinds = {self.linktype} if self.classic else set(self.capture.index.linktypes)
        return bool(kinds & set(RAW_KINDS))

    # -- the end

    def notes(self) -> list[str]:
        """What was wrong with the file, now that its end is reached."""
        found = [*self.capture.index.notes, *super().notes()]
        if self.classic and self.finish_at == NEVER:
            found += self.damage()
        if self.trimmed and self.classic:
            found.append(f"{self.trimmed} records had more bytes than the packet; trimmed to its length")
        return found

    def damage(self) -> list[str]:
        left = self.size - self.at
        if left <= 0:
            return []
        if left < 16:
            return ["the last record is cut inside its header; the file ends here"]
        order = "little" if self.little else "big"
        captured = int.from_bytes(self.window[self.at + 8 : self.at + 12], order)
        if captured > MAX_CAPTURED:
            place = self.place_of(self.at)
            return [f"a record at byte {place} claims {captured} bytes, more than any packet; reading ends there"]
        return [f"the last record is cut after {left - 16} bytes; the file ends here"]

    def cleanup(self) -> None:
        super().cleanup()
        if self.capture is not None and self.capture.pipe is not None:
            self.capture.pipe.close()
        self.capture = self.window = None

    # -- handlers

    @read("encap", "the link type")
    def encap(self) -> str:
        if self.force_ip or self.linktype in RAW_KINDS:
            return "IP"
        return "ETHER" if self.linktype == 1 else linktype_name(self.linktype)

    @read("filesize", "its length, unpacked, bytes")
    def filesize(self) -> int:
        return self.passed + self.size

    @read("filepos", "where in the file it reads next, bytes")
    def read_filepos(self) -> int:
        return self.place_of(self.at)

    @read("packet_filepos", "where in the file the last packet was, bytes")
    def read_packet_filepos(self) -> int:
        return self.place_of(self.packet_at)

    def place_of(self, at: int) -> int:
        offsets = self.capture.index.offset
        if self.classic:
            return (self.passed + at) % 2**64
        return offsets[at] if at < len(offsets) else self.size

    @write("extend_interval", "moves the end by a time, and goes on")
    def extend_interval(self, text: str) -> None:
        if self.finish_at != NEVER:
            self.finish_at += parse_duration(text.strip())
        self.active, self.ended = True, False
        self.rouse()
