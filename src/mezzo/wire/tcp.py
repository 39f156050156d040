"""TCP: the twenty bytes that every header has; options follow, up to `offset` words in all.

The flag that marks `ack` as valid is `ack_flag`, because `ack` is the number; likewise `urg` marks `urgent`.
"""

from mezzo.wire.header import Header, bits, view


class Tcp(Header):
    """The fixed part of the TCP header."""

    short, mark, source = "tcp", "transport", "RFC 9293, 3.1"
    src_port = bits(16, "source port")
    dst_port = bits(16, "destination port")
    seq = bits(32, "sequence number")
    ack = bits(32, "acknowledgment number")
    offset = bits(4, "header length in 32-bit words, at least 5")
    reserved = bits(4, "zero")
    flags = bits(8, "the eight control bits")
    window = bits(16, "receive window")
    checksum = bits(16, "internet checksum with the pseudo-header")
    urgent = bits(16, "urgent pointer")
    cwr = view(104, 1, "congestion window reduced (RFC 3168)")
    ece = view(105, 1, "ECN echo (RFC 3168)")
    urg = view(106, 1, "`urgent` is valid")
    ack_flag = view(107, 1, "`ack` is valid")
    psh = view(108, 1, "push")
    rst = view(109, 1, "reset")
    syn = view(110, 1, "synchronize sequence numbers")
    fin = view(111, 1, "no more data")
