"""What rewriters tell and take: the handlers over their flows.

A flow is written as Click writes it, with what mezzo knows besides, one line for each direction:

    (10.0.0.2, 5000, 9.9.9.9, 53) => (1.0.0.1, 1024, 9.9.9.9, 53) [0] udp i0 exp 299.5s
    (9.9.9.9, 53, 1.0.0.1, 1024) => (9.9.9.9, 53, 10.0.0.2, 5000) [1] udp i0 exp 299.5s

and given as `PROTO SADDR SPORT DADDR DPORT`.  A batch of lines is done whole or not at all.
"""

import re
from collections.abc import Iterator
from typing import Any

from mezzo.elements import ConfigError, read, write
from mezzo.elements.rewriter_flows import ADDRESSES, DONE, LIVES, MOST_FLOWS, NEVER, PORTS, STATE, STATIC, USED, _Flows
from mezzo.elements.rewriter_spec import MAP
from mezzo.wire.address import format_ip, parse_ip

TCP, UDP = 6, 17
NAMES = {1: "icmp", TCP: "tcp", UDP: "udp"}
NUMBERS = {name: number for number, name in NAMES.items()}
_MARKS = re.compile(r"[(),]")


class _FlowHandlers(_Flows):
    """The handlers of all rewriters."""

    def now_ns(self) -> int:
        return self.router.now_ns if self.router is not None else 0

    def flow_words(self, addresses: int, ports: int) -> str:
        """Addresses and ports in parentheses."""
        src, dst = format_ip(addresses >> 32), format_ip(addresses & 0xFFFF_FFFF)
        return f"({src}, {ports >> 16}, {dst}, {ports & 0xFFFF})"

    def mapping(self, e: int) -> tuple[int, int, int]:
        """(addresses, ports, state) of mapping `e`."""
        at = 4 * e
        return self.rec[at + ADDRESSES], self.rec[at + PORTS] >> 32, self.rec[at + STATE]

    def end_of(self, f: int) -> int:
        lasts = self.lives[self.life[f]]
        return NEVER if lasts == NEVER else max(self.rec[8 * f + USED], self.rec[8 * f + 4 + USED]) + lasts

    def living(self) -> Iterator[int]:
        """Flows that have not ended, the longest quiet first of each kind of life."""
        now = self.now_ns()
        for life in range(LIVES):
            f = self.newer[life]
            while f >= LIVES:
                if self.end_of(f) > now:
                    yield f
                f = self.newer[f]

    def ended(self) -> int:
        """How many flows are only not taken away yet."""
        now, ended = self.now_ns(), 0
        for life in range(STATIC):
            f = self.newer[life]
            # Flows stand in order of the tick they were last moved in, which is exact to a tick.
            while f >= LIVES and self.end_of(f) <= now + (1 << self.shift):
                ended += self.end_of(f) <= now
                f = self.newer[f]
        return ended

    def lines(self, f: int) -> str:
        text = ""
        end, proto = self.end_of(f), self.rec[8 * f + STATE] >> 24 & 0xFF
        left = "static" if end == NEVER else f"i{self.owner[f]} exp {(end - self.now_ns()) / 1e9:.1f}s"
        for way in (0, 1):
            to, ports, state = self.mapping(2 * f + way)
            back, back_ports, _ = self.mapping(2 * f + (way ^ 1))
            was = self.flow_words(back << 32 & NEVER | back >> 32, self.turned(back_ports))
            text += f"{was} => {self.flow_words(to, ports)} [{state & 0xFFFF}] {NAMES.get(proto, proto)} {left}\n"
        return text

    def turned(self, ports: int) -> int:
        return ports << 16 & 0xFFFF_FFFF | ports >> 16

    @read("mappings", "flows, a line for each direction: before, after, output, protocol, input, seconds to live")
    def mappings(self) -> str:
        return "".join(map(self.lines, self.living()))

    @read("table", "the same as mappings")
    def table(self) -> str:
        return self.mappings()

    @read("nmappings", "flows that live")
    def nmappings(self) -> int:
        return int(self.count) - self.ended()

    @read("size", "the same as nmappings")
    def size(self) -> int:
        return self.nmappings()

    @read("capacity", "most flows")
    def read_capacity(self) -> int:
        return int(self.most)

    @read("patterns", "what inputs do with new flows, a line each, and how many of them live")
    def patterns_text(self) -> str:
        made = [0] * len(self.shown)
        for f in self.living():
            if self.life[f] != STATIC and self.owner[f] < len(made):  # a reload may have taken inputs away
                made[self.owner[f]] += 1
        return "".join(f"{s.text} [{n}]\n" if n else f"{s.text}\n" for s, n in zip(self.shown, made, strict=True))

    @write("clear", "removes all flows", flags="b")
    def clear(self, text: str) -> None:
        self.call("clear_all")


