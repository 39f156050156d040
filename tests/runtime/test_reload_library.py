"""Every class that has state is replaced halfway through its example, by itself and by one of another shape.

An element that takes over another's state must behave as if nothing had been: the example gives what it always gives.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mezzo.elements.element import Element
from mezzo.graph.diff import HAND_OVER, KEEP
from mezzo.runtime import Router
from mezzo.runtime.reload import Reload, plan_like, what_to_do
from mezzo.tools._page import own_classes
from mezzo.tools.run import read_handler

ROOT = Path(__file__).parent.parent.parent
# Devices are opened anew, a timer that its configuration sets begins anew: the reloads are seen in what they count.
SEEN = {"ARPFaker", "AverageCounter", "FromDevice", "PollDevice", "StrideSched"}
CAPTURES = "examples/captures"


@pytest.fixture(autouse=True)
def _with_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")


def replace_all(router: Router, text: str) -> None:
    """A reload by the same text in which each element is another object."""
    plan = plan_like(router, text)
    actions = [replace(a, what=HAND_OVER) if a.what == KEEP else a for a in what_to_do(router.plan, plan)]
    Reload(router, plan, text, tuple(actions)).run()


@pytest.mark.parametrize("cls", [c for c in own_classes() if c.example and c.state_specs], ids=lambda c: c.__name__)
def test_what_takes_the_place_of_an_element_goes_on(cls: type[Element]) -> None:
    with Router.from_click(cls.example, target="python", virtual=True, frames=4096) as router:
        router.run(seconds=3600, rounds=2)
        router.reload(cls.example)
        assert router.conservation().balanced
        router.run(seconds=3600, rounds=1)
        replace_all(router, cls.example)
        assert router.conservation().balanced
        router.run(seconds=3600, rounds=200_000)
        assert router.conservation().balanced
        found = {path: read_handler(router, path) for path in cls.example_reads}
    assert cls.__name__ in SEEN or found == cls.example_reads


def change(target: str, before: str, after: str, reads: Sequence[str], rounds: int = 40) -> list[str]:
    """Runs one configuration, then another; what handlers say at the end."""
    with Router.from_click(before, target=target, virtual=True, frames=4096) as router:
        router.run(seconds=5, rounds=rounds)
        router.reload(after)
        assert router.conservation().balanced
        router.run(seconds=50, rounds=2000)
        assert router.conservation().balanced
        return [router.read(path) for path in reads]


BOTH = pytest.mark.parametrize("target", ["python", "native"])


def sorted_inputs(inputs: int, buffer: int) -> str:
    sources = "".join(f"s{i} :: RatedSource -> q{i} :: Queue -> [{i}] t; " for i in range(inputs))
    return f"t :: TimeSortedSched(BUFFER {buffer}) -> c :: Counter -> Unqueue -> Discard; {sources}"


@BOTH
@pytest.mark.parametrize(("before", "after"), [((5, 8), (2, 1)), ((2, 1), (5, 8)), ((3, 2), (2, 3))])
def test_a_sorter_of_another_shape_sorts_on(target: str, before: tuple[int, int], after: tuple[int, int]) -> None:
    (count, well) = change(target, sorted_inputs(*before), sorted_inputs(*after), ["c.count", "t.well_ordered"])
    assert well == "true" and int(count) > 400


@BOTH
def test_a_smaller_reassembler_makes_packets_whole(target: str) -> None:
    text = """RatedSource(RATE 1000, LENGTH 200, LIMIT %d) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) -> IPFragmenter(60)
        -> %s r :: IPReassembler(HIMEM %d) -> Discard;"""
    lossy = "y :: RoundRobinSwitch(); y[1] -> Discard; y[0] -> "
    (whole, failed) = change(
        target, text % (20, lossy, 262144), text % (60, "", 4096), ["r.assembled", "r.failed"], 400
    )
    assert (whole, failed) == ("40", "0")


def bridge(size: int, ports: int, *sources: tuple[int, str]) -> str:
    data = "".join(f"RatedSource(DATA \\<{data}>) -> [{port}] s; " for port, data in sources)
    idle = "".join(f"Idle -> [{i}] s; " for i in range(ports) if i not in {port for port, _ in sources})
    out = "".join(f"s[{i}] -> c{i} :: Counter -> Discard; " for i in range(ports))
    return f"s :: EtherSwitch(CAPACITY {size}); {data}{idle}{out}"


@BOTH
def test_a_bridge_forgets_ports_that_went_and_knows_no_address_twice(target: str) -> None:
    first, third = (0, "000000000003 000000000001 0800"), (2, "000000000001 000000000003 0800")
    (table, count) = change(target, bridge(64, 3, first, third), bridge(64, 2, first), ["s.table", "c1.count"])
    assert table.split()[:2] == ["00:00:00:00:00:01", "0"] and len(table.splitlines()) == 1
    assert int(count) > 0  # to the address that is not known any more, by flooding
    [table] = change(target, bridge(4, 3, first, third), bridge(4096, 3, first, third), ["s.table"])
    assert len(table.splitlines()) == 2


@BOTH
def test_addresses_that_are_bad_no_more_get_errors(target: str) -> None:
    text = """RatedSource -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)
        -> e :: ICMPError(9.9.9.9, unreachable%s) -> c :: Counter -> Discard;"""
    [count] = change(target, text % ", BADADDRS 1.0.0.1", text % "", ["c.count"])
    assert int(count) > 0


def test_a_capture_is_read_on_and_another_from_its_start() -> None:
    text = "f :: FromDump(" + CAPTURES + "/eth%d-in.pcap, STOP true, SAMPLE %s) -> c :: Counter -> Discard;"
    for rounds in (2, 60):
        found = change("native", text % (0, "1"), text % (0, "0.9999999"), ["c.count"], rounds)
        assert found == ["253"]
    found = change("native", text.replace("STOP true, ", "") % (0, "1"), text % (1, "0.9999999"), ["c.count"])
    assert found == ["452"]


@pytest.mark.parametrize(
    "after", ["Counter -> Discard", "Counter -> Null -> Discard", "Print(ACTIVE false) -> Discard"]
)
@pytest.mark.parametrize("more", ["", ", STOP true"])
def test_a_capture_that_comes_by_a_pipe_is_read_on(tmp_path: Path, after: str, more: str) -> None:
    whole = (ROOT / CAPTURES / "eth0-in.pcap").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    half, both = threading.Event(), threading.Event()

    def write() -> None:
        with open(tmp_path / "pipe", "wb", buffering=0) as file:
            file.write(whole[:20_000])
            half.set()
            both.wait()
            file.write(whole[20_000:])

    writer = threading.Thread(target=write)
    writer.start()
    with Router.from_click(f"f :: FromDump({tmp_path}/pipe) -> Counter -> Discard;") as router:
        half.wait()
        while int(router.read("f.count")) < 100:
            router.run(rounds=100)
        router.reload(f"f :: FromDump({tmp_path}/pipe{more}) -> {after};")
        both.set()
        while int(router.read("f.count")) < 253:
            router.run(rounds=100)
        assert router.read("f.filepos") == str(len(whole))
    writer.join()
