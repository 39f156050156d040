"""A simulated kernel side of netmap: what /dev/netmap does, in Python, for tests of the driver.

    kernel = NetmapDouble()
    nic = kernel.add_nic("eth0", rings=(1, 1), slots=(64, 64))
    netmap.Port("eth0", system=kernel)

It stands in place of the system calls: `open ioctl mmap close poll` for Python, and `ioctl_at`, the address of a
callback, for packet code.  Memory is a memfd with the layout of the real one; descriptors are sockets that are
readable and writable when poll would say so.  What it knows comes from observing the real module; requests that it
does not model are refused (EOPNOTSUPP).

Faults: `fail` makes a request fail; `is_gone` is a module that was removed; see also `Nic`.  The rules of the rings in
`checked` are checked before and after each sync.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import select
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

from mezzo.ports import _netmap_abi as abi
from mezzo.ports._netmap_over import map_over
from mezzo.ports.ring import Ring, RingError
from tests.ports.netmap_double_ports import Nic, Port, Switch
from tests.ports.netmap_double_requests import Requests
from tests.ports.netmap_double_rings import RX, TX, KernelError, Kring, Memory, Slot

WORD = ctypes.c_long
IOCTL = ctypes.CFUNCTYPE(WORD, *[WORD] * 6, use_errno=True)


@dataclass(eq=False)
class File:
    """An open /dev/netmap."""

    ours: socket.socket
    theirs: socket.socket
    port: Port | None = None
    rings: list[Kring] = field(default_factory=list)
    flags: int = 0
    extra: int = 0  # head of the list of extra buffers is written here by the user: in memory
    if_index: int = -1
    csb: bool = False
    full: bool = False
    told: bool = False

    def show(self, readable: bool, writable: bool) -> None:
        """Makes the descriptor what poll would say."""
        if readable and not self.told:
            self.theirs.send(b"x")
        elif self.told and not readable:
            self.ours.recv(16)
        self.told = readable
        if writable and self.full:
            while len(self.theirs.recv(1 << 20)) == 1 << 20:
                pass
        elif not writable and not self.full:
            try:
                while True:
                    self.ours.send(bytes(4096))
            except BlockingIOError:
                pass
        self.full = not writable

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


class NetmapDouble(Requests):
    """The kernel side."""

    def __init__(self) -> None:
        self.memories = {1: Memory.shared()}
        self.nics: dict[str, Nic] = {}
        self.ports: dict[str, Port] = {}
        self.switches: dict[str, Switch] = {}
        self.files: dict[int, File] = {}
        self.calls: list[int] = []  # of the callback, by request
        self.checked: list[Ring] = []
        self.broken: list[str] = []  # rules that were
        self.links: dict[str, Any] = {}  # what routing netlink would say of interfaces
        self.is_gone = False
        self.denied = 0  # errno that open answers
        self.failures: dict[int, list[int]] = {}
        self.time_ns = 1_700_000_000_123_456_000
        self.lock = threading.RLock()
        self._callback = IOCTL(self._called)
        self.ioctl_at = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    # -- what tests arrange

    def add_nic(self, name: str, rings: tuple[int, int] = (1, 1), slots: tuple[int, int] = (256, 256)) -> Nic:
        """An interface whose driver knows netmap; (tx, rx)."""
        made = self.nics[name] = Nic(self, name, self.memories[1], rings, slots)
        return made

    def cable(self, one: Nic, other: Nic) -> None:
        one.peer, other.peer = other, one

    def fail(self, request: int, *numbers: int) -> None:
        """The next calls of a request fail so; 0 lets one pass."""
        self.failures.setdefault(request, []).extend(numbers)

    def port(self, name: str) -> Any:
        return self.ports[name]

    def close_all(self) -> None:
        """The end of the machine; the memory must be whole again."""
        for ring in self.checked:
            ring.mem.release()
            ring._pin = None
        for fd in list(self.files):
            self.close(fd)
        for memory in self.memories.values():
            memory.close()

    def lost(self) -> dict[int, int]:
        """Buffers that belong to nobody, by memory: what users did not give back."""
        held: dict[int, int] = {}
        for port in self.ports.values():
            rings = [r for d in (TX, RX) for r in port.all(d) if r.index >= 0]
            owned = {b for r in rings for b in r.buffers()}
            held[port.memory.number] = held.get(port.memory.number, 0) + len(owned)
        used = {n: m.buffers.used - abi.RESERVED_BUFFERS for n, m in self.memories.items()}
        return {n: used[n] - held.get(n, 0) for n in used if used[n] != held.get(n, 0)}

    # -- system calls

    def link(self, name: str) -> Any:
        return self.links.get(name)

    def open(self) -> int:
        if self.is_gone:
            raise OSError(errno.ENOENT, "No such file or directory", abi.PATH)
        if self.denied:
            raise OSError(self.denied, "denied", abi.PATH)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with self.lock:
            self.files[ours.fileno()] = File(ours, theirs)
        return ours.fileno()

    def mmap(self, fd: int, size: int) -> mmap.mmap:
        file = self.files[fd]
        if file.port is None:
            raise OSError(errno.ENODEV, "No such device")
        return mmap.mmap(file.port.memory.fd, size)

    def map_over(self, address: int, size: int, fd: int, offset: int) -> None:
        port = self.files[fd].port
        assert port is not None
        map_over(address, size, port.memory.fd, offset)

    def ioctl(self, fd: int, request: int, argument: Any = None) -> int:
        """As fcntl.ioctl with a buffer that is changed in place."""
        memory = (ctypes.c_char * len(argument)).from_buffer(argument) if argument is not None else None
        try:
            self._do(fd, request, ctypes.addressof(memory) if memory is not None else 0)
        except KernelError as refusal:
            raise OSError(refusal.errno, str(refusal)) from None
        return 0

    def _called(self, fd: int, request: int, argument: int, *rest: int) -> int:
        """The callback in place of ioctl(2)."""
        self.calls.append(request)
        try:
            self._do(fd, request, argument)
        except KernelError as refusal:
            ctypes.set_errno(refusal.errno)
            return -1
        return 0

    def close(self, fd: int) -> None:
        with self.lock:
            file = self.files.pop(fd)
            if file.port is not None:
                self._unregister(file)
            file.close()
            self.changed()

    def _do(self, fd: int, request: int, address: int) -> None:
        with self.lock:
            file = self.files.get(fd)
            if file is None:
                raise KernelError(errno.EBADF)
            if self.is_gone:
                raise KernelError(errno.ENXIO)
            number = self.failures[request].pop(0) if self.failures.get(request) else 0
            if number:
                raise KernelError(number)
            if request in (abi.TXSYNC, abi.RXSYNC):
                self._sync(file, TX if request == abi.TXSYNC else RX)
            elif request == abi.CTRL:
                self._control(file, address)
            elif request in (abi.REGIF, abi.GINFO):
                self._legacy(file, request, address)
            else:
                raise KernelError(errno.EINVAL)
            self.changed()

    # -- sync and poll

    def _sync(self, file: File, direction: int) -> None:
        if file.port is None:
            raise KernelError(errno.ENXIO)
        self._check()
        for ring in file.rings:
            if ring.direction == direction:
                self._sync_ring(ring)
        self._check()

    def check_rings(self, *rings: Kring) -> None:
        self.checked = [Ring(ring.memory.mem, ring.at) for ring in rings]

    def _check(self) -> None:
        for ring in self.checked:
            try:
                ring.check()
            except RingError as trouble:
                self.broken.append(str(trouble))

    def _sync_ring(self, ring: Kring) -> bool:
        if not ring.prologue():
            ring.reinit()
            return False
        if ring.port.sync(ring):
            ring.finalize()
            return True
        return False

    def _sync_all(self, rings: list[Kring]) -> int:
        """Syncs them; how many are broken."""
        return sum(not self._sync_ring(r) for r in rings)

    def poll(self, fd: int, events: int) -> int:
        """The events that poll(2) would give."""
        with self.lock:
            file = self.files[fd]
            if self.is_gone or file.port is None:
                return select.POLLERR
            answer = 0
            tx = [r for r in file.rings if r.direction == TX]
            rx = [r for r in file.rings if r.direction == RX]
            want_tx = events & select.POLLOUT
            if want_tx and any(self._has_room(r) for r in tx):
                answer |= select.POLLOUT
            push = not file.flags & abi.NO_TX_POLL and any(r.get("head") != r.hwcur for r in tx)
            if (want_tx and not answer) or push:
                if self._sync_all(tx):
                    return select.POLLERR
                answer |= select.POLLOUT if want_tx and any(self._has_room(r) for r in tx) else 0
            if events & select.POLLIN or file.flags & abi.DO_RX_POLL:
                if self._sync_all(rx):
                    return select.POLLERR
                if events & select.POLLIN and any(r.get("cur") != r.get("tail") for r in rx):
                    answer |= select.POLLIN
            self.changed()
            return answer

    def _has_room(self, ring: Kring) -> bool:
        return ring.get("cur") != ring.get("tail")

    def changed(self) -> None:
        """Descriptors show what poll would find."""
        with self.lock:
            for file in self.files.values():
                if file.port is None:
                    continue
                tx = [r for r in file.rings if r.direction == TX and r.index >= 0]
                rx = [r for r in file.rings if r.direction == RX and r.index >= 0]
                readable = any(r.port.has_news(r) for r in rx)
                file.show(readable, any(self._has_room(r) or r.port.has_news(r) for r in tx))

    def stamp(self, ring: Kring) -> None:
        self.time_ns += 1000
        seconds, ns = divmod(self.time_ns, 10**9)
        struct.pack_into("<qq", ring.memory.mem, ring.at + abi.RING.offset["ts"], seconds, ns // 1000)

    # -- monitors

    def observe(self, ring: Kring, packet: list[tuple[int, Slot]]) -> None:
        for monitor in ring.monitors:
            if not monitor.is_zero_copy:
                monitor.copy(ring, packet)

    def pass_on(self, ring: Kring, start: int, end: int) -> None:
        """Slots that somebody is done with: monitors without a copy take them."""
        for monitor in ring.monitors:
            for k in ring.walk(start, end) if monitor.is_zero_copy else ():
                monitor.swap(ring, k)
