"""Pictures: well-formed, complete, laid out without overlaps, and bounded in time."""

from __future__ import annotations

import random
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from mezzo.frontends.click import parse_click
from mezzo.graph import Connection, Graph, Instance, assemble, draw_dot, draw_html, draw_svg
from mezzo.graph.layout import Box, Edge, Layout, lay_out
from tests.graph.specs import IP_ROUTER, resolve, resolved

SVG = "{http://www.w3.org/2000/svg}"


def overlaps(layout: Layout) -> list[tuple[Box, Box]]:
    boxes = layout.boxes
    return [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if abs(a.x - b.x) < (a.width + b.width) / 2 - 0.01 and a.y < b.y + b.height and b.y < a.y + a.height
    ]


def random_layout(seed: int) -> Layout:
    chance = random.Random(seed)
    count = chance.randint(1, 25)
    boxes = [Box(chance.uniform(40, 200), 30, (0.0, 9.0), (-9.0, 0.0, 9.0)) for _ in range(count)]
    edges = [
        Edge(chance.randrange(count), chance.randrange(3), chance.randrange(count), chance.randrange(2))
        for _ in range(chance.randint(0, 2 * count))
    ]
    return lay_out(boxes, edges)


@pytest.mark.parametrize("seed", range(40))
def test_boxes_do_not_overlap_and_lie_inside(seed: int) -> None:
    layout = random_layout(seed)
    assert not overlaps(layout)
    for box in layout.boxes:
        assert box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= layout.width
        assert box.y >= 0 and box.y + box.height <= layout.height
    for edge in layout.edges:
        src, dst = layout.boxes[edge.src], layout.boxes[edge.dst]
        assert edge.points[0] == (src.x + src.ports_out[edge.src_port], src.y + src.height)
        assert edge.points[-1] == (dst.x + dst.ports_in[edge.dst_port], dst.y)
        assert edge.upward or all(a[1] <= b[1] for a, b in zip(edge.points, edge.points[1:], strict=False))


def test_a_chain_is_one_straight_line() -> None:
    boxes = [Box(60.0 + 20 * i, 30) for i in range(5)]
    layout = lay_out(boxes, [Edge(i, 0, i + 1, 0) for i in range(4)])
    assert len({round(box.x, 3) for box in layout.boxes}) == 1
    assert [box.y for box in layout.boxes] == sorted(box.y for box in layout.boxes)


def test_only_edges_that_close_loops_run_up() -> None:
    layout = lay_out([Box(60, 30) for _ in range(4)], [Edge(0, 0, 1, 0), Edge(1, 0, 2, 0), Edge(2, 0, 1, 0)])
    assert [edge.upward for edge in layout.edges] == [False, False, True]


def test_svg_has_every_element_connection_and_label() -> None:
    result = resolved(IP_ROUTER)
    first = result.graph.connections[0]
    root = ET.fromstring(draw_svg(result, {"rt": "12 <packets>"}, {first: "77 & more"}))
    names = {g.get("data-name") for g in root.iter(f"{SVG}g")}
    assert names == set(result.graph.instances)
    edges = [path for path in root.iter(f"{SVG}path") if "edge" in (path.get("class") or "")]
    assert len(edges) == len(result.graph.connections)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert "12 <packets>" in texts and "77 & more" in texts


def test_ports_are_filled_where_they_push() -> None:
    svg = draw_svg(resolved("Idle -> Queue -> ToDevice"))
    assert svg.count('class="port push"') == 2 and svg.count('class="port pull"') == 2
    assert draw_svg(assemble(parse_click("a :: A -> b :: B"))).count('class="port agnostic"') == 2


def test_odd_names_and_configurations_are_escaped() -> None:
    graph = Graph({"a": Instance("a", "A", '"<&>" \x22 </svg>')}, (Connection("a", 0, "a", 0),))
    ET.fromstring(draw_svg(graph))
    assert '"a" [label="a\\nA(\\"<&>\\" \\" </svg>)"];' in draw_dot(graph)
    assert draw_svg(Graph()).endswith("</svg>")


def test_characters_that_no_xml_has_are_replaced() -> None:
    graph = Graph({"a": Instance("a", "A", "\x01\x1b[31m\ufffe\udcff é")})
    drawn = draw_svg(graph, element_labels={"a": "\x02"}).encode()
    assert ET.fromstring(drawn) is not None and "é".encode() in drawn


def test_a_graph_with_mistakes_is_drawn_as_it_is() -> None:
    result, reporter = resolve("Idle -> [3] d :: Discard [2] -> Nowhere -> d")
    assert reporter.errors and "Nowhere" in draw_svg(result)


def test_html_needs_nothing_from_elsewhere() -> None:
    page = draw_html(resolved("Idle -> Discard"), title="a < b", below="<p>table</p>")
    assert "<title>a &lt; b</title>" in page and "<p>table</p>" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_dot(golden: Callable[[str, str], None]) -> None:
    result = resolved("s :: InfiniteSource -> q :: Queue(5) -> Unqueue -> Discard")
    golden("graph/small.dot", draw_dot(result, {"q": "3 waiting"}, {result.graph.connections[0]: "17"}))


def test_svg_golden(golden: Callable[[str, str], None]) -> None:
    result = resolved("s :: InfiniteSource -> q :: Queue(5) -> Unqueue -> t :: Tee => Discard, Discard")
    golden("graph/small.svg", draw_svg(result))


def test_large_graphs_are_drawn_in_bounded_time() -> None:
    text = "rt :: Classifier; Idle -> rt;" + "".join(
        f"rt[{i}] -> c{i} :: Classifier(a, b) -> Queue -> Unqueue -> Discard; c{i}[1] -> Counter -> Discard;"
        for i in range(150)
    )
    begin = time.process_time()
    draw_svg(resolved(text))
    assert time.process_time() - begin < 10
