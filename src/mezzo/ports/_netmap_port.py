"""The Python half of the netmap driver: a binding to /dev/netmap, its rings, and what the kernel's refusals mean.

`Kernel` is the system calls; tests put a simulated kernel side in its place.  A port has one descriptor, so one sync is
for all its rings; netmap locks each ring by itself, so ends of one port may be on several threads.

The rings are the kernel's own.  For packet code each is a record in memory (`record`): where it is, and what the
driver saw of it last, for the rules of rings to be checked.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import select
import struct
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.packet.arena import NO_FRAME, Arena
from mezzo.ports import _netdev, privileged
from mezzo.ports import _netmap_abi as abi
from mezzo.ports._libc import address_of
from mezzo.ports._memory import Memory
from mezzo.ports._mtu import set_mtu
from mezzo.ports._netmap_over import frames_in_rings, is_over, lay_over, map_over, why_not
from mezzo.ports._watch import Watching
from mezzo.ports._xdp_port import HERE_OFF, PEER_OFF, switched
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring, address_of_map

if TYPE_CHECKING:
    from mezzo.ports._end import _End

# A record: bytes, all u64.  OURS is head as the driver left it, SEEN tail as it saw it; PARTIAL is the frame of a
# packet whose rest is to come.
RING_AT, SLOTS, OURS, SEEN, BROKEN, PARTIAL, FILLED, RECORD = range(0, 64, 8)
FRAMING = 18  # Ethernet header and a VLAN tag


class Kernel:
    """The system calls."""

    def __init__(self) -> None:
        self.ioctl_at = address_of("ioctl")

    def open(self) -> int:
        return os.open(abi.PATH, os.O_RDWR | os.O_CLOEXEC)

    def ioctl(self, fd: int, request: int, argument: bytearray | None = None) -> int:
        done = fcntl.ioctl(fd, request, argument, True) if argument is not None else fcntl.ioctl(fd, request)
        return int(done)

    def mmap(self, fd: int, size: int) -> mmap.mmap:
        return mmap.mmap(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def map_over(self, address: int, size: int, fd: int, offset: int) -> None:
        map_over(address, size, fd, offset)

    def link(self, name: str) -> _netdev.Link | None:
        return _netdev.maybe_link(name)


@dataclass(frozen=True)
class Found:
    """One ring of the binding: its number among the port's rings of that direction, and where it is in the map."""

    number: int
    at: int
    is_host: bool

    @property
    def name(self) -> str:
        return f"host{self.number}" if self.is_host else str(self.number)


