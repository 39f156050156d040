"""The module of a program: the functions of units and instances, the joints between them, and the doors.

What is emitted starts from the doors (what Python calls) and follows the names that the text refers to, so nothing
unused is compiled.

    u<k>_<function>   a function that equal instances share: it uses no connection, and takes its block's address
    i<n>_<function>   a function of instance n alone
    push<n> pull<n> ready<n>   the joints: what a neighbour calls
    door_<name>       the outside of one of these, all of one C signature: (context, block, arena, args, result),
                      where args and result are 16-byte integers

Inlining is LLVM's choice within the limits of `limits.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Program, Unit
from mezzo.ir.ops import KILL, Const
from mezzo.ir.sharing import GUARDED, PLAIN, Share
from mezzo.ir.types import BOOL
from mezzo.packet.arena import Arena
from mezzo.targets.native import limits
from mezzo.targets.native.common import Common
from mezzo.targets.native.depot import asking_depot, give_surplus
from mezzo.targets.native.frame import FRAME_AT, GONE, META_AT, PLACES, Frame, Site, find
from mezzo.targets.native.hashes import Hash, hashes_text
from mezzo.targets.native.layout import LEFT, OUT, RUNTIME, Layout, TableShape, now_offset, walk
from mezzo.targets.native.lower import helper_type
from mezzo.targets.native.lower_stmt import FAULT, leave, pull_from, run
from mezzo.targets.native.outline import PUSH_SIZE, Leave, as_push, outline, role_of, size
from mezzo.targets.native.pieces import DECLARES, PIECES, constants
from mezzo.targets.native.shared import (
    ALONE,
    FLUSH,
    Place,
    bump,
    library,
    lock,
    release_lock,
    take_lock,
    wake,
)  # fmt: skip
from mezzo.targets.native.tables import table_text
from mezzo.targets.native.text import CHAIN, Text, fill, ll, metadata

COPY_SIZE = 100  # nodes: a shorter `process` is copied into each of its instances, however many
COPIES = 400  # nodes: a longer one only while all copies together are no more than this

# Statements and expressions that depend on where the instance stands.
PLACED = (ops.Emit, ops.Pull, ops.Ready, ops.Wake, ops.TimerSet, ops.TimerClear, ops.RunTask, ops.FireTimer)
JOINT = {"push": "void", "pull": "i32", "ready": "i1"}


def shared_functions(unit: Unit) -> frozenset[str]:
    """The functions of a unit that use no connection, themselves or by calling."""
    calls, placed = {}, set()
    for function in unit.functions:
        nodes = list(walk(function.body))
        calls[function.name] = {n.function for n in nodes if isinstance(n, ops.Call | Leave)}
        if any(isinstance(n, PLACED) for n in nodes):
            placed.add(function.name)
    while grown := {name for name, called in calls.items() if called & placed} - placed:
        placed |= grown
    return frozenset(calls) - placed


class Emitter:
    """Makes the assembly of one program.  `keys[i]` numbers instance i's unit; equal units have equal numbers."""

    def __init__(
        self,
        program: Program,
        keys: list[int],
        layout: Layout,
        arena: Arena,
        trace: bool,
        place: Place | None = None,
        common: Common | None = None,
    ) -> None:
        self.keys, self.layout, self.arena, self.trace, self.place = keys, layout, arena, trace, place
        self.common = common or Common()
        self.needs: set[object] = {"kill"}
        self.first = {key: i for i, key in reversed(list(enumerate(keys)))}
        self.times = Counter(keys)
        units = {key: outline(program.instances[i].unit) for key, i in self.first.items()}
        instances = tuple(replace(x, unit=units[key]) for x, key in zip(program.instances, keys, strict=True))
        self.program = replace(program, instances=instances)
        # Code among threads depends on the place: who sleeps that a packet wakes.
        alone = {key: self.share(i).mode == PLAIN for key, i in self.first.items()}
        self.shared = {key: shared_functions(unit) if alone[key] else frozenset() for key, unit in units.items()}
        self.functions: dict[str, str] = {}
        # That nobody else touches the context and the arena while code runs lets LLVM keep counters and the pool's
        # fill in registers through a loop.  Shared functions get the context twice, so there it would be a lie.
        self.context = f"ptr noalias writable dereferenceable({layout.size}) %c"
        self.pool = f"ptr noalias writable align 4096 dereferenceable({arena.size}) %a"

    def share(self, instance: int) -> Share:
        """How an instance is shared among threads."""
        return self.place.share(instance) if self.place is not None and instance else ALONE

    def symbol(self, instance: int, function: str) -> str:
        key = self.keys[instance]
        return (f"u{key}_" if function in self.shared[key] else f"i{instance}_") + function

    def only(self, instance: int) -> str:
        """The class of all that an instance's code touches, where it is one."""
        scheduler = self.program.instances[0].unit
        return "tasks" if instance == 0 and scheduler.function("wake") is not None else ""

    def own_block(self, t: Text, instance: int) -> None:
        """Names the block of the instance that a function belongs to."""
        t.do(f"%s = getelementptr inbounds i8, ptr %c, i64 {self.layout.offsets[instance]}")

    def call(self, t: Text, instance: int, function: str, *args: str) -> str:
        """The callee and arguments of a call of an instance's function from outside."""
        symbol = self.symbol(instance, function)
        block = [f"ptr {t.gep('%c', self.layout.offsets[instance])}"] if symbol.startswith("u") else []
        return f"@{symbol}({', '.join(['ptr %c', *block, 'ptr %a', *args])})"

    def site(self, instance: int, shared: bool) -> Site:
        linked, key = self.program.instances[instance], self.keys[instance]
        return Site(
            unit=linked.unit, layout=self.layout.units[instance], arena=self.arena, prefix=f"i{instance}_",
            linked=None if shared else linked, number=instance, shared=self.shared[key], shared_prefix=f"u{key}_",
            trace=self.trace, needs=self.needs, volatile=frozenset({"stop"} if key == self.keys[0] else ()),
            only=self.only(instance), share=self.share(instance), place=self.place,
            common=self.common.names(instance), hashes=self.common.tables(instance),
        )

    # -- the whole

    def module(self, doors: Iterable[str]) -> str:
        """The assembly, given what the doors open to."""
        texts = [self._door(f"door_{target}", target) for target in doors]
        self.functions = {}
        todo = [name for text in texts for name in limits.NAME.findall(text)]
        while todo:
            name = todo.pop()
            if name not in self.functions:
                self.functions[name] = text = self._define(name)
                todo += limits.NAME.findall(text)
        texts = self._merge(texts)
        limits.fence(self.functions)
        texts = limits.cool(self.functions, texts)
        limits.fuse(self.functions, texts, self._never_fused())
        return "\n".join([DECLARES, *self._library(), *self.functions.values(), *texts,
                          metadata(self.arena.frame_size, self.arena.frames)])

    def _merge(self, doors: list[str]) -> list[str]:
        """Shared functions with the same text (helpers of one class under several configurations) become one; the
        doors, naming what is left."""
        while True:
            first: dict[str, str] = {}
            same: dict[str, str] = {}
            for name, text in self.functions.items():
                if name.startswith("u"):
                    kept = first.setdefault(text.replace(f"@{name}(", "@self("), name)
                    if kept != name:
                        same[name] = kept
            if not same:
                return doors

            def rename(text: str, same: dict[str, str] = same) -> str:
                return limits.NAME.sub(lambda m: f"@{same.get(m[1], m[1])}(", text)

            self.functions = {name: rename(text) for name, text in self.functions.items() if name not in same}
            doors = [rename(door) for door in doors]

    def _never_fused(self) -> set[str]:
        """Steps of a LoopGuard: every loop of steps has one, so fusing ends."""
        guards = [i for i, x in enumerate(self.program.instances) if x.unit.name == "LoopGuard"]
        return {name for i in guards for name in (f"push{i}", f"i{i}_push", f"i{i}_process")}

    def _library(self) -> list[str]:
        names = constants(self.arena) | {"RANDOM": str(self.layout.random)}
        wanted = self.needs | ({"make"} if "clone" in self.needs else set())
        parts = {n: PIECES[n] for n in sorted(n for n in wanted if isinstance(n, str)) if n in PIECES}
        if self.place is not None:
            parts |= {n: asking_depot(parts[n]) for n in ("make", "take_frame") if n in parts}
        pieces = [fill(text, names) for text in parts.values()]
        if self.place is not None:
            pieces += library(self.place, self.needs, self.arena, self.program)
        shapes = sorted((n for n in wanted if isinstance(n, TableShape)), key=repr)
        kernels = hashes_text([n for n in wanted if isinstance(n, Hash)])
        return [*pieces, *(table_text(shape) for shape in shapes), *kernels]

    def _define(self, name: str) -> str:
        if match := re.fullmatch(r"(push|pull|ready|leave)(\d+)", name):
            return getattr(self, f"_{match[1]}_joint")(int(match[2]))  # type: ignore[no-any-return]
        if match := re.fullmatch(r"([ui])(\d+)_([\w.]+)", name):
            instance = self.first[int(match[2])] if match[1] == "u" else int(match[2])
            return self._function(instance, match[3], name, match[1] == "u")
        return getattr(self, f"_{name}")()  # type: ignore[no-any-return]

    # -- functions of units

    def _function(self, instance: int, name: str, symbol: str, shared: bool) -> str:
        site = self.site(instance, shared)
        function = site.unit.function(name)
        assert function is not None, f"{site.unit.name} has no function {name}"
        first = ["ptr %c", "ptr %s", "ptr %a"] if shared else [self.context, self.pool]
        placed = name in ("process", "push")
        params = [*first, *(f"{ll(p.type)} %v.{p.name}" for p in function.params), *([PLACES] if placed else [])]
        role = role_of(name)
        cc = CHAIN if role in ("process", "push") else "fastcc"
        rare = " cold noinline" if role != name or function.rare else ""
        head = f"define internal {cc} {self.result(function)} @{symbol}({', '.join(params)}){rare}"
        frame = Frame(site, function, head, owned=placed or role != name, placed=placed)
        if not shared:
            self.own_block(frame.t, instance)
        if role in FAULT and role == name:
            lock(frame)
        if run(frame, function.body):
            leave(frame)
        fault = FAULT.get(role) or f"ret {helper_type(function.ret)} {self._failed(function)}"
        frame.fault_block(fault, counted=role in FAULT)
        return frame.t.finish()

    @staticmethod
    def result(function: Function) -> str:
        role = role_of(function.name)
        if role == "process":
            return "{ i32, i32 }"
        if role in FAULT:
            return FAULT[role].split()[1]
        return helper_type(function.ret)

    @staticmethod
    def _failed(function: Function) -> str:
        type = ll(function.ret)
        return "{ i1 true }" if type == "void" else f"{{ i1 true, {type} 0 }}"

    # -- joints

    def _joint(self, kind: str, instance: int, params: str) -> tuple[Text, Frame]:
        """A frame for the instance's side of a joint."""
        cc = CHAIN if kind == "push" else "fastcc"
        head = f"define internal {cc} {JOINT[kind]} @{kind}{instance}({self.context}, {self.pool}{params})"
        frame = Frame(self.site(instance, False), Function(kind, (), BOOL, ()), head, owned=False)
        self.own_block(frame.t, instance)
        return frame.t, frame

    def _leave_joint(self, i: int) -> str:
        """Sends a packet on by a port that a rare branch said."""
        params = f"{self.context}, {self.pool}, i32 %port, i32 %reason, i32 %p"
        head = f"define internal fastcc void @leave{i}({params}) cold noinline"
        frame = Frame(self.site(i, False), Function("leave", (), BOOL, ()), head, owned=False)
        t = frame.t
        self.own_block(t, i)
        find(t, self.arena, "%p", (META_AT, FRAME_AT))
        t.do("%r0 = insertvalue { i32, i32 } undef, i32 %port, 0")
        t.do("%r = insertvalue { i32, i32 } %r0, i32 %reason, 1")
        self._dispatch(frame, self.program.instances[i], 0)
        t.do("ret void")
        return t.finish()

    def _process_joint(self, i: int, process: Function) -> str:
        """`process` of one instance, pushing where it would return a port."""
        function = as_push(process)
        packet = function.params[1].name
        params = f"{self.context}, {self.pool}, i32 %v.port, i32 %v.{packet}, {PLACES}"
        head = f"define internal {CHAIN} void @push{i}({params})"
        frame = Frame(self.site(i, False), function, head, owned=True, placed=True)
        self.own_block(frame.t, i)
        if self.trace:
            frame.t.do(f"call fastcc void @trace(ptr %c, ptr %a, i32 {i}, i32 %v.port, i32 %v.{packet})")
        if run(frame, function.body):
            leave(frame)
        frame.fault_block(FAULT["push"], counted=True)
        return frame.t.finish()

    def _worth_copying(self, i: int, process: Function) -> bool:
        """Whether each instance of a unit gets a `process` of its own."""
        if self.share(i).mode == GUARDED:
            return False  # it lets its lock go when it returns, before the packet goes on
        nodes, times = size(process.body), self.times[self.keys[i]]
        return times == 1 or nodes <= COPY_SIZE or (nodes <= PUSH_SIZE and nodes * times <= COPIES)

    def _push_joint(self, i: int) -> str:
        text = self._push(i)
        if not self.trace:
            return text
        end = f"call fastcc void @trace(ptr %c, ptr %a, i32 {i}, i32 {LEFT}, i32 0)"
        return text.replace("  ret void\n", f"  {end}\n  ret void\n")

    def _push(self, i: int) -> str:
        unit = self.program.instances[i].unit
        process = unit.function("process")
        if process is not None and self._worth_copying(i, process):
            return self._process_joint(i, process)
        t, frame = self._joint("push", i, f", i32 %port, i32 %p, {PLACES}")
        if self.trace:
            t.do(f"call fastcc void @trace(ptr %c, ptr %a, i32 {i}, i32 %port, i32 %p)")
        if unit.function("process"):
            t.do(f"%r = call {CHAIN} {{ i32, i32 }} {self.call(t, i, 'process', 'i32 %p', PLACES)}")
            self._dispatch(frame, self.program.instances[i], 0)
        elif unit.function("push"):
            t.do(f"call {CHAIN} void {self.call(t, i, 'push', 'i32 %port', 'i32 %p', PLACES)}")
        else:
            frame.kill("%p")
            frame.count(-2)
        t.do("ret void")
        return t.finish()

    def _dispatch(self, frame: Frame, linked: Linked, first: int) -> None:
        """Sends packet %p on by the port in %r; outputs below `first` are not asked.  Ends in the block `sent`."""
        t = frame.t
        t.do("%rp = extractvalue { i32, i32 } %r, 0")
        t.do("%rr = extractvalue { i32, i32 } %r, 1")
        possible = _ports(linked.unit)
        ways = [
            (i, to)
            for i, to in enumerate(linked.outputs)
            if i >= first and to is not None and (possible is None or i in possible)
        ]
        killed = possible is None or KILL in possible
        lost = possible is None or bool(possible - {i for i, _ in ways} - {KILL})
        cases = [f"i32 {GONE}, label %sent"] + [f"i32 {KILL}, label %killed"] * killed
        cases += [f"i32 {i}, label %way{i}" for i, _ in ways]
        t.do(f"switch i32 %rp, label %{'lost' if lost or killed else 'sent'} [{' '.join(cases)}]")
        for i, (instance, port) in ways:
            t.at(f"way{i}")
            t.do(f"call {CHAIN} void @push{instance}(ptr %c, ptr %a, i32 {port}, i32 %p, {PLACES})")
            t.jump("sent")
        if killed:
            t.at("killed")
            t.branch(t.op("icmp eq i32 %rr, -1"), "quiet", "lost")
            t.at("quiet")
            frame.kill("%p")
            t.jump("sent")
        if killed or lost:
            t.at("lost")
            frame.kill("%p")
            wide = t.op("sext i32 %rr to i64")
            at = t.op(f"getelementptr inbounds i64, ptr %s, i64 {wide}")
            bump(t, at, frame.site.layout.drop(0), frame.site.share)
            t.jump("sent")
        t.at("sent")

    def _pull_joint(self, i: int) -> str:
        t, frame = self._joint("pull", i, ", i32 %port")
        linked = self.program.instances[i]
        if not linked.unit.function("process"):
            assert linked.unit.function("pull"), f"{linked.name} cannot be pulled from"
            t.do(f"%p = call fastcc i32 {self.call(t, i, 'pull', 'i32 %port')}")
            self._trace_out(t, i)
            t.do("ret i32 %p")
            return t.finish()
        got = pull_from(frame, 0)
        t.do(f"%p = add i32 {got}, 0")
        t.branch(t.op("icmp eq i32 %p, -1"), "none", "some")
        t.at("none")
        t.do("ret i32 -1")
        t.at("some")
        find(t, self.arena, "%p", (META_AT, FRAME_AT))
        t.do(f"%r = call {CHAIN} {{ i32, i32 }} {self.call(t, i, 'process', 'i32 %p', PLACES)}")
        t.do("%first = extractvalue { i32, i32 } %r, 0")
        t.branch(t.op("icmp eq i32 %first, 0"), "out", "other")
        t.at("out")
        self._trace_out(t, i)
        t.do("ret i32 %p")
        t.at("other")
        self._dispatch(frame, linked, 1)
        wake(t, self.place, self.needs, linked.wake_down)
        t.do("ret i32 -1")
        return t.finish()

    def _trace_out(self, t: Text, i: int) -> None:
        if self.trace:
            t.do(f"%out.port = or i32 %port, {OUT}")
            t.do(f"call fastcc void @trace(ptr %c, ptr %a, i32 {i}, i32 %out.port, i32 %p)")

    def _ready_joint(self, i: int) -> str:
        t, _ = self._joint("ready", i, "")
        t.do(f"%r = call fastcc i1 {self.call(t, i, 'ready')}")
        t.do("ret i1 %r")
        return t.finish()

    # -- the scheduler's side

    def _scheduler_call(self, name: str, params: list[str]) -> str:
        """A call of a function of instance 0; a router without it (a test's) does without."""
        head = f"define internal fastcc void @{name}({', '.join([self.context, self.pool, *params])}) noinline"
        t = Text(head, self.only(0))
        function = self.program.instances[0].unit.function(name)
        if function is not None:
            type = helper_type(function.ret)
            t.do(f"%r = call fastcc {type} {self.call(t, 0, name, *params)}")
            self.own_block(t, 0)
            self._count_failure(t, 0, type)
        t.do("ret void")
        return t.finish()

    def _count_failure(self, t: Text, instance: int, type: str) -> None:
        """Counts a fault of the helper that returned %r."""
        bad = t.op(f"extractvalue {type} %r, 0")
        t.branch(bad, "bad", "good")
        t.at("bad")
        t.bump("%s", self.layout.units[instance].drop(-2))
        t.jump("good")
        t.at("good")

    def _wake(self) -> str:
        return self._scheduler_call("wake", ["i32 %task"])

    def _timer_set(self) -> str:
        return self._scheduler_call("timer_set", ["i32 %timer", "i64 %at"])

    def _timer_clear(self) -> str:
        return self._scheduler_call("timer_clear", ["i32 %timer"])

    def _run_task(self) -> str:
        return self._by_number("run_task", "i1", self.program.tasks, "task", "false")

    def _fire_timer(self) -> str:
        return self._by_number("fire_timer", "void", self.program.timers, "timer", "")

    def _by_number(self, name: str, type: str, owners: tuple[int, ...], role: str, other: str) -> str:
        t = Text(f"define internal fastcc {type} @{name}({self.context}, {self.pool}, i32 %n)")
        own = self._own(owners, role)
        cases = " ".join(f"i32 {n}, label %n{n}" for n, _ in own)
        t.do(f"switch i32 %n, label %none [{cases}]")
        for n, owner in own:
            t.at(f"n{n}")
            call, result = f"call fastcc {type} {self.call(t, owner, role)}", ""
            if other:
                result = t.op(call)
            else:
                t.do(call)
            if self.place is not None:
                t.do(FLUSH)
                give_surplus(t, self.arena)
            t.do(f"ret {type} {result}".rstrip())
        t.at("none")
        t.do(f"ret {type} {other}")
        return t.finish()

    def _own(self, owners: tuple[int, ...], role: str) -> list[tuple[int, int]]:
        """(number, owner) of the tasks or timers that this thread runs."""
        if self.place is None:
            return list(enumerate(owners))
        threads = self.place.threading.tasks if role == "task" else self.place.threading.timers
        return [(n, owner) for n, owner in enumerate(owners) if threads[n] == self.place.thread]

    def _trace(self) -> str:
        t = Text("define internal fastcc void @trace(ptr %c, ptr %a, i32 %i, i32 %port, i32 %p)")
        t.branch(t.op("icmp eq i32 %p, -1"), "done", "call")
        t.at("call")
        t.do(f"call void {t.load('ptr', '%c', RUNTIME['trace'], 'desc')}(i32 %i, i32 %port, i32 %p, ptr %c, ptr %a)")
        t.jump("done")
        t.at("done")
        t.do("ret void")
        return t.finish()

    def _now(self) -> str:
        t = Text("define internal fastcc i64 @now(ptr %c) alwaysinline", self.only(0))
        t.do(f"ret i64 {t.load('i64', '%c', now_offset(self.program, self.layout))}")
        return t.finish()

    # -- doors

    def _door(self, door: str, target: str) -> str:
        only = self.only(0) if re.match(r"[ui]0_", target) else ""
        t = Text(f"define void @{door}(ptr %c, ptr %s, ptr %a, ptr %args, ptr %result)", only)
        if match := re.fullmatch(r"(push|pull)(\d+)", target):
            port = t.op("load i32, ptr %args")
            if match[1] == "push":
                frame = t.op(f"load i32, ptr {t.gep('%args', 16)}")
                find(t, self.arena, frame, (META_AT, FRAME_AT))
                t.do(f"call {CHAIN} void @{target}(ptr %c, ptr %a, i32 {port}, i32 {frame}, {PLACES})")
            else:
                self._door_result(t, t.op(f"call fastcc i32 @{target}(ptr %c, ptr %a, i32 {port})"), "i32", False)
        else:
            self._door_function(t, target)
        if self.place is not None:
            t.do(FLUSH)
        t.do("ret void")
        return t.finish()

    def _door_function(self, t: Text, target: str) -> None:
        match = re.fullmatch(r"([ui])(\d+)_([\w.]+)", target)
        assert match is not None
        instance = self.first[int(match[2])] if match[1] == "u" else int(match[2])
        function = self.program.instances[instance].unit.function(match[3])
        assert function is not None
        args = ["ptr %c", "ptr %s", "ptr %a"] if match[1] == "u" else ["ptr %c", "ptr %a"]
        for i, param in enumerate(function.params):
            raw = t.op(f"load i128, ptr {t.gep('%args', 16 * i)}, align 8")
            args.append(f"{ll(param.type)} {t.widen(raw, 'i128', ll(param.type))}")
        type = self.result(function)
        call = f"call fastcc {type} @{target}({', '.join(args)})"
        guarded = self.share(instance).mode == GUARDED and function.name not in FAULT
        if guarded:
            take_lock(t, self.layout.units[instance])
        self._call_door(t, function, call, type, instance)
        if guarded:
            release_lock(t, self.layout.units[instance])

    def _call_door(self, t: Text, function: Function, call: str, type: str, instance: int) -> None:
        """The call of a door, and its result where it has one."""
        if type == "void":
            t.do(call)
        elif function.name in FAULT:
            self._door_result(t, t.op(call), type, False)
        else:
            t.do(f"%r = {call}")
            self._count_failure(t, instance, type)
            if ll(function.ret) != "void":
                result = t.op(f"extractvalue {type} %r, 1")
                self._door_result(t, result, ll(function.ret), function.ret.signed)

    @staticmethod
    def _door_result(t: Text, value: str, type: str, signed: bool) -> None:
        t.do(f"store i128 {t.widen(value, type, 'i128', signed)}, ptr %result, align 8")


def _ports(unit: Unit) -> set[int] | None:
    """The ports that `process` can say, None when that is computed."""
    bodies = [f.body for f in unit.functions if role_of(f.name) == "process"]
    values = [n.value for body in bodies for n in walk(body) if isinstance(n, ops.Return) and n.value is not None]
    return {v.value for v in values if isinstance(v, Const)} if all(isinstance(v, Const) for v in values) else None
