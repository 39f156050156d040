"""Taking bytes from a packet's ends, giving them back, and looking at its length."""

from mezzo.elements import U32, Arg, Bool, Element, Packet, Port, u32

EXTRA_LENGTH = 28  # the annotation that counts bytes which are not there: cut off here, or by a capture's snap length


class Strip(Element):
    """Takes LENGTH bytes off the front of each packet; shorter packets are dropped."""

    length = Arg(U32(), doc="bytes to take off")
    example = "InfiniteSource(DATA \\<00112233>, LIMIT 2) -> Strip(3) -> Print(s) -> c :: Counter -> Discard;"
    example_reads = {"c.byte_count": "2"}
    see = ("Unstrip", "Truncate", "StripIPHeader", "EtherEncap")

    def process(self, p: Packet) -> Port:
        if p.length < self.length:
            return 1, "shorter than what is stripped"
        p.strip(self.length)
        return 0


class Unstrip(Element):
    """Puts LENGTH bytes back at the front of each packet.

    After Strip they are the bytes that stood there.  A packet has room for at least 128 bytes in front when it is made;
    one without the room is dropped.
    """

    length = Arg(U32(), doc="bytes to put back")
    example = "InfiniteSource(LENGTH 60, LIMIT 2) -> Strip(14) -> Unstrip(14) -> c :: Counter -> Discard;"
    example_reads = {"c.byte_count": "120"}
    see = ("Strip", "EtherEncap")

    def process(self, p: Packet) -> Port:
        if p.headroom < self.length:
            return 1, "no room in front"
        p.prepend(self.length)
        return 0


class Truncate(Element):
    """Cuts packets down to at most LENGTH bytes."""

    length = Arg(U32(), doc="bytes to keep at most", live=u32)
    extra_anno = Arg(Bool(), True, "add the bytes cut off to the extra length annotation")
    example = "InfiniteSource(LENGTH 60, LIMIT 2) -> Truncate(20) -> c :: Counter -> Discard;"
    example_reads = {"c.byte_count": "40"}
    see = ("Strip", "CheckLength")

    def process(self, p: Packet) -> Port:
        if p.length > self.length:
            extra = p.length - self.length
            p.trim(extra)
            if self.extra_anno:
                p.set_anno_u32(EXTRA_LENGTH, p.anno_u32(EXTRA_LENGTH) + extra)
        return 0


class CheckLength(Element):
    """Lets packets of at most LENGTH bytes pass by output 0; longer ones leave by output 1, or are dropped."""

    ports, processing = "1/1-2", "a/ah"
    length = Arg(U32(), doc="the greatest length in bytes", live=u32)
    extra_length = Arg(Bool(), False, "count the extra length annotation too")
    example = """c :: CheckLength(60) -> short :: Counter -> Discard; c[1] -> long :: Counter -> Discard;
InfiniteSource(LENGTH 60, LIMIT 2) -> c; InfiniteSource(LENGTH 61, LIMIT 3) -> c;"""
    example_reads = {"short.count": "2", "long.count": "3"}
    see = ("Truncate",)

    def process(self, p: Packet) -> Port:
        length = p.length
        if self.extra_length:
            length += p.anno_u32(EXTRA_LENGTH)
        if length > self.length:
            return 1, "too long"
        return 0
