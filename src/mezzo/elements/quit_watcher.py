"""QuitWatcher: the router stops when a source has come to its end."""

from mezzo.elements import ConfigError, Element, Raw, Rest, python
from mezzo.elements._paths import full_path
from mezzo.elements._upstream import is_at_work, runs_by_itself

EVERY_NS = 1_000_000_000


class QuitWatcher(Element):
    """Stops the router when one of ELEMENTs has ended: it looks every second.

    An element has ended when its task does not run and its timer is not set, and what it counts has not changed since
    the look before: here sources also sleep while a queue behind them is full.
    """

    ports, processing, flow = "0/0", "a/a", ""
    watched = Rest(Raw(), "ELEMENT", least=1)
    example = """s :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard; QuitWatcher(s);
TimedSource(INTERVAL 0.7) -> t :: Counter -> Discard;"""
    example_reads = {"c.count": "5", "t.count": "2"}
    see = ("DriverManager", "Script")

    def initialize(self):
        self.names = [full_path(self, f"{word}.name").removesuffix(".name") for word in self.watched]
        self.counts = {}
        for name in self.names:
            element = self.router.elements.get(name)
            if element is None:
                raise ConfigError(f"there is no element `{name}`")
            if not runs_by_itself(element):
                raise ConfigError(f"`{name}` never runs by itself, so it cannot end")

    def init(self):
        self.timer_after(EVERY_NS)

    def timer(self):
        if self.look() == 0:
            self.timer_after(EVERY_NS)

    @python
    def look(self):
        """1 where one has ended, and the router was told to stop."""
        counts = {name: self.count_of(name) for name in self.names}
        ended = [n for n in self.names if not is_at_work(self.router.elements[n]) and self.counts.get(n) == counts[n]]
        self.counts = counts
        if ended:
            self.router.please_stop()
        return int(bool(ended))

    def count_of(self, name):
        element = self.router.elements[name]
        return getattr(element, "count", 0) if "count" in element.state_specs else 0
