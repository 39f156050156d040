"""The Python half of the xdp driver: which way a device takes, its sockets, and what they tell.

Rungs, the best first: the driver's XDP with zero-copy, the driver's XDP with a copy, generic XDP with a copy.  What
attaches a program needs rights and is a request to `privileged`; the rest is done here.  Sockets that only send need
no program, unless they are zero-copy.

What cannot be done is refused before anything is changed: an MTU over a frame, a loopback, a stranger's program.
"""

from __future__ import annotations

import errno
import os
import resource
import select
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.packet.arena import NO_FRAME, Arena
from mezzo.ports import _attach, _bpf, _capabilities, _ethtool, _netdev, _xsk, level, privileged
from mezzo.ports._mtu import set_mtu
from mezzo.ports._watch import Watching
from mezzo.ports._xsk import NEED_WAKEUP, SCATTER, Sizes, Socket

if TYPE_CHECKING:
    from mezzo.ports._end import _End

ATTACH = ("native", "generic")
BINDS = {"zero-copy": _xsk.ZERO_COPY, "copy": _xsk.COPY}
WAYS = {"any": ATTACH, "zero-copy": ("native",), "native": ("native",), "generic": ("generic",)}
GONE = (errno.ENODEV, errno.ENOLINK)  # the interface went, and our link with it
RINGS = ("rx", "tx", "fill", "completion")
LARGEST_MTU = _xsk.PAGE - _xsk.KERNEL_HEADROOM - 14 - 320  # of a veth: a page, less headroom, header, skb_shared_info
USUAL_ARENA = 64 << 20  # bytes that the frames of a router have, when nothing else is said
FRAMING = 18  # Ethernet header and a VLAN tag
# What the other end of a veth must do by itself, because AF_XDP shows bytes alone: checksums, segments, tags.  For the
# kernel's level, besides: a veth takes redirected frames when its peer polls.
WHOLE, POLLED = "tx-checksum", "gro"
PEER_OFF = [WHOLE, "tso", "uso", "gso", "tunnel-gso", "txvlan"]
HERE_OFF = ["lro", "rx-gro-hw", "rxvlan"]


