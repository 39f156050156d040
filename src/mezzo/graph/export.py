"""A graph for other programs: as XML in the shape of click2xml, as JSON, GML and GraphML.

The XML is Click's `clickconfig`: an `element` each with its class, place, ports, processing and configuration string, a
`connection` each with both ports and `h` (push) or `l` (pull).  JSON says the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mezzo.base import Span
from mezzo.graph.check import Resolved
from mezzo.graph.graph import Connection, Instance

_XML_HEAD = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<!DOCTYPE configuration SYSTEM "http://www.pdos.lcs.mit.edu/click/clickconfig.dtd">
<configuration xmlns="http://www.lcdf.org/click/xml/">
"""
_LETTER = {"push": "h", "pull": "l"}
_XML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
_XML |= {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
_NO_XML = (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000))
_XML_TABLE: dict[int, str] = {**dict.fromkeys(_NO_XML, "\ufffd"), **{ord(c): text for c, text in _XML.items()}}


def to_xml(resolved: Resolved) -> str:
    """The graph as click2xml writes one."""
    graph = resolved.graph
    lines = [_xml_element(resolved, instance) for instance in graph.instances.values()]
    lines += [_xml_connection(resolved, connection) for connection in graph.connections]
    return _XML_HEAD + "".join(f"{line}\n" for line in lines) + "</configuration>\n"


def to_json(resolved: Resolved) -> dict[str, Any]:
    """The graph as plain values."""
    graph = resolved.graph
    return {
        "requirements": list(graph.requirements),
        "elements": [_json_element(resolved, instance) for instance in graph.instances.values()],
        "connections": [
            {
                "from": c.src,
                "output": c.src_port,
                "to": c.dst,
                "input": c.dst_port,
                "processing": resolved.output_kinds[c.src][c.src_port],
            }
            for c in graph.connections
        ],
    }


def to_gml(resolved: Resolved) -> str:
    """The graph in GML, which yEd and networkx read."""
    graph = resolved.graph
    numbers = {name: i for i, name in enumerate(graph.instances)}
    lines = ["graph [", "  directed 1"]
    for name, instance in graph.instances.items():
        lines.append(f"  node [ id {numbers[name]} label {_gml(name)} class {_gml(instance.cls)} ]")
    for c in graph.connections:
        ends = f"source {numbers[c.src]} target {numbers[c.dst]}"
        kind = resolved.output_kinds[c.src][c.src_port]
        lines.append(f'  edge [ {ends} output {c.src_port} input {c.dst_port} processing "{kind}" ]')
    return "\n".join([*lines, "]", ""])


def to_graphml(resolved: Resolved) -> str:
    """The graph in GraphML."""
    graph = resolved.graph
    keys = [("class", "node", "string"), ("config", "node", "string")]
    keys += [("output", "edge", "int"), ("input", "edge", "int"), ("processing", "edge", "string")]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += [f'  <key id="{k}" for="{what}" attr.name="{k}" attr.type="{kind}"/>' for k, what, kind in keys]
    lines.append('  <graph id="router" edgedefault="directed">')
    for name, instance in graph.instances.items():
        data = _graphml_data([("class", instance.cls), ("config", instance.config)])
        lines.append(f'    <node id="{quoted(name)}">{data}</node>')
    for c in graph.connections:
        kind = resolved.output_kinds[c.src][c.src_port]
        data = _graphml_data([("output", c.src_port), ("input", c.dst_port), ("processing", kind)])
        lines.append(f'    <edge source="{quoted(c.src)}" target="{quoted(c.dst)}">{data}</edge>')
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])


def processing_code(resolved: Resolved, name: str) -> str:
    """`h/lh`: a letter for each port."""
    inputs, outputs = resolved.input_kinds[name], resolved.output_kinds[name]
    return "".join(_LETTER[k] for k in inputs) + "/" + "".join(_LETTER[k] for k in outputs)


def quoted(text: str) -> str:
    """Text for XML, in attributes as well: line ends stay line ends."""
    return text.translate(_XML_TABLE)


def _xml_element(resolved: Resolved, instance: Instance) -> str:
    name = instance.name
    ninputs, noutputs = resolved.ninputs[name], resolved.noutputs[name]
    parts = [f'name="{quoted(name)}"', f'classname="{quoted(instance.cls)}"', *_xml_place(instance.span)]
    parts += [f'ninputs="{ninputs}"', f'noutputs="{noutputs}"']
    if ninputs or noutputs:
        parts.append(f'processing="{processing_code(resolved, name)}"')
    if instance.config:
        parts.append(f'config="{quoted(instance.config)}"')
    return f"<element {' '.join(parts)} />"


def _xml_connection(resolved: Resolved, c: Connection) -> str:
    kind = _LETTER[resolved.output_kinds[c.src][c.src_port]]
    ends = f'from="{quoted(c.src)}" fromport="{c.src_port}" to="{quoted(c.dst)}" toport="{c.dst_port}"'
    return f'<connection {ends} processing="{kind}" />'


def _xml_place(span: Span | None) -> list[str]:
    return [f'file="{quoted(span.file)}"', f'line="{span.line}"'] if span is not None else []


def _json_element(resolved: Resolved, instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "class": instance.cls,
        "config": instance.config,
        "place": str(instance.span) if instance.span is not None else None,
        "inputs": list(resolved.input_kinds[instance.name]),
        "outputs": list(resolved.output_kinds[instance.name]),
    }


def _gml(text: str) -> str:
    safe = "".join(c if 32 <= ord(c) < 127 and c not in '&"' else f"&#{ord(c)};" for c in text)
    return f'"{safe}"'


def _graphml_data(values: Iterable[tuple[str, object]]) -> str:
    return "".join(f'<data key="{key}">{quoted(str(value))}</data>' for key, value in values)
