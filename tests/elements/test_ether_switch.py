"""EtherSwitch: learning, moves, groups, time, tags, short frames, a full table."""

from __future__ import annotations

from typing import Any

import pytest

A, B, C = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))
ALL, GROUP = b"\xff" * 6, b"\x01\x00\x5e\0\0\1"


def frame(dst: bytes, src: bytes, number: int = 0, type_: bytes = b"\x08\0") -> bytes:
    return dst + src + type_ + bytes([number]) * 46


def text(ports: int, config: str = "", cls: str = "EtherSwitch", outputs: int = 0) -> str:
    feeds = " ".join(f"in{i} :: Feed -> [{i}] s;" for i in range(ports))
    outs = " ".join(f"s[{i}] -> out{i} :: Collect;" for i in range(outputs or ports))
    return f"s :: {cls}({config}); {feeds} {outs} TimedSource(0.0001) -> Discard;"


class Lab:
    """Gives frames one by one, because their order over several inputs matters."""

    def __init__(self, router: Any, outputs: int) -> None:
        self.router, self.outputs = router, outputs

    def send(self, port: int, data: bytes) -> dict[int, list[bytes]]:
        self.router.feed(f"in{port}", [data])
        self.router.run(seconds=0.001)
        got = {i: self.router.collect(f"out{i}") for i in range(self.outputs)}
        return {i: frames for i, frames in got.items() if frames}


@pytest.fixture(params=["python", "native"])
def lab(request: Any) -> Any:
    from mezzo.runtime import Router

    made: list[Router] = []

    def build(ports: int, config: str = "", cls: str = "EtherSwitch", outputs: int = 0) -> Lab:
        router = Router.from_click(text(ports, config, cls, outputs), target=request.param, virtual=True)
        made.append(router)
        return Lab(router, outputs or ports)

    yield build
    for router in made:
        router.close()


def test_Do06_basics(lab: Any) -> None:
    net = lab(3)
    first = frame(B, A)
    assert net.send(0, first) == {1: [first], 2: [first]}
    reply = frame(A, B)
    assert net.send(1, reply) == {0: [reply]}
    moved = frame(B, A, 1)
    assert net.send(2, moved) == {1: [moved]}
    assert net.send(1, reply) == {2: [reply]}
    assert net.router.read("s.moves") == "1"


def test_Do07_tags_pass(lab: Any) -> None:
    net = lab(2)
    tagged = frame(B, A, 5, b"\x81\0\0\x64\x08\0")
    assert net.send(0, tagged) == {1: [tagged]}


def test_a_frame_never_goes_back(lab: Any) -> None:
    net = lab(3)
    net.send(0, frame(ALL, A))
    assert net.send(0, frame(A, B)) == {}
    assert net.router.drops() == {("s", "is there already"): 1}


def test_groups_are_flooded_and_not_learned(lab: Any) -> None:
    net = lab(3)
    for target in (ALL, GROUP):
        out = frame(target, A)
        assert net.send(2, out) == {0: [out], 1: [out]}
    net.send(1, frame(A, GROUP))
    out = frame(GROUP, C)
    assert net.send(0, out) == {1: [out], 2: [out]}
    rows = net.router.read("s.table").splitlines()
    assert [row.split()[0] for row in rows] == ["02:00:00:00:00:03", "02:00:00:00:00:01"]


def test_addresses_are_forgotten(lab: Any) -> None:
    net = lab(3, "TIMEOUT 2")
    net.send(0, frame(ALL, A))
    to_a = frame(A, B)
    assert net.send(1, to_a) == {0: [to_a]}
    net.router.run(seconds=3)
    assert net.send(1, to_a) == {0: [to_a], 2: [to_a]}
    net.send(0, frame(ALL, A))
    net.router.write("s.reset")
    assert net.router.read("s.table") == ""
    assert net.send(1, to_a) == {0: [to_a], 2: [to_a]}


def test_a_hub(lab: Any) -> None:
    net = lab(3, "TIMEOUT 0")
    net.send(0, frame(ALL, A))
    out = frame(A, B)
    assert net.send(1, out) == {0: [out], 2: [out]}


def test_short_frames_die(lab: Any) -> None:
    net = lab(2)
    for length in (0, 5, 13):
        assert net.send(0, frame(B, A)[:length]) == {}
    assert net.send(0, frame(B, A)[:14]) == {1: [frame(B, A)[:14]]}
    assert net.router.drops() == {("s", "too short"): 3}


def test_a_full_table_forgets_the_quietest(lab: Any) -> None:
    net = lab(2, "CAPACITY 4")
    for n in range(1, 7):
        net.send(n % 2, frame(ALL, bytes([2, 0, 0, 0, 0, n])))
    rows = [row.split()[0][-2:] for row in net.router.read("s.table").splitlines()]
    assert rows == ["06", "05", "04", "03"]


def test_listening(lab: Any) -> None:
    net = lab(2, "", "ListenEtherSwitch", 3)
    out = frame(B, A)
    assert net.send(0, out) == {1: [out], 2: [out]}
    back = frame(A, B)
    assert net.send(1, back) == {0: [back], 2: [back]}
    again = frame(A, C)
    assert net.send(0, again) == {2: [again]}  # not forwarded, and heard