class Port(Watching):
    """One interface: a socket for each of its queues that an end uses."""

    method, by_name = "xdp", True

    def __init__(self, device: str = "", **hooks: Any) -> None:
        super().__init__(device, **hooks)
        self.sockets: dict[int, Socket] = {}
        self.link: _netdev.Link | None = None
        self.way, self.bound, self.scattered, self.headroom = "", "", False, 0
        self.switched_whole = False  # is nothing sent here whose checksum is left to the device
        self.told: dict[str, Any] = {}
        self.link_fd = -1  # by which the program is attached
        self._counted: dict[str, int] = {}

    # -- may it be used

    @classmethod
    def refusal(cls, device: str) -> str:
        """Why this device is better reached otherwise; "" when it may be tried."""
        link = _netdev.maybe_link(device)
        if link is None:
            return "it is no network interface"
        if link.flags & _netdev.LOOPBACK:
            return "a loopback's packets belong to the host"
        if not link.mac:
            return "its packets have no Ethernet header"
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        if 0 <= limit < USUAL_ARENA and not _capabilities.has("CAP_IPC_LOCK"):
            return f"{limit >> 20} MB of memory may be pinned (RLIMIT_MEMLOCK), and an arena has {USUAL_ARENA >> 20}"
        there = _attach.attached_to(link.index)
        return f"it has the XDP program `{there[0].name}` (id {there[0].id})" if there else ""

    # -- opening

    def open(self, arena: Arena) -> None:
        self.arena = arena
        try:
            set_mtu(self)
            self.link = link = _netdev.link(self.device)
            self.require_room(arena, link)
            self.prepare_peer(link)
            self.hear_all()
            self.climb(arena, link)
            self.lay_wires(link)
            self.furnish(arena)
            self.watch_link(link.index, self.heard)
        except BaseException:
            self.close()
            self.free()
            raise

    def option(self, name: str, default: Any) -> Any:
        """An option that any end may give; two that differ are refused."""
        given = {getattr(e, name): e for e in self.ends if getattr(e, name, default) != default}
        if len(given) > 1:
            (a, one), (b, other) = list(given.items())[:2]
            what = f"`{one.name}` and `{other.name}` open {self.device} with {name.upper()} {a} and {b}"
            raise MezzoError(Diagnostic(what, hint="say the same at both"))
        return next(iter(given), default)

    def require_room(self, arena: Arena, link: _netdev.Link) -> None:
        """The longest packet must fit into a frame; in one chunk of the kernel's, or in several (multi-buffer)."""
        longest = link.mtu + FRAMING
        self.headroom = max(0, self.option("headroom", 0) - _xsk.KERNEL_HEADROOM)
        self.scattered = longest > _xsk.largest_plain(arena.frame_size, self.headroom)
        most = _xsk.largest_joined(arena.frame_size, self.headroom)
        if longest > most:
            fits = 1 << (longest + arena.frame_size - most - 1).bit_length()
            what = f"{self.device} has the MTU {link.mtu}; frames of {arena.frame_size} bytes take {most - FRAMING}"
            raise MezzoError(Diagnostic(what, hint=f"have frames of {fits} bytes (--frame-size), or a smaller MTU"))

    def prepare_peer(self, link: _netdev.Link) -> None:
        """Switches off what would come as something else than bytes on a wire, and on what redirected frames need."""
        veth, at = link.kind == "veth", "peer" if link.kind == "veth" else "here"
        off = (PEER_OFF if veth else HERE_OFF) if self.receivers else []
        on = [POLLED] if veth and self.wires else []
        if not off and not on:
            return
        try:
            _, facts = privileged.ask({"do": "features", "device": self.device, "at": at, "off": off, "on": on})
        except (MezzoError, OSError) as refusal:
            if self.root or self.wires:
                raise
            self.told["offloads"] = f"could not be switched off at {at}: {getattr(refusal, 'reason', refusal)}"
            return
        self.defer("offloads", lambda: self.troubles.extend(privileged.undo(facts["undo"])))
        self.told["offloads"] = switched(facts)
        self.switched_whole = WHOLE in off and not set(_ethtool.GROUPS[WHOLE]) & set(facts["refused"])
        self.require_switched(facts, on)

    def require_switched(self, facts: dict[str, Any], on: list[str]) -> None:
        """Without these the kernel's level would send wrong checksums, or nothing."""
        needed = (*(_ethtool.GROUPS[WHOLE] if self.root else ()), *(_ethtool.GROUPS[POLLED] if on else ()))
        if stuck := [name for name in facts["refused"] if name in needed]:
            what = f"{self.device}: {stuck[0]} cannot be switched at {facts['where']}, which the kernel's level needs"
            raise MezzoError(Diagnostic(what, hint="have its ends in native code (mezzo run --place 'NAME=native')"))

    def hear_all(self) -> None:
        """Promiscuous mode, for as long as a descriptor is open; the kernel counts, so others do not matter."""
        if self.option("promisc", False):
            (held,), _ = privileged.ask({"do": "promiscuous", "device": self.device})
            self.defer("promiscuous mode", partial(os.close, held))
            self.belongings.descriptors.append(held)

    # -- which way

    def climb(self, arena: Arena, link: _netdev.Link) -> None:
        """Takes the first way that goes; each that does not leaves its reason in `refusals`."""
        mode = self.option("mode", "any")
        for attach in WAYS[mode]:
            held = self.attached(attach, link)
            if held is not None:
                return self.bind_all(arena, link, held, self.binds(attach, mode))
        what = f"{self.device} takes no AF_XDP socket: {'; '.join(self.refusals)}"
        raise MezzoError(Diagnostic(what, hint="say METHOD PACKET"))

    def binds(self, attach: str, mode: str) -> tuple[str, ...]:
        if attach == "generic":
            return ("copy",)
        return ("zero-copy",) if mode == "zero-copy" else ("zero-copy", "copy")

    def attached(self, attach: str, link: _netdev.Link) -> list[int] | None:
        """Bare sockets, one a queue, behind a program that is attached this way; None when that is refused."""
        if not self.receivers:
            count = max((e.queue for e in self.ends), default=0) + 1
            self.way = ""
            return privileged.ask({"do": "xdp_sockets", "device": self.device, "count": count})[0]
        for request, given in self.requests(attach):
            try:
                (program, *sockets), facts = privileged.ask(request, given)
            except privileged.Refused as refusal:
                if refusal.errno in (0, errno.EPERM, errno.EACCES):  # 0: not the kernel's, another program is there
                    raise
                self.refusals.append(f"{attach}: {self.why_not(refusal, link)}")
                if refusal.errno == errno.ERANGE and request.get("frags") is False:
                    continue
                return None
            self.way = attach
            self.told |= said(facts["said"])
            self.link_fd = program
            self.belongings.descriptors.append(program)
            self.defer("sockets", self.close_sockets)
            self.defer("program", self.detach)
            self.defer("gates", self.leave_gates)
            return sockets
        return None

    def requests(self, attach: str) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
        """What to ask for: the kernel's level has a program of its own; else one that hands everything up, and a driver
        that refuses the MTU may take it when it knows packets of several buffers."""
        force = self.force or self.option("force", False)
        known = {"device": self.device, "queues": 0, "mode": attach, "force": force}
        take = {} if self.root else {"take": " ".join(map(str, self.option("take", ()))) or "all"}
        for frags in (True,) if self.scattered else (False, True):
            what = {"do": "xdp_root" if self.root else "xdp", **known, **take, "frags": frags}
            yield what, (self.root.sockets,) if self.root else ()

    def why_not(self, refusal: privileged.Refused, link: _netdev.Link) -> str:
        """A refusal to attach, with what would help."""
        if refusal.errno == errno.ERANGE:
            return f"the MTU {link.mtu} is over what the driver puts in one buffer, {LARGEST_MTU} at most"
        pairs = _ethtool.channels(self.device)
        now, most = pairs.get("combined", 0), pairs.get("max_combined", 0)
        reason = refusal.reason.removeprefix(f"{self.device}: an XDP program: ")
        if now > 1 and now > most // 2:
            fix = f"ethtool -L {self.device} combined {most // 2}"
            return f"{reason}; some drivers keep half of the queues for XDP: {fix}"
        return reason

    # -- the kernel's level

    @property
    def root(self) -> level.Root | None:
        """The program of the kernel's level that packets of this interface come to."""
        return next((e.below for e in self.receivers.values() if isinstance(e.below, level.Root)), None)

    @property
    def wires(self) -> list[level.Wire]:
        """Places in its map of interfaces that stand for this one."""
        return [e.below for e in self.transmitters.values() if isinstance(e.below, level.Wire)]

    def lay_wires(self, link: _netdev.Link) -> None:
        """From now on programs can redirect to this interface."""
        if self.wires and not level.can_transmit(link):
            what = f"{self.device} sends no frames of XDP programs: its driver ({link.kind or 'a device'}) does not"
            raise MezzoError(
                Diagnostic(what, hint="have its ToDevice in native code (mezzo run --place 'NAME=native')")
            )
        for wire in self.wires:
            _bpf.map_put(wire.devices, wire.key.to_bytes(4, "little"), link.index.to_bytes(4, "little"))
            self.told["wire"] = "packets of the kernel's level leave here"

    def start(self) -> None:
        """Until now packets were dropped: elements had not the state yet with which they begin."""
        if self.root is None:
            return
        try:
            self.replace_root(self.root.program)
        except OSError as trouble:
            if trouble.errno not in GONE:  # else it was told, or will be
                raise MezzoError(f"{self.device}: its program of the kernel's level: {trouble.strerror}") from trouble

    def replace_root(self, program: int) -> None:
        """Puts another program in the place of the root; no packet meets none."""
        _attach.replace(self.link_fd, program)

    def detach(self) -> None:
        held, self.link_fd = self.link_fd, -1
        _attach.detach(held)

    def program(self) -> dict[str, str]:
        """What is attached by our link, which others may have replaced."""
        try:
            number = _bpf.link_info(self.link_fd).program if self.link_fd >= 0 else 0
        except OSError:
            number = 0
        size = f", of the kernel's level, which has {self.root.instructions} instructions" if self.root else ""
        return {"program": f"{_attach.PROGRAM_NAME}, id {number}{size}"} if number else {}

    # -- sockets

    def bind_all(self, arena: Arena, link: _netdev.Link, held: list[int], binds: tuple[str, ...]) -> None:
        """Binds the sockets of the queues that ends use; the first decides between zero-copy and copy."""
        if not self.way:
            self.defer("sockets", self.close_sockets)
        sizes = self.sizes()
        bare = {queue: Socket(fd, link.index, queue, sizes) for queue, fd in enumerate(held)}
        for one in bare.values():
            self.keep("a socket's rings", one.free)
        self.sockets = bare
        used = self.used_queues(len(held))
        for queue, one in list(bare.items()):
            if queue not in used or not self.bind_one(arena, one, binds):
                one.close()
                del self.sockets[queue]
            else:
                binds = (self.bound,)
        self.require_queues(len(held))
        for one in self.sockets.values():
            self.belongings.descriptors.append(one.fd)
            self.belongings.mappings += one.maps

    def bind_one(self, arena: Arena, one: Socket, binds: tuple[str, ...]) -> bool:
        """False for a queue that the device has not (its number of queues may be less than it was made with)."""
        one.make_rings(RINGS)
        for bind in binds:
            flags = BINDS[bind] | NEED_WAKEUP | (SCATTER if self.scattered else 0)
            try:
                one.join(arena, flags, self.headroom)
            except OSError as refusal:
                if self.bound and refusal.errno == errno.EINVAL:
                    return False
                self.refusals.append(f"{bind}: {os.strerror(refusal.errno or 0)}")
                continue
            self.bound = bind
            one.map_rings(RINGS)
            one.widen_budget()
            return True
        what = f"{self.device}: no AF_XDP socket could be bound: {'; '.join(self.refusals)}"
        raise MezzoError(Diagnostic(what, hint="another process may have the queue; or say METHOD PACKET"))

    def sizes(self) -> Sizes:
        """Ring sizes from the option RING, fill twice of it."""
        slots = self.option("slots_", None) or 2048
        return Sizes(slots, slots, 2 * slots, slots)

    @property
    def checksums_are_whole(self) -> bool:
        """Those of a wire are (zero-copy); a sender on this machine may leave them to us."""
        return self.switched_whole or self.bound == "zero-copy"

    def used_queues(self, count: int) -> set[int]:
        """The queues that ends name; all of them where a receiver names none."""
        return set(range(count)) if 0 in self.receivers else {e.queue for e in self.ends}

    def require_queues(self, count: int) -> None:
        for end in self.ends:
            if end.queue not in self.sockets:
                there = f"it has the queues 0 to {count - 1}" if count > 1 else "it has one, which is queue 0"
                raise MezzoError(Diagnostic(f"{self.device} has no queue {end.queue}", end.place, hint=there))

    def furnish(self, arena: Arena) -> None:
        """Gives every end its sockets, as records, and its ring of slots."""
        for queue, end in self.receivers.items():
            # The one of queue 0 reads what nobody else does, so no queue is left to nobody.
            rest = [q for q in self.sockets if q not in self.receivers] if queue == 0 else []
            end.use_sockets([self.sockets[q] for q in (queue, *rest)], self.scattered)
        for end in self.transmitters.values():
            end.use_sockets([self.sockets[end.queue]], self.scattered)
        poll_us, budget = self.option("busy_poll", 0), self.option("busy_budget", 64)
        for one in self.sockets.values() if poll_us else ():
            one.busy_poll(poll_us, budget)

    def leave_gates(self) -> None:
        """Whoever lowers them looks at rings, which go now."""
        if self.root is not None and self.root.keeper is not None:
            self.root.keeper.leave(list(self.receivers.values()))

    def close_sockets(self) -> None:
        if self.state == "open":
            self._counted = self.counted()
        for one in self.sockets.values():
            one.close()

    # -- the device goes away

    def heard(self, line: str) -> None:
        """News of the interface.  Sockets of one that is gone would be ready for ever."""
        if self.state == "gone":
            self._counted = self.counted()
            quiet = os.eventfd(0, os.EFD_CLOEXEC)
            for one in self.sockets.values():
                one.silence(quiet)
            os.close(quiet)
        self.ends[0].say(f"{self.ends[0].name}: {line}")

    # -- what it tells

    def facts(self) -> dict[str, Any]:
        there = super().facts()
        there |= self.program()
        if self.bound:
            there["mode"] = " ".join(w for w in (self.way, self.bound) if w)
            there["queues"] = " ".join(map(str, self.sockets))
            there["multi-buffer"] = "yes" if self.scattered else "no"
            there |= self.hearing()
        return there | self.told

    def statistics(self) -> dict[str, int]:
        return self.counted() if self.state == "open" else self._counted

    def counted(self) -> dict[str, int]:
        """What the kernel counts at all sockets."""
        counts = [one.statistics() for one in self.sockets.values()]
        return {name: sum(c[name] for c in counts) for name in _xsk.COUNTS}

    def kernel_drops(self) -> int | None:
        counts = self.statistics()
        return counts.get("rx_dropped", 0) + counts.get("rx_ring_full", 0)

    def descriptors(self) -> list[tuple[_End, int, int]]:
        # A socket that sends is ready as long as its ring has room, and its timer looks again when it has not.
        return [(end, one.fd, select.POLLIN) for end in self.receivers.values() for one in end.sockets]

    def leftovers(self) -> list[int]:
        assert self.arena is not None
        parts = [end.part for end in self.receivers.values() if end.part != NO_FRAME]
        rings = [frame for one in self.sockets.values() for frame in one.frames(self.arena.frame_size)]
        return [*rings, *parts, *super().leftovers()]

    def frames(self) -> dict[str, int]:
        found = dict.fromkeys(("to fill", "received", "to send", "with the kernel"), 0)
        for end in self.receivers.values():
            found["to fill"] += end.with_kernel
            found["received"] += end.waiting()
        for end in self.transmitters.values():
            found["to send"] += end.waiting()
            found["with the kernel"] += end.with_kernel
        return found

    def mac(self) -> int:
        return int(self.link.mac.replace(":", ""), 16) if self.link is not None and self.link.mac else 0

    def longest(self) -> int:
        return self.link.mtu + FRAMING if self.link is not None else 0


def said(lines: list[str]) -> dict[str, str]:
    return {"replaced": "; ".join(lines)} if lines else {}


def switched(facts: dict[str, Any]) -> str:
    off, on = (" ".join(k for k, v in facts["changed"].items() if v is value) for value in (False, True))
    said = [f"switched {word} at {facts['where']}: {names}" for word, names in (("off", off), ("on", on)) if names]
    return "; ".join(said) or f"none to switch off at {facts['where']}"
