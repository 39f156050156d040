"""puts several configurations together, joined at their devices, as Click's click-combine does

    mezzo combine A=a.click B=b.click A.eth0=B.eth1 B.eth1=A.eth0

`A=a.click` is a router with its name, `A.eth0=B.eth1` a link: what A would send by its ToDevice(eth0) arrives where B
has a FromDevice(eth1) or PollDevice(eth1).  Elements may be named instead of devices.  Links have one direction.  In
the combined configuration A's elements are `A/…`, and both devices of a link are one RouterLink.  The result is an
archive that says which routers there are; `mezzo uncombine` takes one out again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import Source, elements_argument, find_source, load_elements, read_file, search_path
from mezzo.tools._tool import Given, deliver, graph_of, output_argument, text_of

if TYPE_CHECKING:
    from mezzo.graph import Graph

MAP = "componentmap"
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_@0123456789")


@dataclass
class Wanted:
    """The routers by name with their texts, and the links, in the order of the command line."""

    routers: dict[str, Source] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="NAME=FILE|A.x=B.y", help="a router and its name, or a link")
    add = parser.add_argument
    add("-n", "--name", action="append", default=[], metavar="NAME", help="the name of the next router")
    add("-f", "--file", action="append", default=[], metavar="FILE", help="a router")
    add("-e", "--expression", action="append", default=[], metavar="EXPR", help="a router, as text")
    add("-l", "--link", action="append", default=[], metavar="A.x=B.y", help="a link")
    add("-c", "--config", action="store_true", help="write the configuration only, no archive")
    add("-C", "--clickpath", metavar="PATH", default="", help="where libraries are looked for")
    output_argument(parser)
    elements_argument(parser)


def main(args: argparse.Namespace) -> int:
    from mezzo.frontends.click.archive import is_archive, read_archive
    from mezzo.graph.combine import combine, parse_link

    load_elements(args.elements)
    wanted = gather(args.given, args.clickpath)
    if not wanted.routers:
        raise MezzoError(Diagnostic("no routers are given", hint="write NAME=FILE for each"))
    links = [parse_link(text) for text in wanted.links]
    routers: dict[str, Graph] = {}
    components: list[str] = []
    for name, source in wanted.routers.items():
        routers[name] = graph_of(source)
        members = read_archive(source.text, source.file) if is_archive(source.text) else {}
        components += [name, *(f"{name}/{inner}" for inner in members.get(MAP, "").split())]
    graph, odd = combine(routers, links)
    for text in [*odd, *([] if links else ["there are no links between these routers"])]:
        print(text, file=sys.stderr)
    it = Given(Source("", ""), {MAP: "".join(f"{name}\n" for name in components)})
    return deliver(args, text_of(graph), it.members)


def gather(words: list[str], clickpath: str) -> Wanted:
    """Reads the words in their order, because -n names the router behind it."""
    wanted, name = Wanted(), ""
    for kind, value in _options(words):
        if kind == "name":
            name = value
        elif kind == "link" or (kind == "word" and "." in value.partition("=")[0] and "=" in value):
            wanted.links.append(value)
        else:
            front, equals, file = value.partition("=") if kind == "word" else ("", "", value)
            if equals:
                name = front
            source = _source(kind, file if equals or kind != "word" else value, clickpath)
            _add(wanted, name or str(len(wanted.routers) + 1), source)
            name = ""
    return wanted


def _source(kind: str, value: str, clickpath: str) -> Source:
    if kind == "expression":
        return find_source([], value, clickpath)
    return Source(read_file(value), "stdin" if value == "-" else value, {}, search_path(clickpath))


def _add(wanted: Wanted, name: str, source: Source) -> None:
    if not set(name) <= _LETTERS:
        raise MezzoError(Diagnostic(f"`{name}` is no name of a router", hint="letters, digits, _ and @ make one"))
    if name in wanted.routers:
        raise MezzoError(Diagnostic(f"two routers are called `{name}`", hint="give one of them another name"))
    wanted.routers[name] = source


_KINDS = {
    "-n": "name", "--name": "name", "-f": "file", "--file": "file", "-e": "expression", "--expression": "expression",
    "-l": "link", "--link": "link", "-o": "", "--output": "", "-C": "", "--clickpath": "", "--elements": "",
}  # fmt: skip


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """(kind, value) of every word that is one; argparse has already refused what is wrong."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if not word.startswith("-") or word == "-":
            yield "word", word
        elif option in _KINDS:
            text = value if equals or value else next(rest)
            if _KINDS[option]:
                yield _KINDS[option], text
