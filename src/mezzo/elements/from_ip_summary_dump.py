"""Lines of text to packets (see `_summary_fields`).

The file is read and turned into packets when the router is configured; the packet path is that of captures (`_reader`).
A second table gives each packet's other annotations, three u32: packets more, aggregate, paint.
"""

import gzip
import struct
import sys
import zlib

from mezzo.elements import Arg, Blob, Bool, ConfigError, Packet, Raw, read
from mezzo.elements._reader import _Reader
from mezzo.elements._summary import AGGREGATE_ANNO, COUNT_ANNO, Draft
from mezzo.elements._summary_fields import SummaryField, find_field, parse_proto
from mezzo.elements.args import Kind
from mezzo.elements.confparse import split_words, unquote

RAW = 101
MORE = 12  # bytes of a row of the second table
MOST_COPIES = 1 << 20  # packets that one line may become


class Proto(Kind):
    """An IP protocol: T, U, I or a number."""

    words = "T, U, I or a number from 0 to 255"

    def parse(self, text, env):
        try:
            return parse_proto(text)
        except ValueError:
            raise ValueError(f"expected {self.words}, not `{text}`") from None


class FromIPSummaryDump(_Reader):
    """Makes packets from the lines of an IP summary dump.

    A line's fields are set; the rest is zero.  The missing length is in the EXTRA_LENGTH annotation.  The file says
    what its columns are (`!data`), else FIELDS does.  Lines that cannot be read are passed over and counted.
    """

    default_fields = Arg(Raw(), "ip_src ip_dst", "columns until the file tells", positional=False, keyword="FIELDS")
    contents = Arg(Raw(), None, "the same, Click's older word", positional=False, keyword="DEFAULT_CONTENTS")
    proto = Arg(Proto(), 6, "IP protocol of packets whose line has none", positional=False)
    checksum = Arg(Bool(), False, "sets checksums", positional=False)
    multipacket = Arg(Bool(), False, "as many packets as the field `count` says", positional=False)
    zero = Arg(Bool(), True, "accepted as in Click; what is not set is always zero", positional=False)
    more: Blob
    example = "FromIPSummaryDump(examples/flows.ipsum, STOP true) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "4"}
    see = ("ToIPSummaryDump", "FromDump")
    linktype = RAW

    def configure(self) -> None:
        super().configure()
        self.bad_lines = 0
        self.data, self.rows_out, self.more_out = bytearray(), bytearray(), bytearray()
        self.columns = self.read_columns(self.contents or self.default_fields)
        self.flow: Draft = Draft()
        for line in self.read_text().splitlines():
            self.read_line(line.strip())
        self.file.bind(bytes(self.data))
        self.rows.bind(bytes(self.rows_out))
        self.more.bind(bytes(self.more_out))
        del self.data, self.rows_out, self.more_out

    def read_text(self) -> str:
        name = self.path()
        try:
            if name == "-":
                return sys.stdin.read()
            with open(name, "rb") as file:
                data = file.read()
            data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        except (OSError, ValueError, EOFError, zlib.error) as trouble:
            reason = getattr(trouble, "strerror", None) or trouble
            raise ConfigError(f"cannot read `{name}`: {reason}") from None
        return data.decode("utf-8", "surrogateescape")

    def read_columns(self, text: str) -> list[SummaryField | None]:
        """Fields that are not known, or only describe a capture, are passed over."""
        return [find_field(unquote(word)) for word in split_words(text)]

    def read_line(self, line: str) -> None:
        if line.startswith("!"):
            self.directive(line[1:])
        elif line and not line.startswith("#"):
            try:
                self.add(self.draft(split_words(line)))
            except (ValueError, IndexError):
                self.bad_lines += 1

    def directive(self, line: str) -> None:
        word, rest = (*line.split(None, 1), "", "")[:2]
        if word == "data":
            self.columns = self.read_columns(rest)
        elif word == "proto":
            self.flow.values["ip_proto"] = parse_proto(rest.strip())
        elif word == "flowid":
            keys = ("ip_src", "sport", "ip_dst", "dport", "ip_proto")
            self.flow = self.draft_of(keys, split_words(rest))

    def draft_of(self, keys, words) -> Draft:
        made = Draft()
        for key, text in zip(keys, words, strict=False):
            find_field(key).take(made, text)
        return made

    def draft(self, words: list[str]) -> Draft:
        made = Draft(values=dict(self.flow.values))
        if len(words) < len(self.columns):
            raise ValueError("too few columns")
        for column, text in zip(self.columns, words, strict=False):
            if column is not None and column.take is not None and text != "-":
                column.take(made, text)
        return made

    def add(self, draft: Draft) -> None:
        """Puts a packet into the tables, as often as asked."""
        data, whole = draft.build(self.proto, self.checksum)
        copies = min(draft.count, MOST_COPIES) if self.multipacket else 1
        row = struct.pack("<5Q", len(self.data), len(data), whole, draft.time_ns, RAW)
        further = 0 if self.multipacket else draft.count - 1
        self.data += data
        self.rows_out += row * copies
        v = draft.values
        self.more_out += struct.pack("<3I", further & 0xFFFF_FFFF, v.get("aggregate", 0), v.get("paint", 0)) * copies

    def mark(self, p: Packet) -> bool:
        p.set_network(0)
        p.set_transport(20)
        at = self.packet_at * MORE
        p.set_anno_u32(COUNT_ANNO, self.more.u32le(at))
        p.set_anno_u32(AGGREGATE_ANNO, self.more.u32le(at + 4))
        p.paint = self.more.u8(at + 8)
        return True

    def notes(self) -> list[str]:
        found = super().notes()
        return [f"{self.bad_lines} lines could not be read", *found] if self.bad_lines else found

    @read("encap", "the link type")
    def encap(self) -> str:
        return "IP"

    @read("bad_lines", "lines that could not be read")
    def read_bad_lines(self) -> int:
        return self.bad_lines
