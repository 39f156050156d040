"""Facts of network interfaces, their settings, and news of them: by routing netlink, in the thread's namespace.

`link("eth0")` is a value; ask again for news.  `Watch` tells when an interface goes down, comes up, changes its MTU, or
vanishes.  A `Device` names an interface for later, when it may have another name, or be in another namespace: the
kernel keeps the hardware address over both, and mostly the index.
"""

from __future__ import annotations

import difflib
import errno
import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.ports import _netlink as nl
from mezzo.ports import _netns

UP, RUNNING, PROMISCUOUS, LOOPBACK, NO_ARP, LOWER_UP = 0x1, 0x40, 0x100, 0x8, 0x80, 0x1_0000  # IFF_*
# include/uapi/linux/if_link.h
_ADDRESS, _NAME, _MTU, _LINK, _OPERSTATE, _LINKINFO = 1, 3, 4, 5, 16, 18
_TX_QUEUES, _RX_QUEUES, _NETNSID, _MIN_MTU, _MAX_MTU = 31, 32, 37, 50, 51
_INFO_KIND, _INFO_DATA, _TUN_PERSIST = 1, 2, 6
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
# include/uapi/linux/rtnetlink.h
_RTA_OIF, _RTA_GATEWAY, _MAIN_TABLE, _STATIC, _UNICAST = 4, 5, 254, 4, 1
_OPER = ("unknown", "not present", "down", "lower layer down", "testing", "dormant", "up")
# include/uapi/linux/genetlink.h, netdev.h
_GENERIC, _CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 16, 3, 1, 2
_DEV_GET, _DEV_INDEX, _DEV_XDP = 1, 1, 3
XDP_BASIC, NDO_XMIT = 1, 4  # NETDEV_XDP_ACT_*
LONGEST_NAME = 15
TRIES = 100  # to read news in a flood of it


@dataclass(frozen=True)
class Link:
    """An interface as the kernel describes it.

    `peer_index` is a veth's other end, 0 when unknown; `peer_nsid` its namespace, negative when it is in this one.
    """

    index: int
    name: str
    mac: str
    mtu: int
    flags: int
    kind: str
    operstate: str
    tx_queues: int
    rx_queues: int
    min_mtu: int
    max_mtu: int
    peer_index: int = 0
    peer_nsid: int = -1
    vanishes: bool = False  # a tap device that goes when its last descriptor is closed

    @property
    def is_up(self) -> bool:
        return bool(self.flags & UP)

    @property
    def has_carrier(self) -> bool:
        return bool(self.flags & LOWER_UP)

    def facts(self) -> dict[str, Any]:
        """For handlers and answers: JSON values."""
        return asdict(self) | {"up": self.is_up, "carrier": self.has_carrier}


@dataclass(frozen=True)
class Device:
    """Which interface was meant, whatever happened to it since."""

    inode: int
    index: int
    name: str
    mac: str
    kind: str


class NoDevice(MezzoError):
    """An interface that is not there, or not any more."""

    errno = errno.ENODEV


# -- asking


def links() -> list[Link]:
    """All interfaces of this namespace."""
    with nl.Netlink() as netlink:
        answers = netlink.ask(nl.RTM_GETLINK, nl.LINK_BODY.pack(0, 0, 0, 0, 0), flags=nl.ROOT_AND_MATCH)
    return [parse(m) for m in answers if m.kind == nl.RTM_NEWLINK]


def maybe_link(which: str | int) -> Link | None:
    """The interface with that name or index, if there is one."""
    index = which if isinstance(which, int) else 0
    named = {_NAME: which.encode() + b"\0"} if isinstance(which, str) else {}
    if isinstance(which, str) and not 0 < len(which.encode()) <= LONGEST_NAME:
        return None
    try:
        with nl.Netlink() as netlink:
            return parse(netlink.ask(nl.RTM_GETLINK, nl.LINK_BODY.pack(0, 0, index, 0, 0), named)[0])
    except OSError:
        return None


def link(which: str | int) -> Link:
    """The interface with that name or index; what there is instead when it is not."""
    found = maybe_link(which)
    if found is None:
        raise NoDevice(missing(str(which)))
    return found


