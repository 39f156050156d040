"""What elements have in common that read packets from a file held in memory.

Records lie in `file`.  Classic captures are walked by the packet code itself: byte order and unit of time are constants
in it.  Out of a pipe they come as a window, which `refill` moves on.  Other forms come with a table, a row of five u64
a packet: offset, captured and wire length, time, link type.

Most records are short, whole and within the window of time (`is_short`): a burst takes them without more ado.  As many
bytes are copied for each, a constant number, and the packet is trimmed to its own.

`advance` looks at any record at `at` and says what to do with it: a length to emit, or SKIP, WAIT, END.  It leaves what
it found in `where`, `kept_ns`, `extra` and `link`; `at` moves on only when the packet exists, so a packet for which
there is no frame, or that is not due yet, is looked at again.
"""

import os
from typing import Any

from mezzo.elements import (
    Arg,
    Blob,
    Bool,
    Element,
    Fixed,
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
from mezzo.packet.capture import MAX_CAPTURED

BURST = 32
SHORT = 78  # three wide loads and stores in native code, and enough for a frame that carries no data
RETRY_NS = 1_000_000
NONE = 0xFFFF_FFFF
SKIP, WAIT, END = 0xFFFF_FFFD, 0xFFFF_FFFE, 0xFFFF_FFFF  # larger than any length
NEVER = 0xFFFF_FFFF_FFFF_FFFF
SURE = 1 << 28  # SAMPLE 1, as in Click
HEADER, ROW = 16, 40
EXTRA_LENGTH = 28  # annotation


class _Reader(Element):
    """The packet path, the end, and the handlers; a subclass opens the file and says what to mark."""

    ports, processing, flow = "0/1", "a/a", ""
    filename = Arg(Text(), doc="the file; `-` is the standard input")
    timing = Arg(Bool(), False, "keeps the time between packets; else they come as fast as they are taken")
    stop = Arg(Bool(), False, "stops the router at the end", positional=False)
    active = Arg(Bool(), True, "whether it emits packets", positional=False, live=flag)
    sample = Arg(Fixed(SURE, 0, SURE), SURE, "chance of each packet, 0 to 1", positional=False)
    end_call = Arg(Raw(), "", "`HANDLER [VALUE]` to write at the end", positional=False)

    file: Blob
    rows: Blob
    at: u64
    packet_at: u64
    begin: u64
    finish_at: u64
    base: u64
    based: flag
    ended: flag
    size: u64
    short_end: u64
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
    classic = little = is_plain = streamed = False
    unit_ns, linktype = 1, NONE

    def configure(self) -> None:
        self.sampled = self.sample < SURE
        self.longest = NONE
        self.finish_at = NEVER

    def path(self) -> str:
        """FILENAME as it is, else beside the configuration."""
        beside = os.path.join(self.env.folder, self.filename)
        return beside if not os.path.exists(self.filename) and os.path.exists(beside) else self.filename

    def initialize(self) -> None:
        self.longest = self.router.arena.longest

    # -- another configuration

    def hands_over(self, old: Any) -> list[str]:
        """Where it is in the file, if that is the same one; of another only what was counted goes on."""
        names = super().hands_over(old)
        if not self.same_file(old):
            return [name for name in names if name in ("active", "count", "cut", "trimmed")]
        place = ("at", "packet_at", "following") if self.args.get("filepos") == old.args.get("filepos") else ()
        return [*names, *(name for name in place if name not in names)]

    def same_file(self, old: Any) -> bool:
        """Whether it reads the bytes that `old` reads."""
        return bool(self.path() == old.path() and len(self.file) == len(old.file) and not self.streamed)

    # -- packets

    def task(self) -> bool:
        for _ in range(BURST):
            if not self.active or not self.ready(0):
                return False
            at = self.at
            if not self.is_plain or at >= self.short_end or not self.is_short(at):
                if not self.step():
                    return False
                continue
            p = self.make_from(self.file, at + HEADER, SHORT)
            if p is None:
                self.timer_after(RETRY_NS)
                return False
            captured = u32(self.pair(at + 8))
            p.trim(SHORT - captured)
            p.timestamp = self.time_at(at)
            self.packet_at = at
            self.at = at + HEADER + captured
            self.count += 1
            self.mark(p)
            self.push(0, p)
        return True

    def is_short(self, at: u64) -> bool:
        """Whether the record is a few bytes, all of the packet, within the window of time: what most records are."""
        lengths = self.pair(at + 8)
        captured = u32(lengths)
        time = self.time_at(at)
        return captured <= SHORT and lengths >> 32 == captured and self.begin <= time and time < self.finish_at

    def step(self) -> bool:
        """Deals with any record; False when there is nothing more to do now."""
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
            if at + HEADER > self.size:
                return self.beyond()
            lengths = self.pair(at + 8)
            captured = u64(u32(lengths))
            if captured > MAX_CAPTURED:
                return END
            if at + HEADER + captured > self.size:
                return self.beyond()
            wire = lengths >> 32
            time = self.time_at(at)
            self.where = at + HEADER
            self.following = at + HEADER + captured
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

    def beyond(self) -> u32:
        """What to do when a record does not end in `file`."""
        if not self.streamed:
            return END
        told = u32(self.refill())
        if told == WAIT:
            self.timer_after(RETRY_NS)
        return told

    @python
    def refill(self) -> int:
        """Moves a window on: SKIP when there is more to look at, WAIT when there may be later, END."""
        return END

    def pair(self, at: u64) -> u64:
        """Two fields of a record's header, the first in the low half."""
        if self.little:
            return self.file.u64le(at)
        return u64(self.file.u32(at)) | u64(self.file.u32(at + 4)) << 32

    def time_at(self, at: u64) -> u64:
        stamp = self.pair(at)
        return u64(u32(stamp)) * 1_000_000_000 + (stamp >> 32) * self.unit_ns

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
        if self.extra != 0:
            p.set_anno_u32(EXTRA_LENGTH, self.extra)

    def mark(self, p: Packet) -> bool:
        """Sets marks; False for a packet that must not pass."""
        return True

    # -- the end

    def come_to_end(self):
        if not self.ended:
            self.ended = True
            self.finish()

    @python
    def finish(self) -> None:
        for note in self.notes():
            self.say(f"{self.name}: `{self.filename}`: {note}")
        if self.end_call:
            handler, _, value = self.end_call.partition(" ")
            self.router.write(handler, value.strip())
        if self.stop:
            self.router.please_stop()

    def notes(self) -> list[str]:
        """What was wrong, now that the end is reached."""
        return [f"{self.cut} packets did not fit a frame; cut to {self.longest} bytes"] if self.cut else []

    def cleanup(self) -> None:
        self.file.bind(b"")

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

    @read("filename", "the file's name")
    def read_filename(self) -> str:
        return str(self.filename)

    @write("reset_counts", "sets the count to 0")
    def reset_counts(self, text: str) -> None:
        self.count = 0

    @write("reset_timing", "the next packet is due at once")
    def reset_timing(self, text: str) -> None:
        self.based = False
        self.rouse()
