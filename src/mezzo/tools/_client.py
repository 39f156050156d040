"""The client's side of the control protocol, for `mezzo read`, `write` and `shell`.

Whoever is at the other end may be no router at all: it may be silent, echo, or speak HTTP.  So every answer has a time
limit as a whole, a line a greatest length, and nothing is sent before the greeting was seen.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import stat
import time
from collections.abc import Sequence

from mezzo.base import Diagnostic, MezzoError

GREETING = re.compile(rb"Click::ControlSocket/(\d+)\.(\d+)\s*$")
LONGEST_LINE = 64 << 10
MOST_LINES = 10_000  # of a message are kept
PIECE = 1 << 20
HOST_PORT = re.compile(r"(?:\[([^\]]+)\]|([^:/]*)):([0-9]{1,5})")
MOST_DIGITS = 12  # of the length of an answer


class ControlError(MezzoError):
    """The router refused, perhaps several things; `code` is the protocol's for the first."""

    def __init__(self, code: int, *messages: str | Diagnostic) -> None:
        super().__init__(*messages)
        self.code = code


def client_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "where", metavar="WHERE", help="HOST:PORT, the PORT of this machine, or the file of a UNIX socket"
    )
    parser.add_argument(
        "--token",
        default=os.environ.get("MEZZO_TOKEN", ""),
        metavar="WORD",
        help="the word that the router asks for (default: what is in MEZZO_TOKEN)",
    )
    parser.add_argument("--timeout", type=seconds, default=5.0, metavar="T", help="how long an answer may take (5 s)")


def seconds(text: str) -> float:
    from mezzo.elements.units import parse_duration

    try:
        return parse_duration(text, "s") / 1e9
    except ValueError as trouble:
        raise argparse.ArgumentTypeError(str(trouble)) from None


def connect(args: argparse.Namespace) -> Client:
    return Client(args.where, args.timeout, args.token)


def place_of(where: str) -> str | tuple[str, int]:
    """The address that a word means: a file's name, or (host, port)."""
    if where.isascii() and where.isdigit() and len(where) <= 5 and int(where) < 65536:
        return "127.0.0.1", int(where)
    match = HOST_PORT.fullmatch(where)
    if match is not None and int(match[3]) < 65536:
        return match[1] or match[2] or "127.0.0.1", int(match[3])
    if "/" in where or where.endswith(".sock") or os.path.lexists(where):
        return where
    raise MezzoError(Diagnostic(f"`{where}` is no address", hint="write HOST:PORT, PORT, or the name of a UNIX socket"))


