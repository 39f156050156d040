"""Offload switches, queue counts and ring sizes of an interface (SIOCETHTOOL), at a veth's peer too.

An offload hands unfinished work to a device: a checksum to fill in, a large segment to cut, a VLAN tag kept beside
the frame.  A real device finishes it; a veth hands it on as it is, and a port that shows the bytes alone would show
wrong ones.  So a port switches off, at the end that makes such frames, what it cannot finish: that is the peer of the
veth it receives from, which may be in another namespace.

Switches have the kernel's names (`ethtool -k` in its second column); `GROUPS` are the short names, as the command has
them.  "Wanted" is what somebody asked for, "active" what is so: without checksums there is no segmentation, but the
wish stays, so putting the wish back puts everything back.
"""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mezzo.ports import _netdev, _netns, _undo

SIOCETHTOOL = 0x8946
# include/uapi/linux/ethtool.h
_GDRVINFO, _GRINGPARAM, _GSTRINGS, _GSSET_INFO = 0x03, 0x10, 0x1B, 0x37
_GFEATURES, _SFEATURES, _GCHANNELS, _SCHANNELS = 0x3A, 0x3B, 0x3C, 0x3D
_SS_FEATURES, _NAME_BYTES = 4, 32
_CHANNELS = ("rx", "tx", "other", "combined")
_RINGS = ("rx", "rx_mini", "rx_jumbo", "tx")

