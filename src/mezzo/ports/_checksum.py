"""Partial checksums: functions of the runtime dialect that finish what a sender left to its interface.

Linux writes the folded sum of the pseudo header into the checksum field, uncomplemented, and leaves the rest to the
device (CHECKSUM_PARTIAL: Documentation/networking/checksum-offloads).  To finish is to sum from the start of the
transport header to the end, the field included, and to store the complement.  A virtio-net header says where; where
there is none (AF_XDP), `finish_if_partial` looks: a field that equals the pseudo header's sum is unfinished.  A whole
checksum that happens to equal it is finished to itself, so nothing sound is ever changed.

Rules: addresses are of whole frames, offsets are checked against `length` before a byte is read.
"""

from mezzo.elements import flag, mem_sum16, mem_u8, mem_u16, mem_u32, set_mem_u16, u8, u16, u32, u64

IP4, IP6, VLAN, SERVICE_VLAN = 0x0800, 0x86DD, 0x8100, 0x88A8
TCP, UDP, GRE, IP_IN_IP, IP6_IN_IP = 6, 17, 47, 4, 41
VXLAN, OLD_VXLAN, GENEVE, BRIDGED = 4789, 8472, 6081, 0x6558  # ports of UDP; GRE's type for Ethernet
HOP_BY_HOP, OPTIONS = 0, 60
FRAGMENT = 0x3FFF  # more fragments, or a place behind the first
NOWHERE = 0
UDP_CHECK = 6  # where UDP has its checksum
# As they stand in memory:
NEAR_IP4, NEAR_IP6, NEAR_VLAN, NEAR_SERVICE_VLAN, PLAIN_IP4 = 0x0008, 0xDD86, 0x0081, 0xA888, 0x45
AROUND = 1 << GRE | 1 << IP_IN_IP | 1 << IP6_IN_IP  # a bit for each with a packet in it
TUNNEL_PORTS = (0xB512, 0x1821, 0xC117)  # 4789, 8472 (VXLAN) and 6081 (Geneve)
TUNNELS = sum(1 << (port & 63) for port in TUNNEL_PORTS)  # one test for most other ports


def net16(at: u64) -> u16:
    """The big-endian number at `at`."""
    got = mem_u16(at)
    return (got << 8) | (got >> 8)


def set_net16(at: u64, value: u16):
    set_mem_u16(at, (value << 8) | (value >> 8))


def network_offset(at: u64, length: u32) -> u32:
    """Where IP begins in an Ethernet frame, behind at most two VLAN tags; NOWHERE when it carries no IP."""
    place: u32 = 12
    for _ in range(3):
        if place + 2 > length:
            return NOWHERE
        kind = net16(at + place)
        if kind in (IP4, IP6):
            return place + 2
        if kind != VLAN and kind != SERVICE_VLAN:
            return NOWHERE
        place += 4
    return NOWHERE


def finish(at: u64, length: u32, start: u32, offset: u32) -> flag:
    """Finishes the checksum at `start + offset` over [start, length); False when it is not in the frame."""
    if start + offset + 2 > length:
        return False
    set_check(at + start + offset, u16(~mem_sum16(at + start, length - start, 0)), offset)
    return True


def set_check(at: u64, check: u16, offset: u32):
    """Stores a transport checksum, `offset` bytes into its header: UDP's 0 as 0xFFFF, since 0 says "none" (RFC 768)."""
    set_net16(at, 0xFFFF if check == 0 and offset == UDP_CHECK else check)


def may_be_partial(at: u64) -> flag:
    """A quick look at a frame: no for what is no TCP or UDP, and for plain IPv4 with a checksum that is whole.

    A partial one is the sum of the pseudo header modulo 0xFFFF.  It is taken as the bytes stand in memory, where each
    number is 256 times itself modulo 0xFFFF (RFC 1071): so is the header's length, which the total length has too much.
    """
    first = mem_u32(at + 12)
    if first & 0xFF_FFFF != NEAR_IP4 | PLAIN_IP4 << 16:
        return u16(first) in (NEAR_IP4, NEAR_IP6, NEAR_VLAN, NEAR_SERVICE_VLAN)
    protocol = mem_u8(at + 23)
    if protocol != TCP and protocol != UDP:
        return protocol <= GRE and (u64(AROUND) >> protocol) & 1 != 0
    if protocol == UDP:
        port = mem_u16(at + 36)
        if (u64(TUNNELS) >> (port & 63)) & 1 != 0 and port in TUNNEL_PORTS:
            return True
    found = mem_u16(at + 50) if protocol == TCP else mem_u16(at + 40)
    total = u64(mem_u32(at + 26)) + mem_u32(at + 30) + mem_u16(at + 16) + (u32(protocol) << 8)
    return (total + (2 * 0xFFFF - 20 * 256) - found) % 0xFFFF == 0