def missing(name: str) -> Diagnostic:
    """There is no such interface; near names, or all of them, as the hint."""
    if len(name.encode()) > LONGEST_NAME:
        return Diagnostic(f"`{name}` is no name of a network interface", hint=f"they have at most {LONGEST_NAME} bytes")
    names = [x.name for x in links()]
    near = difflib.get_close_matches(name, names, 3, 0.6)
    said = f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else f"there are: {', '.join(names)}"
    return Diagnostic(f"there is no network interface `{name}`", hint=said)


def parse(message: nl.Message) -> Link:
    """RTM_NEWLINK as a value."""
    _, _, index, flags, _ = nl.LINK_BODY.unpack_from(message.rest)
    a = message.attributes(nl.LINK_BODY.size)
    info = nl.parse_attributes(a.get(_LINKINFO, b""))
    kind = nl.text(info.get(_INFO_KIND, b""))
    numbers = {k: nl.u32(a[k]) if k in a else 0 for k in (_MTU, _TX_QUEUES, _RX_QUEUES, _MIN_MTU, _MAX_MTU, _LINK)}
    oper = a.get(_OPERSTATE, b"\0")[0]
    return Link(
        index, nl.text(a.get(_NAME, b"")), a.get(_ADDRESS, b"").hex(":"), numbers[_MTU], flags, kind,
        _OPER[oper] if oper < len(_OPER) else "unknown", numbers[_TX_QUEUES], numbers[_RX_QUEUES],
        numbers[_MIN_MTU], numbers[_MAX_MTU],
        numbers[_LINK] if kind == "veth" else 0, nl.i32(a[_NETNSID]) if _NETNSID in a else -1,
        kind == "tun" and nl.parse_attributes(info.get(_INFO_DATA, b"")).get(_TUN_PERSIST, b"\1") == b"\0",
    )  # fmt: skip


def xdp_features(index: int) -> int | None:
    """What the driver can do with XDP programs, as bits (NETDEV_XDP_ACT_*); None where nobody says (Linux 6.3)."""
    body = struct.Struct("=BBH")  # struct genlmsghdr: command, version
    try:
        with nl.Netlink(family=_GENERIC) as netlink:
            named = netlink.ask(_CONTROL, body.pack(_GET_FAMILY, 1, 0), {_FAMILY_NAME: b"netdev\0"})
            family = struct.unpack("=H", named[0].attributes(body.size)[_FAMILY_ID])[0]
            told = netlink.ask(family, body.pack(_DEV_GET, 1, 0), {_DEV_INDEX: struct.pack("=I", index)})
            return int.from_bytes(told[0].attributes(body.size)[_DEV_XDP], "little")
    except (OSError, LookupError):
        return None


# -- naming one for later


def device(found: Link) -> Device:
    return Device(_netns.inode_here(), found.index, found.name, found.mac, found.kind)


def _like(found: Link, wanted: Device) -> bool:
    return found.mac == wanted.mac and found.kind == wanted.kind


def find(wanted: Device) -> tuple[_netns.Space, Link] | None:
    """Where that interface is now; None when it is gone, or where we cannot look.

    Another namespace may have given it another index, if its own was taken there: then the address must do.
    """
    home = _netns.by_inode(wanted.inode)
    if home is not None:
        with _netns.inside(home.path):
            at_home = maybe_link(wanted.index)
            if at_home is not None and (_like(at_home, wanted) or at_home.name == wanted.name):
                return home, at_home
    return _search(wanted)


def _search(wanted: Device) -> tuple[_netns.Space, Link] | None:
    by_address: tuple[_netns.Space, Link] | None = None
    for space in _netns.spaces():
        try:
            with _netns.inside(space.path):
                there = [x for x in links() if _like(x, wanted)]
        except (OSError, MezzoError):  # gone meanwhile, or not ours to enter
            continue
        for found in there:
            if found.index == wanted.index:
                return space, found
            by_address = by_address or (space, found)
    return by_address


def peer_of(found: Link) -> tuple[_netns.Space, Link]:
    """A veth's other end, and the namespace it is in."""
    if not found.peer_index:
        raise MezzoError(f"`{found.name}` is no veth, so it has no peer ({found.kind or 'a device'})")
    here = found.peer_nsid < 0
    space = _netns.by_inode(_netns.inode_here()) if here else _netns.by_nsid(found.peer_nsid)
    if space is None:
        raise PermissionError(errno.EPERM, f"the namespace of `{found.name}`'s peer cannot be reached")
    with _netns.inside(space.path):
        return space, link(found.peer_index)


# -- changing


