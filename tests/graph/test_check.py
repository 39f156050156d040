"""Push and pull, port counts, unused and reused ports, loops."""

from __future__ import annotations

import time

import pytest

from mezzo.base import MezzoError, Reporter
from mezzo.graph import Connection, Graph, Instance, check
from tests.graph.specs import IP_ROUTER, SPECS, complaints, resolve, resolved, spec_of


def kinds(text: str) -> dict[str, str]:
    result = resolved(text)
    return {
        name: "/".join("".join({"push": "h", "pull": "l"}[k] for k in side[name]) for side in sides)
        for name in result.graph.instances
        for sides in [(result.input_kinds, result.output_kinds)]
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("TimedSource -> n :: Null -> Discard", {"n": "h/h"}),
        ("i :: Idle -> n :: Null -> d :: Discard", {"i": "/h", "n": "h/h", "d": "h/"}),
        ("i :: Idle -> q :: Queue -> n :: Null -> ToDevice", {"i": "/h", "q": "h/l", "n": "l/l"}),
        ("i :: Idle -> n :: Null -> ToDevice", {"i": "/l", "n": "l/l"}),
        ("Idle -> q :: Queue -> Unqueue -> d :: Discard; q[1] -> e :: Discard", {"q": "h/lh", "d": "h/", "e": "h/"}),
        ("Idle -> p :: CheckPaint -> ToDevice; p[1] -> Discard", {"p": "l/lh"}),
        (
            "TimedSource -> s :: Suppressor -> Discard; Idle -> [1] s [1] -> ToDevice;"
            "Idle -> [2] s [2] -> e :: Discard",
            {"s": "hlh/hlh", "e": "h/"},
        ),
        ("TimedSource -> [1] i :: Idle; Idle -> Queue -> i", {"i": "lh/"}),
        ("i :: Idle; i[1] -> ToDevice; i -> q :: Queue -> ToDevice", {"i": "/hl"}),
        ("Idle -> a :: Null -> Queue -> b :: Null -> c :: PullNull -> ToDevice", {"a": "h/h", "b": "l/l"}),
    ],
)
def test_agnostic_ports_take_the_kind_of_what_they_are_joined_to(text: str, wanted: dict[str, str]) -> None:
    assert kinds(text).items() >= wanted.items()


def test_pull_outputs_and_push_inputs_may_be_shared() -> None:
    assert kinds("q :: Queue; Idle, Idle -> q; q -> ToDevice; q -> ToDevice")["q"] == "h/l"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "TimedSource -> t :: ToDevice",
            ["push output 0 of `TimedSource@1` is joined to pull input 0 of `t`", "put a Queue between"],
        ),
        (
            "Idle -> q :: Queue -> n :: Null -> Counter -> PushNull -> Discard",
            ["pull output 0 of `q` is joined to push input 0 of `PushNull@5` through `n`, `Counter@4`", "an Unqueue"],
        ),
        (
            "i :: InfiniteSource; i -> PushNull -> Discard; i -> PullNull -> ToDevice",
            ["`i` would have to push and to pull", "push input 0 of `PushNull@2`", "pull input 0 of `PullNull@4`"],
        ),
        (
            "TimedSource -> s :: Null; Idle -> Queue -> s -> Discard",
            ["`s` would have to push and to pull: joined to push output 0 of `TimedSource@1`"],
        ),
        ("i :: TimedSource -> Discard; i -> Discard", ["push output 0 of `i` is connected a second time", ":1:18"]),
        (
            "u :: Unqueue -> Discard; Idle -> Queue -> u; Idle -> Queue -> u",
            ["pull input 0 of `u` is connected a second time", "RoundRobinSched"],
        ),
        ("Idle -> Counter", ["output 0 of `Counter@2` (Counter) is not connected", "to Discard"]),
        ("AddressInfo -> Discard", ["`AddressInfo@1` has no output 0: AddressInfo takes no outputs"]),
        ("Idle -> [1] Discard", ["has no input 1: Discard takes 1 input\n", "its input is input 0"]),
        ("Idle -> q :: Queue -> ToDevice; q[2] -> Discard", ["has no output 2: Queue takes 1 to 2 outputs"]),
        ("t :: Tee; Idle -> t; t[3], t[9], t[1] -> Discard", ["outputs 0, 2, 4-8 of `t` (Tee) are not connected"]),
        ("q :: Queue", ["input 0 and output 0 of `q` (Queue) are not connected"]),
        ("Idle -> s :: EtherSwitch -> Discard", ["input 1 and output 1 of `s` (EtherSwitch) are not connected"]),
        ("Idle -> dsicard :: Dsicard", ["`Dsicard` is not an element class", "did you mean `Discard`?"]),
        ("Idle -> d :: discard", ["`discard` is not an element class", "did you mean `Discard`?"]),
        (
            "a :: Null -> b :: Null -> a",
            ["push packets round for ever, with no way out: `a` -> `b` -> `a`", "`b` is here", "put a Queue"],
        ),
        ("a :: Null -> a", ["round for ever, with no way out: `a` -> `a`"]),
        ("a :: PullNull -> b :: PullNull -> a", ["ask each other for packets for ever"]),
    ],
)
def test_one_complaint(text: str, parts: list[str]) -> None:
    complaint, *others = complaints(text)
    assert len(others) <= text.count("i -> Pu")  # an output led to two places is said, too
    assert [part for part in parts if part not in complaint] == [], complaint