def finish_if_partial(at: u64, length: u32) -> flag:
    """Finishes the unfinished TCP or UDP checksum of an Ethernet frame, or of the one in its tunnel; was there one?"""
    net = network_offset(at, length)
    if net == NOWHERE:
        return False
    inner = tunnelled(at, length, net)
    if inner != NOWHERE and finish_ip(at, length, inner):
        return True  # the outer checksum is whole, and reckons with a whole inner one (local checksum offload)
    return finish_ip(at, length, net)


def finish_ip(at: u64, length: u32, net: u32) -> flag:
    if net + 20 > length:
        return False
    if mem_u8(at + net) >> 4 == 4:
        return finish_ip4(at, length, net)
    return finish_ip6(at, length, net)


def tunnelled(at: u64, length: u32, net: u32) -> u32:
    """Where the IP packet in a tunnel (VXLAN, Geneve, GRE, IP in IP) begins; NOWHERE when it is none."""
    if net + 48 > length:
        return NOWHERE
    four = mem_u8(at + net) >> 4 == 4
    protocol = mem_u8(at + net + (9 if four else 6))
    start = net + (u32(mem_u8(at + net) & 15) * 4 if four else u32(40))
    if start + 24 > length:
        return NOWHERE
    if protocol in (IP_IN_IP, IP6_IN_IP):
        return start
    if protocol == GRE:
        flags, carried = mem_u8(at + start), net16(at + start + 2)
        start += 4 + u32(flags >> 5 & 4) + u32(flags >> 3 & 4) + u32(flags >> 2 & 4)  # checksum, key, sequence number
        if carried == BRIDGED:
            return within(at, length, start)
        return start if carried in (IP4, IP6) else u32(NOWHERE)
    if protocol != UDP:
        return NOWHERE
    port = net16(at + start + 2)
    if port in (VXLAN, OLD_VXLAN):
        return within(at, length, start + 16)
    if port == GENEVE:
        return within(at, length, start + 16 + u32(mem_u8(at + start + 8) & 0x3F) * 4)
    return NOWHERE


def within(at: u64, length: u32, start: u32) -> u32:
    """Where IP begins in the Ethernet frame at `start`."""
    if start + 34 > length:
        return NOWHERE
    net = network_offset(at + start, length - start)
    return start + net if net != NOWHERE else u32(NOWHERE)


def finish_ip4(at: u64, length: u32, net: u32) -> flag:
    if net + 20 > length or net16(at + net + 6) & FRAGMENT != 0:
        return False
    hlen = u32(mem_u8(at + net) & 15) * 4
    total = u32(net16(at + net + 2))
    if hlen < 20 or total < hlen:
        return False
    protocol = mem_u8(at + net + 9)
    pseudo = mem_sum16(at + net + 12, 8, u32(protocol) + total - hlen)
    return finish_transport(at, length, net + hlen, total - hlen, protocol, u16(pseudo))


def finish_ip6(at: u64, length: u32, net: u32) -> flag:
    """As for IPv4; options are stepped over.  Behind a routing header the pseudo header has another address."""
    if net + 40 > length:
        return False
    protocol = mem_u8(at + net + 6)
    end = net + 40 + u32(net16(at + net + 4))
    start = net + 40
    for _ in range(3):
        if protocol != HOP_BY_HOP and protocol != OPTIONS:
            break
        if start + 8 > length:
            return False
        protocol = mem_u8(at + start)
        start += u32(mem_u8(at + start + 1)) * 8 + 8
    if start > end:
        return False
    pseudo = mem_sum16(at + net + 8, 32, u32(protocol) + end - start)
    return finish_transport(at, length, start, end - start, protocol, u16(pseudo))


def finish_transport(at: u64, length: u32, start: u32, size: u32, protocol: u8, pseudo: u16) -> flag:
    if protocol != TCP and protocol != UDP:
        return False
    offset: u32 = 16 if protocol == TCP else 6
    if start + size > length or offset + 2 > size or net16(at + start + offset) != pseudo:
        return False
    return finish(at, start + size, start, offset)
