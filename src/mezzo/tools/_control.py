"""The options by which both drivers open control sockets: -p, -u, --socket."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements.control_address import Address, Opening, descriptor, tcp, unix

if TYPE_CHECKING:
    from mezzo.runtime import Router

KINDS = (("port", "-p", tcp), ("unix_socket", "-u", unix), ("socket", "--socket", descriptor))


def control_arguments(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "-R",
        "--allow-reconfigure",
        action="store_true",
        help="the handler hotconfig may change the configuration while it runs (mezzo reload)",
    )
    add(
        "-p",
        "--port",
        action="append",
        default=[],
        metavar="PORT",
        help="control connections on a TCP port of this machine; 7777+: or the next that is free; 0: any",
    )
    add(
        "-u",
        "--unix-socket",
        action="append",
        default=[],
        metavar="FILE",
        help="control connections on a UNIX socket, which is its owner's alone",
    )
    add(
        "--socket",
        action="append",
        default=[],
        metavar="FD",
        help="control connections by an open descriptor, of a connection or of a socket that listens",
    )


def open_control(router: Router, args: argparse.Namespace) -> None:
    """Opens what the command line asks for; a port that it leaves open is said on standard error."""
    router.reconfigurable = args.allow_reconfigure
    troubles = []
    for key, option, parse in KINDS:
        for text in getattr(args, key):
            try:
                asked = parse(text)
                found = router.control.open(Opening(asked, f"{option} {text}")).address
            except (MezzoError, ValueError) as trouble:
                troubles.append(Diagnostic(f"{option} {text}: {trouble}"))
                continue
            if _was_open(asked):
                print(f"control socket on {found}", file=sys.stderr, flush=True)
    if troubles:
        raise MezzoError(*troubles)


def _was_open(asked: Address) -> bool:
    return asked.kind == "TCP" and (asked.port == 0 or asked.further)
