"""The simulated kernel side of netmap does what a real module was seen to do; the numbers are of that module."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from mezzo.ports import _netmap_abi as abi
from tests.ports.netmap_client import HAS_MODULE, SIDES, Client, kernel_side
from tests.ports.netmap_double import NetmapDouble

FRAME = bytes.fromhex("ffffffffffff0200000000010800") + bytes(46)


@pytest.fixture
def kernel() -> Iterator[NetmapDouble]:
    yield from kernel_side("double")


@pytest.fixture(params=SIDES)
def client(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Makes clients of the double, and of the module too where no test asks for something of the double's own."""
    if "kernel" in request.fixturenames:
        if request.param == "module":
            pytest.skip("this test arranges what no module does by itself")
        side = request.getfixturevalue("kernel")
        yield lambda name="", **fields: Client(side, name, **fields)
        return
    for side in kernel_side(request.param):
        yield lambda name="", side=side, **fields: Client(side, name, **fields)


Make = Callable[..., Client]


def refused(job: Callable[[], Any]) -> int:
    with pytest.raises(OSError) as told:
        job()
    return told.value.errno or 0


def test_the_module_is_asked_too() -> None:
    if not HAS_MODULE:
        pytest.skip(f"{abi.PATH} is not there: netmap was tested against the simulated kernel side alone")


# -- structures


def test_structures_have_the_sizes_and_offsets_of_the_module() -> None:
    sizes = {
        "HEADER": 88, "REGISTER_BODY": 56, "PORT_INFO": 32, "VALE_LIST_BODY": 8, "VALE_DETACH_BODY": 8, "PORT_HDR": 8,
        "VALE_ATTACH_BODY": 64, "VALE_NEWIF_BODY": 16, "POLLING": 16, "POOLS_INFO": 64, "OPTION": 24, "LEGACY": 60,
        "OPTION_EXTMEM": 96, "OPTION_CSB": 40, "OPTION_KLOOP_MODE": 32, "OPTION_OFFSETS": 56, "SLOT": 16, "IF": 56,
    }  # fmt: skip
    assert {n: getattr(abi, n).size for n in sizes} == sizes
    places = {
        "HEADER": {"reqtype": 2, "reserved": 4, "name": 8, "options": 72, "body": 80},
        "REGISTER_BODY": {"memsize": 8, "tx_slots": 16, "mem_id": 32, "ringid": 34, "mode": 36, "extra_bufs": 40,
                          "flags": 48},
        "PORT_INFO": {"tx_slots": 8, "rx_slots": 12, "tx_rings": 16, "host_rx_rings": 22, "mem_id": 24},
        "POOLS_INFO": {"mem_id": 8, "if_pool_offset": 16, "if_objtotal": 24, "ring_pool_offset": 32, "buf_objsize": 60},
        "LEGACY": {"version": 16, "memsize": 24, "tx_rings": 36, "ringid": 40, "cmd": 42, "arg2": 46, "arg3": 48,
                   "flags": 52},
        "IF": {"version": 16, "tx_rings": 24, "bufs_head": 32, "host_tx_rings": 36, "spare": 44, "ring_ofs": 56},
        "RING": {"num_slots": 8, "buf_size": 12, "ringid": 16, "dir": 18, "head": 20, "cur": 24, "tail": 28,
                 "flags": 32, "ts": 40, "offset_mask": 56, "buf_align": 64},
        "SLOT": {"buf_idx": 0, "len": 4, "flags": 6, "ptr": 8},
    }  # fmt: skip
    for name, fields in places.items():
        assert {f: getattr(abi, name).offset[f] for f in fields} == fields


def test_requests_carry_their_sizes() -> None:
    def request(size: int, number: int) -> int:
        return 3 << 30 | size << 16 | ord("i") << 8 | number

    expected = request(60, 145), request(60, 146), request(88, 151), request(272, 150), 0x6994, 0x6995
    assert expected == (abi.GINFO, abi.REGIF, abi.CTRL, abi.CONFIG, abi.TXSYNC, abi.RXSYNC)


# -- what was seen on a real module


