"""The least that AF_XDP costs: the same rings and system calls in three bare loops, with no router around them.

They are the C program of the kernel's documentation, in the runtime dialect: no packets, no metadata, no free list.
Each reads a word of every packet, as whoever decides about packets must: a program that only counts descriptors never
waits for their bytes to come from where the kernel's copy left them.  What mezzo's driver costs beside them is what the
router adds.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mezzo.elements import (
    Element,
    bounded,
    libc,
    library,
    load_acquire_u32,
    mem_u32,
    mem_u64,
    set_mem_u64,
    store_release_u32,
    u32,
    u64,
)
from mezzo.packet.arena import Arena
from mezzo.ports import _attach, _bpf, _netns, _xsk
from mezzo.ports._libc import address_of
from mezzo.ports._xsk import (
    DONE_CONSUMER,
    DONE_ENTRIES,
    DONE_MASK,
    DONE_PRODUCER,
    FD,
    FILL_ENTRIES,
    FILL_MASK,
    FILL_PRODUCER,
    RX_CONSUMER,
    RX_ENTRIES,
    RX_MASK,
    RX_PRODUCER,
    TX_CONSUMER,
    TX_ENTRIES,
    TX_MASK,
    TX_PRODUCER,
)

BATCH = 32
LENGTH = 60
STORE_U32_IMM, REDIRECT = 0x62, 23  # an instruction and a helper of eBPF
NEXT = "02:00:00:00:00:0a"
MAC = "02:00:00:00:00:09"  # whom frames are for
ROOM, FRAMES = 2048, 2048  # slots of the rings, and frames that the kernel has to fill
WITHIN = ~2047 & (1 << 64) - 1


class _Floor(Element):
    ports, processing, runtime = "0/0", "", True
    at: u64  # the record of the socket that receives, or of the only one
    out: u64  # of the one that sends
    data: u64
    send_at: u64
    count: u64
    flying: u32
    swallow: u64

    def kick(self):
        producer, consumer = mem_u32(mem_u64(self.out + TX_PRODUCER)), mem_u64(self.out + TX_CONSUMER)
        for _ in range(64):
            libc(self.send_at, mem_u64(self.out + FD), 0, 0, 0x40, 0, 0)
            if load_acquire_u32(consumer) == producer:
                break


@library.register
class FloorSend(_Floor):
    """Sends the same frames round and round."""

    place: u64

    def task(self) -> bool:
        consumer = mem_u32(mem_u64(self.out + DONE_CONSUMER))
        done = load_acquire_u32(mem_u64(self.out + DONE_PRODUCER)) - consumer
        store_release_u32(mem_u64(self.out + DONE_CONSUMER), consumer + done)
        self.flying -= done
        entries, mask = mem_u64(self.out + TX_ENTRIES), u32(mem_u64(self.out + TX_MASK))
        producer = mem_u32(mem_u64(self.out + TX_PRODUCER))
        room = mask + 1 - self.flying
        n = min(room, BATCH)
        for _ in bounded(n, BATCH):
            address = (self.place & 1023) * 2048 + 256
            self.place += 1
            set_mem_u64(self.data + address, 0x0000_0000_0900_0000)
            place = entries + u64(producer & mask) * 16
            set_mem_u64(place, address)
            set_mem_u64(place + 8, LENGTH)
            producer += 1
        store_release_u32(mem_u64(self.out + TX_PRODUCER), producer)
        self.flying += n
        self.count += n
        self.kick()
        return True


@library.register
class FloorReceive(_Floor):
    """Reads the first bytes of each packet, and gives its frame back."""

    def task(self) -> bool:
        consumer = mem_u32(mem_u64(self.at + RX_CONSUMER))
        n = min(load_acquire_u32(mem_u64(self.at + RX_PRODUCER)) - consumer, BATCH)
        entries, mask = mem_u64(self.at + RX_ENTRIES), u32(mem_u64(self.at + RX_MASK))
        fill, fill_mask = mem_u64(self.at + FILL_ENTRIES), u32(mem_u64(self.at + FILL_MASK))
        producer = mem_u32(mem_u64(self.at + FILL_PRODUCER))
        seen: u64 = 0
        for _ in bounded(n, BATCH):
            address = mem_u64(entries + u64(consumer & mask) * 16)
            seen += mem_u64(self.data + address + 8)
            set_mem_u64(fill + u64(producer & fill_mask) * 8, address & WITHIN)
            consumer += 1
            producer += 1
        store_release_u32(mem_u64(self.at + RX_CONSUMER), consumer)
        store_release_u32(mem_u64(self.at + FILL_PRODUCER), producer)
        self.swallow += seen
        self.count += n
        return True


@library.register
class FloorForward(_Floor):
    """Sends each packet on from the frame it came in; completed frames are filled again."""

    def task(self) -> bool:
        consumer = mem_u32(mem_u64(self.at + RX_CONSUMER))
        n = min(load_acquire_u32(mem_u64(self.at + RX_PRODUCER)) - consumer, BATCH)
        if n == 0:
            return True
        entries, mask = mem_u64(self.at + RX_ENTRIES), u32(mem_u64(self.at + RX_MASK))
        out, out_mask = mem_u64(self.out + TX_ENTRIES), u32(mem_u64(self.out + TX_MASK))
        producer = mem_u32(mem_u64(self.out + TX_PRODUCER))
        seen: u64 = 0
        for _ in bounded(n, BATCH):
            place, to = entries + u64(consumer & mask) * 16, out + u64(producer & out_mask) * 16
            address = mem_u64(place)
            seen += mem_u64(self.data + address + 8)
            set_mem_u64(to, address)
            set_mem_u64(to + 8, u64(mem_u32(place + 8)))
            consumer += 1
            producer += 1
        store_release_u32(mem_u64(self.at + RX_CONSUMER), consumer)
        store_release_u32(mem_u64(self.out + TX_PRODUCER), producer)
        self.swallow += seen
        self.count += n
        self.kick()
        self.refill()
        return True

    def refill(self):
        done = mem_u32(mem_u64(self.out + DONE_CONSUMER))
        m = load_acquire_u32(mem_u64(self.out + DONE_PRODUCER)) - done
        home, home_mask = mem_u64(self.out + DONE_ENTRIES), u32(mem_u64(self.out + DONE_MASK))
        fill, fill_mask = mem_u64(self.at + FILL_ENTRIES), u32(mem_u64(self.at + FILL_MASK))
        filled = mem_u32(mem_u64(self.at + FILL_PRODUCER))
        for _ in bounded(m, 1 << 15):
            set_mem_u64(fill + u64(filled & fill_mask) * 8, mem_u64(home + u64(done & home_mask) * 8) & WITHIN)
            done += 1
            filled += 1
        store_release_u32(mem_u64(self.out + DONE_CONSUMER), done)
        store_release_u32(mem_u64(self.at + FILL_PRODUCER), filled)


# -- sockets for them, and the wires


@contextmanager
def floor_sockets(receive: str = "", send: str = "") -> Iterator[dict[str, int]]:
    """The states of a floor element: bound sockets with memory of their own."""
    with ExitStack() as stack:
        arena = Arena(16384)
        stack.callback(arena.close)
        state = {"data": arena.frame_address(0), "send_at": address_of("sendto")}
        for device, name in ((receive, "at"), (send, "out")):
            if not device:
                continue
            request = {"device": device, "queues": 1, "count": 1}
            fds, _ = _attach.open_xdp(request) if name == "at" else _attach.bare_sockets(request)
            made = _xsk.Socket(fds[-1], socket.if_nametoindex(device), 0, _xsk.Sizes(ROOM, ROOM, 2 * ROOM, ROOM))
            stack.callback(made.free)
            stack.callback(made.close)
            if name == "at":
                stack.callback(os.close, fds[0])
            made.make_rings(tuple(_xsk.PAGES))
            made.join(arena, _xsk.COPY | _xsk.NEED_WAKEUP)
            made.map_rings(tuple(_xsk.PAGES))
            made.widen_budget()
            table = ctypes.create_string_buffer(made.record())
            stack.callback(id, table)
            state[name] = ctypes.addressof(table)
            if name == "at":
                fill(made, FRAMES)
        yield state


def fill(made: _xsk.Socket, count: int) -> None:
    ring = made.rings["fill"]
    for k in range(count):
        ctypes.c_uint64.from_address(ring.entries + 8 * k).value = 2048 * k
    ctypes.c_uint32.from_address(ring.producer).value = count


def leave_network() -> None:
    """A network namespace of this process alone: what is made in it goes with it, however it ends."""
    if ctypes.CDLL(None, use_errno=True).unshare(_netns.CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a network namespace needs root")


def make_pair(one: str, other: str) -> None:
    subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
    for name in (one, other):
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
            file.write("1")
        subprocess.run(["ip", "link", "set", name, "up"], check=True)


@contextmanager
def wires(mark: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Two veth pairs, a-b and c-d; frames are addressed to b, and what reaches d is dropped by XDP at once."""
    a, b, c, d = (f"bench{mark}{k}" for k in "abcd")
    make_pair(a, b)
    make_pair(c, d)
    subprocess.run(["ip", "link", "set", b, "address", MAC], check=True)
    drop = [_bpf.Instruction(_bpf.MOVE_IMM, immediate=1), _bpf.Instruction(_bpf.EXIT)]
    program = _bpf.load_program(drop, "bench_drop")
    link = _attach.attach(program, socket.if_nametoindex(d), "native")
    yield a, b, c, d
    os.close(link)
    os.close(program)


