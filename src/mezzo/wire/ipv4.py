"""IPv4: the twenty bytes that every header has; options follow, up to `ihl` words in all."""

from mezzo.wire.header import Header, bits, view


class Ipv4(Header):
    """The fixed part of the IPv4 header."""

    short, mark, source = "ip", "network", "RFC 791, 3.1"
    version = bits(4, "4")
    ihl = bits(4, "header length in 32-bit words, at least 5")
    tos = bits(8, "type of service: dscp and ecn")
    total_length = bits(16, "header and payload, bytes")
    id = bits(16, "identification, equal in the fragments of a packet")
    frag = bits(16, "flags and fragment offset as one number")
    ttl = bits(8, "time to live, hops")
    protocol = bits(8, "protocol of the payload")
    checksum = bits(16, "internet checksum of the header")
    src = bits(32, "source address")
    dst = bits(32, "destination address")
    dscp = view(8, 6, "differentiated services code point (RFC 2474)")
    ecn = view(14, 2, "explicit congestion notification (RFC 3168)")
    flags = view(48, 3, "reserved bit, df, mf")
    df = view(49, 1, "don't fragment")
    mf = view(50, 1, "more fragments follow")
    fragment_offset = view(51, 13, "place in the whole packet, in 8-byte units")