class Port(Watching):
    """One binding."""

    method = "netmap"
    system: Any = None  # what stands in place of Kernel() in this process

    def __init__(self, device: str = "", system: Any = None, **hooks: Any) -> None:
        super().__init__(device, **hooks)
        self.spec = abi.parse(device)
        self.kernel = system or self.system or Kernel()
        self.fd, self.buffer_size, self.buffer_count, self.buffers_at = -1, 0, 0, 0
        self.swappable, self.marks = 0, 0  # frames that are buffers, and the address of their marks
        self.told: dict[str, Any] = {}
        self.answer: dict[str, int] = {}
        self.rings: dict[int, list[Found]] = {RECEIVE: [], TRANSMIT: []}
        self.link: _netdev.Link | None = None
        self.map: mmap.mmap | None = None

    # -- opening

    def open(self, arena: Arena) -> None:
        self.arena = arena
        try:
            if self.is_interface:
                set_mtu(self)
                self.link = self.kernel.link(self.spec.interface)
            self.fd = self.kernel_open()
            self.defer("closing the descriptor", partial(self.kernel.close, self.fd))
            self.answer = self.register()
            self.map_memory()
            self.belongings.descriptors.append(self.fd)
            self.belongings.take_map(address_of_map(self.map), self.map, self.map.close)
            self.find_rings()
            self.share_buffers(arena)
            self.furnish()
            if self.link is not None:
                self.surround(self.link)
        except BaseException:
            self.close()
            self.free()
            raise

    @property
    def is_interface(self) -> bool:
        return self.spec.kind in ("nic", "host")

    def kernel_open(self) -> int:
        try:
            return int(self.kernel.open())
        except OSError as trouble:
            what, hint = NOT_OPENED.get(trouble.errno or 0, (str(trouble.strerror), ""))
            raise MezzoError(Diagnostic(f"{self.device}: {abi.PATH} {what}", hint=hint)) from None

    def control(self, kind: int, name: str, body: bytearray) -> None:
        """One request; `body` is changed by the answer."""
        place = ctypes.addressof(ctypes.c_char.from_buffer(body))
        self.kernel.ioctl(
            self.fd, abi.CTRL, abi.HEADER.pack(version=abi.VERSION, reqtype=kind, name=name.encode(), body=place)
        )

    def register(self) -> dict[str, int]:
        spec = self.spec
        slots = next((end.slots_ for end in self.ends if end.slots_), 0)
        wishes = {"tx_slots": slots, "rx_slots": slots, "extra_bufs": self.extra_buffers()} | spec.config
        body = abi.REGISTER_BODY.pack(
            mode=spec.mode, ringid=spec.ring, flags=spec.flags | abi.NO_TX_POLL, mem_id=self.memory_number(), **wishes
        )
        try:
            self.control(abi.REGISTER, spec.name, body)
        except OSError as trouble:
            raise self.refused(trouble) from None
        return abi.REGISTER_BODY.values(body)

    def memory_number(self) -> int:
        """Which memory is asked for: a number, that of another port, or 0 for whichever the kernel takes."""
        if not self.spec.share:
            return self.spec.memory
        body = abi.PORT_INFO.pack()
        try:
            self.control(abi.PORT_INFO_GET, abi.parse(self.spec.share).name, body)
        except OSError as trouble:
            what = f"{self.device}: @share: `{self.spec.share}` has no memory to share: {trouble.strerror}"
            raise MezzoError(Diagnostic(what, hint="it must be open already")) from None
        return abi.PORT_INFO.get(body, "mem_id")

    def refused(self, trouble: OSError) -> MezzoError:
        """A refusal of the kernel, as what to do about it."""
        number = trouble.errno or 0
        what, hint = self.reason(number)
        return MezzoError(Diagnostic(f"netmap port `{self.device}`: {what or trouble.strerror}", hint=hint))

    def reason(self, number: int) -> tuple[str, str]:
        spec = self.spec
        if number == errno.EINVAL and spec.kind == "monitor":
            return f"`{spec.name}` is not open, so it cannot be monitored", "open it first, or in another process"
        if number == errno.EINVAL and spec.mode in (abi.SW, abi.NIC_SW, abi.ONE_SW) and not self.is_interface:
            return f"a {spec.kind} has no host rings", "leave ^ and * out"
        if number == errno.EINVAL and spec.mode in (abi.ONE_NIC, abi.ONE_SW):
            return f"it has no ring {spec.ring}, or another memory", "the first ring is 0; see `ethtool -l`"
        if number == errno.EINVAL and (spec.memory or spec.share):
            return f"it cannot have the memory {spec.memory or spec.share}", "leave @ out: facts say which one it has"
        return REFUSED.get(number, ("", ""))

    def extra_buffers(self) -> int:
        """Buffers besides those in rings: frames of a router without copies.  The other half of the frames is for the
        buffers in rings, of this port and of those that come: the kernel gives the lowest numbers first."""
        if self.arena is None or is_over(self.arena) or not any(end.zero_copy for end in self.ends):
            return 0
        return self.arena.frames // 2

    def share_buffers(self, arena: Arena) -> None:
        if not any(end.zero_copy for end in self.ends):
            return
        if why := why_not(self, arena):
            self.refusals.append(f"zero copy: {why}")
            return
        self.swappable, self.marks = lay_over(self, arena)

    def beside_xdp(self) -> bool:
        return any(other.method == "xdp" for other in self.ends[0].router.ports)

    @property
    def bytes(self) -> mmap.mmap:
        assert self.map is not None
        return self.map

    def get_list(self) -> int:
        """The first of the extra buffers."""
        return abi.IF.get(self.map, "bufs_head", self.answer["offset"])  # type: ignore[arg-type]

    def set_list(self, head: int) -> None:
        abi.IF.set(self.map, "bufs_head", head, self.answer["offset"])  # type: ignore[arg-type]

    def map_memory(self) -> None:
        self.map = self.kernel.mmap(self.fd, self.answer["memsize"])
        self.keep("unmapping the memory", self.unmap)

    def unmap(self) -> None:
        assert self.map is not None
        self.map.close()
        self.map = None

    # -- rings

    def find_rings(self) -> None:
        """The rings that are bound: those with an offset.  Transmit comes first, the host's behind the device's."""
        base = self.answer["offset"]
        told = abi.IF.values(self.map, base)  # type: ignore[arg-type]
        at = base + abi.IF_SIZE
        for direction, kind in ((TRANSMIT, "tx"), (RECEIVE, "rx")):
            for count, is_host in ((told[f"{kind}_rings"], False), (told[f"host_{kind}_rings"], True)):
                offsets = struct.unpack_from(f"<{count}q", self.map, at)  # type: ignore[arg-type]
                at += 8 * count
                self.rings[direction] += [Found(n, base + o, is_host) for n, o in enumerate(offsets) if o]
        for ring in (self.rings[TRANSMIT] + self.rings[RECEIVE])[:1]:
            told = self.ring_header(ring)
            self.buffers_at, self.buffer_size = ring.at + told["buf_ofs"], told["buf_size"]
            self.buffer_count = (self.answer["memsize"] - self.buffers_at) // self.buffer_size

    def ring_header(self, ring: Found) -> dict[str, int]:
        head = memoryview(self.bytes)[ring.at : ring.at + abi.RING_HEADER]
        told = abi.RING.values(head)
        head.release()
        return told

    def furnish(self) -> None:
        """Gives every end the records of its rings, and a ring of slots of the arena."""
        for queue, end in self.receivers.items():
            there = self.rings[RECEIVE]
            self.require_queue(end, there)
            # The one of queue 0 reads what nobody else does, so no ring is left to nobody.
            rest = [r for q, r in enumerate(there) if q not in self.receivers] if queue == 0 else []
            self.give(end, [there[queue], *rest])
        for queue, end in self.transmitters.items():
            self.require_queue(end, self.rings[TRANSMIT])
            self.give(end, [self.rings[TRANSMIT][queue]])

    def require_queue(self, end: _End, there: list[Found]) -> None:
        if end.queue >= len(there):
            verb = "sends" if end.is_transmitter else "receives"
            have = f"it {verb} by {len(there)}, the first is 0" if there else f"nothing {verb} there"
            hint = "leave R, T, or the flags of monitors out" if not there else "give another QUEUE, or none"
            raise MezzoError(Diagnostic(f"netmap port `{self.device}` has no ring {end.queue}: {have}", hint=hint))

    def give(self, end: _End, found: list[Found]) -> None:
        records = b"".join(self.record(ring) for ring in found)
        table = Memory(len(records))
        self.keep("freeing the table of rings", table.free)
        table.map[:] = records
        slots = max(struct.unpack_from("<Q", records, k * RECORD + SLOTS)[0] for k in range(len(found)))
        ring = Ring.make(slots, TRANSMIT if end.is_transmitter else RECEIVE)
        self.keep("freeing a ring", ring.close)
        end.use_rings(table, found, ring)

    def record(self, ring: Found) -> bytes:
        told = self.ring_header(ring)
        where = address_of_map(self.map) + ring.at, told["num_slots"]
        return struct.pack("<7Q", *where, told["head"], told["tail"], 0, NO_FRAME, 0)

    @property
    def buffers(self) -> int:
        """The address of buffer 0."""
        return address_of_map(self.map) + self.buffers_at

    def stamp_rings(self, found: list[Found]) -> None:
        """Has the kernel write into each ring when it filled it."""
        for ring in found:
            flags = abi.RING.get(self.bytes, "flags", ring.at) | abi.TIMESTAMP  # type: ignore[arg-type]
            abi.RING.set(self.bytes, "flags", flags, ring.at)  # type: ignore[arg-type]

    # -- around the device

    def surround(self, link: _netdev.Link) -> None:
        """What is switched at the interface, and news of it."""
        there = {ring.is_host for ring in self.rings[RECEIVE]} if self.receivers else set()
        if False in there:
            at, off = ("peer", PEER_OFF) if link.kind == "veth" else ("here", HERE_OFF)
            self.switch_off("offloads", at, off)
            self.told |= self.hearing()
        if True in there:
            self.switch_off("offloads of the host", "here", PEER_OFF)
        if any(end.promisc for end in self.receivers.values()):
            (held,), _ = privileged.ask({"do": "promiscuous", "device": link.name})
            self.defer("promiscuous mode", partial(os.close, held))
        first = self.ends[0]
        self.watch_link(link.index, lambda line: first.say(f"{first.name}: {line}"))

    def switch_off(self, what: str, at: str, off: list[str]) -> None:
        """What would come as something else than the bytes of a frame."""
        try:
            _, facts = privileged.ask({"do": "features", "device": self.spec.interface, "at": at, "off": off})
        except (MezzoError, OSError) as refusal:
            self.told[what] = f"could not be switched off at {at}: {getattr(refusal, 'reason', refusal)}"
            return
        self.defer(what, lambda: self.troubles.extend(privileged.undo(facts["undo"])))
        self.told[what] = switched(facts)

    # -- what it tells

    def facts(self) -> dict[str, Any]:
        said = super().facts() | {"kind": self.spec.kind}
        if self.answer:
            for direction, name in ((RECEIVE, "receive rings"), (TRANSMIT, "transmit rings")):
                said[name] = " ".join(r.name for r in self.rings[direction]) or "none"
            said["slots"] = f"{self.answer['rx_slots']} {self.answer['tx_slots']}"
            said["zero copy"] = f"frames 0 to {self.swappable - 1} are buffers" if self.swappable else "no"
            said["memory"] = f"{self.answer['mem_id']}, {self.answer['memsize']} bytes"
        return said | self.told

    def descriptors(self) -> list[tuple[_End, int, int]]:
        # With POLLOUT each end gets a word of its own, where it says when it waits for what.
        return [(end, self.fd, select.POLLOUT) for end in self.ends]

    def frames(self) -> dict[str, int]:
        told = {f"slots of {end.name}": end.frames_here() for end in self.ends}
        return told | {"rings of netmap": frames_in_rings(self)}

    def mac(self) -> int:
        return int(self.link.mac.replace(":", ""), 16) if self.link is not None and self.link.mac else 0

    def longest(self) -> int:
        return self.link.mtu + FRAMING if self.link is not None else 0xFFFF

    def lose(self, number: int) -> str:
        """A sync failed, for good: what it means."""
        self.state = "gone"
        what = LOST.get(number, os.strerror(number))
        self.told["trouble"] = what
        return what


