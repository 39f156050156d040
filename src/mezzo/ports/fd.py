"""Any descriptor that carries frames: a socket pair to another program, a tap that somebody else opened.

    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    FromDevice(5, METHOD FD) -> …                 # 5 = left.fileno()
    ports.connect("fd", str(left.fileno()))

One read is one frame, so the descriptor must keep boundaries: a datagram or sequenced-packet socket, or /dev/net/tun.
It is duplicated, so whoever gave it may close it.  What is in front of a frame is said by ENCAP: DIX (Ethernet II, also
the default), LLC (802.3 with LLC and SNAP, RFC 1042), PI (the four bytes of a tap without IFF_NO_PI, then DIX).  In the
graph frames are DIX always.

Reading never stalls the other end: where no frame of the arena is free, packets are read all the same, and counted as
`overflows`.
"""

import errno
import fcntl
import os
import select
import socket
import stat
import struct

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import (
    NO_FRAME,
    Arg,
    Array,
    Bool,
    ConfigError,
    Word,
    bounded,
    flag,
    frame_address,
    i64,
    libc,
    mem_copy,
    mem_u16,
    mem_u32,
    mem_u64,
    python,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    u16,
    u32,
    u64,
)
from mezzo.ports import _netlink as nl
from mezzo.ports import port
from mezzo.ports._checksum import net16, set_net16
from mezzo.ports._cut import FRAME_START, STAGGER
from mezzo.ports._libc import address_of
from mezzo.ports._memory import Memory
from mezzo.ports._messages import BATCH, MESSAGE, VECTOR, _Messages
from mezzo.ports._packet_socket import enlarge
from mezzo.ports._slots import HEAD, TAIL, after, between, put_slot
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice

ENCAPS = {"DIX": 0, "ETHER": 0, "LLC": 1, "PI": 2, "DIXPI": 2}
DIX, LLC, PI = 0, 1, 2
PREFIX = 8  # bytes put in front of or into a frame
VECTORS = 3  # of a message, at most
SPARE = 1 << 16  # where a packet is read to that nobody has room for
SIZE = BATCH * (MESSAGE + VECTORS * VECTOR + PREFIX)
ADDRESSES, LLC_SIZE, ETHERTYPES = 12, 8, 1536
SNAP = 0x0000_0003_AAAA  # as it stands in memory: AA AA 03 00 00 00
DONT_WAIT, NO_SIGNAL, TRUNCATED = 0x40, 0x4000, 0x20
WOULD_BLOCK, NO_BUFFERS, INTERRUPTED = errno.EAGAIN, errno.ENOBUFS, errno.EINTR
GONE = (errno.EPIPE, errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.ENOTSOCK, errno.EBADFD)
TUNGETIFF, IFF_VNET_HDR = 0x8004_54D2, 0x4000
IFLA_IFNAME, IFLA_LINKINFO, IFLA_INFO_DATA, IFLA_TUN_PI = 3, 18, 2, 4
BUFFER = 4 << 20


class Port(port.Port):
    """A descriptor that the user gave."""

    method = "fd"

    def __init__(self, device="", **hooks):
        super().__init__(str(device), **hooks)
        self.fd, self.kind, self.rings = -1, "", {}

    def open(self, arena):
        number = descriptor_of(self.device)
        self.kind = kind_of(number)
        self.check_tap(number)
        self.fd = os.dup(number)
        self.defer("closing the descriptor", lambda: os.close(self.fd))
        self.belongings.descriptors.append(self.fd)
        if self.kind == "tap":  # it is asked until it has no more, and the way of asking is its giver's, too
            before = os.get_blocking(self.fd)
            os.set_blocking(self.fd, False)
            self.defer("the descriptor's mode", lambda: os.set_blocking(self.fd, before))
        else:
            with socket.socket(fileno=os.dup(self.fd)) as made:
                enlarge(made, socket.SO_RCVBUF, 33, BUFFER)
                enlarge(made, socket.SO_SNDBUF, 32, BUFFER)
        for end in self.ends:
            memory = Memory(SIZE + SPARE)
            self.keep("memory of messages", memory.free)
            write_messages(memory, end)
            end.use_memory(memory.address, self.fd, self.kind == "socket", arena)
            self.rings[end] = Ring.make(end.slots_ or 2 * BATCH, TRANSMIT if end.is_transmitter else RECEIVE)
            self.keep("the ring", self.rings[end].close)

    def check_tap(self, number):
        """A tap that was opened for something else would give frames with something else in front."""
        if self.kind != "tap":
            return
        name, flags = struct.unpack_from("=16sH", fcntl.ioctl(number, TUNGETIFF, bytes(40)))
        if flags & IFF_VNET_HDR:
            hint = "open it without IFF_VNET_HDR, or let METHOD TAP open it"
            raise MezzoError(Diagnostic(f"descriptor {number} is a tap with virtio-net headers", hint=hint))
        wanted = way_of_tap(name.rstrip(b"\0"))
        for end in self.ends:
            if wanted is not None and end.way != wanted:
                name = "DIX" if wanted == DIX else "PI"
                how = "with" if wanted == DIX else "without"
                what = f"descriptor {number} is a tap {how} IFF_NO_PI, so ENCAP {end.encap_name()} is wrong"
                raise MezzoError(Diagnostic(what, hint=f"say ENCAP {name}"))

    # -- the other end is closed

    def end(self):
        """Nothing comes any more: what is watched from now on, an empty epoll, is never readable."""
        if self.state == "open":
            self.state = "gone"
            with select.epoll() as quiet:
                os.dup2(quiet.fileno(), self.fd, inheritable=False)

    # -- what it tells

    def facts(self):
        return super().facts() | {"kind": self.kind, "encap": self.ends[0].encap_name()}

    def descriptors(self):
        return [(e, self.fd, select.POLLOUT if e.is_transmitter else select.POLLIN) for e in self.ends]

    def frames(self):
        told = {f"ring of {end.name}": len(ring.slots()) for end, ring in self.rings.items()}
        return told | {f"to be read to by {end.name}": end.parked() for end in self.receivers.values()}


