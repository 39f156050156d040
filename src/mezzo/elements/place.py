"""Which level runs which elements, said in the configuration."""

from mezzo.elements import ConfigError, Element, Raw, Rest

LEVELS = ("kernel", "kernel?", "auto", "native")


class Place(Element):
    """Says which elements run in the kernel, as XDP programs, and which natively: Place(PATTERN LEVEL, ...).

    PATTERN is a name, in which `*` stands for anything; a compound element stands for all in it, and inside one names
    of its own come first.  LEVEL is `native`, `kernel` (an error where that cannot be), `kernel?` (only where it can
    be) or `auto` (only where it can be and is worth it).  Of several that name an element the last one counts; those of
    `mezzo run --place` come after these.  `mezzo place` shows what comes of it.
    """

    ports, processing, flow = "0/0", "a/a", ""
    pairs = Rest(Raw(), "PATTERN LEVEL")
    example = "Place(* native); InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("FromDevice", "ToDevice", "StaticThreadSched")

    def configure(self):
        self._placed_by = tuple(self.pair(text) for text in self.pairs)

    def pair(self, text):
        words = text.split()
        if len(words) != 2 or words[1].lower() not in LEVELS:
            raise ConfigError(f"`{text}`: expected PATTERN LEVEL, with LEVEL one of {', '.join(LEVELS)}")
        return words[0], words[1].lower()

    @property
    def placed_by(self):
        """(scope, pattern, level) of each wish."""
        return [(self.env.scope, *pair) for pair in self._placed_by]
