"""Which elements are in the kernel, why the others are not, and that a plan for the kernel hangs together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Element, Packet, Port, library, u32
from mezzo.pipeline import Plan, compile_graph, compile_text
from mezzo.pipeline.link import FIRST_UP
from mezzo.pipeline.placement import BOTH, KERNEL, NATIVE
from mezzo.pipeline.ways import ways_of
from mezzo.pipeline.wire import WIRE
from mezzo.pipeline.wishes import parse_wish
from mezzo.targets.kernel.plan import KernelPlan, punt
from mezzo.targets.kernel.roads import order_of, reached

ROUTER = Path(__file__).parents[2] / "examples" / "ip-router-live.click"
DEVICES = {"DEV0": "a0", "DEV1": "b0", "MAC0": "02:00:00:00:00:01", "MAC1": "02:00:00:00:00:02", "METHOD": "XDP"}


@library.register
class RemembersSevens(Element):
    """Sends on what does not begin with 7; of those that do it knows how long the last one was."""

    ports, processing = "1/1", "a/a"
    last: u32

    def process(self, p: Packet) -> Port:
        if p.u8(0) == 7 and p.length != self.last:
            self.last = p.length
        return 0


@pytest.fixture(autouse=True)
def interfaces(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Interfaces that need not be there, by their queues: one, where it does not say more."""
    queues: dict[str, int] = {}
    monkeypatch.setattr("mezzo.ports.level.cannot_redirect", lambda device: "")
    monkeypatch.setattr("mezzo.ports.level.is_veth", lambda device: False)
    monkeypatch.setattr("mezzo.ports.level.queues_at_once", lambda device: queues.get(device, 1))
    return queues


def planned(text: str, place: Any = "auto", **more: Any) -> Plan:
    return compile_text(text, "router", place=place, **more)


def levels(plan: Plan) -> dict[str, str]:
    assert plan.placement is not None
    return {row.name: row.level for row in plan.placement.rows}


def why(plan: Plan, name: str) -> str:
    assert plan.placement is not None
    return next(row.why for row in plan.placement.rows if row.name == name)


def kernel_of(plan: Plan) -> KernelPlan:
    assert plan.placement is not None and plan.placement.kernel is not None
    return plan.placement.kernel


def name_of(plan: Plan, instance: int) -> str:
    return plan.program.instances[instance].name


def require_sound(plan: Plan) -> None:
    """Each way out of a placed instance leads on in the kernel, up, or to a wire, and natively there is where to go."""
    kernel = kernel_of(plan)
    for i in kernel.placed:
        linked = kernel.program.instances[i]
        ways = ways_of(linked.unit)
        for port, to in enumerate(linked.outputs):
            if to is None or not ways.uses(port) or (i, port) in kernel.ways:
                continue
            assert to[0] in kernel.placed, (linked.name, port)
    for (i, port), way in kernel.ways.items():
        native = plan.program.instances[i]
        assert kernel.ups[way] == (native.outputs[port] if port >= 0 else (i, punt(port)))
    for (i, port), wire in kernel.wires.items():
        assert (i, port) == (wire, WIRE) and i in kernel.placed
    for entry, _ in kernel.entries:
        road = reached(kernel, entry)
        rank = {i: n for n, i in enumerate(order_of(kernel.program, road))}
        steps = [(i, p, to) for i in road for p, to in enumerate(kernel.program.instances[i].outputs) if to is not None]
        assert all(rank[to[0]] > rank[i] for i, p, to in steps if to[0] in rank and (i, p) not in kernel.ways)
        assert plan.program.instances[entry].outputs[FIRST_UP:] == kernel.ups
    assert set(kernel.placed) == {i for entry, _ in kernel.entries for i in reached(kernel, entry)}


# -- the router of the demonstration

