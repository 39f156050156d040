"""Numbers with names: ethertypes, IP protocols, ICMP types and codes, a few ports (IANA's and IEEE's registries).

Each table maps number to name; `number_of(table, word)` goes the other way, and explains itself if the word is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

ETHERTYPE_IP = 0x0800
ETHERTYPE_ARP = 0x0806
ETHERTYPE_VLAN = 0x8100
ETHERTYPE_IP6 = 0x86DD
ETHERTYPE_QINQ = 0x88A8
ETHERTYPE_MIN = 0x0600  # smaller values are lengths (IEEE 802.3, 3.2.6)

PROTO_ICMP = 1
PROTO_TCP = 6
PROTO_UDP = 17
PROTO_IP6_FRAGMENT = 44
PROTO_ICMP6 = 58

BROADCAST_ETHER = 0xFFFFFFFFFFFF

ARP_REQUEST, ARP_REPLY = 1, 2

ICMP_ECHO_REPLY, ICMP_UNREACHABLE, ICMP_REDIRECT, ICMP_ECHO = 0, 3, 5, 8
ICMP_TIME_EXCEEDED, ICMP_PARAMETER_PROBLEM, ICMP_TIMESTAMP, ICMP_TIMESTAMP_REPLY = 11, 12, 13, 14

TCP_FIN, TCP_SYN, TCP_RST, TCP_PSH, TCP_ACK, TCP_URG, TCP_ECE, TCP_CWR = (1 << n for n in range(8))

IP_DF, IP_MF, IP_OFFSET_MASK = 0x4000, 0x2000, 0x1FFF  # in the `frag` field

IPOPT_END, IPOPT_NOP, IPOPT_RECORD_ROUTE, IPOPT_TIMESTAMP, IPOPT_LOOSE_ROUTE, IPOPT_STRICT_ROUTE, IPOPT_ROUTER_ALERT = (
    0, 1, 7, 68, 131, 137, 148,
)  # fmt: skip

ETHERTYPES = {
    0x0800: "ip",
    0x0806: "arp",
    0x0842: "wake-on-lan",
    0x8035: "rarp",
    0x8100: "vlan",
    0x86DD: "ip6",
    0x8808: "flow-control",
    0x8809: "lacp",
    0x8847: "mpls",
    0x8848: "mpls-multicast",
    0x8863: "pppoe-discovery",
    0x8864: "pppoe",
    0x888E: "eapol",
    0x88A8: "qinq",
    0x88CC: "lldp",
    0x88F7: "ptp",
}

PROTOCOLS = {
    0: "hop-by-hop",
    1: "icmp",
    2: "igmp",
    4: "ipip",
    6: "tcp",
    8: "egp",
    17: "udp",
    33: "dccp",
    41: "ip6",
    43: "ip6-route",
    44: "ip6-frag",
    46: "rsvp",
    47: "gre",
    50: "esp",
    51: "ah",
    58: "icmp6",
    59: "ip6-none",
    60: "ip6-opts",
    88: "eigrp",
    89: "ospf",
    103: "pim",
    112: "vrrp",
    115: "l2tp",
    132: "sctp",
    136: "udplite",
}

ARP_OPERATIONS = {
    1: "request",
    2: "reply",
    3: "reverse-request",
    4: "reverse-reply",
    8: "inverse-request",
    9: "inverse-reply",
}

ICMP_TYPES = {
    0: "echo-reply",
    3: "unreachable",
    4: "source-quench",
    5: "redirect",
    8: "echo",
    9: "router-advertisement",
    10: "router-solicitation",
    11: "time-exceeded",
    12: "parameter-problem",
    13: "timestamp",
    14: "timestamp-reply",
    15: "information",
    16: "information-reply",
    17: "mask",
    18: "mask-reply",
    30: "traceroute",
    42: "extended-echo",
    43: "extended-echo-reply",
}

ICMP_CODES = {
    (3, 0): "net",
    (3, 1): "host",
    (3, 2): "protocol",
    (3, 3): "port",
    (3, 4): "fragmentation-needed",
    (3, 5): "source-route-failed",
    (3, 6): "net-unknown",
    (3, 7): "host-unknown",
    (3, 8): "host-isolated",
    (3, 9): "net-prohibited",
    (3, 10): "host-prohibited",
    (3, 11): "net-tos",
    (3, 12): "host-tos",
    (3, 13): "filtered",
    (3, 14): "host-precedence",
    (3, 15): "precedence-cutoff",
    (5, 0): "net",
    (5, 1): "host",
    (5, 2): "net-tos",
    (5, 3): "host-tos",
    (11, 0): "transit",
    (11, 1): "reassembly",
    (12, 0): "erroneous",
    (12, 1): "missing-option",
    (12, 2): "length",
}

ICMP6_TYPES = {
    1: "unreachable",
    2: "packet-too-big",
    3: "time-exceeded",
    4: "parameter-problem",
    128: "echo",
    129: "echo-reply",
    130: "listener-query",
    131: "listener-report",
    132: "listener-done",
    133: "router-solicitation",
    134: "router-advertisement",
    135: "neighbor-solicitation",
    136: "neighbor-advertisement",
    137: "redirect",
    143: "listener-report2",
}

PORTS = {
    7: "echo",
    20: "ftp-data",
    21: "ftp",
    22: "ssh",
    23: "telnet",
    25: "smtp",
    53: "domain",
    67: "bootps",
    68: "bootpc",
    69: "tftp",
    80: "www",
    110: "pop3",
    123: "ntp",
    137: "netbios-ns",
    138: "netbios-dgm",
    139: "netbios-ssn",
    143: "imap",
    161: "snmp",
    179: "bgp",
    389: "ldap",
    443: "https",
    514: "syslog",
    520: "rip",
    993: "imaps",
    2049: "nfs",
    4789: "vxlan",
}


def number_of(table: Mapping[int, str], word: str) -> int:
    """The number a word stands for; a ValueError names the nearest known words."""
    for number, name in table.items():
        if name == word:
            return number
    near = get_close_matches(word, list(table.values()), 3)
    known = f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else f"; known: {' '.join(table.values())}"
    raise ValueError(f"`{word}` is not a known name{known}")


def name_of(table: Mapping[int, str], number: int) -> str:
    """The name of a number, or the number itself as text."""
    return table.get(number, str(number))
