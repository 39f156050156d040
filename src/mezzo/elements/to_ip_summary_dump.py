"""Packets to lines of text (see `_summary_fields`)."""

import socket
import sys
import time
from typing import Any

from mezzo.elements import Arg, Bool, ConfigError, Packet, Raw, Text, flag, python, u64, write
from mezzo.elements._recorder import _Recorder
from mezzo.elements._summary import COUNT_ANNO, look_at
from mezzo.elements._summary_fields import SummaryField, find_field
from mezzo.elements.confparse import quote, split_words, unquote


class ToIPSummaryDump(_Recorder):
    """Writes a line of text about each IP packet.

    FIELDS lists what it says, by default `ip_src ip_dst`; names with a space are quoted.  What does not apply to a
    packet is `-`.  Packets need their network mark.  They are passed on where the output is connected; else they end.
    """

    filename = Arg(Text(), doc="the file, written anew; `-` is the standard output")
    fields = Arg(Raw(), "", "columns: timestamp ip_src sport ...", positional=False)
    contents = Arg(Raw(), "", "the same, Click's older word", positional=False)
    header = Arg(Bool(), True, "begins with the lines `!IPSummaryDump` and `!data`", positional=False)
    verbose = Arg(Bool(), False, "tells host and time at the beginning", positional=False)
    banner = Arg(Text(), "", "a `!creator` line at the beginning", positional=False)
    bad_packets = Arg(Bool(), False, "`!bad` lines for damaged headers", positional=False)
    multipacket = Arg(Bool(), False, "a line for each packet that EXTRA_PACKETS counts", positional=False)
    count: u64
    broken: flag
    reads = ("count",)
    example = """
        InfiniteSource(DATA \\<4500001c 00000000 40110000 01020304 05060708 00350036 00080000>, LIMIT 2)
            -> MarkIPHeader -> d :: ToIPSummaryDump(/dev/null, FIELDS ip_src sport) -> c :: Counter -> Discard;
    """
    example_reads = {"d.count": "2", "c.count": "2"}
    see = ("FromIPSummaryDump", "ToDump", "IPPrint")

    def configure(self) -> None:
        self.out = None
        self.take_place()
        if self.fields and self.contents:
            raise ConfigError("FIELDS and CONTENTS are the same; give one of them")
        self.columns = self.read_columns(self.fields or self.contents or "ip_src ip_dst")

    def read_columns(self, text: str) -> list[SummaryField]:
        found = []
        for word in split_words(text):
            column = find_field(unquote(word))
            if column is None:
                self.error(f"`{unquote(word)}` is not a field of summary dumps")
            else:
                found.append(column)
        return found

    # -- packets

    @python
    def record(self, p: Packet) -> None:
        seen = look_at(p)
        if seen.bad and self.bad_packets:
            self.put(f"!bad {seen.bad}\n")
        line = " ".join(column.show(seen) or "-" for column in self.columns) + "\n"
        many = self.multipacket and all(column.name != "count" for column in self.columns)
        self.put(line * (1 + seen.anno(COUNT_ANNO) if many else 1))
        self.count += 1

    # -- the file

    def initialize(self) -> None:
        try:
            self.out = sys.stdout if self.filename == "-" else open(self.filename, "w", encoding="utf-8")  # noqa: SIM115
        except (OSError, ValueError) as trouble:
            reason = getattr(trouble, "strerror", None) or trouble
            raise ConfigError(f"cannot write `{self.filename}`: {reason}") from None
        if self.header:
            self.put("!IPSummaryDump 1.3\n")
        if self.banner:
            self.put(f"!creator {quote_always(self.banner)}\n")
        if self.verbose:
            now = time.time()
            self.put(f"!host {socket.gethostname()}\n!runtime {now:.6f} ({time.ctime(now)})\n")
        if self.header:
            self.put("!data " + " ".join(column.name for column in self.columns) + "\n")

    def initialize_after(self, old: Any) -> None:
        if old is None or old.filename != self.filename:
            self.initialize()
        elif [c.name for c in old.columns] != [c.name for c in self.columns]:
            raise ConfigError(f"`{self.filename}` has other columns now; give another name")

    def moved(self, old: Any) -> None:
        if old is not self and old.filename == self.filename:
            self.out, old.out = old.out, None

    def put(self, text: str) -> None:
        if not self.broken and self.out is not None:
            self.guarded(lambda: self.out.write(text))

    def guarded(self, act) -> None:
        """Does something to the file; its first trouble is said, and ends the writing."""
        try:
            act()
        except OSError as trouble:
            if not self.broken:
                self.fail(f"{self.name}: cannot write `{self.filename}`: {trouble.strerror}; going on without it")
            self.broken = True

    def cleanup(self) -> None:
        if self.out is not None:
            self.guarded(self.out.flush if self.filename == "-" else self.out.close)
        self.out = None

    @write("flush", "hands everything so far to the file")
    def write_flush(self, text: str) -> None:
        self.guarded(self.out.flush)

    @write("reset_counts", "sets the count to 0")
    def reset_counts(self, text: str) -> None:
        self.count = 0


def quote_always(text: str) -> str:
    quoted = quote(text)
    return quoted if quoted.startswith('"') else f'"{quoted}"'
