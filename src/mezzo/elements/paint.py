"""Painting: a byte among a packet's annotations that says where it came from, or what is to become of it."""

from mezzo.elements import U8, AnnoOffset, Arg, ConfigError, Element, Packet, Port, u8, u32, u64


class Paint(Element):
    """Sets the paint annotation of each packet."""

    color = Arg(U8(), doc="the color, 0 to 255", live=u8)
    anno = Arg(AnnoOffset(1), 16, "the annotation byte to set; PAINT is 16")
    example = """InfiniteSource(LIMIT 3) -> Paint(1) -> s :: PaintSwitch;
s[0] -> Discard; s[1] -> painted :: Counter -> Discard;"""
    example_reads = {"painted.count": "3"}
    see = ("CheckPaint", "PaintTee", "PaintSwitch", "SetAnnoByte")

    def process(self, p: Packet) -> Port:
        p.set_anno_u8(self.anno, self.color)
        return 0


class CheckPaint(Element):
    """Lets packets of one color pass by output 0; the others leave by output 1, or are dropped."""

    ports, processing = "1/1-2", "a/ah"
    color = Arg(U8(), doc="the color, 0 to 255", live=u8)
    anno = Arg(AnnoOffset(1), 16, "the annotation byte to look at; PAINT is 16")
    example = """c :: CheckPaint(1) -> right :: Counter -> Discard; c[1] -> wrong :: Counter -> Discard;
InfiniteSource(LIMIT 2) -> Paint(1) -> c; InfiniteSource(LIMIT 3) -> Paint(2) -> c;"""
    example_reads = {"right.count": "2", "wrong.count": "3"}
    see = ("Paint", "PaintTee")

    def process(self, p: Packet) -> Port:
        if p.anno_u8(self.anno) != self.color:
            return 1, "other color"
        return 0


class PaintTee(Element):
    """Passes every packet by output 0, and a copy of those of one color by output 1.

    In a router it finds packets that leave where they came in, for ICMP redirects.
    """

    ports, processing = "1/2", "a/ah"
    color = Arg(U8(), doc="the color, 0 to 255", live=u8)
    anno = Arg(AnnoOffset(1), 16, "the annotation byte to look at; PAINT is 16")
    lost: u64
    reads = ("lost",)
    example = """InfiniteSource(LIMIT 3) -> Paint(1) -> t :: PaintTee(1);
t -> all :: Counter -> Discard; t[1] -> copies :: Counter -> Discard;"""
    example_reads = {"all.count": "3", "copies.count": "3"}
    see = ("Paint", "CheckPaint")

    def process(self, p: Packet) -> Port:
        if p.anno_u8(self.anno) == self.color:
            q = p.clone()
            if q is None:
                self.lost += 1
            else:
                self.push(1, q)
        return 0


class PaintSwitch(Element):
    """Sends each packet to the output that its paint names.

    A packet painted 255 goes to every output; one that names an output which is not there is dropped.
    """

    ports, processing = "1/-", "h/h"
    anno = Arg(AnnoOffset(1), 16, "the annotation byte to look at; PAINT is 16")
    lost: u64
    reads = ("lost",)
    example = """InfiniteSource(LIMIT 2) -> Paint(255) -> s :: PaintSwitch;
s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;"""
    example_reads = {"a.count": "2", "b.count": "2"}
    see = ("Paint", "CheckPaint")

    def configure(self):
        if self.noutputs == 0:
            raise ConfigError("it needs at least one output")
        self.last = self.noutputs - 1

    def process(self, p: Packet) -> Port:
        paint = p.anno_u8(self.anno)
        if paint == 255:
            for port in range(self.last):
                q = p.clone()
                if q is None:
                    self.lost += 1
                else:
                    self.push(port, q)
            return self.last
        return u32(paint), "no such output"


class SetAnnoByte(Element):
    """Sets one annotation byte of each packet."""

    offset = Arg(AnnoOffset(1), doc="the annotation's name or offset, 0 to 47", handler=True)
    value = Arg(U8(), doc="the value, 0 to 255", live=u8)
    example = "InfiniteSource(LIMIT 2) -> SetAnnoByte(16, 7) -> CheckPaint(7) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}
    see = ("Paint",)

    def process(self, p: Packet) -> Port:
        p.set_anno_u8(self.offset, self.value)
        return 0
