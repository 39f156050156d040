"""Elements that print packets, in the forms that Click prints them in.

Lines go to the router's messages (stderr) or to OUTFILE.  Printing is ordinary Python: it costs microseconds a packet.
"""

from mezzo.elements import Arg, Bool, Element, Int, Kind, Packet, Port, Text, flag, python
from mezzo.elements.ip_lines import ip_line
from mezzo.wire.address import format_ether, format_ip

NONE, HEX, ASCII = 0, 1, 2
_ETHER_SIZE = 14


class _Contents(Kind):
    """What to print of a packet's bytes; true is HEX, false is NONE."""

    words = "NONE, HEX or ASCII"

    def parse(self, text, env):
        word = text.upper()
        if word in ("NONE", "HEX", "ASCII"):
            return ("NONE", "HEX", "ASCII").index(word)
        try:
            return HEX if Bool().parse(text, env) else NONE
        except ValueError:
            raise ValueError(f"expected {self.words}, not `{text}`") from None

    def show(self, value):
        return ("NONE", "HEX", "ASCII")[value]


def stamp(ns: int) -> str:
    """Seconds with six digits, or nine where they are needed."""
    seconds, rest = divmod(ns, 10**9)
    return f"{seconds}.{rest // 1000:06}" if rest % 1000 == 0 else f"{seconds}.{rest:09}"


def dump(data: bytes, contents: int, line: int = 1 << 30, start: str = "") -> str:
    """Bytes in hex by fours or as text by eights; `start` begins each line of so many bytes."""
    group = 4 if contents == HEX else 8
    line *= 1 if contents == HEX else 2
    rows = []
    for at in range(0, len(data), line):
        row = data[at : at + line]
        parts = [row[i : i + group] for i in range(0, len(row), group)]
        rows.append(start + " ".join(part.hex() if contents == HEX else _text(part) for part in parts))
    return "".join(rows)


def _text(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte <= 126 else "." for byte in data)


class _Printer(Element):
    """What all have in common: passing packets on, and a place to write to."""

    label = Arg(Text(), "", "text in front of each line")
    active = Arg(Bool(), True, "print at all", live=flag, positional=False)
    timestamp = Arg(Bool(), True, "print the packet's timestamp, in seconds since 1970", positional=False)
    outfile = Arg(Text(), "", "a file to write to instead of the messages", positional=False)
    file = None

    def initialize(self):
        if self.outfile:
            self.file = open(self.outfile, "w", encoding="utf-8")  # noqa: SIM115 - closed in cleanup

    def initialize_after(self, old):
        if old is None or old.outfile != self.outfile:
            self.initialize()

    def moved(self, old):
        if old is not self and old.outfile == self.outfile:
            self.file, old.file = old.file, None

    def cleanup(self):
        if self.file is not None:
            self.file.close()

    def process(self, p: Packet) -> Port:
        if self.active:
            self.show(p)
        return 0

    @python
    def show(self, p):
        line = self.line(p)
        if line is None:
            return
        line = self.head(p) + line
        if self.file is not None:
            self.file.write(line + "\n")
        else:
            self.say(line)

    def head(self, p):
        return (f"{self.label}: " if self.label else "") + (f"{stamp(p.timestamp)}: " if self.timestamp else "")

    def line(self, p):
        """What a printing class says of a packet."""
        raise NotImplementedError


class Print(_Printer):
    """Prints each packet: its length, and its first MAXLENGTH bytes in hex."""

    timestamp = Arg(Bool(), False, "print the packet's timestamp, in seconds since 1970", positional=False)
    maxlength = Arg(Int(), 24, "bytes to print; all if negative")
    contents = Arg(_Contents(), HEX, "NONE, HEX or ASCII", positional=False)
    printanno = Arg(Bool(), False, "print the annotation bytes in hex", positional=False)
    headroom = Arg(Bool(), False, "print head- and tailroom", positional=False)
    example = "InfiniteSource(DATA hello, LIMIT 1) -> p :: Print(in, CONTENTS ASCII) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "1", "p.active": "true"}
    see = ("IPPrint", "ARPPrint")

    def line(self, p):
        room = f"(h{p.headroom} t{p.tailroom}) " if self.headroom else ""
        anno = f" | {p.anno.hex()}" if self.printanno else ""
        data = bytes(p.data[: self.maxlength] if self.maxlength >= 0 else p.data)
        bytes_ = f" | {dump(data, self.contents)}" if self.contents else ""
        return f"{room}{p.length:4}{anno}{bytes_}"


