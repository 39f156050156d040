"""ControlSocket: programs outside ask and tell handlers, in Click's protocol.

The element says where and who may do what; `router.control` opens and serves (docs/design/0004).
"""

import re

from mezzo.base import MezzoError
from mezzo.elements.args import REQUIRED, Arg, Bool, Int, Raw, Text, Word
from mezzo.elements.control_address import Opening, descriptor, tcp, unix
from mezzo.elements.element import ConfigError, Element, Handler

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{8,200}")  # nothing that quotes could hide when the configuration is shown
PLACES = {"TCP": "port", "UNIX": "filename", "SOCKET": "fd"}  # the word that says where


class ControlSocket(Element):
    """Lets other programs read and write handlers, by Click's protocol Click::ControlSocket/1.3.

    `ControlSocket(TCP, 7777)` listens on port 7777 of this machine (`7777+`: or the next one that is free; 0: any, see
    the handler `port`), `ControlSocket(UNIX, /run/router.sock)` on a socket's file that is its owner's alone, and
    `ControlSocket(SOCKET, 5)` serves descriptor 5, a connection or a socket that listens.

    Commands: READ, READDATA, READUNTIL, WRITE, WRITEDATA, WRITEUNTIL, CHECKREAD, CHECKWRITE, TOKEN, HELP, QUIT.  With
    LOCALHOST false other machines may connect; that needs READONLY or a TOKEN.  A client shows the token with
    `TOKEN word`, or `mezzo read --token word`; before that it may do nothing, or with READONLY true only read.

    At most 1024 clients at once; a line has at most 64 KiB, the data of a command 64 MiB.  Who does not take his
    answers is not read from, and dropped after 30 s.  A router with a ControlSocket runs until it is stopped.
    """

    ports, processing, flow = "0/0", "", ""
    type = Arg(Word("TCP", "UNIX", "SOCKET"), REQUIRED, "what kind of socket")
    place = Arg(Text(), "", "the port, the name of the file, or the descriptor", keyword="PLACE")
    port = Arg(Text(), "", "the same, by name", positional=False)
    filename = Arg(Text(), "", "the same, by name", positional=False)
    fd = Arg(Text(), "", "the same, by name", positional=False)
    readonly = Arg(Bool(), False, "nothing may be written", positional=False)
    proxy = Arg(Text(), "", "an element: E.H is its handler `E.H`", positional=False)
    verbose = Arg(Bool(), False, "say when clients come and go", positional=False)
    localhost = Arg(Bool(), True, "only this machine may connect by TCP", positional=False)
    retries = Arg(
        Int(0, 1_000_000), 0, "try again so many times, once a second, where the address is taken", positional=False
    )
    retry_warnings = Arg(Bool(), True, "say each time that it is taken", positional=False)
    token = Arg(Raw(), "", "a word of 8 to 200 letters, digits and ._~+/=- that clients show", positional=False)
    example = "ControlSocket(TCP, 7777+); InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5"}
    see = ("Script",)

    def configure(self):
        name = PLACES[self.type]
        given = [text for text in (self.place, self.args[name]) if text]
        wrong = [n.upper() for n in PLACES.values() if n != name and self.args[n]]
        if len(given) != 1 or wrong:
            what = f"{wrong[0]} says nothing about a {self.type} socket; " if wrong else ""
            raise ConfigError(f"{what}write ControlSocket({self.type}, {name.upper()})")
        if self.token and not TOKEN.fullmatch(self.token):
            raise ConfigError("TOKEN is a word of 8 to 200 letters, digits and ._~+/=-, without quotes")
        if not self.localhost and not (self.token or self.readonly):
            raise ConfigError(
                "with LOCALHOST false every machine could write handlers; add READONLY true or TOKEN word"
            )
        self.opening = Opening(
            self.address_of(given[0]),
            self.name,
            self.readonly,
            self.token,
            (self.proxy, self.env.scope + self.proxy) if self.proxy else (),
            self.verbose,
            self.retries,
            self.retry_warnings,
        )

    def address_of(self, text):
        if self.type == "TCP":
            return tcp(text, everywhere=not self.localhost)
        return unix(text) if self.type == "UNIX" else descriptor(text)

    def initialize(self):
        if self.proxy and not any(name in self.router.elements for name in self.opening.proxy):
            raise ConfigError(f"PROXY {self.proxy}: there is no such element")
        self.open()

    def open(self):
        try:
            self.router.control.open(self.opening)
        except MezzoError as trouble:
            raise ConfigError(str(trouble)) from None

    def cleanup(self):
        self.router.control.shut(self.opening)

    # -- another configuration

    def initialize_after(self, old):
        """Where the address is the same the socket stays open, with its clients."""
        if old is None or old.opening.asked != self.opening.asked:
            self.open()  # its proxy may come with it

    def moved(self, old):
        if old is not self and old.opening.asked == self.opening.asked:
            self.router.control.pass_on(old.opening, self.opening)


def _where(element, text):
    address = element.opening.address
    return address.path if address.kind == "UNIX" else address.port if address.kind == "TCP" else address.fd


ControlSocket.handler_table["port"] = Handler("port", read=_where, doc="of TCP: the port it listens on")
ControlSocket.handler_table["filename"] = Handler("filename", read=_where, doc="of UNIX: the name of its file")
