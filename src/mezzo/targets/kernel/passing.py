"""How packets come to a program and go from it: from a wire, or with the record of another level or program."""

from __future__ import annotations

from mezzo.packet.arena import META
from mezzo.targets.kernel import record
from mezzo.targets.kernel.facts import PLACES, UNSET
from mezzo.targets.kernel.frame import ADJUST_META, Frame
from mezzo.targets.kernel.text import RARE

ETHERNET = 14  # bytes of its header


class Passing(Frame):
    """Frame, and the two ends of a packet's way through it."""

    def arrive(self) -> None:
        """A packet from the wire; the kernel gives a program none that is shorter than an Ethernet header."""
        self.read_ends()  # before the lane is found, so that the context need not outlive the call
        self.settle()
        self.t.do(f"store i64 {record.HEADROOM}, ptr {self.origin}")
        for place in PLACES:
            self.move(place, "0" if place in ("data", "front") else str(UNSET))
        self.facts.sure = ETHERNET

    def settle(self) -> None:
        """Finds the CPU's lane, once for all of the program."""
        self.t.do(f"store ptr {self.find_lane()}, ptr {self.own_lane}")

    def arrive_with_record(self) -> str:
        """A packet that another level hands over; its way (i32).  The record goes, as if it never was."""
        t = self.t
        self.settle()
        meta, good = self.context_pointer("data_meta"), t.label("told")
        behind = t.op(f"getelementptr inbounds nuw i8, ptr {meta}, i64 {record.SIZE}")
        t.branch(t.op(f"icmp ule ptr {behind}, {self.context_pointer('data')}"), good, "aborted", RARE)
        t.at(good)
        way, front = self._u16(meta, record.WAY), self._u16(meta, record.FRONT)
        t.do(f"store i64 {self._u16(meta, record.GATE)}, ptr {self.gate}")
        data = t.op(f"sub i64 {self._u16(meta, record.DATA)}, {front}")
        t.do(f"store i64 {front}, ptr {self.origin}")
        for mark in ("mac", "net", "trans"):
            self._take_mark(mark, self._u16(meta, META[mark][0]))
        self.set_timestamp(t.load("i64", meta, META["timestamp"][0]))
        t.do(f"store i8 {t.load('i8', meta, META['packet_type'][0])}, ptr {self.kind}")
        for n, word in enumerate(self.annotations):
            t.do(f"store i64 {t.load('i64', meta, META['anno'][0] + 8 * n)}, ptr {word}")
        for at in range(0, record.SIZE, 8):  # what an element grows into in front of the packet was zero before
            t.store("i64", "0", meta, at)
        t.helper(ADJUST_META, "ptr %ctx", f"i32 {record.SIZE}")
        self.read_ends()
        self.move("front", "0")
        self.move("data", data)
        return t.widen(way, "i64", "i32")

    def _u16(self, base: str, at: int) -> str:
        return self.t.widen(self.t.load("i16", base, at), "i16", "i64")

    def _take_mark(self, mark: str, told: str) -> None:
        t = self.t
        place = t.op(f"sub i64 {told}, {t.op(f'load i64, ptr {self.origin}')}")
        unset = t.op(f"icmp eq i64 {told}, {UNSET}")
        self.move(mark, t.op(f"select i1 {unset}, i64 {UNSET}, i64 {place}"))

    def leave_with_record(self, way: str, lost: str = "") -> None:
        """Goes to another level: the record is put in front of the packet's memory."""
        t, stamp = self.t, self.timestamp()  # the time is asked for before the packet moves
        # What a driver left there goes: the record ends where the packet begins.
        ends = [t.op(f"ptrtoint ptr {self.context_pointer(name)} to i64") for name in ("data", "data_meta")]
        there = t.opaque("i64", t.op(f"sub i64 {ends[0]}, {ends[1]}"), "")
        by = t.op(f"trunc i64 {t.op(f'sub i64 {there}, {record.SIZE}')} to i32")
        failed = t.helper(ADJUST_META, "ptr %ctx", f"i32 {by}")
        self.check(t.op(f"icmp eq i64 {failed}, 0"), lost)
        meta = self.context_pointer("data_meta")
        behind = t.op(f"getelementptr inbounds nuw i8, ptr {meta}, i64 {record.SIZE}")
        self.check(t.op(f"icmp ule ptr {behind}, {self.context_pointer('data')}"), lost)
        self.write_record(meta, way, stamp)

    def write_record(self, meta: str, way: str, stamp: str) -> None:
        """Writes all that goes with the packet to an address."""
        t = self.t
        origin = t.op(f"load i64, ptr {self.origin}")
        gate = t.widen(t.op(f"load i64, ptr {self.gate}"), "i64", "i32")
        t.store("i32", t.op(f"or i32 {way}, {t.op(f'shl i32 {gate}, 16')}"), meta, record.WAY)
        for at, place in ((record.FRONT, "front"), (record.DATA, "data")):
            self._give(meta, at, self.plus(origin, self.at(place)))
        for mark in ("mac", "net", "trans"):
            place = self.at(mark)
            unset = t.op(f"icmp eq i64 {place}, {UNSET}")
            told = t.op(f"select i1 {unset}, i64 {UNSET}, i64 {self.plus(origin, place)}")
            self._give(meta, META[mark][0], told)
        t.store("i8", t.op(f"load i8, ptr {self.kind}"), meta, META["packet_type"][0])
        t.store("i8", "0", meta, META["live"][0])
        t.store("i64", stamp, meta, META["timestamp"][0])
        for n, word in enumerate(self.annotations):
            t.store("i64", t.op(f"load i64, ptr {word}"), meta, META["anno"][0] + 8 * n)

    def _give(self, meta: str, at: int, value: str) -> None:
        self.t.store("i16", self.t.widen(value, "i64", "i16"), meta, at)
