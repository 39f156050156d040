"""The three codes with which an element class describes its ports, as Click spells them.

Port counts, `inputs/outputs`: `1`, `1-2`, `1-` (one or more), `-` (any), and for outputs `=` (as many as inputs) and
`=+` (one more).

Processing, `inputs/outputs`: one character a port, the last for all further ports: `h` push, `l` pull, `a` agnostic.

Flow, `inputs/outputs`: one item a port, the last for all further ports.  An item is a letter, `#` (the port's own
number), or a set `[xy]` or `[^xy]`.  Packets travel from an input to an output whose items have something in common:
`x/x` everywhere, `xy/x` not from input 1, `#/#` straight through, `#/[^#]` to all but the same port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_RANGE = re.compile(r"(\d+)(-(\d*))?|-(\d*)")
_ITEM = re.compile(r"\[(\^?)([A-Za-z#]*)\]|([A-Za-z#])")


@dataclass(frozen=True, slots=True)
class PortCounts:
    """How many inputs and outputs a class takes; no upper bound where `most` is None."""

    least_inputs: int
    most_inputs: int | None
    least_outputs: int
    most_outputs: int | None
    equal_plus: int | None = None

    def settle(self, used_inputs: int, used_outputs: int) -> tuple[int, int]:
        """The numbers of ports of an instance whose connections use this many."""
        ninputs = _clamp(used_inputs, self.least_inputs, self.most_inputs)
        if self.equal_plus is None:
            return ninputs, _clamp(used_outputs, self.least_outputs, self.most_outputs)
        ninputs = _clamp(max(ninputs, used_outputs - self.equal_plus), self.least_inputs, self.most_inputs)
        return ninputs, ninputs + self.equal_plus


@dataclass(frozen=True, slots=True)
class FlowItem:
    """What one port has in common with others."""

    letters: frozenset[str]
    own_number: bool
    negated: bool

    def meets(self, port: int, other: FlowItem, other_port: int) -> bool:
        """Whether packets travel between this port and the other."""
        same_number = self.own_number and other.own_number and port == other_port
        if self.negated and other.negated:
            return True
        if self.negated:
            return other.meets(other_port, self, port)
        if other.negated:
            return bool(self.letters - other.letters) or (self.own_number and not same_number)
        return bool(self.letters & other.letters) or same_number


@lru_cache(maxsize=1024)
def parse_ports(code: str) -> PortCounts:
    """The port counts a code stands for; an empty code is `0/0`."""
    inputs, slash, outputs = (code or "0/0").partition("/")
    least, most = _parse_range(inputs, code)
    outputs = outputs if slash else inputs
    if outputs in ("=", "=+"):
        return PortCounts(least, most, 0, None, len(outputs) - 1)
    return PortCounts(least, most, *_parse_range(outputs, code))


@lru_cache(maxsize=4096)
def parse_processing(code: str, ninputs: int, noutputs: int) -> tuple[str, str]:
    """One of `h`, `l`, `a` for each input, and for each output; an empty code is agnostic."""
    inputs, slash, outputs = (code or "a/a").partition("/")
    outputs = outputs if slash else inputs
    assert set(inputs + outputs) <= set("hla"), f"processing code {code!r} has a letter besides h, l and a"
    return _stretch(inputs or "a", ninputs), _stretch(outputs or "a", noutputs)


@lru_cache(maxsize=4096)
def flow_outputs(code: str, port: int, noutputs: int) -> tuple[int, ...]:
    """The outputs to which packets travel from this input; an empty code, or COMPLETE, is `x/x`."""
    inputs, outputs = _parse_flow(code)
    item = inputs[min(port, len(inputs) - 1)]
    last = len(outputs) - 1
    return tuple(out for out in range(noutputs) if item.meets(port, outputs[min(out, last)], out))


@lru_cache(maxsize=1024)
def _parse_flow(code: str) -> tuple[tuple[FlowItem, ...], tuple[FlowItem, ...]]:
    inputs, slash, outputs = ("x/x" if code in ("", "COMPLETE") else code).partition("/")
    return _parse_items(inputs, code), _parse_items(outputs if slash else inputs, code)


def _parse_items(text: str, code: str) -> tuple[FlowItem, ...]:
    items, pos = [], 0
    while pos < len(text):
        m = _ITEM.match(text, pos)
        assert m is not None, f"flow code {code!r} cannot be read at {text[pos:]!r}"
        letters = m.group(3) or m.group(2)
        items.append(FlowItem(frozenset(letters) - {"#"}, "#" in letters, m.group(1) == "^"))
        pos = m.end()
    return tuple(items) or (FlowItem(frozenset("x"), False, False),)


def _parse_range(text: str, code: str) -> tuple[int, int | None]:
    m = _RANGE.fullmatch(text)
    assert m is not None, f"port code {code!r} cannot be read at {text!r}"
    if m.group(1) is None:
        return 0, int(m.group(4)) if m.group(4) else None
    if m.group(2) is None:
        return int(text), int(text)
    return int(m.group(1)), int(m.group(3)) if m.group(3) else None


def _stretch(kinds: str, count: int) -> str:
    return kinds[:count] + kinds[-1] * (count - len(kinds))


def _clamp(value: int, least: int, most: int | None) -> int:
    value = max(value, least)
    return value if most is None else min(value, most)
