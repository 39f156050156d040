"""Reinject: packets that native code decided about go on in the kernel's level, as if they had never been above."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError, bpf
from mezzo.elements import Element, Port, Table, python, u32, u64
from mezzo.elements import Packet as Pkt
from mezzo.elements.library import register
from mezzo.packet.arena import Packet
from mezzo.pipeline import compile_text
from mezzo.ports._risen import FIRST
from mezzo.runtime.paths import Path as Trail
from mezzo.runtime.paths import Tracer
from mezzo.runtime.router import Router
from mezzo.targets.kernel.gates import GATES
from mezzo.targets.kernel.roads import WIRE
from mezzo.wire import build
from tests.ports.netlab import (
    MEZZO,
    Pair,
    inside,
    ip,
    namespace,
    raw_socket,
    started_in,
    veth_pair,
    wait_until,
)
from tests.ports.test_gates import Receiver, gates_up, number_of, numbered, overtaken, send, settled
from tests.ports.xdplab import frame, received, router

live = [pytest.mark.needs_root, pytest.mark.slow]
PLACE = ("*=kernel?", "slow=native", "ORDER=loose")
COUNTS = ("count", "injected", "came_back", "not_injected")


@pytest.fixture
def wires() -> Iterator[tuple[Pair, Pair]]:
    with ExitStack() as stack:
        left, middle, right = (stack.enter_context(namespace()) for _ in range(3))
        yield (
            stack.enter_context(veth_pair(left, middle, net="10.7.0")),
            stack.enter_context(veth_pair(middle, right, net="10.7.1")),
        )


def text_of(wires: tuple[Pair, Pair], more: str = "", back: str = "Reinject") -> str:
    """Byte 14 says what is done with a frame: 0 fast, 1 slow and then as fast ones, 2 slow, then up again; 3 slow, then
    it dies; 4 slow, and back by the wire that it came by."""
    one, two = wires[0].b.name, wires[1].a.name
    return (
        f"f :: FromDevice({one}, METHOD XDP, PROMISC true) -> c :: Classifier(14/00, -);"
        f"c[0] -> fast :: Counter -> out :: Counter -> Queue -> t :: ToDevice({two}, METHOD XDP);"
        f"c[1] -> slow :: Counter -> back :: {back} -> k :: Classifier(14/01, 14/02, 14/04){more};"
        "k[0] -> Paint(3) -> out; k[1] -> Paint(4) -> Strip(14) -> up :: Collect;"
        f"k[2] -> turned :: Counter -> Queue -> u :: ToDevice({one}, METHOD XDP);"
    )


def give(kind: int, size: int = 60, number: int = 0) -> bytes:
    """A flow of its own for each number."""
    return number.to_bytes(6, "big") + frame()[6:14] + bytes([kind]) + bytes(n & 255 for n in range(1, size - 14))


def counts(made: Router, name: str = "back") -> tuple[int, ...]:
    return tuple(int(made.read(f"{name}.{word}")) for word in COUNTS)


@contextmanager
def running(wires: tuple[Pair, Pair], text: str, place: Any = PLACE, **options: Any) -> Iterator[Router]:
    with router(wires[0].b.ns, text, place=place, **options) as made:
        made.run(seconds=0)
        yield made
        assert made.conservation().balanced


def until(made: Router, name: str, count: int) -> None:
    made.run(seconds=5, until=lambda: int(made.read(name)) >= count)
    assert int(made.read(name)) == count


# -- what is planned


def rows(text: str, *place: str) -> dict[str, tuple[str, str]]:
    placement = compile_text(text, place=list(place)).placement
    assert placement is not None
    return {row.name: (row.level, row.why) for row in placement.rows}


PLAN = (
    "f :: FromDevice(eth0, METHOD XDP, PROMISC true) -> c :: Classifier(14/00, -) -> n :: Counter -> Discard;"
    "c[1] -> slow :: Print(ACTIVE false) -> back :: Reinject -> n;"
)


def test_the_plan_says_where_packets_go_back() -> None:
    found = rows(PLAN, "auto")
    assert found["back"] == ("kernel+native", "packets go back into the kernel here: eth0")
    assert (found["slow"][0], found["n"][0]) == ("kernel+native", "kernel")


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        (PLAN, ("n=native", "*=kernel?"), None),
        (PLAN, ("*=kernel?", "n=native"), "behind it is `n`, which is native"),
        (PLAN, ("*=kernel?", "back=native"), "so it is wished"),
        (PLAN.replace("Reinject", "Reinject(eth1)"), ("*=kernel?",), "eth1 is no input of the kernel's level"),
        (PLAN.replace("XDP", "PACKET"), ("*=kernel?",), "no input is in the kernel"),
        (
            PLAN + "FromDevice(eth1, METHOD XDP, PROMISC true) -> n",
            ("*=kernel?",),
            "say which input's packets they are as: DEVICE eth0 or eth1",
        ),
    ],
)
def test_why_none_go_back(text: str, place: Sequence[str], why: str | None) -> None:
    level, said = rows(text, *place)["back"]
    if why is None:
        assert level == "kernel+native"
    else:  # those that are in the kernel may pass
        assert (level, said) in (("native", why), ("kernel", f"packets pass; none go back: {why}"))


def test_the_input_can_be_said() -> None:
    text = PLAN.replace("Reinject", "Reinject(DEVICE eth1)") + "FromDevice(eth1, METHOD XDP, PROMISC true) -> n"
    assert rows(text, "*=kernel?")["back"][1].endswith(": eth1")


def test_a_wish_by_name_that_cannot_be_is_an_error() -> None:
    with pytest.raises(MezzoError, match="`back` cannot be in the kernel: behind it is `n`, which is native"):
        compile_text(PLAN, place=["f=kernel", "back=kernel"])


def test_without_a_kernels_level_it_lets_all_pass() -> None:
    with Router.from_click("i :: InfiniteSource(LIMIT 5) -> back :: Reinject -> n :: Counter -> Discard") as made:
        made.run(seconds=2, until=lambda: made.read("n.count") == "5")
        assert counts(made) == (5, 0, 0, 0) and made.read("back.byte_count") == made.read("n.byte_count")
        made.write("back.reset_counts")
        assert counts(made) == (0, 0, 0, 0)


def test_bits_that_two_rooms_know() -> None:
    from mezzo.ports import reinject

    assert FIRST > 2 * GATES - 1 and reinject.WIRE == WIRE


# -- on wires


class TestOnWires:
    pytestmark = live

    @pytest.mark.parametrize("mode", ["native", "generic"])
    def test_they_leave_die_and_come_up_again(self, wires: tuple[Pair, Pair], mode: str) -> None:
        text = text_of(wires).replace("PROMISC", f"MODE {mode}, PROMISC")
        with (
            running(wires, text) as made,
            raw_socket(wires[0].a) as here,
            raw_socket(wires[1].b) as there,
        ):
            for kind in (0, 1, 2, 3, 4) * 3:
                here.send(give(kind))
            until(made, "back.count", 12)
            assert counts(made) == (12, 12, 3, 0)
            assert sorted(received(there, 6)) == sorted([give(0), give(1)] * 3)
            assert received(here, 3) == [give(4)] * 3
            assert made.collect("up") == [give(2)[14:]] * 3
            assert [made.read(f"{x}.count") for x in ("out", "t", "turned", "u")] == ["6", "6", "3", "3"]
            assert made.drops() == {("k", "no pattern matches"): 3}
            assert made.elements["back"].byte_count == 12 * 60

    def test_order_takes_those_only_that_were_alone(self, wires: tuple[Pair, Pair]) -> None:
        """Of packets of one flow that come at once the first goes back; the others follow it natively."""
        text = text_of(wires)
        with running(wires, text, PLACE[:2]) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].b) as there:
            for number, size in ((1, 60), (1, 61), (1, 62), (2, 63)):
                here.send(give(1, size, number))
            until(made, "back.count", 4)
            assert counts(made) == (4, 2, 0, 2)
            until(made, "t.count", 4)
            came = [len(data) for data in received(there, 4)]
            assert [size for size in came if size < 63] == [60, 61, 62] and 63 in came

    def test_a_packet_that_the_kernel_has_no_room_for(self, wires: tuple[Pair, Pair]) -> None:
        for end in (end for pair in wires for end in (pair.a, pair.b)):
            ip("link", "set", end.name, "mtu", "9000", ns=end.ns)
        with (
            running(wires, text_of(wires), frame_size=16384) as made,
            raw_socket(wires[0].a) as here,
            raw_socket(wires[1].b) as there,
        ):
            sizes = [60, 2900, 3001, 5000]
            for number, size in enumerate(sizes):
                here.send(give(1, size, number))
            until(made, "t.count", 4)
            assert sorted(len(data) for data in received(there, 4)) == sizes
            assert counts(made) == (4, 2, 0, 2)

    @pytest.mark.parametrize("cut", [14, 100, 1000, 1500])
    def test_what_was_stripped_comes_back(self, wires: tuple[Pair, Pair], cut: int) -> None:
        one, two = wires[0].b.name, wires[1].a.name
        text = (
            f"FromDevice({one}, METHOD XDP, PROMISC true) -> slow :: Strip({cut}) -> back :: Reinject -> Unstrip({cut})"
            f"-> Queue -> t :: ToDevice({two}, METHOD XDP)"
        )
        with running(wires, text) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].b) as there:
            whole = frame()[:14] + random.Random(cut).randbytes(1500)
            here.send(whole)
            until(made, "back.count", 1)
            assert received(there, 1) == [whole] and counts(made) == (1, 1, 0, 0)

    def test_an_input_that_is_gone_is_a_drop(self, wires: tuple[Pair, Pair]) -> None:
        with running(wires, text_of(wires)) as made, raw_socket(wires[0].a) as here:
            ip("link", "del", wires[1].a.name, ns=wires[1].a.ns)
            here.send(give(1))
            until(made, "back.count", 1)
            wait_until(lambda: bool(made.drops()))
            assert made.drops() == {("t", "no device"): 1}

    def test_threads(self, wires: tuple[Pair, Pair]) -> None:
        text = text_of(wires)
        with running(wires, text, threads=2) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].b) as there:
            for number in range(200):
                here.send(give(1, 60, number))
                if number % 20 == 19:
                    until(made, "t.count", number + 1)
                    assert received(there, 20) == [give(1, 60, number - 19 + n) for n in range(20)]
            assert counts(made) == (200, 200, 0, 0)

    def test_the_host_gets_them(self, wires: tuple[Pair, Pair]) -> None:
        """By ToHost behind it: the host answers what it is asked."""
        name = wires[0].b.name
        text = (
            f"f :: FromDevice({name}, METHOD XDP) -> c :: Classifier(12/88B5, -) -> Discard;"
            f"c[1] -> slow :: Counter -> back :: Reinject -> n :: Counter -> h :: ToHost({name})"
        )
        from tests.ports.test_to_host import pinged

        with running(wires, text) as made:
            assert "3 received" in pinged(made, wires[0], 3)
            came, injected, *rest = counts(made)
            assert came == injected == int(made.read("h.count")) >= 4 and rest == [0, 0]


# -- what it is for


class AsksFirst(Element):
    """Lets flows pass that it knows; of others Python is asked whether they may, and those that may not leave by
    output 1."""

    ports, processing = "1/2", "h/h"
    known: Table[u64, u32, 4096]

    def process(self, p: Pkt) -> Port:
        if p.u64(26) in self.known:
            return 0
        if self.may(p.u32(30)) == 0:
            return 1
        self.known.set(p.u64(26), 1)
        return 0

    @python
    def may(self, target: u32) -> u32:
        return target & 1


class TestFirstPackets:
    """Of each flow one is decided about in Python; that one, too, is routed in the kernel."""

    pytestmark = live

    TEXT = (
        "f :: FromDevice({one}, METHOD XDP, PROMISC true) -> check :: AsksFirst -> back :: Reinject"
        " -> MarkIPHeader(14) -> ttl :: DecIPTTL -> n :: Counter -> Queue -> ToDevice({two}, METHOD XDP);"
        "check[1] -> no :: Counter -> Discard; ttl[1] -> Discard"
    )

    def test_those_that_may_never_meet_native_copies(self, wires: tuple[Pair, Pair]) -> None:
        register(AsksFirst)
        text = self.TEXT.format(one=wires[0].b.name, two=wires[1].a.name)
        with running(wires, text, "auto") as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].b) as there:
            flows = [f"10.0.{n}.{n % 2}" for n in range(20)]
            for number, target in enumerate(flows):
                here.send(numbered(number, wires[0].b.mac, False, target))
            until(made, "f.risen", 20)
            made.run(seconds=5, until=lambda: not gates_up(made))
            for number, target in enumerate(flows):
                here.send(numbered(100 + number, wires[0].b.mac, False, target))
            until(made, "f.risen", 30)
            assert sorted(number_of(data) for data in received(there, 20)) == sorted(
                first + n for first in (0, 100) for n in range(20) if n % 2
            )
            assert (made.read("no.count"), made.read("n.count"), made.read("back.injected")) == ("20", "20", "10")
            assert made.read("back.count") == "20" and not made.drops()


# -- nothing differs


def strange(dice: random.Random, number: int) -> bytes:
    """Sound and damaged frames; each a flow of its own."""
    source, target = f"10.{number >> 8}.{number & 255}.7", dice.choice(("10.0.1.2", "10.9.9.9", "192.168.0.1"))
    options = dice.choice((b"", b"", b"", b"\1\1\1\0", b"\7\7\4\0\0\0\0\0"))
    body = dice.choice((build.udp(7, 53, dice.randbytes(20)), build.tcp(80, 9, b""), build.icmp(8, 0, 7, b"x" * 70)))
    packet = build.ip(source, target, dice.choice((17, 6, 1)), body, ttl=dice.choice((0, 1, 2, 64)), options=options)
    data = bytearray(build.ether("2:0:0:0:0:7", "2:0:0:0:0:9", 0x0800, packet))
    for _ in range(dice.choice((0, 0, 1, 2))):
        data[dice.randrange(14, min(len(data), 50))] = dice.randrange(256)
    return bytes(data[: dice.choice((14, 15, 20, 34, 60))]) if dice.random() < 0.1 else bytes(data)


PARITY = (
    "f :: FromDevice({one}, METHOD XDP, PROMISC true, TIMESTAMP false) -> slow :: Counter -> Paint(7) -> Strip(14)"
    "-> a :: CheckIPHeader(VERBOSE false) -> back :: Reinject -> ttl :: DecIPTTL -> p :: SetTOS"
    "-> rt :: StaticIPLookup(10.0.1.0/24 0, 10.9.0.0/16 1, 0.0.0.0/0 2);"
    "a[1] -> bad :: Collect; ttl[1] -> dead :: Collect;"
    "rt[0] -> Paint(9) -> Unstrip(14) -> Strip(10) -> up :: Collect;"
    "rt[1] -> e :: EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> Queue -> t :: ToDevice({two}, METHOD XDP);"
    "rt[2] -> x :: IPClassifier(tcp, udp) -> Discard; x[1] -> SetUDPChecksum -> Strip(20) -> late :: Collect"
).replace("SetTOS", "SetIPDSCP(11)")
SAID = ("slow.count", "back.count", "back.byte_count", "t.count", "t.byte_count", "e.src")


class Outcome:
    def __init__(self, made: Router, came: list[bytes]) -> None:
        self.came, self.drops = sorted(came), made.drops()
        self.said = {path: made.read(path) for path in SAID}
        self.up = {name: sorted(known(made, name)) for name in ("bad", "dead", "up", "late")}


def known(made: Router, name: str) -> Iterator[tuple[Any, ...]]:
    """All that packets have; places from their data, since frames differ."""
    ring = made.elements[name].cell("ring")
    while len(ring):
        packet = Packet(made.arena, ring.pop())
        data = packet.get("data")
        marks = tuple(m - data if (m := packet.get(x)) != 0xFFFF else None for x in ("mac", "net", "trans"))
        yield bytes(packet), str(marks), bytes(packet.anno), packet.get("packet_type"), packet.get("timestamp")
        made.arena.free(packet.frame)


def outcome(wires: tuple[Pair, Pair], place: Any, frames: Sequence[bytes]) -> tuple[Outcome, tuple[int, ...]]:
    text = PARITY.format(one=wires[0].b.name, two=wires[1].a.name)
    with running(wires, text, place) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].b) as there:
        came: list[bytes] = []
        for first in range(0, len(frames), 50):
            for data in frames[first : first + 50]:
                here.send(data)
            until(made, "slow.count", min(first + 50, len(frames)))
            made.run(rounds=20)
            there.setblocking(False)
            while True:
                try:
                    came.append(there.recv(4096))
                except BlockingIOError:
                    break
        return Outcome(made, came), counts(made)


class TestNothingDiffers:
    pytestmark = live

    @pytest.mark.parametrize("seed", [1, 2])
    def test_from_what_native_code_does(self, wires: tuple[Pair, Pair], seed: int) -> None:
        dice = random.Random(seed)
        frames = [strange(dice, number) for number in range(400)]
        native, (count, *none) = outcome(wires, (), frames)
        both, (_, injected, came_back, not_injected) = outcome(wires, PLACE, frames)
        assert native.came == both.came and native.drops == both.drops and native.said == both.said
        assert native.up == both.up
        assert none == [0, 0, 0] and not_injected == 0 and injected == count > 200 and 20 < came_back < count
        assert all(native.up.values()) and len(native.came) > 20


class TestOrder:
    """Of a flow some packets are slow; each of these goes back where that may be."""

    pytestmark = live

    TEXT = (
        "f :: FromDevice($DEV0, METHOD XDP, PROMISC true) -> MarkIPHeader(14) -> c :: Classifier(14/45, -);"
        "c[0] -> fast :: Counter -> out :: Counter -> Queue(4000) -> t :: ToDevice($DEV1, METHOD XDP);"
        "c[1] -> slow :: Counter -> back :: Reinject -> k :: Counter -> out"
    )

    @pytest.mark.parametrize(("threads", "order"), [(1, "strict"), (2, "strict"), (1, "loose")])
    def test_numbered_packets_some_slow(self, wires: tuple[Pair, Pair], threads: int, order: str) -> None:
        """Where order is loose they are seen to be overtaken: else this would prove nothing."""
        from tests.ports.test_gates import running as in_a_thread

        place = ["*=kernel?", "slow=native", f"ORDER={order}"]
        variables: dict[str, Any] = {"threads": threads}
        with (
            raw_socket(wires[0].a) as here,
            raw_socket(wires[1].b) as there,
            in_a_thread(wires, self.TEXT, place, **variables) as made,
        ):
            far = Receiver(there)
            try:
                send(here, [numbered(n, wires[0].b.mac, n % 100 == 5) for n in range(2000)])
                came = settled(far, 1000)
            finally:
                far.end()
            assert (overtaken(came) > 0) == (order == "loose")
            count, injected, came_back, not_injected = counts(made)
            assert injected >= 1 and came_back == 0 and injected + not_injected == count
            assert (int(made.read("f.whole")) > 0) == (order == "strict")


# -- while it runs


class TestWhileItRuns:
    pytestmark = live

    def test_reloads(self, wires: tuple[Pair, Pair]) -> None:
        """Into the kernel, another program, and out of it: the counts go on, and no packet is lost."""
        text, more = text_of(wires), text_of(wires).replace("back :: Reinject", "back :: Reinject -> new :: Counter")
        with running(wires, text):  # opens what a process opens once
            pass
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        with inside(wires[0].b.ns), Router.from_click(text, place=PLACE, frames=4096) as made, raw_socket(
            wires[0].a
        ) as here, raw_socket(wires[1].b) as there:  # fmt: skip
            made.run(rounds=1)
            runner = threading.Thread(target=made.run)
            runner.start()
            number = 0
            try:
                for turn in range(6):
                    for _ in range(20):
                        here.send(give(1, 60, number))
                        number += 1
                    wait_until(lambda sent=number: int(made.read("back.count")) == sent)
                    assert received(there, 20) == [give(1, 60, number - 20 + n) for n in range(20)]
                    made.reload((more, text)[turn % 2])
                assert counts(made) == (120, 120, 0, 0)
                made.reload(text.replace("back :: Reinject", "back :: Reinject(nowhere0)"))
                here.send(give(1, 60, number))
                wait_until(lambda: int(made.read("back.count")) >= 1)
                assert received(there, 1) == [give(1, 60, number)]
                assert int(made.read("back.injected")) in (0, 120)
            finally:
                made.please_stop()
                runner.join()
        assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors

    def test_reloads_under_traffic(self, wires: tuple[Pair, Pair]) -> None:
        """What ways mean changes; each packet is where its kind belongs."""
        text = text_of(wires).replace("up :: Collect", "up :: Counter -> Discard")
        more = text.replace("back :: Reinject", "back :: Reinject -> new :: Counter")
        other = more.replace("14/02, 14/04", "14/04, 14/02").replace("k[2] ->", "k[3] ->").replace("k[1] ->", "k[2] ->")
        other = other.replace("k[3] ->", "k[1] ->")
        sent, done = [0] * 5, threading.Event()

        def send_all() -> None:
            with raw_socket(wires[0].a, receive=False) as here:
                while not done.wait(0.002):
                    for kind in range(5):
                        here.send(give(kind, 60, sum(sent)))
                        sent[kind] += 1

        options: dict[str, Any] = {"place": (*PLACE, "up=native"), "frames": 4096, "threads": 2}
        with inside(wires[0].b.ns), Router.from_click(text, **options) as made:
            made.run(rounds=1)
            jobs = [threading.Thread(target=made.run), threading.Thread(target=send_all)]
            for job in jobs:
                job.start()
            for turn in range(6):
                made.reload((more, other, text)[turn % 3])
                wait_until(lambda least=sum(sent) + 50: sum(sent) > least)
            done.set()
            jobs[1].join()
            wait_until(lambda: int(made.read("back.count")) == sum(sent[1:]))
            made.please_stop()
            jobs[0].join()
            assert counts(made) == (sum(sent[1:]), sum(sent[1:]), sent[2], 0)
            known = [int(made.read(f"{name}.count")) for name in ("fast", "t", "up", "u")]
            assert known == [sent[0], sent[0] + sent[1], sent[2], sent[4]]
            assert made.drops() == {("k", "no pattern matches"): sent[3]} and made.conservation().balanced

    def test_a_path_over_the_levels(self, wires: tuple[Pair, Pair]) -> None:
        done: list[Trail] = []
        tracer = Tracer(10, done.append)
        with running(wires, text_of(wires), trace=tracer.seen) as made, raw_socket(wires[0].a) as here:
            tracer.attach(made)
            for number, kind in enumerate((1, 2, 3)):
                here.send(give(kind, 60, number))

            def seen() -> bool:
                tracer.look()
                return len(done) == 3 - 1

            made.run(seconds=5, until=seen)
            tracer.finish()
            paths = sorted(done, key=lambda path: path.first.data[5])
        said = [[(s.element, s.level) for s in path.steps] for path in paths]
        first = [("f", "kernel"), ("c", "kernel"), ("slow", "native"), ("back", "native"), ("k", "kernel")]
        assert [one[:5] for one in said] == [first] * 3
        assert [one[-1] for one in said] == [("t", "kernel"), ("up", "native"), ("k", "kernel")]
        assert paths[0].end == "ended in t" and paths[2].end == "died in k: no pattern matches"
        assert paths[1].end.startswith("still in up")

    def test_who_looks_while_it_runs(self, wires: tuple[Pair, Pair]) -> None:
        """Programs that tell take the place of its root, too, and go."""
        from tests.runtime.controlled import running as controlled
        from tests.runtime.test_seeing import news
        from tests.runtime.test_seeing_levels import begin

        options: dict[str, Any] = {"place": list(PLACE), "frames": 2048, "frame_size": 4096}
        with inside(wires[0].b.ns), controlled(text_of(wires), **options) as made, raw_socket(wires[0].a) as here:
            begin(made, "trace", count=2)
            here.send(give(1, 60, 1))
            here.send(give(3, 60, 2))
            paths, _ = news(made, lambda found: len(found) == 2)
            said = {path["end"]: [step["element"] for step in path["steps"]] for path in paths}
            assert said == {
                "ended in t": ["f", "c", "slow", "back", "k", "Paint@10", "out", "t"],
                "died in k: no pattern matches": ["f", "c", "slow", "back", "k"],
            }
            made.write("unlook", "x")
            begin(made, "tap", edge="back->k")
            here.send(give(1, 60, 3))
            rows, _ = news(made, lambda found: len(found) == 1)
            assert len(rows) == 1
            made.write("unlook", "x")
            here.send(give(1, 60, 4))
            wait_until(lambda: counts(made) == (4, 4, 0, 0))

    def test_nothing_is_left_behind_a_kill(self, wires: tuple[Pair, Pair]) -> None:
        place = [word for one in PLACE[:2] for word in ("--place", one)]
        with started_in(wires[0].b.ns, [*MEZZO, "run", "-q", "-e", text_of(wires), *place]) as process:
            wait_until(lambda: len(senders(process.pid)) == 3, 20)
            programs = senders(process.pid)
            process.kill()
            process.wait()
        wait_until(lambda: all(bpf.program_by_id(number) is None for number in programs))


def senders(pid: int) -> set[int]:
    """The programs of a process that send packets."""
    told = (path.read_text() for path in Path(f"/proc/{pid}/fdinfo").iterdir() if path.exists())
    numbers = [int(found[1]) for text in told if (found := re.search(r"^prog_id:\s*(\d+)$", text, re.M))]
    infos = [bpf.program_by_id(number) for number in numbers]
    return {info.id for info in infos if info is not None and info.name == "mezzo_sends"}