@contextmanager
def linux_router(source: str, to: str) -> Iterator[None]:
    """Has the kernel route what comes in at `source` to `to`, by addresses of the sender's frames."""
    words = [
        f"link set {source} up",
        f"addr add 10.0.9.1/24 dev {source}",
        f"route add 10.0.0.0/24 dev {to}",
        f"neigh add 10.0.0.2 lladdr {NEXT} dev {to}",
    ]
    for one in words:
        subprocess.run(["ip", *one.split()], check=True)
    for name, value in (("ip_forward", "1"), ("conf/all/rp_filter", "0"), (f"conf/{source}/rp_filter", "0")):
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(value)
    # Without NAPI at the other end a veth takes no frames of XDP's; GRO switches it on.
    subprocess.run(["ethtool", "-K", source, "gro", "on"], check=True)
    yield


def sent_by(device: str) -> int:
    with open("/proc/self/net/dev") as file:  # not /sys: it is of the namespace that mounted it
        counts = dict(line.split(":") for line in file.readlines()[2:])
    return int({name.strip(): words for name, words in counts.items()}[device].split()[9])


def written_anew(data: bytes) -> list[_bpf.Instruction]:
    """Code that writes the words of a frame's headers that routers change: pages go round, and nobody else does."""
    words = (0, 4, 8, 20, 24)
    code = [
        _bpf.Instruction(_bpf.LOAD_U32, dst=2, src=1, offset=_bpf.CONTEXT["data"]),
        _bpf.Instruction(_bpf.LOAD_U32, dst=3, src=1, offset=_bpf.CONTEXT["data_end"]),
        _bpf.Instruction(_bpf.MOVE, dst=4, src=2),
        _bpf.Instruction(_bpf.ADD_IMM, dst=4, immediate=28),
        _bpf.Instruction(_bpf.JUMP_GREATER, dst=4, src=3, offset=len(words)),
    ]
    values = struct.unpack_from("<7i", data)
    return code + [_bpf.Instruction(STORE_U32_IMM, dst=2, offset=at, immediate=values[at // 4]) for at in words]


def redirect(index: int) -> list[_bpf.Instruction]:
    return [
        _bpf.Instruction(_bpf.MOVE_IMM, dst=1, immediate=index),
        _bpf.Instruction(_bpf.MOVE_IMM, dst=2, immediate=0),
        _bpf.Instruction(_bpf.CALL, immediate=REDIRECT),
        _bpf.Instruction(_bpf.EXIT),
    ]


class Sender:
    """Frames put on a wire by the kernel itself (BPF_PROG_TEST_RUN with live frames): 10 million a second.

    The program is attached to a device of its own besides: one that is nowhere makes the kernel change its dispatcher
    of XDP programs at the begin and end of every run, and wait until no CPU uses the old one (25 ms).
    """

    RUN, LIVE = 10, 2

    def __init__(self, device: str) -> None:
        data = bytes.fromhex(MAC.replace(":", "") + "0200000000010800")
        data += bytes.fromhex("4500002e00000000401166bd0a0000010a0000020fa00fa0001a1234")
        data += bytes(LENGTH - len(data))
        code = [*written_anew(data), *redirect(socket.if_nametoindex(device))]
        self.program = _bpf.load_program(code, "bench_send")
        make_pair(f"{device}k", f"{device}l")
        self.link = _attach.attach(self.program, socket.if_nametoindex(f"{device}k"), "native")
        self.frame = ctypes.create_string_buffer(data, LENGTH)

    def send(self, count: int) -> None:
        where = ctypes.addressof(self.frame)
        words = (self.program, 0, LENGTH, 0, where, 0, count, 0, 0, 0, 0, 0, self.LIVE, 0, 64)
        _bpf.bpf(self.RUN, struct.pack("=IIIIQQIIIIQQIII", *words))

    def close(self) -> None:
        os.close(self.link)
        os.close(self.program)
