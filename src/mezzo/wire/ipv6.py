"""IPv6: the fixed header and the extension headers that a router looks at."""

from mezzo.wire.header import Header, bits, view


class Ipv6(Header):
    """The fixed IPv6 header."""

    short, mark, source = "ip6", "network", "RFC 8200, 3"
    version = bits(4, "6")
    traffic_class = bits(8, "dscp and ecn")
    flow_label = bits(20, "flow label (RFC 6437)")
    payload_length = bits(16, "everything after this header, bytes; 0 with a jumbo option")
    next_header = bits(8, "protocol of what follows")
    hop_limit = bits(8, "hops left")
    src = bits(128, "source address")
    dst = bits(128, "destination address")
    dscp = view(4, 6, "differentiated services code point (RFC 2474)")
    ecn = view(10, 2, "explicit congestion notification (RFC 3168)")


class Ipv6Extension(Header):
    """How hop-by-hop, destination-option and routing headers begin."""

    short, mark, source = "ip6_extension", "transport", "RFC 8200, 4.3"
    next_header = bits(8, "protocol of what follows")
    length = bits(8, "length in 8-byte units, without the first 8 bytes")


class Ipv6Fragment(Header):
    """The fragment header."""

    short, mark, source = "ip6_fragment", "transport", "RFC 8200, 4.5"
    next_header = bits(8, "protocol of what follows")
    reserved = bits(8)
    fragment_offset = bits(13, "place in the fragmentable part, in 8-byte units")
    reserved2 = bits(2)
    more = bits(1, "more fragments follow")
    id = bits(32, "identification")
