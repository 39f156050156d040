"""What one client of the control protocol is answered: Click::ControlSocket/1.3, without I/O.

A command gives one message or several, `200 text` or `200-text` and then `200 text`; a read gives `DATA n` and n bytes
too.
Codes: 200 fine, 220 fine with warnings, 500 syntax, 501 no such command, 510 no such element, 511 no such handler,
520 the handler refused, 521 too much data, 530 not allowed, 540 the router is gone, 590 a read handler's trouble.

Inside, texts of handlers are str; outside they are bytes, UTF-8 where they can be: any bytes come through whole.

What takes long and needs rest only for a moment (a reload) is done aside, by a thread of its own; its client waits for
the answer, and nobody else does.

A plain read (see asking) by the usual line is answered from `Answers`: a closure per line, over the word itself.
"""

from __future__ import annotations

import hmac
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.runtime.control_parse import SYNTAX, Command, Parser
from mezzo.runtime.handlers import CHANGES, HandlerError

if TYPE_CHECKING:
    from mezzo.elements.element import Element, Handler
    from mezzo.runtime.router import Router

GREETING = b"Click::ControlSocket/1.3\r\n"
OK, WARNINGS, UNIMPLEMENTED, NO_ELEMENT, NO_HANDLER, REFUSED = 200, 220, 501, 510, 511, 520
DENIED, NO_ROUTER, UNSPECIFIED = 530, 540, 590
MOST_ANSWERS, LONGEST = 4096, 200  # lines that are remembered, and their bytes
ENOUGH, SLICE_S = 1 << 20, 0.001  # bytes of data, and time, after which a turn is over
MOST_SHOWN, MOST_TOLD = 2000, 200  # characters and lines of a message: it may quote all that a handler was given
FREE = {"QUIT", "HELP", "TOKEN", "http", "hangup"}  # commands that need no right
HELP = (
    "Commands:",
    "READ handler [text]        the value of a read handler, as DATA",
    "READDATA handler n         the same; its argument are the n bytes that follow",
    "READUNTIL handler [word]   the same; its argument are the lines up to one that is the word",
    "WRITE handler [text]       gives a write handler the text",
    "WRITEDATA handler n        gives it the n bytes that follow",
    "WRITEUNTIL handler [word]  gives it the lines up to one that is the word",
    "CHECKREAD handler          whether the handler can be read",
    "CHECKWRITE handler         whether it can be written",
    "LLRPC element#number [n]   refused: no element has any",
    "TOKEN word                 shows the word that this socket asks for",
    "QUIT                       closes the connection",
)


@dataclass(frozen=True, slots=True)
class Rights:
    """Who may do what on a socket.  Without a token everybody is trusted; READONLY is then for everybody."""

    readonly: bool = False
    token: str = ""

    def reads(self, trusted: bool) -> bool:
        return trusted or self.readonly or not self.token

    def writes(self, trusted: bool) -> bool:
        return (trusted and bool(self.token)) or not (self.readonly or self.token)


def to_bytes(value: Any) -> bytes:
    """A handler's value as it is sent."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "replace")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def global_path(name: str) -> str:
    """`.x` and `0.x` are other ways to write the global `x`."""
    return name.partition(".")[2] if name.startswith((".", "0.")) else name


def printable(text: str) -> str:
    """A message is one line: what would end it, or is no text, is written out."""
    text = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or 0xDC80 <= ord(c) <= 0xDCFF else f"\\x{ord(c):02x}" for c in text)


class Answers:
    """Quick answers of one socket, by line; forgotten when the router's elements change."""

    def __init__(self, router: Router, proxied: bool) -> None:
        self.router, self.proxied = router, proxied
        self.known: dict[bytes, Callable[[], bytes]] = {}
        self._of = router.handlers.kept  # which is another one for other elements

    def fresh(self) -> dict[bytes, Callable[[], bytes]]:
        if self._of is not self.router.handlers.kept:
            self._of, self.known = self.router.handlers.kept, {}
        return self.known

    def learn(self, line: bytes, path: str) -> None:
        """Remembers the answer to a line that reads `path`, if that is a plain read."""
        if self.proxied or len(self.known) >= MOST_ANSWERS or len(line) > LONGEST:
            return
        try:
            hidden = self.router.handlers.find(path)[1].private
            plain = self.router.handlers.plain(path)
        except HandlerError:
            return
        if plain is not None and not hidden:
            self.known[line] = _answer(plain, path)


def _answer(plain: Callable[[], str], path: str) -> Callable[[], bytes]:
    head = f"200 Read handler '{path}' OK\r\nDATA "

    def answer() -> bytes:
        text = plain()
        return f"{head}{len(text)}\r\n{text}".encode()

    return answer


