"""Where a control socket is: a TCP port, a UNIX socket, or a descriptor that somebody else has opened.

TCP means 127.0.0.1 unless it is said otherwise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

LONGEST_PATH = 107  # bytes of sun_path, less the last zero


@dataclass(frozen=True)
class Address:
    """`kind` is TCP (host, port; `further`: or one of the next), UNIX (path) or SOCKET (fd)."""

    kind: str
    host: str = "127.0.0.1"
    port: int = 0
    further: bool = False
    path: str = ""
    fd: int = -1

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {"TCP": f"{host}:{self.port}", "UNIX": self.path, "SOCKET": f"descriptor {self.fd}"}[self.kind]


def tcp(text: str, everywhere: bool = False) -> Address:
    """`7777`, `7777+` (or one of the next ten), `0` (any that is free); `everywhere`: on all interfaces."""
    number = text.removesuffix("+")
    if not number.isascii() or not number.isdigit() or len(number) > 5 or int(number) > 65535:
        raise ValueError(f"`{text}` is no TCP port: give 1 to 65535, `7777+` for the first free one from there, or 0")
    host = "127.0.0.1" if not everywhere else "0.0.0.0"
    return Address("TCP", host, int(number), text.endswith("+") and number != "0")


def unix(path: str) -> Address:
    if not path or "\0" in path or len(os.fsencode(path)) > LONGEST_PATH:
        raise ValueError(f"`{path}` is no name of a UNIX socket: give one of 1 to {LONGEST_PATH} bytes")
    return Address("UNIX", path=path)


def descriptor(text: str) -> Address:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ValueError(f"`{text}` is no descriptor: give the number of an open socket")
    return Address("SOCKET", fd=int(text))


@dataclass(eq=False)
class Opening:
    """What was asked for: an address, who may do what, and how often it is tried again.

    Once it is open `address` says where: a port that was left open is known then; `asked` is what was written.
    """

    address: Address
    name: str = "control socket"
    readonly: bool = False
    token: str = ""
    proxy: tuple[str, ...] = ()  # names that the element may have: as written, and in this compound
    verbose: bool = False
    retries: int = 0
    retry_warnings: bool = True
    file: tuple[int, int] | None = field(default=None, init=False)  # of a UNIX socket, while it is open
    open: bool = field(default=False, init=False)
    asked: Address = field(init=False)

    def __post_init__(self) -> None:
        self.asked = self.address
