"""What stays when another program takes over: worked out beforehand, done at once.

While the new graph is put in the place of the old one no packet moves, and Python objects that nobody touched for a
while cost a microsecond each: they have left the caches.  So for an instance that is the same in both programs nothing
is done there that Python would do.  Its block is copied by machine code, with all others, along a list that is made
beforehand; its cells stand on the ground of the old program, which one assignment turns into places of the new one
(`state.Ground`).  Behind the new graph the cells come to stand on its own ground, so that the old one can go.
"""

from __future__ import annotations

import ctypes
from array import array
from functools import cache as once
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm

from mezzo.targets.native.build import compile_text
from mezzo.targets.native.common import Common
from mezzo.targets.native.run import Engine, move_cell
from mezzo.targets.native.state import Block, Ground, Place

if TYPE_CHECKING:
    from mezzo.targets.native.threads import Engines

# `copies`: rows of (to, from, bytes); `words`: rows of (where, what), behind them.
MOVE = """
define void @move(ptr %copies, i64 %many, ptr %words, i64 %few) {
entry:
  %none = icmp eq i64 %many, 0
  br i1 %none, label %next, label %copy
copy:
  %i = phi i64 [ 0, %entry ], [ %i1, %copy ]
  %row = getelementptr [3 x i64], ptr %copies, i64 %i
  %to = load ptr, ptr %row
  %fp = getelementptr i8, ptr %row, i64 8
  %from = load ptr, ptr %fp
  %sp = getelementptr i8, ptr %row, i64 16
  %size = load i64, ptr %sp
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %many
  br i1 %more, label %copy, label %next
next:
  %no = icmp eq i64 %few, 0
  br i1 %no, label %done, label %store
store:
  %k = phi i64 [ 0, %next ], [ %k1, %store ]
  %word = getelementptr [2 x i64], ptr %words, i64 %k
  %at = load ptr, ptr %word
  %vp = getelementptr i8, ptr %word, i64 8
  %what = load i64, ptr %vp
  store i64 %what, ptr %at
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %few
  br i1 %again, label %store, label %done
done:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@once
def _mover() -> tuple[Any, Any]:
    """(the machine code, what keeps it); it is called with the GIL in hand, for who lets go of it may have to wait."""
    made = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_lljit_compiler(made, use_jit_link=True)
    library = llvm.JITLibraryBuilder().add_object_img(compile_text(MOVE)).add_current_process()
    library.export_symbol("move")
    linked = library.link(engine, "moving")
    address, number = ctypes.c_void_p, ctypes.c_uint64
    return ctypes.PYFUNCTYPE(None, address, number, address, number)(int(linked["move"])), (linked, engine)


class Moving:
    """What goes from one engine to another as it is.  `keep` each instance, then `apply` while nobody runs, then
    `settle` while the new engine does."""

    def __init__(self, new: Engine | Engines, old: Engine | Engines) -> None:
        self.new, self.old = new, old
        self._copies, self._words = array("Q"), array("Q")
        self._grounds: dict[int, tuple[Ground, list[Place]]] = {}  # and what its places will be
        self._seats: list[tuple[Block, Block]] = []  # one that stays, and whose place it takes
        self._rings: list[tuple[int, str, Any]] = []  # between two threads: their ends are words of the context
        self._move = _mover()[0]

    def keep(self, instance: int, its: int) -> bool:
        """Instance `its` of the old engine goes on as `instance` of the new; False where that is not to be had at
        once, because the memory of both is not of one form."""
        unit = self.new.layout.units[instance]
        if unit != self.old.layout.units[its] or _touches(self.new.common, instance) or _touches(self.old.common, its):
            return False
        start = self.new.layout.offsets[instance]
        to, place = self.new.memory.address + start, self.old.layout.offsets[its]
        self._copies.extend((to, self.old.memory.address + place, unit.size))
        self._words.extend((to + unit.number, instance))  # and a lock that nobody has
        self._take_cells(instance, its)
        self._take_seat(instance, its, (self.new.memory.view, start))
        return True

    def _take_cells(self, instance: int, its: int) -> None:
        cells = self.old.cells[its]
        for each in (self.new, *getattr(self.new, "engines", ())):
            each.cells[instance] = cells
        for name, cell in cells.items():
            if (instance, name) in self.new.layout.lanes or (its, name) in self.old.layout.lanes:
                self._rings.append((instance, name, cell))

    def _take_seat(self, instance: int, its: int, place: Place) -> None:
        block = self.old.blocks[its]
        ground, number = block.seat
        places = self._grounds.setdefault(id(ground), (ground, list(ground.places)))[1]
        places[number] = place
        self._seats.append((block, self.new.blocks[instance]))
        self.new.blocks[instance] = block

    def apply(self) -> None:
        """While nobody runs."""
        copies, words = self._copies, self._words
        self._move(copies.buffer_info()[0], len(copies) // 3, words.buffer_info()[0], len(words) // 2)
        for ground, places in self._grounds.values():
            ground.places = places
        for instance, name, cell in self._rings:
            move_cell(self.new, instance, name, cell)

    def settle(self) -> None:
        """The old ground is left; nobody sees a difference."""
        for block, mine in self._seats:
            block.seat = mine.seat


def _touches(common: Common | None, instance: int) -> bool:
    return common is not None and common.touches(instance)
