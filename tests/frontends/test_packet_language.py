"""What the packet language means, feature by feature, on every target."""

from __future__ import annotations

import pytest

from mezzo.elements import (
    LPM,
    Arg,
    Array,
    Blob,
    Buffer,
    Int,
    LRUTable,
    Packet,
    Port,
    Ring,
    Slots,
    Table,
    bounded,
    checksum_adjust,
    i64,
    library,
    randrange,
    u8,
    u16,
    u32,
    u48,
    u64,
    u128,
)
from mezzo.elements import Element as Base
from mezzo.runtime import Router
from mezzo.wire.ethernet import Ethernet
from tests.vectors import run_both


class Element(Base):
    """Test elements become known by being defined."""

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        library.register(cls)


def ends(text: str, packets: list[bytes], want: list[bytes], **more):
    return run_both(f"in0 :: Feed -> {text} -> out0 :: Collect;", {"in0": packets}, {"out0": want}, **more)


class LangArithmetic(Element):
    """Writes results of arithmetic over two bytes of input."""

    def process(self, p: Packet) -> Port:
        a = u64(p.u32(0))
        b = u64(p.u32(4))
        p.set_u64(0, a * b + (a ^ b) - (a & 0xFF))
        p.set_u32(8, u32(a // b) + u32(a % b))
        p.set_u16(12, u16(a) << 4 | u16(b) >> 12)
        x: u8 = 200
        x += u8(b)
        p.set_u8(14, x)
        p.set_u8(15, u8(-1 if a > b else 1))
        return 0


@pytest.mark.parametrize(
    ("a", "b"), [(0, 0), (1, 0), (7, 3), (0xFFFFFFFF, 0xFFFFFFFF), (0x12345678, 0x1234), (5, 0x80000000)]
)
def test_arithmetic_wraps_and_divides_as_defined(a, b):
    quotient, rest = (a // b, a % b) if b else (0, a)
    want = ((a * b + (a ^ b) - (a & 0xFF)) & (2**64 - 1)).to_bytes(8, "big")
    want += ((quotient + rest) & 0xFFFFFFFF).to_bytes(4, "big")
    want += (((a & 0xFFFF) << 4 & 0xFFFF) | (b & 0xFFFF) >> 12).to_bytes(2, "big")
    want += bytes([(200 + b) & 0xFF, 0xFF if a > b else 1])
    ends("LangArithmetic", [a.to_bytes(4, "big") + b.to_bytes(4, "big") + bytes(8)], [want])


class LangSigned(Element):
    """Signed numbers."""

    out: Array[u64, 4]

    def process(self, p: Packet) -> Port:
        a: i64 = i64(p.u8(0)) - 128
        b: i64 = i64(p.u8(1)) - 128
        p.set_u64(2, u64(a // b))
        p.set_u64(10, u64(a % b))
        p.set_u64(18, u64(a >> 1))
        p.set_u8(26, u8(a < b) + u8(a == b) * 2)
        return 0


@pytest.mark.parametrize(("a", "b"), [(-7, 2), (7, -2), (-7, -2), (-128, 0), (5, 5), (-1, 127)])
def test_signed_numbers_truncate_and_compare(a, b):
    quotient = int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    rest = a - b * quotient
    want = bytes([a + 128, b + 128]) + b"".join((x & (2**64 - 1)).to_bytes(8, "big") for x in (quotient, rest, a >> 1))
    ends("LangSigned", [bytes([a + 128, b + 128]) + bytes(25)], [want + bytes([(a < b) + (a == b) * 2])])


class LangHeaders(Element):
    """Header fields of all kinds of alignment."""

    def process(self, p: Packet) -> Port:
        p.set_network(14)
        ip = p.ip
        ip.version = 6
        ip.df = True
        ip.fragment_offset = 0x1ABC
        ip.ttl = ip.ttl + 1
        eth = p.view(Ethernet, 0)
        eth.src = eth.dst
        p.net.set_u8(1, u8(ip.ihl) + u8(p.eth.type >> 8))
        return 0


def test_header_fields_change_only_their_bits():
    frame = bytearray(range(34))
    want = bytearray(frame)
    want[6:12] = want[0:6]
    want[14] = 0x60 | (frame[14] & 0x0F)
    want[20] = (frame[20] & 0x80) | 0x40 | (frame[20] & 0x20) | 0x1A
    want[21] = 0xBC
    want[22] = frame[22] + 1
    want[15] = (frame[14] & 0x0F) + frame[12]
    ends("LangHeaders", [bytes(frame)], [bytes(want)])


class LangLoops(Element):
    """Loops, break, continue, unrolled configuration."""

    weights = (3, 5, 7)
    pairs = ((0, 1), (2, 10))
    bytes_: u32

    def process(self, p: Packet) -> Port:
        total: u32 = 0
        for i in bounded(p.length, 64):
            if p.u8(i) == 0:
                break
            if p.u8(i) == 1:
                continue
            total += p.u8(i)
        for i in range(2, 5):
            total += i
        for w in self.weights:
            total = total * w
        for at, factor in self.pairs:
            total += u32(p.u8(at)) * factor
        p.append(4)
        p.set_u32(p.length - 4, total)
        return 0


def test_loops():
    data = bytes([5, 1, 6, 0, 9])
    total = (5 + 6 + 2 + 3 + 4) * 3 * 5 * 7 + 5 + 60
    ends("LangLoops", [data], [data + total.to_bytes(4, "big")])


def test_more_rounds_than_declared_fault():
    ends("l :: LangLoops", [bytes([2] * 65)], [], drops={("l", "fault"): 1})


class LangState(Element):
    """Arrays, tables, scalars."""

    seen: Table[u32, u32, 2]
    sums: Array[u16, 4]
    full: u64
    limit = Arg(Int(), 3, live=i64)
    reads = ("full",)

    def process(self, p: Packet) -> Port:
        key = u32(p.u8(0))
        if not self.seen.set(key, self.seen.get(key) + 1):
            self.full += 1
        self.sums[key & 3] += 0x8001
        self.sums[3] = u16(self.limit)
        p.append(8)
        p.set_u32(1, self.seen.get(key, 99))
        p.set_u16(5, self.sums[key & 3])
        p.set_u8(7, u8(len(self.seen)) * 2 + u8(key in self.seen))
        if key == 9:
            self.seen.delete(1)
        return 0


def test_state():
    give = [bytes([k]) for k in (1, 1, 2, 9, 1, 4)]
    rows = [(1, 1, 0x8001, 3), (1, 2, 2, 3), (2, 1, 0x8001, 5), (9, 99, 0x8003, 4), (1, 1, 4, 5), (4, 99, 0x8001, 4)]
    want = [bytes([k]) + v.to_bytes(4, "big") + s.to_bytes(2, "big") + bytes([n, 0]) for k, v, s, n in rows]
    ends("l :: LangState", give, want, reads={"l.full": "2", "l.limit": "3"})


class LangIndex(Element):
    """Indexes with what the packet says."""

    places: Array[u32, 4]

    def process(self, p: Packet) -> Port:
        self.places[u32(p.u8(0))] = 1
        return 0


def test_an_index_outside_kills_the_packet_only():
    ends("l :: LangIndex", [b"\x03", b"\x04", b"", b"\x00"], [b"\x03", b"\x00"], drops={("l", "fault"): 2})


class LangHold(Element):
    """Rings and slots; swaps the order of pairs."""

    ports, processing = "1/1", "h/h"
    slots: Slots[2]
    ring: Ring[2]

    def push(self, port, p):
        if not self.slots.used(0):
            self.slots.put(0, p)
            return
        self.ring.push(p)
        first = self.slots.take(0)
        if first is not None:
            self.ring.push(first)
        a = self.ring.pop()
        if a is None:
            return
        self.push(0, a)
        b = self.ring.pop_back()
        if b is not None:
            self.push(0, b)


def test_rings_and_slots():
    ends("LangHold", [b"1", b"2", b"3", b"4", b"5"], [b"2", b"1", b"4", b"3"])


class LangCopies(Element):
    """Clones, new packets, blobs, copies between packets."""

    ports, processing = "1/1", "h/h"
    text: Blob

    def configure(self):
        self.text.bind(b"hello")

    def push(self, port, p):
        q = p.clone()
        if q is not None:
            q.paint = 7
            q.prepend(2)
            q.write(0, self.text, 1, 2)
            q.set_u8(2, q.paint)
            self.push(0, q)
        r = self.make(4)
        if r is not None:
            r.copy_from(1, p, 0, 3)
            self.push(0, r)
        s = self.make_from(self.text, 0, 5)
        if s is not None:
            s.move(1, 0, 4)
            s.trim(1)
            s.strip(1)
            self.push(0, s)
        self.push(0, p)


def test_clones_and_new_packets():
    ends("LangCopies", [b"abcdef"], [b"el\x07bcdef", b"\0abc", b"hel", b"abcdef"])


def test_a_copy_outside_kills_what_is_held_and_nothing_leaks():
    # `r` is made before the fault and must not stay behind; the clone has left.
    ends("l :: LangCopies", [b"ab"], [b"el\x07b"], drops={("l", "fault"): 1})


class LangChecksum(Element):
    """Checksums, folded and adjusted."""

    def process(self, p: Packet) -> Port:
        total = p.sum16(0, p.length)
        p.append(4)
        p.set_u16(p.length - 4, total)
        p.set_u16(p.length - 2, checksum_adjust(p.u16(0), 0x4011, 0x3F11))
        return 0


@pytest.mark.parametrize("data", [b"\xfe\xff", b"\xfe\xff\x01", bytes(range(60)), b"\xff" * 1400])
def test_checksums(data):
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    head = int.from_bytes(data[:2], "big")
    adjusted = (head ^ 0xFFFF) + (0x4011 ^ 0xFFFF) + 0x3F11
    adjusted = (adjusted & 0xFFFF) + (adjusted >> 16)
    adjusted = ((adjusted & 0xFFFF) + (adjusted >> 16)) ^ 0xFFFF
    ends("LangChecksum", [data], [data + total.to_bytes(2, "big") + adjusted.to_bytes(2, "big")])


class LangForgets(Element):
    """A table of two that forgets; looks that are not taken are none."""

    last: LRUTable[u32, u32, 2]

    def configure(self):
        self.last.set(7, 7)

    def note(self, x: u32) -> u32:
        return 2 * x + 1

    def process(self, p: Packet) -> Port:
        key = u32(p.u8(0))
        p.append(8)
        fits = self.last.set(key, self.note(self.last.get(key)))
        one = key == 2 and 1 in self.last
        many = key == 9 or 1 not in self.last
        got = self.last.get(7, 99) if key == 3 else 50
        if key == 4:
            self.last.get(7)
        p.set_u32(1, got)
        p.set_u8(5, u8(fits) * 4 + u8(one) * 2 + u8(many))
        p.set_u8(6, u8(len(self.last)))
        p.set_u16(7, u16(self.last.get(key, 99)))
        return u32(not self.last)


def test_tables_that_forget():
    """(key, got, set and looks, how many, value) by hand; python and native forget the same ones."""
    rows = [
        (7, 50, 5, 1, 15),  # 7
        (1, 50, 4, 2, 1),  # 7 1
        (2, 50, 6, 2, 1),  # 1 2: the look finds 1, and 2 is looked for last
        (3, 99, 4 + 1, 2, 1),  # 2 3: 1 went, though it was looked for before 2
        (9, 50, 5, 2, 1),  # 3 9: no look for 1 at all
        (7, 50, 5, 2, 1),  # 9 7
        (9, 50, 5, 2, 3),  # 7 9
        (4, 50, 5, 2, 1),  # 9 4
        (9, 50, 5, 2, 7),
    ]
    give = [bytes([row[0]]) for row in rows]
    want = [
        bytes([key]) + got.to_bytes(4, "big") + bytes([said, count]) + value.to_bytes(2, "big")
        for key, got, said, count, value in rows
    ]
    ends("l :: LangForgets", give, want)


def test_a_word_for_the_ports_is_no_method():
    with pytest.raises(TypeError, match="LangFlow: `flow` is a text that says how its ports are"):

        class LangFlow(Base):
            def flow(self, p: Packet) -> u32:
                return 0


class LangWide(Element):
    """Keys of 48 and 128 bits."""

    macs: Table[u48, u32, 8]
    flows: Table[u128, u128, 8]
    routes: LPM[u32]

    def configure(self):
        self.macs.set(0x0000C0AE67EF, 5)
        self.routes.add(0x0A000000, 8, 1)
        self.routes.add(0x0A010000, 16, 2)
        self.routes.add(0, 0, 3)

    def process(self, p: Packet) -> Port:
        out = self.macs.get(p.u48(0), 77)
        key = p.u128(0)
        self.flows.set(key, self.flows.get(key) + (u128(1) << 100) + 1)
        found = self.flows.get(key)
        p.append(24)
        p.set_u32(16, out)
        p.set_u128(20, found)
        p.set_u32(36, self.routes.lookup(p.u32(6), 9))
        return 0


def test_wide_keys_and_prefixes():
    frames = [
        bytes.fromhex("0000c0ae67ef") + a + bytes(6) for a in (b"\x0a\x01\x02\x03", b"\x0a\x02\x02\x03", b"\x0b\0\0\0")
    ]
    flow = ((1 << 100) + 1).to_bytes(16, "big")
    ends(
        "LangWide",
        frames,
        [f + b"\0\0\0\5" + flow + n.to_bytes(4, "big") for f, n in zip(frames, (2, 1, 3), strict=True)],
    )


class LangBuffer(Element):
    """Bytes for Python."""

    log: Buffer[64]

    def process(self, p: Packet) -> Port:
        self.log.put(u16(p.length))
        self.log.put_packet(p, 1, p.length - 1)
        return 0


@pytest.mark.parametrize("target", ["python", "native"])
def test_buffers_hand_bytes_to_python(target):
    with Router.from_click("in0 :: Feed -> l :: LangBuffer -> out0 :: Collect;", target=target) as router:
        router.feed("in0", [b"xabc", b"xde", b"y" * 100])
        router.run()
        assert bytes(router.elements["l"].log.view()) == b"\4\0abc\3\0de\x64\0"
        assert router.drops() == {("l", "fault"): 1}
        router.collect("out0")


class LangChance(Element):
    """Random numbers."""

    def process(self, p: Packet) -> Port:
        p.set_u32(0, randrange(10))
        return 0


def test_random_numbers_are_seeded_and_bounded():
    first = run_both(
        "in0 :: Feed -> LangChance -> out0 :: Collect;", {"in0": [bytes(4)] * 200}, outputs=["out0"], seed=7
    )
    other = run_both(
        "in0 :: Feed -> LangChance -> out0 :: Collect;", {"in0": [bytes(4)] * 200}, outputs=["out0"], seed=8
    )
    numbers = [int.from_bytes(x, "big") for x in first["out"]["out0"]]
    assert set(numbers) == set(range(10))
    assert first["out"] != other["out"]


class LangTimer(Element):
    """Emits a packet a second, three times."""

    ports, processing = "0/1", "/h"
    count: u32

    def init(self):
        self.timer_after(1_000_000_000)

    def timer(self):
        p = self.make(8)
        if p is not None:
            from_start = p.length
            p.set_u64(0, now_() + from_start - 8)
            self.push(0, p)
        self.count += 1
        if self.count < 3:
            self.timer_after(1_000_000_000)


from mezzo.elements import now as now_  # noqa: E402


def test_timers_in_virtual_time():
    want = [(n * 10**9).to_bytes(8, "big") for n in (1, 2, 3)]
    run_both("LangTimer -> out0 :: Collect;", want={"out0": want})


class LangHelpers(Element):
    """Methods and functions as helpers."""

    def double(self, x: u32) -> u32:
        return x * 2

    def mark(self, p: Packet, value: u8):
        p.set_u8(0, value)

    def process(self, p: Packet) -> Port:
        self.mark(p, u8(self.double(u32(p.u8(0)))))
        p.set_u8(1, u8(triple(u32(p.u8(1)))))
        return 0 if p.u8(0) > 4 else 1, "small"


def triple(x: u32) -> u32:
    return x * 3


def test_helpers_and_reasons():
    ends("l :: LangHelpers", [b"\3\3", b"\2\2", b"\1"], [b"\6\x09"], drops={("l", "small"): 1, ("l", "fault"): 1})


def test_names_of_the_contract_are_refused():
    with pytest.raises(TypeError, match="`cells` is a name every element uses"):

        class LangCells(Base):
            cells: u32


class LangOneOf(Element):
    """Answers whether a byte is one of several, written in place and made in configuration."""

    known = tuple(range(100, 200))

    def process(self, p: Packet) -> Port:
        x = p.u8(0)
        first = x in (3, 5, p.u8(1))
        second = x not in self.known
        p.set_u8(0, u8(first) * 2 + u8(second))
        return 0


def test_in_looks_for_one_of_several():
    given = [(3, 0), (5, 0), (9, 9), (9, 8), (100, 0), (199, 199), (200, 0)]
    want = [(3, 0), (3, 0), (3, 9), (1, 8), (0, 0), (2, 199), (1, 0)]
    ends("LangOneOf", [bytes(x) for x in given], [bytes(x) for x in want])


class LangEither(Element):
    """A conditional expression whose branches act, or would fault."""

    low: u32
    high: u32
    reads = ("low", "high")

    def process(self, p: Packet) -> Port:
        first = p.u8(0) if p.length > 0 else 0
        self.high += self.tall() if first > 0 else self.short()
        return 0

    def short(self) -> u32:
        self.low += 1
        return 0

    def tall(self) -> u32:
        return 2


def test_a_conditional_expression_does_what_its_branch_does():
    packets = [b"", b"\0", b"\1\2"]
    ends("x :: LangEither", packets, packets, reads={"x.low": "2", "x.high": "2"}, drops={})
