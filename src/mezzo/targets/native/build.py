"""From a program to an engine: layout, then object code (from disk or from LLVM), then memory with its contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache as once
from functools import cached_property
from typing import TYPE_CHECKING, Any

import llvmlite
import llvmlite.binding as llvm

from mezzo.base.cache import load, save
from mezzo.ir.module import Program
from mezzo.ir.sharing import Threading
from mezzo.packet.arena import Arena
from mezzo.targets.native import cache as disk
from mezzo.targets.native.common import Common
from mezzo.targets.native.layout import Layout
from mezzo.targets.native.run import Engine

if TYPE_CHECKING:
    from mezzo.targets.native.emit import Emitter
    from mezzo.targets.native.shared import Place
    from mezzo.targets.native.threads import Engines

Host = Callable[..., int | None]
INLINE = 225  # LLVM's own threshold at O2
LARGE = 8000  # lines of assembly: beyond, LLVM's shorter pipeline


@once
def machine(opt: int = 2) -> tuple[Any, str]:
    """(LLVM's target machine of this CPU, a text that names it); `opt`: how well machine code is chosen."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The context has a use per counter and more; past the usual 100 uses LLVM gives up proving that nobody else sees
    # it, and with that the right to keep counters in registers.
    llvm.set_option("mezzo", "--capture-tracking-max-uses-to-explore=2000")
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    made = target.create_target_machine(cpu=cpu, features=features, opt=opt, reloc="pic", codemodel="small", jit=True)
    return made, f"{llvmlite.__version__} {target.triple} {cpu} {features}"


def compile_text(text: str) -> bytes:
    """Assembly to object code."""
    made, _ = machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = made.triple, str(made.target_data)
    # A large module spends its time in misses and calls: the shorter pipeline takes a quarter less time.  What it lacks
    # most is jump threading: without, fused steps test again what the step before found out (25.9 for 21.0 ns a packet
    # in the IP router; the whole long pipeline gains no more).
    large = text.count("\n") > LARGE
    options = llvm.create_pipeline_tuning_options(speed_level=1 if large else 2)
    options.inlining_threshold, options.loop_unrolling = INLINE, not large
    # Vectorising the short loops of packet code costs a tenth of the compile time and gains nothing; unrolling gains.
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(made, options)
    passes = builder.getModulePassManager()
    if large:
        passes.add_jump_threading_pass()
    passes.run(module, builder)
    return bytes(made.emit_object(module))


def compile_quickly(text: str) -> bytes:
    """Assembly to object code that does the same, in a tenth of the time, several times slower."""
    made, _ = machine(0)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = made.triple, str(made.target_data)
    return bytes(made.emit_object(module))


def always_doors(
    program: Program, symbol: Callable[[int, str], str], mine: Callable[[int], bool] = lambda i: True
) -> list[str]:
    """What the doors that every engine has open to: entries, init, and ports that nobody is connected to; of the
    instances that are `mine`."""
    pushed = {to for x in program.instances for to in x.outputs if to is not None}
    asked = {to for x in program.instances for to in x.inputs if to is not None}
    found: list[str] = []
    for i, linked in enumerate(program.instances):
        if not mine(i):
            continue
        found += [symbol(i, f.name) for f in linked.unit.functions if f.entry or f.name in ("init", "run")]
        roles = {f.name for f in linked.unit.functions}
        if roles & {"process", "push"} and not any(linked.pull_inputs) and not _all_known(i, linked.inputs, pushed):
            found.append(f"push{i}")
        if roles & {"process", "pull"} and any(
            pull and (i, port) not in asked for port, pull in enumerate(linked.pull_outputs)
        ):
            found.append(f"pull{i}")
    return list(dict.fromkeys(found))


def _all_known(instance: int, inputs: tuple[object, ...], pushed: set[tuple[int, int]]) -> bool:
    return all((instance, port) in pushed for port in range(max(len(inputs), 1)))


def apart(keys: list[int], place: Place) -> list[int]:
    """Numbers of units, different where they are shared differently among threads."""
    known: dict[object, int] = {}
    shares = [place.share(i) if i else None for i in range(len(keys))]
    return [known.setdefault((key, s and s.code()), len(known)) for key, s in zip(keys, shares, strict=True)]


@dataclass(frozen=True)
class Draft:
    """What LLVM is to make object code of, to be kept on disk under a name."""

    name: str
    head: bytes
    text: str

    def finished(self) -> bytes:
        kept = self.head + compile_text(self.text)
        if self.name:
            save(self.name, kept)
        return kept


@dataclass(frozen=True)
class Linked:
    """Object code in this process, and the names that its doors open to."""

    doors: frozenset[str]
    library: Any
    engine: Any


class Code:
    """The loaded object code of a program; more doors are made when somebody asks (by compiling once more).

    What is kept on disk is one line of JSON, the names that doors open to, then the object code: which functions equal
    instances share, and so how doors are called, shows only in bodies, and `program` may be of skeletons.

    In a `hurry` what is not on disk is compiled quickly for now; `draft` is to be compiled well (see finish).
    """

    def __init__(
        self,
        program: Program,
        arena: Arena,
        trace: bool,
        cache: bool,
        whole: Callable[[], Program] | None = None,
        place: Place | None = None,
        common: Common | None = None,
        hurry: bool = False,
    ) -> None:
        self.hurry = hurry
        self.draft: Draft | None = None
        self.program, self.arena, self.trace, self.cache, self.place = program, arena, trace, cache, place
        self.whole, self.common = whole or (lambda: program), common
        self.keys, self.units = disk.unit_keys(program)
        if common is not None:
            self.keys = common.apart(self.keys)
        if place is None:
            self.layout = Layout.of(program, self.keys)
            self.layout = self.layout if common is None else self.layout.with_common(common)
        else:
            self.keys = apart(self.keys, place)
            self.layout = place.layout.seen_by(place.thread, place.schedulers[place.thread])
        self.from_disk = False
        self.wanted: list[str] = []  # doors beyond those that are always there
        self.engines: list[Any] = []  # all that were linked: doors handed out before must stay good
        self._load()

    @cached_property
    def emitter(self) -> Emitter:
        """Only for a program whose code is not on disk."""
        # It needs the IR's classes, which take longer to make than code to load.
        from mezzo.targets.native.emit import Emitter

        return Emitter(self.whole(), self.keys, self.layout, self.arena, self.trace, self.place, self.common)

    def _load(self) -> None:
        """Makes or finds the object code and links it into this process."""
        arena = self.arena
        more = [machine()[1], arena.frames, arena.frame_size, self.trace, self.wanted]
        more += [self.place.text()] if self.place is not None else []
        more += [self.common.text()] if self.common is not None else []
        name = disk.key(self.program, self.keys, self.units, more)
        kept = load(name) if self.cache else None
        self.from_disk = kept is not None
        self.draft = None
        if kept is None:
            doors = self._targets()
            head, text = json.dumps(doors).encode() + b"\n", self.emitter.module(doors)
            if self.hurry:
                self.draft = Draft(name if self.cache else "", head, text)
                kept = head + compile_quickly(text)
            else:
                kept = Draft(name if self.cache else "", head, text).finished()
        self._take(self.link(kept))

    def _take(self, ready: Linked) -> None:
        self.doors, self.linked = ready.doors, ready.library
        self.engines.append((ready.library, ready.engine))

    def take_finished(self, draft: Draft, ready: Linked) -> list[int]:
        """Well compiled code takes the place of the quick one, at the same doors; where these were.  None, where there
        are more doors meanwhile.  LLVM, which may be at work for somebody else, is not waited for."""
        if self.draft is not draft:
            return []
        before = [int(self.linked[f"door_{door}"]) for door in self.doors]
        self.draft = None
        self._take(ready)
        return before

    def _targets(self) -> list[str]:
        return [*dict.fromkeys([*always_doors(self.program, self.emitter.symbol, self._mine), *self.wanted])]

    def _mine(self, instance: int) -> bool:
        """Whether this code is where Python calls the instance."""
        place = self.place
        if place is None or instance == 0:
            return True
        return place.threading.homes[instance] == place.thread and instance not in place.schedulers

    def link(self, kept: bytes) -> Linked:
        """JITLink puts all sections in one piece: they address each other by 32 bits, and between free places of the
        address space there may lie gigabytes of arenas."""
        head, _, code = kept.partition(b"\n")
        doors = frozenset(json.loads(head))
        made = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
        engine = llvm.create_lljit_compiler(made, use_jit_link=True)
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for door in [*doors, *(["refill"] if self.place is not None else [])]:
            library.export_symbol(f"door_{door}")
        return Linked(doors, library.link(engine, "program"), engine)

    def function_door(self, instance: int, function: str) -> int:
        """The address of the door to a function of an instance."""
        names = (f"u{self.keys[instance]}_{function}", f"i{instance}_{function}")
        known = next((name for name in names if name in self.doors), None)
        return self.door(known or self.emitter.symbol(instance, function))

    def door(self, target: str) -> int:
        """The address of the door to `target`."""
        if target not in self.doors:
            self.wanted.append(target)
            self._load()
        return int(self.linked[f"door_{target}"])

    def assembly(self) -> str:
        """The LLVM assembly, before optimisation: for the curious."""
        return self.emitter.module(self._targets())


def build(
    program: Program,
    arena: Arena,
    cells: list[dict[str, Any]],
    hosts: Mapping[tuple[int, str], Host],
    *,
    seed: int = 1,
    virtual: bool = False,
    trace: Callable[[int, int, int], None] | None = None,
    cache: bool = True,
    whole: Callable[[], Program] | None = None,
    threading: Threading | None = None,
    common: Common | None = None,
    hurry: bool = False,
) -> Engine | Engines:
    """An engine that runs `program` on `arena`; the contents of `cells` are taken over.  In a `hurry` its code may be
    one that is soon there, and slow; `finish` has it compiled well."""
    if threading is not None:
        from mezzo.targets.native.threads import build_threads

        assert trace is None and not virtual, "tracing and a virtual clock are for one thread"
        more: dict[str, Any] = {"seed": seed, "cache": cache, "whole": whole, "common": common, "hurry": hurry}
        return build_threads(program, arena, cells, hosts, threading, **more)
    code = Code(program, arena, trace is not None, cache, whole, common=common, hurry=hurry)
    return Engine(code, cells, hosts, seed=seed, virtual=virtual, trace=trace)
