"""ChatterSocket: what the router says goes to a socket, too; `router.control` opens and serves it."""

from mezzo.base import MezzoError
from mezzo.elements.args import REQUIRED, Arg, Bool, Int, Text, Word
from mezzo.elements.control_address import Opening, tcp, unix
from mezzo.elements.element import ConfigError, Element, Handler


class ChatterSocket(Element):
    """Tells whoever connects what the router says on standard error from then on.

    `ChatterSocket(TCP, 7778)` listens on port 7778 of this machine (`7778+`: or the next one that is free; 0: any, see
    the handler `port`), `ChatterSocket(UNIX, /run/chatter.sock)` on a socket's file that is its owner's alone.  It
    greets with `Click::ChatterSocket/1.0`.  Print, Message, and the troubles of scripts are what is heard.

    At most 256 listeners at once.  Who falls 500000 bytes behind is dropped; nobody is waited for.
    """

    ports, processing, flow = "0/0", "", ""
    type = Arg(Word("TCP", "UNIX"), REQUIRED, "what kind of socket")
    place = Arg(Text(), REQUIRED, "the port, or the name of the file")
    greeting = Arg(Bool(), True, "send the greeting", positional=False)
    localhost = Arg(Bool(), True, "only this machine may connect by TCP", positional=False)
    retries = Arg(
        Int(0, 1_000_000), 0, "try again so many times, once a second, where the address is taken", positional=False
    )
    retry_warnings = Arg(Bool(), True, "say each time that it is taken", positional=False)
    example = "ChatterSocket(TCP, 7778+); InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5"}
    see = ("ControlSocket", "Print", "Message")

    def configure(self):
        address = tcp(self.place, everywhere=not self.localhost) if self.type == "TCP" else unix(self.place)
        self.opening = Opening(address, self.name, retries=self.retries, retry_warnings=self.retry_warnings)

    def initialize(self):
        try:
            self.router.control.tell(self.opening, self.greeting)
        except MezzoError as trouble:
            raise ConfigError(str(trouble)) from None


ChatterSocket.handler_table["port"] = Handler(
    "port", read=lambda element, text: element.opening.address.port, doc="of TCP: the port it listens on"
)
