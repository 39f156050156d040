"""Ethernet II, and the IEEE 802.2 headers that follow a length instead of a type.

A `type` of 1536 (0x600) or more is an ethertype; 1500 or less is the length of an LLC payload (IEEE 802.3, 3.2.6).
"""

from mezzo.wire.header import Header, bits, view


class Ethernet(Header):
    """The MAC header, without preamble and frame check sequence."""

    short, mark, source = "eth", "mac", "IEEE 802.3-2022, 3.2"
    dst = bits(48, "destination address")
    src = bits(48, "source address")
    type = bits(16, "ethertype, or length when at most 1500")
    group = view(7, 1, "destination is multicast or broadcast")


class Llc(Header):
    """Logical link control with a one-byte control field (unnumbered information)."""

    short, mark, source = "llc", "network", "IEEE 802.2, 3.2"
    dsap = bits(8, "destination service access point")
    ssap = bits(8, "source service access point")
    control = bits(8, "3 is unnumbered information")


class Snap(Header):
    """LLC followed by the subnetwork access protocol: a vendor and a type."""

    short, mark, source = "snap", "network", "RFC 1042; IEEE 802, 10.3"
    dsap = bits(8, "0xaa")
    ssap = bits(8, "0xaa")
    control = bits(8, "3")
    oui = bits(24, "organisation; 0 means that `type` is an ethertype")
    type = bits(16, "protocol of the payload")
