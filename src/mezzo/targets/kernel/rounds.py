"""A loop as a function that the kernel calls once a round (bpf_loop, Linux 5.17).

The verifier follows every way through a plain loop, round by round, and after each round every way through all that
comes behind it: three options in a loop of forty rounds are a million steps.  A function for the body it proves once,
for any round.

The body is written as it always is.  Then every variable that is named in it and outside of it gets a place in the
CPU's lane: the function takes it from there first, and puts it back at the end.  A map, because of what lies in one
the verifier knows nothing: on the stack it would know each round's numbers, and follow each round after all.
Jumps that lead out of the body become a number there, and a round that says to stop; behind the loop a switch goes on
from that number.
"""

from __future__ import annotations

import re

from mezzo.targets.kernel.frame import Frame
from mezzo.targets.kernel.text import FIRST, PLAIN, SECTION, Text

BPF_LOOP = 181
_SLOT = re.compile(r"  (%t\d+) = alloca (.+), align (\d+)")
_NAME = re.compile(r"%t\d+\b")
_LABEL = re.compile(r"label %(\w+)")
_BLOCK = re.compile(r"(\w+):")
_DEBUG = re.compile(r"!dbg !(\d+)")
_SIZES = {"ptr": 8, "i1": 1, "i48": 8}
CONTEXT, PLACES = 0, 8  # in the record that the function gets: the program's context, where the variables are
WAY, FIELDS = 0, 8  # there: the jump out of the loop, the variables


def write_rounds(f: Frame, body: list[str], step: str, stop: str, count: str) -> None:
    """Writes the body as a function, and the call of it."""
    t = f.t
    number = len(t.rounds)
    t.rounds.append("")  # those inside the body came before
    text = "\n".join(body)
    slots = {m[1]: m[2] for line in t.slots if (m := _SLOT.match(line))}
    named = {name for name in _NAME.findall(text) if name in slots}
    memory = {f.data, f.end}  # read anew in each round
    outside = set(_NAME.findall("\n".join(t.lines))) | _lasting(f)
    shared = sorted((named & outside) - memory)
    places, size = _place(shared, slots)
    ways = [x for x in dict.fromkeys(_LABEL.findall(text)) if x not in _blocks(body) and x not in (step, stop)]
    record = t.slot("[16 x i8]")
    t.rounds[number] = _function(f, number, body, slots, named | memory, places, ways, (step, stop))
    lane = f.lane(f.variables(size))
    t.do(f"store ptr %ctx, ptr {t.gep(record, CONTEXT)}, align 8")
    t.do(f"store ptr {lane}, ptr {t.gep(record, PLACES)}, align 8")
    t.do(f"store i64 0, ptr {t.gep(lane, WAY)}, align 8")
    _carry(t, slots, places, lane, into=True)
    t.helper(BPF_LOOP, f"i32 {count}", f"ptr @round{number}", f"ptr {record}", "i64 0")
    _carry(t, slots, places, lane, into=False)
    f.read_ends()
    done, way = t.label("done"), t.op(f"load i64, ptr {t.gep(lane, WAY)}, align 8")
    cases = " ".join(f"i64 {n}, label %{label}" for n, label in enumerate(ways, 1))
    t.do(f"switch i64 {way}, label %{done} [{cases}]")
    t.at(done)


def _lasting(f: Frame) -> set[str]:
    """Variables of the packet and of the functions around, which code that is not written yet may read."""
    fixed = {*f.places.values(), f.origin, f.stamp, f.late, f.kind, *f.annotations, *f.ports.values()}
    return fixed | {slot for scope in f.scopes for slot in (*scope.slots.values(), scope.result) if slot}


def _place(shared: list[str], slots: dict[str, str]) -> tuple[dict[str, int], int]:
    """Where each variable is, and how many bytes they take."""
    places, at = {}, FIELDS
    for name in shared:
        type = slots[name]
        size = _SIZES.get(type) or (int(type[1:]) // 8 if type[0] == "i" else int(re.findall(r"\d+", type)[0]))
        places[name] = at
        at += -(-size // 8) * 8
    return places, at


def _blocks(body: list[str]) -> set[str]:
    return {m[1] for line in body if (m := _BLOCK.fullmatch(line))}


def _carry(t: Text, slots: dict[str, str], places: dict[str, int], lane: str, into: bool) -> None:
    """Copies the variables into the lane, or back."""
    for name, place in places.items():
        at = t.gep(lane, place)
        source, target = (name, at) if into else (at, name)
        held = t.op(f"load {slots[name]}, ptr {source}, align 8")
        t.do(f"store {slots[name]} {held}, ptr {target}, align 8")


def _function(
    f: Frame, number: int, body: list[str], slots: dict[str, str], named: set[str], places: dict[str, int],
    ways: list[str], ends: tuple[str, str],
) -> str:  # fmt: skip
    """The text of the function."""
    t, (step, stop) = f.t, ends
    first = t.first_location(number)
    outer, t.lines = t.lines, []
    t.do("%ctx = load ptr, ptr %record, align 8")
    lane = t.op(f"load ptr, ptr {t.gep('%record', PLACES)}, align 8")
    _carry(t, slots, places, lane, into=False)
    f.read_ends()
    start, t.lines = t.lines, []
    for value, label in enumerate((*ways, stop, step)):
        t.at(label)
        if label in ways:
            t.do(f"store i64 {value + 1}, ptr {t.gep(lane, WAY)}, align 8")
        _carry(t, slots, places, lane, into=True)
        t.do(f"ret i64 {0 if label == step else 1}")
    finish, t.lines = t.lines, outer
    head = (
        f'define internal i64 @round{number}(i64 %index, ptr %record) {PLAIN} noinline section "{SECTION}" '
        f"!dbg !{t.subprogram(number)} {{"
    )
    allocas = [f"  {name} = alloca {slots[name]}, align 8" for name in sorted(named)]
    lines = ["entry:", *allocas, f"  %i = trunc i64 %index to i32, !dbg !{FIRST}", *start, *body, *finish, "}"]
    moved = _DEBUG.sub(lambda m: f"!dbg !{int(m[1]) - FIRST + first}", "\n".join(lines))
    return f"{head}\n{moved}\n"