def descriptor_of(text):
    """The number, which must be of an open descriptor."""
    if not text.isdigit():
        hint = "METHOD FD takes the number of one that is open"
        raise MezzoError(Diagnostic(f"`{text}` is no descriptor", hint=hint))
    try:
        os.fstat(int(text))
    except OSError as trouble:
        raise MezzoError(f"descriptor {text}: {trouble.strerror}") from trouble
    return int(text)


def kind_of(number):
    """`socket` or `tap`; what keeps no boundaries between frames is refused."""
    mode = os.fstat(number).st_mode
    if stat.S_ISSOCK(mode):
        with socket.socket(fileno=os.dup(number)) as made:
            if made.type in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
                return "socket"
        what = "a stream socket"
    elif stat.S_ISCHR(mode) and os.readlink(f"/proc/self/fd/{number}") == "/dev/net/tun":
        return "tap"
    else:
        what = "a pipe" if stat.S_ISFIFO(mode) else "a file or terminal"
    hint = "give a datagram or sequenced-packet socket (socketpair(AF_UNIX, SOCK_DGRAM)), or a tap"
    raise MezzoError(Diagnostic(f"descriptor {number} is {what}, which keeps no boundaries between frames", hint=hint))


def way_of_tap(name):
    """PI or DIX; None where that is not to be learnt, because the device is in another namespace.

    Netlink is asked: the bit IFF_NO_PI that TUNGETIFF gives means something else (IFF_NOFILTER has its number).
    """
    try:
        with nl.Netlink() as netlink:
            answer = netlink.ask(nl.RTM_GETLINK, nl.LINK_BODY.pack(0, 0, 0, 0, 0), {IFLA_IFNAME: name + b"\0"})[0]
    except OSError:
        return None
    info = nl.parse_attributes(answer.attributes(nl.LINK_BODY.size).get(IFLA_LINKINFO, b""))
    data = nl.parse_attributes(info.get(IFLA_INFO_DATA, b""))
    return None if IFLA_TUN_PI not in data else PI if data[IFLA_TUN_PI][0] else DIX


def write_messages(memory, end):
    """What stays the same in the messages of an end."""
    first = memory.address + BATCH * MESSAGE
    prefixes = first + BATCH * VECTORS * VECTOR
    for k in range(BATCH):
        vectors, prefix = first + k * end.parts * VECTOR, prefixes + k * PREFIX
        struct.pack_into("=QI4xQQQQi4xI4x", memory.map, k * MESSAGE, 0, 0, vectors, end.parts, 0, 0, 0, 0)
        if end.way == PI:
            struct.pack_into("=QQ", memory.map, vectors - memory.address, prefix, 4)
        if end.way == LLC and end.is_transmitter:
            struct.pack_into("=QQ", memory.map, vectors - memory.address + VECTOR, prefix, LLC_SIZE)
            memory.map[prefix - memory.address : prefix - memory.address + 8] = b"\0\0\xaa\xaa\x03\0\0\0"


