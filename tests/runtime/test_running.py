"""Runs that are disturbed: a second run, a close, exceptions of callbacks.  Nothing crashes, and no packet is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Element, Packet, Port, library, python
from mezzo.runtime import Router

ENDLESS = "InfiniteSource -> c :: Counter -> Discard;"
targets = pytest.mark.parametrize("target", ["python", "native"])


@targets
def test_a_running_router_is_neither_closed_nor_run_again(target):
    found = []

    def until():
        for act in (router.close, router.run):
            try:
                act()
            except MezzoError as trouble:
                found.append(str(trouble))
        return True

    with Router.from_click(ENDLESS, target=target) as router:
        assert router.run(until=until) == "until"
    assert "please_stop" in found[0] and "runs already" in found[1]


@targets
def test_another_thread_cannot_close_it_under_the_loop(target):
    router, running = Router.from_click(ENDLESS, target=target), threading.Event()

    def until():
        running.set()
        return False

    thread = threading.Thread(target=lambda: router.run(until=until))
    thread.start()
    assert running.wait(10)
    with pytest.raises(MezzoError, match="please_stop"):
        router.close()
    router.please_stop()
    thread.join()
    router.close()


@pytest.mark.parametrize("ask", [Router.run, Router.drops])
def test_a_closed_router_says_so(ask):
    router = Router.from_click(ENDLESS, target="python")
    router.close()
    with pytest.raises(MezzoError, match="closed"):
        ask(router)


class Raises(Element):
    """Passes packets on; its Python method fails at the first."""

    seen = 0

    def process(self, p: Packet) -> Port:
        self.look(p)
        return 0

    @python
    def look(self, p: Packet) -> None:
        self.seen += 1
        if self.seen == 1:
            raise RuntimeError("a method's own trouble")


@targets
def test_what_a_method_raises_ends_that_run_and_loses_no_packet(target):
    library.register(Raises)
    text = "InfiniteSource(LIMIT 3) -> Raises -> Queue -> c :: Counter -> Discard;"
    with Router.from_click(text, target=target, virtual=True) as router:
        with pytest.raises(RuntimeError, match="own trouble"):
            router.run()
        assert router.run() == "done"
        assert router.read("c.count") == "3"


@targets
def test_what_a_tracer_raises_loses_no_packet(target):
    def trace(element, port, packet):
        raise RuntimeError("no pen")

    text = "InfiniteSource(LIMIT 3) -> Discard;"
    made = Router.from_click(text, target=target, trace=trace, virtual=True)
    with made as router, pytest.raises(RuntimeError, match="no pen"):
        router.run()


def test_packets_go_home_when_their_taker_fails():
    with Router.from_click("in0 :: Feed -> out0 :: Collect;", target="python", virtual=True) as router:
        router.feed("in0", [b"a", b"b"])
        router.run()
        with pytest.raises(ZeroDivisionError):
            router.collect_packets("out0", lambda packet: 1 // 0)
        assert router.collect("out0") == [b"b"]


def test_what_an_element_refuses_at_the_start_has_its_place(tmp_path):
    file = tmp_path / "missing" / "x"
    with pytest.raises(MezzoError, match=rf"config:2:6: dump :: ToDump: cannot write `{file}`"):
        Router.from_click(f"Idle\n  -> dump :: ToDump({file});", target="python")


@pytest.mark.parametrize("target", ["python", "native"])
def test_a_virtual_clock_that_cannot_move_is_said(target, monkeypatch):
    monkeypatch.setattr("mezzo.runtime.router.STANDSTILL", 1000)
    router = Router.from_click("s :: InfiniteSource -> Discard;", target=target, virtual=True)
    with router, pytest.raises(MezzoError, match="the virtual clock stands still: `s` is always busy"):
        router.run(seconds=1)


def test_who_runs_it_is_known_before_packet_code_is_called() -> None:
    """Else another thread would take a call that is under way for one of its own, and a change for due."""
    with Router.from_click("InfiniteSource(LIMIT 3) -> Discard;") as router:
        runners: list[int | None] = []
        call = router.engine.call

        def spied(*what: Any) -> Any:
            runners.append(router.runner)
            return call(*what)

        router.engine.call = spied
        router.run()
        assert runners and set(runners) == {threading.get_ident()}
        assert router.runner is None
