"""Commands of the control protocol out of a stream of bytes, without I/O.

A line ends with LF, CR or CRLF, and may come in any number of pieces, or many in one.  `…DATA handler n` is followed by
n bytes of any kind; `…UNTIL handler word` by lines up to one that is `word` (a blank one without it).  A CR that is the
last byte so far ends its line at once, since nothing may follow; an LF that then comes first belongs to it.

What a browser would send is known (HTTP), so that no page can post commands to a port of this machine.

What is too long is refused once and skipped to its end, so that the commands behind it are understood.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from mezzo.elements.units import parse_int

MOST_LINE = 64 << 10
MOST_DATA = 64 << 20
SYNTAX, TOO_BIG = 500, 521
SPACE = b" \t\r\n\v\f"
END = re.compile(rb"\r\n|\r|\n")
SAME = {"GET": "READ", "SET": "WRITE", "SETDATA": "WRITEDATA", "CLOSE": "QUIT"}
COUNTS = {  # verb -> least and most words, itself included; None: as many as there are
    "READ": (2, None),
    "WRITE": (2, None),
    "READDATA": (3, 3),
    "WRITEDATA": (3, 3),
    "READUNTIL": (2, None),
    "WRITEUNTIL": (2, None),
    "CHECKREAD": (2, 2),
    "CHECKWRITE": (2, 2),
    "LLRPC": (2, 3),
    "TOKEN": (2, 2),
}
HTTP = {"POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "CONNECT", "TRACE", "HOST:", "PRI"}
TLS = "\x16\x03"  # what https begins with; a page may choose bytes behind it
WRONG_COUNT = "Wrong number of arguments"


@dataclass(frozen=True, slots=True)
class Command:
    """What a client wants; with a code it is what the parser refuses, and `data` says why."""

    verb: str
    handler: bytes = b""
    data: bytes = b""
    code: int = 0


class Parser:
    """`feed` bytes, say `end` when no more come, and take commands with `line` and `command`."""

    def __init__(self, most_line: int = MOST_LINE, most_data: int = MOST_DATA) -> None:
        self.most_line, self.most_data = most_line, most_data
        self.ended = False
        self._buffer, self._at = b"", 0  # lines not read yet
        self._pending: Command | None = None  # what waits for its data
        self._got = bytearray()  # the data so far
        self._left = -1  # bytes of data that are to come; -1: it goes up to a line that is `_until`
        self._until, self._scanned, self._looked = (
            b"",
            0,
            0,
        )  # where the last line begins; no line ends before `_looked`
        self._skip = self._whole = False  # the data is not wanted; it is all there
        self._refused: list[Command] = []
        self._after_cr = False

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return len(self._buffer) - self._at + len(self._got)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing, and what comes now is the beginning of a line."""
        waits = self._pending is not None or self._refused or self._after_cr or self.ended
        return not waits and self._at == len(self._buffer)

    def feed(self, data: bytes) -> None:
        if self.ended:
            return
        if self._after_cr and data:
            data, self._after_cr = data.removeprefix(b"\n"), False
        if self._pending is None:
            self._buffer, self._at = self._buffer[self._at :] + data, 0
        else:
            self._collect(data)

    def end(self) -> None:
        """No more bytes come."""
        self.ended = True
        if self._pending is not None and self._left < 0 and not self._whole:
            self._whole = self._scan()

    def give_up(self) -> None:
        """The data that is being sent is too much: it is not kept."""
        if self._pending is not None and not self._skip:
            self._skip = True
            self._refused.append(Command("", code=TOO_BIG, data=b"The data is too big"))
            self._forget()

    # -- lines

    def line(self) -> bytes | None:
        """The next line without its end, if one is there and none waits for its data."""
        if self._pending is not None or self._refused:
            return None
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", at)
        line = buffer[at:end] if end >= 0 else buffer[at:]
        if b"\r" in line:
            cut = line.index(b"\r")
            if end < 0 or cut < len(line) - 1:
                end = at + cut
                self._after_cr = end + 1 == len(buffer)
            line = line[:cut]
        elif end < 0:
            return self._partial(line)
        self._at = end + 1
        if len(line) > self.most_line:
            self._too_long()
            return None
        return line

    def _partial(self, line: bytes) -> bytes | None:
        if self.ended and line:
            self._at = len(self._buffer)
            return line
        if len(line) > self.most_line:
            self._too_long()
        return None

    def _too_long(self) -> None:
        """Nothing tells where the next command begins."""
        self._buffer, self._at, self.ended = b"", 0, True
        self._refused += [Command("", code=SYNTAX, data=b"Line too long"), Command("hangup")]

    # -- commands

    def command(self, line: bytes | None) -> Command | None:
        """The command in a line (of `line`), or the one whose data has come; None: nothing yet, or nothing in it."""
        if self._refused:
            return self._refused.pop(0)
        if self._pending is not None:
            return self._complete()
        words = line.split(None, 2) if line else []
        if not words:
            return None
        verb = words[0].decode("latin-1").upper()
        return self._begin(SAME.get(verb, verb), words, line or b"")

    def _begin(self, verb: str, words: list[bytes], line: bytes) -> Command | None:
        if verb in HTTP or verb.startswith(TLS) or (verb == "READ" and line.rstrip()[-8:-3] == b"HTTP/"):
            return Command("http")
        least, most = COUNTS.get(verb, (1, None))
        count = len(line.split()) if most is not None else len(words)
        if count < least or (most is not None and count > most):
            return Command("", code=SYNTAX, data=WRONG_COUNT.encode())
        handler = words[1] if len(words) > 1 else b""
        rest = words[2].rstrip(SPACE) if len(words) > 2 else b""
        if verb in ("READDATA", "WRITEDATA") or (verb == "LLRPC" and rest):
            return self._wait(Command(verb.removesuffix("DATA"), handler), rest)
        if verb in ("READUNTIL", "WRITEUNTIL"):
            return self._wait(Command(verb.removesuffix("UNTIL"), handler), None, rest)
        return Command(verb, handler, rest)

    def _wait(self, command: Command, count: bytes | None, until: bytes = b"") -> Command | None:
        """Begins to collect the data of a command, from what is in the buffer already."""
        left = -1
        if count is not None:
            with suppress(ValueError):
                left = parse_int(count.decode("latin-1"))
            if left < 0:
                return Command("", code=SYNTAX, data=f"Syntax error in the length of {command.verb}".encode())
        self._pending, self._left, self._until = command, left, until
        self._got, self._scanned, self._looked, self._skip, self._whole = bytearray(), 0, 0, False, left == 0
        if left > self.most_data:
            self.give_up()
        rest, self._buffer, self._at = self._buffer[self._at :], b"", 0
        self._collect(rest)
        return self.command(None)

    def _collect(self, data: bytes) -> None:
        if self._whole:
            self._buffer, self._at = self._buffer[self._at :] + data, 0
        elif self._left < 0:
            self._got += data
            self._whole = self._scan()
            # What is not a whole line yet may be the word that ends the data, unless it is too long for one.
            sure = self._whole or len(self._got) - self._scanned > self.most_line
            if (len(self._got) if sure else self._scanned) > self.most_data:
                self.give_up()
        else:
            mine, more = data[: self._left], data[self._left :]
            self._left -= len(mine)
            self._whole = self._left == 0
            self._got += b"" if self._skip else mine
            self._buffer = more

    def _complete(self) -> Command | None:
        """The pending command, when its data is whole."""
        if not self._whole and not self.ended:
            return None
        command, self._pending = self._pending, None
        data, self._got = bytes(self._got), bytearray()
        assert command is not None
        if self._skip:
            return Command("")
        if not self._whole:
            return Command("", code=SYNTAX, data=b"Not enough data")
        return Command(command.verb, command.handler, data)

    def _scan(self) -> bool:
        """Whether the line that ends the data is there; then `_got` is what was in front of it."""
        got = self._got
        while (found := END.search(got, self._looked)) is not None:
            is_it = got[self._scanned : found.start()].rstrip(SPACE) == self._until
            at_the_end = found.end() == len(got) and found.group() == b"\r"
            if is_it:
                self._after_cr = at_the_end
                self._buffer, self._at = bytes(got[found.end() :]), 0
                del got[self._scanned :]
                return True
            if at_the_end and not self.ended:
                self._looked = found.start()
                return False  # an LF may belong to it
            self._scanned = self._looked = found.end()
        self._looked = len(got)
        if self._skip:
            self._forget()
        return False

    def _forget(self) -> None:
        """Of data that is skipped only the line that is not whole yet counts, and none so long."""
        del self._got[: self._scanned]
        del self._got[self.most_line + 1 :]
        self._scanned, self._looked = 0, max(len(self._got) - 1, 0)  # a CR may be the last
