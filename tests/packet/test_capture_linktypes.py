"""Link types: names, and where IP begins."""

import pytest

from mezzo.packet.linktypes import linktype_name, linktype_number, network_start
from mezzo.wire.build import ether, ip, udp, vlan

IP = ip("10.0.0.1", "10.0.0.2", 17, udp(1, 2, b"x", ("10.0.0.1", "10.0.0.2")))
COOKED = bytes.fromhex("0000000100060000c0ae67ef00000800")
COOKED2 = bytes.fromhex("0800000000000001000100060000c0ae67ef0000")


@pytest.mark.parametrize(
    ("linktype", "link_header"),
    [
        (101, b""),
        (228, b""),
        (12, b""),
        (14, b""),
        (229, b""),
        (113, COOKED),
        (276, COOKED2),
        (0, (2).to_bytes(4, "little")),
        (0, (2).to_bytes(4, "big")),
        (108, (2).to_bytes(4, "big")),
        (1, ether(1, 2, 0x0800)),
        (1, ether(1, 2, 0x8100, vlan(5, 0x0800))),
        (1, ether(1, 2, 0x88A8, vlan(5, 0x8100, vlan(6, 0x0800)))),
        (9, b"\xff\x03\x00\x21"),
        (9, b"\x00\x21"),
        (50, b"\xff\x03\x00\x21"),
        (51, b"\x11\x00\x00\x01\x00\x20\x00\x21"),
        (104, b"\x0f\x00\x08\x00"),
    ],
)
def test_go05_all_give_the_same_packet(linktype, link_header) -> None:
    frame = link_header + IP
    assert frame[network_start(linktype, frame) :] == IP
    assert network_start(linktype, frame) == len(link_header)


@pytest.mark.parametrize(
    ("linktype", "frame"),
    [
        (1, ether(1, 2, 0x0806, bytes(28))),
        (1, b"\0"),
        (0, b"\2"),
        (0, bytes(8)),
        (113, bytes(16)),
        (105, bytes(40)),
        (9, b""),
    ],
)
def test_frames_without_ip(linktype, frame) -> None:
    assert network_start(linktype, frame) == -1


def test_names() -> None:
    assert linktype_name(1) == "ETHERNET" and linktype_name(9999) == "9999"
    assert [linktype_number(w) for w in ("ether", "IP", "sll", "linux_sll", "101")] == [1, 101, 113, 113, 101]
    with pytest.raises(ValueError, match="`wifi` is not a link type; known: ETHER IP NULL"):
        linktype_number("wifi")
