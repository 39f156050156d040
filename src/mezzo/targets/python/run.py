"""What runs the emitted Python: the meaning of each op that is more than an operator, and the engine.

`Fault` is a packet access outside the packet or an index outside an array: the method ends, the packets it holds die,
and the element's fault counter goes up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any

from mezzo.ir.module import Linked, Program
from mezzo.ir.ops import KILL
from mezzo.ir.types import I64
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.python.raw import Fault, need, ones_sum

MASK64 = (1 << 64) - 1


# -- numbers --------------------------------------------------------------------------------------------------------

wrap_i64 = I64.wrap


def div(a: int, b: int, bits: int, signed: bool) -> int:
    if b == 0:
        return 0
    q = abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
    return wrap_i64(q) if signed else q


def mod(a: int, b: int, bits: int, signed: bool) -> int:
    return a if b == 0 else a - b * (abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b)))


def shl(a: int, b: int, bits: int, signed: bool) -> int:
    if not 0 <= b < bits:
        return 0
    return wrap_i64(a << b) if signed else (a << b) & ((1 << bits) - 1)


def shr(a: int, b: int, bits: int, signed: bool) -> int:
    if not 0 <= b < bits:
        return -1 if a < 0 else 0
    return a >> b


def select(cond: int, a: int, b: int) -> int:
    return a if cond else b


def rounds(count: int, limit: int) -> range:
    need(count <= limit)
    return range(count)


# -- packets --------------------------------------------------------------------------------------------------------


def place(packet: Packet, mark: str, offset: int, size: int) -> int:
    """The offset from the start of data of a checked access."""
    if mark != "data":
        start = packet.mark(mark)
        if start is None:
            raise Fault
        offset += start
    need(offset >= 0 and offset + size <= packet.length)
    return offset


def load(packet: Packet, mark: str, offset: int, size: int, order: Any) -> int:
    at = place(packet, mark, offset, size)
    return int.from_bytes(packet.data[at : at + size], order)


def store(packet: Packet, mark: str, offset: int, value: int, size: int, order: Any) -> None:
    at = place(packet, mark, offset, size)
    packet.data[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, order)


def meta(packet: Packet, field: str) -> int:
    if field.startswith("has_"):
        return int(packet.mark(field[4:]) is not None)
    if field in ("mac", "net", "trans"):
        return packet.get(field) - packet.get("data")  # unset: a number that no packet reaches
    return int(getattr(packet, field))


def meta_set(packet: Packet, field: str, value: int) -> None:
    if field in ("mac", "net", "trans"):
        at = packet.get("data") + value
        need(0 <= at < 0xFFFF)
        packet.put(field, at)
    else:
        setattr(packet, field, value)


def anno(packet: Packet, offset: int, size: int, order: Any) -> int:
    return int.from_bytes(packet.anno[offset : offset + size], order)


def anno_set(packet: Packet, offset: int, value: int, size: int, order: Any) -> None:
    packet.anno[offset : offset + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, order)


def sum16(packet: Packet, mark: str, offset: int, length: int, init: int) -> int:
    at = place(packet, mark, offset, length)
    return ones_sum(bytes(packet.data[at : at + length]), init)


def copy(
    packet: Packet, mark: str, offset: int, source: Packet, source_mark: str, source_offset: int, length: int
) -> None:
    to = place(packet, mark, offset, length)
    start = place(source, source_mark, source_offset, length)
    packet.data[to : to + length] = bytes(source.data[start : start + length])


def blob_bytes(blob: Any, offset: int, length: int) -> bytes:
    need(offset + length <= len(blob.data))
    return bytes(blob.data[offset : offset + length])


def copy_blob(packet: Packet, mark: str, offset: int, blob: Any, start: int, length: int) -> None:
    to = place(packet, mark, offset, length)
    packet.data[to : to + length] = blob_bytes(blob, start, length)


def make_from(arena: Arena, blob: Any, offset: int, length: int) -> Packet | None:
    return arena.make_from(blob_bytes(blob, offset, length))


def blob_load(blob: Any, offset: int, size: int, order: Any) -> int:
    return int.from_bytes(blob_bytes(blob, offset, size), order)


# -- state ----------------------------------------------------------------------------------------------------------


def index(array: Any, at: int) -> int:
    need(at < len(array))
    return int(array[at])


def index_set(array: Any, at: int, value: int) -> None:
    need(at < len(array))
    array[at] = value


def slot_used(slots: Any, at: int) -> int:
    need(at < len(slots))
    return int(slots.used(at))


def slot_put(slots: Any, at: int, frame: int) -> None:
    need(at < len(slots) and slots.put(at, frame))


def slot_take(slots: Any, at: int) -> int:
    need(at < len(slots))
    return int(slots.take(at))


def buf_put(buffer: Any, value: int, size: int, order: Any) -> None:
    need(buffer.append((value & ((1 << 8 * size) - 1)).to_bytes(size, order)))


def buf_put_packet(buffer: Any, packet: Packet, mark: str, offset: int, length: int) -> None:
    at = place(packet, mark, offset, length)
    need(buffer.append(packet.data[at : at + length]))


# -- the engine -----------------------------------------------------------------------------------------------------


class Instance:
    """One element while it runs: its state as attributes, its code, its place."""

    def __init__(
        self, engine: Engine, number: int, linked: Linked, cells: dict[str, Any], code: dict[str, Callable[..., Any]]
    ) -> None:
        self.engine, self.number, self.linked, self.code = engine, number, linked, code
        self.counts: dict[str, int] = {}
        for name, cell in cells.items():
            setattr(self, name, cell)

    def packet(self, frame: int) -> Packet | None:
        return None if frame < 0 else Packet(self.engine.arena, frame)

    # -- packets come and go

    def take_in(self, port: int, packet: Packet) -> None:
        """A packet is pushed to input `port`."""
        self.engine.saw(self.number, port, packet)
        self.work_on(port, packet)

    def work_on(self, port: int, packet: Packet) -> None:
        if "push" in self.code:
            self.code["push"](self, port, packet)
            return
        result = self.code["process"](self, packet)
        if result is not None:
            self.leave(result[0], packet, result[1])

    def leave(self, port: int, packet: Packet, reason: int) -> None:
        """A packet is pushed out of output `port`."""
        to = self.linked.outputs[port] if port < len(self.linked.outputs) else None
        if to is None:
            self.kill(packet, reason, "no output" if port != KILL else "")
        else:
            self.engine.instances[to[0]].take_in(to[1], packet)

    def pull_input(self, port: int) -> Packet | None:
        source = self.linked.inputs[port] if port < len(self.linked.inputs) else None
        return None if source is None else self.engine.instances[source[0]].give(source[1])

    def give(self, port: int) -> Packet | None:
        """A packet is pulled from output `port`."""
        packet: Packet | None
        if "pull" in self.code:
            packet = self.code["pull"](self, port)
        else:
            packet = self.pull_input(0)
            if packet is not None:
                packet = self.process_pulled(packet)
        if packet is not None:
            self.engine.saw(self.number, port, packet)
        return packet

    def process_pulled(self, packet: Packet) -> Packet | None:
        result = self.code["process"](self, packet)
        if result is not None and result[0] == 0:
            return packet
        if result is not None:
            self.leave(result[0], packet, result[1])
        # Upstream may hold more: whoever pulled must not fall asleep on it.
        self.wake("down")
        return None

    def kill(self, packet: Packet, reason: int, otherwise: str = "") -> None:
        name = self.linked.unit.reasons[reason] if reason >= 0 else otherwise
        if name:
            self.counts[name] = self.counts.get(name, 0) + 1
        self.engine.arena.free(packet.frame)

    def release(self, *held: Packet | None) -> None:
        for packet in held:
            if packet is not None:
                self.engine.arena.free(packet.frame)

    def fault(self, *held: Packet | None) -> None:
        self.release(*held)
        self.counts["fault"] = self.counts.get("fault", 0) + 1

    # -- neighbours

    def is_ready(self, port: int) -> int:
        asked = self.linked.ready[port] if port < len(self.linked.ready) else ()
        return int(all(self.engine.call(i, "ready") for i in asked))

    def wake(self, who: str) -> None:
        own = (self.linked.task,) if self.linked.task >= 0 else ()
        for task in {"self": own, "down": self.linked.wake_down, "up": self.linked.wake_up}[who]:
            self.engine.call(0, "wake", task)

    def timer_set(self, at: int) -> None:
        self.engine.call(0, "timer_set", self.linked.timer, at)

    def timer_clear(self) -> None:
        self.engine.call(0, "timer_clear", self.linked.timer)

    def host(self, method: str, packet: Packet | None, *args: int) -> int:
        return self.engine.host(self.number, method, packet, args)


class Engine:
    """A program that can be run; see `targets/__init__` for the face all targets share."""

    def __init__(
        self,
        program: Program,
        arena: Arena,
        cells: list[dict[str, Any]],
        code: list[dict[str, Callable[..., Any]]],
        hosts: Mapping[tuple[int, str], Callable[..., int | None]],
        seed: int,
        virtual: bool,
        trace: Callable[[int, int, int], None] | None,
    ) -> None:
        self.program, self.arena, self.cells, self.hosts, self.trace = program, arena, cells, hosts, trace
        self.virtual, self.epoch_ns = virtual, 0
        self.seed = 0
        self.reseed(seed)
        self.trouble: BaseException | None = None
        self.depth = 0  # calls under way
        self.instances = [Instance(self, i, x, cells[i], code[i]) for i, x in enumerate(program.instances)]

    # -- the doors

    def run(self, count: int) -> int:
        return int(self.call(0, "run", count))

    def call(self, instance: int, function: str, *args: Any) -> Any:
        me = self.instances[instance]
        code = me.code.get(function)
        if code is None:
            raise KeyError(f"{me.linked.name} has no function {function}")
        with _Inside(self):
            return code(me, *args)

    def push(self, instance: int, port: int, frame: int) -> None:
        with _Inside(self):
            self.instances[instance].take_in(port, Packet(self.arena, frame))

    def pull(self, instance: int, port: int) -> int:
        with _Inside(self):
            packet = self.instances[instance].give(port)
        return -1 if packet is None else packet.frame

    def drops(self, instance: int) -> dict[str, int]:
        return dict(self.instances[instance].counts)

    def close(self) -> None:
        self.instances.clear()

    # -- the world

    @property
    def now_ns(self) -> int:
        return int(self.cells[0]["now"].value) if "now" in self.cells[0] else 0

    @now_ns.setter
    def now_ns(self, value: int) -> None:
        self.cells[0]["now"].value = value

    @property
    def wall_ns(self) -> int:
        return (self.now_ns + self.epoch_ns) & MASK64

    def go_on(self, old: Engine) -> None:
        """The clock and the random numbers are those of another engine, from where it is."""
        self.epoch_ns, self.seed = old.epoch_ns, old.seed

    def reseed(self, seed: int) -> None:
        self.seed = seed & MASK64

    def random(self) -> int:
        """splitmix64, the high half."""
        self.seed = (self.seed + 0x9E3779B97F4A7C15) & MASK64
        z = self.seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return (z ^ (z >> 31)) >> 32

    def run_task(self, task: int) -> int:
        return int(self.call(self.program.tasks[task], "task"))

    def fire_timer(self, timer: int) -> None:
        self.call(self.program.timers[timer], "timer")

    def saw(self, instance: int, port: int, packet: Packet) -> None:
        if self.trace is not None:
            try:
                self.trace(instance, port, packet.frame)
            except BaseException as trouble:
                self._keep(trouble)

    def host(self, instance: int, method: str, packet: Packet | None, args: tuple[int, ...]) -> int:
        """A Python method; what it raises is kept until the router is back in Python, and stops it."""
        try:
            return int(self.hosts[instance, method](*(() if packet is None else (packet,)), *args) or 0)
        except BaseException as trouble:
            self._keep(trouble)
            return 0

    def _keep(self, trouble: BaseException) -> None:
        self.trouble = self.trouble or trouble
        if "stop" in self.cells[0]:
            self.cells[0]["stop"].value = 1

    def raise_trouble(self) -> None:
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble


def inherit(new: Engine, instance: int, old: Engine, its: int, names: frozenset[str], drops: bool = True) -> None:
    """Moves state of an instance of `old`, whose code runs no more, to one of `new`; `drops`: its counts, too."""
    for name in names:
        new.cells[instance][name] = cell = old.cells[its][name]
        setattr(new.instances[instance], name, cell)
    if drops:
        new.instances[instance].counts = old.instances[its].counts


class Moving:
    """Of instances that stay as they are; here they go one by one (see `targets`)."""

    def __init__(self, new: Engine, old: Engine) -> None:
        pass

    def keep(self, instance: int, its: int) -> bool:
        return False

    def apply(self) -> None:
        pass

    def settle(self) -> None:
        pass


class _Inside:
    """A call of packet code.  A packet may cross thousands of elements in it; what a callback raised comes out of the
    outermost call only, where no packet is in anybody's hands."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> None:
        self.engine.depth += 1
        self.before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.before, 200_000))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.engine.depth -= 1
        sys.setrecursionlimit(self.before)
        if kind is None and self.engine.depth == 0:
            self.engine.raise_trouble()


__all__ = ["Engine", "Fault", "Instance", "monotonic_ns"]
