"""IPFilter and IPClassifier: Click's language, its refusals, and random programs against a plain evaluator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.packet import Raw

from mezzo.base import MezzoError
from mezzo.elements.args import Env
from mezzo.elements.filter_language import parse_pattern
from mezzo.pipeline import compile_text


def router(cls: str, filters: list[str], outputs: int, before: str = "") -> str:
    sinks = " ".join(f"c[{i}] -> Unstrip(0) -> out{i} :: Collect;" for i in range(outputs))
    return f"{before} in0 :: Feed -> MarkIPHeader(0) -> c :: {cls}({', '.join(filters)}); {sinks}"


def run(vectors: Any, text: str, packets: list[Any], outputs: int) -> list[list[int]]:
    """For each output the numbers of the packets that left there."""
    given = [bytes(p) for p in packets]
    marked = [p + number.to_bytes(4, "big") for number, p in enumerate(given)]
    names = [f"out{i}" for i in range(outputs)]
    got = vectors(text, give={"in0": marked}, outputs=names)["out"]
    return [[int.from_bytes(p[-4:], "big") for p in got[name]] for name in names]


def classify(vectors: Any, patterns: list[str], packets: list[Any], before: str = "") -> list[list[int]]:
    return run(vectors, router("IPClassifier", patterns, len(patterns), before), packets, len(patterns))


def passed(vectors: Any, filters: list[str], packets: list[Any], before: str = "") -> list[int]:
    return run(vectors, router("IPFilter", filters, 1, before), packets, 1)[0]


def hosts(src: str, dst: str) -> IP:
    return IP(src=src, dst=dst) / UDP(sport=1, dport=2)


def test_Bo01_not_equal_binds_to_src_or_dst(vectors: Any) -> None:
    pairs = [hosts("5.0.0.1", "6.0.0.1"), hosts("6.0.0.1", "5.0.0.1"), hosts("6.0.0.1", "7.0.0.1")]
    assert passed(vectors, ["allow src or dst host != 5.0.0.1"], pairs) == [2]


def test_Bo03_missing_bytes(vectors: Any) -> None:
    """A comparison of missing bytes is false, and only `not` turns that round."""
    udp = bytes(IP(src="1.2.3.4", dst="5.6.7.8") / UDP(sport=0x1280, dport=2))
    packets = [udp[:21], udp, bytes(IP(src="1.2.3.4", dst="5.6.7.8") / UDP(sport=0x1200, dport=2))]
    names = ["out0", "out1"]
    for pattern, want in (("transp[1]&128!=0", [1]), ("not (transp[1]&128==0)", [0, 1])):
        text = router("IPClassifier", [pattern, "-"], 2)
        got = vectors(text, give={"in0": packets}, outputs=names)["out"]["out0"]
        assert got == [packets[i] for i in want]


@pytest.mark.slow
def test_Bo03_half_a_port_is_no_port(vectors: Any) -> None:
    """The first byte would decide most of these."""
    full = bytes(IP(src="1.2.3.4", dst="5.6.7.8") / UDP(sport=0x1280, dport=0x1280))
    packets = [full[:23], full]
    for pattern in ("dst port > 80", "dst port >= 80", "dst port <= 60000", "dst port != 80", "src and dst port > 80"):
        text = router("IPClassifier", [pattern, "-"], 2)
        assert vectors(text, give={"in0": packets}, outputs=["out0", "out1"])["out"]["out0"] == [full], pattern


def test_Bo04_ports_in_later_fragments(vectors: Any) -> None:
    packets = [IP(frag=f & 0x1FFF, flags=f >> 13) / UDP(sport=53, dport=53) for f in (0, 0x2000, 5)]
    assert classify(vectors, ["udp port 53", "not udp port 53", "-"], packets) == [[0, 1], [2], []]


def test_Bo05_an_unreachable_branch(vectors: Any) -> None:
    filters = [
        "allow udp && dst 172.16.9.0/32 && src 198.51.100.0/32",
        "allow udp && dst 172.16.9.0/32 && dst port 53 && src 198.51.100.0/32",
        "allow all",
    ]
    assert passed(vectors, filters, [hosts("198.51.100.0", "172.16.9.0"), hosts("1.1.1.1", "2.2.2.2")]) == [0, 1]
    plan = compile_text(router("IPFilter", filters, 1))
    assert any("pattern 1 matches no packets" in str(w) for w in plan.warnings)


@pytest.mark.parametrize(
    ("pattern", "trouble"),
    [
        ("foo", "`foo` is no address"),
        ("src host", "a value is missing behind `host`"),
        ("host 1.2.3", "`1.2.3` is not an IP address"),
        ("src net 1.2.3.4/33", "`1.2.3.4/33`"),
        ("port 99999", "`99999` is out of range: a port is 0 to 65535"),
        ("udp src port 1-100", "`1-100` is not a port"),
        ("and", "expected a value, not `and`"),
        ("(", "a value is missing"),
        ("(tcp", "without `\\)`"),
        ("tcp)", "`\\)` does not fit"),
        ("tcpp", "did you mean `tcp`"),
        ("6", "say what the number is"),
        ("echo", "write `port echo` or `icmp type echo`"),
        ("src host < 1.2.3.4", "cannot compare addresses"),
        ("tcp opt != syn", "no relation"),
        ("ip ttl 256", "0 to 255"),
        ("ip[3:2] 5", "one word of four"),
        ("src port & 0x1ffff == 1", "more bits"),
        ("icmp port 3", "for tcp and udp"),
        ("tcp ? udp", "` : `"),
        ("", "is empty"),
        ("(" * 200 + "tcp", "nested"),
    ],
)
def test_Bo06_garbage(pattern: str, trouble: str) -> None:
    with pytest.raises(ValueError, match=trouble):
        parse_pattern(pattern, Env())
    if pattern.count("(") == pattern.count(")"):
        with pytest.raises(MezzoError, match=f"pattern 1: .*{trouble}"):
            compile_text(router("IPFilter", ["allow tcp", f"allow {pattern}"], 1))


def test_Bo06_an_open_bracket_in_a_filter() -> None:
    """It is open in the configuration string already, so the language says where."""
    with pytest.raises(MezzoError, match=r"this `\(` is never closed"):
        compile_text("Idle -> IPFilter(allow tcp, allow () -> Discard;")


def test_actions(vectors: Any) -> None:
    text = router("IPFilter", ["1 tcp", "drop udp", "allow icmp"], 2)
    packets = [IP() / TCP(), IP() / UDP(), IP() / ICMP(), IP(proto=47) / Raw(bytes(20))]
    given = {"in0": [bytes(p) for p in packets]}
    vectors(text, give=given, want={"out0": [given["in0"][2]], "out1": [given["in0"][0]]}, drops={("c", "denied"): 2})
    for filters, trouble in ((["pass tcp"], "`pass` is no action"), (["1 tcp"], "there is no output 1")):
        with pytest.raises(MezzoError, match=trouble):
            compile_text(router("IPFilter", filters, 1))


def test_Bo07_names(vectors: Any) -> None:
    info = "AddressInfo(a 18.26.4.9/24 00:01:02:03:04:05);"
    packets = [hosts("18.26.4.77", "1.1.1.1"), hosts("18.26.4.9", "1.1.1.1"), hosts("1.1.1.1", "18.26.4.9")]
    assert passed(vectors, ["allow src net a"], packets, info) == [0, 1]
    assert passed(vectors, ["allow src a"], packets, info) == [1]


def test_Bo09_lists_and_names(vectors: Any) -> None:
    dns = [IP() / UDP(sport=53, dport=9), IP() / UDP(sport=9, dport=53), IP() / TCP(sport=53, dport=443)]
    rest = [IP() / ICMP(), IP() / TCP(sport=80, dport=5)]
    packets = dns + rest
    assert classify(vectors, ["ip proto 6 or 17"], packets) == [[0, 1, 2, 4]]
    assert classify(vectors, ["port 80 or 443"], packets) == [[2, 4]]
    assert classify(vectors, ["udp dns"], packets) == [[0, 1]]
    assert classify(vectors, ["dst udp port dns"], packets) == [[1]]


def test_what_can_be_left_out(vectors: Any) -> None:
    syn, ack = IP(dst="10.1.1.1") / TCP(flags="S"), IP(dst="10.1.1.1") / TCP(flags="FA")
    ping, mark = IP() / ICMP(type=8), IP(tos=3, ttl=7) / ICMP(type=0)
    packets = [syn, ack, ping, mark]
    wants = {
        "10.0.0.0/8 and syn": [0], "fin ack": [1], "tcp": [0, 1], "icmp echo": [2], "icmp type echo": [2], "ce": [3],
        "ip ttl < 10": [3], "ip tos & 3 == 3": [3], "icmp type != 8": [3], "tcp ? syn : ip ce": [0, 3],
        "not tcp": [2, 3], "!(tcp || ip ce)": [2], "dst net 10.1.0.0 mask 255.255.0.0": [0, 1], "ip hl 5": [0, 1, 2, 3],
        "unfrag and ip vers 4 and not icmp": [0, 1], "tcp[13] & 0x12 == 2": [0], "false": [],
    }  # fmt: skip
    for pattern, want in wants.items():
        assert classify(vectors, [pattern, "-"], packets)[0] == want, pattern


# -- Bo02: random programs -------------------------------------------------------------------------------------------

Judge = Callable[[bytes], bool]
MISSING = -1


def field(p: bytes, at: int, size: int) -> int:
    return int.from_bytes(p[at : at + size], "big") if at + size <= len(p) else MISSING


def transport(p: bytes, at: int, size: int) -> int:
    return field(p, 4 * (p[0] & 15) + at, size)


def is_first(p: bytes) -> bool:
    return field(p, 6, 2) & 0x1FFF == 0


def has_port(p: bytes, at: int) -> bool:
    return p[9] in (6, 17) and is_first(p) and transport(p, at, 2) >= 0


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def primitive(chance: random.Random) -> tuple[str, Judge]:
    kind = chance.choice(["proto", "port", "host", "frag", "tos", "ttl", "icmp", "flag"])
    relation = chance.choice(list(RELATIONS))
    holds = RELATIONS[relation]
    if kind == "proto":
        value = chance.choice([1, 6, 17])
        return f"ip proto {relation} {value}", lambda p: holds(p[9], value)
    if kind == "port":
        value, at = chance.choice([53, 80, 1023]), chance.choice([0, 2])
        text = f"{'dst' if at else 'src'} port {relation} {value}"
        sure = relation in ("==", ">", ">=")
        return text, lambda p: (sure or has_port(p, 2 - at)) and has_port(p, at) and holds(transport(p, at, 2), value)
    if kind == "host":
        length, at = chance.choice([8, 30, 32]), chance.choice([12, 16])
        text = f"{'src' if at == 12 else 'dst'} net 10.0.0.{chance.choice([0, 4])}/{length}"
        network = int.from_bytes(bytes(map(int, text.split()[-1].split("/")[0].split("."))), "big")
        return text, lambda p: field(p, at, 4) >> (32 - length) == network >> (32 - length)
    if kind == "frag":
        return "ip frag", lambda p: field(p, 6, 2) & 0x3FFF != 0
    if kind == "tos":
        mask, value = chance.choice([3, 0xFC, 255]), chance.choice([0, 3, 0x10])
        return f"ip tos & {mask} {relation} {value}", lambda p: holds(p[1] & mask, value)
    if kind == "ttl":
        value = chance.randrange(256)
        return f"ip ttl {relation} {value}", lambda p: holds(p[8], value)
    if kind == "icmp":
        value = chance.choice([0, 3, 8])
        return (
            f"icmp type {relation} {value}",
            lambda p: p[9] == 1 and is_first(p) and transport(p, 0, 1) >= 0 and holds(transport(p, 0, 1), value),
        )
    bit, name = chance.choice([(2, "syn"), (16, "ack")])
    return (
        f"tcp opt {name}",
        lambda p: p[9] == 6 and is_first(p) and transport(p, 13, 1) > 0 and bool(transport(p, 13, 1) & bit),
    )


def expression(chance: random.Random, depth: int) -> tuple[str, Judge]:
    how = chance.choice(["one", "not", "and", "or"]) if depth else "one"
    a, holds_a = primitive(chance) if how == "one" else expression(chance, depth - 1)
    if how == "one":
        return a, holds_a
    if how == "not":
        return f"not ({a})", lambda p: not holds_a(p)
    b, holds_b = expression(chance, depth - 1)
    if how == "and":
        return f"({a}) and ({b})", lambda p: holds_a(p) and holds_b(p)
    return f"({a}) || ({b})", lambda p: holds_a(p) or holds_b(p)


def random_packet(chance: random.Random) -> bytes:
    words = chance.choice([5, 5, 5, 6, 15])
    head = bytearray(chance.randbytes(4 * words))
    head[0] = 0x40 | words
    head[1], head[8] = chance.choice([0, 3, 0x10, 0x13]), chance.randrange(256)
    head[6:8] = chance.choice([0, 0, 0x4000, 0x2000, 5]).to_bytes(2, "big")
    head[9] = chance.choice([1, 6, 17, 47])
    head[12:20] = bytes([10, 0, 0, chance.randrange(8), 10, 0, 0, chance.randrange(8)])
    ports = [chance.choice([53, 80, 1023, 1024, 8]) for _ in range(2)]
    body = b"".join(p.to_bytes(2, "big") for p in ports) + chance.randbytes(16)
    return bytes(head) + body[: chance.choice([0, 1, 3, 4, 13, 14, 20])]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rules"), [*zip((0, 1, 2, 3, 4, 8, 6, 7), (1, 3, 5, 8, 12, 17, 24, 30), strict=True)])
def test_Bo02_the_diagram_changes_no_answer(vectors: Any, seed: int, rules: int) -> None:
    """10,000 packets in all, many of them cut."""
    chance = random.Random(seed)
    made = [expression(chance, 2) for _ in range(rules)]
    text = router("IPClassifier", [*(t for t, _ in made), "-"], len(made) + 1)
    packets = [random_packet(chance) for _ in range(1250)]
    names = [f"out{i}" for i in range(len(made) + 1)]
    got = vectors(text, give={"in0": packets}, outputs=names)["out"]
    want: dict[str, list[bytes]] = {name: [] for name in names}
    for p in packets:
        want[names[next((i for i, (_, holds) in enumerate(made) if holds(p)), len(made))]].append(p)
    assert got == want
