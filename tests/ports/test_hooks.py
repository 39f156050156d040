"""Trace, fault and rate around a port: reproducible, conserving, the same on both targets, and no code when off."""

from __future__ import annotations

import pytest

from mezzo.elements import Discard, FromDevice, Queue, ToDevice
from mezzo.packet.capture import open_capture
from mezzo.pipeline import compile_text
from mezzo.ports import Fault, MemoryPort, Rate, Trace
from mezzo.runtime import Router
from tests.ports.test_memory import frame


@pytest.fixture(params=["python", "native"])
def target(request):
    return request.param


def through(target, count=500, **faults):
    """What comes out of a receiving end with these faults, and what it says of them."""
    port = Fault(MemoryPort(slots=1024), **faults)
    got: list[bytes] = []

    def look(element, number, packet):
        if element.name == "d":
            got.append(bytes(packet))

    with Router.from_elements(
        FromDevice(port, name="f") >> Discard(name="d"), target=target, trace=look, virtual=True
    ) as router:
        given = [frame(k) for k in range(count)]
        assert port.give(given) == count
        assert router.run() == "done"
        assert router.conservation().balanced
        told = dict(line.split("\t") for line in router.read("f.faults").splitlines())
    return given, got, {k: int(v) for k, v in told.items()}


def test_drop(target):
    given, got, told = through(target, drop_pct=20, seed=3)
    assert len(got) == len(given) - told["dropped"]
    assert 60 <= told["dropped"] <= 140
    assert [p for p in given if p in set(got)] == got


def test_duplicates_are_equal_and_follow(target):
    given, got, told = through(target, duplicate_pct=10, seed=3)
    assert len(got) == len(given) + told["duplicated"]
    assert 20 <= told["duplicated"] <= 90
    assert sorted(set(got)) == sorted(given)


def test_corruption_turns_one_bit(target):
    given, got, told = through(target, corrupt_pct=10, seed=3)
    changed = [(a, b) for a, b in zip(given, got, strict=True) if a != b]
    assert len(changed) == told["corrupted"] > 0
    for a, b in changed:
        assert (int.from_bytes(a) ^ int.from_bytes(b)).bit_count() == 1


def test_reordering_swaps_neighbours_and_loses_nothing(target):
    given, got, told = through(target, reorder_pct=10, seed=3)
    assert sorted(got) == sorted(given) and got != given
    assert told["reordered"] > 0
    assert all(abs(given.index(p) - k) <= 2 for k, p in enumerate(got))


def test_delay_holds_packets_for_that_long(target):
    port = Fault(MemoryPort(), delay="10ms")
    with Router.from_elements(FromDevice(port) >> Discard(name="d"), target=target, virtual=True) as router:
        port.give([frame(k) for k in range(300)])
        start = router.now_ns
        router.run(seconds=0.009)
        assert router.read("d.count") == "0"
        assert router.conservation().balanced
        assert router.run() == "done"
        assert (router.read("d.count"), router.now_ns - start) == ("300", 10_000_000)


def test_the_same_seed_gives_the_same_run_on_every_target():
    faults = {"drop_pct": 5, "duplicate_pct": 5, "corrupt_pct": 5, "reorder_pct": 5, "seed": 11}
    runs = [through(t, **faults)[1] for t in ("python", "native", "native")]
    assert runs[0] == runs[1] == runs[2]
    assert through("native", **faults | {"seed": 12})[1] != runs[0]


def test_frames_held_by_faults_are_on_the_account_at_the_end(target):
    port = Fault(MemoryPort(), delay="1h")
    with Router.from_elements(FromDevice(port, name="f") >> Discard(), target=target, virtual=True) as router:
        port.give([frame(k) for k in range(20)])
        router.run(seconds=1)
        assert router.conservation().ports[port.name]["faults of f"] == 20


def test_faults_of_a_sender(target):
    port = Fault(MemoryPort(), drop_pct=20, duplicate_pct=10, reorder_pct=5, seed=5)
    graph = FromDevice(MemoryPort("in"), name="f") >> Queue() >> ToDevice(port, name="to")
    with Router.from_elements(graph, target=target, virtual=True) as router:
        given = [frame(k) for k in range(400)]
        router.ports["in"].give(given)
        router.run()
        got = port.take()
        told = dict(line.split("\t") for line in router.read("to.faults").splitlines())
        assert router.read("to.count") == "400"
        assert len(got) == 400 - int(told["dropped"]) + int(told["duplicated"])
        assert set(got) <= set(given)


def test_a_trace_shows_what_the_graph_sees_in_both_directions(target, tmp_path):
    port = Trace(Fault(MemoryPort(), drop_pct=50, seed=1), str(tmp_path / "x.pcap"))
    with Router.from_elements(FromDevice(port) >> Queue() >> ToDevice(port, name="to"), target=target) as router:
        port.give([frame(k) for k in range(100)])
        router.run()
        sent = int(router.read("to.count"))
    with open_capture(tmp_path / "x.pcap") as capture:
        records = [r.data for r in capture.records()]
    assert len(records) == 2 * sent
    assert sorted(set(records)) == sorted(records)[::2]


def test_a_trace_that_cannot_be_written_is_refused():
    with pytest.raises(Exception, match="cannot write the capture `/no/such/file`: No such"):
        Router.from_click("FromDevice(m, METHOD MEMORY, TRACE /no/such/file) -> Discard;").close()


def test_a_full_disk_ends_the_trace_and_not_the_router(target):
    text = "f :: FromDevice(m, METHOD MEMORY, TRACE /dev/full) -> c :: Counter -> Discard;"
    with pytest.raises(Exception, match="No space left"):
        Router.from_click(text, target=target).close()


@pytest.mark.parametrize("end", ["receive", "send"])
def test_rate_is_kept_and_loses_nothing(target, end):
    port = MemoryPort()
    other = Rate(MemoryPort("limited"), "8Mbps")  # a 1000-byte packet each ms
    source, sink = (other, port) if end == "receive" else (port, other)
    with Router.from_elements(
        FromDevice(source) >> Queue() >> ToDevice(sink, name="to"), target=target, virtual=True
    ) as r:
        source.give([frame(k, 1000) for k in range(500)])
        start, burst = r.now_ns, 20
        r.run(seconds=0.1)
        assert abs(int(r.read("to.count")) - (100 + burst)) <= 2
        assert r.run() == "done"
        assert r.read("to.count") == "500"
        assert abs(r.now_ns - start - (500 - burst) * 10**6) <= 2 * 10**6


def test_hooks_that_are_off_leave_no_code():
    def functions(more: str) -> set[str]:
        plan = compile_text(f"FromDevice(m, METHOD MEMORY{more}) -> Discard;")
        return {f.name for x in plan.whole().instances[1:] for f in x.unit.functions}

    hooks = {"fault_one", "trace_slot", "refill", "come_back"}
    assert not hooks & functions("")
    assert hooks <= functions(", FAULT drop 1, TRACE /dev/null, RATE 1Mbps")
