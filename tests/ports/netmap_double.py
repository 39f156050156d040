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
import re
import select
import socket
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mezzo.ports import _netmap_abi as abi
from mezzo.ports._netmap_over import map_over
from mezzo.ports.ring import Ring, RingError
from tests.ports.netmap_double_ports import Monitor, Nic, Pipe, Port, Switch, Vale
from tests.ports.netmap_double_rings import RX, TX, KernelError, Kring, Memory, Slot

MOST_SLOTS, MOST_VALE_RINGS, MOST_PIPE_RINGS, SLOTS, BRIDGES = 4096, 16, 256, 1024, 8
WORD = ctypes.c_long
IOCTL = ctypes.CFUNCTYPE(WORD, *[WORD] * 6, use_errno=True)
MODES = {abi.ALL_NIC, abi.SW, abi.NIC_SW, abi.ONE_NIC, abi.NULL, abi.ONE_SW}


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


class NetmapDouble:
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

    # -- requests

    def _control(self, file: File, address: int) -> None:
        if not address:
            raise KernelError(errno.EINVAL)
        header = ctypes.string_at(address, abi.HEADER.size)
        version, request = abi.HEADER.get(header, "version"), abi.HEADER.get(header, "reqtype")
        if not abi.OLDEST <= version <= abi.NEWEST or abi.HEADER.get(header, "reserved"):
            raise KernelError(errno.EINVAL)
        handler = HANDLERS.get(request)
        if handler is None:
            raise KernelError(errno.EOPNOTSUPP if abi.REGISTER <= request <= abi.CSB_ENABLE else errno.EINVAL)
        layout, job = handler
        place = abi.HEADER.get(header, "body")
        if bool(place) != (layout is not None):
            raise KernelError(errno.EINVAL)
        self._options(abi.HEADER.get(header, "options"))
        name = abi.HEADER.text(header, "name")
        if layout is None:
            job(self, file, name, None)
            return
        body = bytearray(ctypes.string_at(place, layout.size))
        fields = Body(layout, body)
        job(self, file, name, fields)
        ctypes.memmove(place, bytes(body), layout.size)

    def _options(self, place: int) -> None:
        """None is modelled: each says so, and the request fails."""
        refused = False
        while place:
            option = ctypes.string_at(place, abi.OPTION.size)
            ctypes.memmove(place + abi.OPTION.offset["status"], struct.pack("<I", errno.EOPNOTSUPP), 4)
            place, refused = abi.OPTION.get(option, "next"), True
        if refused:
            raise KernelError(errno.EOPNOTSUPP)

    # -- REGISTER

    def register(self, file: File, name: str, body: Body) -> None:
        if file.port is not None:
            raise KernelError(errno.EBUSY)
        if body["mode"] not in MODES:
            raise KernelError(errno.EINVAL)
        memory = self._memory(body["mem_id"])
        port = self._port(name, body, memory)
        if port.header_length and not body["flags"] & abi.ACCEPT_VNET_HDR:
            self._drop_unused(port)
            raise KernelError(errno.EIO)
        try:
            rings = self._choose(port, body)
            port.start(rings)
            self._publish(file, port, rings, body)
        except KernelError:
            self._drop_unused(port)
            raise
        port.users += 1
        for ring in rings:
            ring.users += 1
            ring.exclusive |= bool(body["flags"] & abi.EXCLUSIVE)
        self.ports[port.name] = port

    def _memory(self, number: int) -> Memory | None:
        if number and number not in self.memories:
            raise KernelError(errno.EINVAL)
        return self.memories.get(number)

    def _new_memory(self, rings: tuple[int, int], slots: tuple[int, int], extra: int) -> Memory:
        number = max(self.memories) + 1
        made = self.memories[number] = Memory.private(number, rings, slots, extra)
        return made

    def _port(self, name: str, body: Body, memory: Memory | None) -> Port:
        if body["flags"] & (abi.MONITOR_TX | abi.MONITOR_RX | abi.ZCOPY_MON):
            return self._monitor(name, body)
        if name in self.ports:
            return self._same_memory(self.ports[name], memory)
        if re.search(r"[{}]", name):
            return self._pipe(name, body, memory)
        if name.startswith("vale"):
            return self._vale(name, body, memory)
        if name in self.nics:
            nic = self.nics[name]
            if memory is not None and memory is not nic.memory:
                nic.memory = memory
                for ring in nic.all(TX) + nic.all(RX):
                    ring.memory = memory
            return nic
        raise KernelError(errno.ENXIO)

    def _same_memory(self, port: Port, memory: Memory | None) -> Port:
        if memory is not None and memory is not port.memory:
            raise KernelError(errno.EINVAL)
        return port

    def _monitor(self, name: str, body: Body) -> Port:
        of = self.ports.get(name)
        if of is None or not of.in_netmap_mode or isinstance(of, Monitor):
            raise KernelError(errno.EINVAL)
        if body["flags"] & abi.ZCOPY_MON:
            return self._same_memory(Monitor(self, of, of.memory, body["flags"]), self._memory(body["mem_id"]))
        slots = (of.krings[RX][0].n,) * 2
        count = max(len(of.krings[TX]), len(of.krings[RX]))
        memory = self._memory(body["mem_id"]) or self._new_memory((count, count), slots, body["extra_bufs"])
        made = Monitor(self, of, memory, body["flags"])
        made.name = f"{name}/monitor#{id(made)}"
        return made

    def _pipe(self, name: str, body: Body, memory: Memory | None) -> Port:
        mark = re.search(r"[{}]", name)
        assert mark is not None
        base, number = name[: mark.start()], name[mark.end() :]
        if not base or not number:
            raise KernelError(errno.EINVAL)
        parent = self._parent(base, memory)
        rings = tuple(min(max(body[k], 1), MOST_PIPE_RINGS) for k in ("tx_rings", "rx_rings"))
        slots = tuple(min(body[f"{k}_slots"] or parent.krings[d][0].n, MOST_SLOTS) for k, d in (("tx", TX), ("rx", RX)))
        ends = {}
        for sign in mark[0], "}" if mark[0] == "{" else "{":
            ends[sign] = Pipe(self, f"{base}{sign}{number}", parent.memory, (rings[0], rings[1]), (slots[0], slots[1]))
            rings, slots = rings[::-1], slots[::-1]
        ends["{"].join(ends["}"])
        for end in ends.values():
            self.ports[end.name] = end
        return ends[mark[0]]

    def _parent(self, base: str, memory: Memory | None) -> Port:
        """What a pipe hangs at; an interface of that name is made where there is nothing."""
        if base in self.ports:
            return self._same_memory(self.ports[base], memory)
        if base in self.nics:
            return self._same_memory(self.nics[base], memory)
        if not base.startswith("vale"):
            made = self.nics[base] = Nic(
                self, base, memory or self._new_memory((1, 1), (SLOTS, SLOTS), 0), (1, 1), (SLOTS, SLOTS)
            )
            return made
        return self._vale(base, Body.of(abi.REGISTER_BODY), memory, join=False)

    def _vale(self, name: str, body: Body, memory: Memory | None, join: bool = True) -> Port:
        switch, _, port = name.partition(":")
        if not re.fullmatch(r"\w*", switch, re.ASCII) or len(port) + 1 > abi.IFNAMSIZ or ":" not in name:
            raise KernelError(errno.ENOMEM)
        if join and switch not in self.switches:
            if len(self.switches) == BRIDGES:
                raise KernelError(errno.ENXIO)
            self.switches[switch] = Switch(self, switch)
        rings = tuple(min(body[k] or 1, MOST_VALE_RINGS) for k in ("tx_rings", "rx_rings"))
        slots = tuple(min(body[k] or SLOTS, MOST_SLOTS) for k in ("tx_slots", "rx_slots"))
        both = (rings[0], rings[1]), (slots[0], slots[1])
        made = Vale(self, name, memory or self._new_memory(*both, body["extra_bufs"]), *both)
        if join:
            self.switches[switch].enter(made)
        return made

    def _choose(self, port: Port, body: Body) -> list[Kring]:
        """The rings that the request is about."""
        mode, number, flags = body["mode"], body["ringid"], body["flags"]
        if mode in (abi.SW, abi.NIC_SW, abi.ONE_SW) and not port.can_host:
            raise KernelError(errno.EINVAL)
        chosen: list[Kring] = []
        for direction, leave_out in ((TX, abi.RX_RINGS_ONLY), (RX, abi.TX_RINGS_ONLY)):
            if flags & leave_out:
                continue
            hardware, host = port.krings[direction], port.host[direction]
            if mode in (abi.ONE_NIC, abi.ONE_SW):
                most = max(len(port.krings[TX]), len(port.krings[RX])) if mode == abi.ONE_NIC else len(host)
                if number >= most:
                    raise KernelError(errno.EINVAL)
                chosen += (hardware if mode == abi.ONE_NIC else host)[number : number + 1]
            else:
                chosen += hardware if mode in (abi.ALL_NIC, abi.NIC_SW) else []
                chosen += host if mode in (abi.SW, abi.NIC_SW) else []
        if any(r.exclusive or (r.users and flags & abi.EXCLUSIVE) for r in chosen):
            raise KernelError(errno.EBUSY)
        return chosen

    def _publish(self, file: File, port: Port, rings: list[Kring], body: Body) -> None:
        """Writes the interface structure, and the answer."""
        memory = port.memory
        file.if_index = memory.ifs.take()
        at = memory.ifs.at(file.if_index)
        tx, rx = port.krings[TX], port.krings[RX]
        host = {d: max(len(port.host[d]), 1) for d in (TX, RX)}
        memory.mem[at : at + memory.ifs.size] = bytes(memory.ifs.size)
        mem: Any = memory.mem
        abi.IF.set(mem, "name", port.name.encode()[:15], at)
        private = memory.number != 1
        for name, value in (
            ("flags", abi.PRIV_MEM if private else 0), ("tx_rings", len(tx)), ("rx_rings", len(rx)),
            ("host_tx_rings", host[TX]), ("host_rx_rings", host[RX]), ("bufs_head", memory.extra(body["extra_bufs"])),
        ):  # fmt: skip
            abi.IF.set(mem, name, value, at)
        places = [*_padded(tx, len(tx)), *_padded(port.host[TX], host[TX])]
        places += [*_padded(rx, len(rx)), *_padded(port.host[RX], host[RX])]
        for k, ring in enumerate(places):
            offset = ring.at - at if ring in rings and ring is not None else 0
            struct.pack_into("<q", memory.mem, at + abi.IF_SIZE + 8 * k, offset)
        file.port, file.rings, file.flags = port, rings, body["flags"]
        count, head = 0, abi.IF.get(mem, "bufs_head", at)
        while head:
            count, head = count + 1, struct.unpack("<I", memory.buffer(head, 4))[0]
        body.update(
            offset=at, memsize=memory.size, tx_slots=tx[0].n, rx_slots=rx[0].n, tx_rings=len(tx), rx_rings=len(rx),
            host_tx_rings=host[TX], host_rx_rings=host[RX], mem_id=memory.number, extra_bufs=count,
        )  # fmt: skip

    def _unregister(self, file: File) -> None:
        port = file.port
        assert port is not None
        at = port.memory.ifs.at(file.if_index)
        port.memory.give_list(abi.IF.get(port.memory.mem, "bufs_head", at))  # type: ignore[arg-type]
        port.memory.ifs.give(file.if_index)
        for ring in file.rings:
            ring.users -= 1
            ring.exclusive = ring.exclusive and ring.users > 0
        port.stop(file.rings)
        port.users -= 1
        self._drop_unused(port)

    def _drop_unused(self, port: Port) -> None:
        if port.users:
            return
        if isinstance(port, Pipe):
            assert port.other is not None
            if port.other.users:
                return
            self.ports.pop(port.other.name, None)
        elif not isinstance(port, Nic):
            port.gone()
        if isinstance(port, Vale) and port.switch is not None and not port.switch.ports:
            self.switches.pop(port.switch.name, None)
        self.ports.pop(port.name, None)

    # -- other requests

    def port_info(self, file: File, name: str, body: Body) -> None:
        if not name:
            memory = self.memories.get(body["mem_id"] or 1)
            if memory is None:
                raise KernelError(errno.EINVAL)
            body.update(memsize=memory.size, mem_id=memory.number)
            return
        port = self.ports.get(name) or self.nics.get(name)
        if port is None:
            raise KernelError(errno.ENXIO)
        host = {d: max(len(port.host[d]), 1) for d in (TX, RX)}
        body.update(
            memsize=port.memory.size, mem_id=port.memory.number, tx_slots=port.krings[TX][0].n,
            rx_slots=port.krings[RX][0].n, tx_rings=len(port.krings[TX]), rx_rings=len(port.krings[RX]),
            host_tx_rings=host[TX], host_rx_rings=host[RX],
        )  # fmt: skip

    def vale_list(self, file: File, name: str, body: Body) -> None:
        if name:
            found = self.ports.get(name)
            if not isinstance(found, Vale) or found.switch is None:
                raise KernelError(errno.ENOENT)
            body.update(bridge_idx=list(self.switches).index(found.switch.name), port_idx=found.number)
            return
        for b, switch in list(enumerate(self.switches.values()))[body["bridge_idx"] :]:
            for number in sorted(switch.ports):
                if b > body["bridge_idx"] or number >= body["port_idx"]:
                    body.update(bridge_idx=b, port_idx=number)
                    return
        raise KernelError(errno.ENOENT)

    def header_set(self, file: File, name: str, body: Body) -> None:
        port = self.ports.get(name)
        if port is None:
            raise KernelError(errno.ENXIO)
        if body["hdr_len"] not in (0, 10, 12):
            raise KernelError(errno.EINVAL)
        port.header_length = body["hdr_len"]

    def header_get(self, file: File, name: str, body: Body) -> None:
        port = self.ports.get(name)
        if port is None:
            raise KernelError(errno.ENXIO)
        body.update(hdr_len=port.header_length)

    def new_interface(self, file: File, name: str, body: Body) -> None:
        if name in self.nics:
            raise KernelError(errno.EEXIST)
        rings = (body["tx_rings"] or 1, body["rx_rings"] or 1)
        slots = (body["tx_slots"] or SLOTS, body["rx_slots"] or SLOTS)
        memory = self._memory(body["mem_id"]) or self._new_memory(rings, slots, 0)
        self.nics[name] = Nic(self, name, memory, rings, slots)

    def delete_interface(self, file: File, name: str, body: None) -> None:
        if name not in self.nics:
            raise KernelError(errno.ENXIO)
        if self.nics[name].users:
            raise KernelError(errno.EBUSY)
        del self.nics[name]

    def pools(self, file: File, name: str, body: Body) -> None:
        memory = file.port.memory if file.port is not None else self.memories.get(body["mem_id"] or 1)
        if memory is None:
            raise KernelError(errno.EINVAL)
        body.update(memsize=memory.size, mem_id=memory.number)
        for kind, pool in (("if", memory.ifs), ("ring", memory.rings), ("buf", memory.buffers)):
            offset = {f"{kind}_pool_offset": pool.offset}
            body.update(**offset, **{f"{kind}_objtotal": pool.total, f"{kind}_objsize": pool.size})

    # -- the old requests

    def _legacy(self, file: File, request: int, address: int) -> None:
        old = bytearray(ctypes.string_at(address, abi.LEGACY.size))
        fields = Body(abi.LEGACY, old)
        if not abi.OLDEST <= fields["version"] <= abi.NEWEST:
            raise KernelError(errno.EINVAL)
        if fields["cmd"]:
            raise KernelError(errno.EOPNOTSUPP)
        name = abi.LEGACY.text(old, "name")
        if request == abi.GINFO:
            new = Body.of(abi.PORT_INFO)
            new.update(mem_id=fields["arg2"])
            self.port_info(file, name, new)
        else:
            new = Body.of(abi.REGISTER_BODY)
            mode, ring = fields["flags"] & 0xF, fields["ringid"]
            if not mode:
                mode = abi.SW if ring & 0x2000 else abi.ONE_NIC if ring & 0x4000 else abi.ALL_NIC
            if mode in (abi.PIPE_MASTER, abi.PIPE_SLAVE):
                name += ("{" if mode == abi.PIPE_MASTER else "}") + str(ring & 0xFFF)
                mode = abi.ALL_NIC
            flags = fields["flags"] & ~0xF
            flags |= (abi.NO_TX_POLL if ring & 0x1000 else 0) | (abi.DO_RX_POLL if ring & 0x8000 else 0)
            new.update(mode=mode, ringid=ring & 0xFFF, flags=flags, mem_id=fields["arg2"], extra_bufs=fields["arg3"])
            new.update(**{k: fields[k] for k in ("tx_slots", "rx_slots", "tx_rings", "rx_rings")})
            self.register(file, name, new)
            fields.update(offset=new["offset"], arg3=new["extra_bufs"])
        fields.update(**{k: new[k] for k in ("memsize", "tx_slots", "rx_slots", "tx_rings", "rx_rings")})
        fields.update(arg2=new["mem_id"])
        ctypes.memmove(address, bytes(old), len(old))


