"""What the tools have in common that turn a configuration into another one.

They read a file, an expression or standard input, also an archive; they write text, or an archive again where there
was more in it.  A class that mezzo does not have is passed on as it is: tools look at the graph, not at elements.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import Source, read_source, source_arguments
from mezzo.tools._terminal import print_errors

if TYPE_CHECKING:
    from mezzo.frontends.click import Flat
    from mezzo.graph import Graph, Instance, PortSpec, Resolved

CONFIG = "config"


@dataclass(frozen=True)
class Given:
    """A configuration, and what lay beside it in its archive."""

    source: Source
    members: Mapping[str, str] = field(default_factory=dict)


class UnknownSpec:
    """The ports of a class that is not here: any number, push or pull as the neighbours want."""

    ports, processing, flow = "-/-", "a/a", "x/x"


class LinkSpec:
    """RouterLink exists in combined configurations only."""

    ports, processing, flow = "1-/1-", "l/h", "x/x"


def tool_arguments(parser: argparse.ArgumentParser, config: tuple[str, ...] = ("-c", "--config")) -> None:
    """The arguments of every tool that writes a configuration; `config` is how "only the configuration" is spelled."""
    source_arguments_and_output(parser)
    parser.add_argument(*config, dest="config", action="store_true", help="write the configuration only, no archive")


def source_arguments_and_output(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    output_argument(parser)


def output_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write it")


def driver_arguments(parser: argparse.ArgumentParser) -> None:
    """Click's choice of a driver: there is one here."""
    parser.add_argument("-k", "--kernel", action="store_true", help="refused: there is no kernel module")
    parser.add_argument("-u", "--user", action="store_true", help="for the user-level driver, as always")


def refuse_kernel(args: argparse.Namespace) -> None:
    if args.kernel:
        raise MezzoError(Diagnostic("there is no kernel module of mezzo's, so -k has no meaning", hint="drop it"))


def given(args: argparse.Namespace) -> Given:
    """What a command line names."""
    from mezzo.frontends.click.archive import is_archive, read_archive

    source = read_source(args)
    return Given(source, read_archive(source.text, source.file) if is_archive(source.text) else {})


@contextmanager
def without_collector() -> Iterator[None]:
    """Nearly all that is made while a configuration is read stays: the collector would look through it in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def flat_of(source: Source, strict: bool = False) -> Flat:
    """The flat configuration of a source; unless `strict`, a capitalised name nobody declared is a class's."""
    from mezzo.elements import library
    from mezzo.frontends.click import parse_click

    def is_class(name: str) -> bool:
        return library.maybe_find(name) is not None

    names = library.names_of_files()
    with without_collector():
        flat = parse_click(
            source.text, source.file, source.variables, source.folders, is_class, names, guesses=not strict
        )
    print_errors(flat.warnings)
    return flat


def graph_of(source: Source) -> Graph:
    from mezzo.graph import assemble

    return assemble(flat_of(source))


def spec_of(instance: Instance) -> PortSpec:
    """The ports of a class, whether it is here or not."""
    from mezzo.elements import library

    if instance.cls == "RouterLink":
        return LinkSpec()
    return library.maybe_find(instance.cls) or UnknownSpec()


def resolve(graph: Graph) -> Resolved:
    """Which ports push; MezzoError where that cannot be."""
    from mezzo.base import Reporter
    from mezzo.graph import check

    reporter = Reporter()
    resolved = check(graph, spec_of, reporter)
    reporter.raise_if_errors()
    return resolved


def text_of(graph: Graph) -> str:
    from mezzo.frontends.click import unparse

    return unparse(graph.instances, graph.connections, graph.requirements)


def deliver(args: argparse.Namespace, text: str, members: Mapping[str, str] | None = None) -> int:
    """Write a configuration where the command line says; with what else was in its archive, unless --config."""
    others = {name: data for name, data in (members or {}).items() if name != CONFIG}
    if others and not args.config:
        from mezzo.frontends.click.archive import write_archive

        text = write_archive({CONFIG: text, **others})
    return write_text(args.output, text)


def write_text(name: str, text: str) -> int:
    if name == "-":
        print(text, end="")
        return 0
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{name}: {trouble.strerror}")) from None
    return 0


def pass_through(args: argparse.Namespace, why: str) -> int:
    """What a tool does whose work the compiler does: say so, and write the flat configuration."""
    it = given(args)
    text = text_of(graph_of(it.source))
    if not args.quiet:
        print(why, file=sys.stderr)
    return deliver(args, text, it.members)
