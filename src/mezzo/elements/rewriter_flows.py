"""The flow table of all rewriters, its bounds and its lifetimes.

A flow is a pair of mappings, one for each direction.  Mapping `e` of flow `f` is `2 * f` forwards and `2 * f + 1` for
replies.  What a packet needs of it lies together, in one half of a cache line of `rec`, from `4 * e`:

    ADDRESSES   source and destination that the packet gets
    PORTS       its ports (32 bits), and what is added to the checksums of IP (16) and of what is in it (16; RFC 1624)
    STATE       tick of the last look at the lifetime (32), protocol (8), marks of this direction (8), output (16)
    USED        when a packet last used it

`find` leads from (addresses, ports, protocol) to `e`; 0 is none.  The keys of a flow are not kept: each is what the
other direction's packets become, turned round.  A subclass says what its `ports` are and how `turn` turns them round.

Lifetimes.  Flows of one kind of life stand in a ring by age, `older` and `newer`; places 0 to LIVES - 1 of both are the
anchors, flows come after them.  A packet writes USED.  It moves its flow to the young end once in a tick only, so that
the usual way touches one line of memory; times are exact all the same, as USED is asked before a flow is taken away.
A flow past its time is as good as gone: packets do not find it, handlers do not show it, and its place is taken back
when a new flow comes.  So nothing has to run while nothing happens.

When the table is full, the flow goes that would end first, of those that were quiet for GUARANTEE; if there is none the
new flow is refused.  Flows that a person entered stay until a person removes them.
"""

from typing import Any

from mezzo.elements import (
    Arg,
    Array,
    Bool,
    ConfigError,
    Duration,
    Element,
    Int,
    Packet,
    Raw,
    Rest,
    Table,
    Word,
    bounded,
    checksum_adjust,
    entry,
    flag,
    now,
    randrange,
    rare,
    u8,
    u16,
    u32,
    u64,
    u128,
)
from mezzo.elements.rewriter_spec import (
    BY_CHANCE,
    BY_SOURCE,
    DROP,
    IN_TURN,
    MAP,
    MOST_PATTERNS,
    OWN_FIRST,
    OWN_THEN_ORDER,
    Pattern,
    Spec,
    parse_spec,
)

ADDRESSES, PORTS, STATE, USED = range(4)
TCP_NODATA, TCP_DATA, TCP_DONE, DATAGRAM, STREAM, STATIC = range(6)  # kinds of life
LIVES = 6
NEVER = 0xFFFF_FFFF_FFFF_FFFF
SECOND = 10**9
MOST_FLOWS = 1 << 22
MOST_TRIES = 1 << 16
MARKS = 16  # where the marks of a direction start in STATE
GONE = 1 << MARKS  # TCP: this side has closed
DATA = 2 << MARKS  # TCP: this side has sent data
COUNT = 3 << MARKS  # others: packets, up to three
ONE_MORE = 1 << MARKS
NOTHING = 0xFFFF  # as the old value of checksum_adjust: only the new one counts
SPREAD = 0x9E3779B97F4A7C15
DONE, TAKEN, FULL = range(3)  # what came of entering a flow by hand


