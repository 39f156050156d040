"""ICMP for IPv6, and neighbour discovery's two address messages."""

from mezzo.wire.header import Header, bits, view


class Icmp6(Header):
    """The ICMPv6 header, with the views of the types that use its second word."""

    short, mark, source = "icmp6", "transport", "RFC 4443, 2.1"
    type = bits(8, "message type; errors are below 128")
    code = bits(8, "what of that type")
    checksum = bits(16, "internet checksum, over the IPv6 pseudo-header too")
    rest = bits(32, "depends on the type")
    id = view(32, 16, "identifier of an echo exchange")
    seq = view(48, 16, "sequence number of an echo exchange")
    pointer = view(32, 32, "parameter problem: the byte at fault")
    mtu = view(32, 32, "packet too big: the next hop's MTU")


class Neighbor(Header):
    """Neighbour solicitation (type 135) and advertisement (136); options follow."""

    short, mark, source = "nd", "transport", "RFC 4861, 4.3 and 4.4"
    type = bits(8, "135 solicitation, 136 advertisement")
    code = bits(8, "0")
    checksum = bits(16, "internet checksum, over the IPv6 pseudo-header too")
    flags = bits(32, "router, solicited, override, and reserved bits")
    target = bits(128, "the address asked for, or answered")
    router = view(32, 1, "advertisement: the sender is a router")
    solicited = view(33, 1, "advertisement: it answers a solicitation")
    override = view(34, 1, "advertisement: it replaces what is cached")
