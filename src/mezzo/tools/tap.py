"""shows the packets that go over a connection of a running router, as tcpdump does

    mezzo tap 7777 'q->out'
    mezzo tap 7777 'c[1]->[0]d' 'tcp and port 80' -c 20
    mezzo tap 7777 'in->*' -w - | tcpdump -r -
    mezzo tap router.sock '*->q' -w q.pcap

EDGE is a[0]->b, a->[1]b, a->* (all that leaves a) or *->b (all that enters b); FILTER is a pattern of IPFilter.  -w
writes a capture: pcap, or pcapng where the name ends so or several connections are tapped (an interface each).  Packets
are copied natively, at some tens of nanoseconds each; those that come faster than they are read are counted as lost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from mezzo.base import MezzoError
from mezzo.tools._client import Client, client_arguments, connect, seconds
from mezzo.tools._look import looking, news

POLL_S = 0.02


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.add_argument("edge", metavar="EDGE", help="the connection, as a[0]->b")
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="only packets that match, as IPFilter writes it")
    parser.add_argument("-w", "--write", metavar="FILE", help="a capture, - for standard output")
    parser.add_argument("-c", "--count", type=int, metavar="N", help="end after N packets")
    parser.add_argument("-s", "--snaplen", type=int, default=0, metavar="BYTES", help="of each packet (all)")
    parser.add_argument("--time", type=seconds, metavar="T", help="end after T")


def main(args: argparse.Namespace) -> int:
    filter = " ".join(args.filter)
    asked = {"edge": args.edge, "filter": filter, "snaplen": max(args.snaplen, 0)}
    asked |= {"seconds": args.time} if args.time else {}
    seen, lost = 0, 0
    with connect(args) as client, looking(client, "tap", **asked) as word, writer(args) as show:
        began = False
        for new, packets in batches(client, word):
            if not began:
                began = True
                show.begin(new["edges"])
            lost = new["lost"]
            for packet in packets[: None if args.count is None else args.count - seen]:
                show.packet(*packet)
                seen += 1
            show.flush()
            if show.gone or (args.count is not None and seen >= args.count):
                break
    print(f"{seen} packets" + (f", {lost} sights lost: more than can be read" if lost else ""), file=sys.stderr)
    return 0


def batches(client: Client, word: str) -> Iterator[tuple[dict[str, Any], list[tuple[int, int, int, bytes]]]]:
    for new in news(client, word, POLL_S):
        yield new, [(at, edge, length, bytes.fromhex(data)) for at, edge, length, data in new["packets"]]


class Text:
    """A line a packet."""

    gone = False

    def begin(self, edges: list[str]) -> None:
        self.edges = edges

    def packet(self, time_ns: int, edge: int, length: int, data: bytes) -> None:
        from mezzo.runtime.filters import network_offset
        from mezzo.wire.show import show

        clock = time.strftime("%H:%M:%S", time.localtime(time_ns // 10**9))
        where = f"{self.edges[edge]}  " if len(self.edges) > 1 else ""
        first = "ip" if network_offset(data) == 0 else "eth"
        print(f"{clock}.{time_ns % 10**9 // 1000:06d}  {where}{show(data, first)}, length {length}")

    def flush(self) -> None:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            self.gone = True
            # What is left in the buffer would fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class CaptureOut:
    """A capture file; it begins with the first packet's kind of link."""

    def __init__(self, file: BinaryIO, is_pcapng: bool) -> None:
        self.file, self.is_pcapng, self.gone = file, is_pcapng, False
        self._out: Any = None

    def begin(self, edges: list[str]) -> None:
        self.edges = edges

    def packet(self, time_ns: int, edge: int, length: int, data: bytes) -> None:
        from mezzo.packet.capture_notes import ETHERNET, RAW_IP, NotesWriter
        from mezzo.packet.capture_write import CaptureWriter
        from mezzo.runtime.filters import network_offset

        link = RAW_IP if network_offset(data) == 0 else ETHERNET
        if self._out is None:
            notes = self.is_pcapng or len(self.edges) > 1
            self._out = NotesWriter(self.file) if notes else CaptureWriter(self.file, link, nanosecond=True)
        if isinstance(self._out, NotesWriter):
            self._out.packet(self._out.interface(self.edges[edge], link), time_ns, data, length)
        else:
            self._out.write(time_ns, data, length)

    def flush(self) -> None:
        try:
            self.file.flush()
        except BrokenPipeError:
            self.gone = True

    def finish(self) -> None:
        """A capture without packets is one, too."""
        from mezzo.packet.capture_write import CaptureWriter

        if self._out is None:
            CaptureWriter(self.file, nanosecond=True)
        self.flush()


@contextlib.contextmanager
def writer(args: argparse.Namespace) -> Iterator[Text | CaptureOut]:
    if not args.write:
        yield Text()
        return
    is_pcapng = args.write.endswith(".pcapng")
    try:
        with open(os.dup(1) if args.write == "-" else args.write, "wb") as file:
            out = CaptureOut(file, is_pcapng)
            try:
                yield out
            finally:
                out.finish()
    except BrokenPipeError:
        return
    except OSError as trouble:
        raise MezzoError(f"cannot write `{args.write}`: {trouble.strerror}") from None