class Body:
    """A request's structure, field by field."""

    def __init__(self, layout: abi.Layout, memory: bytearray) -> None:
        self.layout, self.memory = layout, memory

    @classmethod
    def of(cls, layout: abi.Layout) -> Body:
        return cls(layout, bytearray(layout.size))

    def __getitem__(self, name: str) -> int:
        return self.layout.get(self.memory, name)

    def update(self, **values: int) -> None:
        for name, value in values.items():
            self.layout.set(self.memory, name, value)


def _padded(rings: list[Kring], count: int) -> Iterable[Kring | None]:
    return [*rings, *[None] * (count - len(rings))]


HANDLERS: dict[int, tuple[abi.Layout | None, Any]] = {
    abi.REGISTER: (abi.REGISTER_BODY, NetmapDouble.register),
    abi.PORT_INFO_GET: (abi.PORT_INFO, NetmapDouble.port_info),
    abi.VALE_LIST: (abi.VALE_LIST_BODY, NetmapDouble.vale_list),
    abi.PORT_HDR_SET: (abi.PORT_HDR, NetmapDouble.header_set),
    abi.PORT_HDR_GET: (abi.PORT_HDR, NetmapDouble.header_get),
    abi.VALE_NEWIF: (abi.VALE_NEWIF_BODY, NetmapDouble.new_interface),
    abi.VALE_DELIF: (None, NetmapDouble.delete_interface),
    abi.POOLS_INFO_GET: (abi.POOLS_INFO, NetmapDouble.pools),
}