def change(index: int, *, mtu: int = 0, up: bool | None = None, mac: str = "") -> None:
    """Sets what is given.  OSError says what the kernel has against it."""
    attributes = {}
    if mtu:
        attributes[_MTU] = struct.pack("=I", mtu)
    if mac:
        attributes[_ADDRESS] = bytes.fromhex(mac.replace(":", ""))
    new, mask = (UP if up else 0, UP) if up is not None else (0, 0)
    with nl.Netlink() as netlink:
        netlink.ask(nl.RTM_SETLINK, nl.LINK_BODY.pack(0, 0, index, new, mask), attributes)


def add_address(index: int, text: str) -> None:
    """Gives an interface an address, `10.0.0.1/24` or `fd00::1/64`."""
    interface = ipaddress.ip_interface(text)
    family, bits = (2, 32) if interface.version == 4 else (10, 128)  # AF_INET, AF_INET6
    body = nl.ADDRESS_BODY.pack(family, interface.network.prefixlen, 0, 0, index)
    packed = interface.ip.packed
    flags = nl.ACK | nl.CREATE | nl.REPLACE
    assert len(packed) * 8 == bits
    with nl.Netlink() as netlink:
        netlink.ask(nl.RTM_NEWADDR, body, {_IFA_LOCAL: packed, _IFA_ADDRESS: packed}, flags=flags)


def add_default_route(index: int, gateway: str) -> None:
    """The host's default route goes over the device; it goes when the device does."""
    body = struct.pack("=8BI", 2, 0, 0, 0, _MAIN_TABLE, _STATIC, 0, _UNICAST, 0)  # AF_INET
    address = ipaddress.IPv4Address(gateway).packed
    with nl.Netlink() as netlink:
        attributes = {_RTA_GATEWAY: address, _RTA_OIF: struct.pack("=I", index)}
        netlink.ask(nl.RTM_NEWROUTE, body, attributes, flags=nl.ACK | nl.CREATE)


# -- news


class Watch:
    """Tells what happens to one interface.  `fileno()` is readable when there may be news; `news()` never waits.

    It listens first and asks then, so that nothing between the two is missed.
    """

    def __init__(self, index: int) -> None:
        self._netlink = nl.Netlink(nl.GROUP_LINK)
        try:
            self.last: Link | None = maybe_link(index)
        except BaseException:
            self._netlink.close()
            raise
        self.index = index

    def fileno(self) -> int:
        return self._netlink.socket.fileno()

    @property
    def is_gone(self) -> bool:
        return self.last is None

    def news(self) -> list[str]:
        """What changed since the last call, in words: `gone`, `down`, `up`, `no carrier`, `carrier`, `mtu 1400`,
        `is called b0 now`."""
        said: list[str] = []
        for message in self._heard():
            family, _, index, *_ = nl.LINK_BODY.unpack_from(message.rest)
            # A family means news of a bridge's port, for example that it is none any more.
            if family or index != self.index or self.last is None:
                continue
            now = None if message.kind == nl.RTM_DELLINK else parse(message)
            said += _difference(self.last, now)
            self.last = now
        return said

    def _heard(self) -> Iterator[nl.Message]:
        lost = False
        for _ in range(TRIES):
            try:
                yield from (m for m in self._netlink.heard() if m.kind in (nl.RTM_NEWLINK, nl.RTM_DELLINK))
                if lost:
                    yield self._asked()
                return
            except OSError:  # ENOBUFS, said once: there was more news than the socket holds
                lost = True

    def _asked(self) -> nl.Message:
        """The state as it is, by the same socket, which is in the interface's namespace wherever this thread is."""
        body = nl.LINK_BODY.pack(0, 0, self.index, 0, 0)
        try:
            return self._netlink.ask(nl.RTM_GETLINK, body)[-1]
        except OSError as trouble:
            if trouble.errno != errno.ENODEV:
                raise
            return nl.Message(nl.RTM_DELLINK, body)

    def close(self) -> None:
        self._netlink.close()


def _difference(before: Link, now: Link | None) -> list[str]:
    if now is None:
        return ["gone"]
    said = []
    if before.name != now.name:
        said.append(f"is called {now.name} now")
    if before.is_up != now.is_up:
        said.append("up" if now.is_up else "down")
    elif before.has_carrier != now.has_carrier:
        said.append("carrier" if now.has_carrier else "no carrier")
    if before.mtu != now.mtu:
        said.append(f"mtu {now.mtu}")
    return said