class Session:
    """One client.  `parser` is fed from outside; `turn` gives what to send."""

    def __init__(
        self, router: Router, rights: Rights, proxy: Sequence[str] = (), answers: Answers | None = None
    ) -> None:
        self.router, self.rights, self.proxy = router, rights, proxy
        self.parser = Parser()
        self.answers = answers or Answers(router, bool(proxy))
        self.trusted = self.hang_up = self.busy = False
        self.aside: Callable[[Callable[[], None]], None] = lambda job: job()  # has a job done by another thread
        self._out: list[bytes] = []
        self._size = 0  # bytes of data in it

    @property
    def quiet(self) -> bool:
        """Whether it still has to show its token before it may do anything."""
        return bool(self.rights.token) and not self.trusted and not self.rights.readonly

    def change(self, rights: Rights, proxy: Sequence[str], answers: Answers, same_token: bool) -> None:
        """Another configuration says otherwise who may do what."""
        self.rights, self.proxy, self.answers = rights, proxy, answers
        self.trusted = self.trusted and same_token

    def at_once(self, data: bytes) -> bytes:
        """The answer to a line that is known, where it is all that came and nothing waits; else none."""
        if not (self.rights.reads(self.trusted) and self.parser.is_idle) or self.busy or self.hang_up:
            return b""
        quick = self.answers.fresh().get(data[:-1]) if data.endswith(b"\n") else None
        return quick() if quick is not None else b""

    def turn(self, most: int) -> tuple[bytes, bool]:
        """Answers up to `most` commands, fewer where that is much data or work; says whether there may be more."""
        if self.busy:
            return b"", False
        end = time.monotonic() + SLICE_S
        out, parser, known = self._out, self.parser, self.answers.fresh()
        if not self.rights.reads(self.trusted):
            known = {}
        for _ in range(most):
            if self.hang_up or self.busy:
                break
            line = parser.line()
            if line is not None:
                quick = known.get(line)
                if quick is not None:
                    out.append(quick())
                    continue
            command = parser.command(line)
            if command is not None:
                self._answer(command, line)
                if not self.busy and (self._size >= ENOUGH or time.monotonic() > end):
                    return self._take(), True
            elif line is None:
                break
        else:
            return self._take(), True
        return self._take() if not self.busy else b"", False

    def _take(self) -> bytes:
        data, self._out, self._size = b"".join(self._out), [], 0
        return data

    # -- messages

    def _say(self, code: int, *texts: str) -> None:
        for text in texts[:-1]:
            self._out.append(self._hide(f"{code}-{printable(text)}\r\n".encode("utf-8", "surrogateescape")))
        self._out.append(self._hide(f"{code} {printable(texts[-1])}\r\n".encode("utf-8", "surrogateescape")))

    def _trouble(self, code: int, head: str, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > MOST_TOLD:
            lines = [*lines[:MOST_TOLD], f"{len(lines) - MOST_TOLD} more lines are not shown"]
        self._say(code, *([f"{head}:", *lines] if lines else [head]))

    def _hide(self, data: bytes) -> bytes:
        """Tokens, of this socket or another, are in the configuration: who may only read it finds stars there."""
        if self.rights.writes(self.trusted):
            return data
        for token in {self.rights.token, *(opening.token for opening in self.router.control.openings)}:
            data = data.replace(token.encode(), b"*" * len(token)) if token else data
        return data

    # -- commands

    def _answer(self, command: Command, line: bytes | None) -> None:
        if command.code:
            return self._say(command.code, to_text(command.data))
        if not command.verb:
            return None
        if command.verb not in FREE and not self.rights.reads(self.trusted):
            return self._say(DENIED, "Permission denied: show the token first (TOKEN word)")
        do = COMMANDS.get(command.verb)
        if do is None:
            return self._say(UNIMPLEMENTED, f"Command '{command.verb[:40]}' unimplemented")
        do(self, command)
        if command.verb == "READ" and line is not None and not command.data:
            self.answers.learn(line, to_text(command.handler))
        return None

    def _find(self, name: str) -> tuple[Element | None, Handler]:
        """What a client may know of; private handlers are not there."""
        path = global_path(name)
        if self.proxy:
            path = f"{next((p for p in self.proxy if p in self.router.elements), self.proxy[0])}.{path}"
        if self.router.closed:
            raise HandlerError(NO_ROUTER, "No router installed")
        element, handler = self.router.handlers.find(path)
        if handler.private:
            raise HandlerError(NO_HANDLER, f"there is no handler `{name}`")
        return element, handler

    def _job(self, job: Callable[[], None], code: int, head: str) -> None:
        """Does something, and says what was wrong."""
        try:
            job()
        except HandlerError as trouble:
            if trouble.code in (REFUSED, UNSPECIFIED):
                self._trouble(code, head, str(trouble))
            else:
                self._trouble(trouble.code, str(trouble).partition("\n")[0] or head, "")
        except (MezzoError, ValueError, OSError) as trouble:
            gone = self.router.closed
            self._trouble(NO_ROUTER if gone else code, "No router installed" if gone else head, str(trouble))
        except Exception as trouble:  # a bug of a handler's must not end the router that serves others
            self.router.say(f"{head}:\n{traceback.format_exc()}")
            self._trouble(UNSPECIFIED, head, f"{type(trouble).__name__}: {trouble}")

    def _at_rest(self, job: Callable[[], None], needed: bool) -> None:
        """What is not there, or not allowed, was said before: only what must stop the packets does."""
        self.router.at_rest(job) if needed else job()

    def _do_read(self, command: Command) -> None:
        name, argument = to_text(command.handler), to_text(command.data)

        def job() -> None:
            element, handler = self._find(name)
            if handler.read is None:
                return self._say(DENIED, f"Handler '{name}' write-only")
            return self._at_rest(read, self.router.handlers.needs_rest(element, handler))

        def read() -> None:
            element, handler = self._find(name)  # it may be another one by now
            assert handler.read is not None
            value = self._hide(to_bytes(handler.read(element if element is not None else self.router, argument)))
            self._say(OK, f"Read handler '{name}' OK")
            self._out += (b"DATA %d\r\n" % len(value), value)
            self._size += len(value)

        self._job(job, UNSPECIFIED, f"Read handler '{name}' error")

    def _do_write(self, command: Command) -> None:
        name, text = to_text(command.handler), to_text(command.data)
        aside = not self.proxy and global_path(name) in CHANGES

        def job() -> None:
            _, handler = self._find(name)
            if handler.write is None:
                return self._say(DENIED, f"Handler '{name}' read-only")
            if not self.rights.writes(self.trusted):
                return self._say(DENIED, f"Permission denied for '{name}'")
            return self._at_rest(write, not aside)

        def write() -> None:
            element, handler = self._find(name)
            assert handler.write is not None
            before = len(element.warnings) if element is not None else 0
            handler.write(element if element is not None else self.router, text)
            warned = element.warnings[before:] if element is not None else []
            if not warned:
                return self._say(OK, f"Write handler '{name}' OK")
            return self._trouble(WARNINGS, f"Write handler '{name}' OK with warnings", "\n".join(warned))

        head = f"Write handler '{name}' error"
        if not aside:
            return self._job(job, REFUSED, head)

        def work() -> None:
            try:
                self._job(job, REFUSED, head)
            finally:
                self.busy = False

        self.busy = True
        return self.aside(work)

    def _do_checkread(self, command: Command) -> None:
        self._check(to_text(command.handler), "Read", "readable")

    def _do_checkwrite(self, command: Command) -> None:
        self._check(to_text(command.handler), "Write", "writable")

    def _check(self, name: str, word: str, able: str) -> None:
        def job() -> None:
            _, handler = self._find(name)
            if (handler.read if word == "Read" else handler.write) is None:
                return self._say(NO_HANDLER, f"Handler '{name}' not {able}")
            if word == "Write" and not self.rights.writes(self.trusted):
                return self._say(DENIED, f"Permission denied for '{name}'")
            return self._say(OK, f"{word} handler '{name}' OK")

        self._job(job, NO_HANDLER, f"No {word.lower()} handler named '{name}'")

    def _do_llrpc(self, command: Command) -> None:
        name = to_text(command.handler)
        element, _, number = name.partition("#")
        try:
            int(number, 16)
        except ValueError:
            return self._say(SYNTAX, f"Syntax error in LLRPC name '{name}'")

        def job() -> None:
            self._find(f"{element}.name")
            self._say(UNIMPLEMENTED, f"Cannot call LLRPC '{name}': no element has any")

        return self._job(job, UNSPECIFIED, f"LLRPC '{name}' error")

    def _do_token(self, command: Command) -> None:
        token = self.rights.token
        if not token:
            return self._say(OK, "No token is asked for")
        if hmac.compare_digest(command.handler, token.encode()):
            self.trusted = True
            return self._say(OK, "Welcome")
        self.hang_up = True
        return self._say(DENIED, "That is not the token")

    def _do_help(self, command: Command) -> None:
        self._say(OK, *HELP)

    def _do_quit(self, command: Command) -> None:
        self._say(OK, "Goodbye!")
        self.hang_up = True

    def _do_http(self, command: Command) -> None:
        self._say(UNIMPLEMENTED, "This is no web server")
        self.hang_up = True

    def _do_hangup(self, command: Command) -> None:
        self.hang_up = True


COMMANDS: dict[str, Callable[[Session, Command], None]] = {
    "READ": Session._do_read,
    "WRITE": Session._do_write,
    "CHECKREAD": Session._do_checkread,
    "CHECKWRITE": Session._do_checkwrite,
    "LLRPC": Session._do_llrpc,
    "TOKEN": Session._do_token,
    "HELP": Session._do_help,
    "QUIT": Session._do_quit,
    "http": Session._do_http,
    "hangup": Session._do_hangup,
}