FAST = [
    "FromDevice@1", "HostEtherFilter@2", "class", "Paint@5", "Strip@6", "check", "rt", "DropBroadcasts@1", "redirect",
    "options", "FixIPSrc@4", "ttl", "fragment", "arpq", "q", "ToDevice@3",
]  # fmt: skip
UP = {
    ("ping", 0), ("ICMPError@13", 0), ("out0/arpq", 0), ("out0/arpq", 1), ("to0/redirect", 0), ("to0/options", 0),
    ("to0/fragment", 0), ("to0/ICMPError@9", 0), ("out1/arpq", 0), ("out1/arpq", 1), ("to1/redirect", 0),
    ("to1/options", 0), ("to1/fragment", 0), ("to1/ICMPError@9", 0),
}  # fmt: skip


def test_the_fast_path_of_the_ip_router_is_wholly_in_the_kernel() -> None:
    plan = planned(ROUTER.read_text(), variables=DEVICES)
    require_sound(plan)
    found = levels(plan)
    for name in (n for n in found if n.rpartition("/")[2] in FAST):
        assert found[name] in (KERNEL, BOTH), name
    mixed = {name.rpartition("/")[2] for name, level in found.items() if level == BOTH}
    # Bad headers are counted by reason, which two levels must not do at once.
    assert mixed - {"check"} == {"arpq", "redirect", "options", "fragment", "q", "ToDevice@3"}
    assert all(level == NATIVE for name, level in found.items() if "ICMPError" in name or "loop@" in name)
    assert found["ping"] == NATIVE
    kernel = kernel_of(plan)
    assert {(name_of(plan, i), port) for i, port in kernel.ups} - {("in0/check", 0), ("in1/check", 0)} == UP
    assert [name_of(plan, i) for i, _ in kernel.entries] == ["in0/FromDevice@1", "in1/FromDevice@1"]
    assert {name_of(plan, i): kernel.devices[i] for i in kernel.wires.values()} == {
        "out0/ToDevice@3": "a0",
        "out1/ToDevice@3": "b0",
    }


def test_reasons_have_the_line_of_the_code() -> None:
    plan = planned(ROUTER.read_text(), variables=DEVICES)
    assert plan.placement is not None
    rows = {row.name: row for row in plan.placement.rows}
    assert rows["to0/redirect"].span is not None and rows["to0/redirect"].span.text.strip() == "q = p.clone()"
    assert rows["to0/redirect"].place is not None and rows["to0/redirect"].place.text.strip().startswith("-> redirect")
    assert "it makes packets" in rows["to0/redirect"].why
    assert "not worth its place" in rows["to0/options"].why and "not worth its place" in rows["ping"].why
    assert "inside each other" in rows["loop@1"].why


def test_the_same_plan_comes_from_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = planned(ROUTER.read_text(), variables=DEVICES)
    monkeypatch.setattr("mezzo.pipeline.placement._Placer.run", None)
    again = planned(ROUTER.read_text(), variables=DEVICES)
    assert again.placement is not None and first.placement is not None
    assert again.placement.rows == first.placement.rows
    a, b = kernel_of(first), kernel_of(again)
    assert replace(a, program=b.program) == b
    assert all(a.program.instances[i] == b.program.instances[i] for i in a.placed)
    with pytest.raises(TypeError):  # another wish is another plan
        planned(ROUTER.read_text(), ["auto", "rt=native"], variables=DEVICES)


# -- wishes

SMALL = """
    FromDevice(a0, METHOD XDP)
        -> fast :: { input -> s :: Strip(14) -> k :: CheckIPHeader -> u :: Unstrip(14) -> output }
        -> q :: Queue -> to :: ToDevice(b0, METHOD XDP);
"""


def test_nobody_wishes_anything() -> None:
    assert planned(SMALL, ()).placement is None
    assert planned(SMALL, "").placement is None


def test_a_compound_stands_for_all_in_it_and_devices_come_along() -> None:
    for wish in ("fast=kernel", "fast/*=kernel"):
        plan = planned(SMALL, [wish])
        require_sound(plan)
        assert set(levels(plan).values()) == {KERNEL, BOTH}