class _Half:
    """What both ends know, in Python."""

    def set_way(self):
        name = (self.encap or "DIX").upper()
        if name not in ENCAPS:
            raise ConfigError(f"ENCAP: expected DIX, LLC or PI, not {name}")
        self.way = ENCAPS[name]
        self.parts = {DIX: 1, PI: 2, LLC: 3 if self.is_transmitter else 1}[self.way]

    def encap_name(self):
        return ("DIX", "LLC", "PI")[self.way]

    def use_memory(self, at, descriptor, is_socket, arena):
        self.messages, self.vectors = at, at + BATCH * MESSAGE
        self.prefixes = at + BATCH * (MESSAGE + VECTORS * VECTOR)
        self.fd, self.several, self.frame_room = descriptor, is_socket, arena.frame_size
        names = ("recvmmsg", "sendmmsg") if is_socket else ("readv", "writev")
        self.call_at = address_of(names[self.is_transmitter])

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])


class Receiver(_Half, FromDevice):
    """From the descriptor into frames that lie ready for it."""

    knows = ("promisc", "sniffer", "encap")  # nothing is filtered, and nobody else hears it
    stop = Arg(Bool(), False, "stops the router when the other end is closed", positional=False)

    ready_frames: Array[u32, BATCH]  # the frame of each message, or NO_FRAME: it is read to nowhere
    ended: flag
    messages: u64
    vectors: u64
    prefixes: u64
    fd: i64
    several: flag
    call_at: u64
    frame_room: u32
    overflows: u64
    too_long: u64
    reads = {
        "overflows": "packets that were read while no frame was free",
        "too_long": "packets that no frame can hold",
    }

    def configure(self):
        super().configure()
        self.set_way()
        self.direct = not (self.faulty or self.limited or self.traced or self.mends)

    def receive(self) -> u32:
        head, tail, n = mem_u32(self.ring + HEAD), mem_u32(self.ring + TAIL), self.slots
        for k in bounded(self.read_some(n - 1 - between(head, tail, n)), BATCH):
            got = self.stripped(k)
            if got != 0:
                put_slot(self.ring, tail, u64(self.taken(k)) | got >> 32 << 32, got & 0xFFFF)
                tail = after(tail, n)
        set_mem_u32(self.ring + TAIL, tail)
        return between(head, tail, n)

    def take_all(self) -> u32:
        """As `receive` and what follows it, without slots in between."""
        n, stamp = self.read_some(u32(self.burst)), self.stamp() if self.timestamp else u64(0)
        for k in bounded(n, BATCH):
            got = self.stripped(k)
            if got != 0:
                self.take_in(u64(self.taken(k)) | got >> 32 << 32, got & 0xFFFF, stamp)
        return n

    def read_some(self, most: u32) -> u32:
        """Reads packets into frames that lie ready, or to nowhere; how many."""
        if self.ended or most == 0:
            return 0
        n = self.read(min(min(most, BATCH), self.lay_ready()))
        if n != 0 and mem_u32(self.messages + u64(n - 1) * MESSAGE + 56) == 0:
            self.ended = True
        if self.ended:
            self.tell_end()
        return n

    def taken(self, k: u32) -> u32:
        """The frame of message `k`, which needs another one now."""
        f = self.ready_frames[k]
        self.ready_frames[k] = NO_FRAME
        return f

    def stripped(self, k: u32) -> u64:
        """Message `k` without what is in front of a packet: its start in the frame, its length from bit 32; 0: none."""
        message = self.messages + u64(k) * MESSAGE
        f, length = self.ready_frames[k], mem_u32(message + 56)
        if length == 0:
            return 0
        if f == NO_FRAME:
            self.overflows += 1
            return 0
        if mem_u32(message + 48) & TRUNCATED != 0:
            self.too_long += 1
            return 0
        start = FRAME_START + (f & 3) * STAGGER
        if self.way == PI:
            return u64(start) | u64(length - 4) << 32 if length > 4 else 0
        if self.way == LLC:
            to = frame_address(f) + start
            if length >= 22 and net16(to + ADDRESSES) < ETHERTYPES and mem_u64(to + 14) & 0xFFFF_FFFF_FFFF == SNAP:
                # 802.3 says how long it is, so padding can be told.
                length = min(length, max(u32(net16(to + ADDRESSES)) + 14, 22)) - LLC_SIZE
                mem_copy(to + LLC_SIZE, to, ADDRESSES)
                start += LLC_SIZE
        return u64(start) | u64(length) << 32

    def lay_ready(self) -> u32:
        """Gives messages frames to read to; how many may be read, of which the last may go to nowhere."""
        for k in bounded(BATCH, BATCH):
            if self.ready_frames[k] == NO_FRAME:
                f = self.take_frame()
                self.ready_frames[k] = f
                vector = self.vectors + u64(k) * (self.parts * VECTOR) + (VECTOR if self.way == PI else 0)
                if f == NO_FRAME:
                    set_mem_u64(vector, self.messages + SIZE)
                    set_mem_u64(vector + 8, SPARE)
                    return k + 1
                start = FRAME_START + (f & 3) * STAGGER
                set_mem_u64(vector, frame_address(f) + start)
                set_mem_u64(vector + 8, self.frame_room - start)
        return BATCH

    def read(self, most: u32) -> u32:
        """Reads packets; how many."""
        if self.several:
            answer = libc(self.call_at, self.fd, self.messages, most, DONT_WAIT, 0)
            if answer < 0:
                self.ended = self.is_end(answer)
                return 0
            return u32(answer)
        for k in bounded(most, BATCH):
            vectors = self.vectors + u64(k) * (self.parts * VECTOR)
            answer = libc(self.call_at, self.fd, vectors, self.parts)
            if answer <= 0:
                self.ended = self.is_end(answer)
                return k
            set_mem_u32(self.messages + u64(k) * MESSAGE + 56, u32(answer))
        return most

    def is_end(self, answer: i64) -> flag:
        """Does the system call say that nothing comes any more?"""
        return answer != -WOULD_BLOCK and answer != -INTERRUPTED and answer != -NO_BUFFERS

    @python
    def tell_end(self):
        self.port.end()
        self.say(f"{self.name}: descriptor {self.device}: the other end was closed")
        if self.stop:
            self.router.please_stop()

    def use_memory(self, at, descriptor, is_socket, arena):
        super().use_memory(at, descriptor, is_socket, arena)
        for k in range(BATCH):
            self.ready_frames[k] = NO_FRAME

    def parked(self):
        return sum(self.ready_frames[k] != NO_FRAME for k in range(BATCH))


