"""A graph as XML, JSON, GML and GraphML, read back by others' parsers."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from mezzo.base import Reporter
from mezzo.frontends.click import parse_click
from mezzo.graph import Resolved, assemble, check
from mezzo.graph.export import to_gml, to_graphml, to_json, to_xml
from mezzo.pipeline.compile import spec_of

TEXT = """i :: InfiniteSource(DATA "<a & \\"b\\">
\t'ü'") -> q :: Queue(5)
 -> d :: Discard; Idle -> q;"""
CLICK = "{http://www.lcdf.org/click/xml/}"


def resolved(text: str = TEXT) -> Resolved:
    reporter = Reporter()
    found = check(assemble(parse_click(text, "x.click")), spec_of, reporter)
    reporter.raise_if_errors()
    return found


def test_xml_has_the_shape_of_click2xml() -> None:
    root = ElementTree.fromstring(to_xml(resolved()).encode())
    assert root.tag == f"{CLICK}configuration"
    queue = root.findall(f"{CLICK}element[@name='q']")[0]
    expected = {"name": "q", "classname": "Queue", "file": "x.click", "line": "2", "ninputs": "1", "noutputs": "1"}
    assert queue.attrib == {**expected, "processing": "h/l", "config": "5"}
    wires = [c.attrib for c in root.findall(f"{CLICK}connection")]
    assert wires[1] == {"from": "q", "fromport": "0", "to": "d", "toport": "0", "processing": "l"}


def test_configurations_pass_through_xml_byte_for_byte() -> None:
    graph = resolved()
    root = ElementTree.fromstring(to_xml(graph).encode())
    for element in root.findall(f"{CLICK}element"):
        assert element.get("config", "") == graph.graph.instances[element.get("name", "")].config


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    root = ElementTree.fromstring(to_xml(resolved('Idle -> Print("\x01\udc80") -> Discard')).encode())
    assert root.findall(f"{CLICK}element")[1].get("config") == '"\ufffd\ufffd"'


def test_an_empty_graph() -> None:
    assert len(ElementTree.fromstring(to_xml(resolved("")).encode())) == 0


def test_json_says_the_same() -> None:
    found = json.loads(json.dumps(to_json(resolved())))
    assert found["elements"][1] == {
        "name": "q", "class": "Queue", "config": "5", "place": "x.click:2:11", "inputs": ["push"], "outputs": ["pull"],
    }  # fmt: skip
    assert found["connections"][1] == {"from": "q", "output": 0, "to": "d", "input": 0, "processing": "pull"}


def test_gml_and_graphml_can_be_read() -> None:
    gml = to_gml(resolved())
    assert gml.count("node [") == 4 and gml.count("edge [") == 3 and gml.isascii()
    root = ElementTree.fromstring(to_graphml(resolved()).encode())
    space = "{http://graphml.graphdrawing.org/xmlns}"
    nodes, edges = root.findall(f".//{space}node"), root.findall(f".//{space}edge")
    assert [n.get("id") for n in nodes] == ["i", "q", "d", "Idle@4"]
    assert [(e.get("source"), e.get("target")) for e in edges] == [("i", "q"), ("q", "d"), ("Idle@4", "q")]