def test_the_last_wish_counts_and_the_command_line_comes_last() -> None:
    text = SMALL + "Place(* auto, fast/k native);"
    assert levels(planned(text, ()))["fast/k"] == NATIVE
    plan = planned(text, ["fast/*=kernel"])
    assert levels(plan)["fast/k"] == KERNEL
    assert why(planned(text, ()), "fast/k") == "so it is wished"


def test_places_in_a_compound_are_about_it() -> None:
    text = "elementclass In { $dev | FromDevice($dev, METHOD XDP) -> s :: Strip(1) -> output; Place(s kernel) }"
    plan = planned(text + "a :: In(a0); b :: In(b0); a -> d :: Discard; b -> s :: Strip(2) -> d", ())
    found = levels(plan)
    assert (found["a/s"], found["b/s"], found["s"]) == (KERNEL, KERNEL, NATIVE)
    outward = text.replace("Place(s kernel)", "Place(d kernel)")
    plan = planned(outward + "a :: In(a0); b :: In(b0); a -> d :: Discard; b -> d; Place(* auto)", ())
    assert levels(plan)["d"] == KERNEL
    with pytest.raises(MezzoError, match="no element has a name like `x`"):
        planned(text.replace("Place(s kernel)", "Place(x kernel)") + "a :: In(a0); a -> Discard", ())


def test_kernel_that_cannot_be_is_an_error_with_the_line() -> None:
    with pytest.raises(MezzoError) as error:
        planned("FromDevice(a0, METHOD XDP) -> t :: Tee -> Discard; t[1] -> Discard; Place(t kernel)", ())
    text = str(error.value)
    assert "`t` cannot be in the kernel: it makes packets" in text and "clone()" in text and "kernel?" in text
    assert "wished by `t=kernel`" in text
    plan = planned("FromDevice(a0, METHOD XDP) -> t :: Tee -> Discard; t[1] -> Discard; Place(t kernel?)", ())
    assert levels(plan)["t"] == NATIVE


def test_what_has_no_ports_is_nowhere() -> None:
    text = "AddressInfo(x 1.2.3.4); FromDevice(a0, METHOD XDP) -> c :: Counter -> Discard; Place(* kernel)"
    plan = planned(text, ())
    assert levels(plan)["c"] == KERNEL and levels(plan)["Place@5"] == NATIVE


def test_several_that_cannot_be_come_together() -> None:
    text = "FromDevice(a0, METHOD XDP) -> t :: Tee -> c :: Counter -> Discard; t[1] -> Discard"
    with pytest.raises(MezzoError) as error:
        planned(text, ["*=kernel"])
    messages = [d.message for d in error.value.diagnostics]
    assert any("`c` cannot be in the kernel: packets come to it from `t`" in m for m in messages) and len(messages) > 2


@pytest.mark.parametrize("text", ["", "x=fpga", "=kernel", "x", "x=", "kernel=x"])
def test_what_is_no_wish(text: str) -> None:
    with pytest.raises(MezzoError, match="no wish for a place"):
        parse_wish(text)


def test_wishes_as_they_are_written() -> None:
    written = ("auto", "a/*=KERNEL", " x = kernel? ")
    assert [str(parse_wish(text)) for text in written] == ["auto", "a/*=kernel", "x=kernel?"]


def test_a_pattern_that_nothing_has() -> None:
    with pytest.raises(MezzoError, match=r"(?s)no element has a name like `fats/s`.*did you mean `fast/s`"):
        planned(SMALL, ["fats/s=kernel"])
    with pytest.raises(MezzoError, match="expected PATTERN LEVEL"):
        planned("Place(x); Idle -> x :: Discard", ())
    with pytest.raises(MezzoError, match="expected PATTERN LEVEL"):
        planned("Place(x metal); Idle -> x :: Discard", ())


