"""Names of numbers."""

import pytest

from mezzo.wire import constants as c


def test_flags_in_wire_order() -> None:
    assert (c.TCP_FIN, c.TCP_SYN, c.TCP_ACK, c.TCP_CWR) == (1, 2, 16, 128)


def test_both_directions() -> None:
    assert c.number_of(c.PROTOCOLS, "udp") == 17
    assert c.name_of(c.PROTOCOLS, 17) == "udp"
    assert c.name_of(c.PROTOCOLS, 250) == "250"


def test_an_unknown_word_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="did you mean `udp`"):
        c.number_of(c.PROTOCOLS, "udpp")
    with pytest.raises(ValueError, match="known: request reply"):
        c.number_of(c.ARP_OPERATIONS, "zzzzzz")
