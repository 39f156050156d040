"""Holds targets against each other: the same elements, the same packets, every difference; and the least that shows it.

The elements stand alone with a sink behind each output, and a packet is looked at after each push: where it came out,
its bytes, marks, annotations; what died and why; in the end all state.  Time stands still and chance is seeded, so a
target that differs is wrong.

What a table forgets in the kernel is Linux's choice.  So from the first entry on that Python forgets the kernel is not
compared any more, but for what its tables hold: no more than they have room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mezzo.elements.store import make_cell
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.types import PACKET, U32
from mezzo.packet.arena import Arena, Packet
from mezzo.pipeline.schedulers import make_schedulers
from mezzo.targets import load_target
from mezzo.targets.kernel.layout import lru_entries
from mezzo.tools._random_packets import MARKS, Case

Port = tuple[int, int]
FRAMES = 2048
TRIALS = 400  # of making a failure smaller
NOW_NS = 1_700_000_000_123_456_789


@dataclass(frozen=True)
class Bench:
    """What is compared: a program of a scheduler, the elements and a sink an output; `entries`: where packets come."""

    program: Program
    cells: tuple[Mapping[str, Any], ...]
    entries: tuple[Port, ...]
    sinks: Mapping[int, str]  # the outputs that they stand behind

    def fresh(self) -> list[dict[str, Any]]:
        """State of its own for one target, with the contents that configuration gave."""
        made: list[dict[str, Any]] = []
        for linked, given in zip(self.program.instances, self.cells, strict=True):
            made.append({s.name: make_cell(s) for s in linked.unit.states})
            for name, cell in made[-1].items():
                if name in given:
                    cell.load(given[name].dump())
        return made


def bench_of(linked: Sequence[Linked], numbers: Sequence[int], cells: Sequence[Mapping[str, Any]]) -> Bench:
    """A bench of these instances, which had these numbers; connections among them stay, others end in sinks."""
    timers = [i for i, one in enumerate(linked, 1) if one.timer >= 0]
    (scheduler, first), *_ = make_schedulers(True, 0, len(timers), 1, False)
    new = {number: i for i, number in enumerate(numbers, 1)}
    instances, contents, sinks = [first], [scheduler.all_cells(), *cells], dict[int, str]()
    for i, one in enumerate(linked, 1):
        outputs: list[Port | None] = []
        for port, to in enumerate(one.outputs):
            if to is not None and to[0] not in new:
                at = 1 + len(linked) + len(sinks)
                sinks[at] = f"{one.name}[{port}]"
                outputs.append((at, 0))
            else:
                outputs.append((new[to[0]], to[1]) if to is not None else None)
        timer = timers.index(i) if i in timers else -1
        instances.append(Linked(one.name, one.unit, tuple(outputs), inputs=(None,) * len(one.inputs), timer=timer))
    entries = _entries(instances)
    instances += [Linked(name, _SINK, inputs=(None,)) for name in sinks.values()]
    contents += [{} for _ in sinks]
    return Bench(Program(tuple(instances), (), tuple(timers)), tuple(contents), entries, sinks)


def _entries(instances: Sequence[Linked]) -> tuple[Port, ...]:
    """Inputs that no connection among the instances leads to."""
    led = {to for one in instances for to in one.outputs}
    inputs = [(i, port) for i, one in enumerate(instances) if i for port in range(max(len(one.inputs), 1))]
    return tuple(one for one in inputs if one not in led) or ((1, 0),)


_P = ops.Local(PACKET, "p")
_SINK = Unit(
    "Sink",
    (Function("process", (Param("p", PACKET),), U32, (ops.RingPush("kept", _P), ops.Return())),),
    (State("kept", "ring", PACKET, FRAMES),),
)


class Running:
    """A bench on one target."""

    def __init__(self, bench: Bench, target: str) -> None:
        self.bench, self.target, self.arena = bench, target, Arena(FRAMES)
        hosts = {(i, name): (lambda *_: 0) for i, x in enumerate(bench.program.instances) for name in x.unit.hosts}
        try:
            self.engine = load_target(target).build(bench.program, self.arena, bench.fresh(), hosts, virtual=True)
        except BaseException:
            self.arena.close()
            raise
        self.engine.epoch_ns = NOW_NS

    def push(self, case: Case) -> list[tuple[Any, ...]]:
        """What comes out, and what has died."""
        instance, port = self.bench.entries[case.way]
        packet = case.packet(self.arena)
        self.engine.push(instance, port, packet.frame)
        out = [(name, *row) for sink, name in self.bench.sinks.items() for row in self._taken(sink)]
        died = [("died", name, tuple(sorted(counts.items()))) for name, counts in self.drops() if counts]
        return out + died

    def drops(self) -> Iterator[tuple[str, dict[str, int]]]:
        for i, one in enumerate(self.bench.program.instances):
            yield one.name, self.engine.drops(i)

    def _taken(self, sink: int) -> Iterator[tuple[Any, ...]]:
        ring = self.engine.cells[sink]["kept"]
        for frame in ring.dump():
            packet = Packet(self.arena, frame)
            marks = tuple(packet.mark(mark) for mark in MARKS)
            yield bytes(packet), marks, bytes(packet.anno), packet.packet_type, packet.timestamp, packet.headroom
            self.arena.free(frame)
        ring.load([])

    def states(self, ordered: bool) -> dict[str, Any]:
        """All state that is not packets; `ordered`: what tables that forget hold in the order of use."""
        found = {}
        for i, one in enumerate(self.bench.program.instances):
            for state in one.unit.states:
                if state.kind not in ("ring", "slots"):
                    cell = self.engine.cells[i][state.name]
                    sorted_ = state.kind == "lru" and not ordered
                    found[f"{one.name}.{state.name}"] = (cell.forgotten, cell.items()) if sorted_ else cell.dump()
        return found

    @property
    def chooses(self) -> bool:
        """Whether what it forgets is its own choice."""
        return self.target == "kernel"

    def tables(self) -> Iterator[tuple[str, State, Any]]:
        """Those that forget."""
        for i, one in enumerate(self.bench.program.instances):
            cells = self.engine.cells[i]
            yield from ((f"{one.name}.{s.name}", s, cells[s.name]) for s in one.unit.states if s.kind == "lru")

    def has_forgotten(self) -> bool:
        return any(cell.forgotten for _, _, cell in self.tables())

    def close(self) -> None:
        self.engine.close()
        self.arena.close()


@dataclass(frozen=True)
class Difference:
    """The packets after which `target` differs from python, and what either says."""

    target: str
    cases: tuple[Case, ...]
    what: str
    wanted: object
    got: object


@dataclass(frozen=True)
class Agreement:
    """How many packets came out where; `punted`: how often one went up from the kernel as it had come to an element;
    `chosen`: how many packets came when what was forgotten was a target's own choice."""

    packets: int
    out: Mapping[str, int]
    punted: int = 0
    chosen: int = 0


