"""A router that runs in a thread, and clients that talk to its control socket."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from mezzo.runtime import Router

GREETING = b"Click::ControlSocket/1.3\r\n"


class Talker:
    """A client; `ask` sends a command and gives the code and the data, or the messages where there is none."""

    def __init__(self, where: str | int | socket.socket) -> None:
        if isinstance(where, socket.socket):
            self.socket = where
        elif isinstance(where, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(where)
        else:
            self.socket = socket.create_connection(("127.0.0.1", where))
        self.socket.settimeout(10)
        self.file = self.socket.makefile("rb")

    def greet(self) -> Talker:
        assert self.file.readline() == GREETING
        return self

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, bytes]:
        lines = []
        while True:
            line = self.file.readline()
            assert line.endswith(b"\r\n"), f"the connection ended: {line!r}"
            lines.append(line[4:-2])
            if line[3:4] == b" ":
                break
        code = int(line[:3])
        if code == 200 and line[4:].startswith(b"Read handler") and not self.checking:
            count = int(self.file.readline().removeprefix(b"DATA "))
            return code, self.file.read(count)
        return code, b"\n".join(lines)

    checking = False

    def ask(self, command: str | bytes, end: bytes = b"\n") -> tuple[int, bytes]:
        data = command.encode() if isinstance(command, str) else command
        self.checking = data.upper().startswith(b"CHECK")
        self.send(data + end)
        return self.answer()

    def rest(self) -> bytes:
        """All up to the end of the connection."""
        return self.file.read()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> Talker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@contextlib.contextmanager
def running(text: str, **options: Any) -> Iterator[Router]:
    """The router, while a thread of its own runs it."""
    with Router.from_click(text, **options) as router:
        ended: list[Any] = []

        def work() -> None:
            try:
                ended.append(router.run())
            except BaseException as trouble:
                ended.append(trouble)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield router
        finally:
            router.please_stop()
            thread.join(20)
            assert not thread.is_alive() and ended == ["stopped"], ended


@contextlib.contextmanager
def talking(router: Router, name: str = "k") -> Iterator[Talker]:
    """A client of the ControlSocket `name`, greeted."""
    element = router.elements[name]
    address = element.opening.address
    with Talker(address.path if address.kind == "UNIX" else address.port) as talker:
        yield talker.greet()
