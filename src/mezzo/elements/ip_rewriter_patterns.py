"""IPRewriterPatterns and the IPMappers: what several inputs of rewriters have in common, under a name."""

from bisect import bisect_left
from zlib import crc32

from mezzo.elements import ConfigError, Element, Raw, Rest
from mezzo.elements.confparse import split_words
from mezzo.elements.rewriter_spec import BY_SOURCE, IN_TURN, MOST_PATTERNS, parse_pattern


class IPRewriterPatterns(Element):
    """Gives names to patterns of rewriters: IPRewriterPatterns(NAME SADDR SPORT DADDR DPORT, ...).

    An input specification `pattern NAME FOUTPUT ROUTPUT` means the pattern of that name. Each rewriter takes free
    ports on its own: two that are to have no port in common get patterns with ranges that do not meet.
    """

    ports, processing, flow = "0/0", "a/a", ""
    configure_first = True
    patterns = Rest(Raw(), "NAME PATTERN")
    see = ("IPRewriter", "RoundRobinIPMapper")
    example = """
        IPRewriterPatterns(web 1.0.0.1 1024-65535# - -);
        InfiniteSource(DATA x, LIMIT 2) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> r :: IPRewriter(pattern web 0 0) -> Discard;
    """
    example_reads = {"r.nmappings": "1"}

    def configure(self):
        known = self.env.names.setdefault("pattern", {})
        for text in self.patterns:
            words = split_words(text)
            try:
                pattern = parse_pattern(words[1:], self.env)
            except ValueError as trouble:
                self.error(str(trouble), text)
                continue
            full = self.env.scope + words[0]
            if known.get(full, pattern) != pattern:
                self.error(f"`{words[0]}` is a pattern already: {known[full].text}", text)
            known.setdefault(full, pattern)


class RoundRobinIPMapper(Element):
    """Lets a rewriter take its patterns in turn: RoundRobinIPMapper(SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT, ...).

    Name it where an input specification is expected. Each new flow takes the next pattern, or the one after it where
    that has no mapping to give. So connections are spread over servers.
    """

    ports, processing, flow = "0/0", "a/a", ""
    configure_first = True
    choice = IN_TURN
    patterns = Rest(Raw(), "PATTERN FOUTPUT ROUTPUT", least=1)
    see = ("IPRewriter", "SourceIPHashMapper", "IPRewriterPatterns")
    example = """
        m :: RoundRobinIPMapper(- - 10.0.0.1 - 0 0, - - 10.0.0.2 - 0 0);
        InfiniteSource(DATA x, LIMIT 2) -> UDPIPEncap(9.9.9.9, 5000, 1.0.0.1, 80) -> r :: IPRewriter(m) -> Discard;
    """
    example_reads = {"r.nmappings": "1"}

    def configure(self):
        lines = tuple(self.lines())
        if len(lines) > MOST_PATTERNS:
            raise ConfigError(f"{len(lines)} patterns are too many; {MOST_PATTERNS} at most")
        self.env.names.setdefault("mapper", {})[self.name] = (self.choice, lines)

    def lines(self):
        return self.patterns


class SourceIPHashMapper(RoundRobinIPMapper):
    """Lets a rewriter choose by the source address: SourceIPHashMapper(NODES SEED, PATTERN FOUTPUT ROUTPUT ID, ...).

    All flows of one source take the same pattern. Each pattern stands at NODES places, found by its ID and SEED, on a
    circle; a source takes the pattern whose place comes next. When a server is added or taken away most sources keep
    theirs.
    """

    choice = BY_SOURCE
    see = ("IPRewriter", "RoundRobinIPMapper")
    example = """
        m :: SourceIPHashMapper(10 0xbadbeef, - - 10.0.0.1 - 0 0 1, - - 10.0.0.2 - 0 0 2);
        InfiniteSource(DATA x, LIMIT 2) -> UDPIPEncap(9.9.9.9, 5000, 1.0.0.1, 80) -> r :: IPRewriter(m) -> Discard;
    """

    def lines(self):
        """The patterns of the buckets that a source's hash falls in."""
        head = split_words(self.patterns[0])
        rows = [split_words(text) for text in self.patterns[1:]]
        if len(head) != 2 or not head[0].isdigit() or not 0 < int(head[0]) <= 1000 or not rows:
            raise ConfigError("expected NODES SEED, NODES from 1 to 1000, and then at least one pattern")
        for row in rows:
            if not row or not row[-1].isdigit():
                raise ConfigError(f"`{' '.join(row)}` has no ID; expected PATTERN FOUTPUT ROUTPUT ID, ID a number")
        places = sorted(
            (crc32(f"{head[1]} {row[-1]} {node}".encode()), " ".join(row[:-1]))
            for row in rows
            for node in range(int(head[0]))
        )
        starts = [(bucket << 32) // MOST_PATTERNS for bucket in range(MOST_PATTERNS)]
        return [places[bisect_left(places, (start, "")) % len(places)][1] for start in starts]
