"""What `mezzo doctor` says about ports: each method is tried as far as it goes without an interface; one fix each.

Trying is better than asking: a container may have the capability and a filter that forbids the call.  Namespaces are
tried in a child, everything else is closed again at once.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from mezzo.ports import _capabilities, _opener, privileged

ARENA = 64 << 20  # the frames of a router by default
AF_XDP = 44


class Row(NamedTuple):
    """The fields of a finding of `mezzo doctor`."""

    name: str
    found: bool
    detail: str
    use: str
    fix: str


def rows() -> Iterator[Row]:
    yield capabilities()
    yield helper()
    yield tried("packet sockets", packet_socket, "packet ports", "packet")
    yield tried("AF_XDP sockets", xdp_socket, "xdp ports", "xdp_sockets")
    yield memlock()
    yield netmap()
    yield tap()


def capabilities() -> Row:
    wanted = sorted({name for right in privileged.RIGHTS.values() for name in right.needs})
    missing = _capabilities.missing(wanted)
    there = ", ".join(w for w in wanted if w not in missing)
    fix = "run it as root, or have an installed mezzo-open"
    return Row("capabilities", not missing, there, f"ports by this process itself (missing: {', '.join(missing)})", fix)


def helper() -> Row:
    path = os.environ.get(_opener.SOCKET, "")
    program = path or _opener.maybe_program()
    fix = "sudo mezzo-open --install /usr/local/bin/mezzo-open --devices eth0"
    return Row("mezzo-open", bool(program), program, "ports without root", fix)


def tried(name: str, attempt: Callable[[], None], use: str, right: str) -> Row:
    """A call that works, or how it is refused."""
    try:
        attempt()
    except OSError as trouble:
        return Row(name, False, trouble.strerror or "", use, _fix(trouble.errno or 0, right))
    return Row(name, True, "can be made", use, "")


def _fix(number: int, right: str) -> str:
    needs = privileged.RIGHTS[right].needs
    if number in (errno.EPERM, errno.EACCES) and _capabilities.missing(needs):
        return f"run it as root, or have a mezzo-open with {','.join(n.lower() for n in needs)}"
    if number in (errno.EPERM, errno.EACCES):
        return "allow it in the container's seccomp profile"
    return "use a kernel that has it (CONFIG_PACKET, CONFIG_XDP_SOCKETS)"


def packet_socket() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


def xdp_socket() -> None:
    socket.socket(AF_XDP, socket.SOCK_RAW, 0).close()


def memlock() -> Row:
    """AF_XDP pins the arena, and who may not lock memory at will is held to the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = _capabilities.has("CAP_IPC_LOCK") or soft == resource.RLIM_INFINITY
    detail = "no limit for this process" if unlimited else f"{soft >> 10} kB of {ARENA >> 10} wanted"
    raise_it = hard == resource.RLIM_INFINITY or hard >= ARENA
    fix = f"ulimit -l {ARENA >> 10}" + ("" if raise_it else " (as root, or memlock in /etc/security/limits.conf)")
    return Row("locked memory", unlimited or soft >= ARENA, detail, "xdp ports with all their frames", fix)


def netmap() -> Row:
    there = Path("/dev/netmap").exists()
    usable = os.access("/dev/netmap", os.R_OK | os.W_OK)
    fix = "chgrp and chmod g+rw /dev/netmap (as root)" if there else "build and load the netmap kernel module"
    return Row("netmap", usable, "/dev/netmap" if there else "", "netmap ports", fix)


def tap() -> Row:
    """Opening the file is for everybody; a device of one's own takes CAP_NET_ADMIN."""
    usable = os.access("/dev/net/tun", os.R_OK | os.W_OK)
    detail = "/dev/net/tun" if usable else ""
    if usable and not _capabilities.has("CAP_NET_ADMIN"):
        fix = "run it as root, or sudo ip tuntap add tap0 mode tap user $USER"
        return Row("tap", False, detail, "tap ports of devices that are made for you", fix)
    return Row("tap", usable, detail, "tap ports", "modprobe tun, or mknod /dev/net/tun c 10 200 (as root)")
