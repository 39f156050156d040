"""One function being lowered: its variables, what it owns, its packets' addresses, and its fault block.

Packet locals are stack words holding a frame number, -1 for none; a use that consumes writes -1.  So the fault block,
one per function and cold, kills whatever is still held without knowing the path that led there; after mem2reg it is
a few phis.  Parameters are never rebound, hence their addresses are made once, at the top.  What was loaded or checked
before on the same path is not loaded or checked again: see facts.py.

Checks compare offsets in the frame, in 64 bits, without wrap (nuw nsw): that form LLVM's constraint elimination
understands, so a check implied by an earlier one on the same path goes away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mezzo.ir.module import Function, Linked, State, Unit
from mezzo.ir.ops import Const, Expr, Local, Node
from mezzo.ir.sharing import Share
from mezzo.ir.types import BOOL, PACKET, U32, U64, Type
from mezzo.packet.arena import META, META_SIZE, UNSET, Arena
from mezzo.targets.native.facts import NOTHING, Facts
from mezzo.targets.native.layout import UnitLayout, field_names, mem_bytes
from mezzo.targets.native.shared import ALONE, Place, bump, unlock
from mezzo.targets.native.text import COLD, RANGE, Text, ll, ll_mem

META_AT, FRAME_AT = "%meta", "%frame"
PLACES = f"i64 {META_AT}, i64 {FRAME_AT}"  # parameters: what `find` found
GONE = 0xFFFF_FFFE  # a returned port: the packet was consumed before

# Statements that bind a packet local, and those that bind another.
BINDS_PACKET = ("Make", "MakeFrom", "Clone", "Pull", "RingPop", "SlotTake", "Adopt")
BINDS = {"TablePut": BOOL, "TableDel": BOOL, "RunTask": BOOL, "ReadClock": U64, "For": U32, "Lend": U32}


@dataclass
class Site:
    """Where a function stands.  `linked` is None for code that equal instances share."""

    unit: Unit
    layout: UnitLayout
    arena: Arena
    prefix: str  # of the symbols of the unit's functions
    linked: Linked | None = None
    number: int = -1  # of the instance
    shared: frozenset[str] = frozenset()  # functions of the unit that are shared
    shared_prefix: str = ""
    trace: bool = False
    only: str = ""  # the class of memory that everything in the block is
    volatile: frozenset[str] = frozenset()  # scalars that another thread may write
    common: frozenset[str] = frozenset()  # scalars and arrays that another level works on
    hashes: frozenset[str] = frozenset()  # tables that are the kernel's
    share: Share = ALONE  # among threads
    place: Place | None = None  # the thread that the code is for, where there are several
    needs: set[object] = field(default_factory=set)  # pieces of the library, table shapes

    def call(self, function: str, args: list[str]) -> str:
        """The callee and arguments of a call of one of the unit's functions; `%s` is the block."""
        if function in self.shared:
            return f"@{self.shared_prefix}{function}({', '.join(['ptr %c', 'ptr %s', 'ptr %a', *args])})"
        return f"@{self.prefix}{function}({', '.join(['ptr %c', 'ptr %a', *args])})"


def find(t: Text, arena: Arena, frame: str, names: tuple[str, str] | None = None) -> tuple[str, str]:
    """Where the metadata and the bytes of a frame are, from the start of their tables.  Along the graph they are handed
    on with the packet: else each step would compute them anew, a tenth of the instructions of an IP router."""
    meta, data = names or (t.name(), t.name())
    # In 32 bits, as in pieces.py: LLVM narrows some shifts and not others, and then does not see that they are equal.
    t.do(f"{meta} = zext i32 {t.op(f'shl nuw i32 {frame}, {META_SIZE.bit_length() - 1}')} to i64")
    t.do(f"{data} = shl nuw nsw i64 {t.op(f'zext i32 {frame} to i64')}, {arena.frame_size.bit_length() - 1}")
    return meta, data


def local_types(node: object, found: dict[str, Type]) -> None:
    """The locals that statements below `node` bind."""
    if isinstance(node, tuple):
        for item in node:
            local_types(item, found)
        return
    kind = type(node).__name__
    if kind in BINDS_PACKET:
        found[node.name] = PACKET  # type: ignore[attr-defined]
    elif kind in BINDS:
        name = node.done if kind.startswith("Table") else node.name  # type: ignore[attr-defined]
        found.update({name: BINDS[kind]} if name else {})
    elif kind == "Set":
        found[node.name] = node.value.type  # type: ignore[attr-defined]
    for name in field_names(type(node)) if isinstance(node, Node) else ():
        value = getattr(node, name)
        if isinstance(value, tuple):
            local_types(value, found)


