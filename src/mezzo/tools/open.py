"""opens interfaces for routers that have no rights themselves, and hands the descriptors over

    sudo mezzo-open --install /usr/local/bin/mezzo-open --devices eth0,eth1
    sudo mezzo-open --listen /run/mezzo-open.sock --devices 'veth*' --users alice

With --install it writes a small program that has the capabilities (cap_net_raw, cap_net_admin, cap_bpf, and
cap_perfmon for the kernel's level of a router) and opens these devices, for whoever may execute that file; `mezzo run`
finds it on PATH and needs no sudo.  With --listen it waits at a socket (`mezzo run --open SOCKET`, or
MEZZO_OPEN=SOCKET); started by systemd it takes the socket it is given.  With neither, its standard input is a
connection: so the installed program is started.

It does nothing but what `mezzo.ports.privileged` lists, and what a router had changed (offload switches, MTU) it
sets back when that router is gone.  A packet socket can be bound to any interface of its network namespace, so
--devices guards against mistakes, a namespace against malice.
"""

from __future__ import annotations

import argparse
import grp
import os
import pwd
import signal
import socket
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError
from mezzo.ports import privileged

ENTERING = ("CAP_SYS_ADMIN", "CAP_SYS_PTRACE")  # another namespace, by way of /proc


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=words, default=(), metavar="NAME,…", help="what it opens, with * and ?")
    parser.add_argument(
        "--rights", type=words, default=tuple(privileged.RIGHTS), metavar="NAME,…",
        help=f"what it does ({','.join(privileged.RIGHTS)})",
    )  # fmt: skip
    parser.add_argument("--users", type=users, metavar="NAME,…", help="for whom (--listen: who started it, and root)")
    parser.add_argument("--listen", metavar="SOCKET", help="wait for connections there")
    parser.add_argument("--group", type=group, metavar="NAME", help="--install: for the members of this group only")
    parser.add_argument("--install", type=Path, metavar="FILE", help="write a program that has the capabilities")
    parser.add_argument(
        "--peers", action="store_true",
        help="--install: also switch offloads of a veth's peer in another namespace (cap_sys_admin, cap_sys_ptrace)",
    )  # fmt: skip
    parser.add_argument(
        "--trust", action="store_true", help="--install although others than root can change this mezzo"
    )


def words(text: str) -> tuple[str, ...]:
    return tuple(w for w in text.split(",") if w)


def users(text: str) -> frozenset[int]:
    try:
        return frozenset(int(w) if w.isdigit() else pwd.getpwnam(w).pw_uid for w in words(text))
    except KeyError as trouble:
        raise argparse.ArgumentTypeError(str(trouble.args[0])) from None


def group(text: str) -> int:
    try:
        return int(text) if text.isdigit() else grp.getgrnam(text).gr_gid
    except KeyError as trouble:
        raise argparse.ArgumentTypeError(str(trouble.args[0])) from None


def main(args: argparse.Namespace) -> int:
    if not args.devices:
        raise MezzoError(Diagnostic("mezzo-open: which devices?", hint="--devices eth0,eth1, or --devices '*' for all"))
    unknown = [r for r in args.rights if r not in privileged.RIGHTS]
    if unknown:
        raise MezzoError(Diagnostic(f"--rights {unknown[0]}", hint=f"there are {', '.join(privileged.RIGHTS)}"))
    if args.install:
        return install(args)
    return serve(args)


def command() -> int:
    """`mezzo-open …`: the same as `mezzo open …`."""
    from mezzo.tools.main import guarded, parser_of

    parser = parser_of("open", __doc__ or "")
    parser.prog = "mezzo-open"
    arguments(parser)
    return guarded(lambda: main(parser.parse_args()))


# -- the program


def install(args: argparse.Namespace) -> int:
    from mezzo.ports import _launcher

    source = Path(__file__).parents[1]
    for place in (Path(sys.executable), source):
        other = _launcher.others_may_write(place)
        if other is not None and not args.trust:
            raise MezzoError(
                Diagnostic(
                    f"{other} can be changed by others than root, who would have these capabilities then",
                    hint="install mezzo where root alone writes (python3 -m venv /opt/mezzo …), or say --trust",
                )
            )
    needs = {name for right in args.rights for name in privileged.RIGHTS[right].needs}
    capabilities = sorted(needs | set(ENTERING if args.peers else ()))
    _launcher.install(args.install, helper_command(args), capabilities, args.group)
    print(f"{args.install}: {','.join(capabilities).lower()} for {','.join(args.devices)}")
    return 0


def helper_command(args: argparse.Namespace) -> list[str]:
    """What the program becomes: this Python, blind to variables and folders of whoever starts it (-I)."""
    said = ["--devices", ",".join(args.devices), "--rights", ",".join(args.rights)]
    said += ["--users", ",".join(map(str, sorted(args.users)))] if args.users is not None else []
    return [sys.executable, "-I", "-m", "mezzo.tools.open", *said]


# -- the helper


def serve(args: argparse.Namespace) -> int:
    from mezzo.ports import _serve

    server = _serve.Server(_serve.Policy(args.devices, frozenset(args.rights), allowed_users(args)))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    if args.listen:
        listen(server, args.listen)
    elif os.environ.get("LISTEN_PID") == str(os.getpid()):
        server.listen(socket.socket(fileno=3))  # sd_listen_fds(3): the first descriptor handed over
    else:
        server.add(connection_at(0))
    server.run()
    if args.listen:
        with suppress(OSError):
            os.unlink(args.listen)
    return 0


def allowed_users(args: argparse.Namespace) -> frozenset[int] | None:
    """All, where executing the file or opening the socket is what is allowed or not."""
    if args.users is None and args.listen:
        return frozenset({0, os.getuid(), int(os.environ.get("SUDO_UID", "0"))})
    named: frozenset[int] | None = args.users
    return named


def listen(server: object, path: str) -> None:
    from mezzo.ports import _serve

    assert isinstance(server, _serve.Server)
    with suppress(OSError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)  # of one that was killed
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        made.bind(path)
    except OSError as trouble:
        raise MezzoError(f"--listen {path}: {trouble.strerror}") from None
    os.chmod(path, 0o666)  # who may ask is decided by --users
    made.listen()
    server.listen(made)


def connection_at(descriptor: int) -> socket.socket:
    try:
        made = socket.socket(fileno=os.dup(descriptor))
        if made.family == socket.AF_UNIX and made.type == socket.SOCK_SEQPACKET:
            return made
    except OSError:
        pass
    raise MezzoError(
        Diagnostic(
            "mezzo-open: standard input is no connection",
            hint="`mezzo run` starts it so; --listen SOCKET waits for many",
        )
    )


def run(argv: Sequence[str]) -> int:
    """`python -m mezzo.tools.open`, as the installed program starts it."""
    sys.argv[1:] = argv
    return command()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