def compare(bench: Bench, targets: Sequence[str], cases: Sequence[Case]) -> Difference | Agreement:
    """Runs all packets on all targets; python is the definition and comes first."""
    running: list[Running] = []
    try:
        running += (Running(bench, target) for target in targets)
        return _compare(running, cases)
    finally:
        for one in running:
            one.close()


def _compare(running: Sequence[Running], cases: Sequence[Case]) -> Difference | Agreement:
    out, chosen = dict[str, int](), 0
    for number, case in enumerate(cases):
        if running[0].arena.held > FRAMES // 2:  # elements that store packets have them
            cases = cases[:number]
            break
        wanted, *others = [one.push(case) for one in running]
        chosen += running[0].has_forgotten()
        for one, got in zip(running[1:], others, strict=True):
            if got != wanted and not (chosen and one.chooses):
                return _difference(one.target, cases[: number + 1], wanted, got)
        for name, *_ in wanted:
            out[name] = out.get(name, 0) + (name != "died")
    for one in running[1:]:
        differ = _held(one) if chosen and one.chooses else _differing(running[0], one)
        if differ is not None:
            return Difference(one.target, tuple(cases), *differ)
    punted = sum(getattr(one.engine, "punted", 0) for one in running)
    chosen *= any(one.chooses for one in running)
    return Agreement(len(cases), {name: count for name, count in out.items() if count}, punted, chosen)


