"""The least that packet sockets, taps and descriptors cost: the same system calls in bare loops, no router around them.

They are what a C program of a page does, written in the runtime dialect: no packets, no metadata, no free list.
"""

from __future__ import annotations

import ctypes
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import harness

from mezzo.elements import (
    Arg,
    Bool,
    Element,
    bounded,
    i64,
    libc,
    library,
    load_acquire_u32,
    mem_copy,
    mem_u16,
    mem_u32,
    mem_u64,
    set_mem_u32,
    set_mem_u64,
    store_release_u32,
    u32,
    u64,
)
from mezzo.ports._libc import address_of
from mezzo.ports._memory import Memory
from mezzo.ports.packet import BATCH, MESSAGE, VECTOR, write_messages
from mezzo.runtime import Router

LENGTH = 60
FRAME = bytes.fromhex("0200000000090200000000010800" "4500002e000000004011666d0a0000010a000002" "0fa00fa0001a1234")
FRAME += bytes(LENGTH - len(FRAME))
PHASE, PHASES = 2048, 2  # packets on the wire at a time, and how often in a run
WARM, PAIRS = 6, 80  # short runs of each, in turn: those that touch all memory, and those that count
DONT_WAIT = 0x40


class _Floor(Element):
    ports, processing, runtime = "0/0", "", True
    ring: u64
    frame_size: u32
    frames: u32
    place: u32
    fd: i64
    out: i64
    messages: u64
    onward: u64  # messages that lie where `messages` are received to
    vectors: u64
    in_at: u64
    out_at: u64
    count: u64
    swallow: u64


@library.register
class FloorSendMany(_Floor):
    """Sends the same messages over and over."""

    def task(self) -> bool:
        sent = libc(self.out_at, self.out, self.messages, BATCH, DONT_WAIT)
        if sent > 0:
            self.count += u64(sent)
        return True


@library.register
class FloorSlots(_Floor):
    """Copies a frame into slots of a packet socket's ring, and has them sent."""

    def task(self) -> bool:
        if load_acquire_u32(self.ring + u64(self.place) * self.frame_size) != 0:
            libc(self.out_at, self.out, 0, 0, DONT_WAIT)
            return True
        for _ in bounded(BATCH, BATCH):
            at = self.ring + u64(self.place) * self.frame_size
            mem_copy(at + 32, self.messages, LENGTH)
            set_mem_u32(at + 4, LENGTH)
            store_release_u32(at, 1)
            self.place = 0 if self.place + 1 == self.frames else self.place + 1
        libc(self.out_at, self.out, 0, 0, DONT_WAIT)
        self.count += BATCH
        return True


@library.register
class FloorRing(_Floor):
    """Reads a word of each packet in a packet socket's ring (TPACKET_V2); with COPY, each packet into a buffer."""

    copy = Arg(Bool(), False, positional=False)

    def task(self) -> bool:
        seen: u64 = 0
        for k in bounded(BATCH, BATCH):
            at = self.ring + u64(self.place) * self.frame_size
            if load_acquire_u32(at) & 1 == 0:
                break
            source = at + mem_u16(at + 12)
            if self.copy:
                mem_copy(self.messages + u64(k) * 2048 + u64(k & 3) * 64, source, mem_u32(at + 8))
            else:
                seen += mem_u64(source)
            store_release_u32(at, 0)
            self.place = 0 if self.place + 1 == self.frames else self.place + 1
            self.count += 1
        self.swallow += seen
        return True


@library.register
class FloorBlocks(_Floor):
    """As FloorRing, of TPACKET_V3: `frames` is the number of blocks, `frame_size` the size of one."""

    copy = Arg(Bool(), False, positional=False)
    left: u32
    at: u64

    def task(self) -> bool:
        seen: u64 = 0
        for k in bounded(BATCH, BATCH):
            block = self.ring + u64(self.place) * self.frame_size
            if self.left == 0:
                if load_acquire_u32(block + 8) & 1 == 0:
                    break
                self.left = mem_u32(block + 12)
                self.at = block + mem_u32(block + 16)
            at = self.at
            source = at + mem_u16(at + 24)
            if self.copy:
                mem_copy(self.messages + u64(k) * 2048 + u64(k & 3) * 64, source, mem_u32(at + 12))
            else:
                seen += mem_u64(source)
            self.at = at + mem_u32(at)
            self.left -= 1
            if self.left == 0:
                store_release_u32(block + 8, 0)
                self.place = 0 if self.place + 1 == self.frames else self.place + 1
            self.count += 1
        self.swallow += seen
        return True


