"""A flat configuration: elements and connections only, compounds, groups and variables all expanded."""

from __future__ import annotations

from dataclasses import dataclass, field

from mezzo.base import Diagnostic, Span
from mezzo.frontends.click.source import ConfigText


@dataclass(frozen=True, slots=True)
class FlatElement:
    """One element; `written` is its configuration string as it stands in the text, for places of arguments."""

    name: str
    cls: str
    config: str
    span: Span | None = field(default=None, compare=False)
    written: ConfigText | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FlatConnection:
    """From an output port to an input port; `span` is the arrow."""

    src: str
    src_port: int
    dst: str
    dst_port: int
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Flat:
    """Elements in the order Click numbers them, connections, `require` clauses, and what the parser warns of."""

    elements: tuple[FlatElement, ...]
    connections: tuple[FlatConnection, ...]
    requirements: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
