"""Elements that hold information or say something, and let no packet through but unchanged."""

from mezzo.elements import U32, Arg, ConfigError, Element, Fixed, Packet, Port, Raw, Rest, Text, Word
from mezzo.elements.confparse import split_words, unquote

_ONE = 1024  # tickets of a task with the parameter 1


class Align(Element):
    """Passes packets on.  Click copies packets here to align their data; mezzo reads words at any address."""

    modulus = Arg(U32(), 4, "as Click takes it; not needed")
    offset = Arg(U32(), 0, "as Click takes it; not needed")
    example = "InfiniteSource(LIMIT 2) -> Align(4, 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("AlignmentInfo",)

    def process(self, p: Packet) -> Port:
        return 0


class AlignmentInfo(Element):
    """Holds what `click-align` wrote about alignment; mezzo does not need it."""

    ports, processing, flow = "0/0", "a/a", ""
    hints = Rest(Raw(), "ELEMENT MODULUS OFFSET...")
    example = "AlignmentInfo(c 4 2); InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("Align",)


class Message(Element):
    """Says TEXT when the router starts."""

    ports, processing, flow = "0/0", "a/a", ""
    message = Arg(Text(), doc="the text")
    type = Arg(Word("MESSAGE", "WARNING", "ERROR"), "MESSAGE", "how it is said; ERROR keeps the router from starting")
    example = 'Message("counting"); InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;'
    example_reads = {"c.count": "2"}
    see = ("Script", "Print")

    def configure(self):
        if self.type == "ERROR":
            raise ConfigError(self.message)
        if self.type == "WARNING":
            self.warn(self.message)

    def initialize(self):
        if self.type == "MESSAGE":
            self.say(self.message)


class ScheduleInfo(Element):
    """Sets how often tasks run: ScheduleInfo(ELEMENT PARAMETER, ...).

    A task with the parameter 2 runs twice as often as one with 1, which is what a task has that is not named.  The
    parameter of a compound element multiplies those of its parts; a ScheduleInfo outside may name a part itself, and
    that counts alone.
    """

    ports, processing, flow = "0/0", "a/a", ""
    parameters = Rest(Raw(), "ELEMENT PARAMETER, a number above 0")
    example = "ScheduleInfo(s 2); s :: InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2", "s.tickets": "2048"}

    def configure(self):
        kind = Fixed(_ONE, 1, 32 * _ONE)
        self.tickets = {}
        for text in self.parameters:
            words = [unquote(word) for word in split_words(text)]
            if len(words) != 2:
                self.error(f"expected ELEMENT PARAMETER, not `{text}`", text)
                continue
            try:
                self.tickets[self.env.scope + words[0]] = kind.parse(words[1], self.env)
            except ValueError as trouble:
                self.error(f"{words[0]}: {trouble}", text)

    def initialize(self):
        """The first one does the work for all, because they work together."""
        every = [e for e in self.router.elements.values() if isinstance(e, ScheduleInfo)]
        if every[0] is not self:
            return
        self.check_names()
        for element in self.router.elements.values():
            tickets = _tickets(element.name, every)
            if tickets is not None and self.router.task_of(element) >= 0:
                self.router.write(f"{element.name}.tickets", str(tickets))

    def check_names(self):
        names = self.router.elements
        for name in self.tickets:
            if name not in names and not any(other.startswith(name + "/") for other in names):
                raise ConfigError(f"there is no element `{name}`")


def _tickets(name, every):
    """The tickets of the task of that name, None where no parameter touches it."""
    found = _ONE
    touched = False
    at = name
    while True:
        # Outermost first: what an outer ScheduleInfo says about a part counts alone.
        owners = sorted((e for e in every if at in e.tickets), key=lambda e: len(e.env.scope))
        if owners:
            found, touched = found * owners[0].tickets[at] // _ONE, True
            at = owners[0].env.scope.rstrip("/")
        else:
            at = at.rpartition("/")[0]
        if not at:
            return max(1, min(found, 32768)) if touched else None
