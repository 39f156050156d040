"""AggregateCounter: a count for each value of the aggregate annotation, in a table of bounded size.

The dump files are those of Click: text lines `AGGREGATE COUNT`, or after the line `$packed_le` two little-endian u32.
"""

import struct
import sys
from collections import Counter as Tally

from mezzo.elements import (
    Arg,
    Bool,
    ConfigError,
    Element,
    Int,
    Packet,
    Raw,
    Table,
    Text,
    flag,
    i64,
    python,
    read,
    u32,
    u64,
    write,
)
from mezzo.elements.counter import NEVER, split_call

EXTRA_PACKETS, EXTRA_LENGTH = 24, 28
ALL_32 = 0xFFFF_FFFF
STOP, FREEZE, CALL = "STOP", "FREEZE", "CALL"


class AggregateCounter(Element):
    """Counts packets, or bytes, for each value of the aggregate annotation.

    When frozen it counts no values that it has not seen; what comes by input 1 is always counted so.  With two outputs,
    packets that are not counted leave by output 1.  CAPACITY bounds the values: when the table is full, others are not
    counted, as when frozen, and `missed` tells how many packets that were.
    """

    ports, processing = "1-2/1-2", "a/a"
    by_length = Arg(Bool(), False, "count bytes, not packets", positional=False, keyword="BYTES")
    ip_bytes = Arg(Bool(), False, "count bytes from the IP header on", positional=False)
    multipacket = Arg(Bool(), True, "a packet counts for as many as EXTRA_PACKETS says", positional=False)
    extra_length = Arg(Bool(), True, "count the EXTRA_LENGTH annotation to the bytes", positional=False)
    stop_after_agg = Arg(Int(0), None, "stop the router when there are so many values", positional=False)
    freeze_after_agg = Arg(Int(0), None, "freeze when there are so many values", positional=False)
    call_after_agg = Arg(Raw(), "", "`N HANDLER [VALUE]`: call HANDLER when there are N values", positional=False)
    stop_after_count = Arg(Int(0), None, "stop the router when so much is counted", positional=False)
    freeze_after_count = Arg(Int(0), None, "freeze when so much is counted", positional=False)
    call_after_count = Arg(Raw(), "", "`N HANDLER [VALUE]`: call HANDLER when N are counted", positional=False)
    banner = Arg(Text(), "", "lines at the head of dump files", positional=False)
    capacity = Arg(Int(1, 1 << 24), 65536, "values, at most", positional=False)
    table: Table[u32, u64, "capacity"]
    total: u64
    missed: u64
    frozen: flag
    active: flag
    agg_at: u64
    count_at: u64
    reads = {"total": "packets or bytes counted", "missed": "packets not counted for want of room"}
    limits = {"CAPACITY": 1 << 24}
    see = ("AggregateIP", "Counter")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3)
            -> MarkIPHeader -> AggregateIP(ip dst) -> a :: AggregateCounter(IP_BYTES true) -> Discard;
    """
    example_reads = {"a.total": "84", "a.aggregates": "1", "a.counts": "167772162 84"}

    def configure(self):
        self.by_bytes = self.by_length or self.ip_bytes
        self.active = True
        self.can_miss = self.noutputs == 2
        self.agg_at, self.agg_call = self._limit("AGG")
        self.count_at, self.count_call = self._limit("COUNT")
        self.limited = bool(self.agg_call or self.count_call)

    def _limit(self, what):
        """(the number, what happens then) of STOP_AFTER_, FREEZE_AFTER_ and CALL_AFTER_."""
        words = {k: getattr(self, f"{k}_after_{what}".lower()) for k in (STOP, FREEZE, CALL)}
        given = [k for k, value in words.items() if value not in (None, "")]
        if len(given) > 1:
            raise ConfigError(f"{given[0]}_AFTER_{what} and {given[1]}_AFTER_{what} exclude each other")
        if not given:
            return NEVER, ()
        if given != [CALL]:
            return words[given[0]], (given[0],)
        number, handler, value = split_call(words[CALL], f"CALL_AFTER_{what}")
        return number, (CALL, handler, value)

    def weight(self, p: Packet) -> u64:
        if not self.by_bytes:
            return u64(p.anno_u32(EXTRA_PACKETS)) + 1 if self.multipacket else 1
        size = u64(p.length)
        if self.ip_bytes and p.has_network and p.network_offset <= i64(p.length):
            size = u64(i64(p.length) - p.network_offset)
        return size + p.anno_u32(EXTRA_LENGTH) if self.extra_length else size

    def counted(self, p: Packet, known: bool) -> bool:
        if not self.active:
            return False
        key = p.aggregate
        if key not in self.table and (known or self.frozen):
            return False
        weight = self.weight(p)
        if not self.table.set(key, self.table.get(key, 0) + weight):
            self.missed += 1
            return False
        self.total += weight
        if self.limited:
            self.look_at_limits()
        return True

    def look_at_limits(self):
        if len(self.table) >= self.agg_at:
            self.agg_at = NEVER
            self.agg_reached()
        if self.total >= self.count_at:
            self.count_at = NEVER
            self.count_reached()

    def push(self, port, p):
        if self.counted(p, port == 1) or not self.can_miss:
            self.push(0, p)
        else:
            self.push(1, p)

    def pull(self, port):
        p = self.pull(0)
        if p is not None:
            self.counted(p, False)
        return p

    # -- in Python

    @python
    def agg_reached(self):
        self.act(self.agg_call)

    @python
    def count_reached(self):
        self.act(self.count_call)

    def act(self, call):
        if call[0] == FREEZE:
            self.frozen = True
        elif call[0] == STOP:
            self.stop("")
        elif call[1]:
            self.router.write(call[1], call[2])

    def items(self):
        return [(key, count) for key, count in self.table.items() if count]

    @read("aggregates", "how many values were seen")
    def aggregates(self):
        return len(self.items())

    @read("counts", "a line `AGGREGATE COUNT` for each value")
    def read_counts(self):
        return "\n".join(f"{key} {count}" for key, count in self.items())

    @read("freeze", "whether it is frozen")
    def read_freeze(self):
        return Bool().show(bool(self.frozen))

    @write("freeze", "freezes it, or not")
    def set_freeze(self, text):
        self.frozen = Bool().parse(text.strip(), self.env)

    @read("active", "whether it counts")
    def read_active(self):
        return Bool().show(bool(self.active))

    @write("active", "whether it counts")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)

    @write("stop", "counts no more, and stops the router", flags="b")
    def stop(self, text):
        self.active = False
        self.router.please_stop()

    @write("clear", "forgets all counts", flags="b")
    def clear(self, text):
        self.table.load([])
        self.total = self.missed = 0

    @write("reaggregate_counts", "counts become the values, and how often each occurred their count", flags="b")
    def reaggregate_counts(self, text):
        fresh = Tally(min(count, ALL_32) for _, count in self.items())
        self.table.load(sorted(fresh.items()))
        self.total = sum(fresh.values())

    @read("call_after_agg", "what CALL_AFTER_AGG says")
    def read_call_after_agg(self):
        return " ".join(map(str, (self.agg_at, *self.agg_call[1:]))) if self.agg_call[:1] == (CALL,) else ""

    @read("call_after_count", "what CALL_AFTER_COUNT says")
    def read_call_after_count(self):
        return " ".join(map(str, (self.count_at, *self.count_call[1:]))) if self.count_call[:1] == (CALL,) else ""

    @write("call_after_agg", "a new CALL_AFTER_AGG")
    def set_call_after_agg(self, text):
        self.need_call(self.agg_call, "CALL_AFTER_AGG")
        self.agg_at, *call = split_call(text, "call_after_agg")
        self.agg_call = (CALL, *call)

    @write("call_after_count", "a new CALL_AFTER_COUNT")
    def set_call_after_count(self, text):
        self.need_call(self.count_call, "CALL_AFTER_COUNT")
        self.count_at, *call = split_call(text, "call_after_count")
        self.count_call = (CALL, *call)

    def need_call(self, call, keyword):
        if call[:1] != (CALL,):
            raise ValueError(f"{self.name} was built without {keyword}: give it `{keyword} 0` in the configuration")

    @read("banner", "lines at the head of dump files")
    def read_banner(self):
        return self.banner

    @write("banner", "lines at the head of dump files")
    def set_banner(self, text):
        self.banner = text

    @write("write_ascii_file", "writes the counts as text to a file; `-` is the standard output")
    def write_ascii_file(self, text):
        self._dump(text, "".join(f"{key} {count}\n" for key, count in self.items()).encode())

    @write("write_file", "writes the counts to a file, packed; `-` is the standard output")
    def write_file(self, text):
        rows = b"".join(struct.pack("<II", key, min(count, ALL_32)) for key, count in self.items())
        self._dump(text, b"$packed_le\n" + rows)

    def _dump(self, name, data):
        head = f"!IPAggregate 1.0\n{self._comments()}!num_nonzero {len(self.items())}\n".encode() + data
        name = name.strip()
        if name == "-":
            sys.stdout.flush()
            sys.stdout.buffer.write(head)
            sys.stdout.flush()
            return
        if not name:
            raise ValueError("the file's name is missing; `-` is the standard output")
        try:
            with open(name, "wb") as file:
                file.write(head)
        except OSError as trouble:
            raise ValueError(f"{name}: {trouble.strerror}") from None

    def _comments(self):
        return "".join(f"{line}\n" for line in self.banner.splitlines())
