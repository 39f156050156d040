"""TCPRewriter: the numbers of a stream that has grown on its way."""

from __future__ import annotations

import struct

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names
from tests.elements import ip_packets

TEXT = """
    in0 :: Feed -> MarkIPHeader -> [0] r :: TCPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
    in1 :: Feed -> MarkIPHeader -> [1] r; r[0] -> out0 :: Collect; r[1] -> out1 :: Collect;
"""
FLOW = "10.0.0.2 5000 9.9.9.9 21"
WRAPS = (1 << 32) - 5


def tcp(src: tuple[str, int], dst: tuple[str, int], seq: int, ack: int, options: bytes = b"", flags: int = 16) -> bytes:
    seq, ack = seq % (1 << 32), ack % (1 << 32)
    words = 5 + len(options) // 4
    header = struct.pack(">HHIIBBHHH", src[1], dst[1], seq, ack, words << 4, flags, 100, 0, 0) + options
    pseudo = ip_packets.pseudo(src[0], dst[0], 6, len(header))
    return ip_packets.ip(
        header[:16] + struct.pack(">H", ip_packets.checksum(pseudo + header)) + header[18:], src[0], dst[0], 6
    )


def out(seq: int, ack: int, **more: int) -> bytes:
    return tcp(("10.0.0.2", 5000), ("9.9.9.9", 21), seq, ack, **more)  # type: ignore[arg-type]


def moved(seq: int, ack: int) -> bytes:
    return tcp(("1.0.0.1", 1024), ("9.9.9.9", 21), seq, ack)


def sack(pad: int, *numbers: int) -> bytes:
    """A SACK option behind `pad` empty ones."""
    whole = bytes([1] * pad + [5, 2 + 4 * len(numbers)]) + b"".join(struct.pack(">I", n % (1 << 32)) for n in numbers)
    return whole + b"\0" * (-len(whole) % 4)


@pytest.mark.parametrize("start", [1000, WRAPS])
def test_numbers_grow_from_a_place_on(start: int) -> None:
    for target in target_names():
        with Router.from_click(TEXT, target=target, virtual=True) as router:
            router.feed("in0", [out(start, 70)])
            router.run()
            router.write("r.shift", f"{FLOW} {start + 10 & 0xFFFFFFFF} 3")
            assert router.read("r.shifts") == f"{FLOW} {start + 10 & 0xFFFFFFFF} +3\n"
            router.feed("in0", [out(start + n, 70) for n in (0, 9, 10, 50)])
            router.run()
            assert router.collect("out0")[1:] == [moved(start + n, 70) for n in (0, 9, 13, 53)]
            answers = [tcp(("9.9.9.9", 21), ("1.0.0.1", 1024), 70, start + n) for n in (5, 10, 12, 13, 14, 60)]
            router.feed("in1", answers)
            router.run()
            home = [tcp(("9.9.9.9", 21), ("10.0.0.2", 5000), 70, start + n) for n in (5, 10, 10, 10, 11, 57)]
            assert router.collect("out1") == home
            router.write("r.shift", f"{FLOW} {start + 100 & 0xFFFFFFFF} -5")
            router.feed("in0", [out(start + n, 70) for n in (99, 100)])
            router.run()
            assert router.collect("out0") == [moved(start + n, 70) for n in (102, 98)]


@pytest.mark.parametrize("pad", [0, 1, 2, 3])
def test_sack_blocks_follow(pad: int) -> None:
    for target in target_names():
        with Router.from_click(TEXT, target=target, virtual=True) as router:
            router.feed("in0", [out(1000, 70)])
            router.run()
            router.write("r.shift", f"{FLOW} 1010 3")
            ends = ("9.9.9.9", 21), ("1.0.0.1", 1024)
            router.feed("in1", [tcp(*ends, 70, 1005, sack(pad, 1020, 1030, 1040, 1050))])
            router.run()
            want = tcp(ends[0], ("10.0.0.2", 5000), 70, 1005, sack(pad, 1017, 1027, 1037, 1047))
            assert router.collect("out1") == [want]
            strange = [bytes([5, 1, 0, 0]), bytes([5, 40, 0, 0]), bytes([1, 1, 1, 5]), bytes([0, 5, 10, 0])]
            router.feed("in1", [tcp(*ends, 70, 1005, x) for x in strange])
            router.run()
            assert router.collect("out1") == [tcp(ends[0], ("10.0.0.2", 5000), 70, 1005, x) for x in strange]


def test_a_new_flow_starts_without_a_shift() -> None:
    for target in target_names():
        with Router.from_click(TEXT, target=target, virtual=True) as router:
            router.feed("in0", [out(1000, 70)])
            router.run()
            router.write("r.shift", f"{FLOW} 1000 3")
            router.write("r.clear", "")
            router.feed("in0", [out(2000, 70)])
            router.run()
            assert router.collect("out0")[1] == tcp(("1.0.0.1", 1025), ("9.9.9.9", 21), 2000, 70)
            assert router.read("r.shifts") == ""
            for bad, why in ((f"{FLOW} 1 x", "such as"), ("10.0.0.3 1 9.9.9.9 21 1 1", "no such flow")):
                with pytest.raises(MezzoError, match=why):
                    router.write("r.shift", bad)