def test_the_shared_memory_is_of_the_size_seen(kernel: NetmapDouble, client: Make) -> None:
    kernel.add_nic("eth0")
    nic = client("eth0")
    assert (nic.told["memsize"], nic.told["mem_id"]) == (343019520, 1)
    vale = client("vale0:a")
    assert vale.told["memsize"] == 42369024 and vale.told["mem_id"] >= 2
    pools = abi.POOLS_INFO.pack()
    vale.request(abi.POOLS_INFO_GET, "", pools)
    told = abi.POOLS_INFO.values(pools)
    assert [told[f"{k}_objtotal"] for k in ("if", "ring", "buf")] == [12, 20, 20482]
    assert [told[f"{k}_objsize"] for k in ("if", "ring", "buf")] == [1024, 20480, 2048]
    assert vale.interface["flags"] & abi.PRIV_MEM
    nic.close()
    vale.close()


def test_a_fresh_port(client: Make) -> None:
    one = client("vale0:a")
    tx, rx = one.tx[0], one.rx[0]
    assert (one.state(tx), one.state(rx)) == ((0, 0, 1023), (0, 0, 0))
    assert (abi.RING.get(tx.mem, "dir"), abi.RING.get(rx.mem, "dir")) == (1, 0)
    assert [rx.slot(k).frame for k in range(1024)] == list(range(2, 1026))
    assert [tx.slot(k).frame for k in range(1024)] == list(range(1026, 2050))
    assert tx.slot(0).length == abi.RING.get(tx.mem, "buf_size") == 2048
    assert (one.interface["version"], one.interface["host_tx_rings"], one.interface["host_rx_rings"]) == (0, 1, 1)
    assert [o != 0 for o in one.offsets] == [True, False, True, False]
    one.close()


def test_sizes_asked_for(client: Make) -> None:
    one = client("vale0:a", tx_slots=256, rx_slots=512, tx_rings=4, rx_rings=4)
    assert [one.told[k] for k in ("tx_slots", "rx_slots", "tx_rings", "rx_rings")] == [256, 512, 4, 4]
    one.close()
    large = client("vale0:a", tx_slots=100000)
    assert large.told["tx_slots"] == 4096
    large.close()


def test_extra_buffers_are_a_list(kernel: NetmapDouble, client: Make) -> None:
    one = client("vale0:a", tx_slots=1024, rx_slots=1024, rx_rings=2, tx_rings=2, extra_bufs=4)
    head, seen = one.interface["bufs_head"], []
    ring = one.tx[0]
    assert one.told["extra_bufs"] == 4
    while head:
        seen.append(head)
        head = struct.unpack_from("<I", one.map, one.buffer(ring, head))[0]
    assert seen == [4101, 4100, 4099, 4098]
    one.close()


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"mode": abi.DEFAULT}, errno.EINVAL),
        ({"mode": abi.PIPE_MASTER}, errno.EINVAL),
        ({"mode": 9}, errno.EINVAL),
        ({"mode": abi.SW}, errno.EINVAL),
        ({"mode": abi.ONE_NIC, "ringid": 1}, errno.EINVAL),
        ({"mem_id": 77}, errno.EINVAL),
    ],
)
def test_registers_that_are_refused(client: Make, fields: dict[str, int], number: int) -> None:
    one = client()
    assert refused(lambda: one.register("vale0:a", **fields)) == number
    one.close()


def test_names_that_are_refused(client: Make) -> None:
    one = client()
    assert refused(lambda: one.register("nothere0")) == errno.ENXIO
    assert refused(lambda: one.register("vale-:a")) == errno.ENOMEM
    assert refused(lambda: one.register("vale0:" + "a" * 16)) == errno.ENOMEM
    assert refused(lambda: one.register("vale0:a{")) == errno.EINVAL
    assert refused(lambda: one.register("{1")) == errno.EINVAL
    one.register("vale0:")
    assert refused(lambda: one.register("vale0:b")) == errno.EBUSY
    one.close()


def test_headers_that_are_refused(client: Make) -> None:
    one = client()
    assert refused(lambda: one.sync(abi.TXSYNC)) == errno.ENXIO
    body = abi.REGISTER_BODY.pack(mode=abi.ALL_NIC)
    for version in (13, 16):
        assert refused(partial(one.request, abi.REGISTER, "vale0:a", body, version)) == errno.EINVAL
    assert refused(lambda: one.request(99, "vale0:a", body)) == errno.EINVAL
    assert refused(lambda: one.request(abi.REGISTER, "vale0:a", None)) == errno.EINVAL
    option = abi.OPTION.pack(reqtype=99)
    place = ctypes.addressof(ctypes.c_char.from_buffer(option))
    assert refused(lambda: one.request(abi.REGISTER, "vale0:a", body, options=place)) == errno.EOPNOTSUPP
    assert abi.OPTION.get(option, "status") == 95
    for version in (11, 13):
        old = abi.LEGACY.pack(name=b"vale0:a", version=version)
        assert refused(partial(one.kernel.ioctl, one.fd, abi.REGIF, old)) == errno.EINVAL
    old = abi.LEGACY.pack(name=b"vale0:a", version=14, flags=abi.ALL_NIC)
    one.kernel.ioctl(one.fd, abi.REGIF, old)
    assert abi.LEGACY.get(old, "memsize") == 42369024
    one.close()


