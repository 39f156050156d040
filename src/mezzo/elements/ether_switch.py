"""Learning Ethernet switches (IEEE 802.1D, 7.8 and 7.9).

Addresses are kept in sets of four.  A new address takes the place in its set that was quiet longest, so the table is
bounded, and a flood of made-up addresses costs other hosts a flooded frame and nothing else.
"""

from mezzo.elements import Arg, Array, Duration, Element, Int, bounded, entry, now, read, u32, u48, u64, write
from mezzo.wire.address import format_ether

WAYS = 4
NOWHERE = 0xFFFF_FFFF
GROUP = 1 << 40  # the bit of group addresses, broadcast among them
SHORTEST = 14
SPREAD = 0x9E3779B97F4A7C15


class EtherSwitch(Element):
    """Forwards Ethernet frames between its ports, and learns where addresses are.

    Input i and output i are one network.  A frame goes where its destination was last seen as a source, and to all
    other ports while that is unknown or a group; never back where it came from.  VLAN tags pass as they are.
    """

    ports, processing, flow = "2-/=", "h/h", "#/[^#]"
    timeout = Arg(Duration(), 300 * 10**9, "how long an address is remembered; 0: never, a hub", live=u64)
    capacity = Arg(Int(WAYS, 1 << 20), 4096, "addresses, at most", positional=False)
    places = WAYS  # a power of two, from CAPACITY
    addresses: Array[u48, "places"]
    seen: Array[u64, "places"]  # when, plus one; 0: free
    where: Array[u32, "places"]
    lost: u64
    moves: u64
    reads = {
        "lost": "copies that were not made, because no frame was free",
        "moves": "addresses that were seen at another port than before",
    }
    limits = {"CAPACITY": 1 << 20}
    racy = {"seen": "of two times at which an address was seen at once either is right"}
    example = """InfiniteSource(DATA \\<000000000002 000000000001 0800 00>, LIMIT 2) -> [0] s :: EtherSwitch;
InfiniteSource(DATA \\<000000000001 000000000002 0800 00>, LIMIT 5) -> Unstrip(0) -> [1] s; Idle -> [2] s;
s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard; s[2] -> c :: Counter -> Discard;"""
    example_reads = {"a.count": "5", "b.count": "2"}
    see = ("ListenEtherSwitch", "HostEtherFilter", "Tee")

    def configure(self):
        self.places = max(WAYS, 1 << (self.capacity - 1).bit_length())
        self.set_bits = (self.places // WAYS).bit_length() - 1
        self.members = max(self.ninputs, 1)
        self.tap = ()

    def hands_over(self, old):
        """Where an address lies in the table depends on its size."""
        lost = () if self.places == old.places else ("addresses", "seen", "where")
        return [name for name in super().hands_over(old) if name not in lost]

    def moved(self, old):
        if self.members < old.members:
            gone = [at for at, port in enumerate(self.where.dump()) if port >= self.members]
            for at in gone:
                self.seen[at] = 0

    def first_way(self, address: u48) -> u32:
        if self.set_bits == 0:
            return 0
        return u32((u64(address) * SPREAD) >> (64 - self.set_bits)) * WAYS

    def place_of(self, address: u48) -> u32:
        """Where an address stands; NOWHERE if it is unknown."""
        first = self.first_way(address)
        for i in range(WAYS):
            if self.seen[first + i] != 0 and self.addresses[first + i] == address:
                return first + i
        return NOWHERE

    def learn(self, address: u48, port: u32):
        first = self.first_way(address)
        oldest: u32 = first
        for i in range(WAYS):
            at = first + i
            if self.seen[at] != 0 and self.addresses[at] == address:
                if self.where[at] != port:
                    self.moves += 1
                    self.where[at] = port
                self.seen[at] = now() + 1
                return
            if self.seen[at] < self.seen[oldest]:
                oldest = at
        self.addresses[oldest] = address
        self.where[oldest] = port
        self.seen[oldest] = now() + 1

    def find(self, address: u48) -> u32:
        """The port of an address; NOWHERE if it is unknown or was quiet too long."""
        first = self.first_way(address)
        for i in range(WAYS):
            at = first + i
            if self.seen[at] != 0 and self.addresses[at] == address:
                if self.seen[at] + self.timeout > now():
                    return self.where[at]
                return NOWHERE
        return NOWHERE

    def push(self, port, p):
        if p.length < SHORTEST:
            self.kill(p, "too short")
            return
        source = p.eth.src
        target = p.eth.dst
        for i in self.tap:
            q = p.clone()
            if q is None:
                self.lost += 1
            else:
                self.push(i, q)
        if self.timeout != 0 and (u64(source | target) & GROUP) == 0:
            # The usual way: both are known, and the source where it was.  It looks before it writes, so it goes in the
            # kernel, and what has to be learned or flooded does not.
            at = self.place_of(source)
            if at != NOWHERE and self.where[at] == port:
                there = self.find(target)
                if there != NOWHERE:
                    self.seen[at] = now() + 1
                    if there == port:
                        self.kill(p, "is there already")
                        return
                    self.push(there, p)
                    return
        if self.timeout != 0 and (u64(source) & GROUP) == 0:
            self.learn(source, port)
        to: u32 = NOWHERE
        if (u64(target) & GROUP) == 0:
            to = self.find(target)
        if to == port:
            self.kill(p, "is there already")
            return
        if to != NOWHERE:
            self.push(to, p)
            return
        last: u32 = self.members - 1
        if port == last:
            last = last - 1
        for i in range(self.members):
            if i != port and i != last:
                q = p.clone()
                if q is None:
                    self.lost += 1
                else:
                    self.push(i, q)
        self.push(last, p)

    @entry
    def forget(self):
        for at in bounded(self.places, 1 << 20):
            self.seen[at] = 0

    @read("table", "addresses, their ports, and how long ago they were seen, newest first")
    def table(self):
        now_ns = self.router.now_ns
        rows = [
            (now_ns + 1 - seen, self.addresses[i], self.where[i]) for i, seen in enumerate(self.seen.dump()) if seen
        ]
        fresh = sorted(row for row in rows if row[0] < max(self.timeout, 1))
        return "".join(f"{format_ether(address)} {port} {age / 1e9:.1f}s\n" for age, address, port in fresh)

    @write("reset", "forgets all addresses")
    def reset(self, text):
        self.call("forget")


class ListenEtherSwitch(EtherSwitch):
    """As EtherSwitch, with one output more that gets a copy of every frame."""

    ports = "-/=+"
    example = """InfiniteSource(DATA \\<000000000002 000000000001 0800 00>, LIMIT 2) -> [0] s :: ListenEtherSwitch;
Idle -> [1] s; s[0] -> Discard; s[1] -> Discard; s[2] -> all :: Counter -> Discard;"""
    example_reads = {"all.count": "2"}
    see = ("EtherSwitch",)

    def configure(self):
        EtherSwitch.configure(self)
        self.tap = (self.ninputs,)
