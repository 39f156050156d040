"""UDP."""

from mezzo.wire.header import Header, bits


class Udp(Header):
    """The UDP header."""

    short, mark, source = "udp", "transport", "RFC 768"
    src_port = bits(16, "source port")
    dst_port = bits(16, "destination port")
    length = bits(16, "header and payload, bytes")
    checksum = bits(16, "internet checksum with the pseudo-header; 0 means none over IPv4")
