"""A router of which a part is in the kernel does what the whole one does: the same packets, counters, drops and state.

The whole router is the definition, in Python.  Beside it stands a part of a plan, its programs run by
BPF_PROG_TEST_RUN, and what goes up from there continues, with its record, in another Python router on the part's state.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from socket import SOCK_RAW, if_nametoindex, socket
from typing import Any

import pytest

from mezzo.base import bpf
from mezzo.elements.element import Seats
from mezzo.packet.arena import Arena, Packet
from mezzo.pipeline import Plan, compile_text
from mezzo.pipeline.wire import wire_unit
from mezzo.targets import python
from mezzo.targets.kernel import Part, record
from mezzo.targets.python.build import build_unit
from mezzo.targets.python.run import Instance
from mezzo.tools._random_packets import cases
from mezzo.wire import build

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
EXAMPLES = Path(__file__).parents[2] / "examples"
NOW, EPOCH = 10**12, 1_700_000_000 * 10**9
DROP, AF_XDP = 1, 44
FRAMES = 4096
OTHER = ("ring", "slots")


@pytest.fixture(autouse=True)
def interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mezzo.ports.level.cannot_redirect", lambda device: "")
    monkeypatch.setattr("mezzo.ports.level.is_veth", lambda device: False)
    monkeypatch.setattr("mezzo.ports.level.queues_at_once", lambda device: 1)


class Side:
    """A router in Python; `leaves` takes what its queues in front of devices hold."""

    def __init__(self, plan: Plan, cells: list[dict[str, Any]]) -> None:
        self.plan, self.arena = plan, Arena(FRAMES)
        hosts = {(i, name): (lambda *_: 0) for i, x in enumerate(plan.program.instances) for name in x.unit.hosts}
        self.engine = python.build(plan.whole(), self.arena, cells, hosts, virtual=True)
        self.engine.epoch_ns = EPOCH
        self.engine.cells[0]["now"].load(NOW)
        seats = Seats(self.engine, len(plan.elements))
        for i, element in enumerate(plan.elements):
            element.bind(seats, i)
            if type(element).__name__ == "ToDevice":
                element.longest = 1514
        self.entries: dict[int, Instance] = {}  # the receivers' kernel halves, in Python
        self.queues = [i for i, e in enumerate(plan.elements) if type(e).__name__ == "Queue"]

    def entry(self, i: int) -> Instance:
        if i not in self.entries:
            unit = wire_unit(self.plan.elements[i])
            linked = replace(self.plan.program.instances[i], unit=unit)
            self.entries[i] = Instance(self.engine, i, linked, self.engine.cells[i], build_unit(unit, 5000 + i))
        return self.entries[i]

    def leaves(self) -> list[tuple[str, bytes]]:
        found = []
        for queue in self.queues:
            ring = self.engine.cells[queue]["ring"]
            for frame in ring.dump():
                found.append((self.behind(queue), bytes(Packet(self.arena, frame))))
                self.arena.free(frame)
            ring.load([])
        return found

    def behind(self, queue: int) -> str:
        """The name of the device that pulls from a queue."""
        pulls = (x.name for x in self.plan.program.instances if x.inputs and x.inputs[0] == (queue, 0))
        return next(pulls)

    def drops(self, i: int) -> dict[str, int]:
        return _sum(self.engine.drops(i), self.entries[i].counts if i in self.entries else {})

    def close(self) -> None:
        self.engine.close()
        self.arena.close()


def _sum(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}}


class Whole(Side):
    """The definition: packets come in by the receivers' kernel halves, as `deliver` would make them."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, [e.all_cells() for e in plan.elements])

    def give(self, instance: int, frame: bytes) -> list[tuple[str, bytes]]:
        packet = self.arena.make_from(frame)
        assert packet is not None
        self.entry(instance).take_in(0, packet)
        return self.leaves()


