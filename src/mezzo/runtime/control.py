"""The control sockets of a router: `router.control`.

Sockets are opened while the router starts, so that trouble has a place, and served when it has started: what a client
sends before that waits in the kernel.  A router with one is never done, for somebody may yet ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.elements.control_address import Opening

if TYPE_CHECKING:
    from mezzo.runtime.chatter import Chatter
    from mezzo.runtime.control_server import Door, Server
    from mezzo.runtime.router import Router

RETRY_S = 1.0


class Control:
    """Opens, serves and closes.  The server, and with it the socket module, comes with the first one."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.openings: list[Opening] = []
        self._doors: dict[Opening, Door] = {}
        self._server: Server | None = None
        self._chatters: list[Chatter] = []
        self._started = False

    def open(self, opening: Opening) -> Opening:
        """Opens it, or tries again later where it may; MezzoError says why not.

        Where it is stands in `opening.address` then: port 0 has become one that was free.
        """
        if not self._try(opening):
            assert self._server is not None
            self._server.later(RETRY_S, lambda: self._again(opening))
        self.openings.append(opening)
        self.router.awaited.add(opening.name)
        return opening

    def _try(self, opening: Opening) -> bool:
        """Opens and serves; False where it is to be tried again."""
        # Sockets take 5 ms to import, and most routers have none.
        from mezzo.runtime.control_open import file_of, is_listening, open_socket
        from mezzo.runtime.control_server import Door, Server
        from mezzo.runtime.control_session import Answers, Rights

        if self._server is None:
            self._server = Server(self.router)
            if self._started:
                self._server.start()
        try:
            made, opening.address = open_socket(opening.address)
        except OSError as trouble:
            return self._failed(opening, trouble.strerror or str(trouble))
        opening.open, opening.file = True, file_of(opening.address) if opening.address.kind == "UNIX" else None
        rights = Rights(opening.readonly, opening.token)
        answers = Answers(self.router, bool(opening.proxy))
        door = self._doors[opening] = Door(made, opening.name, rights, opening.proxy, opening.verbose, answers)
        if is_listening(made):
            self._server.listen(door)
        else:
            self._server.welcome(made, door)
        return True

    def _failed(self, opening: Opening, why: str) -> bool:
        if opening.retries <= 0:
            raise MezzoError(f"cannot listen on {opening.address}: {why}")
        if opening.retry_warnings:
            left = f"{opening.retries} {'try' if opening.retries == 1 else 'tries'} left"
            self.router.say(f"{opening.name}: {opening.address}: {why} ({left})")
        opening.retries -= 1
        return False

    def _again(self, opening: Opening) -> None:
        """A second later, on the server's thread.  When the last try fails the router stops, as Click's does."""
        if self._server is None or opening not in self.openings:
            return
        try:
            if not self._try(opening):
                self._server.later(RETRY_S, lambda: self._again(opening))
        except MezzoError as trouble:
            self.router.failures.append(f"{opening.name}: {trouble}")
            self.router.say(f"{opening.name}: {trouble}")
            self.router.please_stop()

    def tell(self, opening: Opening, greeting: bool) -> None:
        """Opens a socket on which what the router says can be heard; MezzoError says why not."""
        from mezzo.runtime.chatter import Chatter

        self._chatters.append(Chatter(self.router, opening, greeting))

    def start(self) -> None:
        """The router has started: from now on clients are answered."""
        self._started = True
        if self._server is not None:
            self._server.start()

    # -- another configuration

    def pass_on(self, old: Opening, new: Opening) -> None:
        """The socket of `old` is `new`'s from now on, and so are its clients: other rights, another proxy."""
        from mezzo.runtime.control_session import Rights

        server, door = self._server, self._doors.pop(old, None)
        if server is None or door is None:
            return
        self.openings[self.openings.index(old)] = new
        new.address, new.file, new.open = old.address, old.file, old.open
        self._doors[new] = door
        rights = Rights(new.readonly, new.token)
        server.do(lambda: server.change(door, new.name, rights, new.proxy, new.verbose))

    def shut(self, opening: Opening) -> None:
        """Listens there no more; clients that came in by it are told what they still wait for, then they go."""
        if opening not in self.openings:
            return
        self.openings.remove(opening)
        if all(other.name != opening.name for other in self.openings):
            self.router.awaited.discard(opening.name)
        server, door = self._server, self._doors.pop(opening, None)
        if server is None or door is None:
            return
        from mezzo.runtime.control_open import remove_file

        remove_file(opening.address, opening.file)
        server.do(lambda: server.shut(door))

    # -- the end

    def close(self) -> None:
        while self._chatters:
            self._chatters.pop().close()
        server, self._server = self._server, None
        if server is None:
            return
        from mezzo.runtime.control_open import remove_file

        for opening in self.openings:
            remove_file(opening.address, opening.file)
        server.close()
        self.openings.clear()
        self._doors.clear()

    def facts(self) -> dict[str, Any]:
        """Where it listens, and how many clients there are."""
        clients = len(self._server.clients) if self._server is not None else 0
        return {"addresses": [str(o.address) for o in self.openings if o.open], "clients": clients}