def test_exclusive_rings_and_headers(kernel: NetmapDouble, client: Make) -> None:
    kernel.add_nic("eth0", rings=(2, 2))
    first = client("eth0", mode=abi.ONE_NIC, ringid=0, flags=abi.EXCLUSIVE)
    second = client()
    assert refused(lambda: second.register("eth0")) == errno.EBUSY
    second.register("eth0", mode=abi.ONE_NIC, ringid=1)
    second.request(abi.PORT_HDR_SET, "eth0", abi.PORT_HDR.pack(hdr_len=12))
    assert refused(lambda: second.request(abi.PORT_HDR_SET, "eth0", abi.PORT_HDR.pack(hdr_len=11))) == errno.EINVAL
    third = client()
    assert refused(lambda: third.register("eth0", mode=abi.ONE_NIC, ringid=1)) == errno.EIO
    third.register("eth0", mode=abi.ONE_NIC, ringid=1, flags=abi.ACCEPT_VNET_HDR)
    for one in (first, second, third):
        one.close()


def test_a_full_switch_port_drops_and_the_sender_completes(client: Make) -> None:
    a, b = client("vale0:a"), client("vale0:b")
    a.send(FRAME, FRAME)
    assert len(b.take()) == 2  # read, and not yet given back
    for _ in range(3):
        a.send(*[FRAME] * 1023)
        head, cur, tail = a.state(a.tx[0])
        assert head == cur and tail == (head - 1) % 1024
    assert len(b.take()) == 1021
    a.close()
    b.close()


def test_switch_slots_tell_how_many_fragments(kernel: NetmapDouble, client: Make) -> None:
    a, b = client("vale0:a"), client("vale0:b")
    a.send(FRAME)
    long = FRAME + bytes(2048 - 60)
    a.put(long, flags=abi.MORE_FRAG)
    a.send(b"rest" * 10)
    b.sync(abi.RXSYNC)
    assert [s.flags for s in b.rx[0].slots()] == [0x0100, 0x0220, 0x0200]
    assert b"".join(b.take()) == FRAME + long + b"rest" * 10
    a.close()
    b.close()


def test_a_switch_learns(client: Make) -> None:
    a, b, c = (client(f"vale0:{x}") for x in "abc")
    hello = bytes.fromhex("ffffffffffff02000000000a0800") + bytes(46)
    answer = bytes.fromhex("02000000000a02000000000b0800") + bytes(46)
    a.send(hello)
    assert (b.take(), c.take()) == ([hello], [hello])
    b.send(answer)
    assert (a.take(), c.take()) == ([answer], [])
    a.send(b"x" * 13)
    assert (b.take(), c.take()) == ([], [])
    c.send(answer[:6] + hello[6:], flags=abi.NO_LEARN | 0x0100)
    assert (a.take(), b.take()) == ([], [answer[:6] + hello[6:]])
    for one in (a, b, c):
        one.close()


def test_a_pipe_gives_slots_back_after_both_syncs(client: Make) -> None:
    master, slave = client("vale0:p{1"), client("vale0:p}1")
    tx, rx = master.tx[0], slave.rx[0]
    assert master.told["mem_id"] == slave.told["mem_id"] and tx.slot(0).frame == rx.slot(0).frame
    master.send(*[FRAME] * 5)
    assert master.state(tx) == (5, 5, 1023)
    assert slave.take() == [FRAME] * 5
    master.sync(abi.TXSYNC)
    assert master.state(tx) == (5, 5, 1023)
    slave.sync(abi.RXSYNC)
    assert master.state(tx) == (5, 5, 1023)
    master.sync(abi.TXSYNC)
    assert master.state(tx) == (5, 5, 4)
    master.close()
    slave.close()


