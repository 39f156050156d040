"""Which level runs which elements, said in the configuration."""

from mezzo.elements import Arg, ConfigError, Element, Raw, Rest, Word

LEVELS = ("kernel", "kernel?", "auto", "native")
ORDERS = ("strict", "loose")


class Place(Element):
    """Says which elements run in the kernel, as XDP programs, and which natively: Place(PATTERN LEVEL, ...).

    PATTERN is a name, in which `*` stands for anything; a compound element stands for all in it, and inside one names
    of its own come first.  LEVEL is `native`, `kernel` (an error where that cannot be), `kernel?` (only where it can
    be) or `auto` (only where it can be and is worth it).  Of several that name an element the last one counts; those of
    `mezzo run --place` come after these.  `mezzo place` shows what comes of it.

    While a packet is on its way through native elements, later ones of its flow go there as well, so that they leave in
    the order in which they came.  ORDER loose lets them overtake it in the kernel; then no packet waits for another.
    """

    ports, processing, flow = "0/0", "a/a", ""
    pairs = Rest(Raw(), "PATTERN LEVEL")
    order = Arg(Word(), "", "of the packets of a flow: strict (as without it) or loose", positional=False)
    example = "Place(* native); InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("FromDevice", "ToDevice", "StaticThreadSched")

    def configure(self):
        if self.order and self.order not in ORDERS:
            self.error(f"ORDER: expected {' or '.join(ORDERS)}, not `{self.order}`")
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