class Levels(Side):
    """A part in the kernel, and the rest in Python on its state.  `lowers`: gates, which keep the packets of a flow in
    order, are lowered after each one; else all of a flow goes up behind the first that does."""

    def __init__(self, plan: Plan, lowers: bool) -> None:
        self.lowers = lowers
        assert plan.placement is not None and plan.placement.kernel is not None
        self.kernel = plan.placement.kernel
        given = [e.all_cells() for e in plan.elements]
        self.part = Part.of(self.kernel, given, virtual=True, use_disk=False)
        cells = [own | self.part.cells.get(i, {}) for i, own in enumerate(given)]
        super().__init__(plan, cells)
        self.part.set_word("now", NOW)
        self.part.set_word("epoch", EPOCH)
        self.up = 0

    @contextmanager
    def connected(self) -> Iterator[None]:
        """With sockets and interfaces, so that nothing dies for want of them."""
        with ExitStack() as held:
            for n in range(len(self.kernel.entries)):
                xsk = held.enter_context(socket(AF_XDP, SOCK_RAW, 0))
                bpf.map_put(self.part.maps.descriptors[f"sockets{n}"], bytes(4), struct.pack("=I", xsk.fileno()))
            for key in self.kernel.keys.values():
                there = struct.pack("=I", if_nametoindex("lo"))
                bpf.map_put(self.part.maps.descriptors["devices"], struct.pack("=I", key), there)
            yield

    def give(self, instance: int, frame: bytes) -> list[tuple[str, bytes]]:
        root = self.part.roots[self.kernel.entries.index((instance, 0))]
        before = {i: self.sent(i) for i in self.kernel.wires.values()}
        told = bpf.test_run(root.fd, b"", frame)
        if told.verdict == DROP:
            return []
        if not told.metadata:
            (wire,) = (i for i, count in before.items() if self.sent(i) != count)
            return [(self.plan.program.instances[wire].name, told.packet)]
        self.up += 1
        held = self.arena.make(0)
        assert held is not None
        way = record.unpack(self.arena, held, told.metadata, told.packet)
        if way == record.WHOLE:
            self.entry(instance).take_in(0, held)
        else:
            to, port = self.kernel.ups[way]
            self.engine.instances[to].take_in(port, held)
        if self.lowers and "gates" in self.part.maps.descriptors:
            size = self.part.layout.maps["gates"].value
            bpf.map_put(self.part.maps.descriptors["gates"], bytes(4), bytes(size))
        return self.leaves()

    def sent(self, i: int) -> int:
        return int(self.part.cells[i]["count"].value)

    def drops(self, i: int) -> dict[str, int]:
        return _sum(super().drops(i), self.part.drops(i) if i in self.part.layout.drops else {})

    def close(self) -> None:
        super().close()
        self.part.close()


@contextmanager
def both(
    text: str, variables: dict[str, str], place: str = "auto", lowers: bool = True
) -> Iterator[tuple[Whole, Levels]]:
    whole = Whole(compile_text(text, "router", variables))
    levels = Levels(compile_text(text, "router", variables, place=place), lowers)
    try:
        with levels.connected():
            yield whole, levels
    finally:
        whole.close()
        levels.close()


HOSTS = (0x0A000001, 0xC0A80101, 0x0A000002, 0x0A000009, 0xC0A80109, 0x08080808)
MACS = (0x020000000001, 0x020000000002, 0x020000000003, 0x020000000004)


def traffic(count: int, seed: int, ways: int) -> Iterator[tuple[int, bytes]]:
    """(input, frame): half of it packets between hosts that there are, the other half whatever `cases` has."""
    dice = random.Random(seed)
    strange = cases(4 * count, seed, ways)
    for _ in range(count):
        if dice.random() < 0.5:
            yield dice.randrange(ways), _sound(dice)
        else:
            case = next(c for c in strange if len(c.data) >= 14)
            yield case.way, case.data