def test_a_full_pipe_blocks(client: Make) -> None:
    master, slave = client("vale0:p{1"), client("vale0:p}1")
    master.send(*[FRAME] * 1023)
    head, _, tail = master.state(master.tx[0])
    assert head == tail == 1023
    assert master.kernel.poll(master.fd, select.POLLOUT) == 0
    assert len(slave.take()) == 1023
    slave.sync(abi.RXSYNC)
    assert master.kernel.poll(master.fd, select.POLLOUT) == select.POLLOUT
    master.close()
    slave.close()


def test_an_unfinished_packet_waits_in_a_pipe(client: Make) -> None:
    master, slave = client("vale0:p{1"), client("vale0:p}1")
    master.send(FRAME, flags=abi.MORE_FRAG)
    assert slave.take() == []
    master.send(FRAME)
    assert slave.take() == [FRAME, FRAME]
    master.close()
    slave.close()


def test_a_pipe_at_nothing_makes_an_interface(kernel: NetmapDouble, client: Make) -> None:
    client("newif{1").close()
    assert "newif" in kernel.nics


def test_buffers_swapped_into_a_pipe_come_out_at_the_other_end(client: Make) -> None:
    master, slave = client("vale0:p{1", extra_bufs=1), client("vale0:p}1")
    tx, rx = master.tx[0], slave.rx[0]
    spare, slot = master.interface["bufs_head"], tx.slot(0)
    place = master.buffer(tx, spare)
    master.map[place : place + 60] = FRAME
    tx.put(0, type(slot)(spare, 60, abi.BUF_CHANGED))
    tx.head = tx.cur = 1
    master.sync(abi.TXSYNC)
    assert tx.slot(0).flags == 0
    assert slave.take() == [FRAME]
    assert rx.slot(0).frame == spare
    abi.IF.set(memoryview(master.map), "bufs_head", slot.frame, master.told["offset"])
    place = master.buffer(tx, slot.frame)
    master.map[place : place + 4] = bytes(4)
    master.close()
    slave.close()


@pytest.mark.parametrize(("flags", "marks"), [(abi.MONITOR_TX, [0x40]), (abi.MONITOR_RX, [0]), (0x300, [0x40, 0])])
def test_a_monitor_marks_what_was_sent(kernel: NetmapDouble, client: Make, flags: int, marks: list[int]) -> None:
    nic = kernel.add_nic("eth0")
    alone = client()
    assert refused(lambda: alone.register("eth0", flags=flags)) == errno.EINVAL
    user, monitor = client("eth0"), client("eth0", flags=flags)
    user.send(FRAME)
    nic.arrive(FRAME[:-1] + b"r")
    user.take()
    assert monitor.told["mem_id"] != 1
    monitor.sync(abi.RXSYNC)
    assert [s.flags for s in monitor.rx[0].slots()] == marks
    for one in (alone, monitor, user):
        one.close()


def test_a_monitor_without_a_copy_sees_what_was_consumed(kernel: NetmapDouble, client: Make) -> None:
    nic = kernel.add_nic("eth0")
    user, monitor = client("eth0"), client("eth0", flags=abi.ZCOPY_MON)
    assert monitor.told["mem_id"] == 1
    nic.arrive(FRAME)
    assert user.take() == [FRAME]
    assert monitor.take() == []
    user.sync(abi.RXSYNC)
    assert monitor.take() == [FRAME]
    user.send(FRAME)
    assert monitor.take() == [FRAME]
    assert nic.sent == [FRAME]
    for one in (monitor, user):
        one.close()


def test_host_rings_only(kernel: NetmapDouble, client: Make) -> None:
    nic = kernel.add_nic("eth0", rings=(2, 2))
    host = client("eth0", mode=abi.SW)
    assert [o != 0 for o in host.offsets] == [False, False, True] * 2
    nic.arrive(FRAME, host=True)
    assert host.take(ring=2) == [FRAME]
    host.send(FRAME, ring=2)
    assert nic.to_host == [FRAME]
    host.close()


# -- rings that a user broke


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ({"tail": 5}, (0, 0, 1023)),
        ({"head": 5, "cur": 3}, (5, 3, 1023)),
        ({"cur": 2000}, (0, 0, 1023)),
        ({"head": 1024, "cur": 1024}, (0, 0, 1023)),
    ],
)
def test_a_sync_of_a_broken_ring_answers_0(client: Make, change: dict[str, int], after: tuple[int, int, int]) -> None:
    one = client("vale0:a")
    ring = one.tx[0]
    for name, value in change.items():
        setattr(ring, name, value)
    one.sync(abi.TXSYNC)
    assert one.state(ring) == after
    if after[0] != after[1]:
        assert one.kernel.poll(one.fd, select.POLLIN) & select.POLLERR
    one.close()


