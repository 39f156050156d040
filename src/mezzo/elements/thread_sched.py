"""Which thread runs which element."""

from mezzo.elements import ConfigError, Element, Raw, Rest
from mezzo.elements.units import parse_int

MOST_THREAD = 63


class StaticThreadSched(Element):
    """Says which thread runs which elements' tasks.

    Each argument is `ELEMENT THREAD`; a compound element stands for all in it that is not named itself.  Two threads
    for one element are an error.  Threads count from 0; `-j N` makes N.
    Tasks that are not named go to the threads in turn; one whose packets meet a Python element stays on thread 0.
    """

    ports = "0/0"
    pairs = Rest(Raw(), "ELEMENT THREAD")
    limits = {"THREAD": MOST_THREAD}
    example = """
        StaticThreadSched(s 0, u 1);
        s :: InfiniteSource(LIMIT 5) -> Queue -> u :: Unqueue -> d :: Discard;
    """
    example_reads = {"d.count": "5", "u.home_thread": "0"}
    see = ("Queue", "Unqueue")

    def configure(self):
        self.placement = tuple(self.pair(text) for text in self.pairs)

    def pair(self, text):
        words = text.split()
        if len(words) != 2:
            raise ConfigError(f"`{text}`: expected ELEMENT THREAD")
        thread = parse_int(words[1])
        if not 0 <= thread <= MOST_THREAD:
            raise ConfigError(f"`{text}`: thread {thread} is out of range; 0 to {MOST_THREAD}")
        return words[0], thread
