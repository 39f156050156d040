"""FlowCache: what a flow is, which are known, and that tables that forget live through a reload and with threads."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from typing import Any

import pytest

from mezzo.runtime import Router
from mezzo.targets.kernel.layout import lru_entries
from tests.elements.ip_packets import ip, tcp, udp
from tests.ports.netlab import inside, namespace, raw_socket, veth_pair

TEXT = """in0 :: Feed -> MarkIPHeader -> f :: FlowCache({}); f[0] -> out0 :: Collect; f[1] -> out1 :: Collect;"""
BOTH = pytest.mark.parametrize("target", ["python", "native"])


def packet(flow: int) -> bytes:
    return ip(udp(ports=(1000 + flow, 53)))


def test_what_a_flow_is(vectors: Any) -> None:
    """Each stands for itself, whichever way it differs; the second time it is known."""
    other = [
        ip(udp(ports=(1, 2))), ip(udp(ports=(2, 1))), ip(udp(ports=(1, 3))), ip(tcp(), proto=6), ip(tcp(), proto=132),
        ip(udp(), src="10.0.0.2", dst="10.0.0.1"), ip(udp(), dst="10.0.0.3"), ip(b"\0\0\0\0\0\0\0\0", proto=1),
        ip(b"\0\1\0\5", proto=33), ip(b"\0\1\0\6", proto=136), ip(b"", proto=6),
    ]  # fmt: skip
    same = [
        ip(udp(b"more", ports=(1, 2)), ttl=3, tos=4, ident=9), ip(udp(ports=(1, 2)), options=b"\1" * 8),
        ip(udp(b"x" * 24, ports=(1, 2)), frag=0x2000),  # the first fragment has ports
        ip(b"\1\2\3\4\5\6\7\0", proto=1),
        ip(b"\0\1", proto=6),  # as much as nothing
    ]  # fmt: skip
    tail, tails = ip(b"1234567890123456", frag=0x2003), [ip(udp(ports=(7, 7)), frag=3), ip(b"", proto=17)]
    vectors(
        TEXT.format(100),
        give={"in0": [*other, *same, *other, tail, *tails]},
        want={"out0": [*same, *other, *tails], "out1": [*other, tail]},
        reads={"f.hits": str(len([*same, *other, *tails])), "f.misses": "12", "f.flows": "12", "f.forgotten": "0"},
        drops={},
    )


@BOTH
@pytest.mark.parametrize("capacity", [1, 2, 3, 8])
def test_the_one_that_was_quiet_longest_goes(target: str, capacity: int) -> None:
    dice, known, forgotten = random.Random(capacity), OrderedDict[int, None](), 0
    flows = [dice.randrange(12) if dice.random() < 0.5 else dice.randrange(3) for _ in range(400)]
    with Router.from_click(TEXT.format(capacity), target=target, virtual=True) as router:
        for flow in flows:
            new = flow not in known
            known[flow] = known.pop(flow, None)
            if len(known) > capacity:
                known.popitem(last=False)
                forgotten += 1
            router.feed("in0", [packet(flow)])
            router.run()
            assert [len(router.collect(name)) for name in ("out0", "out1")] == [not new, new]
            assert (router.read("f.flows"), router.read("f.forgotten")) == (str(len(known)), str(forgotten))
        router.write("f.clear", "")
        assert (router.read("f.flows"), router.read("f.forgotten")) == ("0", str(forgotten))


@pytest.mark.needs_root
def test_the_kernel_forgets_too_late_rather_than_too_early() -> None:
    with Router.from_click(TEXT.format(50), target="kernel", virtual=True, frames=4096) as router:
        for turn in range(2):
            router.feed("in0", [packet(flow) for flow in range(50)])
            router.run()
            assert router.read("f.misses") == "50" and router.read("f.hits") == str(50 * turn)
        router.feed("in0", [packet(flow) for flow in range(50, 1050)])
        router.run()
        flows, forgotten = int(router.read("f.flows")), int(router.read("f.forgotten"))
        assert flows + forgotten == 1050 and 50 <= flows <= lru_entries(50)
        router.feed("in0", [packet(1049)])
        router.run()
        assert router.read("f.hits") == "51"


@BOTH
def test_a_reload_keeps_what_there_is_room_for(target: str) -> None:
    with Router.from_click(TEXT.format(4), target=target, virtual=True) as router:
        order = [1, 2, 3, 4, 5, 2]
        router.feed("in0", [packet(flow) for flow in order])
        router.run()
        for capacity, known, forgotten in [(4, [3, 4, 5, 2], 1), (9, [3, 4, 5, 2], 1), (2, [5, 2], 3)]:
            router.reload(TEXT.format(capacity).replace("f[1] ->", f"f[1] -> c{capacity} :: Counter ->"))
            assert (router.read("f.flows"), router.read("f.forgotten")) == (str(len(known)), str(forgotten))
            assert router.read("f.misses") == "5"
            told = router.elements["f"].known.dump()[1]
            assert [(key >> 24 & 0xFFFF) - 1000 for key, _ in told] == known


def test_threads_share_it() -> None:
    """Two tasks meet in it: it is locked, and no flow is new twice."""
    text = """
    m :: MarkIPHeader -> f :: FlowCache(2); f[0] -> Discard; f[1] -> Discard;
    a :: InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 20000) -> m;
    b :: InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 20000) -> m;
    StaticThreadSched(a 0, b 1);"""
    with Router.from_click(text, target="native", threads=2) as router:
        router.run(seconds=60)
        assert (router.read("f.hits"), router.read("f.misses"), router.read("f.flows")) == ("39999", "1", "1")


WIRE = """FromDevice({}, METHOD XDP, PROMISC true) -> Strip(14) -> MarkIPHeader -> f :: FlowCache({}) {} -> Discard;
f[1] -> new :: Counter -> Discard; Place({}, * auto)"""


@pytest.mark.needs_root
@pytest.mark.slow
def test_it_lives_on_between_levels() -> None:
    """Known flows stay known when another part takes the place of a part, when it has another size, and when the
    element goes to native code and back."""
    turns = [(100, "", "f kernel"), (100, "-> Paint(1)", "f kernel"), (90, "", "f kernel"), (90, "", "f native"),
             (100, "", "f kernel")]  # fmt: skip
    with namespace() as a, namespace() as b, veth_pair(a, b) as pair, raw_socket(pair.b, receive=False) as wire:
        texts = [WIRE.format(pair.a.name, *turn) for turn in turns]
        with inside(pair.a.ns), Router.from_click(texts[0], place="auto", frames=4096) as router:
            router.run(rounds=1)
            runner = threading.Thread(target=router.run)
            runner.start()
            try:
                for turn, text in enumerate(texts):
                    if turn:
                        router.reload(text)
                    for flow in range(10 * (turn + 1)):
                        wire.send(b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + packet(flow) + bytes(18))
                    want = str(10 * (turn + 1))
                    for _ in range(100):
                        if router.read("f.misses") == want:
                            break
                        threading.Event().wait(0.05)
                    found = router.read("f.misses"), router.read("f.flows"), router.read("f.forgotten")
                    assert found == (want, want, "0"), turn
            finally:
                router.please_stop()
                runner.join()
