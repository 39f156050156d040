"""TCPRewriter: translation that can also shift the sequence numbers of a stream whose length was changed on its way.

Each direction has a shift for bytes from a sequence number on, and one for those in front of it.  Numbers of a stream
stand in its own packets, and, as the other end saw them, in the acknowledgments that come back, SACK's too (RFC 2018).
What is in front of the last but one change gets the shift of the last but one: it was acknowledged long ago.
"""

from mezzo.elements import Array, ConfigError, Packet, checksum_adjust, entry, rare, read, u16, u32, write
from mezzo.elements.confparse import split_words
from mezzo.elements.ip_rewriter import _ByTcp
from mezzo.elements.rewriter_flows import LIVES

HALF = 1 << 31  # RFC 9293, 3.4: what is less than that away is ahead
FIRST_OPTION, MOST_OPTIONS = 20, 40
END, NO_OPERATION, SACK = 0, 1, 5
SEQ, ACK, ACK_FLAG, SYN = 4, 8, 16, 2
DOUBLE = 2 * (65536 + LIVES)


class TCPRewriter(_ByTcp):
    """As IPRewriter, for TCP alone, with sequence numbers that can be shifted.

    Who makes the payload of a flow longer or shorter writes `SADDR SPORT DADDR DPORT SEQ DELTA` to the handler `shift`:
    numbers of packets with these addresses and ports grow by DELTA from SEQ on, and what the other side acknowledges
    shrinks by as much.
    """

    udp = False
    ways = DOUBLE
    shifted: u32  # is any flow
    since: Array[u32, "ways"]
    ahead: Array[u32, "ways"]
    behind: Array[u32, "ways"]
    see = ("IPRewriter", "UDPRewriter")
    example = """
        r :: TCPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0);
        Idle -> r; r -> Discard;
    """
    example_reads = {"r.nmappings": "0", "r.patterns": "1.0.0.1 1024-65535# - -\n"}

    def configure(self):
        _ByTcp.configure(self)
        self.ways = 2 * self.places

    def begin(self, f: u32):
        for way in range(2):
            self.since[2 * f + way] = 0
            self.ahead[2 * f + way] = 0
            self.behind[2 * f + way] = 0

    def change(self, p: Packet, e: u32):
        if self.shifted != 0:
            self.shift_numbers(p, e)

    @rare
    def shift_numbers(self, p: Packet, e: u32):
        seq = p.tcp.seq
        if self.shift_of(e, seq) != 0:
            self.put_number(p, SEQ, seq + self.shift_of(e, seq))
        if p.tcp.flags & ACK_FLAG != 0:
            self.put_number(p, ACK, self.acknowledged(e ^ 1, p.tcp.ack))
        if p.tcp.offset > 5 and self.ahead[e ^ 1] != 0:
            self.shift_options(p, e)

    def shift_options(self, p: Packet, e: u32):
        """SACK's blocks."""
        size = u32(p.tcp.offset) * 4
        at: u32 = FIRST_OPTION
        for _ in range(MOST_OPTIONS):
            if at + 2 > size:
                return
            kind = p.trans.u8(at)
            if kind == END:
                return
            if kind == NO_OPERATION:
                at += 1
            else:
                length = u32(p.trans.u8(at + 1))
                if length < 2 or at + length > size:
                    return
                if kind == SACK:
                    for i in range(8):
                        if 2 + 4 * i + 4 <= length:
                            place = at + 2 + 4 * i
                            self.put_number(p, place, self.acknowledged(e ^ 1, p.trans.u32(place)))
                at += length

    def shift_of(self, e: u32, seq: u32) -> u32:
        return self.ahead[e] if seq - self.since[e] < HALF else self.behind[e]

    def acknowledged(self, e: u32, number: u32) -> u32:
        """The number that the sender of direction `e` knows."""
        before = number - self.ahead[e]
        if before - self.since[e] < HALF:
            return before
        # Part of what was put in, without what follows: nothing new is acknowledged.
        before = number - self.behind[e]
        return self.since[e] if before - self.since[e] < HALF else before

    def put_number(self, p: Packet, at: u32, number: u32):
        was = p.trans.u32(at)
        high, low, new_high, new_low = u16(was >> 16), u16(was), u16(number >> 16), u16(number)
        if at & 1 == 1:  # RFC 1071, 2 (B): at an odd place bytes count the other way round
            high, low = (high << 8) | (high >> 8), (low << 8) | (low >> 8)
            new_high, new_low = (new_high << 8) | (new_high >> 8), (new_low << 8) | (new_low >> 8)
        p.tcp.checksum = checksum_adjust(checksum_adjust(p.tcp.checksum, high, new_high), low, new_low)
        p.trans.set_u32(at, number)

    @entry
    def set_shift(self, e: u32, since: u32, delta: u32):
        self.shifted = 1
        self.behind[e] = self.ahead[e]
        self.ahead[e] += delta
        self.since[e] = since

    @write("shift", "shifts the numbers of a flow: SADDR SPORT DADDR DPORT SEQ DELTA")
    def write_shift(self, text):
        words = split_words(text)
        if len(words) != 6 or not words[4].isdigit() or not words[5].lstrip("+-").isdigit():
            raise ConfigError(
                f"`{text}`: write SADDR SPORT DADDR DPORT SEQ DELTA, such as 10.0.0.2 5000 9.9.9.9 21 1000 3"
            )
        key = self.flow_of(["tcp", *words[:4]])
        if self.after(*key) is None:
            raise ConfigError(f"`{text}`: there is no such flow")
        e = self.find.get(key[1] << 64 | key[2] << 32 | key[0], 0)
        self.call("set_shift", e, int(words[4]) & 0xFFFF_FFFF, int(words[5]) & 0xFFFF_FFFF)

    @read("shifts", "flows whose numbers are shifted: SADDR SPORT DADDR DPORT SEQ DELTA, the sum of all deltas")
    def shifts(self):
        text = ""
        for f in self.living() if self.shifted else ():
            for e in (2 * f, 2 * f + 1):
                if self.ahead[e]:
                    delta = self.ahead[e] - (self.ahead[e] >> 31 << 32)
                    text += f"{self.plain(e)} {self.since[e]} {delta:+}\n"
        return text