class _TransportHandlers(_FlowHandlers):
    """Handlers of rewriters with ports: questions for one flow, and flows that a person enters."""

    @read("tcp_mappings", "flows of TCP")
    def tcp_mappings(self) -> str:
        return "".join(self.lines(f) for f in self.living() if self.rec[8 * f + STATE] >> 24 & 0xFF == TCP)

    @read("udp_mappings", "flows of UDP")
    def udp_mappings(self) -> str:
        return "".join(self.lines(f) for f in self.living() if self.rec[8 * f + STATE] >> 24 & 0xFF == UDP)

    @read("lookup", "what PROTO SADDR SPORT DADDR DPORT becomes: SADDR SPORT DADDR DPORT; empty if unknown", param=True)
    def lookup(self, text: str) -> str:
        return self.look_up(text.split())

    @read("tcp_lookup", "the same for TCP: SADDR SPORT DADDR DPORT", param=True)
    def tcp_lookup(self, text: str) -> str:
        return self.look_up(["tcp", *text.split()])

    @read("udp_lookup", "the same for UDP: SADDR SPORT DADDR DPORT", param=True)
    def udp_lookup(self, text: str) -> str:
        return self.look_up(["udp", *text.split()])

    def look_up(self, words: list[str]) -> str:
        found = self.after(*_tuple(words))
        return "" if found is None else self.plain_words(*found)

    def plain_words(self, addresses: int, ports: int) -> str:
        """As handlers are given flows."""
        return " ".join(_MARKS.sub(" ", self.flow_words(addresses, ports)).split())

    def plain(self, e: int) -> str:
        """The packets that mapping `e` is for."""
        back, ports, _ = self.mapping(e ^ 1)
        return self.plain_words(back << 32 & NEVER | back >> 32, self.turned(ports))

    def flow_of(self, words: list[str]) -> tuple[int, int, int]:
        """(protocol, addresses, ports) of PROTO SADDR SPORT DADDR DPORT."""
        return _tuple(words)

    def after(self, proto: int, addresses: int, ports: int) -> tuple[int, int] | None:
        """What addresses and ports become, where a living flow has them."""
        e = self.find.get(addresses << 64 | ports << 32 | proto, 0)
        if not e or self.end_of(e >> 1) <= self.now_ns():
            return None
        return self.mapping(e)[:2]

    @write(
        "add",
        "enters flows that stay: lines of PROTO FLOW => FLOW [FOUTPUT ROUTPUT]; FLOW: SADDR SPORT DADDR DPORT",
    )
    def add(self, text: str) -> None:
        rows = [self._read_row(line) for line in text.splitlines() if line.strip()]
        known: set[tuple[int, int, int]] = set()
        for row, line in zip(rows, filter(str.strip, text.splitlines()), strict=True):
            proto, addresses, ports, to, to_ports = row[:5]
            keys = [(proto, addresses, ports), (proto, to << 32 & NEVER | to >> 32, self.turned(to_ports))]
            for key in keys:
                if key in known or self.after(*key) is not None:
                    what = f"{NAMES[proto]} {self.flow_words(*key[1:])}"
                    raise ConfigError(f"conflict: {what} has a mapping already; nothing was added (`{line.strip()}`)")
            known.update(keys)
        if self.entered + len(rows) > self.most:
            raise ConfigError(
                f"full: {self.entered} of {self.most} places are taken by entered flows, and {len(rows)} more do not "
                f"fit; nothing was added; raise MAPPING_CAPACITY (up to {MOST_FLOWS})"
            )
        for proto, addresses, ports, *rest in rows:
            done = self.call("enter_by_hand", addresses, ports, proto, *rest)
            assert done == DONE, "what the checks above let through has a place"

    @write("remove", "removes flows: lines of PROTO SADDR SPORT DADDR DPORT, of either direction")
    def remove_rows(self, text: str) -> None:
        flows = []
        for line in filter(str.strip, text.splitlines()):
            proto, addresses, ports = _tuple(line.split())
            e = self.find.get(addresses << 64 | ports << 32 | proto, 0)
            if self.after(proto, addresses, ports) is None:
                raise ConfigError(f"`{line.strip()}` has no mapping; nothing was removed")
            flows.append(e >> 1)
        for f in dict.fromkeys(flows):
            self.call("remove_by_hand", f)

    def _read_row(self, line: str) -> tuple[int, ...]:
        """(protocol, addresses, ports, new addresses, new ports, output forwards, output of replies)."""
        before, arrow, after = line.partition("=>")
        words = after.split()
        if not arrow or len(words) not in (4, 6):
            raise ConfigError(
                f"`{line.strip()}`: write PROTO SADDR SPORT DADDR DPORT => SADDR SPORT DADDR DPORT [FOUTPUT ROUTPUT]"
            )
        outputs = words[4:] or self._outputs()
        if not all(word.isdigit() and int(word) < self.noutputs for word in outputs):
            raise ConfigError(f"`{line.strip()}`: outputs are 0 to {self.noutputs - 1}")
        proto, addresses, ports = _tuple(before.split())
        _, to, to_ports = _tuple([NAMES[proto], *words[:4]])
        return proto, addresses, ports, to, to_ports, *map(int, outputs)

    def _outputs(self) -> list[str]:
        """Those of the first specification that has any."""
        made = next((s.patterns[0] for s in self.shown if s.kind == MAP), None)
        return [str(made.foutput), str(made.routput)] if made is not None else ["0", str(self.noutputs - 1)]


def _tuple(words: list[str]) -> tuple[int, int, int]:
    """(protocol, addresses, ports) of PROTO SADDR SPORT DADDR DPORT."""
    if len(words) != 5 or words[0].lower() not in ("tcp", "udp"):
        raise ConfigError(f"`{' '.join(words)}`: write PROTO SADDR SPORT DADDR DPORT, PROTO being tcp or udp")
    src, dst = parse_ip(words[1]), parse_ip(words[3])
    ports: list[Any] = [int(w) if w.isdigit() else 65536 for w in (words[2], words[4])]
    if max(ports) > 65535:
        raise ConfigError(f"`{' '.join(words)}`: a port is a number from 0 to 65535")
    return NUMBERS[words[0].lower()], src << 32 | dst, ports[0] << 16 | ports[1]
