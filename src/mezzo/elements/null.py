"""Elements that do nothing, for any, push or pull context."""

from mezzo.elements import Element, Packet, Port


class Null(Element):
    """Passes packets on unchanged."""

    example = "InfiniteSource(LIMIT 5) -> Null -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5"}
    see = ("PushNull", "PullNull", "Discard")

    def process(self, p: Packet) -> Port:
        return 0


class PushNull(Null):
    """Passes packets on unchanged; its ports are push."""

    processing = "h/h"
    example = "InfiniteSource(LIMIT 5) -> PushNull -> c :: Counter -> Discard;"
    see = ("Null", "PullNull")


class PullNull(Null):
    """Passes packets on unchanged; its ports are pull."""

    processing = "l/l"
    example = "InfiniteSource(LIMIT 5) -> PullNull -> c :: Counter -> Discard;"
    see = ("Null", "PushNull")
