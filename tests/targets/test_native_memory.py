"""What the assembly tells LLVM of memory: what a wake touches, and what a packet's way costs."""

from __future__ import annotations

import re

import pytest

from mezzo.packet.arena import Arena
from mezzo.pipeline import compile_text
from mezzo.targets.native.build import Code
from mezzo.targets.native.text import CHAIN, TAGS


@pytest.fixture(scope="module")
def functions() -> dict[str, str]:
    graph = "InfiniteSource(LIMIT 9) -> Queue -> Unqueue -> Counter -> Queue -> DelayUnqueue(1) -> Discard;"
    plan = compile_text(graph)
    arena = Arena(64)
    try:
        text = Code(plan.program, arena, False, True, plan.whole).assembly()
    finally:
        arena.close()
    return {m[1]: m[0] for m in re.finditer(r"^define [^@]*@([\w.]+)\(.*?^}", text, re.S | re.M)}


def test_the_scheduler_touches_one_class_and_nobody_else_does(functions):
    # A wake is called with that class: LLVM takes it that it changes nothing of another.
    tag = TAGS["tasks"].removeprefix(", ")
    for name, text in functions.items():
        tags = set(re.findall(r"(?:load|store) .*(!tbaa !\d+)", text))
        own = re.match(r"(door_)?[ui]0_|wake$|timer_set$|timer_clear$|now$", name)
        assert not tags or (tags == {tag} if own else tag not in tags), name


def test_wakes_and_timers_are_calls_of_that_class(functions):
    calls = re.findall(r"call fastcc void @(?:wake|timer_set|timer_clear)\(.*", "\n".join(functions.values()))
    assert len(calls) > 2
    assert all(call.endswith(TAGS["tasks"]) for call in calls)


def test_a_pushed_packet_comes_with_its_places_and_nobody_saves_registers(functions):
    pushes = [text.partition("\n")[0] for name, text in functions.items() if re.match(r"push\d+$", name)]
    assert len(pushes) > 2
    assert all(CHAIN in head and "i64 %meta, i64 %frame" in head for head in pushes)
