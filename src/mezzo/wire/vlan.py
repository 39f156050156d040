"""VLAN tags.

A tag sits between the source address and the type.  `Vlan` is the part after the first type field (the mark is then
14 bytes into the frame); `VlanEthernet` is the whole 18-byte header of a frame with one tag.
"""

from mezzo.wire.header import Header, bits, view


class Vlan(Header):
    """Tag control information and the type that follows it."""

    short, mark, source = "vlan", "network", "IEEE 802.1Q-2022, 9.6"
    pcp = bits(3, "priority code point")
    dei = bits(1, "drop eligible")
    vid = bits(12, "VLAN identifier; 0 is priority only, 4095 is reserved")
    type = bits(16, "ethertype of the payload, or another tag")
    tci = view(0, 16, "the tag as one number")


class VlanEthernet(Header):
    """An Ethernet header with one tag in it."""

    short, mark, source = "eth_vlan", "mac", "IEEE 802.1Q-2022, 9.3"
    dst = bits(48, "destination address")
    src = bits(48, "source address")
    tpid = bits(16, "0x8100, or 0x88a8 for a service tag")
    pcp = bits(3, "priority code point")
    dei = bits(1, "drop eligible")
    vid = bits(12, "VLAN identifier")
    type = bits(16, "ethertype of the payload")
    tci = view(112, 16, "the tag as one number")
