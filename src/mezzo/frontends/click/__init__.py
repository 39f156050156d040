"""The Click language: `parse_click` makes a flat configuration of a text, `unparse` a text of a graph.

    text -> lexer -> parser (tree) -> resolve (units) -> expand (flat)

Each step reports to one `Reporter`; syntax errors end the road before names are looked up, so that the messages one
sees are about what one wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError, Reporter
from mezzo.frontends.click.archive import configuration_of, is_archive
from mezzo.frontends.click.expand import expand_unit
from mezzo.frontends.click.flat import Flat, FlatConnection, FlatElement
from mezzo.frontends.click.libraries import Libraries
from mezzo.frontends.click.parser import MAX_ERRORS, parse_text
from mezzo.frontends.click.resolve import resolve_file
from mezzo.frontends.click.source import ConfigText, SourceText
from mezzo.frontends.click.unparse import unparse

__all__ = ["ConfigText", "Flat", "FlatConnection", "FlatElement", "parse_click", "unparse"]

def parse_click(
    text: str,
    file: str = "config",
    variables: Mapping[str, str] | None = None,
    library_path: Sequence[Path] = (),
    is_element_class: Callable[[str], bool] | None = None,
    class_names: Sequence[str] = (),
    guesses: bool = False,
) -> Flat:
    """The flat configuration of a text; a `MezzoError` holds everything that is wrong with it.

    `variables` override the text's own global definitions.  `is_element_class` tells the names of primitive classes;
    without it, a name that is declared nowhere in its scope is taken for a class.  `class_names` only serve hints.
    With `guesses` such a name is still taken for a class when it is capitalised.
    The text may be an archive with the configuration in it.
    """
    if is_archive(text):
        text = configuration_of(text, file)
    reporter = Reporter()
    try:
        libraries = Libraries(reporter, library_path)
        block = parse_text(SourceText(text, file), reporter)
        reporter.raise_if_errors()
        unit = resolve_file(block, reporter, libraries, is_element_class, class_names, guesses)
        reporter.raise_if_errors()
        elements, connections = expand_unit(unit, variables or {}, reporter)
        reporter.raise_if_errors()
    except MezzoError as error:
        raise MezzoError(*_tidy([*error.diagnostics, *reporter.warnings])) from None
    return Flat(elements, connections, tuple(libraries.requirements), tuple(_tidy(reporter.warnings)))


def _tidy(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Each once (a compound is expanded many times), in the order of the text, and no more than one can read."""
    unique = list(dict.fromkeys(diagnostics))
    spans = [d.span for d in unique if d.span is not None]
    if len({span.file for span in spans}) == 1:
        last = max((span.line, span.column) for span in spans)
        unique.sort(key=lambda d: (d.span.line, d.span.column) if d.span is not None else last)
    if len(unique) > MAX_ERRORS:
        unique[MAX_ERRORS:] = [Diagnostic(f"{len(unique) - MAX_ERRORS} more errors are not shown")]
    return unique
