"""StoreData: bytes written into packets."""

from mezzo.elements import U32, Arg, Blob, Bool, ConfigError, Data, Element, Packet, Port


class StoreData(Element):
    """Writes DATA into each packet at OFFSET.

    What would stand behind the packet's end is left out; with GROW the packet is made longer instead.  With MASK only
    the bits that are 1 in it are written.
    """

    offset = Arg(U32(), doc="where DATA goes, in bytes from the start of the packet")
    data = Arg(Data(), doc="the bytes to write")
    mask = Arg(Data(), None, "which bits to write, as long as DATA; all if not given")
    grow = Arg(Bool(), False, "make packets longer that end before DATA does", positional=False)
    blob: Blob
    example = "InfiniteSource(DATA \\<00000000>, LIMIT 2) -> StoreData(2, \\<08>) -> c :: Classifier(2/08, -); "
    example += "c[0] -> yes :: Counter -> Discard; c[1] -> no :: Counter -> Discard;"
    example_reads = {"yes.count": "2", "no.count": "0"}
    see = ("Strip", "Truncate")

    def configure(self):
        if self.mask is not None and len(self.mask) != len(self.data):
            raise ConfigError(f"MASK has {len(self.mask)} bytes and DATA {len(self.data)}; they go together")
        if self.offset + len(self.data) > 1 << 16:
            raise ConfigError(f"no packet reaches byte {self.offset + len(self.data)}")
        self.size, self.end = len(self.data), self.offset + len(self.data)
        self.masked = () if self.mask is None else self.masked_bytes()
        self.blob.bind(self.data)

    def masked_bytes(self):
        """(offset, bits to keep, bits to set) of each byte."""
        pairs = enumerate(zip(self.data, self.mask, strict=True))
        return tuple((self.offset + i, 255 - mask, byte & mask) for i, (byte, mask) in pairs)

    def process(self, p: Packet) -> Port:
        if self.grow and p.length < self.end:
            if p.tailroom < self.end - p.length:
                return 1, "no room behind"
            p.append(self.end - p.length)
        if self.masked:
            for at, keep, bits in self.masked:
                if at < p.length:
                    p.set_u8(at, (p.u8(at) & keep) | bits)
        elif p.length >= self.end:
            p.write(self.offset, self.blob, 0, self.size)
        elif p.length > self.offset:
            p.write(self.offset, self.blob, 0, p.length - self.offset)
        return 0