NOT_OPENED = {
    errno.ENOENT: ("is not there: this machine has no netmap", "build its module and load it: modprobe netmap"),
    errno.EACCES: (
        "may not be opened by this user",
        "run as root, or let a group have it: chgrp netdev /dev/netmap; chmod g+rw /dev/netmap",
    ),
    errno.ENXIO: ("answers no more: the module was removed", "load it again: modprobe netmap"),
    errno.ENODEV: ("answers no more: the module was removed", "load it again: modprobe netmap"),
}
NOT_OPENED[errno.EPERM] = NOT_OPENED[errno.EACCES]
REFUSED = {
    errno.ENXIO: ("there is no such interface", "`ip link` lists those of this network namespace"),
    errno.EBUSY: ("its rings are in use", "somebody has them alone (/x), or the flag x asks for what others have"),
    errno.EINVAL: (
        "the kernel refuses it as invalid",
        f"its packets may be longer than netmap's buffers (see the MTU), or the module does not speak version "
        f"{abi.VERSION} of the interface",
    ),
    errno.ENOMEM: (
        "netmap's memory is used up",
        "have fewer slots (RING), or a larger pool: /sys/module/netmap/parameters/ has buf_num, ring_num and if_num, "
        "priv_buf_num for switches and pipes",
    ),
    errno.EIO: ("its packets carry virtio-net headers", "have its owner set their length to 0"),
    errno.EOPNOTSUPP: ("this module has not all that was asked for", "leave the options behind @ out"),
}  # fmt: skip
LOST = {
    errno.ENXIO: "the device or the module was removed",
    errno.EIO: "the kernel stopped its rings",
    errno.EBADF: "its descriptor was closed",
}
