"""Checksums: the RFC's own numbers, and properties."""

from hypothesis import given
from hypothesis import strategies as st

from mezzo.wire.checksum import internet_checksum, ones_sum, transport_checksum, update, update32

u16 = st.integers(0, 0xFFFF)


def test_rfc_1071_example() -> None:
    assert ones_sum(bytes.fromhex("0001f203f4f5f6f7")) == 0xDDF2


def test_an_odd_byte_is_padded_behind() -> None:
    assert internet_checksum(b"\x01") == 0xFEFF


def test_nothing_and_zeros() -> None:
    assert internet_checksum(b"") == internet_checksum(bytes(20)) == 0xFFFF


def test_rfc_1624_example() -> None:
    assert update(0xDD2F, 0x5555, 0x3285) == 0x0000


def test_eo01_ttl_decrement_that_makes_the_checksum_zero() -> None:
    header = bytes.fromhex("4500001c67cf00004011feff0a0000010a000002")
    assert update(0xFEFF, 0x4011, 0x3F11) == 0
    assert internet_checksum(header[:8] + b"\x3f\x11\0\0" + header[12:]) == 0


@given(st.lists(u16, min_size=2, max_size=20), st.data())
def test_update_keeps_the_checksum_valid(words, data) -> None:
    raw = b"".join(w.to_bytes(2, "big") for w in words)
    at = data.draw(st.integers(0, len(words) - 1))
    new = data.draw(u16)
    checksum = update(internet_checksum(raw), words[at], new)
    changed = raw[: 2 * at] + new.to_bytes(2, "big") + raw[2 * at + 2 :]
    # All-zero data is the one sum that has no other form; eqn. 3 gives the other zero there.
    if any(changed) and any(raw):
        assert internet_checksum(changed + checksum.to_bytes(2, "big")) == 0


@given(u16, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_update32_is_two_updates(checksum, old, new) -> None:
    twice = update(update(checksum, old >> 16, new >> 16), old & 0xFFFF, new & 0xFFFF)
    assert update32(checksum, old, new) == twice


@given(st.binary(max_size=64))
def test_udp_never_sends_zero(payload) -> None:
    assert transport_checksum(1, 2, 17, bytes(8) + payload) != 0


def test_udp_zero_becomes_ones_and_tcp_keeps_it() -> None:
    # The payload makes the sum 0xffff: pseudo-header 1 + 2 + protocol + 2, and the word itself.
    assert transport_checksum(1, 2, 17, (0xFFFF - 1 - 2 - 17 - 2).to_bytes(2, "big")) == 0xFFFF
    assert transport_checksum(1, 2, 6, (0xFFFF - 1 - 2 - 6 - 2).to_bytes(2, "big")) == 0
