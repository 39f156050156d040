"""The small privileged requests: packet sockets, promiscuous mode, tap devices, settings of an interface.

Each function does one row of `privileged.RIGHTS`: a request in, descriptors and facts out.  When it fails, what it
made is closed again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from mezzo.ports import _netdev, _undo

SOL_PACKET, ADD_MEMBERSHIP, MR_PROMISC = 263, 1, 1
TUNSETIFF, TUNSETPERSIST = 0x4004_54CA, 0x4004_54CB
IFF_TUN, IFF_TAP, IFF_NO_PI, IFF_MULTI_QUEUE, IFF_VNET_HDR = 0x1, 0x2, 0x1000, 0x100, 0x4000
Answer = tuple[list[int], dict[str, Any]]


def packet(request: Mapping[str, Any]) -> Answer:
    """A packet socket that receives nothing until it is bound, so that its rings can be set up first."""
    found = _netdev.link(request["device"])
    kind = socket.SOCK_DGRAM if request.get("type") == "dgram" else socket.SOCK_RAW
    return [_socket(socket.AF_PACKET, kind)], found.facts()


def promiscuous(request: Mapping[str, Any]) -> Answer:
    """The membership lasts as long as the descriptor, and is counted by the kernel: a sniffer changes nothing."""
    found = _netdev.link(request["device"])
    made = socket.socket(fileno=_socket(socket.AF_PACKET, socket.SOCK_RAW))
    try:
        made.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, struct.pack("=iHH8x", found.index, MR_PROMISC, 0))
        return [made.detach()], found.facts()
    finally:
        made.close()


def _socket(family: int, kind: int) -> int:
    return socket.socket(family, kind | socket.SOCK_CLOEXEC, 0).detach()


def tap(request: Mapping[str, Any]) -> Answer:
    """A tap or tun device with one descriptor a queue; it goes with the last of them unless it is persistent."""
    queues = request.get("queues", 1)
    flags = IFF_NO_PI | (IFF_TUN if request.get("kind") == "tun" else IFF_TAP)
    flags |= (IFF_VNET_HDR if request.get("vnet_header") else 0) | (IFF_MULTI_QUEUE if queues > 1 else 0)
    with ExitStack() as undo:
        made, name = [], request["device"]
        for _ in range(queues):
            made.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
            undo.callback(os.close, made[-1])
            # The kernel fills in the number of a name like tap%d; the other queues must be of that device.
            name = _attach(made[-1], name, flags)
        if request.get("persistent"):
            fcntl.ioctl(made[0], TUNSETPERSIST, 1)
        facts = _netdev.link(name).facts()
        undo.pop_all()
    return made, facts


def _attach(descriptor: int, name: str, flags: int) -> str:
    if len(name.encode()) > _netdev.LONGEST_NAME:
        raise OSError(errno.EINVAL, f"a name has at most {_netdev.LONGEST_NAME} bytes")
    try:
        answer = fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    except OSError as refusal:
        there = _netdev.maybe_link(name)
        if refusal.errno == errno.EINVAL and there is not None and there.kind != "tun":
            what = f"there is an interface of that name already, and it is no tap ({there.kind or 'a device'})"
            raise OSError(errno.EEXIST, what) from None
        if refusal.errno == errno.EBUSY:
            raise OSError(errno.EBUSY, "it is in use: another program, or another router, has it open") from None
        raise
    return answer[:16].rstrip(b"\0").decode()


def route(request: Mapping[str, Any]) -> Answer:
    """Only over a device that goes with the router: the kernel takes the route away with it."""
    found = _netdev.link(request["device"])
    if not found.vanishes:
        raise OSError(errno.EINVAL, "it would stay when the router is gone")
    _netdev.add_default_route(found.index, request.get("gateway", ""))
    return [], found.facts()


def link(request: Mapping[str, Any]) -> Answer:
    """MTU, up or down, hardware address, addresses.  MTU and up are put back at the end, if the device outlives it."""
    found = _netdev.link(request["device"])
    mtu, up = request.get("mtu", 0), request.get("up")
    where = _netdev.device(found)
    changes = [_undo.Change("mtu", where, "", found.mtu, mtu)] if mtu else []
    changes += [_undo.Change("up", where, "", found.is_up, up)] if up is not None else []
    with _undo.ledger().holding([] if found.vanishes else changes) as told:
        _netdev.change(found.index, mtu=mtu, up=up, mac=request.get("mac", ""))
    for address in request.get("addresses", ()):
        _netdev.add_address(found.index, address)
    return [], _netdev.link(found.index).facts() | {"undo": told}