class IPPrint(_Printer):
    """Prints IP packets, one line each, much as tcpdump does.

    Packets without a network header are passed on and not printed.
    """

    contents = Arg(_Contents(), NONE, "print the packet's bytes: NONE, HEX or ASCII", positional=False)
    payload = Arg(
        _Contents(), NONE, "print the bytes behind the transport header: NONE, HEX or ASCII", positional=False
    )
    maxlength = Arg(Int(), 1500, "bytes to print at most; all if negative", positional=False)
    id = Arg(Bool(), False, "print the IP ID", positional=False)
    ttl = Arg(Bool(), False, "print the time to live", positional=False)
    tos = Arg(Bool(), False, "print the type of service", positional=False)
    length = Arg(Bool(), False, "print the IP length", positional=False)
    paint = Arg(Bool(), False, "print the paint annotation", positional=False)
    aggregate = Arg(Bool(), False, "print the aggregate annotation", positional=False)
    swap = Arg(Bool(), True, "take ICMP ids and sequence numbers as big-endian", positional=False)
    example = """InfiniteSource(DATA \\<4500001c 00000000 40110000 0a000001 0a000002 00010002 00080000>, LIMIT 1)
  -> MarkIPHeader -> IPPrint(out) -> c :: Counter -> Discard;"""
    example_reads = {"c.count": "1"}
    see = ("Print", "ARPPrint", "CheckIPHeader")

    def configure(self):
        if self.contents and self.payload:
            self.error("give CONTENTS or PAYLOAD, not both")

    def line(self, p):
        net = p.mark("net")
        if net is None:
            return None
        marks = self.annotations(p)
        data = bytes(p.data)
        if net < 0 or len(data) - net < 20:
            return marks + "truncated-ip"
        ip = data[net:]
        payload = (p.mark("trans") or net + 4 * (ip[0] & 15)) - net
        return marks + self.fields(ip) + ip_line(ip, payload, len(data), self.swap) + self.content(data, ip, payload)

    def annotations(self, p):
        number = int.from_bytes(p.anno[20:24], "little")
        aggregate = f"#{number}" if self.aggregate else ""
        paint = ("." if self.aggregate else "paint ") + str(p.anno[16]) if self.paint else ""
        return f"{aggregate}{paint}: " if self.aggregate or self.paint else ""

    def fields(self, ip):
        wanted = (
            (self.id, "id", int.from_bytes(ip[4:6], "big")),
            (self.ttl, "ttl", ip[8]),
            (self.tos, "tos", ip[1]),
            (self.length, "length", int.from_bytes(ip[2:4], "big")),
        )
        return "".join(f"{name} {value} " for asked, name, value in wanted if asked)

    def content(self, data, ip, payload):
        if self.payload:
            first = int.from_bytes(ip[6:8], "big") & 0x1FFF == 0
            if first and ip[9] == 6 and len(ip) > payload + 12:
                payload += 4 * (ip[payload + 12] >> 4)
            elif first and ip[9] == 17:
                payload += 8
            data = ip[payload:]
        kept = data if self.maxlength < 0 else data[: self.maxlength]
        kind = self.payload or self.contents
        return dump(kept, kind, line=24, start="\n  ") if kind else ""


class ARPPrint(_Printer):
    """Prints ARP packets, one line each, as tcpdump does; the ARP header is where the network header is marked."""

    ether = Arg(Bool(), False, "print the Ethernet addresses", positional=False)
    example = """InfiniteSource(DATA \\<0001 0800 06 04 0001 000102030405 0a000001 000000000000 0a000002>, LIMIT 1)
  -> MarkIPHeader(0) -> ARPPrint -> c :: Counter -> Discard;"""
    example_reads = {"c.count": "1"}
    see = ("Print", "IPPrint")

    def line(self, p):
        net = p.mark("net")
        if net is None:
            return None
        data = bytes(p.data)
        return self.addresses(p, data, net) + arp_line(data[max(net, 0) :])

    def addresses(self, p, data, net):
        mac = p.mark("mac") or 0
        if not self.ether or mac < 0 or mac + _ETHER_SIZE > net or mac + _ETHER_SIZE > len(data):
            return ""
        dst, src = (_ether(data[at : at + 6]) for at in (mac, mac + 6))
        return f"{src} > {dst}: "


def _ether(data: bytes) -> str:
    # As Click prints Ethernet addresses: with dashes.
    return format_ether(int.from_bytes(data, "big")).replace(":", "-")


def arp_line(arp: bytes) -> str:
    """An ARP packet as tcpdump prints it."""
    if len(arp) < 8:
        return f"truncated-arp ({len(arp)})"
    hardware, protocol, operation = (int.from_bytes(arp[at : at + 2], "big") for at in (0, 2, 6))
    hlen, plen = arp[4], arp[5]
    if protocol not in (0x0800, 0x1000) or plen != 4 or hlen != 6:
        return f"arp-#{operation} for proto #{protocol} ({plen}) hardware #{hardware} ({hlen})"
    if len(arp) < 28:
        return f"truncated-arp ({len(arp)})"
    sha, spa, tha, tpa = _ether(arp[8:14]), _ip(arp[14:18]), _ether(arp[18:24]), _ip(arp[24:28])
    known = f" ({tha})" if any(arp[18:24]) else ""
    text = {
        1: f"arp who-has {tpa}{known} tell {spa}",
        2: f"arp reply {spa} is-at {sha}",
        3: f"rarp who-is {tha} tell {sha}",
        4: f"rarp reply {tha} at {tpa}",
        8: f"invarp who-is {tha} tell {sha}",
        9: f"invarp reply {tha} at {tpa}",
    }.get(operation, f"arp-#{operation}")
    return ("trailer-" if protocol == 0x1000 else "") + text + (f" hardware #{hardware}" if hardware != 1 else "")


def _ip(data: bytes) -> str:
    return format_ip(int.from_bytes(data, "big"))
