"""Pictures of a graph: SVG, a page of HTML that holds it, and dot text for Graphviz.

Drawn as Click's papers draw: packets run down, inputs are triangles and outputs rectangles on the edge of their
element, push ports filled and pull ports open; ports whose kind is not known are grey.  Elements of one compound
share a tint.

Labels are the caller's: `element_labels` by element name, `edge_labels` by connection; counters, for example.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from mezzo.graph.check import Resolved
from mezzo.graph.export import quoted as escape
from mezzo.graph.graph import Connection, Graph, Instance
from mezzo.graph.layout import TURN, Box, Edge, Layout, lay_out

CHAR = 6.7
SMALL_CHAR = 5.9
PORT_SPACE = 16.0
LONGEST_CONFIG = 34
LINE = 14.0

_STYLE = """
svg text { font: 11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1c2733; }
svg .name { font-weight: 600; } svg .config { font-size: 9.8px; fill: #5a6b7b; }
svg .note { font-size: 9.8px; fill: #0b6e4f; } svg .count { font-size: 9.5px; fill: #0b6e4f; }
svg .halo { fill: none; stroke: #fff; stroke-width: 4px; stroke-linejoin: round; font-size: 9.5px; }
svg .box { stroke: #44566a; stroke-width: 1.1; }
svg .edge { fill: none; stroke: #51657a; stroke-width: 1.25; }
svg .edge.up { stroke: #b07a3c; } svg .edge.pull { stroke: #2f6fb3; stroke-dasharray: 5 3; }
svg .port { stroke: #1c2733; stroke-width: 1; fill: #fff; }
svg .port.push { fill: #1c2733; } svg .port.agnostic { fill: #b8c2cc; }
""".strip()

_SCRIPT = """
const svg = document.querySelector('svg'), view = svg.viewBox.baseVal;
let drag = null;
svg.addEventListener('wheel', e => {
  e.preventDefault();
  const k = Math.exp(e.deltaY * 0.0012), r = svg.getBoundingClientRect();
  const x = view.x + (e.clientX - r.left) / r.width * view.width;
  const y = view.y + (e.clientY - r.top) / r.height * view.height;
  view.x = x + (view.x - x) * k; view.y = y + (view.y - y) * k; view.width *= k; view.height *= k;
}, {passive: false});
svg.addEventListener('pointerdown', e => { drag = [e.clientX, e.clientY, view.x, view.y]; });
addEventListener('pointerup', () => { drag = null; });
addEventListener('pointermove', e => {
  if (!drag) return;
  const k = view.width / svg.getBoundingClientRect().width;
  view.x = drag[2] - (e.clientX - drag[0]) * k; view.y = drag[3] - (e.clientY - drag[1]) * k;
});
for (const g of svg.querySelectorAll('g.element')) {
  const mark = on => { for (const p of svg.querySelectorAll('path.edge'))
    if (p.dataset.src === g.dataset.name || p.dataset.dst === g.dataset.name) p.style.strokeWidth = on ? '3px' : ''; };
  g.addEventListener('pointerenter', () => mark(true)); g.addEventListener('pointerleave', () => mark(false));
}
""".strip()

_TINTS = ("#eef4fb", "#fdf3e7", "#eef7ee", "#f7eef7", "#f9f6e3", "#e9f6f6")

Labels = Mapping[str, str]
EdgeLabels = Mapping[Connection, str]


def draw_svg(
    graph: Graph | Resolved,
    element_labels: Labels | None = None,
    edge_labels: EdgeLabels | None = None,
    tints: Labels | None = None,
) -> str:
    """The graph as an SVG document; `tints`: colours of boxes, by element, instead of those of compounds."""
    return _Picture(graph, element_labels or {}, edge_labels or {}, tints or {}).svg()


def draw_html(
    graph: Graph | Resolved,
    element_labels: Labels | None = None,
    edge_labels: EdgeLabels | None = None,
    title: str = "router",
    below: str = "",
    tints: Labels | None = None,
) -> str:
    """A page that needs nothing else: the picture, to be moved and zoomed; `below` is HTML put under it."""
    svg = draw_svg(graph, element_labels, edge_labels, tints)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n<style>\n'
        "body { margin: 0; font: 14px system-ui, sans-serif; color: #1c2733; background: #fff; }\n"
        "header { padding: 10px 24px; border-bottom: 1px solid #dde3e9; } h1 { font-size: 17px; margin: 0 0 2px; }\n"
        "p { margin: 0; color: #5a6b7b; font-size: 12px; } svg { width: 100%; height: 86vh; cursor: grab; }\n"
        "main { padding: 0 24px 24px; }\n</style></head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1><p>Filled ports push, open ports pull. "
        "Drag to move, turn the wheel to zoom, point at an element to see its connections.</p></header>\n"
        f"{svg}\n<main>{below}</main>\n<script>\n{_SCRIPT}\n</script>\n</body></html>\n"
    )


def draw_dot(
    graph: Graph | Resolved, element_labels: Labels | None = None, edge_labels: EdgeLabels | None = None
) -> str:
    """The graph in Graphviz's dot language."""
    plain, resolved = _both(graph)
    lines = ["digraph router {", '  node [shape=box, fontname="monospace", fontsize=10];', "  edge [fontsize=9];"]
    for instance in plain.instances.values():
        label = "\n".join(_lines(instance, (element_labels or {}).get(instance.name, "")))
        lines.append(f"  {_dot(instance.name)} [label={_dot(label)}];")
    for connection in plain.connections:
        kind = _kind(resolved, "output", connection.src, connection.src_port)
        ports = f"taillabel={_dot(str(connection.src_port))}, headlabel={_dot(str(connection.dst_port))}"
        style = ", style=dashed" if kind == "pull" else ""
        label = f", label={_dot(text)}" if (text := (edge_labels or {}).get(connection)) else ""
        lines.append(f"  {_dot(connection.src)} -> {_dot(connection.dst)} [{ports}{style}{label}];")
    return "\n".join([*lines, "}"]) + "\n"


class _Picture:
    def __init__(
        self, graph: Graph | Resolved, element_labels: Labels, edge_labels: EdgeLabels, tints: Labels
    ) -> None:
        self._graph, self._resolved = _both(graph)
        self._edge_labels, self._tints = edge_labels, tints
        self._names = list(self._graph.instances)
        self._lines = {i.name: _lines(i, element_labels.get(i.name, "")) for i in self._graph.instances.values()}
        self._ninputs, self._noutputs = self._port_counts()

    def svg(self) -> str:
        layout = self._layout()
        parts = [self._edge(edge, c) for edge, c in zip(layout.edges, self._graph.connections, strict=True)]
        parts += [self._element(box, name) for box, name in zip(layout.boxes, self._names, strict=True)]
        labels = [self._edge_label(edge, c) for edge, c in zip(layout.edges, self._graph.connections, strict=True)]
        size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {layout.width:.0f} {layout.height:.0f}">\n'
            f"<style>\n{_STYLE}\n</style>\n" + "\n".join(part for part in [*parts, *labels] if part) + "\n</svg>"
        )

    def _port_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        ninputs, noutputs = dict.fromkeys(self._names, 0), dict.fromkeys(self._names, 0)
        if self._resolved is not None:
            ninputs, noutputs = dict(self._resolved.ninputs), dict(self._resolved.noutputs)
        # A graph with mistakes can be drawn, too: ports that its classes do not have are shown where they are used.
        for c in self._graph.connections:
            ninputs[c.dst] = max(ninputs[c.dst], c.dst_port + 1)
            noutputs[c.src] = max(noutputs[c.src], c.src_port + 1)
        return ninputs, noutputs

    def _layout(self) -> Layout:
        numbers = {name: number for number, name in enumerate(self._names)}
        boxes = [self._box(name) for name in self._names]
        edges = [Edge(numbers[c.src], c.src_port, numbers[c.dst], c.dst_port) for c in self._graph.connections]
        return lay_out(boxes, edges)

    def _box(self, name: str) -> Box:
        first, *rest = self._lines[name]
        ninputs, noutputs = self._ninputs[name], self._noutputs[name]
        out_space = max(PORT_SPACE, self._label_width(name) + 10) if noutputs > 1 else PORT_SPACE
        width = max(len(first) * CHAR, *(len(line) * SMALL_CHAR for line in rest or [""])) + 20
        width = max(width, ninputs * PORT_SPACE + 12, noutputs * out_space + 12, 54.0)
        height = LINE * len(self._lines[name]) + 18
        return Box(width, height, _spread(ninputs, width, PORT_SPACE), _spread(noutputs, width, out_space))

    def _label_width(self, name: str) -> float:
        """The width of the widest label behind one of this element's outputs."""
        labels = (self._edge_labels.get(c, "") for c in self._graph.outputs_of(name))
        return max((len(text) * SMALL_CHAR for text in labels), default=0.0)

    def _element(self, box: Box, name: str) -> str:
        instance = self._graph.instances[name]
        left = box.x - box.width / 2
        parts = [
            f'<g class="element" data-name="{escape(name)}"><title>{escape(_full(instance))}</title>',
            f'<rect class="box" x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="3" fill="{self._tints.get(name) or _tint(name)}"/>',
        ]
        named = not _is_anonymous(instance)
        for i, line in enumerate(self._lines[name]):
            style = "name" if i == 0 else "config" if i == 1 and (named or instance.config) else "note"
            place = f'x="{box.x:.1f}" y="{box.y + 9 + LINE * (i + 0.8):.1f}"'
            parts.append(f'<text class="{style}" {place} text-anchor="middle">{escape(line)}</text>')
        parts += [self._input(box, name, port) for port in range(self._ninputs[name])]
        parts += [self._output(box, name, port) for port in range(self._noutputs[name])]
        return "".join(parts) + "</g>"

    def _input(self, box: Box, name: str, port: int) -> str:
        x, y = box.x + box.ports_in[port], box.y
        kind = _kind(self._resolved, "input", name, port)
        return f'<path class="port {kind}" d="M{x - 5:.1f} {y:.1f}h10l-5 6.5z"/>'

    def _output(self, box: Box, name: str, port: int) -> str:
        x, y = box.x + box.ports_out[port], box.y + box.height
        kind = _kind(self._resolved, "output", name, port)
        return f'<rect class="port {kind}" x="{x - 4.5:.1f}" y="{y - 5.5:.1f}" width="9" height="5.5"/>'

    def _edge(self, edge: Edge, connection: Connection) -> str:
        kind = _kind(self._resolved, "output", connection.src, connection.src_port)
        style = " ".join(["edge", *(["pull"] if kind == "pull" else []), *(["up"] if edge.upward else [])])
        ends = f'data-src="{escape(connection.src)}" data-dst="{escape(connection.dst)}"'
        return f'<path class="{style}" {ends} d="{_path(edge)}"><title>{escape(str(connection))}</title></path>'

    def _edge_label(self, edge: Edge, connection: Connection) -> str:
        text = escape(self._edge_labels.get(connection, ""))
        if not text:
            return ""
        x, y = edge.points[0]
        place = f'x="{x + 5:.1f}" y="{y + 13:.1f}"'
        return f'<text class="halo" {place}>{text}</text><text class="count" {place}>{text}</text>'


def _path(edge: Edge) -> str:
    """A curve through the points that leaves and enters them upright."""
    (x, y), *rest = edge.points
    parts = [f"M{x:.1f} {y:.1f}"]
    for i, (to_x, to_y) in enumerate(rest):
        if edge.upward and i == 0:
            turn = max(y, to_y) + TURN
            parts.append(f"C{x:.1f} {turn:.1f} {to_x:.1f} {turn:.1f} {to_x:.1f} {to_y:.1f}")
        elif edge.upward and i == len(rest) - 1:
            turn = min(y, to_y) - TURN
            parts.append(f"C{x:.1f} {turn:.1f} {to_x:.1f} {turn:.1f} {to_x:.1f} {to_y:.1f}")
        elif abs(x - to_x) < 0.05:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(parts)


def _both(graph: Graph | Resolved) -> tuple[Graph, Resolved | None]:
    return (graph.graph, graph) if isinstance(graph, Resolved) else (graph, None)


def _kind(resolved: Resolved | None, side: str, name: str, port: int) -> str:
    if resolved is None:
        return "agnostic"
    kinds = resolved.input_kinds if side == "input" else resolved.output_kinds
    return kinds[name][port] if port < len(kinds[name]) else "agnostic"


def _is_anonymous(instance: Instance) -> bool:
    own = instance.name.rpartition("/")[2]
    return own.partition("@")[0] == instance.cls and "@" in own


def _lines(instance: Instance, label: str) -> list[str]:
    """What is written in a box: name (or class, if nobody named it), class and configuration, labels."""
    config = " ".join(instance.config.split())
    if _is_anonymous(instance):
        lines = [instance.cls, *([f"({_cut(config)})"] if config else [])]
    else:
        lines = [instance.name, _cut(f"{instance.cls}({config})" if config else instance.cls)]
    return lines + [line for line in label.split("\n") if line]


def _full(instance: Instance) -> str:
    config = instance.config if len(instance.config) < 2000 else instance.config[:2000] + " ..."
    return f"{instance.name} :: {instance.cls}" + (f"({config})" if config else "")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CONFIG else text[: LONGEST_CONFIG - 1] + "…"


def _spread(count: int, width: float, space: float) -> tuple[float, ...]:
    """Offsets of ports from the centre, evenly over the width but no wider apart than looks well."""
    step = min((width - 12) / max(count, 1), max(space, 2.5 * PORT_SPACE))
    return tuple((i - (count - 1) / 2) * step for i in range(count))


def _tint(name: str) -> str:
    compound = name.rpartition("/")[0].partition("/")[0]
    return _TINTS[zlib.crc32(compound.encode("utf-8", "replace")) % len(_TINTS)] if compound else "#ffffff"


def _dot(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'


