"""IPEncap and UDPIPEncap."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from tests.elements.ip_packets import ip, udp

TEXT = "in0 :: Feed -> {} x :: {} -> c :: CheckIPHeader -> out0 :: Collect;"


def test_ip_encap(vectors: Any) -> None:
    text = TEXT.format("", "IPEncap(ipip, 1.2.3.4, 5.6.7.8)")
    want = [ip(x, "1.2.3.4", "5.6.7.8", 4, 250, ident=i) for i, x in enumerate((b"", b"a", b"inner"))]
    vectors(text, {"in0": [b"", b"a", b"inner"]}, {"out0": want}, {"x.src": "1.2.3.4", "x.dst": "5.6.7.8"}, {})


@pytest.mark.parametrize(
    "words, more",
    [
        ("TTL 3, DF true", {"ttl": 3, "frag": 0x4000}),
        ("TOS 77", {"tos": 77}),
        ("DSCP 63, ECT true", {"tos": 0xFD}),
        ("ECT 2", {"tos": 2}),
        ("CE true", {"tos": 3}),
    ],
)
def test_ip_encap_fields(vectors: Any, words: str, more: dict[str, int]) -> None:
    want = ip(b"x", "1.2.3.4", "5.6.7.8", 17, ident=0, **{"ttl": 250, **more})
    vectors(TEXT.format("", f"IPEncap(udp, 1.2.3.4, 5.6.7.8, {words})"), {"in0": [b"x"]}, {"out0": [want]})


def test_destination_by_annotation_and_by_handler(vectors: Any) -> None:
    text = TEXT.format("SetIPAddress(9.9.9.9) ->", "IPEncap(99, 1.2.3.4, DST_ANNO)")
    want = [ip(b"x", "1.2.3.4", "9.9.9.9", 99, 250, ident=0)]
    vectors(text, {"in0": [b"x"]}, {"out0": want}, {"x.dst": "DST_ANNO"})
    want = [ip(b"x", "4.4.4.4", "5.5.5.5", 99, 250, ident=0)]
    vectors(text, {"in0": [b"x"]}, {"out0": want}, writes=[("x.src", "4.4.4.4"), ("x.dst", "5.5.5.5")])


def test_the_annotation_is_set(vectors: Any) -> None:
    for element in ("IPEncap(4, 1.2.3.4, 5.6.7.8)", "UDPIPEncap(1.2.3.4, 1, 5.6.7.8, 2)"):
        for target in ("python", "native"):
            text = f"in0 :: Feed -> {element} -> out0 :: Collect;"
            with Router.from_click(text, target=target, virtual=True) as router:
                router.feed("in0", [b"x"])
                router.run(rounds=100)
                marks = router.collect_packets("out0", lambda p: (p.mark("net"), p.mark("trans"), bytes(p.anno[:4])))
            assert marks == [(0, 20, b"\5\6\7\x08")]


def test_udp_ip_encap(vectors: Any) -> None:
    def want(x: bytes, ident: int = 0, dst: str = "5.6.7.8", **more: int) -> bytes:
        return ip(udp(x, "1.2.3.4", dst, (1234, 80), **more), "1.2.3.4", dst, 17, 250, ident=ident)

    text = TEXT.format("", "UDPIPEncap(1.2.3.4, 1234, 5.6.7.8, 80)").replace("-> out0", "-> CheckUDPHeader -> out0")
    loads = [b"", b"a", b"payload"]
    vectors(text, {"in0": loads}, {"out0": [want(x, i) for i, x in enumerate(loads)]}, drops={})
    text = TEXT.format("", "UDPIPEncap(1.2.3.4, 1234, 5.6.7.8, 80, false)")
    vectors(text, {"in0": [b"abc"]}, {"out0": [want(b"abc", check=0)]})
    text = TEXT.format("SetIPAddress(9.9.9.9) ->", "UDPIPEncap(1.2.3.4, 1, DST_ANNO, 1)")
    writes = [("x.sport", "1234"), ("x.dport", "80")]
    vectors(text, {"in0": [b"abc"]}, {"out0": [want(b"abc", dst="9.9.9.9")]}, {"x.sport": "1234"}, writes=writes)


def test_more_than_an_ip_packet_holds_is_dropped(vectors: Any) -> None:
    for element in ("IPEncap(4, 1.1.1.1, 2.2.2.2)", "UDPIPEncap(1.1.1.1, 1, 2.2.2.2, 2)"):
        text = f"in0 :: Feed -> x :: {element} -> out0 :: Collect;"
        drops = {("x", "too long for an IP packet"): 1}
        vectors(text, {"in0": [bytes(65530)]}, {"out0": []}, drops=drops, frames=8, frame_size=131072)


def test_wrong_arguments() -> None:
    for bad, word in (("4, 1.2.3, 2.2.2.2", "SRC"), ("4, 1.1.1.1", "DST"), ("256, 1.1.1.1, 2.2.2.2", "PROTO")):
        with pytest.raises(MezzoError, match=word):
            Router.from_click(TEXT.format("", f"IPEncap({bad})"))
    with pytest.raises(MezzoError, match="TOS says all"):
        Router.from_click(TEXT.format("", "IPEncap(4, 1.1.1.1, 2.2.2.2, TOS 4, CE true)"))
