"""Ways up keep their numbers when a router takes another's place."""

from __future__ import annotations

from mezzo.pipeline import Plan, compile_text
from mezzo.pipeline.numbering import FREE, ways_of
from mezzo.targets.kernel.plan import GONE

HEAD = "f :: FromDevice(lo, METHOD XDP, PROMISC true) -> k :: Classifier(12/0800, 12/0806, 12/86DD, -);"


def compiled(ends: dict[int, str], more: str = "", before: Plan | None = None) -> Plan:
    """`ends`: by output of the classifier, a queue behind it, where packets go up; other outputs discard."""
    lines = [f"k[{n}] -> {ends[n]} :: Queue -> Discard;" if n in ends else f"k[{n}] -> Discard;" for n in range(4)]
    known = ways_of(before) if before is not None else ()
    return compile_text("\n".join([HEAD, *lines, more]), place=["auto", "k=kernel"], ways=known)


def ups(plan: Plan) -> list[str]:
    """Where each number leads: the element, and that the device's output behind its own two does lead there."""
    assert plan.placement is not None and plan.placement.kernel is not None
    kernel, names = plan.placement.kernel, [x.name for x in plan.program.instances]
    outputs = plan.program.instances[names.index("f")].outputs[2:]
    assert list(outputs) == [None if to == GONE else to for to in kernel.ups]
    assert all(kernel.ups[n] == plan.program.instances[i].outputs[port] for (i, port), n in kernel.ways.items())
    return ["" if to == GONE else names[to[0]] for to in kernel.ups]


def test_what_stays_has_its_number_and_what_is_new_has_another() -> None:
    old = compiled({0: "a", 1: "b", 2: "c"})
    assert ups(old) == ["a", "b", "c"]
    new = compiled({0: "d", 1: "c", 3: "a"}, before=old)
    assert ups(new) == ["a", "", "c", "d"]
    assert ups(compiled({0: "a", 1: "b", 2: "c", 3: "d"}, before=new)) == ["a", "b", "c", "d"]


def test_a_way_that_programs_take_no_more_is_there_while_packets_may_wait() -> None:
    """In the second router packets of the old programs still go to `a`; to the third nobody sends any."""
    old, idle = compiled({0: "a", 1: "b"}), "Idle -> a :: Queue -> Discard;"
    new = compiled({1: "b"}, idle, old)
    assert ups(new) == ["a", "b"]
    assert ways_of(new) == (FREE, ("b", 0))
    assert ups(compiled({1: "b", 2: "c"}, idle, new)) == ["c", "b"]


def test_an_element_of_that_name_which_is_pulled_is_not_meant() -> None:
    old = compiled({0: "a", 1: "b"})
    assert ups(compiled({0: "a"}, "Idle -> Queue -> b :: Null -> Discard;", old)) == ["a", ""]


def test_a_router_without_a_part_has_none() -> None:
    assert ways_of(compile_text("Idle -> Discard;")) == ()