# -- devices


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (("TRACE x.pcap", ""), "TRACE sees packets natively"),
        (("FAULT drop 5", ""), "FAULT sees packets natively"),
        (("RATE 1Mbps", ""), "RATE sees packets natively"),
        (("SNAPLEN 60", ""), "SNAPLEN is done natively"),
        (("FORCE_IP true", ""), "FORCE_IP is done natively"),
        (("HEADROOM 300", ""), "HEADROOM above 128"),
        (("TAKE 2048", ""), "TAKE is done natively"),
        (("METHOD MEMORY", ""), "its METHOD is MEMORY"),
        (("", "BQL true"), "BQL counts"),
        (("", "RATE 1Mbps"), "RATE sees"),
        (("", "METHOD MEMORY"), "its METHOD is MEMORY"),
    ],
)
def test_ends_that_have_no_kernel_half(ends: tuple[str, str], said: str) -> None:
    first, last = (e if "METHOD" in e else ", ".join(filter(None, ["METHOD XDP", e])) for e in ends)
    plan = planned(f"f :: FromDevice(a0, {first}) -> c :: Counter -> q :: Queue -> t :: ToDevice(b0, {last})")
    name = "f" if ends[0] else "t"
    assert levels(plan)[name] == NATIVE and said in why(plan, name)
    assert plan.placement is not None and plan.placement.kernel is None  # nothing is worth it then
    if name == "t":
        assert said in why(plan, "q")


def test_two_that_read_one_device_have_no_half() -> None:
    text = "a :: FromDevice(a0, METHOD XDP) -> d :: Discard; b :: FromDevice(a0, METHOD XDP, QUEUE 1) -> d"
    plan = planned(text)
    assert "reads another queue" in why(plan, "a") and "`a` reads another queue" in why(plan, "b")


def test_a_virtual_clock_has_no_devices() -> None:
    assert "virtual clock" in why(planned(SMALL, virtual=True), "FromDevice@1")


# -- queues


def queued(queue: str, between: str = "", place: Any = "auto") -> Plan:
    text = f"c :: Counter -> q :: {queue} {between} -> t :: ToDevice(b0, METHOD XDP)"
    return planned(f"FromDevice(a0, METHOD XDP) -> {text}", place)


@pytest.mark.parametrize("queue", ["Queue", "Queue(5)", "SimpleQueue", "FullNoteQueue"])
def test_the_devices_own_queue_stands_in(queue: str) -> None:
    plan = queued(queue)
    require_sound(plan)
    assert levels(plan)["q"] == BOTH and why(plan, "q").startswith("the device's own queue")
    kernel = kernel_of(plan)
    c, q, t = (plan.program.index(name) for name in "cqt")
    assert kernel.program.instances[c].outputs == ((t, 0),) and plan.program.instances[c].outputs == ((q, 0),)
    assert q not in kernel.placed and kernel.ups == ()


@pytest.mark.parametrize(
    ("queue", "between", "said"),
    [
        ("FrontDropQueue", "", "FrontDropQueue decides which packets it keeps"),
        ("Queue", "-> Shaper(100)", "`Shaper@4` pulls from it, which is no device"),
        ("Queue", "-> Unqueue -> Queue", "pulls from it"),
    ],
)
def test_queues_that_do_more(queue: str, between: str, said: str) -> None:
    plan = queued(queue, between)
    assert levels(plan)["q"] == NATIVE and said in why(plan, "q")


def test_a_queue_that_tells_what_it_drops() -> None:
    plan = planned("FromDevice(a0, METHOD XDP) -> q :: Queue -> ToDevice(b0, METHOD XDP); q[1] -> Discard")
    assert levels(plan)["q"] == NATIVE and "output 1 gets what finds it full" in why(plan, "q")


def test_what_counts_between_queue_and_device_comes_along() -> None:
    plan = planned("FromDevice(a0, METHOD XDP) -> q :: Queue -> n :: Counter -> t :: ToDevice(b0, METHOD XDP)")
    require_sound(plan)
    assert levels(plan)["n"] == KERNEL
    kernel = kernel_of(plan)
    n, t = (plan.program.index(name) for name in "nt")
    assert kernel.program.instances[n].outputs == ((t, 0),)
    counted = planned(SMALL, counted=True)
    require_sound(counted)
    edges = {name for name in counted.edges if counted.program.index(name) in kernel_of(counted).placed}
    assert len(edges) == len(counted.edges) == 5


