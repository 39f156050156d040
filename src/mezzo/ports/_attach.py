"""XDP programs on an interface: which one is there, attaching ours, never removing a stranger's unasked.

Ours is attached by a bpf_link, so it vanishes with the process, however that ends.  What is there already is

    a stranger's            refused, with its name and id; replaced only with `force`
    ours, held by a link    some process that lives has it: refused, with that said (a killed one's is gone in a moment)
    ours, without a link    left behind by a process that attached it the old way: replaced

What is on an interface only rtnetlink says (IFLA_XDP), in the namespace of the calling thread.

`open_xdp` is the whole of it as one request to `privileged`: program, map, sockets in the map, link; `open_root` the
same for a program and a map that are there already.  The sockets are bare: their owner gives them memory and rings and
binds them, which takes no rights; until then no packet reaches them.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.base.bpf import test_run
from mezzo.ports import _bpf
from mezzo.ports import _netlink as nl

PROGRAM_NAME = "mezzo_xsk"
PATIENCE_S = 1.0  # the kernel takes down what a killed process had after its exit
GENERIC, NATIVE, REPLACE = 1 << 1, 1 << 2, 1 << 4  # XDP_FLAGS_*
MODES = {"native": NATIVE, "generic": GENERIC}

_IFLA_MTU, _IFLA_RX_QUEUES, _IFLA_XDP = 4, 32, 43
AF_XDP = 44
RECORD = 72  # bytes that go with a packet (targets/kernel/record)
LINK_UPDATE = 29  # a command of bpf(2)
_XDP_FD, _XDP_ATTACHED, _XDP_FLAGS = 1, 2, 3
_XDP_IDS = {4: "native", 5: "native", 6: "generic", 7: "offloaded"}
_NESTED = 1 << 15  # NLA_F_NESTED
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


def _asked(ifindex: int) -> dict[int, bytes]:
    """What rtnetlink says of an interface; OSError (ENODEV) when it is gone."""
    with nl.Netlink() as link:
        return link.ask(nl.RTM_GETLINK, nl.LINK_BODY.pack(0, 0, ifindex, 0, 0))[0].attributes(nl.LINK_BODY.size)


def mtu_of(ifindex: int) -> int:
    return nl.u32(_asked(ifindex)[_IFLA_MTU])


def queues_of(ifindex: int) -> int:
    """Receive queues that the interface was made with; fewer may be in use."""
    return nl.u32(_asked(ifindex)[_IFLA_RX_QUEUES])


def attached_to(ifindex: int) -> list[Attached]:
    """The programs on an interface: none, one, or several of different modes."""
    xdp = nl.parse_attributes(_asked(ifindex).get(_IFLA_XDP, b""))
    mode = _ATTACHED_ONE.get(xdp.get(_XDP_ATTACHED, b"\0")[0])
    # IFLA_XDP_PROG_ID (4) stands beside the id of its mode (5, 6, 7); with several programs it is absent.
    ids = {nl.u32(xdp[k]): how for k, how in _XDP_IDS.items() if k in xdp}
    return [_describe(number, mode or how, ifindex) for number, how in ids.items() if number]


def _describe(number: int, mode: str, ifindex: int) -> Attached:
    info = _bpf.program_by_id(number)
    held = (one.id for one in _bpf.links() if one.program == number and one.ifindex == ifindex)
    return Attached(number, info.name if info else "", mode, next(held, 0))


def _detach_old(ifindex: int, mode: str) -> None:
    """Takes away what was attached without a link."""
    inner = {_XDP_FD: struct.pack("=i", -1), _XDP_FLAGS: struct.pack("=I", MODES.get(mode, 0))}
    with nl.Netlink() as link:
        body = nl.LINK_BODY.pack(0, 0, ifindex, 0, 0)
        link.ask(nl.RTM_SETLINK, body, {_IFLA_XDP | _NESTED: nl.pack_attributes(inner)})


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


def replace(link: int, program: int) -> None:
    """Puts another program in the place of the attached one, at once."""
    _bpf.bpf(LINK_UPDATE, struct.pack("=IIII", link, program, 0, 0))


def detach(link: int) -> None:
    """Detaches the program and closes the link, which a forked child may hold as well."""
    try:
        with suppress(OSError):  # gone with its interface, or for the kernel to do at the last close
            _bpf.detach_link(link)
    finally:
        os.close(link)


# -- as one request


def open_xdp(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """[the link, a socket for each queue], and facts: "said" (what was replaced), "program" (its id).

    mode "native" | "generic"; queues, 0 for all; frags: the program takes packets of several buffers; take:
    "all" or ethertypes, "0x0800 0x0806"; force: a stranger's program makes way.
    """
    count = request.get("queues") or queues_of(socket.if_nametoindex(request["device"]))
    kinds = () if request.get("take", "all") == "all" else tuple(int(w, 0) for w in request["take"].split())
    with ExitStack() as always:
        table = _bpf.create_map(_bpf.MAP_XSK, 4, 4, count, PROGRAM_NAME)
        always.callback(os.close, table)
        flags = _bpf.HAS_FRAGS if request.get("frags") else 0
        program = _bpf.load_program(_bpf.redirect_program(table, kinds), PROGRAM_NAME, flags)
        always.callback(os.close, program)
        return _open(request, count, program, table)


def open_root(request: Mapping[str, Any], given: Sequence[int]) -> tuple[list[int], dict[str, Any]]:
    """As `open_xdp` for the kernel's level, whose map of sockets is given.  The program drops all packets: the root
    takes its place by `replace` when the router runs, with the state that its elements have then."""
    if not takes_metadata(RECORD):
        what = f"{request['device']}: the kernel's level needs {RECORD} bytes of metadata in front of a packet"
        raise MezzoError(Diagnostic(what, hint="Linux 6.8 is the first that has them; leave --place out"))
    count = request.get("queues") or queues_of(socket.if_nametoindex(request["device"]))
    flags = _bpf.HAS_FRAGS if request.get("frags") else 0
    program = _bpf.load_program(_bpf.DROP_ALL, PROGRAM_NAME, flags)
    try:
        return _open(request, count, program, given[0])
    finally:
        os.close(program)


@cache
def takes_metadata(size: int) -> bool:
    """Whether so much can stand in front of a packet, besides what the kernel keeps there."""
    code = [
        _bpf.Instruction(_bpf.MOVE_IMM, dst=2, immediate=-size),
        _bpf.Instruction(_bpf.CALL, immediate=_bpf.ADJUST_META),
        _bpf.Instruction(_bpf.EXIT),
    ]
    program = _bpf.load_program(code, PROGRAM_NAME)
    try:
        return test_run(program, b"", bytes(64)).verdict == 0
    finally:
        os.close(program)


def _open(request: Mapping[str, Any], count: int, program: int, table: int) -> tuple[list[int], dict[str, Any]]:
    """Makes the sockets, puts them into the table, and attaches the program."""
    ifindex = socket.if_nametoindex(request["device"])
    with ExitStack() as undo:
        said = make_room(ifindex, request["device"], bool(request.get("force")))
        sockets = []
        for queue in range(count):
            sockets.append(socket.socket(AF_XDP, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0).detach())
            undo.callback(os.close, sockets[-1])
            _bpf.map_put(table, struct.pack("=I", queue), struct.pack("=I", sockets[-1]))
        link = attach(program, ifindex, request.get("mode", "native"))
        undo.pop_all()
        return [link, *sockets], {"said": said, "program": _bpf.program_info(program).id}


def pass_program(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """A program that lets every packet go on; it is attached to nothing."""
    socket.if_nametoindex(request["device"])
    return [_bpf.load_program(_bpf.PASS_ALL, PROGRAM_NAME)], {}


def bare_sockets(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """`count` sockets without a program, to send with."""
    socket.if_nametoindex(request["device"])
    with ExitStack() as undo:
        sockets = []
        for _ in range(request.get("count", 1)):
            sockets.append(socket.socket(AF_XDP, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0).detach())
            undo.callback(os.close, sockets[-1])
        undo.pop_all()
    return sockets, {}
