"""Names for addresses and ports, defined in the configuration."""

from mezzo.elements import Element, Raw, Rest
from mezzo.elements.confparse import split_words, unquote
from mezzo.elements.units import parse_int
from mezzo.wire.address import mask_of, parse_ether, parse_ip, parse_ip6, parse_prefix, parse_prefix6


class _Names(Element):
    """What both have in common: `NAME VALUE...` arguments, and one place per name and kind."""

    ports, processing, flow = "0/0", "a/a", ""
    configure_first = True
    names = Rest(Raw(), "NAME VALUE...")

    def configure(self):
        for text in self.names:
            words = [unquote(word) for word in split_words(text)]
            if len(words) < 2:
                self.error(f"expected a name and what it stands for, not `{text}`", text)
                continue
            for word in words[1:]:
                try:
                    self.define(words[0], word)
                except ValueError as trouble:
                    self.error(str(trouble), text)

    def define(self, name, word):
        """Enters what the word stands for: each class's own.  ValueError says that it stands for nothing."""
        raise NotImplementedError

    def put(self, kind, name, value, replace=True):
        """Enters a name; of two values in one place the later one counts, with a warning."""
        known = self.env.names.setdefault(kind, {})
        full = self.env.scope + name
        if replace and known.get(full, value) != value:
            self.warn(f"`{name}` has two different values as {kind}; the later one counts")
        if replace or full not in known:
            known[full] = value


class AddressInfo(_Names):
    """Gives names to addresses: AddressInfo(NAME ADDRESS..., ...).

    A name may stand for an IPv4 address, a prefix, an IPv6 address or prefix, and an Ethernet address at once; where
    it is used decides which is meant, or a suffix: `NAME:ip`, `NAME:ipnet`, `NAME:ip6`, `NAME:ip6net`, `NAME:eth`.
    `18.26.4.9/24` names the host 18.26.4.9 and the network 18.26.4.0/24.  Names made inside a compound element are
    known there only.  Names of this machine's interfaces stand for their own addresses where nothing else has the name.
    """

    names = Rest(Raw(), "NAME ADDRESS...: IPv4, IPv6 and Ethernet addresses and prefixes")
    example = """AddressInfo(server 10.0.0.1/24 00:01:02:03:04:05);
InfiniteSource(LIMIT 2) -> SetIPAddress(server) -> EtherEncap(0x0800, server, server) -> c :: Counter -> Discard;"""
    example_reads = {"c.count": "2"}
    see = ("PortInfo",)

    def define(self, name, word):
        for kind, parse in _PARSERS:
            try:
                value = parse(word)
            except ValueError:
                continue
            self.put(kind, name, value)
            self.put_host(kind, name, value)
            return
        raise ValueError(
            f"`{word}` is no address; write one such as 10.0.0.1, 10.0.0.0/8, 2001:db8::1 or 00:01:02:03:04:05"
        )

    def put_host(self, kind, name, value):
        """A prefix with bits beyond its length names a host as well."""
        if kind == "prefix" and value[0] & ~mask_of(value[1]) & 0xFFFF_FFFF:
            self.put("ip", name, value[0], replace=False)
        if kind == "prefix6" and value[0] & ((1 << (128 - value[1])) - 1):
            self.put("ip6", name, value[0], replace=False)


_PARSERS = (
    ("ip", parse_ip), ("prefix", parse_prefix), ("ether", parse_ether), ("ip6", parse_ip6), ("prefix6", parse_prefix6),
)  # fmt: skip


class PortInfo(_Names):
    """Gives names to TCP and UDP ports: PortInfo(NAME PORT[/tcp|/udp], ...)."""

    names = Rest(Raw(), "NAME PORT, or with /tcp or /udp for one protocol only")
    example = "PortInfo(game 27015/udp, web 8080); InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("AddressInfo",)

    def define(self, name, word):
        number, slash, protocol = word.partition("/")
        kinds = ("tcp_port", "udp_port") if not slash else (protocol.lower() + "_port",)
        try:
            port = parse_int(number)
        except ValueError:
            port = -1
        if not 0 <= port <= 0xFFFF or kinds[0] not in ("tcp_port", "udp_port"):
            raise ValueError(f"`{word}` is no port; write a number from 0 to 65535, alone or with /tcp or /udp")
        for kind in kinds:
            self.put(kind, name, port)
