"""Super-packets: functions of the runtime dialect that cut what a sender left to its interface to cut.

A virtio-net header (virtio 1.2, 5.1.6.2) in front of a packet tells its kind, the bytes of payload a segment may
carry, and where the transport header starts.  The packet's headers are those of the first segment but for lengths, and
its checksum field holds the sum of the pseudo header (see `_checksum`).  A segment is made straight from the
super-packet into a frame:

    IPv4   total length; the identification goes up by one a segment; header checksum
    IPv6   payload length
    TCP    the sequence number goes up by the payload before; FIN and PSH on the last only (RFC 9293, 3.8), CWR on the
           first only (RFC 3168, 6.1.2); checksum
    UDP    length (each segment is a datagram of its own: UDP_SEGMENT, udp(7)); checksum

A packet in a tunnel (VXLAN, Geneve, GRE, IP in IP) has these headers behind others, which nothing tells about: the IP
header is found in front of the transport header, and the outer lengths and checksums are set for each segment as well.

Rules: `innermost`, then `headers_of` are asked first, and may say no; what they accepted is within `length` everywhere.
"""

from mezzo.elements import flag, mem_copy, mem_sum16, mem_u8, set_mem_u8, u8, u16, u32, u64
from mezzo.ports._checksum import UDP_CHECK, net16, set_check, set_net16

# struct virtio_net_hdr: flags, gso_type u8; hdr_len, gso_size, csum_start, csum_offset u16, in the host's byte order
FLAGS, KIND, HEADERS, SIZE, START, OFFSET = 0, 1, 2, 4, 6, 8
HEADER_SIZE = 10
NEEDS_CHECKSUM = 1
WHOLE, TCP4, TCP6, DATAGRAMS = 0, 1, 4, 5
ECN = 0x80
FIN_PSH, CWR = 0x09, 0x80
TCP_CHECK = 16
TCP, UDP, GRE = 6, 17, 47
HOP_BY_HOP, ROUTING, OPTIONS = 0, 43, 60
NOWHERE = 0xFFFF_FFFF


def innermost(at: u64, length: u32, net: u32, start: u32, kind: u8) -> u32:
    """Where the IP header of the transport header at `start` begins: `net`, or behind a tunnel's; NOWHERE."""
    if net + 20 > start or start + 8 > length or length - start > 0xFFFF:
        return NOWHERE
    protocol = u8(UDP) if kind & 0x7F == DATAGRAMS else u8(TCP)
    for words in range(5, 16):
        ip = start - 4 * words
        found = net + 4 * words <= start and mem_u8(at + ip) == 0x40 + words and mem_u8(at + ip + 9) == protocol
        if found and u32(net16(at + ip + 2)) == length - ip:
            return ip
    if net + 40 > start:
        return NOWHERE
    ip = start - 40
    if mem_u8(at + ip) >> 4 == 6 and mem_u8(at + ip + 6) == protocol and u32(net16(at + ip + 4)) == length - start:
        return ip
    # With extension headers the transport header is farther on.
    extended = mem_u8(at + net + 6) in (HOP_BY_HOP, ROUTING, OPTIONS)
    whole = u32(net16(at + net + 4)) == length - net - 40
    return net if mem_u8(at + net) >> 4 == 6 and extended and whole else u32(NOWHERE)


def headers_of(at: u64, length: u32, ip: u32, start: u32, kind: u8) -> u32:
    """Bytes of all headers of a super-packet with IP at `ip` and transport at `start`; 0: it cannot be cut."""
    version, plain = mem_u8(at + ip) >> 4, kind & 0x7F
    if plain == DATAGRAMS:
        return start + 8 if start + 8 < length else 0
    if ((plain != TCP4 or version != 4) and (plain != TCP6 or version != 6)) or start + 20 > length:
        return 0
    size = u32(mem_u8(at + start + 12) >> 4) * 4
    return start + size if size >= 20 and start + size < length else 0


def segments_of(length: u32, headers: u32, size: u32) -> u32:
    """How many segments a super-packet makes; 0 when it says that a segment carries nothing."""
    return (length - headers + size - 1) // size


def segment(to: u64, at: u64, length: u32, ip: u32, start: u32, headers: u32, size: u32, index: u32, kind: u8) -> u32:
    """Writes segment `index` of the super-packet at `at` to `to`; gives its length."""
    place = headers + index * size
    count = min(size, length - place)
    mem_copy(to, at, headers)
    mem_copy(to + headers, at + place, count)
    set_network(to, ip, start, headers + count, index)
    whole = length - start
    part = headers + count - start
    if kind & 0x7F == DATAGRAMS:
        set_net16(to + start + 4, u16(part))
        set_checksum(to + start, part, whole, UDP_CHECK)
    else:
        set_tcp(to + start, index, size, place + count == length)
        set_checksum(to + start, part, whole, TCP_CHECK)
    return headers + count


def set_outer(to: u64, length: u32, net: u32, index: u32):
    """Sets the headers of a tunnel, IP at `net`, around a segment that is done."""
    four = mem_u8(to + net) >> 4 == 4
    start = net + (u32(mem_u8(to + net) & 15) * 4 if four else u32(40))
    set_network(to, net, start, length, index)
    protocol = mem_u8(to + net + (9 if four else 6))
    at, size = to + start, length - start
    if protocol == UDP:
        set_net16(at + 4, u16(size))
        if net16(at + UDP_CHECK) != 0:  # 0 is none, which tunnels may do over IPv6 as well (RFC 6935)
            set_net16(at + UDP_CHECK, 0)
            pseudo = mem_sum16(to + net + 12, 8, UDP + size) if four else mem_sum16(to + net + 8, 32, UDP + size)
            set_check(at + UDP_CHECK, u16(~mem_sum16(at, size, pseudo)), UDP_CHECK)
    elif protocol == GRE and mem_u8(at) & 0x80 != 0:  # RFC 2784: a checksum is there
        set_net16(at + 4, 0)
        set_net16(at + 4, u16(~mem_sum16(at, size, 0)))


def set_network(to: u64, net: u32, start: u32, length: u32, index: u32):
    if mem_u8(to + net) >> 4 == 4:
        set_net16(to + net + 2, u16(length - net))
        set_net16(to + net + 4, net16(to + net + 4) + u16(index))
        set_net16(to + net + 10, 0)
        set_net16(to + net + 10, u16(~mem_sum16(to + net, start - net, 0)))
    else:
        set_net16(to + net + 4, u16(length - net - 40))


def set_tcp(tcp: u64, index: u32, size: u32, last: flag):
    set_net32(tcp + 4, net32(tcp + 4) + index * size)
    flags = mem_u8(tcp + 13)
    if not last:
        flags &= 0xFF ^ FIN_PSH
    if index != 0:
        flags &= 0xFF ^ CWR
    set_mem_u8(tcp + 13, flags)


def set_checksum(at: u64, part: u32, whole: u32, offset: u32):
    """The field holds the sum of the pseudo header for `whole` bytes; the segment has `part`."""
    pseudo = u32(net16(at + offset)) + (0xFFFF - whole) + part
    set_net16(at + offset, 0)
    set_check(at + offset, u16(~mem_sum16(at, part, pseudo)), offset)


def net32(at: u64) -> u32:
    return u32(net16(at)) << 16 | u32(net16(at + 2))


def set_net32(at: u64, value: u32):
    set_net16(at, u16(value >> 16))
    set_net16(at + 2, u16(value))
