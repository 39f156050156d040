"""The graph of a router: assembled from a flat configuration, checked, ordered, drawn."""

from typing import TYPE_CHECKING, Any

from mezzo.graph.assemble import assemble
from mezzo.graph.check import PortSpec, Resolved, check
from mezzo.graph.graph import Connection, Graph, Instance
from mezzo.graph.order import flow_order

if TYPE_CHECKING:
    from mezzo.graph.draw import draw_dot, draw_html, draw_svg

__all__ = [
    "Connection",
    "Graph",
    "Instance",
    "PortSpec",
    "Resolved",
    "assemble",
    "check",
    "draw_dot",
    "draw_html",
    "draw_svg",
    "flow_order",
]


def __getattr__(name: str) -> Any:
    """A picture is rarely wanted, and what draws it takes long to import."""
    if name in ("draw_dot", "draw_html", "draw_svg"):
        from mezzo.graph import draw

        return getattr(draw, name)
    raise AttributeError(f"mezzo.graph has no `{name}`")
