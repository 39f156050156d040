"""How rewriters are told what to do: input specifications and patterns, as text and as values.

    drop | discard                                            packets without a mapping die
    pass | passthrough | nochange [OUTPUT]                    they pass as they are, and no mapping is made
    keep FOUTPUT ROUTPUT                                      a mapping that changes nothing
    pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT           a mapping by the pattern; `-` leaves a field as it is
    pattern SADDR DADDR FOUTPUT ROUTPUT                       the same for rewriters of addresses
    pattern NAME FOUTPUT ROUTPUT                              a pattern that an IPRewriterPatterns has named
    NAME                                                      an IPMapper chooses among its own such lines

One field of a pattern may be a range, of which a free value is taken: the packet's own if it is in the range, otherwise
one by chance.  `#` behind the range takes them in order, `?` always by chance.  Fewer than SMALL values are taken in
order, behind the packet's own, unless it says `?`: there is nothing that chance could hide (RFC 6056, 3.2).
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from mezzo.elements.args import Env, IPAddress, IPPrefix
from mezzo.elements.confparse import split_words
from mezzo.wire.address import mask_of

DROP, PASS, MAP = range(3)
OWN_FIRST, IN_ORDER, BY_CHANCE, OWN_THEN_ORDER = range(4)
ONE, IN_TURN, BY_SOURCE = range(3)  # how one of several patterns is chosen
SMALL = 16
MOST_PATTERNS = 256  # of one mapper
ADDRESS_SPAN = 0xFFFF  # widest range of addresses: a /16
DROPS, PASSES = ("drop", "discard"), ("pass", "passthrough", "nochange")


@dataclass(frozen=True)
class Pattern:
    """What a packet's addresses and ports become; 0 leaves one as it is.  `span` is how far the range goes."""

    text: str
    ports: bool  # has it ports at all
    saddr: int = 0
    sport: int = 0
    daddr: int = 0
    dport: int = 0
    span: int = 0
    order: int = OWN_FIRST
    of_address: bool = False  # the range is one of source addresses
    foutput: int = 0
    routput: int = 0


@dataclass(frozen=True)
class Spec:
    """What happens to packets of one input that have no mapping."""

    kind: int
    text: str
    output: int = 0
    choice: int = ONE
    patterns: tuple[Pattern, ...] = ()


def parse_spec(text: str, env: Env, noutputs: int, ports: bool) -> Spec:
    """One input specification; ValueError says what is wrong with it."""
    words = split_words(text)
    head = words[0] if words else ""
    if head in DROPS and len(words) == 1:
        return Spec(DROP, "<drop>")
    if head in PASSES and len(words) <= 2:
        return Spec(PASS, "<nochange>", _output(words[1] if len(words) == 2 else "0", noutputs))
    if head in ("keep", "pattern"):
        kept = Pattern("<keep>", ports)
        made = parse_line(words, env, noutputs, ports, kept)
        return Spec(MAP, made.text, patterns=(made,))
    mapper = env.look("mapper", head) if len(words) == 1 else None
    if mapper is None:
        raise ValueError(
            f"`{text}` is no input specification; write drop, pass OUTPUT, keep FOUTPUT ROUTPUT, pattern "
            f"{'SADDR SPORT DADDR DPORT' if ports else 'SADDR DADDR'} FOUTPUT ROUTPUT, or the name of an IPMapper"
        )
    choice, lines = mapper
    patterns = tuple(
        parse_line(["pattern", *split_words(line)], env, noutputs, ports, Pattern("", ports)) for line in lines
    )
    return Spec(MAP, "<mapper>", choice=choice, patterns=patterns)


def parse_line(words: list[str], env: Env, noutputs: int, ports: bool, kept: Pattern) -> Pattern:
    """`keep F R` or `pattern … F R`."""
    usage = f"{words[0]} FOUTPUT ROUTPUT" if words[0] == "keep" else f"{words[0]} PATTERN FOUTPUT ROUTPUT"
    if len(words) < 3 or (words[0] == "keep") != (len(words) == 3):
        raise ValueError(f"expected `{usage}`, not `{' '.join(words)}`")
    foutput, routput = (_output(word, noutputs) for word in words[-2:])
    pattern = kept if words[0] == "keep" else _named_or_written(words[1:-2], env)
    if pattern.ports != ports:
        what = "addresses and ports: SADDR SPORT DADDR DPORT" if ports else "addresses only: SADDR DADDR"
        raise ValueError(f"the pattern `{pattern.text}` does not fit: this element rewrites {what}")
    return replace(pattern, foutput=foutput, routput=routput)


