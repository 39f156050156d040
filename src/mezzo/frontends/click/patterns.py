"""Pattern files: pairs of compounds `X` and `X_Replacement` (`parse_patterns`).

A pattern comes out as a flat configuration in which `input` and `output` are still elements (their class is `""`), and
variables that nobody defines are still variables: they stand for arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mezzo.base import Reporter, Span
from mezzo.frontends.click.expand import expand_unit
from mezzo.frontends.click.flat import Flat
from mezzo.frontends.click.libraries import Libraries
from mezzo.frontends.click.parser import parse_text
from mezzo.frontends.click.resolve import resolve_scope
from mezzo.frontends.click.scope import CompoundClass, Scope, Unit
from mezzo.frontends.click.source import SourceText

SUFFIX = "_Replacement"


@dataclass(frozen=True)
class PatternText:
    """What to look for, and what to put in its place."""

    name: str
    pattern: Flat
    replacement: Flat
    span: Span | None = None


def parse_patterns(text: str, file: str, library_path: Sequence[Path] = ()) -> list[PatternText]:
    """The pairs of a file in the order of their replacements; MezzoError with all that is wrong."""
    reporter = Reporter()
    block = parse_text(SourceText(text, file), reporter)
    reporter.raise_if_errors()
    scope = resolve_scope(block, reporter, Libraries(reporter, library_path))
    reporter.raise_if_errors()
    pairs = []
    for name, cls in scope.classes.items():
        wanted = scope.classes.get(name.removesuffix(SUFFIX))
        if not name.endswith(SUFFIX) or not isinstance(cls, CompoundClass) or not isinstance(wanted, CompoundClass):
            continue
        pattern, replacement = (_flat(unit, scope, reporter) for unit in (wanted.units[0], cls.units[0]))
        pairs.append(PatternText(name.removesuffix(SUFFIX), pattern, replacement, wanted.place()))
    reporter.raise_if_errors()
    return pairs


def _flat(unit: Unit, scope: Scope, reporter: Reporter) -> Flat:
    parameters = {formal.name for formal in unit.formals}
    own = {name: d for name, d in unit.definitions.items() if name not in parameters}
    # A class of the file may be used inside another one, where its ends must stay ends.
    ends = [replace(end, cls="") for end in unit.members[:2]]
    copy = replace(unit, members=[*ends, *unit.members[2:]], definitions={**scope.unit.definitions, **own})
    return Flat(*expand_unit(copy, {}, reporter))
