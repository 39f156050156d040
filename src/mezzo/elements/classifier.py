"""Classifier: packets sorted by the bytes they have at given places."""

import re

from mezzo.elements import KILL, ConfigError, Element, Raw, Rest, read
from mezzo.elements.confparse import unquote
from mezzo.elements.decision import Clause, Diagram, word_tests

_CLAUSE = re.compile(r"(?P<not>!?)(?P<offset>\d+)/(?P<value>[0-9A-Fa-f?]*)(?:%(?P<mask>[0-9A-Fa-f?]*))?\Z")
_FARTHEST = 1 << 16  # no packet is longer


class Classifier(Element):
    """Sends each packet to the output of the first pattern that it matches.

    A pattern is a list of clauses OFFSET/VALUE or OFFSET/VALUE%MASK, or `-`, which matches every packet.  OFFSET is in
    bytes from the start of the packet; VALUE and MASK are hexadecimal bytes; a `?` digit matches anything.  A `!` in
    front turns a clause round.  A clause that needs bytes which the packet does not have does not match; turned round,
    it does.  Packets that match no pattern are dropped.

    The patterns become a decision diagram, and that becomes code: every test is made at most once for a packet.
    """

    ports, processing = "1/-", "h/h"
    patterns = Rest(Raw(), "one pattern for each output", least=1)
    example = """InfiniteSource(DATA \\<00000000 00000000 00000000 0806 0001>, LIMIT 3)
  -> c :: Classifier(12/0800, 12/0806, -);
c[0] -> ip :: Counter -> Discard; c[1] -> arp :: Counter -> Discard; c[2] -> other :: Counter -> Discard;"""
    example_reads = {"ip.count": "0", "arp.count": "3", "other.count": "0"}
    see = ("PaintSwitch", "CheckIPHeader")

    def configure(self):
        if len(self.patterns) != self.noutputs:
            raise ConfigError(f"{len(self.patterns)} patterns for {self.noutputs} outputs; write one for each output")
        self.rules = tuple(self.parse(number, text) for number, text in enumerate(self.patterns))
        if self.troubles:
            return
        diagram = Diagram(self.rules)
        self.text = diagram.describe()
        for number in sorted(set(range(len(self.rules))) - diagram.answers()):
            self.warn(f"pattern {number} matches no packets")

    def parse(self, number, text):
        words = unquote(text).split()
        if not words:
            self.error(f"pattern {number} is empty; write `-` to match every packet", text)
        if words == ["-"]:
            return ()
        return tuple(self.parse_clause(number, word, text) for word in words)

    def parse_clause(self, number, word, text):
        try:
            return parse_clause(word)
        except ValueError as trouble:
            self.error(f"pattern {number}: {trouble}", text)
            return Clause(())

    def generate(self, builder):
        # It makes IR, whose classes a router with its code on disk does not need.
        from mezzo.elements.decision_code import process

        process(builder, self.rules, [*range(len(self.rules)), KILL], "no pattern matches")

    @read("program", "the decision diagram, one step a line")
    def program(self):
        return self.text


def parse_clause(word: str) -> Clause:
    """A Clause of `12/0800`, `!33/02%12` or the like; ValueError says what is wrong."""
    match = _CLAUSE.match(word)
    if match is None:
        raise ValueError(_why_not(word))
    value, mask = match["value"], match["mask"]
    if not value:
        raise ValueError(f"`{word}` has no value; write hexadecimal bytes, as in {match['offset']}/0800")
    if len(value) % 2:
        raise ValueError(
            f"`{word}` has an odd number of hex digits; write whole bytes, as in {match['offset']}/0{value}"
        )
    if mask is not None and len(mask) != len(value):
        many = "many" if len(mask) > len(value) else "few"
        raise ValueError(f"`{word}`: the mask has too {many} hex digits; it needs {len(value)}, as the value has")
    offset = int(match["offset"])
    if offset + len(value) // 2 > _FARTHEST:
        raise ValueError(f"`{word}`: no packet reaches byte {offset + len(value) // 2}; the last one is {_FARTHEST}")
    bits, cares = _digits(value)
    if mask is not None:
        given, known = _digits(mask)
        cares = bytes(a & b & c for a, b, c in zip(cares, given, known, strict=True))
    return Clause(word_tests("data", offset, bits, cares), bool(match["not"]))


def _digits(text: str) -> tuple[bytes, bytes]:
    """(value, which bits are given) of hexadecimal digits with `?` among them."""
    return bytes.fromhex(text.replace("?", "0")), bytes.fromhex("".join("0" if c == "?" else "f" for c in text))


def _why_not(word: str) -> str:
    """What is wrong with a clause that has not the form of one."""
    body = word.removeprefix("!")
    number = re.match(r"\d*", body)[0]
    if not number:
        return f"expected a digit, not `{body[:1] or word}`, in `{word}`; write OFFSET/VALUE, as in 12/0800"
    rest = body[len(number) :]
    if not rest.startswith("/"):
        return f"expected `/` behind {number} in `{word}`; write OFFSET/VALUE, as in {number}/0800"
    bad = re.search(r"[^0-9A-Fa-f?%]", rest[1:])
    what = f"`{bad[0]}` is no hex digit" if bad else "there is one mask at most"
    return f"{what} in `{word}`; write OFFSET/VALUE%MASK with digits 0-9, a-f and ?"
