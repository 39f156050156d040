"""IPReassembler: fragments become packets again (RFC 791, 3.2; RFC 815).

A datagram in the making is one packet in a slot:

    0        AREA - link - header    AREA                        AREA + end
    | unused | link header, IP header | data, at its offset ... |

with a bit for each 8 bytes of data that have come.  Fragments join where source, destination, identification,
protocol and VLAN are equal.  Where fragments overlap the bytes that came last count (RFC 791, 3.2).  Memory is bounded:
there are as many slots as HIMEM allows, the oldest datagram makes room for a new one, and one that is not whole
TIMEOUT after its first fragment came is given up.
"""

from mezzo.elements import (
    AnnoOffset,
    Arg,
    Array,
    Duration,
    Element,
    Int,
    Packet,
    Port,
    Slots,
    Table,
    bounded,
    flag,
    now,
    u16,
    u32,
    u64,
    u128,
)

MF, PLACE, KEPT = 0x2000, 0x1FFF, 0xC000  # bits of the fragment field; KEPT: reserved, don't fragment
AREA = 96  # room for headers
LINK = 36  # of it, for what stands in front of the IP header
LONGEST = 0xFFFF
WORDS = 128  # of 64 bits each, a bit for 8 bytes
ALL = 0xFFFF_FFFF_FFFF_FFFF
FRAME = 2048  # what a slot counts as, of HIMEM
NOWHERE = 0xFFFFFFFF
NEVER = ALL
MORE, WHOLE, CONFLICT, TOO_LONG = range(4)


