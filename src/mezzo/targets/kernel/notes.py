"""Notes of packets that are followed through programs: the first so many, each with what it is, at each instance.

    root: a number for the packet, zero beyond the limit ─► the CPU's lane
    where it comes to an instance, goes up, leaves by a wire, dies or ends: a note into a ring that Python reads

A note is the packet's number, what happens, the instance and a number more, the time, the bytes of the packet's memory,
then the record that goes with a packet between levels (see record.py), and that memory as far as there is room.  A ring
that is full loses notes; `lost` counts them.  Programs without notes have none of this.

A part that runs without notes gets them while somebody looks: `Noted` are its programs once more, over its maps.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from mezzo.targets.kernel import record
from mezzo.targets.kernel.emit import Emitter
from mezzo.targets.kernel.facts import Facts
from mezzo.targets.kernel.frame import KTIME, LOAD_BYTES
from mezzo.targets.kernel.layout import NAMES, ROOM, Map
from mezzo.targets.kernel.text import RARE

SYMBOL = "notes"
RING, OUTPUT = 27, 130  # a map of this kind, and bpf_ringbuf_output
SIZE = 1 << 22
KINDS = ("in", "up", "out", "dying", "dead")
HEAD = struct.Struct("=IIIIQQ")
MOST = 2048  # bytes of a packet in a note
BUSY, DISCARDED = 1 << 31, 1 << 30  # in the length of an entry of the ring
MAP = Map(RING, 0, 0, SIZE)
LIMIT, GIVEN, LOST = 24, 32, 40  # words of @state: how many packets are followed, how many are, notes lost


@dataclass(frozen=True, slots=True)
class Note:
    """`kind` of KINDS; `number` of the packet, from 1; `value`: the input, the way up, or the counter that it died by.
    `time_ns`: of the monotonic clock.  `packet`: (record, its memory), of those notes that have it; of the `memory`
    bytes the first that there was room for."""

    kind: str
    number: int
    instance: int
    value: int
    time_ns: int = 0
    memory: int = 0
    packet: tuple[bytes, bytes] | None = None


class NotingEmitter(Emitter):
    """Writes programs that note; with `wanted` only what happens at those instances, and no ends."""

    def __init__(self, *args: Any, wanted: Collection[int] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wanted = wanted

    def arrive(self) -> None:
        super().arrive()
        t = self.t
        state, given, none = self.map("state"), t.label("given"), t.label("none")
        t.store("i64", "0", self._number())
        limit = t.load("i64", state, LIMIT)
        known = t.load("i64", state, GIVEN)
        t.branch(t.op(f"icmp ult i64 {known}, {limit}"), given, none, RARE)
        t.at(given)
        before = t.op(f"atomicrmw add ptr {t.gep(state, GIVEN)}, i64 1 seq_cst, align 8")
        fits = t.op(f"icmp ult i64 {before}, {limit}")
        number = t.op(f"select i1 {fits}, i64 {t.op(f'add i64 {before}, 1')}, i64 0")
        t.store("i64", number, self._number())
        t.jump(none)
        t.at(none)

    def _number(self) -> str:
        """Where the number of the CPU's packet is: behind the room for bytes in passing."""
        return self.lane(self.layout.room + ROOM - 8)

    def note(self, what: str, way: int = 0) -> None:
        t, told, done = self.t, self.t.label("told"), self.t.label("noted")
        ends = what in ("dying", "dead")
        if what == "aborted" or (self.wanted is not None and (ends or self.instance not in self.wanted)):
            return
        if ends:
            self.facts = Facts()
        number = t.load("i64", self._number())
        t.branch(t.op(f"icmp ne i64 {number}, 0"), told, done, RARE)
        t.at(told)
        room = self.lane(self.layout.room)
        t.store("i32", t.op(f"trunc i64 {number} to i32"), room)
        value = str(way)
        if what == "in":
            value = t.op(f"load i32, ptr {self.ports[self.instance]}")
        elif what == "dying":
            value = t.op(f"trunc i64 {t.op(f'load i64, ptr {self.blame}')} to i32")
        for at, word in ((4, str(KINDS.index(what))), (8, str(0 if ends else self.instance)), (12, value)):
            t.store("i32", word, room, at)
        t.store("i64", t.helper(KTIME), room, 16)
        t.store("i64", "0" if ends else self.memory_bytes(), room, 24)
        self._tell(room, str(HEAD.size) if ends else self._packet(room))
        t.jump(done)
        t.at(done)

    def _packet(self, room: str) -> str:
        """Writes the packet behind the head; bytes of the whole."""
        t = self.t
        self.write_record(t.gep(room, HEAD.size), "0", self.timestamp())
        length = t.op(f"call i64 @llvm.umin.i64(i64 {self.memory_bytes()}, i64 {MOST})")
        bounded, some, none = t.opaque("i64", length), t.label("some"), t.label("empty")
        size = t.slot("i64", str(HEAD.size + record.SIZE))
        # What the kernel copies is something; both comparisons are for the verifier.
        t.branch(t.op(f"icmp ugt i64 {bounded}, 0"), some, none)
        t.at(some)
        self.check(t.op(f"icmp ule i64 {bounded}, {MOST}"))
        to = t.gep(room, HEAD.size + record.SIZE)
        t.helper(LOAD_BYTES, "ptr %ctx", "i32 0", f"ptr {to}", f"i32 {t.op(f'trunc i64 {bounded} to i32')}")
        t.do(f"store i64 {t.op(f'add i64 {bounded}, {HEAD.size + record.SIZE}')}, ptr {size}")
        t.jump(none)
        t.at(none)
        return t.op(f"load i64, ptr {size}")

    def _tell(self, room: str, size: str) -> None:
        t, lost, told = self.t, self.t.label("lost"), self.t.label("told")
        failed = t.helper(OUTPUT, f"ptr {self.map(SYMBOL)}", f"ptr {room}", f"i64 {size}", "i64 0")
        t.branch(t.op(f"icmp eq i64 {failed}, 0"), told, lost, RARE)
        t.at(lost)
        t.do(f"atomicrmw add ptr {t.gep(self.map('state'), LOST)}, i64 1 seq_cst, align 8")
        t.jump(told)
        t.at(told)


