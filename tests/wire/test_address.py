"""Addresses: what is read, what is printed, and what the refusals say."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mezzo.wire import address as a


@given(st.integers(0, 2**32 - 1))
def test_ip_round_trip(value) -> None:
    assert a.format_ip(value) == str(ipaddress.IPv4Address(value))
    assert a.parse_ip(a.format_ip(value)) == value


@given(st.integers(0, 2**128 - 1))
def test_ip6_round_trip(value) -> None:
    assert a.parse_ip6(a.format_ip6(value)) == value == int(ipaddress.IPv6Address(a.format_ip6(value)))


@given(st.integers(0, 2**48 - 1))
def test_ether_round_trip(value) -> None:
    assert a.parse_ether(a.format_ether(value)) == value


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1.2.3.0/24", ("1.2.3.0", 24)),
        ("1.2.3.0/255.255.255.0", ("1.2.3.0", 24)),
        ("18.26.4/24", ("18.26.4.0", 24)),
        ("10/8", ("10.0.0.0", 8)),
        ("0.0.0.0/0", ("0.0.0.0", 0)),
        ("0/0", ("0.0.0.0", 0)),
        ("18.26.4.24/24", ("18.26.4.24", 24)),
        ("1.2.3.4/255.255.255.255", ("1.2.3.4", 32)),
    ],
)
def test_prefixes(text, want) -> None:
    address, length = a.parse_prefix(text)
    assert (a.format_ip(address), length) == want


def test_a_bare_address_is_a_host_prefix_where_allowed() -> None:
    assert a.parse_prefix("1.2.3.4", bare=True) == (0x01020304, 32)
    assert a.parse_prefix6("::1", bare=True) == (1, 128)


def test_prefix6() -> None:
    assert a.parse_prefix6("2001:db8::/32") == (0x20010DB8 << 96, 32)
    assert a.format_prefix6(*a.parse_prefix6("2001:db8::/32")) == "2001:db8::/32"


def test_masks() -> None:
    assert [a.mask_of(n) for n in (0, 1, 24, 32)] == [0, 0x80000000, 0xFFFFFF00, 0xFFFFFFFF]
    assert [a.length_of(m) for m in (0, 0xFFFFFF00, 0xFF00FF00)] == [0, 24, -1]
    assert a.network(0x12345678, 8) == 0x12000000


@pytest.mark.parametrize("text", ["00:00:C0:AE:67:EF", "0:0:c0:ae:67:ef", "00-00-C0-AE-67-EF"])
def test_ether_forms(text) -> None:
    assert a.parse_ether(text) == 0x0000C0AE67EF


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (a.parse_ip, "1.2.3", "write four numbers, as in"),
        (a.parse_ip, "1.2.3.256", "256 is more than 255"),
        (a.parse_ip, "1.2.3.4444444444444444444444444444444", "is more than 255"),
        (a.parse_ip, "1.2.x.4", "`x` is not a number"),
        (a.parse_ip, "1.2.3.-4", "`-4` is not a number"),
        (a.parse_ip, "1.2.3.٣", "is not a number"),
        (a.parse_ip, "010.0.0.1", "write `10` without the leading zero"),
        (a.parse_ip, "", "write four numbers"),
        (a.parse_prefix, "1.2.3.4", "write for example 1.2.3.4/32"),
        (a.parse_prefix, "1.2.3.4/33", "0 to 32"),
        (a.parse_prefix, "1.2.3.4/", "0 to 32"),
        (a.parse_prefix, "1.2.3/32", "write four numbers"),
        (a.parse_prefix, "1.2.3.0/255.0.255.0", "not all in front"),
        (a.parse_ether, "1:2:3:4:5", "write six bytes"),
        (a.parse_ether, "00:00:C0:AE:67:EG", "`EG` is not a hexadecimal byte"),
        (a.parse_ether, "000:0:0:0:0:1", "`000` is not a hexadecimal byte"),
        (a.parse_ip6, "1::2::3", "2001:db8::1"),
        (a.parse_ip6, "a\0b", "2001:db8::1"),
        (a.parse_prefix6, "::1", "write for example ::1/128"),
        (a.parse_prefix6, "::/129", "0 to 128"),
    ],
)
def test_refusals_teach(parse, text, says) -> None:
    with pytest.raises(ValueError, match=says):
        parse(text)
