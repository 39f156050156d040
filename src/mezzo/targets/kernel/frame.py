"""The packet while a program works on it: its places, the proofs of its bytes, its metadata, and how it leaves.

    @data      address of the first byte that the packet has in memory     @end    address behind its last
    front      the place of that byte      data, mac, net, trans     places, counted from where `front` was at first

Strip moves `data` and nothing else; only a prepend beyond `front` asks the kernel for room (bpf_xdp_adjust_head), and
only a packet that leaves by a wire is cut to `data`.  Append and trim move the end at once (bpf_xdp_adjust_tail), so
one comparison with @end proves an access.  After any move of memory both addresses are read anew.

Metadata and annotations are stack variables, in registers after LLVM; they are written to memory only for a packet
that goes to another level or program, as a record (see record.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.base import MezzoError
from mezzo.ir.module import Function, Linked, Program, State, Unit
from mezzo.ir.ops import Const, Expr
from mezzo.ir.types import BOOL, PACKET, U64, Type
from mezzo.packet.arena import ANNO_SIZE
from mezzo.targets.kernel.facts import PLACES, UNSET, Facts
from mezzo.targets.kernel.layout import FAULT, NAMES, ROOM, VARIABLES, WORDS, Layout, Place
from mezzo.targets.kernel.plan import Port
from mezzo.targets.kernel.text import PURE, RARE, Text
from mezzo.targets.native.frame import local_types
from mezzo.targets.native.text import ll, ll_mem

if TYPE_CHECKING:
    from mezzo.targets.kernel.tails import Tail

PAGE = 4096
LONGEST = 1 << 20  # more than the bytes of any packet, those that generic XDP makes one piece of as well
FARTHEST = 0x7FFF  # the verifier takes no packet offset over 65535
MAP_LOOKUP, MAP_UPDATE, MAP_DELETE, KTIME, CPU, CSUM_DIFF = 1, 2, 3, 5, 8, 28
ADJUST_HEAD, ADJUST_META, ADJUST_TAIL, LOAD_BYTES, STORE_BYTES = 44, 54, 65, 189, 190
TAIL_CALL = 12
ABORTED, DROP, PASS = 0, 1, 2  # verdicts of XDP
CONTEXT = {"data": 0, "data_end": 4, "data_meta": 8, "queue": 16}  # fields of struct xdp_md


@dataclass
class Scope:
    """A function being written: the role of an instance, or a helper inside it."""

    function: Function
    types: dict[str, Type]
    slots: dict[str, str]
    done: str = ""  # where a helper goes on; "" of the role, and of a helper whose answer is the role's
    result: str = ""  # the slot of its value
    ends: list[tuple[Facts, int | None]] = field(
        default_factory=list
    )  # what is known at each of its returns; a constant
    loops: list[tuple[str, str]] = field(default_factory=list)  # (continue, break) labels
    reason: int = -1  # of packets that die by the answer of a helper that is the role's


class Frame:
    """The state of writing one program.  `careful`: see Text; it is the second attempt."""

    def __init__(
        self,
        program: Program,
        layout: Layout,
        blobs: dict[tuple[int, str], int],
        frame_size: int,
        virtual: bool,
        careful: bool,
    ) -> None:
        self.program, self.layout, self.blobs = program, layout, blobs
        self.frame_size, self.virtual = frame_size, virtual
        self.most = min(frame_size, PAGE)  # bytes of a packet that XDP has in one piece
        self.t = Text(careful)
        self.places = {name: self.t.slot("i64", str(UNSET)) for name in PLACES}
        self.data, self.end = self.t.slot("ptr"), self.t.slot("ptr")
        self.origin = self.t.slot("i64", "0")  # `front` at first, from the start of a frame
        self.stamp, self.kind = self.t.slot("i64", "0"), self.t.slot("i8", "0")
        self.gate = self.t.slot("i64", "0")  # of a packet's flow (see gates)
        self.late = self.t.slot("i1", "false")  # the timestamp is now, whenever somebody asks
        self.annotations = [self.t.slot("i64", "0") for _ in range(ANNO_SIZE // 8)]  # words of eight bytes
        self.facts = Facts()
        self.answers: dict[int, Facts] = {}  # what is known for each value that the helper just called may have given
        self.ahead: dict[str, int] = {}  # bytes from a mark that the statements to come need in any case
        self.scopes: list[Scope] = []
        self.tails: dict[tuple[str, int], Tail] = {}  # helpers that are jumped to, by name and reason
        self.instance = 0
        self.used: set[str] = set()  # maps that the code names
        self.own_lane = self.t.slot("ptr")  # the address of this CPU's lane
        self.kind_asked = True  # whether anybody reads the packet's type
        self.blame = self.t.slot("i64")  # the place of the counter of why a packet dies
        self.deaths: set[Port] = set()  # instances, and reasons of theirs for which packets die
        self.ports: dict[int, str] = {}  # of each instance, the input by which the packet came
        self.variable_bytes = 0
        self.inside = 0  # rounds of loops, which are functions of their own

    # -- where it stands

    @property
    def linked(self) -> Linked:
        return self.program.instances[self.instance]

    @property
    def unit(self) -> Unit:
        return self.linked.unit

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def open(self, function: Function, done: str = "") -> Scope:
        """A scope with a variable for each local; they are zero when it begins."""
        types: dict[str, Type] = {p.name: p.type for p in function.params}
        local_types(function.body, types)
        slots = {n: self.t.slot(ll(t)) for n, t in types.items() if t is not PACKET}
        for name, slot in slots.items():
            self.t.do(f"store {ll(types[name])} 0, ptr {slot}")
        result = self.t.slot(ll(function.ret)) if done and function.ret.bits else ""
        self.scopes.append(Scope(function, types, slots, done, result))
        return self.scope

    def read(self, name: str) -> str:
        return self.t.op(f"load {ll(self.scope.types[name])}, ptr {self.scope.slots[name]}")

    def bind(self, name: str, value: str) -> None:
        if name:
            self.facts.cases.pop(self.scope.slots[name], None)
            self.t.do(f"store {ll(self.scope.types[name])} {value}, ptr {self.scope.slots[name]}")

    # -- faults and counters

    def check(self, good: str, lost: str = "") -> None:
        """Goes on where `good`, else faults (or goes to `lost`)."""
        label = self.t.label("ok")
        self.t.branch(good, label, lost or self.fault(), RARE)
        self.t.at(label)

    def fault(self) -> str:
        return self.death(FAULT)

    def death(self, reason: int) -> str:
        """Where the packet dies, counted under `reason`."""
        self.deaths.add((self.instance, reason))
        return f"death{self.instance}_{reason + len(NAMES)}"

    def map(self, symbol: str) -> str:
        self.used.add(symbol)
        return f"@{symbol}"

    def lane(self, offset: int) -> str:
        """The address of what is at `offset` of this CPU's lane."""
        if self.inside:
            return self.t.gep(self.find_lane(), offset)
        at = self.t.gep(self.t.op(f"load ptr, ptr {self.own_lane}"), offset)
        return self.t.opaque("ptr", at) if self.t.careful else at

    def find_lane(self) -> str:
        """Opaque, or LLVM would join the numbers in an order that the verifier does not follow."""
        t = self.t
        cpu = t.opaque("i64", t.helper(CPU, extra=PURE), "")
        mine = t.opaque("i64", t.op(f"and i64 {cpu}, {self.layout.lanes - 1}"), "")
        at = t.gep(self.map("lanes"), t.op(f"mul i64 {mine}, {self.layout.lane}"))
        return t.opaque("ptr", at, "")

    def variables(self, size: int) -> int:
        """Where `size` bytes for variables of a loop are, in a lane."""
        at = self.variable_bytes
        self.variable_bytes += size
        if self.variable_bytes > VARIABLES:
            raise MezzoError(f"`{self.linked.name}` has loops with more than {VARIABLES} bytes of variables")
        return self.layout.room + ROOM + at

    def count(self, reason: int) -> None:
        """One more packet died here."""
        at = self.lane(self.layout.drop(self.instance, reason))
        self.t.store("i64", self.t.op(f"add i64 {self.t.load('i64', at)}, 1"), at)

    def accuse(self, reason: int, more: str = "0") -> None:
        """Notes which counter it is if the packet dies: that of a reason, or `more` (i64) behind it.  Opaque, or LLVM
        would work out the place from the number of a way out, which the verifier does not follow."""
        place = str(self.layout.drop(self.instance, reason))
        if more != "0":
            place = self.t.op(f"add i64 {self.t.op(f'shl i64 {more}, 3')}, {place}")
        place = self.t.opaque("i64", place, "")
        self.t.do(f"store i64 {place}, ptr {self.blame}")

    def state(self, name: str) -> tuple[State, Place]:
        return self.unit.state(name), self.layout.places[self.instance, name]

    def address(self, place: Place) -> str:
        return self.lane(place.offset) if place.is_lane else self.t.gep(self.map(place.symbol), place.offset)

    def word(self, name: str) -> str:
        return self.t.gep(self.map("state"), WORDS[name])

    def as_mem(self, type: Type, value: str) -> str:
        return self.t.widen(value, ll(type), ll_mem(type))

    def from_mem(self, type: Type, value: str) -> str:
        if type is BOOL:
            return self.t.op(f"icmp ne {ll_mem(type)} {value}, 0")
        return value if ll_mem(type) == ll(type) else self.t.op(f"trunc {ll_mem(type)} {value} to {ll(type)}")

    def known(self) -> Facts:
        """What is known, for code elsewhere: registers of a function of its own are not known outside it."""
        facts = self.facts.copy()
        if self.inside:
            facts.memory_moved()
        return facts

    # -- where packets go from here: the whole program knows

    def ends(self, port: int) -> bool:
        """Whether a packet dies that leaves by this output."""
        raise NotImplementedError

    def leave(self, port: int, reason: int) -> None:
        """The packet leaves by an output."""
        raise NotImplementedError

    def drop(self, reason: int) -> None:
        self.t.jump(self.death(reason))

    # -- places

    def at(self, place: str) -> str:
        """A place, a number or a register (i64)."""
        known = self.facts.known.get(place)
        return self.t.op(f"load i64, ptr {self.places[place]}") if known is None else str(known)

    def move(self, place: str, to: str) -> None:
        """Sets a place."""
        self.facts.forget(place)
        if to.lstrip("-").isdigit():
            self.facts.known[place] = int(to)
        self.t.do(f"store i64 {to}, ptr {self.places[place]}")

    def plus(self, a: str, b: str, op: str = "add") -> str:
        """The sum or difference, worked out here where both are numbers."""
        if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
            return str(int(a) + int(b) if op.startswith("add") else int(a) - int(b))
        return a if b == "0" else self.t.op(f"{op} i64 {a}, {b}")

    def start(self) -> str:
        return self.t.op(f"load ptr, ptr {self.data}")

    def stop(self) -> str:
        return self.t.op(f"load ptr, ptr {self.end}")

    def read_ends(self) -> None:
        """Reads where the packet is in memory."""
        for name, slot in (("data", self.data), ("data_end", self.end)):
            self.t.do(f"store ptr {self.context_pointer(name)}, ptr {slot}")

    def context_pointer(self, name: str) -> str:
        t = self.t
        word = t.op(f"load volatile i32, ptr {t.gep('%ctx', CONTEXT[name])}, align 4")
        return t.op(f"inttoptr i64 {t.widen(word, 'i32', 'i64')} to ptr")

    def memory_bytes(self) -> str:
        """Bytes from `front` to the end (i64)."""
        t = self.t
        stop, start = t.op(f"ptrtoint ptr {self.stop()} to i64"), t.op(f"ptrtoint ptr {self.start()} to i64")
        # Opaque, or LLVM would add it up with other numbers in an order in which an address is negated.
        return t.opaque("i64", t.op(f"sub nuw nsw i64 {stop}, {start}"), "", LONGEST)

    def length(self) -> str:
        """The packet's length (i64)."""
        before = self.plus(self.at("data"), self.at("front"), "sub")
        return self.plus(self.memory_bytes(), before, "sub nuw nsw")

    def headroom(self) -> str:
        """Where the data begins, from the start of the frame (i64)."""
        return self.plus(self.t.op(f"load i64, ptr {self.origin}"), self.at("data"))

    # -- bytes

    def span(self, mark: str, offset: Expr, offset_value: str, length: int) -> str:
        """The address of `length` proved bytes at `mark + offset`."""
        if isinstance(offset, Const):
            way = self._known if mark in self.facts.known else self._by_mark
            return way(mark, offset.value, length)
        at = self.plus(self.at(mark), self.t.widen(offset_value, "i32", "i64"))
        if mark != "data":
            self._not_before(at)
        pointer = self.pointer(at)
        self.not_behind(pointer, length)
        return pointer

    def _known(self, mark: str, offset: int, length: int) -> str:
        at = self.facts.known[mark] + offset
        if mark != "data" and at < self.facts.known.get("data", 1 << 62):
            self._not_before(str(at))
        if "front" not in self.facts.known:
            pointer = self.pointer(str(at))
            self.not_behind(pointer, length)
            return pointer
        inside = at - self.facts.known["front"]
        if inside + length > FARTHEST or inside < 0:
            self.check("false")
            inside = 0
        if at + length > self.facts.reach:
            more = self.facts.known[mark] + self.ahead.get(mark, 0) - at
            length = max(length, more if inside + more <= FARTHEST else 0)
            if at + length <= self.facts.sure:  # one comparison for all that is there
                length = self.facts.sure - at
            self.not_behind(self.t.gep(self.start(), inside), length)
            self.facts.reach = at + length
        return self.t.gep(self.start(), inside)

    def _by_mark(self, mark: str, offset: int, length: int) -> str:
        """Bytes at a constant offset from a place that is not known."""
        facts = self.facts
        if mark not in facts.pointers:
            facts.pointers[mark] = self.pointer(self.at(mark))
            facts.extents[mark] = (0, 0) if mark == "data" else (1 << 62, 0)
        low, high = facts.extents[mark]
        if offset < low:
            self._not_before(self.plus(self.at(mark), str(offset)))
        pointer = self.t.gep(facts.pointers[mark], offset)
        if offset + length > high:
            self.not_behind(pointer, length)
        facts.extents[mark] = min(low, offset), max(high, offset + length)
        return pointer

    def pointer(self, at: str) -> str:
        """The address of a place, in a register that stays as it is."""
        t, inside = self.t, self.plus(at, self.at("front"), "sub")
        if inside.isdigit() and int(inside) <= FARTHEST:
            return t.opaque("ptr", t.op(f"getelementptr i8, ptr {self.start()}, i64 {inside}"))
        inside = t.opaque("i64", inside)
        self.check(t.op(f"icmp ule i64 {inside}, {FARTHEST}"))
        return t.opaque("ptr", t.op(f"getelementptr i8, ptr {self.start()}, i64 {inside}"))

    def _not_before(self, at: str) -> None:
        data = self.at("data")
        if not (at.isdigit() and data.isdigit() and int(at) >= int(data)):
            self.check(self.t.op(f"icmp sge i64 {at}, {data}"))

    def not_behind(self, pointer: str, length: int) -> None:
        last = self.t.op(f"getelementptr inbounds nuw i8, ptr {pointer}, i64 {length}")
        self.check(self.t.op(f"icmp ule ptr {last}, {self.stop()}"))

    def prove_sure(self) -> None:
        """Lets the verifier see what is there for sure, at the beginning."""
        self.not_behind(self.start(), self.facts.sure)
        self.facts.reach = self.facts.sure

    def range(self, mark: str, offset_value: str, length: str) -> tuple[str, str]:
        """(offset from @data, length) of checked bytes for a function of the kernel that checks them again; both i32.
        The length is at most a frame's, which the verifier sees."""
        t = self.t
        wide = length if length.isdigit() else t.widen(length, "i32", "i64")
        at = self.plus(self.at(mark), t.widen(offset_value, "i32", "i64"))
        if mark != "data":
            self._not_before(at)
        inside = self.plus(at, self.at("front"), "sub")
        self.check(t.op(f"icmp ule i64 {t.op(f'add i64 {inside}, {wide}')}, {self.memory_bytes()}"))
        bounded = t.opaque("i64", wide)
        self.check(t.op(f"icmp ule i64 {bounded}, {self.most}"))
        return t.op(f"trunc i64 {inside} to i32"), bounded

    def swap(self, type: Type, value: str, order: str) -> str:
        """Between packet byte order and the machine's (little-endian)."""
        if order == "little" or type.bits <= 8:
            return value
        return self.t.op(f"call {ll(type)} @llvm.bswap.{ll(type)}({ll(type)} {value})")

    # -- annotations: registers of eight bytes, so that no access crosses what the verifier holds the stack to be

    def annotation(self, type: Type, offset: int) -> str:
        """Bytes of the annotations as a little-endian number."""
        t, whole, wide = self.t, "0", max(type.bits, 64)
        for word, shift, bits, at in _words(type, offset):
            part = t.op(f"lshr i64 {t.op(f'load i64, ptr {self.annotations[word]}')}, {shift}")
            part = t.widen(t.op(f"and i64 {part}, {(1 << bits) - 1}"), "i64", f"i{wide}")
            whole = t.op(f"or i{wide} {whole}, {t.op(f'shl i{wide} {part}, {at}')}")
        return t.widen(whole, f"i{wide}", ll(type))

    def annotate(self, type: Type, offset: int, value: str) -> None:
        t, wide = self.t, max(type.bits, 64)
        value = t.widen(value, ll(type), f"i{wide}")
        for word, shift, bits, at in _words(type, offset):
            mask = (1 << bits) - 1
            part = t.widen(t.op(f"lshr i{wide} {value}, {at}"), f"i{wide}", "i64")
            part = t.op(f"shl i64 {t.op(f'and i64 {part}, {mask}')}, {shift}")
            kept = t.op(f"load i64, ptr {self.annotations[word]}")
            kept = t.op(f"and i64 {kept}, {U64.mask ^ mask << shift}")
            t.do(f"store i64 {t.op(f'or i64 {kept}, {part}')}, ptr {self.annotations[word]}")

    # -- the timestamp: one that is the time of coming is asked for only when somebody reads it

    def set_timestamp(self, value: str, late: bool = False) -> None:
        """To a value; with `late` to the time when it is asked for first, and an offset."""
        self.t.do(f"store i64 {value}, ptr {self.stamp}")
        self.t.do(f"store i1 {'true' if late else 'false'}, ptr {self.late}")

    def clock(self) -> str:
        """The time; the same for all that asks for it in one run, since a call costs as much as an element."""
        return self.t.helper(KTIME, extra=PURE)

    def timestamp(self) -> str:
        t = self.t
        now, known = t.label("now"), t.label("known")
        t.branch(t.op(f"load i1, ptr {self.late}"), now, known)
        t.at(now)
        self.set_timestamp(t.op(f"add i64 {self.clock()}, {t.op(f'load i64, ptr {self.stamp}')}"))
        t.jump(known)
        t.at(known)
        return t.op(f"load i64, ptr {self.stamp}")


def _words(type: Type, offset: int) -> Iterator[tuple[int, int, int, int]]:
    """(word, shift in it, bits, shift in the value) of each word of the annotations that a value lies in."""
    done = 0
    while done < type.bits:
        word, shift = divmod(8 * offset + done, 64)
        bits = min(64 - shift, type.bits - done)
        yield word, shift, bits, done
        done += bits