@library.register
class FloorRingForward(_Floor):
    """Sends what is in a packet socket's ring, from where it lies."""

    def task(self) -> bool:
        n: u32 = 0
        place = self.place
        for _ in bounded(BATCH, BATCH):
            at = self.ring + u64(place) * self.frame_size
            if load_acquire_u32(at) & 1 == 0:
                break
            vector = self.vectors + u64(n) * (2 * VECTOR)
            set_mem_u64(vector, at + mem_u16(at + 12))
            set_mem_u64(vector + 8, mem_u32(at + 8))
            place = 0 if place + 1 == self.frames else place + 1
            n += 1
        if n == 0:
            return True
        libc(self.out_at, self.out, self.messages, n, DONT_WAIT)
        for _ in bounded(n, BATCH):
            store_release_u32(self.ring + u64(self.place) * self.frame_size, 0)
            self.place = 0 if self.place + 1 == self.frames else self.place + 1
        self.count += n
        return True


@library.register
class FloorRead(_Floor):
    """Reads frames one by one; `messages` is where to."""

    def task(self) -> bool:
        for _ in bounded(BATCH, BATCH):
            if libc(self.in_at, self.fd, self.messages, 2048) <= 0:
                break
            self.count += 1
        return True


@library.register
class FloorWrite(_Floor):
    """Writes one frame over and over."""

    def task(self) -> bool:
        for _ in bounded(BATCH, BATCH):
            libc(self.out_at, self.out, self.messages, self.frame_size)
            self.count += 1
        return True


@library.register
class FloorReadWrite(_Floor):
    """Hands frames from one descriptor to another."""

    def task(self) -> bool:
        for _ in bounded(BATCH, BATCH):
            got = libc(self.in_at, self.fd, self.messages, 2048)
            if got <= 0:
                break
            libc(self.out_at, self.out, self.messages, u64(got))
            self.count += 1
        return True


@library.register
class FloorReceiveMany(_Floor):
    """Receives messages, BATCH a call, and sends them on when it has where to."""

    def task(self) -> bool:
        got = libc(self.in_at, self.fd, self.messages, BATCH, DONT_WAIT, 0)
        if got > 0:
            if self.out != 0:
                for k in bounded(u32(got), BATCH):
                    length = mem_u32(self.messages + u64(k) * MESSAGE + 56)
                    set_mem_u64(self.vectors + u64(k) * (2 * VECTOR) + 8, length)
                libc(self.out_at, self.out, self.onward, u64(got), DONT_WAIT)
            self.count += u64(got)
        return True


@dataclass(frozen=True, slots=True)
class Runner:
    """What is measured: `run` does some rounds of work, `count` says how many packets that were so far.

    `entry_ns` is what a call costs that does nothing: Python's part, which a program that runs by itself has not.
    """

    run: Callable[[int], object]
    count: Callable[[], int]
    entry_ns: float = 0


def runner(router: Router, name: str) -> Runner:
    """An element of a router, run without what Python does around it."""
    element = router.elements[name]
    return Runner(router.engine.run, lambda: int(element.count), harness.entry_ns(router))


@contextmanager
def mezzo(text: str, name: str) -> Iterator[Runner]:
    with Router.from_click(text) as router:
        router.run(rounds=1)
        yield runner(router, name)


@contextmanager
def floor(how: str, **state: int) -> Iterator[Runner]:
    """A router that is nothing but one of these loops."""
    with Router.from_click(f"f :: {how};") as router:
        for key, value in state.items():
            setattr(router.elements["f"], key, value)
        yield runner(router, "f")