def test_native_that_is_wished_for_a_queue_or_its_device() -> None:
    for wish in ("q=native", "t=native"):
        plan = queued("Queue", place=["c=kernel", wish])
        require_sound(plan)
        kernel = kernel_of(plan)
        assert kernel.wires == {} and [name_of(plan, i) for i, _ in kernel.ups] == ["q"]


def test_elements_that_are_compiled_again_take_in_what_comes_up_now() -> None:
    plan = planned(SMALL)
    graph, made = plan.graph, {e.name: e for e in plan.elements[1:]}
    assert made["FromDevice@1"].up and len(plan.program.instances[1].outputs) > 1
    again = compile_graph(graph, made=made, place=["auto", "FromDevice@1=native"])
    assert again.placement is not None and again.placement.kernel is None and not made["FromDevice@1"].up
    assert again.program.instances[1].unit.digest != plan.program.instances[1].unit.digest


# -- several CPUs

SWITCHED = "FromDevice(a0, METHOD XDP) -> r :: RoundRobinSwitch -> a :: Queue -> ToDevice(b0, METHOD XDP); r[1] -> a;"


def test_one_cpu_at_a_time_may_set_what_it_reads(interfaces: dict[str, int]) -> None:
    assert levels(planned(SWITCHED))["r"] == KERNEL
    interfaces["a0"] = 2
    plan = planned(SWITCHED)
    assert levels(plan)["r"] == NATIVE and "it changes `next`, which it also reads" in why(plan, "r")


def test_two_inputs_are_two_cpus() -> None:
    plan = planned(SWITCHED + "FromDevice(c0, METHOD XDP) -> r")
    assert levels(plan)["r"] == NATIVE and plan.placement is not None and plan.placement.kernel is None


def test_native_code_is_another_cpu() -> None:
    plan = planned(SWITCHED + "RatedSource -> r")
    assert levels(plan)["r"] == NATIVE


def test_only_the_ways_that_race_go_up(interfaces: dict[str, int]) -> None:
    text = "FromDevice(a0, METHOD XDP) -> k :: RemembersSevens -> Queue -> ToDevice(b0, METHOD XDP)"
    assert levels(planned(text))["k"] == KERNEL
    interfaces["a0"] = 4
    plan = planned(text)
    require_sound(plan)
    assert levels(plan)["k"] == BOTH and "`last`" in why(plan, "k")


def test_counts_in_an_array_do_not_race(interfaces: dict[str, int]) -> None:
    interfaces["a0"] = 4
    plan = planned("FromDevice(a0, METHOD XDP) -> k :: CheckIPHeader -> Queue -> ToDevice(b0, METHOD XDP)")
    assert levels(plan)["k"] == KERNEL


def test_what_does_no_harm_is_said_by_the_class(interfaces: dict[str, int]) -> None:
    interfaces["a0"] = 2
    text = """FromDevice(a0, METHOD XDP) -> [0] s :: EtherSwitch; FromDevice(b0, METHOD XDP) -> [1] s;
        s[0] -> Queue -> ToDevice(a0, METHOD XDP); s[1] -> Queue -> ToDevice(b0, METHOD XDP);"""
    plan = planned(text)
    require_sound(plan)
    assert levels(plan)["s"] == BOTH
    assert {(name_of(plan, i), port) for i, port in kernel_of(plan).ups} == {("s", 0), ("s", 1)}


# -- what is worth it


def test_an_input_whose_packets_all_go_up_is_native() -> None:
    plan = planned("FromDevice(a0, METHOD XDP) -> Strip(14) -> Counter -> t :: Tee -> Discard; t[1] -> Discard")
    assert set(levels(plan).values()) == {NATIVE} and "goes up behind it" in why(plan, "FromDevice@1")


def test_a_filter_is_worth_it_by_itself() -> None:
    plan = planned(
        "FromDevice(a0, METHOD XDP) -> IPFilter(allow udp, deny all) -> t :: Tee -> Discard; t[1] -> Discard"
    )
    require_sound(plan)
    assert [name_of(plan, i) for i in kernel_of(plan).placed] == ["FromDevice@1", "IPFilter@2"]