class _Flows(Element):
    """What rewriters have in common: arguments, the table of flows, and how new ones are made."""

    ports, processing, flow = "1-/1-", "h/h", "x/x"
    specs = Rest(Raw(), "what happens to new flows, for each input", least=1)
    mapping_capacity = Arg(Int(1, MOST_FLOWS), 65536, "most flows", positional=False)
    capacity = Arg(Int(1, MOST_FLOWS), None, "the same", positional=False)
    guarantee = Arg(Duration(), 5 * SECOND, "a flow used so recently makes no room for others", positional=False)
    reap_interval = Arg(Duration(), 900 * SECOND, "as in Click; ended flows are never in the way", positional=False)
    reap_time = Arg(Duration(), None, "the same", positional=False)
    dst_anno = Arg(Bool(), True, "set the destination annotation to the new destination", positional=False)
    share = Arg(Word(), None, "not supported: each rewriter has its own flows", positional=False)

    with_ports = True  # has a pattern ports
    places = 65536 + LIVES
    records = 8 * (65536 + LIVES)
    keys = 2 * 65536
    inputs = 1
    patterns = 1
    find: Table[u128, u32, "keys"]
    rec: Array[u64, "records"]
    older: Array[u32, "places"]
    newer: Array[u32, "places"]
    life: Array[u8, "places"]
    owner: Array[u16, "places"]  # the input that made the flow
    lives: Array[u64, LIVES]  # how long each kind of life lasts without packets
    safe: Array[u64, LIVES]  # how long it makes no room for others
    made: flag  # the rings are there
    free: u32  # first of the places given back; 0: none
    fresh: u32  # places that were never used start here
    count: u32
    entered: u32  # of them by hand
    mapping_failures: u64
    kind: Array[u8, "inputs"]
    output: Array[u32, "inputs"]
    choice: Array[u8, "inputs"]
    first: Array[u32, "inputs"]  # pattern
    many: Array[u32, "inputs"]
    turn_of: Array[u32, "inputs"]
    source: Array[u32, "patterns"]
    target: Array[u32, "patterns"]
    source_port: Array[u16, "patterns"]
    target_port: Array[u16, "patterns"]
    span: Array[u32, "patterns"]
    order: Array[u8, "patterns"]
    next_try: Array[u32, "patterns"]
    forward: Array[u16, "patterns"]
    reply: Array[u16, "patterns"]
    emptied: u64  # counts flows that went
    barren: u128  # a search that found nothing, by which pattern, and when: not repeated before a flow has gone
    barren_by: u32
    barren_at: u64
    reads = {"mapping_failures": "new flows that got no mapping: no value was free, or the table was full"}
    limits = {"MAPPING_CAPACITY": MOST_FLOWS}

    # -- configuration

    def configure(self) -> None:
        if self.share is not None:
            raise ConfigError("SHARE: each rewriter has its own flows; leave it out")
        self.most = self.capacity or self.mapping_capacity
        self.places, self.keys = self.most + LIVES, 2 * self.most
        self.records = 8 * self.places
        if len(self.specs) != self.ninputs:
            raise ConfigError(
                f"{self.ninputs} inputs are connected, and {len(self.specs)} specifications given; give each input one"
            )
        specs = [self.read_spec(text) for text in self.specs]
        self.load_specs(specs)
        times, guarantees = self.times(), self.guarantees()
        self.lives.load([t or NEVER for t in times] + [NEVER] * (LIVES - len(times)))
        self.safe.load(guarantees + [0] * (LIVES - len(guarantees)))
        shortest = min([SECOND * 4, *(t for t in times if t)])
        self.shift = max(0, (shortest // 4).bit_length() - 1)

    def read_spec(self, text: str) -> Spec:
        try:
            return parse_spec(text, self.env, self.noutputs, self.with_ports)
        except ValueError as trouble:
            self.error(str(trouble), text)
            return Spec(DROP, "<drop>")

    def load_specs(self, specs: list[Spec]) -> None:
        self.shown = specs
        every: list[Pattern] = [p for s in specs for p in s.patterns]
        self.inputs, self.patterns = len(specs), max(1, len(every))
        starts = [sum(len(s.patterns) for s in specs[:i]) for i in range(len(specs))]
        for name, values in {
            "kind": [s.kind for s in specs],
            "output": [s.output for s in specs],
            "choice": [s.choice for s in specs],
            "first": starts,
            "many": [len(s.patterns) for s in specs],
            "source": [p.saddr for p in every],
            "target": [p.daddr for p in every],
            "source_port": [p.sport for p in every],
            "target_port": [p.dport for p in every],
            "span": [p.span | p.of_address << 31 for p in every],
            "order": [p.order for p in every],
            "forward": [p.foutput for p in every],
            "reply": [p.routput for p in every],
        }.items():
            self.cell(name).load(values)

    def times(self) -> list[int]:
        """How long each kind of life lasts, ns; 0 is for ever."""
        raise NotImplementedError

    def guarantees(self) -> list[int]:
        return [self.guarantee] * STATIC

    def hands_over(self, old: Any) -> list[str]:
        if old.places > self.places:
            return []
        return [name for name in Element.hands_over(self, old) if name not in ("turn_of", "next_try")]

    def init(self):
        if not self.made:
            self.made = True
            self.fresh = LIVES
            for i in range(LIVES):
                self.older[i] = i
                self.newer[i] = i

    # -- what subclasses say: the defaults are those of addresses and ports

    def turn(self, ports: u32) -> u32:
        """The ports of a reply."""
        return (ports << 16) | (ports >> 16)

    def shape(self, addresses: u64) -> u64:
        """What of the addresses a flow is known by."""
        return addresses

    def new_ports(self, ports: u32, source: u32, target: u32) -> u32:
        """Ports where those that are not 0 take the place of the packet's."""
        if source != 0:
            ports = (source << 16) | (ports & 0xFFFF)
        if target != 0:
            ports = (ports & 0xFFFF_0000) | target
        return ports

    def begin(self, f: u32):
        """A flow begins."""
        return

    def own_port(self, ports: u32) -> u32:
        return ports >> 16

    def life_of(self, f: u32, proto: u32) -> u32:
        """The kind of life of a flow."""
        return DATAGRAM

    # -- keys

    def key(self, addresses: u64, ports: u32, proto: u32) -> u128:
        return (u128(addresses) << 64) | u128((u64(ports) << 32) | u64(proto))

    def back(self, addresses: u64) -> u64:
        return (addresses << 32) | (addresses >> 32)

    def key_of(self, f: u32, way: u32) -> u128:
        """The key under which a direction of a flow is found."""
        other = 4 * (2 * f + (way ^ 1))
        ports = u32(self.rec[other + PORTS] >> 32)
        return self.key(self.back(self.rec[other + ADDRESSES]), self.turn(ports), self.proto_of(f))

    def proto_of(self, f: u32) -> u32:
        return u32(self.rec[8 * f + STATE] >> 24) & 0xFF

    def tick(self) -> u32:
        return u32((now() + 1) >> self.shift)

    # -- life

    def used(self, f: u32) -> u64:
        return max(self.rec[8 * f + USED], self.rec[8 * f + 4 + USED])

    def ends(self, f: u32) -> u64:
        lasts = self.lives[self.life[f]]
        return NEVER if lasts == NEVER else self.used(f) + lasts

    def link(self, f: u32, life: u32):
        newest = self.older[life]
        self.life[f] = u8(life)
        self.older[f] = newest
        self.newer[f] = life
        self.newer[newest] = f
        self.older[life] = f

    def unlink(self, f: u32):
        self.newer[self.older[f]] = self.newer[f]
        self.older[self.newer[f]] = self.older[f]

    def settle(self, f: u32):
        """Puts a flow where its state belongs, as the youngest."""
        if self.life[f] != STATIC:
            self.unlink(f)
            self.link(f, self.life_of(f, self.proto_of(f)))

    @rare
    def look_again(self, e: u32) -> u32:
        """The first packet of a mapping in a tick: is it alive?  Gives the mapping, or 0."""
        f = e >> 1
        if now() >= self.ends(f):
            self.remove(f)
            return 0
        self.rec[4 * e + STATE] = (self.rec[4 * e + STATE] & 0xFFFF_FFFF) | (u64(self.tick()) << 32)
        self.rec[4 * e + USED] = now()
        self.settle(f)
        return e

    def remove(self, f: u32):
        for way in range(2):
            key = self.key_of(f, way)
            if (self.find.get(key, 0) >> 1) == f:
                self.find.delete(key)
        if self.life[f] == STATIC:
            self.entered -= 1
        self.unlink(f)
        self.newer[f] = self.free
        self.free = f
        self.count -= 1
        self.emptied += 1

    def claim(self, by_hand: bool) -> u32:
        """A place for a flow; 0 if there is none."""
        for life in range(LIVES - 1):
            old = self.newer[life]
            if old >= LIVES and now() >= self.ends(old):
                self.remove(old)
        if self.count >= self.most:
            worst = self.first_to_go(by_hand)
            if worst == 0:
                return 0
            self.remove(worst)
        f = self.free
        if f == 0:
            f = self.fresh
            self.fresh += 1
        else:
            self.free = self.newer[f]
        self.count += 1
        return f

    def first_to_go(self, by_hand: bool) -> u32:
        found: u32 = 0
        soonest: u64 = NEVER
        for life in range(LIVES - 1):
            old = self.newer[life]
            if old >= LIVES and (by_hand or self.used(old) + self.safe[life] <= now()):
                end = self.ends(old)
                if found == 0 or end < soonest:
                    found = old
                    soonest = end
        return found

    # -- new flows

    @rare
    def open(self, port: u32, addresses: u64, ports: u32, proto: u32) -> u32:
        """The forward mapping of a new flow, as the input's specification has it; 0 if there is none."""
        if self.kind[port] != MAP:
            return 0
        first, many = self.first[port], self.many[port]
        if self.choice[port] == BY_SOURCE:
            many = 1
            first += u32((u64(u32(addresses >> 32)) * SPREAD) >> 56)
        at: u32 = 0
        if self.choice[port] == IN_TURN:
            at = self.turn_of[port] % many
            self.turn_of[port] = at + 1
        for _ in bounded(many, MOST_PATTERNS):
            e = self.open_by(first + at, port, addresses, ports, proto)
            if e != 0:
                return e
            at = (at + 1) % many
        self.mapping_failures += 1
        return 0

    def open_by(self, k: u32, port: u32, addresses: u64, ports: u32, proto: u32) -> u32:
        src, dst = u32(addresses >> 32), u32(addresses)
        if self.source[k] != 0:
            src = self.source[k]
        if self.target[k] != 0:
            dst = self.target[k]
        to_ports = self.new_ports(ports, u32(self.source_port[k]), u32(self.target_port[k]))
        if self.span[k] != 0:
            choice = self.choose(k, addresses, ports, (u64(src) << 32) | u64(dst), to_ports, proto)
            if choice > self.span[k] & 0xFFFF:
                return 0
            if self.span[k] >> 31 != 0:
                src += choice
            else:
                to_ports = self.new_ports(to_ports, u32(self.source_port[k]) + choice, 0)
        return self.enter(
            addresses, ports, proto, self.shape((u64(src) << 32) | u64(dst)), to_ports,
            u32(self.forward[k]), u32(self.reply[k]), port,
        )  # fmt: skip

    def choose(self, k: u32, addresses: u64, ports: u32, to: u64, to_ports: u32, proto: u32) -> u32:
        """How far into the range of a pattern the first value is that no other flow has; 2^16 if none is free."""
        span = self.span[k] & 0xFFFF
        if (self.span[k] >> 31) != 0:
            own = u32(addresses >> 32) - self.source[k]
        else:
            own = self.own_port(ports) - u32(self.source_port[k])
        order = self.order[k]
        if order in (OWN_FIRST, OWN_THEN_ORDER) and own <= span and self.is_free(k, own, to, to_ports, proto):
            return own
        sought = self.reply_key(k, 0, to, to_ports, proto)
        again = sought == self.barren and k == self.barren_by and self.barren_at == self.emptied
        if again and now() < self.first_end():
            return MOST_TRIES
        at: u32 = self.next_try[k] % (span + 1)
        if order in (OWN_FIRST, BY_CHANCE):
            at = randrange(span + 1)
        for _ in bounded(span + 1, MOST_TRIES):
            if self.is_free(k, at, to, to_ports, proto):
                self.next_try[k] = at + 1
                return at
            at = 0 if at == span else at + 1
        self.barren = sought
        self.barren_by = k
        self.barren_at = self.emptied
        return MOST_TRIES

    def first_end(self) -> u64:
        """When the first flow may end, at the earliest."""
        soonest: u64 = NEVER
        for life in range(LIVES - 1):
            old = self.newer[life]
            if old >= LIVES:
                soonest = min(soonest, self.ends(old))
        return soonest

    def reply_key(self, k: u32, at: u32, to: u64, to_ports: u32, proto: u32) -> u128:
        """The key of replies if the pattern's range gives the value `at`."""
        if (self.span[k] >> 31) != 0:
            to += u64(at) << 32
        else:
            to_ports = self.new_ports(to_ports, u32(self.source_port[k]) + at, 0)
        return self.key(self.back(self.shape(to)), self.turn(to_ports), proto)

    def is_free(self, k: u32, at: u32, to: u64, to_ports: u32, proto: u32) -> bool:
        e = self.find.get(self.reply_key(k, at, to, to_ports, proto), 0)
        if e != 0 and now() >= self.ends(e >> 1):
            self.remove(e >> 1)
            return True
        return e == 0

    def enter(
        self, addresses: u64, ports: u32, proto: u32, to: u64, to_ports: u32, forward: u32, reply: u32, port: u32
    ) -> u32:
        """Makes a flow; one that has the key of its replies goes, unless a person entered it.  Gives 0 without room."""
        key = self.key(addresses, ports, proto)
        turned = self.key(self.back(to), self.turn(to_ports), proto)
        stale = self.find.get(turned, 0) >> 1
        if stale != 0:
            if self.life[stale] == STATIC:
                return 0
            self.remove(stale)
        f = self.claim(False)
        if f == 0:
            return 0
        self.note(f, addresses, ports, proto, to, to_ports, forward, reply)
        self.owner[f] = u16(port)
        self.link(f, self.life_of(f, proto))
        self.find.set(key, 2 * f)
        if turned != key:
            self.find.set(turned, 2 * f + 1)
        return 2 * f

    def note(self, f: u32, addresses: u64, ports: u32, proto: u32, to: u64, to_ports: u32, forward: u32, reply: u32):
        self.begin(f)
        state = (u64(self.tick()) << 32) | (u64(proto) << 24)
        ip = self.difference(addresses, to)
        inner = self.sum_up(ip + self.difference(u64(ports), u64(to_ports)))
        at = 8 * f
        self.rec[at + ADDRESSES] = to
        self.rec[at + PORTS] = (u64(to_ports) << 32) | (u64(ip) << 16) | u64(inner)
        self.rec[at + STATE] = state | u64(forward)
        self.rec[at + USED] = now()
        back, from_ports = self.back(to), self.turn(to_ports)
        ip = self.difference(back, self.back(addresses))
        inner = self.sum_up(ip + self.difference(u64(from_ports), u64(self.turn(ports))))
        self.rec[at + 4 + ADDRESSES] = self.back(addresses)
        self.rec[at + 4 + PORTS] = (u64(self.turn(ports)) << 32) | (u64(ip) << 16) | u64(inner)
        self.rec[at + 4 + STATE] = state | u64(reply)
        self.rec[at + 4 + USED] = 0

    def difference(self, old: u64, new: u64) -> u32:
        """What is added to the complement of a checksum when words change (RFC 1624, eqn. 3)."""
        total: u32 = 0
        for i in range(4):
            total += u32(u16(~(old >> (16 * i)))) + u32(u16(new >> (16 * i)))
        return self.sum_up(total)

    def sum_up(self, total: u32) -> u32:
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        # Both are nothing; adding 0 leaves a checksum as it was written.
        return 0 if total == 0xFFFF else total

    def address(self, p: Packet, e: u32):
        """Gives a packet its new addresses."""
        to = self.rec[4 * e + ADDRESSES]
        p.net.set_u64(12, to)
        p.ip.checksum = checksum_adjust(p.ip.checksum, NOTHING, u16(self.rec[4 * e + PORTS] >> 16))
        if self.dst_anno:
            p.dst_ip = u32(to)

    # -- by hand; batches are checked in Python before anything is done

    @entry
    def enter_by_hand(
        self, addresses: u64, ports: u32, proto: u32, to: u64, to_ports: u32, forward: u32, reply: u32
    ) -> u32:
        key = self.key(addresses, ports, proto)
        turned = self.key(self.back(to), self.turn(to_ports), proto)
        for way in range(2):
            e = self.find.get(key if way == 0 else turned, 0)
            if e != 0:
                if now() < self.ends(e >> 1):
                    return TAKEN
                self.remove(e >> 1)
        f = self.claim(True)
        if f == 0:
            return FULL
        self.note(f, addresses, ports, proto, to, to_ports, forward, reply)
        self.link(f, STATIC)
        self.entered += 1
        self.find.set(key, 2 * f)
        if turned != key:
            self.find.set(turned, 2 * f + 1)
        return DONE

    @entry
    def remove_by_hand(self, f: u32):
        self.remove(f)

    @entry
    def clear_all(self):
        for life in range(LIVES):
            for _ in bounded(self.count, self.most):
                if self.newer[life] < LIVES:
                    break
                self.remove(self.newer[life])