def _differing(base: Running, one: Running) -> tuple[str, object, object] | None:
    """The first state that is not the same: its name, and what either has."""
    wanted, got = (x.states(not one.chooses) for x in (base, one))
    return next(((name, wanted[name], got[name]) for name in wanted if wanted[name] != got[name]), None)


def _held(one: Running) -> tuple[str, object, object] | None:
    """A table that holds more than it has room for."""
    found = ((name, lru_entries(state.size), len(cell)) for name, state, cell in one.tables())
    return next(((f"what {name} holds", f"at most {most}", count) for name, most, count in found if count > most), None)


NAMES = ("output", "bytes", "marks mac, net, trans", "annotations", "packet type", "timestamp", "headroom")


def _difference(target: str, cases: Sequence[Case], wanted: list[Any], got: list[Any]) -> Difference:
    """Names the first thing that differs."""
    pairs = zip(wanted, got, strict=False)
    for a, b in pairs:
        if a != b and a[0] == b[0] != "died":
            name, x, y = next((n, x, y) for n, x, y in zip(NAMES, a, b, strict=True) if x != y)
            return Difference(target, tuple(cases), f"{name} at {a[0]}", _shown(x), _shown(y))
    return Difference(target, tuple(cases), "where packets go", _went(wanted), _went(got))


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _went(rows: list[Any]) -> str:
    return "; ".join(f"{r[1]} drops {dict(r[2])}" if r[0] == "died" else f"out {r[0]}" for r in rows) or "nowhere"


# -- the least that shows it


def smaller(bench: Bench, found: Difference) -> Difference:
    """A difference of the same target with fewer and plainer packets."""
    search = _Search(bench, found)
    search.fewer()
    search.plainer()
    return search.found


class _Search:
    def __init__(self, bench: Bench, found: Difference) -> None:
        self.bench, self.found, self.left = bench, found, TRIALS

    def try_(self, cases: Sequence[Case]) -> bool:
        """Whether these still show a difference; they are the best found then."""
        if self.left <= 0 or not cases:
            return False
        self.left -= 1
        result = compare(self.bench, ("python", self.found.target), cases)
        if isinstance(result, Difference):
            self.found = result
            return True
        return False

    def fewer(self) -> None:
        if self.try_(self.found.cases[-1:]):
            return
        size = len(self.found.cases) // 2
        while size:
            at = 0
            while at < len(self.found.cases):
                if not self.try_((*self.found.cases[:at], *self.found.cases[at + size :])):
                    at += size
            size //= 2

    def plainer(self) -> None:
        for at in range(len(self.found.cases)):
            if at >= len(self.found.cases):
                break
            for change in (*_PLAIN, _shorter, _zeros):
                self._change(at, change)

    def _change(self, at: int, change: Callable[[Case], Iterator[Case]]) -> None:
        done = False
        while not done:
            done = True
            for plainer in change(self.found.cases[at]):
                if self.try_((*self.found.cases[:at], plainer, *self.found.cases[at + 1 :])):
                    done = at >= len(self.found.cases)
                    break


def _without(name: str, plain: Any) -> Callable[[Case], Iterator[Case]]:
    def change(case: Case) -> Iterator[Case]:
        if getattr(case, name) != plain:
            yield replace(case, **{name: plain})

    return change


_PLAIN = (
    _without("anno", bytes(48)), _without("marks", (None, None, None)), _without("packet_type", 0),
    _without("timestamp", 0),
)  # fmt: skip


def _shorter(case: Case) -> Iterator[Case]:
    size = len(case.data)
    for keep in (size // 2, size * 3 // 4, size - 8, size - 1):
        if 0 <= keep < size:
            yield replace(case, data=case.data[:keep])


def _zeros(case: Case) -> Iterator[Case]:
    for width in (16, 4, 1):
        for at in range(0, len(case.data), width):
            if any(case.data[at : at + width]):
                count = len(case.data[at : at + width])
                yield replace(case, data=case.data[:at] + bytes(count) + case.data[at + width :])
