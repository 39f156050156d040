"""The asking side of ARP (RFC 826, RFC 1122 2.3.2): headers for known neighbours, questions for unknown ones.

Layout of the table.  `entry_of` maps an address to an entry, a number below `entries`; the arrays below hold what is
known of it.  Place `entries` is no entry but the answer for unknown addresses, never due, and the anchor of the ring of
entries by age (`older`, `newer`): its `newer` is the oldest entry, its `older` the newest.  Packets that wait stand in
`held`; `next_held` chains those of an entry, and the free places.

`due` is the time up to which an entry serves without a thought: the earlier of its expiry and the next question to ask.
A look at one number keeps the hot path short.

Rules.
* An entry serves TIMEOUT after the last reply.  Older ones are removed when something else is entered, and by a timer
  while packets wait, so that a router with nothing to do has no timer running.
* An address is asked for at most ten times a second, after ten questions without an answer every two seconds, and for
  as long as packets for it come.
* Full tables lose their oldest entry; too many waiting packets, those of the oldest entries, half of all at a time.
"""

from typing import Any

from mezzo.elements import (
    Arg,
    Array,
    Blob,
    ConfigError,
    Duration,
    Element,
    EtherAddress,
    Int,
    IPAddress,
    IPPrefix,
    OneOf,
    Packet,
    Slots,
    Table,
    Word,
    bounded,
    entry,
    now,
    python,
    read,
    u8,
    u32,
    u48,
    u64,
    write,
)
from mezzo.elements.arp_faker import arp_packet
from mezzo.elements.confparse import split_words
from mezzo.wire.address import format_ether, format_ip, mask_of, parse_ether, parse_ip
from mezzo.wire.arp import Arp
from mezzo.wire.constants import ARP_REPLY, ARP_REQUEST, BROADCAST_ETHER, ETHERTYPE_ARP, ETHERTYPE_IP

SIZE = 42  # Ethernet and ARP header
ETHERNET_IPV4 = 0x0001_0800_0604
MULTICAST_ETHER = 0x01005E_000000  # RFC 1112 6.4: the low 23 bits of the group follow
ALL_IP = 0xFFFF_FFFF
NONE = 0xFFFF_FFFF
NEVER = 0xFFFF_FFFF_FFFF_FFFF
QUICK_NS, SLOW_NS, QUICK_QUESTIONS = 100_000_000, 2_000_000_000, 10
MOST_HELD, MOST_ENTRIES = 65536, 1 << 19
DEFAULT_ENTRIES = 8192


