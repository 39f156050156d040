"""Routers joined at their devices, and taken apart again."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.frontends.click import parse_click, unparse
from mezzo.graph import Graph, assemble
from mezzo.graph.combine import combine, parse_link, uncombine

HOST = "FromDevice({0}) -> in :: In; out :: Out -> Queue -> ToDevice({0});"


def graph_of(text: str) -> Graph:
    return assemble(parse_click(text))


def flat(graph: Graph) -> str:
    return unparse(graph.instances, graph.connections)


def alike(one: Graph, other: Graph) -> bool:
    return dict(one.instances) == dict(other.instances) and {*one.connections} == {*other.connections}


def joined(texts: dict[str, str], *links: str) -> Graph:
    return combine({n: graph_of(t) for n, t in texts.items()}, [parse_link(link) for link in links])[0]


def test_a_link_takes_the_place_of_two_devices() -> None:
    found = joined({"A": "x :: X -> y :: ToDevice(eth1)", "B": "x :: FromDevice(eth0) -> y :: Y"}, "A.eth1=B.eth0")
    link = "RouterLink(A y ToDevice, eth1, B x FromDevice, eth0)"
    assert flat(found) == flat(graph_of(f"A/x :: X; B/y :: Y; link1 :: {link}; A/x -> link1 -> B/y"))


def test_both_directions_and_the_way_back() -> None:
    texts = {"A": HOST.format("eth0"), "B": HOST.format("eth1")}
    found = joined(texts, "A.eth0=B.eth1", "B.eth1=A.eth0")
    assert sum(i.cls == "RouterLink" for i in found.instances.values()) == 2
    for name, text in texts.items():
        alone, left = uncombine(found, ["A", "B"], name)
        assert alike(alone, graph_of(text)) and left == []


def test_several_on_one_wire() -> None:
    texts = {name: HOST.format("eth0") for name in "ABC"}
    found = joined(texts, "A.eth0=B.eth0", "A.eth0=C.eth0", "B.eth0=A.eth0")
    links = [i for i in found.instances.values() if i.cls == "RouterLink"]
    assert len(links) == 2 and links[0].config.count("eth0") == 3
    for name in "ABC":
        assert alike(uncombine(found, list("ABC"), name)[0], graph_of(texts[name]))


def test_configurations_of_several_arguments_come_back() -> None:
    texts = {"A": 'i :: Idle -> t :: ToDevice(eth0, "a,b", X Y)', "B": 'f :: FromDevice("eth 0") -> d :: Discard'}
    found = joined(texts, "A.t=B.f")
    assert all(alike(uncombine(found, ["A", "B"], n)[0], graph_of(t)) for n, t in texts.items())


def test_elements_without_arguments_and_in_the_last_place() -> None:
    texts = {"A": "i :: Idle -> t :: End", "B": "f :: Begin -> d :: Discard"}
    graph, odd = combine({n: graph_of(t) for n, t in texts.items()}, [parse_link("A.t=B.f")])
    assert len(odd) == 2 and "is a End, not a ToDevice" in odd[0]
    assert all(alike(uncombine(graph, ["A", "B"], n)[0], graph_of(t)) for n, t in texts.items())


def test_combined_routers_are_combined_again() -> None:
    texts = {"A": "x :: X -> y :: ToDevice(eth1)", "B": "x :: FromDevice(eth0) -> y :: ToDevice(eth2)"}
    inner = joined(texts, "A.y=B.x")
    outer, _ = combine({"N": inner, "C": graph_of("f :: FromDevice(eth0) -> d :: D")}, [parse_link("N.eth2=C.eth0")])
    components = ["N", "N/A", "N/B", "C"]
    back, left = uncombine(outer, components, "N")
    assert alike(back, inner) and left == ["A", "B"]
    assert alike(uncombine(outer, components, "N/A")[0], graph_of(texts["A"]))
    assert alike(uncombine(outer, components, "C")[0], graph_of("f :: FromDevice(eth0) -> d :: D"))


def test_what_a_tool_put_between_goes_with_the_component() -> None:
    found = joined({"A": "x :: X -> y :: ToDevice(e)", "B": "z :: FromDevice(e) -> w :: W"}, "A.e=B.e")
    text = flat(found).replace("A/x -> link1", "A/x -> New@1/z -> link1") + "New@1/z :: New;"
    text = text.replace("New@1/z :: New;", "").replace("\n\n", "\nNew@1/z :: New;\n\n", 1)
    alone, _ = uncombine(graph_of(text), ["A", "B"], "A")
    assert "New@1/z" in alone.instances and "w" not in alone.instances


@pytest.mark.parametrize("text", ["A.x", "A=B", "A.=B.x", "A.x=B.y=C.z", ".x=B.y", ""])
def test_a_link_has_one_form(text: str) -> None:
    with pytest.raises(MezzoError, match="is not a link"):
        parse_link(text)


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (("A.eth9=B.eth1",), "no element `eth9`"),
        (("A.eth0=B.eth9",), "no FromDevice or PollDevice"),
        (("Z.eth0=B.eth1",), "no router `Z`"),
        (("A.eth0=B.eth1", "B.out=A.ToDevice@5"), "both the beginning and the end"),
    ],
)
def test_links_that_lead_nowhere(links: tuple[str, ...], said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        joined({"A": HOST.format("eth0"), "B": HOST.format("eth1")}, *links)


def test_two_devices_of_one_name() -> None:
    with pytest.raises(MezzoError, match="has 2 elements"):
        joined({"A": "Idle -> ToDevice(e); Idle -> ToDevice(e)", "B": "FromDevice(e) -> Discard"}, "A.e=B.e")


def test_what_is_not_there_and_what_is_broken() -> None:
    found = joined({"A": "x :: X -> y :: ToDevice(e)", "B": "z :: FromDevice(e) -> w :: W"}, "A.e=B.e")
    with pytest.raises(MezzoError, match="no component `Q`"):
        uncombine(found, ["A", "B"], "Q")
    for config in ("", "A y", "A y ToDevice, e"):
        with pytest.raises(MezzoError, match="combine does not write"):
            uncombine(found.with_config("link1", config), ["A", "B"], "A")