def test_everything_is_reported_at_once() -> None:
    text = "t :: Tee; TimedSource -> ToDevice; Idle -> Nul -> Discard; a :: Null -> a; Idle -> [2] Discard"
    assert len(complaints(text)) == 5


def test_ao02_warning_and_unused_output() -> None:
    said = complaints("elementclass X { input -> Null; -> output } Idle -> X -> Discard")
    assert "warning: this `->` begins a connection at `input`" in said[0]
    assert any("output 0 of `X@2/Null@1` (Null) is not connected" in text for text in said)


def test_ao08_unused_port() -> None:
    (said,) = complaints("t :: Tee(3);\nIdle -> t; t[0] -> Discard; t[2] -> Discard;")
    assert said.startswith("router.click:1:1: output 1 of `t` (Tee) is not connected")


@pytest.mark.parametrize(
    ("rest", "missing"),
    [
        ("s -> Discard", "input 1 and output 1 of `s` (EtherSwitch) are"),
        ("s[0] -> Discard; s[1] -> Discard", "input 1 of `s` (EtherSwitch) is"),
        ("Idle -> [1] s; s[1] -> Discard", "output 0 of `s` (EtherSwitch) is"),
    ],
)
def test_ao08_a_switch_connected_on_one_side(rest: str, missing: str) -> None:
    (said,) = complaints(f"s :: EtherSwitch;\nIdle -> s; {rest}")
    assert said.startswith(f"router.click:1:1: {missing} not connected")


def test_ao10_push_joined_to_pull() -> None:
    (said,) = complaints("q :: Queue; Idle -> q; q -> t :: Tee(2); t[0] -> Discard; t[1] -> Discard")
    assert "pull output 0 of `q` is joined to push input 0 of `t`" in said
    assert "put an Unqueue between `q` and `t`" in said


def test_the_standard_router_is_sound_and_its_loops_are_known() -> None:
    result = resolved(IP_ROUTER)
    assert result.noutputs["rt"] == 3 and result.input_kinds["h0/fr"] == ("push",)
    (loop,) = result.loops
    assert "rt" in loop and any(name.startswith("h0/ICMPError@") for name in loop)


def test_a_queue_breaks_a_loop() -> None:
    assert resolved("a :: Null -> Queue -> Unqueue -> a").loops == ()
    assert resolved("t :: Tee -> t; t[1] -> Discard").loops == (("t",),)
    assert resolved("a :: ARPQuerier -> [1] a; Idle -> a").loops == ()


def test_errors_of_a_class_are_passed_on() -> None:
    def refuse(instance: Instance) -> object:
        raise MezzoError(f"{instance.cls} needs a license")

    reporter = Reporter()
    check(Graph({"a": Instance("a", "A")}), refuse, reporter)  # type: ignore[arg-type]
    assert [d.message for d in reporter.errors] == ["A needs a license"]


def test_a_connection_of_a_graph_built_by_hand_may_name_nothing() -> None:
    reporter = Reporter()
    check(Graph({}, (Connection("a", 0, "b", 0),)), spec_of, reporter)
    assert [d.message for d in reporter.errors] == [
        "`a [0] -> [0] b`: there is no element `a`",
        "`a [0] -> [0] b`: there is no element `b`",
    ]


@pytest.mark.slow
def test_ten_thousand_elements_are_quick() -> None:
    text = "".join(
        f"e{i} :: Counter; e{i} -> c{i} :: Classifier(1, 2, -) -> Queue(200) -> Unqueue -> Discard;"
        f"c{i}[1] -> Null -> Discard; c{i}[2] -> Discard; InfiniteSource(R {i}) -> e{i};\n"
        for i in range(1111)
    )
    begin = time.process_time()
    result, reporter = resolve(text)
    assert len(result.graph.instances) == 9999 and not reporter.diagnostics
    assert time.process_time() - begin < 5  # about 1 s on an idle machine


@pytest.mark.slow
def test_long_chains_do_not_recurse() -> None:
    result, reporter = resolve("a :: Null" + " -> Null" * 8_000 + " -> a")
    assert len(reporter.errors) == 1
    assert len(result.graph.instances) == 8_001


def test_specs_are_what_the_element_table_says() -> None:
    assert SPECS["Queue"].processing == "h/lh"