def test_broken_slots_are_made_harmless(client: Make) -> None:
    one = client("vale0:a")
    ring = one.tx[0]
    kept = ring.slot(0)
    ring.put(0, type(kept)(1 << 30, 60))
    ring.put(1, type(kept)(ring.slot(1).frame, 5000))
    ring.head, ring.cur = 4, 2
    one.sync(abi.TXSYNC)
    assert (ring.slot(0).frame, ring.slot(0).length, ring.slot(1).length) == (0, 0, 0)
    ring.put(0, kept)
    one.close()


# -- poll


def test_poll(kernel: NetmapDouble, client: Make) -> None:
    nic = kernel.add_nic("eth0")
    one = client("eth0")
    ring, rx = one.tx[0], one.rx[0]
    assert kernel.poll(one.fd, select.POLLIN | select.POLLOUT) == select.POLLOUT
    ring.head = ring.cur = 3
    for k in range(3):
        ring.put(k, type(ring.slot(k))(ring.slot(k).frame, 60))
    kernel.poll(one.fd, select.POLLIN)  # what is pending goes, too
    assert len(nic.sent) == 3
    nic.arrive(FRAME)
    assert kernel.poll(one.fd, select.POLLIN) == select.POLLIN
    rx.cur = 1  # asks for more than there is
    assert kernel.poll(one.fd, select.POLLIN) == 0
    nic.arrive(FRAME)
    assert kernel.poll(one.fd, select.POLLIN) == select.POLLIN
    rx.head = rx.cur = rx.tail
    one.close()


def test_the_descriptor_is_ready_when_poll_would_say_so(kernel: NetmapDouble, client: Make) -> None:
    nic = kernel.add_nic("eth0", slots=(8, 8))
    one = client("eth0")

    def ready() -> tuple[bool, bool]:
        r, w, _ = select.select([one.fd], [one.fd], [], 0)
        return bool(r), bool(w)

    assert ready() == (False, True)
    nic.arrive(FRAME)
    assert ready() == (True, True)
    one.take()
    one.sync(abi.RXSYNC)
    nic.completions = 0
    one.send(*[FRAME] * 7)
    assert ready() == (False, False)
    nic.completions = 2
    kernel.changed()
    assert ready() == (False, True)
    one.close()


def test_rings_stamp_when_they_are_asked_to(kernel: NetmapDouble, client: Make) -> None:
    nic = kernel.add_nic("eth0")
    one = client("eth0")
    ring = one.rx[0]
    nic.arrive(FRAME)
    one.take()
    assert ring.mem[40:56] == bytes(16)
    abi.RING.set(ring.mem, "flags", abi.TIMESTAMP)
    nic.arrive(FRAME)
    one.take()
    assert struct.unpack("<qq", ring.mem[40:56]) == (1_700_000_000, 123457)
    one.close()


def test_a_swapped_buffer_without_the_flag_is_not_seen_by_the_hardware(kernel: NetmapDouble, client: Make) -> None:
    nic = kernel.add_nic("eth0")
    one = client("eth0", extra_bufs=1)
    tx = one.tx[0]
    spare, slot = one.interface["bufs_head"], tx.slot(0)
    place = one.buffer(tx, spare)
    one.map[place : place + 60] = FRAME
    for flags in (0, abi.BUF_CHANGED):
        tx.put(tx.head, type(slot)(spare, 60, flags))
        tx.head = tx.cur = tx.after(tx.head)
        one.sync(abi.TXSYNC)
        tx.put(tx.after(tx.head, -1), slot)
    assert [data == FRAME for data in nic.sent] == [False, True]
    tx.put(1, type(slot)(slot.frame + 1, 60))
    one.map[place : place + 4] = bytes(4)  # the end of the list of extra buffers
    one.close()


def test_memory_is_mapped_after_registering(client: Make) -> None:
    one = client()
    assert refused(lambda: one.kernel.mmap(one.fd, mmap.PAGESIZE)) == errno.ENODEV
    one.close()
    assert refused(lambda: os.fstat(one.fd)) == errno.EBADF