def _sound(dice: random.Random) -> bytes:
    src, dst = dice.choice(HOSTS), dice.choice(HOSTS)
    to, source = dice.choice((*MACS, 0xFFFFFFFFFFFF)), dice.choice(MACS)
    if dice.random() < 0.15:
        return build.ether(to, source, 0x0806, build.arp(dice.choice((1, 2)), source, src, 0, dst))
    body = build.udp(
        dice.choice((53, 1000)), dice.choice((53, 2000)), dice.randbytes(dice.choice((0, 9, 200, 900))), (src, dst)
    )
    if dice.random() < 0.3:
        body = build.icmp(8, 0, dice.getrandbits(32), dice.randbytes(56))
    inner = build.ip(
        src, dst, 17 if len(body) % 4 else 1, body, ttl=dice.choice((1, 2, 64, 64)), id=dice.randrange(65536),
        frag=dice.choice((0, 0, 0x4000)), options=dice.choice((b"", b"", b"", b"\1\1\1\1", b"\7\7\4\0\0\0\0\0")),
    )  # fmt: skip
    return build.ether(to, source, 0x0800, inner).ljust(60, b"\0")


def _sendable(frames: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """What is shorter than an Ethernet header no program can send (docs/design/0003)."""
    return [(device, frame) for device, frame in frames if len(frame) >= 14]


def require_same(whole: Whole, levels: Levels, count: int, seed: int) -> dict[str, int]:
    """The same frames through both; how many came out where."""
    out: dict[str, int] = {}
    entries = [i for i, _ in levels.kernel.entries]
    frames = list(traffic(count, seed, len(entries)))
    for way, frame in frames:
        wanted = _sendable(whole.give(entries[way], frame))
        assert _sendable(levels.give(entries[way], frame)) == wanted, (way, frame.hex())
        for name, _ in wanted:
            out[name] = out.get(name, 0) + 1
    passed = {*whole.queues, *levels.kernel.wires.values()}
    for i, linked in enumerate(whole.plan.program.instances):
        assert i in passed or levels.drops(i) == whole.drops(i), linked.name
        for state in linked.unit.states if i and i not in passed else ():
            if state.kind not in OTHER:
                a, b = whole.engine.cells[i][state.name].dump(), levels.engine.cells[i][state.name].dump()
                assert a == b, (linked.name, state.name)
    return out | {"packets": len(frames), "up": levels.up}


ROUTER = {
    "METHOD": "XDP", "DEV0": "a0", "IP0": "10.0.0.9/24", "MAC0": "02:00:00:00:00:01", "MTU0": "600",
    "DEV1": "b0", "IP1": "192.168.1.9/24", "MAC1": "02:00:00:00:00:02",
}  # fmt: skip


@pytest.mark.parametrize("place", ["auto", "*=kernel?"])
def test_the_ip_router(place: str) -> None:
    """Options, expired TTL, fragments, redirects, unknown neighbours, ARP and bad headers are among the frames."""
    with both((EXAMPLES / "ip-router-live.click").read_text(), ROUTER, place) as (whole, levels):
        for side in (whole, levels):
            for name, ip in (("out0/arpq", 0x0A000001), ("out1/arpq", 0xC0A80101)):
                side.engine.call(side.plan.program.index(name), "insert", ip, 0x020000000077)
        found = require_same(whole, levels, 1500, 4)
        assert found["out0/ToDevice@3"] > 30 < found["out1/ToDevice@3"]
        assert 20 < found["up"] < found["packets"] / 2


POOL = (
    ("Strip(14)", 1), ("EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)", 1),
    ("Paint(1)", 1), ("Paint(2)", 1), ("PaintTee(1)", 2), ("CheckPaint(2)", 2),
    ("Counter", 1), ("MarkIPHeader(14)", 1), ("MarkIPHeader", 1), ("CheckIPHeader", 2), ("CheckIPHeader(14)", 2),
    ("DecIPTTL", 2), ("IPGWOptions(10.0.0.9)", 2), ("FixIPSrc(10.0.0.9)", 1), ("Classifier(12/0800, 12/0806, -)", 3),
    ("IPClassifier(udp, ttl 1, -)", 3), ("HashSwitch(20, 6)", 2), ("RoundRobinSwitch", 2), ("Tee", 2),
    ("EtherMirror", 1), ("SetIPChecksum", 1), ("IPFragmenter(300)", 2), ("CheckLength(200)", 2),
    ("PaintSwitch", 3), ("DropBroadcasts", 1), ("StoreData(4, \\<0102>)", 1), ("GetIPAddress(16)", 1),
    ("SetAnnoByte(3, 9)", 1), ("Truncate(90)", 1),
    ("RadixIPLookup(10.0.0.0/8 0, 0/0 10.1.1.1 1)", 2), ("EtherSwitch", 2), ("ICMPError(10.0.0.9, unreachable)", 1),
)  # fmt: skip


def random_router(seed: int) -> str:
    """Two inputs, elements each of which gets packets from one or more before it, and what is left goes to devices."""
    dice = random.Random(seed)
    lines = [f"in{n} :: FromDevice({device}, METHOD XDP);" for n, device in enumerate(("a0", "b0"))]
    lines += [f"Idle -> q{n} :: Queue -> ToDevice({device}, METHOD XDP);" for n, device in enumerate(("a0", "b0"))]
    free = ["in0", "in1"]
    for n in range(dice.randrange(4, 12)):
        text, outputs = dice.choice(POOL)
        inputs = 2 if text == "EtherSwitch" else 1
        lines.append(f"e{n} :: {text};")
        for port in range(max(inputs, min(dice.choice((1, 1, 2)), len(free)))):
            source = free.pop(dice.randrange(len(free))) if free else "Idle"
            lines.append(f"{source} -> [{port % inputs}] e{n};")
        free += [f"e{n}[{port}]" for port in range(outputs)]
    lines += [f"{source} -> {dice.choice(('q0', 'q1', 'Discard'))};" for source in free]
    return "\n".join(lines)


def placed_router(seed: int, place: str) -> str:
    """A random router of which something goes into the kernel."""
    while True:
        text = random_router(seed)
        placement = compile_text(text, "router", place=place).placement
        if placement is not None and placement.kernel is not None:
            return text
        seed += 1000


@pytest.mark.parametrize("seed", range(16))
def test_random_routers(seed: int) -> None:
    place = ("auto", "*=kernel?")[seed % 2]
    with both(placed_router(seed, place), {}, place, lowers=seed % 4 < 3) as (whole, levels):
        assert require_same(whole, levels, 150, seed)["packets"] == 150


SWITCH = """
    FromDevice(a0, METHOD XDP) -> [0] s :: EtherSwitch; FromDevice(b0, METHOD XDP) -> [1] s;
    FromDevice(c0, METHOD XDP) -> [2] s; s[0] -> Queue -> ToDevice(a0, METHOD XDP);
    s[1] -> Queue -> ToDevice(b0, METHOD XDP); s[2] -> Queue -> ToDevice(c0, METHOD XDP);
"""


def test_a_switch() -> None:
    with both(SWITCH, {}) as (whole, levels):
        found = require_same(whole, levels, 800, 5)
        assert 20 < found["up"] < found["packets"]


FILTER = """
    FromDevice(a0, METHOD XDP) -> f :: IPClassifier(udp, icmp type echo, -)
        -> t :: Tee -> Queue -> ToDevice(b0, METHOD XDP); t[1] -> seen :: Counter -> Discard;
    f[1] -> c :: Counter -> Queue -> ToDevice(c0, METHOD XDP); f[2] -> no :: Discard;
"""


def test_a_filter_in_front_of_what_is_native() -> None:
    with both(FILTER.replace("-> f", "-> MarkIPHeader(14) -> f"), {}) as (whole, levels):
        found = require_same(whole, levels, 800, 6)
        assert 20 < found["up"] < found["packets"] / 2