class Frame:
    """The state of lowering one function; `ops` and `stmts` hold the ops themselves."""

    def __init__(self, site: Site, function: Function, head: str, owned: bool, placed: bool = False) -> None:
        self.site, self.function = site, function
        # The parameter whose places are parameters too.
        self.placed = next((p.name for p in function.params if placed and p.type is PACKET), "")
        self.t = Text(head, site.only)
        self.faults = False
        self.loops: list[tuple[str, str]] = []  # (continue, break) labels
        self.types: dict[str, Type] = {}
        self.slots: dict[str, str] = {}
        self.owned: list[str] = []
        self.anchors: dict[tuple[str, str], str] = {}  # of parameters: addresses of metadata and frame
        self.facts = Facts()
        local_types(function.body, self.types)
        self._declare(owned)

    def _declare(self, owned: bool) -> None:
        params = {p.name for p in self.function.params}
        for param in self.function.params:
            self.types[param.name] = param.type
            self.slots[param.name] = self.t.slot(ll(param.type), f"%v.{param.name}", f"%s.{param.name}")
            if param.type is PACKET and owned:
                self.owned.append(param.name)
        for name, type in self.types.items():
            if name not in params:
                self.slots[name] = self.t.slot(ll(type), "-1" if type is PACKET else "0", f"%s.{name}")
                self.owned += [name] if type is PACKET else []

    # -- locals

    def is_param(self, name: str) -> bool:
        return any(p.name == name for p in self.function.params)

    def read(self, name: str) -> str:
        if self.types[name] is PACKET and self.is_param(name):
            return f"%v.{name}"
        return self.t.op(f"load {ll(self.types[name])}, ptr {self.slots[name]}")

    def bind(self, name: str, value: str) -> None:
        if name:
            if self.types[name] is PACKET:
                self.facts.forget(name)
            self.t.do(f"store {ll(self.types[name])} {value}, ptr {self.slots[name]}")

    def consumed(self, packet: Expr) -> None:
        """The packet local is used up; from here on nobody here holds it."""
        assert isinstance(packet, Local), "only a local can be consumed"
        self.facts.forget(packet.name)
        self.t.do(f"store i32 -1, ptr {self.slots[packet.name]}")

    # -- state

    def state(self, name: str) -> tuple[State, int]:
        return self.site.unit.state(name), self.site.layout.states[name]

    def descriptor(self, name: str) -> str:
        return self.t.gep("%s", self.site.layout.states[name])

    def load_value(self, type: Type, base: str, offset: int, tag: str, volatile: str = "") -> str:
        raw = self.t.load(volatile + ll_mem(type), base, offset, tag)
        return raw if ll_mem(type) == ll(type) else self.t.op(f"trunc {ll_mem(type)} {raw} to {ll(type)}")

    def store_value(self, type: Type, value: str, base: str, offset: int, tag: str, volatile: str = "") -> None:
        self.t.store(ll_mem(type), self.as_mem(type, value), base, offset, tag, volatile)

    def volatile(self, name: str) -> str:
        """How a state is loaded and stored: each time, where somebody else may change it."""
        return "volatile " if name in self.site.volatile or name in self.site.common else ""

    def as_mem(self, type: Type, value: str) -> str:
        return self.t.widen(value, ll(type), ll_mem(type))

    def element(self, state: State, index: str) -> str:
        """The address of element `index` (i32) of a checked array."""
        self.check(self.t.op(f"icmp ult i32 {index}, {state.size}"))
        wide = self.t.widen(index, "i32", "i64")
        at = self.t.op(f"mul nuw nsw i64 {wide}, {mem_bytes(state.type)}")
        return at

    # -- faults

    def check(self, good: str) -> None:
        """Goes on where `good`, else faults."""
        self.faults = True
        label = self.t.label("ok")
        self.t.branch(good, label, "fault", COLD)
        self.t.at(label)

    def count(self, reason: int) -> None:
        bump(self.t, "%s", self.site.layout.drop(reason), self.site.share)

    def kill(self, frame: str) -> None:
        self.site.needs.add("kill")
        self.t.do(f"call fastcc void @kill(ptr %a, i32 {frame})")

    def drop(self, frame: str, reason: int) -> None:
        """The packet dies, counted under `reason`."""
        how = "drop_shared" if self.site.share.several else "drop"
        self.site.needs.add(how)
        at = self.t.gep("%s", self.site.layout.drop(reason))
        self.t.do(f"call fastcc void @{how}(ptr %a, i32 {frame}, ptr {at})")

    def fault_block(self, leave: str, counted: bool) -> None:
        """The cold end: count, kill what is held, leave; by a jump to `release` where nothing is returned."""
        if not self.faults:
            return
        self.t.at("fault")
        if counted:
            self.count(-2)
        for name in self.owned:
            self.site.needs.add("release")
            frame = self.t.op(f"load i32, ptr {self.slots[name]}")
            self.t.do(f"call fastcc void @release(ptr %a, i32 {frame})")
        if counted:
            unlock(self)
        self.t.do(leave)

    # -- packets

    def anchor(self, packet: Expr) -> tuple[str, str]:
        """(address of the metadata, address of the frame)."""
        name = packet.name if isinstance(packet, Local) else ""
        known = self.anchors if self.is_param(name) else self.facts.values
        if (name, "meta") not in known:
            lines = self.t.lines
            if known is self.anchors:
                self.t.lines = self.t.slots  # at the top, hence good everywhere
            places = (META_AT, FRAME_AT) if name == self.placed else find(self.t, self.site.arena, self.read(name))
            known[name, "meta"], known[name, "frame"] = self._addresses(*places)
            known[name, "places"] = f"i64 {places[0]}, i64 {places[1]}"
            self.t.lines = lines
        return known[name, "meta"], known[name, "frame"]

    def places(self, packet: Local) -> str:
        """The arguments that go with a packet: see `find`."""
        self.anchor(packet)
        return (self.anchors if self.is_param(packet.name) else self.facts.values)[packet.name, "places"]

    def addresses(self, frame: str) -> tuple[str, str]:
        """Of the metadata and the frame of a frame number."""
        return self._addresses(*find(self.t, self.site.arena, frame))

    def _addresses(self, meta_at: str, frame_at: str) -> tuple[str, str]:
        arena = self.site.arena
        meta = self.t.gep(self.t.gep("%a", meta_at), arena.meta_offset)
        return meta, self.t.gep(self.t.gep("%a", frame_at), arena.data_offset)

    def meta(self, packet: Expr, name: str) -> str:
        """A field of the metadata, as it lies there."""
        at, size = META[name]
        extra = RANGE if name in ("data", "end") else ""
        return self.t.load(f"i{8 * size}", self.anchor(packet)[0], at, "meta", extra)

    def place(self, packet: Expr, name: str) -> str:
        """`data`, `end` or a mark, from the start of the frame (i64)."""
        assert isinstance(packet, Local)
        key = packet.name, name
        if key not in self.facts.values:
            self.facts.values[key] = self.t.widen(self.meta(packet, name), f"i{8 * META[name][1]}", "i64")
        return self.facts.values[key]

    def length(self, packet: Expr) -> str:
        """The packet's length (i64)."""
        return self.t.op(f"sub nuw nsw i64 {self.place(packet, 'end')}, {self.place(packet, 'data')}")

    def span(self, packet: Expr, mark: str, offset: Expr, offset_value: str, length: str) -> str:
        """The address of `length` (i64) checked bytes at `mark + offset`."""
        assert isinstance(packet, Local)
        t, at = self.t, self.place(packet, mark)
        if mark != "data" and self.site.arena.frame_size > UNSET:
            self.check(t.op(f"icmp ne i64 {at}, {UNSET}"))
        if not isinstance(offset, Const):
            at = t.op(f"add nuw nsw i64 {at}, {t.widen(offset_value, 'i32', 'i64')}")
        elif offset.value:
            at = t.op(f"add nuw nsw i64 {at}, {offset.value}")
        constant = isinstance(offset, Const) and length.isdigit()
        first, last = (int(offset_value), int(offset_value) + int(length)) if constant else (-1, 1 << 62)
        low, high = self.facts.extents.get((packet.name, mark), NOTHING)
        if mark != "data" and first < low:
            self.check(t.op(f"icmp uge i64 {at}, {self.place(packet, 'data')}"))
            low = first if constant else low
        if last > high:
            stop = t.op(f"add nuw nsw i64 {at}, {length}")
            self.check(t.op(f"icmp ule i64 {stop}, {self.place(packet, 'end')}"))
            high = last if constant else high
        self.facts.extents[packet.name, mark] = low, high
        return t.gep(self.anchor(packet)[1], at)

    def swap(self, type: Type, value: str, order: str) -> str:
        """Between packet byte order and the machine's (little-endian)."""
        if order == "little" or type.bits <= 8:
            return value
        return self.t.op(f"call {ll(type)} @llvm.bswap.{ll(type)}({ll(type)} {value})")