def test_what_is_asked_for_by_name_need_not_be_worth_it() -> None:
    text = "FromDevice(a0, METHOD XDP) -> s :: Strip(14) -> t :: Tee -> Discard; t[1] -> Discard"
    plan = planned(text, ["s=kernel"])
    require_sound(plan)
    assert (levels(plan)["s"], kernel_of(plan).ups) == (KERNEL, ((plan.program.index("t"), 0),))


def test_a_long_way_goes_when_it_is_asked_for() -> None:
    plan = planned(ROUTER.read_text(), ["auto", "*/options=kernel"], variables=DEVICES)
    require_sound(plan)
    assert levels(plan)["to0/options"] == KERNEL


def test_a_circle_goes_up_where_it_closes() -> None:
    text = """FromDevice(a0, METHOD XDP) -> s :: Strip(1) -> k :: CheckLength(100) -> Queue -> ToDevice(b0, METHOD XDP);
        k[1] -> x :: Strip(2) -> s; Place(* kernel?)"""
    plan = planned(text, ())
    require_sound(plan)
    assert levels(plan)["x"] == KERNEL and "loop@1" in {name_of(plan, i) for i, _ in kernel_of(plan).ups}


# -- order within a flow

CUT = """f :: FromDevice(a, METHOD XDP) -> k :: Classifier(12/0800, 12/0806, -) -> q :: Queue
    -> ToDevice(b, METHOD XDP);
k[2] -> Discard; k[1] -> wait :: Queue -> Unqueue -> """


def order_of_flows(plan: Plan) -> tuple[bool, bool, str]:
    kernel = kernel_of(plan)
    assert plan.placement is not None
    return kernel.ordered, kernel.overtaken, plan.placement.order


@pytest.mark.parametrize(
    ("text", "overtaken"),
    [
        (CUT + "q;", True),
        (CUT + "Discard;", False),
        (CUT + "Queue -> ToDevice(c, METHOD XDP);", False),
        (CUT + "Queue -> ToDevice(b, METHOD PACKET);", True),
        (CUT + "Queue -> ToDevice(c, METHOD XDP); g :: FromDevice(c, METHOD XDP) -> Queue -> ToDevice(c);", True),
    ],
)
def test_order_needs_care_where_what_goes_up_meets_a_wire(text: str, overtaken: bool) -> None:
    ordered, found, said = order_of_flows(planned(text))
    assert (ordered, found) == (True, overtaken)
    assert said.startswith("packets go up while others" if overtaken else "nothing that goes up comes to where")


def test_whoever_starts_a_router_has_the_last_word_about_order() -> None:
    text, loose, strict = CUT + "q;", "Place(ORDER loose);", "ORDER=strict"
    assert "may overtake those that are up on their way to b" in order_of_flows(planned(text + loose))[2]
    assert [order_of_flows(planned(text + more, place))[0] for more, place in (
        ("", ["auto", "ORDER=loose"]), (loose, ["auto", strict]), (loose, ["auto", "ORDER=loose", strict]),
        (loose + "Place(ORDER strict);", "auto"),
    )] == [False, True, True, True]  # fmt: skip


@pytest.mark.parametrize(("more", "place"), [("Place(ORDER sloppy);", "auto"), ("", ["auto", "ORDER=sloppy"])])
def test_an_order_that_there_is_not_is_an_error(more: str, place: Any) -> None:
    with pytest.raises(MezzoError, match=r"strict,? or loose|no such order"):
        planned(CUT + "q;" + more, place)


def test_where_packets_may_go_up_behind_others_native_code_counts_as_a_cpu() -> None:
    """Natively all may come to where it would not else."""
    text = CUT.replace("-> q ::", "-> s :: RoundRobinSwitch -> q ::") + "q; s[1] -> q;"
    assert levels(planned(text))["s"] == NATIVE
    assert levels(planned(text, ["auto", "ORDER=loose"]))["s"] == KERNEL
