"""Who touches what on which thread, and what that makes of each instance."""

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Element, Packet, Port, library, python
from mezzo.pipeline import compile_text
from mezzo.pipeline.threads import described


def modes(text: str, threads: int = 2) -> dict[str, str]:
    plan = compile_text(text, threads=threads)
    assert plan.threading is not None
    return {name: mode for name, _, mode, _ in described(plan.program, plan.threading)}


def reason(text: str, name: str, threads: int = 2) -> str:
    plan = compile_text(text, threads=threads)
    assert plan.threading is not None
    return next(why for n, _, _, why in described(plan.program, plan.threading) if n == name)


TWO = "StaticThreadSched(s 0, u 1); s :: InfiniteSource -> q :: Queue -> u :: Unqueue -> d :: Discard;"


def test_a_queue_with_one_thread_on_each_side_needs_no_lock() -> None:
    found = modes(TWO)
    assert found["q"] == "spsc"
    assert {found["s"], found["u"], found["d"]} == {"plain"}
    assert reason(TWO, "q") == "ring: pushed by thread 0, popped by 1"


def test_one_thread_at_both_ends_is_plain() -> None:
    assert modes(TWO.replace("u 1", "u 0"))["q"] == "plain"


def test_several_producers_are_guarded() -> None:
    text = "StaticThreadSched(a 0, b 1, u 2); a, b :: InfiniteSource; a, b -> q :: Queue -> u :: Unqueue -> Discard;"
    assert modes(text, 3)["q"] == "guarded"
    assert reason(text, "q", 3) == "ring: pushed by threads 0, 1"


def test_several_consumers_are_guarded() -> None:
    text = "StaticThreadSched(s 0, u 1, v 2); s :: InfiniteSource -> q :: Queue; "
    text += "q -> u :: Unqueue -> Discard; q -> v :: Unqueue -> Discard;"
    assert modes(text, 3)["q"] == "guarded"
    assert reason(text, "q", 3) == "ring: popped by threads 1, 2"


def test_what_is_only_added_to_is_counted_atomically() -> None:
    text = "StaticThreadSched(a 0, b 1); a, b :: InfiniteSource; a, b -> c :: Counter -> Discard;"
    assert modes(text)["c"] == "counting"
    assert "count: added to by threads 0, 1" in reason(text, "c")


def test_state_that_is_read_and_written_by_several_is_guarded() -> None:
    text = "StaticThreadSched(a 0, b 1); a, b :: InfiniteSource; a, b -> s :: RoundRobinSwitch; s[0], s[1] -> Discard;"
    assert modes(text)["s"] == "guarded"
    assert "changed by threads 0, 1" in reason(text, "s")


def test_front_drop_queues_pop_on_both_sides() -> None:
    assert modes(TWO.replace("Queue ", "FrontDropQueue "))["q"] == "guarded"


def test_tasks_take_turns_where_nobody_says_otherwise() -> None:
    text = "a :: InfiniteSource -> Discard; b :: InfiniteSource -> Discard; c :: InfiniteSource -> Discard;"
    plan = compile_text(text, threads=2)
    assert plan.threading is not None
    assert plan.threading.tasks == (0, 1, 0)


@library.register
class IsPython(Element):
    """Python sees every packet."""

    @python
    def process(self, p):
        return 0


@library.register
class CallsPython(Element):
    """Packet code that may call Python."""

    def process(self, p: Packet) -> Port:
        if p.length == 0:
            self.warn_of(p)
        return 0

    @python
    def warn_of(self, p):
        self.say("an empty packet")


def test_what_is_python_stays_on_thread_0() -> None:
    plan = compile_text("StaticThreadSched(s 1); s :: InfiniteSource -> p :: IsPython -> Discard;", threads=2)
    assert plan.threading is not None
    assert plan.threading.tasks == (0,)
    assert "`s` runs on thread 0, not 1: its packets meet `p`, which is Python" in plan.warnings[0].message
    plan = compile_text("StaticThreadSched(s 1); s :: InfiniteSource -> p :: CallsPython -> Discard;", threads=2)
    assert plan.threading is not None
    assert plan.threading.tasks == (1,)


def test_compounds_stand_for_what_is_in_them() -> None:
    text = "StaticThreadSched(x 1); x :: { s :: InfiniteSource -> Discard; }; y :: InfiniteSource -> Discard;"
    plan = compile_text(text, threads=2)
    assert plan.threading is not None
    names = [plan.program.instances[i].name for i in plan.program.tasks]
    assert dict(zip(names, plan.threading.tasks, strict=True)) == {"x/s": 1, "y": 0}


def test_an_element_has_one_thread_and_its_own_name_says_more_than_a_compounds() -> None:
    text = "x :: { s :: InfiniteSource -> Discard; t :: InfiniteSource -> Discard; };\n"
    plan = compile_text(text + "StaticThreadSched(x/s 0, x 1);", threads=2)
    assert plan.threading is not None and plan.threading.tasks == (0, 1)
    with pytest.raises(MezzoError) as refused:
        compile_text(text + "StaticThreadSched(x 1, x/s 0);\nStaticThreadSched(x/s 1, x/z 0, x/s 1);", threads=2)
    clash, unknown, again = refused.value.diagnostics
    assert clash.message.endswith("`x/s` is to run on thread 1") and (clash.span.line, clash.span.column) == (3, 19)
    assert clash.notes[0].message == "thread 0 is said here" and clash.notes[0].span.column == 24
    assert unknown.message.endswith("there is no element `x/z`") and unknown.span.column == 26
    assert again.span.column == 33


def test_threads_that_are_not_there_are_told() -> None:
    plan = compile_text(TWO, threads=1)
    assert "no thread 1: `u` runs on thread 0" in plan.warnings[0].message
    with pytest.raises(MezzoError, match="there is no element `nobody`"):
        compile_text("StaticThreadSched(nobody 0); InfiniteSource -> Discard;", threads=2)
    with pytest.raises(MezzoError, match="expected ELEMENT THREAD"):
        compile_text("StaticThreadSched(s); s :: InfiniteSource -> Discard;", threads=2)


def test_a_virtual_clock_has_one_thread() -> None:
    with pytest.raises(MezzoError, match="a virtual clock has one thread, not 2"):
        compile_text(TWO, virtual=True, threads=2)
    with pytest.raises(MezzoError, match="give 1 to 64"):
        compile_text(TWO, threads=0)


def test_polled_are_tasks_that_others_can_wake() -> None:
    plan = compile_text(TWO, threads=2)
    assert plan.threading is not None
    number = {plan.program.instances[i].name: t for t, i in enumerate(plan.program.tasks)}
    assert plan.threading.polled == ((number["s"],), (number["u"],))
