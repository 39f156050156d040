"""Header tables: layouts against the RFC pictures, reading and writing of bits."""

import pytest

from mezzo.wire import Header, bits, headers, view
from mezzo.wire.ipv4 import Ipv4
from mezzo.wire.ipv6 import Ipv6
from mezzo.wire.tcp import Tcp
from mezzo.wire.vlan import VlanEthernet

SIZES = {
    "eth": 14, "eth_vlan": 18, "vlan": 4, "llc": 3, "snap": 8, "arp": 28, "ip": 20, "ip6": 40, "ip6_extension": 2,
    "ip6_fragment": 8, "icmp": 8, "icmp6": 8, "nd": 24, "udp": 8, "tcp": 20,
}  # fmt: skip


def test_every_header_is_found_with_its_size() -> None:
    assert {name: h.size for name, h in headers().items()} == SIZES


def test_headers_say_where_they_start_and_who_defines_them() -> None:
    for header in headers().values():
        assert header.mark in ("mac", "network", "transport")
        assert header.source and header.__doc__


@pytest.mark.parametrize(
    ("field", "offset", "width"),
    [
        (Ipv4.version, 0, 4),
        (Ipv4.ihl, 4, 4),
        (Ipv4.frag, 48, 16),
        (Ipv4.df, 49, 1),
        (Ipv4.fragment_offset, 51, 13),
        (Ipv4.ttl, 64, 8),
        (Ipv4.dst, 128, 32),
        (Ipv6.flow_label, 12, 20),
        (Ipv6.dst, 192, 128),
        (Tcp.offset, 96, 4),
        (Tcp.fin, 111, 1),
        (VlanEthernet.vid, 116, 12),
    ],
)
def test_places(field, offset, width) -> None:
    assert (field.offset, field.bits) == (offset, width)


def test_bits_are_read_across_bytes() -> None:
    header = bytes.fromhex("61234567") + bytes(36)
    assert Ipv6.version.read(header) == 6
    assert Ipv6.traffic_class.read(header) == 0x12
    assert Ipv6.flow_label.read(header) == 0x34567


def test_writing_keeps_the_neighbours() -> None:
    header = bytearray(b"\xff" * 40)
    Ipv6.traffic_class.write(header, 0)
    assert header[:4] == bytes.fromhex("f00fffff")


def test_pack_and_unpack_agree() -> None:
    packed = Ipv4.pack(version=4, ihl=5, mf=1, fragment_offset=3, dst=0x0A000001)
    values = Ipv4.unpack(packed)
    assert (values["frag"], values["df"], values["dst"]) == (0x2003, 0, 0x0A000001)


def test_a_value_too_wide_is_refused() -> None:
    with pytest.raises(ValueError, match="16 does not fit the 4 bits of `ihl`"):
        Ipv4.pack(ihl=16)


def test_a_header_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="`dst` ends at byte 20, but there are only 19 bytes"):
        Ipv4.dst.read(bytes(19))


def test_a_table_that_ends_inside_a_byte_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="inside a byte"):
        type("Odd", (Header,), {"a": bits(3)})


def test_a_view_past_the_end_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="past the header"):
        type("Far", (Header,), {"a": bits(8), "b": view(4, 8)})