def _output(word: str, noutputs: int) -> int:
    if not word.isdigit() or int(word) >= max(noutputs, 1):
        raise ValueError(f"`{word}` is not an output of this element; it has {noutputs}, counted from 0")
    return int(word)


def _named_or_written(words: list[str], env: Env) -> Pattern:
    if len(words) != 1:
        return parse_pattern(words, env)
    found = env.look("pattern", words[0])
    if found is None:
        raise ValueError(f"there is no pattern `{words[0]}`; write IPRewriterPatterns({words[0]} SADDR SPORT - -)")
    return found  # type: ignore[no-any-return]


def parse_pattern(words: list[str], env: Env) -> Pattern:
    """`SADDR SPORT DADDR DPORT` or `SADDR DADDR`."""
    text = " ".join(words)
    if len(words) not in (2, 4):
        raise ValueError(f"`{text}` is no pattern; write SADDR SPORT DADDR DPORT, or SADDR DADDR for addresses alone")
    with_ports = len(words) == 4
    saddr, span, order = _addresses(words[0], env)
    of_address = span > 0
    sport = dport = 0
    if with_ports:
        sport, port_span, port_order = _ports(words[1])
        dport = _port(words[3])
        if span and port_span:
            raise ValueError(f"`{text}`: one of source address and source port may be a range, not both")
        if port_span:
            span, order = port_span, port_order
    daddr = 0 if words[-1 - with_ports] == "-" else IPAddress().parse(words[-1 - with_ports], env)
    return Pattern(text, with_ports, saddr, sport, daddr, dport, span, order, of_address)


def _range(word: str) -> tuple[str, int]:
    if word.endswith("#"):
        return word[:-1], IN_ORDER
    return (word[:-1], BY_CHANCE) if word.endswith("?") else (word, OWN_FIRST)


def _settle(span: int, order: int) -> int:
    return OWN_THEN_ORDER if order == OWN_FIRST and 0 < span < SMALL else order


def _addresses(word: str, env: Env) -> tuple[int, int, int]:
    """(first, span, order); a prefix is a range without its first and last address."""
    if word == "-":
        return 0, 0, OWN_FIRST
    word, order = _range(word)
    low, dash, high = word.partition("-")
    if dash:
        first, last = IPAddress().parse(low, env), IPAddress().parse(high, env)
    elif "/" in word:
        address, length = IPPrefix().parse(word, env)
        first = address & mask_of(length)
        last = first | ~mask_of(length) & 0xFFFF_FFFF
        if length < 31:
            first, last = first + 1, last - 1
    else:
        first = last = IPAddress().parse(word, env)
    if not first <= last <= first + ADDRESS_SPAN:
        raise ValueError(f"`{word}` is no range of at most {ADDRESS_SPAN + 1} addresses, such as 1.0.0.1-1.0.0.9")
    if first == 0:
        raise ValueError(f"`{word}`: {IPv4Address(0)} is nobody's address; `-` leaves the address as it is")
    return first, last - first, _settle(last - first, order)


def _ports(word: str) -> tuple[int, int, int]:
    if word == "-":
        return 0, 0, OWN_FIRST
    word, order = _range(word)
    low, dash, high = word.partition("-")
    first = _port(low)
    last = _port(high) if dash else first
    if not 0 < first <= last:
        raise ValueError(f"`{word}` is no range of ports, such as 1024-65535")
    return first, last - first, _settle(last - first, order)


def _port(word: str) -> int:
    if word == "-":
        return 0
    if not word.isdigit() or not 0 < int(word) < 65536:
        raise ValueError(f"`{word}` is no port; write a number from 1 to 65535, or `-` to leave it as it is")
    return int(word)
