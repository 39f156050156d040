"""XML becomes a configuration again."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError, Reporter
from mezzo.frontends.click import parse_click
from mezzo.graph import assemble, check
from mezzo.graph.export import to_xml
from mezzo.graph.from_xml import click_of_xml
from mezzo.pipeline.compile import spec_of

TEXT = """i :: InfiniteSource(DATA "<a & \\"b\\">\n\t'ü'") -> q :: Queue(5) -> d :: Discard; Idle -> q;
c :: Classifier(12/0800, -) => [0] d2 :: Discard, e :: Tee; e [1] -> Discard; e -> Discard; Idle -> c;"""

CLICKS = """<?xml version="1.0"?><configuration xmlns="http://www.lcdf.org/click/xml/">
<elementclass classname="Two" classid="c1" file="x" line="1"><compound ninputs="1" noutputs="1" nformals="2">
<formal number="1" name="k" key="KEY"/><formal number="0" name="n"/>
<element name="p" classname="Paint" config="$n"/>
<connection from="input" fromport="0" to="p" toport="0" processing="a"/>
<connection from="p" to="output"/>
</compound></elementclass>
<elementclass classname="Alias" classid="c2"><synonym classid="c1"/></elementclass>
<elementclass classid="c3"><compound><connection from="input" to="output"/></compound></elementclass>
<element name="i" classname="Idle"/><element name="t" classid="c2" config="3, KEY x"/>
<element name="n" classid="c3"/><element name="d" classname="Discard"/>
<connection from="i" to="t"/><connection from="t" to="n"/><connection from="n" to="d"/>
</configuration>"""


def test_what_we_write_comes_back() -> None:
    graph = assemble(parse_click(TEXT))
    reporter = Reporter()
    resolved = check(graph, spec_of, reporter)
    reporter.raise_if_errors()
    again = assemble(parse_click(click_of_xml(to_xml(resolved))))
    assert dict(again.instances) == dict(graph.instances) and again.connections == graph.connections


def test_compounds_of_clicks_own_tool() -> None:
    flat = parse_click(click_of_xml(CLICKS))
    assert {e.name: (e.cls, e.config) for e in flat.elements}["t/p"] == ("Paint", "3")
    assert [(c.src, c.dst) for c in flat.connections] == [("i", "t/p"), ("t/p", "d")]


def test_extended_classes() -> None:
    text = CLICKS.replace('<compound ninputs="1"', '<compound overloadclassname="Two" ninputs="1"')
    assert "|| ... }" in click_of_xml(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not XML"),
        ("<a>", "not XML"),
        ("Idle -> Discard", "not XML"),
        ("<html/>", "`html` outside"),
        ("<configuration><x/></configuration>", "has no meaning"),
        ("<configuration><element/></configuration>", "has no `name`"),
        ("<configuration><element name='x' classid='c9'/></configuration>", "no class with the classid `c9`"),
        ("<configuration><elementclass classid='a'/></configuration>", "neither a compound nor a synonym"),
        ("<configuration><connection from='a'/></configuration>", "has no `to`"),
        ("<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><configuration>&e;</configuration>", "not XML"),
    ],
)
def test_other_xml_is_refused(text: str, said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        click_of_xml(text)


def test_nesting_has_an_end() -> None:
    inner = "<elementclass classid='c'><compound>"
    text = "<configuration>" + inner * 2000 + "</compound></elementclass>" * 2000 + "</configuration>"
    with pytest.raises(MezzoError, match="nested"):
        click_of_xml(text)
