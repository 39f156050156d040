"""Answers to ARP requests (RFC 826), also for others (proxy ARP)."""

from mezzo.elements import LPM, Array, ConfigError, Element, Packet, Port, Raw, Rest, read, u32, u48, u64, write
from mezzo.elements.confparse import split_words
from mezzo.wire.address import format_ether, format_prefix, parse_ether, parse_ip, parse_prefix
from mezzo.wire.arp import Arp
from mezzo.wire.constants import ARP_REPLY, ARP_REQUEST, ETHERTYPE_ARP

ETHERNET_IPV4 = 0x0001_0800_0604  # hardware and protocol type, and their lengths
SIZE = 42  # Ethernet and ARP header


class ARPResponder(Element):
    """Turns ARP requests for known addresses into replies.

    Each argument is a list of IP addresses or prefixes, and the Ethernet address to answer for them; the longest prefix
    decides.  Packets that are no requests, or ask for others, leave by output 1, or die where it is not connected.
    A reply keeps the request's annotations.
    """

    ports, processing = "1/1-2", "a/ah"
    entries = Rest(Raw(), "IP[/MASK] … ETH, or a name that stands for both", least=1)
    answers: LPM[u32]
    ethers: Array[u64, "distinct"]
    distinct = 1024  # Ethernet addresses at a time
    example = """
        InfiniteSource(DATA \\<ffffffffffff 020000000001 0806 0001 0800 06 04 0001
                              020000000001 0a000001 000000000000 0a000005>, LIMIT 3)
            -> r :: ARPResponder(10.0.0.0/24 2:0:0:0:0:aa) -> c :: Counter -> Discard;
    """
    example_reads = {"c.count": "3", "r.lookup 10.0.0.9": "02:00:00:00:00:AA"}
    see = ("ARPQuerier", "ARPFaker", "AddressInfo")

    def configure(self) -> None:
        for text in self.entries:
            try:
                self.add(text)
            except ValueError as trouble:
                self.error(str(trouble), text)

    def process(self, p: Packet) -> Port:
        if p.length < SIZE or p.u16(12) != ETHERTYPE_ARP or p.u48(14) != ETHERNET_IPV4 or p.u16(20) != ARP_REQUEST:
            return 1, "no request"
        arp = p.view(Arp, 14)
        wanted = arp.target_protocol
        found = self.answers.lookup(wanted, 0)
        if found == 0:
            return 1, "not ours"
        mine = u48(self.ethers[found - 1])
        asker = arp.sender_hardware
        p.trim(p.length - SIZE)
        p.set_mac(0)
        p.set_network(14)
        p.set_u48(0, asker)
        p.set_u48(6, mine)
        arp.operation = ARP_REPLY
        arp.target_hardware = asker
        arp.target_protocol = arp.sender_protocol
        arp.sender_hardware = mine
        arp.sender_protocol = wanted
        return 0

    # -- the table

    def add(self, text: str) -> None:
        """Adds one argument's addresses; nothing is added if one of them is wrong."""
        prefixes, ether = self.read_entry(split_words(text))
        slot = self.slot_of(ether)
        for address, length in prefixes:
            self.answers.add(address, length, slot + 1)

    def read_entry(self, words: list[str]) -> tuple[list[tuple[int, int]], int]:
        prefixes, ethers = [], []
        for word in words:
            prefix, ether = self.prefix_of(word), self.ether_of(word)
            if prefix is not None:
                prefixes.append(prefix)
            if ether is not None and (prefix is None or len(words) == 1):
                ethers.append(ether)
            if prefix is None and ether is None:
                raise ConfigError(f"`{word}` is no IP or Ethernet address; write for example 10.0.0.1/24 2:0:0:0:0:1")
        if not prefixes or len(ethers) != 1:
            raise ConfigError(f"`{' '.join(words)}`: one or more IP addresses and one Ethernet address are wanted")
        return prefixes, ethers[0]

    def prefix_of(self, word: str) -> tuple[int, int] | None:
        ip, known = self.env.look("ip", word), self.env.look("prefix", word)
        if ip is not None:
            return ip, 32
        if known is not None:
            return known
        try:
            return parse_prefix(word, bare=True)
        except ValueError:
            return None

    def ether_of(self, word: str) -> int | None:
        known = self.env.look("ether", word)
        if known is not None:
            return known
        try:
            return parse_ether(word)
        except ValueError:
            return None

    def slot_of(self, ether: int) -> int:
        """The place of an Ethernet address among `ethers`: its own, else one that no prefix uses any more."""
        used = {value - 1 for _, _, value in self.answers.items()}
        for slot in used:
            if self.ethers[slot] == ether:
                return slot
        free = next((slot for slot in range(self.distinct) if slot not in used), None)
        if free is None:
            raise ConfigError(f"more than {self.distinct} different Ethernet addresses")
        self.ethers[free] = ether
        return free

    @read("table", "prefixes and the addresses answered for them")
    def table(self) -> str:
        rows = self.answers.items()
        return "".join(f"{format_prefix(a, n)} {format_ether(self.ethers[slot - 1])}\n" for a, n, slot in rows)

    @read("lookup", "the Ethernet address answered for an IP address; empty if none", param=True)
    def lookup(self, text: str) -> str:
        found = self.best(parse_ip(text.strip()))
        return format_ether(self.ethers[found - 1]) if found else ""

    def best(self, address: int) -> int:
        rows = [(n, slot) for a, n, slot in self.answers.items() if n == 0 or (a ^ address) >> (32 - n) == 0]
        return max(rows, default=(0, 0))[1]

    @write("add", "adds an entry: IP/MASK ... ETH")
    def write_add(self, text: str) -> None:
        self.add(text)

    @write("remove", "removes the entry of an IP/MASK")
    def write_remove(self, text: str) -> None:
        prefix = self.prefix_of(text.strip())
        if prefix is None or not self.answers.remove(*prefix):
            raise ConfigError(f"`{text.strip()}` is not in the table")
