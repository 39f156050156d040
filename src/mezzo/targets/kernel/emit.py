"""The program of a part: one function in which every placed element stands once, and packets jump between them.

    entry ─► in3 ─► in5 ─┬► in8 ─► exit
                         └► in6 ─┘

A push is the last thing an element does with a packet, so it is a jump, and where several elements push to one their
ways meet before it: nothing is written twice, no stack is used up, and what is known of the packet where they meet is
what all agree on.  Elements are written in an order in which each comes after those that push to it; a connection that
leads back is an exit, by which the packet comes in again.

An exit is a verdict: up to the router with a record (by an AF_XDP socket of the queue, where there are some), or to a
wire as plain bytes.  A part too large for one program is several, in the same order; a connection from one to a later
one is a record and a tail call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mezzo.ir import ops
from mezzo.ir.module import Program
from mezzo.ir.ops import KILL, PUNT
from mezzo.ir.spec import nodes
from mezzo.targets.kernel import gates, record
from mezzo.targets.kernel.facts import UNSET, Facts
from mezzo.targets.kernel.frame import ABORTED, ADJUST_HEAD, CONTEXT, DROP, PASS, TAIL_CALL
from mezzo.targets.kernel.layout import NO_DEVICE, NO_ROOM, NO_SOCKET, Layout, packet_functions
from mezzo.targets.kernel.lower_stmt import run, run_tails
from mezzo.targets.kernel.passing import Passing
from mezzo.targets.kernel.plan import Port, punt
from mezzo.targets.kernel.roads import Road, Wire, order_of
from mezzo.targets.kernel.text import RARE

TX, REDIRECT, LENGTH = 3, 51, 188  # verdicts; the helpers bpf_redirect_map, bpf_xdp_get_buff_len
PROGRAMS = "programs"  # the map of a part's programs


@dataclass
class Joints:
    """What the programs of a part have in common.  `entries`: inputs by which packets are given to it; `programs`: in
    which program each instance is; `tails`: inputs by which one program goes on in another, with what is known there;
    `exits`: outputs by which packets leave with a record.  The number of an input is its place in entries + tails."""

    entries: Sequence[Port]
    programs: Mapping[int, int]
    tails: dict[Port, dict[str, int]] = field(default_factory=dict)
    exits: list[Port] = field(default_factory=list)

    def tail(self, to: Port, known: dict[str, int]) -> None:
        """Another way to an input of a later program: there only what is known of all ways is known."""
        if "front" in known:
            known = {place: n if n == UNSET else n - known["front"] for place, n in known.items() if place != "front"}
        else:
            known = {}
        before = self.tails.get(to)
        self.tails[to] = known if before is None else {k: v for k, v in known.items() if before.get(k) == v}

    def number(self, to: Port) -> int:
        return len(self.entries) + list(self.tails).index(to)


class Emitter(Passing):
    """Writes one program of a road, with `placed` of its instances; to the `root` come packets from a wire."""

    def __init__(
        self,
        program: Program,
        placed: Sequence[int],
        layout: Layout,
        joints: Joints,
        road: Road,
        *,
        root: bool = True,
        blobs: dict[tuple[int, str], int] | None = None,
        frame_size: int = 2048,
        virtual: bool = False,
        careful: bool = False,
    ) -> None:
        super().__init__(program, layout, blobs or {}, frame_size, virtual, careful)
        self.order = order_of(program, placed)
        self.rank = {i: n for n, i in enumerate(self.order)}
        self.joints, self.road, self.is_root, self.wire = joints, road, root, road.wire and root
        self.kind_asked = self._asks_kind()
        self.coming: dict[int, Facts] = {}  # what is known where packets come to an instance
        self.exits: dict[Port, Facts] = {}  # by the instance and output that they leave
        self.ports = {i: self.t.slot("i32", "0") for i in self.order}
        self.way = self.t.slot("i32")  # of a packet that goes up

    def module(self) -> str:
        """The assembly; the joints tell afterwards where packets leave, and which ways lead to later programs."""
        self._arrivals()
        for i in self.order:
            if i in self.coming:
                self._instance(i)
        self._exits()
        self._write_up()
        self._write_no_room()
        self._deaths()
        self._ends()
        return self.t.module(self._declares())

    def _asks_kind(self) -> bool:
        """Whether somebody reads the packet's type, or it goes with the packet in a record."""
        road, several = self.road, len(set(self.joints.programs.values())) > 1
        if several or not self.wire or road.ups or any(wire.way for wire in road.wires.values()):
            return True
        bodies = (f.body for i in self.order for f in packet_functions(self.program.instances[i].unit))
        return any(isinstance(n, ops.Meta) and n.field == "packet_type" for body in bodies for n in nodes(body))

    def _deaths(self) -> None:
        """Where packets die, once for each reason: all that ways in front of it have to do is to jump."""
        for i, reason in sorted(self.deaths):
            self.instance = i
            self.t.at(self.death(reason))
            self.accuse(reason)
            self.t.jump("dying")

    def _ends(self) -> None:
        """Where all ways end."""
        t = self.t
        t.at("dying")
        self.note("dying")
        place = t.opaque("i64", t.op(f"load i64, ptr {self.blame}"), "")
        at = t.gep(self.lane(0), place)
        t.store("i64", t.op(f"add i64 {t.load('i64', at)}, 1"), at)
        t.jump("dead")
        for label, verdict in (("dead", DROP), ("aborted", ABORTED)):
            t.at(label)
            self.note(label)
            t.apart()
            t.do(f"ret i32 {verdict}")

    def note(self, what: str, way: int = 0) -> None:
        """A packet comes to an instance, goes up, out by a wire, or ends: for who follows packets (see notes)."""

    def _declares(self) -> list[str]:
        maps = [f"@{s} = external global [{self.layout.maps[s].value} x i8], align 8" for s in sorted(self.used)]
        wide = [f"declare i{n} @llvm.bswap.i{n}(i{n})" for n in (16, 32, 48, 64, 128)]
        return [*maps, *wide, "declare i64 @llvm.umin.i64(i64, i64)"]

    def _arrivals(self) -> None:
        t = self.t
        if self.wire:
            self.instance = self.joints.entries[0][0]
            self.arrive()
            if self.road.gates:
                self._gate()
            if self.road.frags:
                self._several_buffers()
            self._go(self.joints.entries[0])
            return
        way = self.arrive_with_record()
        known: dict[str, int] = {} if self.road.injected else {"data": record.PAD}
        given = [(n, to, known) for n, to in enumerate(self.joints.entries)]
        ways = [*given, *((self.joints.number(to), to, known) for to, known in self.joints.tails.items())]
        mine = [one for one in ways if one[1][0] in self.rank]
        cases = " ".join(f"i32 {n}, label %entry{n}" for n, _, _ in mine)
        t.do(f"switch i32 {way}, label %aborted [{cases}]")
        facts = self.facts
        for n, to, known in mine:
            t.at(f"entry{n}")
            self.facts = facts.copy()
            for place, at in known.items():
                self.move(place, str(at))
            self._go(to)

    def _gate(self) -> None:
        """Behind what is up of its flow a packet goes up as it came."""
        behind, free = self.t.label("behind"), self.t.label("on")
        gates.watch(self, self.gate, behind)
        self.t.jump(free)
        self.t.at(behind)
        self._up(record.WHOLE)
        self.t.at(free)

    def _several_buffers(self) -> None:
        """A packet of several buffers goes up as it came: a program sees the first one only."""
        t = self.t
        whole, several = t.label("whole"), t.label("several")
        length = t.helper(LENGTH, "ptr %ctx")
        t.branch(t.op(f"icmp eq i64 {length}, {self.memory_bytes()}"), whole, several, RARE)
        t.at(several)
        self._up(record.WHOLE)
        t.at(whole)

    def _go(self, to: Port) -> None:
        """On to the input of a placed instance."""
        instance, port = to
        known = self.coming.get(instance)
        self.coming[instance] = self.known() if known is None else known.both(self.known())
        self.t.do(f"store i32 {port}, ptr {self.ports[instance]}")
        self.t.jump(f"in{instance}")

    def _instance(self, i: int) -> None:
        self.instance, self.facts = i, self.coming[i]
        self.t.owner = i
        self.t.at(f"in{i}")
        role = packet_functions(self.unit)[0]
        self.note("in")
        with self.t.place(role.span):
            self.open(role)
            if role.name == "push":
                self.bind(role.params[0].name, self.t.op(f"load i32, ptr {self.ports[i]}"))
            if run(self, role.body):
                self.t.jump("dead")
            run_tails(self)
        self.scopes.pop()

    def ends(self, port: int) -> bool:
        outputs, key = self.linked.outputs, (self.instance, port)
        known = port == PUNT or key in self.road.wires or key in self.road.ups
        return not known and (port >= len(outputs) or outputs[port] is None)

    def leave(self, port: int, reason: int) -> None:
        outputs, key = self.linked.outputs, (self.instance, port)
        to = outputs[port] if port < len(outputs) else None
        if port == PUNT:
            self._punt()
        elif key in self.road.wires or key in self.road.ups or (to is not None and self._is_cut(to)):
            self._exit(key)
        elif to is not None:
            self._go(to)
        elif reason >= 0 or port != KILL:
            self.drop(reason)
        else:
            self.t.jump("dead")

    def _exit(self, key: Port) -> None:
        self.exits[key] = self.exits[key].both(self.known()) if key in self.exits else self.known()
        self.t.jump(f"exit{key[0]}_{abs(key[1])}{'p' * (key[1] < 0)}")

    def _punt(self) -> None:
        """Up, as it came in, through the same instance there."""
        t, inputs, i = self.t, range(max(len(self.linked.inputs), 1)), self.instance
        labels = [t.label("punt") for _ in inputs]
        if len(inputs) > 1:
            cases = " ".join(f"i32 {n}, label %{labels[n]}" for n in inputs[1:])
            t.do(f"switch i32 {t.op(f'load i32, ptr {self.ports[i]}')}, label %{labels[0]} [{cases}]")
        else:
            t.jump(labels[0])
        for n, label in zip(inputs, labels, strict=True):
            t.at(label)
            self._exit((i, punt(n)))

    def _is_cut(self, to: Port) -> bool:
        """Whether a connection leads out of the part, or back."""
        return self.rank.get(to[0], -1) <= self.rank[self.instance]

    def _exits(self) -> None:
        for key, facts in self.exits.items():
            (self.instance, port), self.facts = key, facts
            self.t.owner = self.instance
            with self.t.place(None):
                self.t.at(f"exit{key[0]}_{abs(port)}{'p' * (port < 0)}")
                self._way_out(key)

    def _way_out(self, key: Port) -> None:
        (i, port), joints, road = key, self.joints, self.road
        to = self.linked.outputs[port] if 0 <= port < len(self.linked.outputs) else None
        if key in road.wires:
            self._to_wire(road.wires[key])
        elif key in road.ups:
            self._up(road.ups[key])
        elif to is not None and joints.programs.get(to[0], -1) > joints.programs[i]:
            self._to_program(to)
        else:
            assert not road.sockets, f"the plan tells the way of output {port} of `{self.linked.name}`"
            joints.exits.append(key)
            self._up(len(joints.exits) - 1)

    def _up(self, way: int) -> None:
        """To the router; what there is to do is the same for all that goes up."""
        self.note("up", way)
        self.accuse(NO_SOCKET)
        self.t.do(f"store i32 {way}, ptr {self.way}")
        self.t.jump("up")

    def _write_up(self) -> None:
        """By the socket of the packet's queue."""
        t, self.facts = self.t, Facts()
        t.at("up")
        self.leave_with_record(t.op(f"load i32, ptr {self.way}"), "no_room")
        if not self.road.sockets:
            t.do(f"ret i32 {PASS}")
            return
        queue = t.op(f"load i32, ptr {t.gep('%ctx', CONTEXT['queue'])}, align 4")
        self._redirect(self.road.sockets, queue, "dying", self.road.gates)

    def _write_no_room(self) -> None:
        """Where the driver gives no room in front of the packet; of the instance that it comes from."""
        t = self.t
        t.at("no_room")
        place = t.op(f"add i64 {t.op(f'load i64, ptr {self.blame}')}, {8 * (NO_ROOM - NO_SOCKET)}")
        t.do(f"store i64 {place}, ptr {self.blame}")
        t.jump("dying")

    def _redirect(self, symbol: str, key: str, lost: str, lifts: bool = False) -> None:
        """To what a map has under a key; where there is nothing, to `lost`.  The kernel does it after the run, so a
        gate is up before anybody sees the packet."""
        t, done = self.t, self.t.label("sent")
        verdict = t.helper(REDIRECT, f"ptr {self.map(symbol)}", f"i32 {key}", f"i64 {DROP}", result="i32")
        t.branch(t.op(f"icmp ugt i32 {verdict}, {DROP}"), done, lost, RARE)
        t.at(done)
        if lifts:
            gates.lift(self, self.gate)
        t.do(f"ret i32 {verdict}")

    def _to_program(self, to: Port) -> None:
        """On in another program of the part (bpf_tail_call comes back only where that is not there)."""
        self.joints.tail(to, self.facts.known)
        self.leave_with_record(str(self.joints.number(to)))
        number = self.road.first + self.joints.programs[to[0]]
        self.t.helper(TAIL_CALL, "ptr %ctx", f"ptr {self.map(PROGRAMS)}", f"i32 {number}")
        self.t.jump(self.fault())

    def _to_wire(self, wire: Wire) -> None:
        """Cuts the memory to the data; what is shorter than an Ethernet header the kernel does not take."""
        t = self.t
        self.note("out")
        by = self.plus(self.at("data"), self.at("front"), "sub")
        if by != "0":
            moved = t.helper(ADJUST_HEAD, "ptr %ctx", f"i32 {t.op(f'trunc i64 {by} to i32')}")
            self.check(t.op(f"icmp eq i64 {moved}, 0"))
        if wire.way:  # who ran it sends the packet
            self.move("front", self.at("data"))
            self.leave_with_record(str(wire.way))
        if wire.verdict == "redirect":
            self._redirect(wire.symbol, str(wire.key), self.death(NO_DEVICE))
        else:
            t.do(f"ret i32 {TX if wire.verdict == 'tx' else PASS}")
