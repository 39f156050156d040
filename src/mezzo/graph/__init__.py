"""The graph of a router: assembled from a flat configuration, checked, ordered, drawn."""

from mezzo.graph.assemble import assemble
from mezzo.graph.check import PortSpec, Resolved, check
from mezzo.graph.draw import draw_dot, draw_html, draw_svg
from mezzo.graph.graph import Connection, Graph, Instance
from mezzo.graph.order import flow_order

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
