"""Byte queue limits: how many bytes a device may hold, found from how it drains (Linux's dynamic queue limits).

    ToDevice(eth0, BQL true)

A limit too small starves the device between two completions; one too large keeps the backlog in the ring, where no
queue discipline reaches it.  So, at each completion of some bytes (the behaviour of lib/dynamic_queue_limits.c):

* the device *starved* when it had been stopped by the limit and everything queued is done, in this interval or as of
  the one before: the limit grows by what was completed beyond what the interval began with, and by how far the queue
  went over the limit;
* it had *slack* when something was in progress all the time: what of the limit was not needed is
  max(limit + over - 2 completed, the last packet's share over the limit); the least slack of a whole `hold time` is
  taken off the limit;
* in between nothing is known, and the limit stays.

Counts are u32 and may wrap: they are compared by their distance.  A queue may go over its limit by one packet: it is
stopped when less than nothing is available.
"""

from mezzo.elements import Arg, Bool, Duration, Int, entry, flag, i64, now, read, u32, u64, write
from mezzo.ports._end import _End

NO_LIMIT = 0xFFFF_FFFF
LARGEST_LIMIT = 0xFFFF_FFFF // 2 - 0xFFFF_FFFF // 16  # Linux DQL_MAX_LIMIT: distances stay below a half
HOLD_NS = 10**9


class _Limited(_End):
    """The limit; ToDevice inherits it."""

    bql = Arg(Bool(), False, "limits the bytes in the ring by how the device drains them", positional=False)
    bql_max = Arg(Int(0, LARGEST_LIMIT), LARGEST_LIMIT, "the limit goes no higher, bytes", positional=False)
    bql_min = Arg(Int(0, LARGEST_LIMIT), 0, "the limit goes no lower, bytes", positional=False)
    bql_hold = Arg(Duration(), HOLD_NS, "how long slack is watched before the limit goes down", positional=False)

    limiting: flag
    limit: u32
    limit_max: u32
    limit_min: u32
    hold_ns: u64
    queued: u32
    last_size: u32
    completed: u32
    over_before: u32
    queued_before: u32
    last_size_before: u32
    least_slack: u32
    slack_since: u64

    def set_limits(self) -> None:
        """Configuration."""
        if self.bql_min > self.bql_max:
            self.error(f"BQL_MIN {self.bql_min} is more than BQL_MAX {self.bql_max}")
        self.limiting = self.bql
        self.limit_max, self.limit_min, self.hold_ns = self.bql_max, self.bql_min, self.bql_hold
        self.least_slack = NO_LIMIT

    def above(self, a: u32, b: u32) -> u32:
        """a - b, but 0 where b is ahead."""
        distance = a - b
        return distance if distance < 0x8000_0000 else 0

    def available(self) -> i64:
        """Bytes that may still be queued; the queue stops below 0."""
        room = self.limit + self.completed - self.queued
        return i64(room) if room < 0x8000_0000 else i64(room) - 0x1_0000_0000

    @entry
    def note_queued(self, size: u32):
        """Bytes are handed to the device."""
        self.last_size = size
        self.queued += size

    @entry
    def note_completed(self, size: u32):
        """Bytes came back; never more than were queued."""
        done = self.completed + size
        over = self.above(self.queued - self.completed, self.limit)
        busy = self.queued - done
        busy_before = self.queued_before - self.completed
        # Everything that was queued at the last completion is done.
        all_done = self.above(self.queued_before, done) == 0
        limit: u32 = self.limit
        if (over != 0 and busy == 0) or (self.over_before != 0 and all_done):
            limit += self.above(done, self.queued_before) + self.over_before
            self.watch_slack()
        elif busy != 0 and busy_before != 0 and not all_done:
            self.least_slack = min(self.least_slack, self.slack(size))
            if now() > self.slack_since + self.hold_ns:
                limit = self.above(limit, self.least_slack)
                self.watch_slack()
        limit = min(max(limit, self.limit_min), self.limit_max)
        if limit != self.limit:
            self.limit = limit
            over = 0
        self.over_before = over
        self.last_size_before = self.last_size
        self.completed = done
        self.queued_before = self.queued

    def slack(self, size: u32) -> u32:
        """What of the limit this interval did not need."""
        unused = self.above(self.limit + self.over_before, 2 * size)
        share: u32 = 0
        if self.over_before != 0:
            share = self.above(self.last_size_before, self.over_before)
        return max(unused, share)

    def watch_slack(self):
        self.slack_since = now()
        self.least_slack = NO_LIMIT

    # -- handlers, by the names of /sys/class/net/DEV/queues/tx-N/byte_queue_limits

    @read("bql_limit", "the byte queue limit as it is now")
    def read_limit(self) -> int:
        return self.limit

    @read("bql_inflight", "bytes queued and not completed")
    def read_inflight(self) -> int:
        return (self.queued - self.completed) % (1 << 32)

    @read("bql_limit_max", "the limit goes no higher, bytes")
    def read_limit_max(self) -> int:
        return self.limit_max

    @read("bql_limit_min", "the limit goes no lower, bytes")
    def read_limit_min(self) -> int:
        return self.limit_min

    @read("bql_hold_time", "how long slack is watched, ms")
    def read_hold(self) -> int:
        return self.hold_ns // 10**6

    @write("bql_limit_max", "the limit goes no higher, bytes")
    def write_limit_max(self, text: str) -> None:
        self.limit_max = Int(0, LARGEST_LIMIT).parse(text.strip(), self.env)

    @write("bql_limit_min", "the limit goes no lower, bytes")
    def write_limit_min(self, text: str) -> None:
        self.limit_min = Int(0, LARGEST_LIMIT).parse(text.strip(), self.env)

    @write("bql_hold_time", "how long slack is watched, ms")
    def write_hold(self, text: str) -> None:
        self.hold_ns = Int(0, 10**6).parse(text.strip(), self.env) * 10**6

    @write("bql", "switches the limit on or off while packets flow")
    def write_bql(self, text: str) -> None:
        self.limiting = Bool().parse(text.strip(), self.env)
        self.wake_task()