class Ring:
    """The reader of a part's notes (Documentation/bpf/ringbuf.rst): the consumer's place, then the producer's and the
    data twice in a row, so that an entry lies in one piece."""

    def __init__(self, part: Any) -> None:
        fd, page = part.maps.descriptors[SYMBOL], mmap.PAGESIZE
        self.part = part
        self._mine = mmap.mmap(fd, page)
        self._theirs = mmap.mmap(fd, page + 2 * SIZE, prot=mmap.PROT_READ, offset=page)

    def follow(self, packets: int) -> None:
        """From now on the next `packets` packets are noted."""
        self._limit(self.given + packets)

    def follow_at_least(self, packets: int) -> None:
        """The same, for one of several readers."""
        views = self.part.views
        self._limit(max(views.get("state", LIMIT, 8), self.given + packets))

    def _limit(self, number: int) -> None:
        self.part.views.put("state", LIMIT, 8, number)

    @property
    def given(self) -> int:
        return int(self.part.views.get("state", GIVEN, 8))

    @property
    def lost(self) -> int:
        return int(self.part.views.get("state", LOST, 8))

    def read(self) -> Iterator[Note]:
        """The notes that have come since."""
        at = int.from_bytes(self._mine[:8], "little")
        while at < int.from_bytes(self._theirs[:8], "little"):
            start = mmap.PAGESIZE + at % SIZE
            length = int.from_bytes(self._theirs[start : start + 4], "little")
            if length & BUSY:
                return
            size = length & (DISCARDED - 1)
            at += -(-(size + 8) // 8) * 8
            content = self._theirs[start + 8 : start + 8 + size]
            self._mine[:8] = at.to_bytes(8, "little")
            if not length & DISCARDED:
                yield parse(content)

    def close(self) -> None:
        self._mine.close()
        self._theirs.close()


def parse(content: bytes) -> Note:
    number, kind, instance, value, time_ns, memory = HEAD.unpack_from(content)
    rest = content[HEAD.size :]
    packet = (rest[: record.SIZE], rest[record.SIZE :]) if rest else None
    return Note(KINDS[kind], number, instance, value, time_ns, memory, packet)


def blamed(part: Any, place: int) -> tuple[int, str]:
    """(instance, reason) of the counter at a place in a lane."""
    first, instance = max((at, i) for i, at in part.layout.drops.items() if at <= place)
    names = (*NAMES, *part.program.instances[instance].unit.reasons)
    return instance, names[(place - first) // 8]
