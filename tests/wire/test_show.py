"""The printed forms, and that printing never fails."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.wire.build import arp, ether, icmp, icmp6, ip, ip6, tcp, udp, vlan
from mezzo.wire.show import show

A, B = "00:00:C0:AE:67:EF", "00:00:C0:4F:71:EF"
E4, E6 = ("18.26.4.2", "18.26.7.2"), ("2001:db8::1", "2001:db8::2")


def ipv4(protocol: int, payload: bytes, **more: int) -> bytes:
    return ether(A, B, 0x0800, ip(*E4, protocol, payload, **more))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (ipv4(1, icmp(8, 0, 1 << 16 | 2, bytes(56))), "18.26.4.2 > 18.26.7.2 ttl 64 icmp echo id 1 seq 2, 98 bytes"),
        (
            ipv4(1, icmp(3, 4, 576)),
            "18.26.4.2 > 18.26.7.2 ttl 64 icmp unreachable fragmentation-needed mtu 576, 42 bytes",
        ),
        (ipv4(1, icmp(5, 1, 0x121A0401)), "18.26.4.2 > 18.26.7.2 ttl 64 icmp redirect host to 18.26.4.1, 42 bytes"),
        (
            ipv4(1, icmp(12, 0, 20 << 24)),
            "18.26.4.2 > 18.26.7.2 ttl 64 icmp parameter-problem erroneous at byte 20, 42 bytes",
        ),
        (ipv4(17, udp(1, 53, b"abc", E4)), "18.26.4.2 > 18.26.7.2 ttl 64 udp 1 > 53 payload 3, 45 bytes"),
        (
            ipv4(6, tcp(1, 80, b"ab", E4, seq=5, ack=6)),
            "18.26.4.2 > 18.26.7.2 ttl 64 tcp 1 > 80 . seq 5 ack 6 payload 2, 56 bytes",
        ),
        (ipv4(6, tcp(1, 80, b"", E4, flags=2)), "18.26.4.2 > 18.26.7.2 ttl 64 tcp 1 > 80 S seq 0 payload 0, 54 bytes"),
        (ipv4(17, bytes(8), frag=0x2003, id=9), "18.26.4.2 > 18.26.7.2 fragment 9@24+ udp ttl 64, 42 bytes"),
        (ipv4(99, b"", checksum=1), "18.26.4.2 > 18.26.7.2 99 ttl 64 [bad ip checksum], 34 bytes"),
        (ipv4(99, b"", total_length=30), "18.26.4.2 > 18.26.7.2 99 ttl 64 [10 bytes missing], 34 bytes"),
        (ether(A, B, 0x0806, arp(1, A, E4[0], 0, E4[1])), "arp who has 18.26.7.2? tell 18.26.4.2, 42 bytes"),
        (ether(A, B, 0x0806, arp(2, A, E4[0], B, E4[1])), "arp 18.26.4.2 is at 00:00:C0:AE:67:EF, 42 bytes"),
        (
            ether(A, B, 0x8100, vlan(7, 0x0800, ip(*E4, 6)[:9])),
            "00:00:C0:AE:67:EF > 00:00:C0:4F:71:EF vlan 7 [ip header cut: 9 of 20 bytes], 27 bytes",
        ),
        (
            ether(A, B, 0x86DD, ip6(*E6, 58, icmp6(128, 0, 3, b"", E6))),
            "2001:db8::1 > 2001:db8::2 hops 64 icmp6 echo id 0 seq 3, 62 bytes",
        ),
        (
            ether(A, B, 0x86DD, ip6(*E6, 44, b"\x11\0\0\x09\0\0\0\x05")),
            "2001:db8::1 > 2001:db8::2 hops 64 fragment 5@8+, 62 bytes",
        ),
        (ether(A, B, 0x9999, b"xy"), "00:00:C0:AE:67:EF > 00:00:C0:4F:71:EF type 0x9999, 16 bytes"),
        (b"", "[eth header cut: 0 of 14 bytes], 0 bytes"),
    ],
)
def test_lines(frame, text) -> None:
    assert show(frame) == text


def test_snap_leads_to_its_type() -> None:
    inner = ip(*E4, 17, udp(1, 2))
    frame = ether(A, B, 8 + len(inner), bytes.fromhex("aaaa030000000800") + inner)
    assert show(frame).startswith("snap 18.26.4.2 > 18.26.7.2 ttl 64 udp 1 > 2")


def test_ip_start_takes_both_versions() -> None:
    assert show(ip(*E4, 1), "ip").startswith("18.26.4.2")
    assert show(ip6(*E6, 59), "ip").startswith("2001:db8::1")
    with pytest.raises(ValueError, match="`eth` or `ip`, not `tcp`"):
        show(b"", "tcp")


def test_detail_names_every_field() -> None:
    page = show(ipv4(17, udp(1, 53, b"hello world", E4)) + bytes(4), detail=True)
    for piece in (
        "RFC 791, 3.1",
        "ttl                64",
        "17 udp",
        "68 65 6c 6c 6f",
        "hello world",
        "trailer, 4 bytes",
    ):
        assert piece in page


@pytest.mark.slow
@given(
    st.binary(max_size=120),
    st.sampled_from([b"", bytes(12) + b"\x08\0", bytes(12) + b"\x86\xdd", bytes(12) + b"\x81\0"]),
)
@settings(max_examples=300)
def test_any_bytes_print(data, start) -> None:
    assert show(start + data).endswith("bytes")
    assert show(start + data, detail=True)
    assert show(data, "ip")
