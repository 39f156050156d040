"""`MTU 9000`: the interface has that MTU while the router runs, and its own again afterwards (`privileged`)."""

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import Arg, Element, Int
from mezzo.ports import privileged
from mezzo.ports.port import Port

LEAST, LARGEST = 68, 65535  # RFC 791: every link takes 68 bytes; no IPv4 packet is longer than the other


class _WithMtu(Element):
    """For the ends of an interface to inherit."""

    mtu = Arg(Int(LEAST, LARGEST), 0, "the interface's MTU while the router runs; 0 leaves it", positional=False)


def set_mtu(port: Port) -> None:
    """What a port does first when it opens: its buffers are made for the MTU that the interface has then."""
    given = [end for end in port.ends if end.mtu]
    if not given:
        return
    other = next((end for end in given if end.mtu != given[0].mtu), None)
    if other is not None:
        what = f"`{given[0].name}` and `{other.name}` open {port.device} with MTU {given[0].mtu} and {other.mtu}"
        raise MezzoError(Diagnostic(what, other.place, hint="say the same at both"))
    _, facts = privileged.ask({"do": "link", "device": port.device, "mtu": given[0].mtu})
    port.defer("putting the MTU back", lambda: port.troubles.extend(privileged.undo(facts["undo"])))