GROUPS: Mapping[str, tuple[str, ...]] = {
    "tx-checksum": ("tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "tx-checksum-sctp"),
    "rx-checksum": ("rx-checksum",),
    "tso": ("tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp6-segmentation", "tx-tcp-mangleid-segmentation"),
    "uso": ("tx-udp-segmentation",),
    "gso": ("tx-generic-segmentation",),
    "tunnel-gso": (
        "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gre-segmentation", "tx-gre-csum-segmentation",
        "tx-ipxip4-segmentation", "tx-ipxip6-segmentation",
    ),
    "gro": ("rx-gro",),
    "lro": ("rx-lro",),
    "txvlan": ("tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"),
    "rxvlan": ("rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"),
    "sg": ("tx-scatter-gather",),
}


@dataclass(frozen=True)
class Feature:
    """One switch: what is so, what was asked for, and whether anybody can change it."""

    active: bool
    wanted: bool
    changeable: bool


# -- switches


def features(name: str) -> dict[str, Feature]:
    """All switches of an interface in this namespace, by the kernel's names."""
    names = _feature_names(name)
    words = (len(names) + 31) // 32
    answer = _ioctl(name, struct.pack("=II", _GFEATURES, words) + bytes(16 * words))
    blocks = [struct.unpack_from("=IIII", answer, 8 + 16 * k) for k in range(words)]
    found = {}
    for bit, text in enumerate(names):
        available, requested, active, fixed = (word >> bit % 32 & 1 for word in blocks[bit // 32])
        if text:
            found[text] = Feature(bool(active), bool(requested), bool(available and not fixed))
    return found


def wanted(name: str) -> dict[str, bool]:
    """What was asked for, of each switch that can be changed."""
    return {k: f.wanted for k, f in features(name).items() if f.changeable}


def set_features(name: str, values: Mapping[str, bool]) -> None:
    """Asks for switches; those of the kernel's names that this one does not know are left out."""
    names = _feature_names(name)
    words = (len(names) + 31) // 32
    blocks = array.array("I", bytes(8 * words))
    for bit, text in enumerate(names):
        if text in values:
            blocks[bit // 32 * 2] |= 1 << bit % 32
            blocks[bit // 32 * 2 + 1] |= int(values[text]) << bit % 32
    _ioctl(name, struct.pack("=II", _SFEATURES, words) + blocks.tobytes())


def named(words: Iterable[str], known: Iterable[str]) -> list[str]:
    """Short names and the kernel's as the kernel's, those that it knows."""
    there = set(known)
    return [k for word in words for k in GROUPS.get(word, (word,)) if k in there]


def switch(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """Switches on and off at an interface or at its veth peer; done to what can be changed, undone at the end."""
    space, link, at = _end(request)
    with _netns.inside(space.path):
        before, device = features(link.name), replace(_netdev.device(link))
    values = dict.fromkeys(named(request.get("off", ()), before), False)
    values |= dict.fromkeys(named(request.get("on", ()), before), True)
    able = {k: v for k, v in values.items() if before[k].changeable}
    changes = [_undo.Change("feature", device, k, int(before[k].wanted), int(v)) for k, v in able.items()]
    with _undo.ledger().holding(changes) as told, _netns.inside(space.path):
        set_features(link.name, able)
        after = features(link.name)
    changed = {k: v for k, v in able.items() if before[k].wanted != v}
    refused = [k for k, v in values.items() if (after[k].wanted if k in able else after[k].active) != v]
    return [], {"changed": changed, "refused": refused, "where": _told(at, link, space), "undo": told}


def _end(request: Mapping[str, Any]) -> tuple[_netns.Space, _netdev.Link, str]:
    at, link = request.get("at", "here"), _netdev.link(request["device"])
    if at == "peer":
        return *_netdev.peer_of(link), at
    if at != "here":
        raise OSError(errno.EINVAL, f"at `{at}`: here, or at the peer")
    return _netns.Space(_netns.inode_here(), _netns.HERE, ""), link, at


def _told(at: str, link: _netdev.Link, space: _netns.Space) -> str:
    return link.name if at == "here" else f"{link.name}, the peer, in the namespace {space.name}"


def _feature_names(name: str) -> list[str]:
    answer = _ioctl(name, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0))
    count = struct.unpack_from("=I", answer, 16)[0]
    answer = _ioctl(name, struct.pack("=III", _GSTRINGS, _SS_FEATURES, count) + bytes(_NAME_BYTES * count))
    return [
        answer[12 + k * _NAME_BYTES :][:_NAME_BYTES].split(b"\0")[0].decode("ascii", "replace") for k in range(count)
    ]


# -- queues, rings, driver


def channels(name: str) -> dict[str, int]:
    """Queues now, and `max_` of each; {} where the driver does not say."""
    return _numbers(name, _GCHANNELS, _CHANNELS)


def rings(name: str) -> dict[str, int]:
    """Slots of the device's own rings, and `max_` of each; {} where the driver does not say."""
    return _numbers(name, _GRINGPARAM, _RINGS)


def _numbers(name: str, command: int, names: tuple[str, ...]) -> dict[str, int]:
    try:
        answer = _ioctl(name, struct.pack("=9I", command, *[0] * 8))
    except OSError as refusal:
        if refusal.errno == errno.EOPNOTSUPP:
            return {}
        raise
    values = struct.unpack_from("=8I", answer, 4)
    return dict(zip([*(f"max_{n}" for n in names), *names], values, strict=True))


def write_channels(name: str, values: Mapping[str, int]) -> None:
    now = channels(name) | dict(values)
    _ioctl(name, struct.pack("=9I", _SCHANNELS, 0, 0, 0, 0, *(now[n] for n in _CHANNELS)))


def set_channels(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """The number of queue pairs (`combined`, or rx and tx alike where the driver has no pairs)."""
    link = _netdev.link(request["device"])
    now = channels(link.name)
    if not now:
        raise OSError(errno.EOPNOTSUPP, "the driver has one number of queues")
    names = ("combined",) if now["max_combined"] else ("rx", "tx")
    where = _netdev.device(link)
    changes = [_undo.Change("channels", where, n, now[n], request.get("combined", 0)) for n in names]
    with _undo.ledger().holding(changes) as told:
        write_channels(link.name, {c.key: c.new for c in changes})
    return [], channels(link.name) | {"undo": told}


def driver(name: str) -> str:
    """What drives the interface, as ethtool -i has it; "" where nobody says."""
    try:
        return _ioctl(name, struct.pack("=I", _GDRVINFO) + bytes(192))[4:36].split(b"\0")[0].decode("ascii", "replace")
    except OSError:
        return ""


def _ioctl(name: str, command: bytes) -> bytes:
    """One SIOCETHTOOL; what the kernel wrote over the command."""
    room = array.array("B", command)
    address, _ = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
    return room.tobytes()