class Transmitter(_Half, ToDevice, _Messages):
    """From frames of the arena to the descriptor; what the other end has no room for waits."""

    encap = Arg(Word(), None, "what is in front of a frame: DIX, LLC or PI", positional=False)
    wait_ns, unsent = 0, True  # what is in the ring has not been taken yet, and there are no completions

    messages: u64
    vectors: u64
    prefixes: u64
    fd: i64
    several: flag
    call_at: u64
    frame_room: u32
    waits: u64
    gone: u64
    errors: u64
    reads = {
        "waits": "how often the other end had no room",
        "gone": "packets dropped because the other end was closed",
        "errors": "packets that the kernel refused",
    }

    def configure(self):
        super().configure()
        self.set_way()

    def transmit(self):
        self.send_messages()

    def lay(self, k: u32, at: u64, length: u32):
        """Message `k` is the frame at `at`, with what is to be in front of it or in it."""
        vector = self.vectors + u64(k) * (self.parts * VECTOR)
        prefix = self.prefixes + u64(k) * PREFIX
        if self.way == PI:
            vector += VECTOR
            set_mem_u16(prefix + 2, mem_u16(at + ADDRESSES))
        if self.way == LLC:
            plain = length < 14 or net16(at + ADDRESSES) < ETHERTYPES
            set_mem_u64(vector + VECTOR + 8, u64(0) if plain else u64(LLC_SIZE))
            set_net16(prefix, u16(length - 14 + LLC_SIZE))
            head = min(length, u32(ADDRESSES))
            set_mem_u64(vector, at)
            set_mem_u64(vector + 8, head)
            set_mem_u64(vector + 2 * VECTOR, at + head)
            set_mem_u64(vector + 2 * VECTOR + 8, length - head)
        else:
            set_mem_u64(vector, at)
            set_mem_u64(vector + 8, length)

    def hand(self, count: u32) -> i64:
        if self.several:
            return libc(self.call_at, self.fd, self.messages, count, DONT_WAIT | NO_SIGNAL)
        for k in bounded(count, BATCH):
            answer = libc(self.call_at, self.fd, self.vectors + u64(k) * (self.parts * VECTOR), self.parts)
            if answer < 0:
                return i64(k) if k != 0 else answer
        return i64(count)

    def judge(self, answer: i64, count: u32) -> u32:
        if answer >= 0:
            return u32(answer)
        if answer == -WOULD_BLOCK or answer == -NO_BUFFERS or answer == -INTERRUPTED:
            self.waits += 1
            return 0
        if u64(-answer) in GONE:
            self.gone += count
            return count
        self.errors += 1
        return 1
