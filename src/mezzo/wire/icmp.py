"""ICMP for IPv4: eight bytes; what the second four mean depends on the type."""

from mezzo.wire.header import Header, bits, view


class Icmp(Header):
    """The ICMP header, with the views of the types that use its second word."""

    short, mark, source = "icmp", "transport", "RFC 792"
    type = bits(8, "message type")
    code = bits(8, "what of that type")
    checksum = bits(16, "internet checksum of the whole message")
    rest = bits(32, "depends on the type")
    id = view(32, 16, "identifier of an echo or timestamp exchange")
    seq = view(48, 16, "sequence number of an echo or timestamp exchange")
    pointer = view(32, 8, "parameter problem: the byte at fault")
    length = view(40, 8, "length of the original datagram, 32-bit words (RFC 4884)")
    mtu = view(48, 16, "fragmentation needed: the next hop's MTU (RFC 1191)")
    gateway = view(32, 32, "redirect: the better gateway")