class Client:
    """A connection to a router.  Use it as a context manager."""

    def __init__(self, where: str, timeout_s: float = 5.0, token: str = "") -> None:
        self.where, self.timeout_s = where, timeout_s
        self._received = b""
        self._end = time.monotonic() + timeout_s
        self._socket = self._connected(place_of(where))
        try:
            self._greet()
            if token:
                self._ask(b"TOKEN %b\n" % os.fsencode(token))
        except BaseException:
            self._socket.close()
            raise

    # -- handlers

    def read(self, handler: str, argument: bytes = b"") -> bytes:
        """The value of a read handler."""
        self._ask(_command(b"READ", handler, argument))
        head = self._line()
        count = head[5:].strip()
        if not head.startswith(b"DATA ") or not count.isdigit() or len(count) > MOST_DIGITS:
            raise self._strange(head)
        return self._take(int(count))

    def write(self, handler: str, data: bytes = b"") -> str:
        """Gives a write handler its text; gives what the router says to it."""
        return self._ask(_command(b"WRITE", handler, data))

    def text(self, handler: str, argument: str = "") -> str:
        return self.read(handler, encoded(argument)).decode("utf-8", "replace")

    def names(self) -> list[str]:
        """All elements."""
        return self.text("list").splitlines()[1:]

    def handlers(self, element: str = "") -> list[tuple[str, str]]:
        """(name, flags) of an element's handlers, or of the global ones."""
        lines = self.text(f"{element}.handlers" if element else "handlers").splitlines()
        return [(name, flags) for name, _, flags in (line.partition("\t") for line in lines)]

    # -- the wire

    def _connected(self, place: str | tuple[str, int]) -> socket.socket:
        try:
            if isinstance(place, tuple):
                made = socket.create_connection(place, self.timeout_s)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return made
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.settimeout(self.timeout_s)
                self._join(made, place)
            except BaseException:
                made.close()
                raise
            return made
        except UnicodeError:  # what no name of a host can be
            raise MezzoError(f"{self.where}: no such host") from None
        except OSError as trouble:
            raise MezzoError(Diagnostic(self._why_not(place, trouble), hint=_hint(place, trouble))) from None

    def _join(self, made: socket.socket, place: str) -> None:
        """Connects; where many others do so at this moment Linux says EAGAIN, and does not wait."""
        while True:
            try:
                return made.connect(place)
            except BlockingIOError:
                if time.monotonic() > self._end:
                    raise TimeoutError from None
                time.sleep(0.01)

    def _why_not(self, place: str | tuple[str, int], trouble: OSError) -> str:
        if isinstance(trouble, TimeoutError):
            return f"{self.where}: no answer within {self.timeout_s:g} s"
        if isinstance(place, str) and not _is_socket(place) and os.path.lexists(place):
            return f"{self.where} is no socket"
        return f"{self.where}: {trouble.strerror or trouble}"

    def _greet(self) -> None:
        line = self._line("says nothing")
        match = GREETING.match(line)
        if match is None:
            raise self._strange(line)
        if match[1] != b"1":
            raise MezzoError(f"{self.where} speaks version {_shown(match[1])} of the protocol, not 1")

    def _ask(self, data: bytes) -> str:
        """Sends a command; the text of its answer, or ControlError."""
        self._end = time.monotonic() + self.timeout_s
        self._limit()
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise self._late("takes nothing") from None
        except OSError as trouble:
            # It may have said why before it closed.
            if not self._received:
                raise MezzoError(f"{self.where}: {trouble.strerror}") from None
        return self._answer()

    def _answer(self) -> str:
        lines: list[str] = []
        while True:
            line = self._line()
            if not line[:3].isdigit() or line[3:4] not in (b" ", b"-"):
                raise self._strange(line)
            if len(lines) < MOST_LINES:
                lines.append(line[4:].decode("utf-8", "replace"))
            if line[3:4] == b" ":
                break
            if time.monotonic() > self._end:
                raise self._late("does not end its answer")
        code = int(line[:3])
        if code >= 300:
            raise ControlError(code, "\n  ".join(lines))
        return "\n".join(lines)

    def _line(self, silence: str = "does not answer") -> bytes:
        while b"\n" not in self._received:
            if len(self._received) > LONGEST_LINE:
                raise self._strange(self._received)
            if not self._more(silence):
                raise self._ended()
        line, _, self._received = self._received.partition(b"\n")
        return line.rstrip(b"\r")

    def _take(self, count: int) -> bytes:
        parts, have = [self._received[:count]], min(len(self._received), count)
        self._received = self._received[count:]
        while have < count:
            if not self._more("stopped in the middle of an answer"):
                raise self._ended()
            part, self._received = self._received[: count - have], self._received[count - have :]
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _more(self, silence: str) -> bool:
        if time.monotonic() > self._end:
            raise self._late(silence)
        self._limit()
        try:
            data = self._socket.recv(PIECE)
        except TimeoutError:
            raise self._late(silence) from None
        except OSError as trouble:
            raise MezzoError(f"{self.where}: {trouble.strerror}") from None
        self._received += data
        return bool(data)

    def _limit(self) -> None:
        self._socket.settimeout(max(self._end - time.monotonic(), 0.001))

    def _late(self, silence: str) -> MezzoError:
        hint = "is it a control socket? `--timeout T` waits longer"
        return MezzoError(Diagnostic(f"{self.where} {silence} for {self.timeout_s:g} s", hint=hint))

    def _strange(self, line: bytes) -> MezzoError:
        hint = "give the address that a ControlSocket or -p of the router listens on"
        return MezzoError(Diagnostic(f"{self.where} is no control socket: it says `{_shown(line)}`", hint=hint))

    def _ended(self) -> MezzoError:
        what = f" after `{_shown(self._received)}`" if self._received else ""
        return MezzoError(f"{self.where}: the other end closed the connection{what}")

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _command(verb: bytes, handler: str, data: bytes) -> bytes:
    """The line that asks a handler; with data that no line can hold as it is, the data too."""
    name = encoded(handler)
    if not name or len(name.split()) != 1 or name != name.strip():
        raise MezzoError(f"`{handler}` is no handler: write ELEMENT.HANDLER, or the name of a global one")
    if not data:
        return b"%b %b\n" % (verb, name)
    if data != data.strip() or b"\n" in data or b"\r" in data or len(data) > LONGEST_LINE // 2:
        return b"%bDATA %b %d\n%b" % (verb, name, len(data), data)
    return b"%b %b %b\n" % (verb, name, data)


def _shown(data: bytes) -> str:
    text = data[:60].decode("latin-1")
    return "".join(c if c.isprintable() else "·" for c in text) + ("…" if len(data) > 60 else "")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _hint(place: str | tuple[str, int], trouble: OSError) -> str:
    if isinstance(place, str) and os.path.lexists(place) and not _is_socket(place):
        return ""
    if isinstance(trouble, ConnectionRefusedError | FileNotFoundError):
        return "run the router with " + (f"-u {place}" if isinstance(place, str) else f"-p {place[1]}")
    return "a socket of -u is its owner's alone" if isinstance(trouble, PermissionError) else ""


def ask_all(client: Client, paths: Sequence[str]) -> dict[str, bytes]:
    """What several handlers say; each is `EL.H` or `EL.H ARGUMENT`."""
    found: dict[str, bytes] = {}
    troubles: list[Diagnostic] = []
    code = 0
    for path in paths:
        name, _, argument = path.partition(" ")
        try:
            found[path] = client.read(name, encoded(argument))
        except ControlError as trouble:
            troubles += [Diagnostic(f"{path}: {d.message}") for d in trouble.diagnostics]
            code = code or trouble.code
    if troubles:
        raise ControlError(code, *troubles)
    return found
