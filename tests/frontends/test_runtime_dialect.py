"""The runtime dialect as ports write it, on every target: a receiver that copies, one that lends, and C calls."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from mezzo.elements import (
    NO_FRAME,
    Packet,
    Port,
    atomic_add_u64,
    atomic_swap_u32,
    bounded,
    entry,
    frame_address,
    frame_size,
    i64,
    libc,
    library,
    load_acquire_u32,
    load_acquire_u64,
    mem_copy,
    mem_sum16,
    mem_u8,
    mem_u16,
    mem_u32,
    mem_u64,
    mem_zero,
    prefetch_frame,
    set_mem_u8,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    store_release_u32,
    store_release_u64,
    u8,
    u32,
    u64,
)
from mezzo.elements import Element as Base
from mezzo.runtime import Router
from mezzo.targets import target_names

both = pytest.mark.parametrize("target", [name for name in target_names() if name in ("native", "python")])
LIBC = ctypes.CDLL(None)
SLOTS = 8


def address_of(name: str) -> int:
    return ctypes.cast(getattr(LIBC, name), ctypes.c_void_p).value or 0


class Element(Base):
    """Test elements become known by being defined."""

    runtime = True

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        library.register(cls)


class DialectReceiver(Element):
    """A ring of SLOTS slots of 64 bytes: tail at 0, head at 4, then length (u16) and bytes of each from 64 on."""

    ports, processing = "0/1", "a/h"
    at: u64
    head: u32

    def task(self) -> bool:
        count = load_acquire_u32(self.at) - self.head
        for i in bounded(count, SLOTS):
            slot = self.at + 64 + 64 * u64((self.head + i) % SLOTS)
            f = self.take_frame()
            if f == NO_FRAME:
                break
            mem_copy(frame_address(f) + 256, slot + 2, u32(mem_u16(slot)))
            p = self.adopt(f, 256, mem_u16(slot))
            self.push(0, p)
        self.head += count
        store_release_u32(self.at + 4, self.head)
        return False


class DialectSender(Element):
    """Sends each packet into a pipe and keeps its frame until the next comes."""

    ports = "1/0"
    write_at: u64
    fd: i64
    last: u32
    trouble: i64
    sent: u64

    def configure(self):
        self.last = NO_FRAME

    def process(self, p: Packet) -> Port:
        if self.last != NO_FRAME:
            self.give_frame(self.last)
        length = p.length
        start = p.frame_start
        number = p.frame
        self.last = self.lend(p)
        done = libc(self.write_at, self.fd, frame_address(self.last) + u64(start), length)
        if done < 0:
            self.trouble = done
        elif number == self.last:
            self.sent += u64(done)
        return

    @entry
    def flush(self) -> u32:
        f = self.last
        self.last = NO_FRAME
        if f != NO_FRAME:
            self.give_frame(f)
        return f


def ring_with(packets: list[bytes]) -> ctypes.Array[ctypes.c_char]:
    ring = ctypes.create_string_buffer(64 + 64 * SLOTS)
    for i, data in enumerate(packets):
        ring[64 + 64 * i : 66 + 64 * i + len(data)] = len(data).to_bytes(2, "little") + data
    ring[0:4] = len(packets).to_bytes(4, "little")
    return ring


@both
def test_packets_come_from_a_ring_and_go_out_by_a_system_call(target: str) -> None:
    packets = [bytes([65 + i]) * (4 + i) for i in range(5)]
    ring = ring_with(packets)
    reader, writer = os.pipe()
    with Router.from_click("r :: DialectReceiver -> s :: DialectSender;", target=target, virtual=True) as router:
        r, s = router.elements["r"], router.elements["s"]
        r.at, s.write_at, s.fd = ctypes.addressof(ring), address_of("write"), writer
        router.run()
        assert os.read(reader, 999) == b"".join(packets)
        assert ring[4:8] == (5).to_bytes(4, "little")
        assert (s.sent, s.trouble, list(router.arena.live_frames())) == (sum(map(len, packets)), 0, [])
        assert list(router.arena.ring_frames()) == [s.last] and router.arena.held == 1
        os.close(writer)
        ring[0:4] = (6).to_bytes(4, "little")
        r.wake_task()
        router.run()
        assert s.trouble == -errno.EBADF
        assert s.call("flush") != NO_FRAME and router.arena.held == 0
    os.close(reader)


@both
def test_more_than_the_ring_holds_is_a_fault_and_no_crash(target: str) -> None:
    ring = ring_with([])
    ring[0:4] = (9).to_bytes(4, "little")
    with Router.from_click("r :: DialectReceiver -> s :: DialectSender;", target=target, virtual=True) as router:
        r = router.elements["r"]
        r.at = ctypes.addressof(ring)
        router.run(rounds=1)
        assert router.drops() == {("r", "fault"): 1}
        assert router.arena.held == 0


class DialectWords(Element):
    """Every function that reads or writes memory, once."""

    ports = "0/0"
    getpid_at: u64

    @entry
    def mix(self, at: u64) -> u64:
        set_mem_u8(at, 1)
        set_mem_u16(at + 1, 0x0302)
        set_mem_u32(at + 3, 0x07060504)
        set_mem_u64(at + 7, 0x0F0E0D0C0B0A0908)
        mem_copy(at + 16, at, 15)
        total = u64(mem_u8(at + 16)) + mem_u16(at + 17) + mem_u32(at + 19) + mem_u64(at + 23)
        mem_zero(at, 16)
        prefetch_frame(5, 128)
        prefetch_frame(NO_FRAME, 0xFFFF_FFFF)
        store_release_u32(at, 5)
        store_release_u64(at + 8, 6)
        before = atomic_swap_u32(at, 7)
        atomic_add_u64(at + 8, 8)
        total += u64(load_acquire_u32(at) * 100 + before) + load_acquire_u64(at + 8)
        return total + u64(mem_sum16(at, 4, 0)) + frame_size()

    @entry
    def between(self, at: u64) -> u32:
        """A middle side of a chain is computed once."""
        if 5 < atomic_add_u64(at, 1) < 7 and 2 < mem_u32(at) < 8:
            return mem_u32(at)
        return 100 + mem_u32(at)

    @entry
    def pid(self) -> u64:
        mine = libc(self.getpid_at)
        libc(self.getpid_at, -1, u8(3), i64(-2))
        return u64(mine)


@both
def test_every_word(target: str) -> None:
    room = ctypes.create_string_buffer(32)
    with Router.from_click("w :: DialectWords;", target=target, virtual=True) as router:
        words = router.elements["w"]
        words.getpid_at = address_of("getpid")
        router.run()
        want = 1 + 0x0302 + 0x07060504 + 0x0F0E0D0C0B0A0908 + 705 + 14 + 0x0700 + 2048
        assert words.call("mix", ctypes.addressof(room)) == want
        assert bytes(room)[:16] == bytes([7, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0])
        assert words.call("pid") == os.getpid()
        room[0:8] = (5).to_bytes(8, "little")
        assert [words.call("between", ctypes.addressof(room)) for _ in range(3)] == [106, 7, 108]


def test_the_words_mean_nothing_outside_packet_code() -> None:
    with pytest.raises(RuntimeError, match="packet code only"):
        mem_u32(0)
