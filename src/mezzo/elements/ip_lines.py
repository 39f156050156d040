"""One line about an IP packet, in the form that Click's IPPrint prints (after tcpdump's)."""

from mezzo.wire.address import format_ip

# Click's words; they differ from those of `wire.constants`, and scripts read them.
_TYPES = {
    3: "unreachable", 4: "sourcequench", 5: "redirect", 9: "routeradvert", 10: "routersolicit", 11: "timeexceeded",
    12: "parameterproblem", 13: "timestamp", 14: "timestamp-reply", 15: "inforeq", 16: "inforeq-reply", 17: "maskreq",
    18: "maskreq-reply",
}  # fmt: skip
_CODES: dict[int, tuple[str, ...]] = {
    3: ("net", "host", "protocol", "port", "needfrag", "srcroutefail", "netunknown", "hostunknown", "isolated",
        "netprohibited", "hostprohibited", "tosnet", "toshost", "filterprohibited", "hostprecedence",
        "precedencecutoff"),
    5: ("net", "host", "tosnet", "toshost"),
    11: ("transit", "reassembly"),
    12: ("erroratptr", "missingopt", "length"),
}  # fmt: skip
_PROTOCOLS = {1: "icmp", 2: "igmp", 4: "ipip", 6: "tcp", 17: "udp", 33: "dccp", 47: "gre", 132: "sctp"}
_FIN, _SYN, _RST, _PSH, _ACK = 1, 2, 4, 8, 16
Pair = tuple[str, str]  # source and destination


def ip_line(ip: bytes, header: int, packet_length: int, swap: bool = True) -> str:
    """`ip`: the bytes from the IP header (20 at least) on; `header`: where the transport header starts in them."""
    ip_length, fragment = _u16(ip, 2), _u16(ip, 6)
    inside = ip_length - 4 * (ip[0] & 15)
    first = fragment & 0x1FFF == 0
    transport = ip[header : header + max(0, inside)]
    write = {6: _tcp, 17: _udp, 1: _icmp}.get(ip[9])
    pair = _address(ip, 12), _address(ip, 16)
    if write is None:
        text = f"{pair[0]} > {pair[1]}: ip-proto-{ip[9]}"
    elif not first:
        text = f"{pair[0]} > {pair[1]}: {_PROTOCOLS[ip[9]]}"
    else:
        text = write(pair, transport, ip_length, inside, packet_length, swap)
    if fragment & 0x3FFF:
        more = "+" if fragment & 0x2000 else ""
        text += f" (frag {_u16(ip, 4)}:{inside}@{(fragment & 0x1FFF) * 8}{more})"
    return text


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _address(data: bytes, at: int) -> str:
    return format_ip(_u32(data, at))


def _tcp(pair: Pair, tcp: bytes, ip_length: int, inside: int, packet_length: int, swap: bool) -> str:
    if len(tcp) < 4:
        return f"{pair[0]} > {pair[1]}: truncated-tcp"
    text = f"{pair[0]}.{_u16(tcp, 0)} > {pair[1]}.{_u16(tcp, 2)}: "
    if len(tcp) < 14:
        return text + "truncated-tcp"
    flags, seq = tcp[13], _u32(tcp, 4)
    size = inside - 4 * (tcp[12] >> 4) + bool(flags & _SYN) + bool(flags & _FIN)
    letters = "".join(letter for bit, letter in ((_SYN, "S"), (_FIN, "F"), (_RST, "R"), (_PSH, "P")) if flags & bit)
    text += f"{letters or '.'} {seq}:{(seq + size) & 0xFFFF_FFFF}({size},{packet_length},{ip_length})"
    if flags & _ACK:
        text += f" ack {_u32(tcp, 8)}"
    return f"{text} win {_u16(tcp, 14)}" if len(tcp) >= 16 else text + "truncated-tcp"


def _udp(pair: Pair, udp: bytes, ip_length: int, inside: int, packet_length: int, swap: bool) -> str:
    if len(udp) < 4:
        return f"{pair[0]} > {pair[1]}: truncated-udp"
    text = f"{pair[0]}.{_u16(udp, 0)} > {pair[1]}.{_u16(udp, 2)}: "
    return text + (f"udp {_u16(udp, 4)}" if len(udp) >= 8 else "truncated-udp")


def _icmp(pair: Pair, icmp: bytes, ip_length: int, inside: int, packet_length: int, swap: bool) -> str:
    text = f"{pair[0]} > {pair[1]}: "
    if len(icmp) < 2:
        return text + "truncated-icmp"
    if icmp[0] in (0, 8):
        text += "icmp echo-reply " if icmp[0] == 0 else "icmp echo "
        numbers = [_u16(icmp, at) if swap else int.from_bytes(icmp[at : at + 2], "little") for at in (4, 6)]
        return text + (f"({numbers[0]}, {numbers[1]})" if len(icmp) >= 8 else "truncated-icmp")
    return text + (_unreachable(icmp) if icmp[0] == 3 else _other(icmp))


def _code(kind: int, code: int) -> str:
    names = _CODES.get(kind, ())
    return names[code] if code < len(names) else ""


def _unreachable(icmp: bytes) -> str:
    """What could not be reached, out of the packet that the message quotes."""
    code = _code(3, icmp[1]) or f"code {icmp[1]}"
    quoted = icmp[8:]
    if len(quoted) < 20:
        return f"icmp unreachable {code} truncated-icmp"
    text = f"icmp {_address(quoted, 16)} unreachable {code}"
    protocol, ports = quoted[9], quoted[4 * (quoted[0] & 15) :]
    if icmp[1] == 2:
        return f"{text} {_PROTOCOLS.get(protocol, protocol)}"
    if icmp[1] == 3:
        text += " " + _PROTOCOLS.get(protocol, f"protocol {protocol}")
        return f"{text}/{_u16(ports, 2)}" if len(ports) >= 4 else text + "truncated-icmp"
    mtu = _u16(icmp, 6)
    return f"{text} (mtu {mtu})" if icmp[1] == 4 and mtu else text


def _other(icmp: bytes) -> str:
    text = "icmp " + _TYPES.get(icmp[0], f"type {icmp[0]}")
    code = _code(icmp[0], icmp[1]) or (f"code {icmp[1]}" if icmp[1] else "")
    return f"{text} {code}" if code else text
