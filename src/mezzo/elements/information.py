"""Elements that hold information or say something, and let no packet through but unchanged."""

import os

from mezzo.elements import U32, Arg, ConfigError, Element, Fixed, Packet, Port, Raw, Rest, Text, Word
from mezzo.elements.args import ANNOTATIONS
from mezzo.elements.confparse import split_words, unquote
from mezzo.elements.units import parse_int

_ROOM = 48  # bytes of annotations
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


class AnnotationInfo(Element):
    """Gives names to places in the annotations of packets: AnnotationInfo(NAME OFFSET [SIZE], ...).

    Names that are there without it, such as PAINT, cannot be given again.  CHECK_OVERLAP NAME... refuses names whose
    bytes overlap.  Names made inside a compound element are known there only.
    """

    ports, processing, flow = "0/0", "a/a", ""
    configure_first = True
    names = Rest(Raw(), "NAME OFFSET [SIZE], in bytes; without SIZE it is as long as is asked for")
    check_overlap = Arg(Raw(), "", "names of annotations that must not overlap", positional=False)
    example = """AnnotationInfo(mark 40 1, CHECK_OVERLAP mark PAINT);
InfiniteSource(LIMIT 4) -> Paint(3, mark) -> s :: CheckPaint(3, mark) -> c :: Counter -> Discard;"""
    example_reads = {"c.count": "4"}
    see = ("Paint", "AddressInfo")

    def configure(self):
        known = self.env.names.setdefault("annotation", {})
        for text in self.names:
            try:
                name, place = _annotation(text)
            except ValueError as trouble:
                self.error(str(trouble), text)
                continue
            full = self.env.scope + name
            if known.get(full, place) != place:
                self.error(f"`{name}` is a name already, for the {_bytes_of(known[full])}", text)
            known.setdefault(full, place)
        self.check(split_words(self.check_overlap))

    def check(self, names):
        places = []
        for name in names:
            place = self.env.look("annotation", name) or ANNOTATIONS.get(name.upper())
            if place is None:
                self.error(f"CHECK_OVERLAP: there is no annotation `{name}`")
                continue
            for other, (offset, size) in places:
                if place[0] < offset + size and offset < place[0] + place[1]:
                    where = f"`{other}` the {_bytes_of((offset, size))}, `{name}` the {_bytes_of(place)}"
                    self.error(f"annotations overlap: {where}")
            places.append((name, place))


def _annotation(text):
    """(name, (offset, size)) of `NAME OFFSET [SIZE]`."""
    words = [unquote(word) for word in split_words(text)]
    if len(words) not in (2, 3):
        raise ValueError(f"expected NAME OFFSET [SIZE], not `{text}`")
    if words[0].upper() in ANNOTATIONS or not words[0][:1].isalpha():
        raise ValueError(f"`{words[0]}` cannot be given to an annotation: it has a meaning already")
    offset = parse_int(words[1])
    size = parse_int(words[2]) if len(words) == 3 else _ROOM - offset
    if offset < 0 or size < 1 or offset + size > _ROOM:
        raise ValueError(f"`{text}`: annotations have the bytes 0 to {_ROOM - 1}")
    return words[0], (offset, size)


def _bytes_of(place):
    return f"bytes {place[0]} to {place[0] + place[1] - 1}"


class ChangeUID(Element):
    """Gives up for good the rights that a set-user-ID program was started with.

    It does so when the router starts, after all devices are open.
    """

    ports, processing, flow = "0/0", "a/a", ""
    example = "ChangeUID; InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("FromDevice", "ToDevice")

    def initialize(self):
        # The saved ones too: otherwise the rights could be taken back.
        os.setresgid(*[os.getgid()] * 3)
        os.setresuid(*[os.getuid()] * 3)


class ClickyInfo(Element):
    """Holds styles for Click's picture program; mezzo draws without them."""

    ports, processing, flow = "0/0", "a/a", ""
    styles = Rest(Raw(), "STYLE")
    example = 'ClickyInfo("* { font: Arial 8 }"); InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;'
    example_reads = {"c.count": "2"}
    see = ("AlignmentInfo",)


class DevirtualizeInfo(Element):
    """Holds what `click-devirtualize` wrote; here every connection is a direct call anyway."""

    ports, processing, flow = "0/0", "a/a", ""
    hints = Rest(Raw(), "anything")
    example = "DevirtualizeInfo; InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("AlignmentInfo",)


class Error(Element):
    """Keeps the router from starting.

    It takes any configuration and any connections without complaint: something to put in the place of what is missing.
    """

    ports, processing, flow = "-/-", "a/a", ""
    aliases = ("ErrorElement",)
    anything = Rest(Raw(), "anything")
    see = ("Message",)

    def configure(self):
        raise ConfigError("this router is not to start; take this element out or put another in its place")


class KernelHandlerProxy(Element):
    """Stands for the handlers of Click's kernel module, and refuses to start: mezzo has no such module.

    Handlers of elements whose packets run in the kernel are read and written as all others are.
    """

    ports, processing, flow = "0/0", "a/a", ""
    verbose = Arg(Raw(), "", "as Click takes it", positional=False)
    see = ("ControlSocket",)

    def configure(self):
        raise ConfigError("there is no kernel module to ask: handlers of elements in the kernel are this router's own")


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


class ScheduleLinux(Element):
    """Click's kernel module gave the CPU back here; mezzo is a process, and Linux schedules it anyway."""

    ports, processing, flow = "0/0", "a/a", ""
    example = "ScheduleLinux; InfiniteSource(LIMIT 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("ScheduleInfo",)


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