class Messages:
    """BATCH messages of one frame each: all of the same, or each of its own, as whoever has real packets."""

    def __init__(self, own: bool = False, length: int = LENGTH) -> None:
        self.memory = Memory(BATCH * (MESSAGE + 2 * VECTOR) + 64 + BATCH * 2048)
        write_messages(self.memory, prefixed=False)
        self.address = self.memory.address
        self.vectors = self.address + BATCH * MESSAGE + VECTOR
        self.data = self.address + BATCH * (MESSAGE + 2 * VECTOR) + 64
        for k in range(BATCH):
            at = self.data + k * 2048 * own
            ctypes.memmove(at, FRAME, LENGTH)
            self.point(k, at, length)

    def point(self, k: int, at: int, length: int) -> None:
        struct.pack_into("=QQ", self.memory.map, self.vectors + k * 2 * VECTOR - self.address, at, length)

    def point_at(self, other: Messages) -> None:
        """The bytes are those of other messages."""
        for k in range(BATCH):
            self.point(k, other.data + k * 2048, LENGTH)


class Sender:
    """Puts frames on a wire between measurements."""

    def __init__(self, made: socket.socket) -> None:
        self.socket, self.messages = made, Messages()
        self.call = ctypes.CDLL(None).sendmmsg

    def send(self, count: int) -> None:
        while count > 0:
            sent = self.call(self.socket.fileno(), ctypes.c_void_p(self.messages.address), min(count, BATCH), 0)
            count -= max(sent, 0)


def packet_socket(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(socket.SOL_SOCKET, 32, 16 << 20)  # SO_SNDBUFFORCE
    made.bind((device, 0))
    return made


@contextmanager
def wires(mark: str) -> Iterator[tuple[str, str, str, str]]:
    """Two veth pairs, a-b and c-d, all up and silent."""
    names = tuple(f"mz{mark}{k}" for k in "abcd")
    for one, other in (names[:2], names[2:]):
        subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
    for name in names:
        silence(name)
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    try:
        yield names
    finally:
        for name in names[::2]:
            subprocess.run(["ip", "link", "del", name], check=True)


def silence(name: str) -> None:
    with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
        file.write("1")


# -- measuring


def in_phases(subject: Runner, send: Callable[[int], None], rounds: int, *, whole: bool = False) -> float:
    """ns of CPU for a packet: the wire is filled, then the subject empties it.  `whole` counts the sender, too."""
    spent, before = 0, subject.count()
    for _ in range(PHASES):
        begun = time.process_time_ns()
        send(PHASE)
        between = time.process_time_ns()
        subject.run(rounds)
        spent += time.process_time_ns() - (begun if whole else between) - subject.entry_ns
    return spent / (subject.count() - before)


def steadily(subject: Runner, count: int = 8192) -> float:
    """ns of CPU for a packet that goes out."""
    before, begun = subject.count(), time.process_time_ns()
    while subject.count() - before < count:
        subject.run(64)
    return (time.process_time_ns() - begun) / (subject.count() - before)


def compare(name: str, ours: Callable[[], float], **floors: Callable[[], float]) -> None:
    """All in turn, in short runs, so that the machine's mood is the same; the goal is the first floor over 0.95, as by
    the median of the ratios.

    `of_NAME` is the median of the ratios; `best_of_NAME` is of the least figures, which a busy machine disturbs least.
    """
    rows = [(ours(), *(run() for run in floors.values())) for _ in range(WARM + PAIRS)][WARM:]
    mine, *theirs = zip(*rows, strict=True)
    told: dict[str, float] = {}
    for key, values in zip(floors, theirs, strict=True):
        told[key] = round(min(values), 1)
        told[f"of_{key}"] = round(statistics.median(b / a for a, b in zip(mine, values, strict=True)), 3)
        told[f"best_of_{key}"] = round(min(values) / min(mine), 3)
    goal = statistics.median(mine) * told[f"of_{next(iter(floors))}"] / 0.95  # in the same mood
    harness.report(name, "ns/packet", list(mine), round(goal, 1), **told)


__all__ = ["address_of"]
