"""XDP programs on an interface: which one is there, attaching ours, never removing a stranger's unasked.

Ours is attached by a bpf_link, so it vanishes with the process, however that ends.  What is there already is

    a stranger's            refused, with its name and id; replaced only with `force`
    ours, held by a link    some process that lives has it: refused, with that said (a killed one's is gone in a moment)
    ours, without a link    left behind by a process that attached it the old way: replaced

What is on an interface only rtnetlink says (IFLA_XDP), in the namespace of the calling thread.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from mezzo.base import Diagnostic, MezzoError
from mezzo.ports import _bpf

PROGRAM_NAME = "mezzo_xsk"
PATIENCE_S = 1.0  # the kernel takes down what a killed process had after its exit
GENERIC, NATIVE, REPLACE = 1 << 1, 1 << 2, 1 << 4  # XDP_FLAGS_*
MODES = {"native": NATIVE, "generic": GENERIC}

_GETLINK, _SETLINK, _ERROR = 18, 19, 2
_REQUEST, _ACK = 1, 4
_IFLA_MTU, _IFLA_XDP = 4, 43
_XDP_FD, _XDP_ATTACHED, _XDP_FLAGS = 1, 2, 3
_XDP_IDS = {4: "native", 5: "native", 6: "generic", 7: "offloaded"}
_NESTED = 1 << 15
_ATTACHED_ONE = {1: "native", 2: "generic", 3: "offloaded"}


@dataclass(frozen=True, slots=True)
class Attached:
    """A program on an interface; `link` is the id of the bpf_link that holds it, 0 without one."""

    id: int
    name: str
    mode: str
    link: int = 0

    @property
    def is_ours(self) -> bool:
        return self.name == PROGRAM_NAME


# -- rtnetlink, two messages of it


def _talk(kind: int, flags: int, ifindex: int, attributes: bytes = b"") -> bytes:
    """Sends one link message and gives the answer's body; OSError when the kernel refuses."""
    body = struct.pack("=BBHiII", 0, 0, 0, ifindex, 0, 0) + attributes
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as s:
        s.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | flags, 1, 0) + body)
        answer = s.recv(1 << 17)
    length, what = struct.unpack_from("=IH", answer)
    if what == _ERROR:
        code = -struct.unpack_from("=i", answer, 16)[0]
        if code:
            raise OSError(code, os.strerror(code))
    return answer[32:length]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & ~_NESTED, data[at + 4 : at + length]
        at += -(-length // 4) * 4


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def mtu_of(ifindex: int) -> int:
    return int.from_bytes(dict(_attributes(_talk(_GETLINK, 0, ifindex)))[_IFLA_MTU], "little")


def attached_to(ifindex: int) -> list[Attached]:
    """The programs on an interface: none, one, or several of different modes."""
    xdp = dict(_attributes(dict(_attributes(_talk(_GETLINK, 0, ifindex))).get(_IFLA_XDP, b"")))
    mode = _ATTACHED_ONE.get(xdp.get(_XDP_ATTACHED, b"\0")[0])
    # IFLA_XDP_PROG_ID (4) stands beside the id of its mode (5, 6, 7); with several programs it is absent.
    ids = {int.from_bytes(xdp[k], "little"): _XDP_IDS[k] for k in _XDP_IDS if k in xdp and len(xdp[k]) == 4}
    return [_describe(number, mode or how, ifindex) for number, how in ids.items() if number]


def _describe(number: int, mode: str, ifindex: int) -> Attached:
    info = _bpf.program_by_id(number)
    held = (one.id for one in _bpf.links() if one.kind == _bpf.LINK_XDP and one.program == number)
    return Attached(number, info.name if info else "", mode, next(held, 0))


def _detach_old(ifindex: int, mode: str) -> None:
    """Takes away what was attached without a link."""
    flags = struct.pack("=I", MODES.get(mode, 0))
    inner = _attribute(_XDP_FD, struct.pack("=i", -1)) + _attribute(_XDP_FLAGS, flags)
    _talk(_SETLINK, _ACK, ifindex, _attribute(_IFLA_XDP | _NESTED, inner))


# -- making room, and attaching


def make_room(ifindex: int, name: str, force: bool) -> list[str]:
    """Sees that no program is on the interface; says what was replaced."""
    end = time.monotonic() + PATIENCE_S
    said: list[str] = []
    while there := attached_to(ifindex):
        for one in there:
            if force or (one.is_ours and not one.link):
                _remove(ifindex, one)
                said.append(f"replaced the program `{one.name}` (id {one.id}, {one.mode})")
            elif not one.is_ours or time.monotonic() > end:
                raise _occupied(name, one)
        time.sleep(0.01)
    return said


def _remove(ifindex: int, one: Attached) -> None:
    if not one.link:
        _detach_old(ifindex, one.mode)
        return
    link = _bpf.open_link(one.link)
    try:
        _bpf.detach_link(link)
    finally:
        os.close(link)


def _occupied(name: str, one: Attached) -> MezzoError:
    if one.is_ours:
        what = f"another mezzo receives from `{name}` (its program has the id {one.id})"
        return MezzoError(Diagnostic(what, hint="end it, or say FORCE true (mezzo run --force) to take over"))
    what = f"`{name}` has an XDP program that is not mezzo's: `{one.name}`, id {one.id}, {one.mode}"
    return MezzoError(Diagnostic(what, hint="detach it, or say FORCE true (mezzo run --force) to replace it"))


def attach(program: int, ifindex: int, mode: str) -> int:
    """The link by which the program is attached now; OSError when this mode does not go."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _bpf.create_link(program, ifindex, MODES[mode])
        except OSError as refusal:
            if refusal.errno != errno.EBUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)