class IPReassembler(Element):
    """Holds IP fragments until their packet is whole, and lets that go on; other packets pass.

    Expects marked IP packets. A packet that is not whole in time is given up: if its first fragment came, it leaves by
    output 1 (for an ICMPError timeexceeded, reassembly) as one fragment with the data up to the first gap. The
    largest packet is what a frame holds.
    """

    ports, processing = "1/1-2", "a/ah"
    himem = Arg(Int(FRAME, 1 << 31), 262144, "memory for datagrams in the making, bytes", positional=False)
    max_mtu_anno = Arg(AnnoOffset(2), None, "annotation (2 bytes) for the largest fragment's size", positional=False)
    timeout = Arg(Duration("s"), 30 * 10**9, "how long to wait for the rest of a packet", positional=False)
    key_anno = Arg(AnnoOffset(1), None, "a byte that fragments must have in common, such as PAINT", positional=False)
    places = 128
    size = 128 * WORDS
    slots: Slots["places"]
    find: Table[u128, u32, "places"]
    due: Array[u64, "places"]
    born: Array[u64, "places"]  # counts up: times may be equal
    births: u64
    end: Array[u32, "places"]  # bytes of data in all; 0 while the last fragment has not come
    head: Array[u32, "places"]  # link and IP header of the first fragment; 0 while it has not come
    mtu: Array[u32, "places"]
    bits: Array[u64, "size"]
    waits: flag  # the timer is set
    fragments: u64
    assembled: u64
    failed: u64
    bad: u64
    reads = {
        "fragments": "fragments that came",
        "assembled": "packets made whole",
        "failed": "packets given up",
        "bad": "fragments that are none, by their length or place",
    }
    see = ("IPFragmenter", "ICMPError")
    example = """
        InfiniteSource(LENGTH 100, LIMIT 3, STOP true) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)
            -> IPFragmenter(60) -> r :: IPReassembler -> c :: CheckUDPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"r.fragments": "9", "r.assembled": "3", "c.drops": "0", "d.byte_count": "384"}

    def configure(self):
        self.places = self.himem // FRAME
        self.size = self.places * WORDS

    def hands_over(self, old):
        """With fewer places those that are left would not be the ones that `find` knows: it begins anew."""
        names = super().hands_over(old)
        return names if self.places >= old.places else [name for name in names if name in self.reads]

    def process(self, p: Packet) -> Port:
        frag = u32(p.ip.frag)
        if frag & (MF | PLACE) == 0:
            return 0
        self.fragments += 1
        if not self.sound(p):
            self.bad += 1
            self.kill(p, "bad fragment")
            return
        key = self.key(p)
        i = self.find.get(key, NOWHERE)
        if i == NOWHERE:
            i = self.claim(key)
            if not self.begin(p, i):
                self.forget(key)
                self.failed += 1
                self.kill(p, "too long for a frame")
                return
            self.slots.put(i, p)
            return
        a = self.slots.take(i)
        if a is None:
            self.kill(p, "bad fragment")
            return
        state = self.join(a, p, i)
        if state == MORE:
            self.slots.put(i, a)
            self.kill(p)  # its bytes live on
            return
        self.forget(key)
        if state == WHOLE:
            self.deliver(p, a, i)
            self.kill(a)
            self.assembled += 1
            return 0
        self.failed += 1
        if state == CONFLICT:
            self.kill(a, "fragments that contradict")
            self.kill(p, "fragments that contradict")
        else:
            self.kill(a, "too long for a frame")
            self.kill(p, "too long for a frame")

    def sound(self, p: Packet) -> bool:
        hlen, total = u32(p.ip.ihl) * 4, u32(p.ip.total_length)
        if hlen < 20 or total <= hlen or u32(p.network_offset) + total > p.length:
            return False
        size, frag = total - hlen, u32(p.ip.frag)
        if frag & MF != 0 and size & 7 != 0:
            return False
        return (frag & PLACE) * 8 + size + hlen <= LONGEST

    def key(self, p: Packet) -> u128:
        """What the fragments of one packet have in common."""
        vlan = u32(p.anno_u8(18) & 15) << 8 | p.anno_u8(19)
        low = u64(p.ip.id) << 48 | u64(p.ip.protocol) << 40 | u64(vlan)
        if self.key_anno is not None:
            low |= u64(p.anno_u8(self.key_anno)) << 16
        return u128(p.net.u64(12)) << 64 | u128(low)

    # -- slots

    def claim(self, key: u128) -> u32:
        """A slot for a new packet; the oldest one's where all are used."""
        found: u32 = NOWHERE
        oldest: u32 = 0
        for i in bounded(self.places, self.places):
            if not self.slots.used(i):
                found = i
                break
            if self.born[i] < self.born[oldest]:
                oldest = i
        if found == NOWHERE:
            found = oldest
            a = self.slots.take(oldest)
            if a is not None:
                self.forget(self.key(a))
                self.failed += 1
                self.kill(a, "made room for a newer packet")
        self.find.set(key, found)
        self.due[found] = now() + self.timeout
        self.born[found] = self.births
        self.births += 1
        self.end[found] = 0
        self.head[found] = 0
        self.mtu[found] = 0
        for w in range(WORDS):
            self.bits[found * WORDS + w] = 0
        if not self.waits:
            self.waits = True
            self.timer_at(self.due[found])
        return found

    def forget(self, key: u128):
        self.find.delete(key)

    def timer(self):
        self.waits = False
        next: u64 = NEVER
        for i in bounded(self.places, self.places):
            if self.slots.used(i):
                if self.due[i] > now():
                    next = min(next, self.due[i])
                else:
                    a = self.slots.take(i)
                    if a is not None:
                        self.forget(self.key(a))
                        self.failed += 1
                        if self.head[i] != 0:
                            self.give_up(a, i)
                            self.push(1, a, "reassembly timeout")
                        else:
                            self.kill(a, "reassembly timeout")
        if next != NEVER:
            self.waits = True
            self.timer_at(next)

    # -- data

    def begin(self, p: Packet, i: u32) -> bool:
        """Makes a fragment the beginning of a packet in the making: everything goes to its place in the frame."""
        hlen = u32(p.ip.ihl) * 4
        size, frag = u32(p.ip.total_length) - hlen, u32(p.ip.frag)
        place = AREA + (frag & PLACE) * 8
        front = p.headroom
        p.prepend(front)
        at = u32(p.network_offset)
        link = min(at - front, LINK)
        if place + size > p.length:
            if place + size > p.length + p.tailroom:
                return False
            p.append(place + size - p.length)
        if at + hlen >= AREA:  # in that order neither writes over the other
            p.move(AREA - hlen - link, at - link, hlen + link)
            p.move(place, at + hlen, size)
        else:
            p.move(place, at + hlen, size)
            p.move(AREA - hlen - link, at - link, hlen + link)
        p.trim(p.length - place - size)
        p.set_network(AREA - hlen)
        self.have(i, frag, size, hlen, link)
        return True

    def join(self, a: Packet, p: Packet, i: u32) -> u32:
        """Takes the bytes of fragment `p` into `a`."""
        hlen = u32(p.ip.ihl) * 4
        size, frag = u32(p.ip.total_length) - hlen, u32(p.ip.frag)
        place = AREA + (frag & PLACE) * 8
        upto = place + size - AREA
        if self.end[i] != 0 and (upto > self.end[i] or (frag & MF == 0 and upto != self.end[i])):
            return CONFLICT
        if frag & MF == 0 and a.length - AREA > upto:
            return CONFLICT
        if place + size > a.length:
            if place + size > a.length + a.tailroom:
                return TOO_LONG
            a.append(place + size - a.length)
        a.copy_from(place, p.net, hlen, size)
        link = min(u32(p.network_offset), LINK)
        if frag & PLACE == 0:
            a.copy_from(AREA - hlen - link, p, u32(p.network_offset) - link, hlen + link)
            a.set_network(AREA - hlen)
        self.have(i, frag, size, hlen, link)
        return WHOLE if self.end[i] != 0 and self.gap(i, self.end[i]) >= self.end[i] else MORE

    def have(self, i: u32, frag: u32, size: u32, hlen: u32, link: u32):
        """Notes that the data of a fragment is there."""
        first = frag & PLACE
        last = first + ((size + 7) >> 3)  # the first unit behind
        for w in bounded((last + 63) >> 6, WORDS + 1):
            if (w + 1) << 6 > first and w < WORDS:
                mask: u64 = ALL
                if w << 6 < first:
                    mask = mask << (first & 63)
                if (w + 1) << 6 > last:
                    mask = mask & ~(u64(ALL) << (last & 63))
                self.bits[i * WORDS + w] |= mask
        if frag & MF == 0:
            self.end[i] = first * 8 + size
        if first == 0:
            self.head[i] = hlen + link
        self.mtu[i] = max(self.mtu[i], size + hlen)

    def gap(self, i: u32, end: u32) -> u32:
        """The first of `end` bytes of data that is missing; `end` or more when none is."""
        for w in bounded((end + 511) >> 9, WORDS):
            word = self.bits[i * WORDS + w]
            if word != ALL:
                at: u32 = w << 6
                for _ in range(64):
                    if word & 1 == 0:
                        break
                    word = word >> 1
                    at += 1
                return at * 8
        return end

    def finish(self, a: Packet, i: u32, size: u32, frag: u32):
        """Gives the packet its right size and header."""
        a.trim(a.length - AREA - size)
        hlen = AREA - u32(a.network_offset)
        a.ip.total_length = u16(hlen + size)
        a.ip.frag = u16(frag)
        a.ip.checksum = 0
        a.ip.checksum = u16(~a.net.sum16(0, hlen))
        a.set_transport(AREA)
        if self.max_mtu_anno is not None:
            a.set_anno_u16(self.max_mtu_anno, u16(self.mtu[i]))

    def give_up(self, a: Packet, i: u32):
        """Shapes what has come as one fragment, the first."""
        self.finish(a, i, min(self.gap(i, a.length - AREA), a.length - AREA), MF)
        a.strip(AREA - self.head[i])

    def deliver(self, p: Packet, a: Packet, i: u32):
        """The last fragment to come becomes the whole packet, so that it goes on by the way it was on."""
        self.finish(a, i, self.end[i], u32(a.ip.frag) & KEPT)
        p.prepend(p.headroom)
        if p.length < a.length:
            p.append(a.length - p.length)
        p.trim(p.length - a.length)
        p.copy_from(0, a, 0, a.length)
        p.set_network(a.network_offset)
        p.set_transport(AREA)
        p.set_mac(None)
        if self.max_mtu_anno is not None:
            p.set_anno_u16(self.max_mtu_anno, u16(self.mtu[i]))
        p.strip(AREA - self.head[i])