class ARPQuerier(Element):
    """Puts Ethernet headers on IP packets, with addresses found by ARP.

    Input 0 takes IP packets with their destination annotation set, input 1 ARP replies with Ethernet header.  Packets
    for an unknown neighbour wait while a request leaves by the last output.  Packets for broadcast and multicast
    addresses need no question; those without destination are dropped.
    """

    ports, processing, flow = "2/1-2", "h/h", "xy/x"
    ip = Arg(OneOf(IPPrefix(), IPAddress()), doc="this host's address; a prefix gives the broadcast address too")
    eth = Arg(EtherAddress(), None, "this host's Ethernet address; may be left out if IP is a name for both")
    capacity = Arg(Int(0, MOST_HELD), 2048, "most packets that wait; 0 is the largest, 65536", positional=False)
    entry_capacity = Arg(Int(0, MOST_ENTRIES), 0, "most neighbours in the table; 0 is 8192", positional=False)
    entry_packet_capacity = Arg(Int(0, MOST_HELD), 0, "most that wait for one; 0: no limit", positional=False)
    capacity_slim_factor = Arg(Int(1, MOST_HELD), 2, "a full element drops 1/this of CAPACITY", positional=False)
    timeout = Arg(Duration(), 300_000_000_000, "how long an answer is good; 0 is for ever", positional=False)
    poll_timeout = Arg(Duration(), 60_000_000_000, "age from which an answer is renewed; 0: never", positional=False)
    broadcast = Arg(IPAddress(), None, "the local broadcast address", positional=False)
    table = Arg(Word(), None, "not supported: each ARPQuerier has its own table", positional=False)

    ipaddr: u32
    queries: u64
    responses: u64
    drops: u64
    count: u32
    length: u32
    entry_of: Table[u32, u32, "entries"]
    address: Array[u32, "places"]
    ether: Array[u64, "places"]
    due: Array[u64, "places"]
    known: Array[u8, "places"]
    heard: Array[u64, "places"]
    ask_at: Array[u64, "places"]
    asked: Array[u8, "places"]
    older: Array[u32, "places"]
    newer: Array[u32, "places"]
    first: Array[u32, "places"]
    last: Array[u32, "places"]
    waiting: Array[u32, "places"]
    free_entry: u32
    fresh_entry: u32
    held: Slots["packets"]
    next_held: Array[u32, "packets"]
    free_held: u32
    fresh_held: u32
    warned: u8
    question: Blob
    reads = {
        "queries": "ARP requests sent",
        "responses": "sound ARP replies heard",
        "drops": "packets dropped",
        "count": "entries of the table",
        "length": "packets that wait for an answer",
    }
    example = """
        q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> c :: Classifier(12/0806, 12/0800);
        InfiniteSource(DATA "to the neighbour", LIMIT 3) -> SetIPAddress(10.0.0.2) -> [0] q;
        c[0] -> ARPResponder(10.0.0.2 2:0:0:0:0:2) -> [1] q;
        c[1] -> sent :: Counter -> Discard;
    """
    example_reads = {"sent.count": "3", "q.queries": "1", "q.responses": "1", "q.count": "1"}
    see = ("ARPResponder", "ARPFaker", "EtherEncap")

    def configure(self) -> None:
        if self.args["table"] is not None:
            raise ConfigError("TABLE: each ARPQuerier has its own table; leave it out")
        self.ipaddr, mask = self.own_address()
        local = self.broadcast if self.broadcast is not None else self.ipaddr | ~mask & ALL_IP
        self.local_broadcast = ALL_IP if local == self.ipaddr else local
        ether = self.own_ether()
        self.head, self.tail = ether >> 32, (ether & 0xFFFF_FFFF) << 16 | ETHERTYPE_IP
        self.question.bind(arp_packet(ARP_REQUEST, (ether, self.ipaddr), (0, 0), BROADCAST_ETHER))
        self.query_port = max(0, self.noutputs - 1)
        self.expires = self.timeout or NEVER
        self.polls = self.poll_timeout or NEVER
        self.empty_table()

    def hands_over(self, old: Any) -> list[str]:
        """The whole table, or, where what it says of this host or its sizes are others, none of it."""
        counts = ["queries", "responses", "drops"]
        mine, its = ((e.entries, e.packets, e.ipaddr, e.own_ether()) for e in (self, old))
        return [n for n in self.state_specs if n not in ("ipaddr", "question")] if mine == its else counts

    def own_address(self) -> tuple[int, int]:
        given: Any = self.ip
        return (given[0], mask_of(given[1])) if isinstance(given, tuple) else (given, ALL_IP)

    def own_ether(self) -> int:
        given = self.eth if self.eth is not None else self.env.look("ether", self.words[0])
        if given is None:
            raise ConfigError("the argument ETH is missing: an Ethernet address such as 00:11:22:33:44:55")
        return int(given)

    def empty_table(self) -> None:
        self.free_entry = self.free_held = NONE
        self.older[self.entries] = self.newer[self.entries] = self.entries

    @property
    def entries(self) -> int:
        return self.entry_capacity or DEFAULT_ENTRIES

    @property
    def places(self) -> int:
        return self.entries + 1

    @property
    def packets(self) -> int:
        return self.capacity or MOST_HELD

    @property
    def per_entry(self) -> int:
        return self.entry_packet_capacity or MOST_HELD + 1

    @property
    def slimmed(self) -> int:
        """How many packets may stay, with the new one, when there are too many."""
        return max(1, self.packets - self.packets // self.capacity_slim_factor)

    # -- packets

    def push(self, port, p):
        if port == 1:
            self.learn(p)
            self.kill(p)
            return
        dst = p.dst_ip
        at = self.entry_of.get(dst, self.entries)
        if now() < self.due[at]:
            self.encapsulate(p, self.ether[at])
            self.push(0, p)
        elif self.known[at] != 0 and now() - self.heard[at] <= self.expires:
            asks = now() >= self.ask_at[at]
            if asks:
                self.note_question(at)
            self.set_due(at)
            self.encapsulate(p, self.ether[at])
            self.push(0, p)
            if asks:
                self.ask(dst)
        elif dst == ALL_IP or dst == self.local_broadcast:
            self.encapsulate(p, BROADCAST_ETHER)
            self.push(0, p)
        elif (dst >> 28) == 14:
            self.encapsulate(p, MULTICAST_ETHER | u64(dst & 0x7F_FFFF))
            self.push(0, p)
        elif dst == 0 or self.ipaddr == 0:
            self.drops += 1
            if self.warned == 0:
                self.warned = 1
                self.warn()
            self.kill(p, "no destination")
        else:
            if at == self.entries:
                at = self.enter(dst)
            self.known[at] = 0
            self.due[at] = 0
            self.freshen(at)
            if self.waiting[at] >= self.per_entry:
                self.drops += 1
                self.kill(p, "neighbour full")
            else:
                if self.length >= self.packets:
                    self.slim()
                place = self.hold(at)
                self.held.put(place, p)
            if now() >= self.ask_at[at]:
                self.note_question(at)
                self.ask(dst)

    def encapsulate(self, p: Packet, ether: u64):
        p.prepend(14)
        p.set_mac(0)
        p.set_u64(0, ether << 16 | self.head)
        p.set_u48(8, self.tail)

    @python
    def warn(self) -> None:
        self.say(f"{self.name}: a packet has no destination address annotation; is a GetIPAddress or a route missing?")

    def ask(self, dst: u32):
        self.queries += 1
        q = self.make_from(self.question, 0, SIZE)
        if q is not None:
            q.set_mac(0)
            q.set_network(14)
            q.set_u32(28, self.ipaddr)
            q.set_u32(38, dst)
            self.push(self.query_port, q)

    def learn(self, p: Packet):
        """Takes in a reply; anything else is passed over."""
        if p.length < SIZE or p.u16(12) != ETHERTYPE_ARP or p.u48(14) != ETHERNET_IPV4 or p.u16(20) != ARP_REPLY:
            return
        arp = p.view(Arp, 14)
        ether, address = arp.sender_hardware, arp.sender_protocol
        # A group address is nobody's own; a sender without address answers for nobody (RFC 5227 2.1).
        if (ether >> 40) & 1 == 1 or address == 0:
            return
        self.responses += 1
        self.insert(address, ether)

    # -- entries

    @entry
    def insert(self, address: u32, ether: u48):
        at = self.entry_of.get(address, self.entries)
        if at == self.entries:
            at = self.enter(address)
        self.ether[at] = u64(ether)
        self.known[at] = 1
        self.asked[at] = 0
        self.ask_at[at] = 0
        self.freshen(at)
        self.set_due(at)
        self.release(at, address, ether)

    @entry
    def forget(self, address: u32):
        """Removes what is known; packets that wait for an answer go on waiting."""
        at = self.entry_of.get(address, self.entries)
        if at != self.entries and self.known[at] != 0:
            self.remove(at)

    @entry
    def clear(self):
        for _ in bounded(self.count, self.entries):
            self.remove(self.newer[self.entries])

    def set_due(self, at: u32):
        expiry = self.heard[at] + self.expires if self.expires != NEVER else NEVER
        if self.polls != NEVER:
            expiry = min(expiry, max(self.heard[at] + self.polls, self.ask_at[at]))
        self.due[at] = expiry

    def note_question(self, at: u32):
        self.ask_at[at] = now() + (SLOW_NS if self.asked[at] >= QUICK_QUESTIONS - 1 else QUICK_NS)
        if self.asked[at] < 255:
            self.asked[at] += 1

    def enter(self, address: u32) -> u32:
        """A new entry, the newest; makes room first."""
        self.expire()
        if self.count >= self.entries:
            self.remove(self.newer[self.entries])
        at = self.free_entry
        if at == NONE:
            at = self.fresh_entry
            self.fresh_entry += 1
        else:
            self.free_entry = self.newer[at]
        self.entry_of.set(address, at)
        self.address[at] = address
        self.asked[at] = 0
        self.ask_at[at] = 0
        self.waiting[at] = 0
        self.count += 1
        self.link(at)
        return at

    def link(self, at: u32):
        newest = self.older[self.entries]
        self.older[at] = newest
        self.newer[at] = self.entries
        self.newer[newest] = at
        self.older[self.entries] = at
        self.heard[at] = now()

    def unlink(self, at: u32):
        self.newer[self.older[at]] = self.newer[at]
        self.older[self.newer[at]] = self.older[at]

    def freshen(self, at: u32):
        """Makes an entry the newest."""
        self.unlink(at)
        self.link(at)

    def remove(self, at: u32):
        for _ in bounded(self.waiting[at], self.packets):
            self.drop_first(at)
        self.unlink(at)
        self.entry_of.delete(self.address[at])
        self.known[at] = 0
        self.due[at] = 0
        self.newer[at] = self.free_entry
        self.free_entry = at
        self.count -= 1

    def expire(self):
        """Removes entries that are too old."""
        for _ in bounded(self.count, self.entries):
            oldest = self.newer[self.entries]
            if now() - self.heard[oldest] <= self.expires:
                break
            self.remove(oldest)

    def timer(self):
        self.expire()
        self.set_timer()

    def set_timer(self):
        if self.expires != NEVER:
            if self.length == 0:
                self.timer_clear()
            else:
                self.timer_at(self.heard[self.newer[self.entries]] + self.expires + 1)

    # -- waiting packets

    def hold(self, at: u32) -> u32:
        """A place in `held` at the end of an entry's queue."""
        place = self.free_held
        if place == NONE:
            place = self.fresh_held
            self.fresh_held += 1
        else:
            self.free_held = self.next_held[place]
        if self.waiting[at] == 0:
            self.first[at] = place
        else:
            self.next_held[self.last[at]] = place
        self.last[at] = place
        self.waiting[at] += 1
        self.length += 1
        if self.length == 1:
            self.set_timer()
        return place

    def unhold(self, at: u32) -> u32:
        """The place of the first packet that waits for an entry, out of its queue and free."""
        place = self.first[at]
        self.first[at] = self.next_held[place]
        self.waiting[at] -= 1
        self.length -= 1
        if self.length == 0:
            self.set_timer()
        self.next_held[place] = self.free_held
        self.free_held = place
        return place

    def drop_first(self, at: u32):
        q = self.held.take(self.unhold(at))
        if q is not None:
            self.drops += 1
            self.kill(q, "no answer")

    def release(self, at: u32, address: u32, ether: u48):
        """Sends what waited, in the order it came."""
        for _ in bounded(self.waiting[at], self.packets):
            # A packet that comes back here at once may have changed the entry meanwhile.
            if self.known[at] == 0 or self.address[at] != address or self.waiting[at] == 0:
                break
            q = self.held.take(self.unhold(at))
            if q is not None:
                self.encapsulate(q, u64(ether))
                self.push(0, q)

    def slim(self):
        """Drops packets of the oldest entries until there is room again."""
        at = self.newer[self.entries]
        for _ in bounded(self.length + self.count, self.packets + self.entries):
            if self.length < self.slimmed:
                break
            if self.waiting[at] == 0:
                at = self.newer[at]
            else:
                self.drop_first(at)

    # -- handlers

    @read("table", "address, whether it is known (1 or 0), Ethernet address, age in seconds; oldest first")
    def read_table(self) -> str:
        rows, at = [], self.newer[self.entries]
        while at != self.entries:
            age = self.engine.now_ns - self.heard[at] if self.engine is not None else 0
            known = int(bool(self.known[at]) and age <= self.expires)
            ether = format_ether(self.ether[at]) if known else format_ether(BROADCAST_ETHER)
            rows.append(f"{format_ip(self.address[at])} {known} {ether} {age / 1e9:.6f}\n")
            at = self.newer[at]
        return "".join(rows)

    @read("stats", "drops and queries in words")
    def stats(self) -> str:
        return f"{self.drops} packets killed\n{self.queries} ARP queries sent\n"

    @read("ipaddr", "this host's address")
    def read_ipaddr(self) -> str:
        return format_ip(self.ipaddr)

    @write("ipaddr")
    def write_ipaddr(self, text: str) -> None:
        self.ipaddr = parse_ip(text.strip())

    @write("insert", "enters what an answer would say: IP ETH")
    def write_insert(self, text: str) -> None:
        words = split_words(text)
        if len(words) != 2:
            raise ConfigError("write an IP address and an Ethernet address: 10.0.0.2 2:0:0:0:0:2")
        self.call("insert", parse_ip(words[0]), parse_ether(words[1]))

    @write("delete", "forgets an IP address for which no packets wait")
    def write_delete(self, text: str) -> None:
        self.call("forget", parse_ip(text.strip()))

    @write("clear", "forgets all addresses, and drops the packets that wait")
    def write_clear(self, text: str) -> None:
        self.call("clear")
