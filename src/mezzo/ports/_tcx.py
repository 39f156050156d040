"""Packets of an interface are kept from the host: a program at its ingress that drops all (tcx, Linux 6.6).

Packet sockets have had their copy by then, so who listens by one hears everything and the host's own stack nothing.
The program hangs on a link, a descriptor: it goes when the process does, however that ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.ports import _bpf, _netdev

SCHED_CLS, TCX_INGRESS = 3, 46
DROP = 2  # TCX_DROP
MOVE_IMM, EXIT = 0xB7, 0x95


def keep_from_host(name: str, index: int) -> int:
    """Attaches the program; a descriptor that keeps it there."""
    program = -1
    try:
        program = _load()
        return _bpf.bpf(_bpf.LINK_CREATE, struct.pack("=8IQ", program, index, TCX_INGRESS, 0, 0, 0, 0, 0, 0))
    except PermissionError:
        raise
    except OSError as trouble:
        hint = "leave SNIFFER true, and keep the host from answering otherwise (no address on the interface)"
        if trouble.errno == errno.EINVAL:
            hint += "; Linux 6.6 is the first that can"
        message = f"`{name}`: SNIFFER false: the host cannot be kept from its packets: {trouble.strerror}"
        raise MezzoError(Diagnostic(message, hint=hint)) from trouble
    finally:
        if program >= 0:
            os.close(program)


def alone(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """The same as a request to `privileged`."""
    found = _netdev.link(request["device"])
    return [keep_from_host(found.name, found.index)], found.facts()


def _load() -> int:
    code = struct.pack("=BBhi", MOVE_IMM, 0, 0, DROP) + struct.pack("=BBhi", EXIT, 0, 0, 0)
    held, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"any")
    addresses = ctypes.addressof(held), ctypes.addressof(licence)
    name = _bpf.name_field("mezzo_alone")
    return _bpf.bpf(
        _bpf.PROG_LOAD, struct.pack("=IIQQIIQII16sII", SCHED_CLS, 2, *addresses, 0, 0, 0, 0, 0, name, 0, TCX_INGRESS)
    )
