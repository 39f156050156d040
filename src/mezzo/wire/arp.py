"""ARP for IPv4 over Ethernet, the only pair of lengths in use (6 and 4)."""

from mezzo.wire.header import Header, bits


class Arp(Header):
    """Address resolution packet; RFC 826 calls the fields ar$hrd, ar$pro, and so on."""

    short, mark, source = "arp", "network", "RFC 826"
    hardware_type = bits(16, "1 is Ethernet")
    protocol_type = bits(16, "0x0800 is IPv4")
    hardware_length = bits(8, "6")
    protocol_length = bits(8, "4")
    operation = bits(16, "1 request, 2 reply")
    sender_hardware = bits(48, "sender's Ethernet address")
    sender_protocol = bits(32, "sender's IPv4 address")
    target_hardware = bits(48, "target's Ethernet address; unknown in a request")
    target_protocol = bits(32, "target's IPv4 address")
