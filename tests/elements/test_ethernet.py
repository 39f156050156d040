"""EtherEncap, EtherMirror, EtherRewrite, HostEtherFilter."""

from __future__ import annotations

from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names

A, B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def frame(dst: bytes, src: bytes = B, kind: int = 0x0800, data: bytes = b"payload") -> bytes:
    return dst + src + kind.to_bytes(2, "big") + data


@pytest.mark.parametrize("payload", [b"", b"x", bytes(1500)])
def test_encap(vectors: Any, payload: bytes) -> None:
    text = "in0 :: Feed -> e :: EtherEncap(0x86DD, 2:0:0:0:0:1, 2-0-0-0-0-2) -> out0 :: Collect;"
    oracle = bytes(dpkt.ethernet.Ethernet(src=A, dst=B, type=0x86DD, data=payload))
    reads = {"e.src": "02:00:00:00:00:01", "e.dst": "02:00:00:00:00:02", "e.ethertype": "86DD"}
    vectors(text, {"in0": [payload]}, {"out0": [oracle]}, reads=reads, drops={})


@pytest.mark.parametrize("target", target_names())
def test_encap_handlers_change_the_header(target: str) -> None:
    text = "in0 :: Feed -> e :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        for path, value in (("e.src", "2:0:0:0:0:2"), ("e.dst", "2:0:0:0:0:1"), ("e.ethertype", "0x0806")):
            router.write(path, value)
        router.feed("in0", [b"x"])
        router.run()
        assert router.collect("out0") == [frame(A, B, 0x0806, b"x")]
        with pytest.raises(MezzoError, match="not an Ethernet address"):
            router.write("e.dst", "nobody")


def test_encap_without_headroom_is_a_fault(vectors: Any) -> None:
    """Each header takes 14 bytes of the 128 in front of a new packet, more in later frames."""
    many = " -> ".join(["EtherEncap(0, 1:1:1:1:1:1, 2:2:2:2:2:2)"] * 9)
    last = "-> last :: EtherEncap(0, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out0 :: Collect;"
    vectors(f"in0 :: Feed -> {many} {last}", {"in0": [b"x"]}, {"out0": []}, drops={("last", "fault"): 1})


def test_mirror_and_rewrite(vectors: Any) -> None:
    text = """in0 :: Feed -> EtherMirror -> out0 :: Collect;
        in1 :: Feed -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> out1 :: Collect;"""
    want = {"out0": [frame(B, A)], "out1": [frame(B, A), frame(B, A, data=b"")]}
    vectors(text, {"in0": [frame(A)], "in1": [frame(A), frame(A, data=b"")]}, want, drops={})


def test_short_frames_are_faults(vectors: Any) -> None:
    text = """in0 :: Feed -> m :: EtherMirror -> out0 :: Collect;
        in1 :: Feed -> h :: HostEtherFilter(2:0:0:0:0:1) -> out1 :: Collect;"""
    drops = {("m", "fault"): 2, ("h", "fault"): 2}
    vectors(text, {"in0": [b"", bytes(11)], "in1": [b"", bytes(5)]}, {"out0": [], "out1": []}, drops=drops)


KINDS = {  # destination -> packet type: host, broadcast, multicast, other
    A: 0,
    b"\xff" * 6: 1,
    bytes.fromhex("01005e000005"): 2,
    bytes.fromhex("333300000001"): 2,
    bytes.fromhex("020000000009"): 3,
    bytes.fromhex("820000000009"): 3,  # the group bit is the lowest of the first byte, not the highest
}


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("dst", KINDS)
def test_host_filter_packet_types(target: str, dst: bytes) -> None:
    text = "in0 :: Feed -> HostEtherFilter(2:0:0:0:0:1, DROP_OTHER false) -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        router.feed("in0", [frame(dst)])
        router.run()
        assert router.collect_packets("out0", lambda p: p.packet_type) == [KINDS[dst]]


def test_host_filter_drops(vectors: Any) -> None:
    own, other, mine = frame(A, A), frame(b"\x02" + bytes(5)), frame(A)
    text = "in0 :: Feed -> h :: HostEtherFilter(2:0:0:0:0:1, {}) -> out0 :: Collect;"
    give = {"in0": [own, other, mine]}
    vectors(
        text.format("DROP_OWN true"), give, {"out0": [mine]}, drops={("h", "own packet"): 1, ("h", "other host"): 1}
    )
    vectors(text.format("false, true"), give, {"out0": [own, mine]}, drops={("h", "other host"): 1})
    vectors(text.format("DROP_OTHER false"), give, {"out0": [own, other, mine]}, drops={})
    two = text.format("true") + "h[1] -> out1 :: Collect;"
    vectors(two, give, {"out0": [mine], "out1": [own, other]}, drops={})


def test_host_filter_offset(vectors: Any) -> None:
    text = "in0 :: Feed -> h :: HostEtherFilter(2:0:0:0:0:1, OFFSET 4) -> out0 :: Collect;"
    vectors(text, {"in0": [b"....." + frame(A), b"...." + frame(A)]}, {"out0": [b"...." + frame(A)]})
