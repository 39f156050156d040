"""The programs of a part that runs, once more with notes: over the same maps, to be put in their place for a while."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import replace

from mezzo.targets.kernel import notes
from mezzo.targets.kernel.cells import Views
from mezzo.targets.kernel.emit import PROGRAMS
from mezzo.targets.kernel.load import Compiler, Maps
from mezzo.targets.kernel.part import Part


class Noted(Part):
    """`roots[n]` takes the place of that of `part`.  With `wanted` only what happens at these instances is noted.

    State is the part's: nothing is copied, and closing this one leaves it."""

    def __init__(self, part: Part, wanted: Collection[int] | None = None) -> None:
        self.plan, self.program, self.placed, self.entries = part.plan, part.program, part.placed, part.entries
        self.injectors = part.injectors
        self.blobs, self.roads, self.how, self.cells = part.blobs, part.roads, part.how, part.cells
        self.compiler, self.drafts = Compiler(part.compiler.use_disk), self._drafts()
        self.emitter = functools.partial(notes.NotingEmitter, wanted=wanted)
        self.layout = replace(part.layout, maps={**part.layout.maps, notes.SYMBOL: notes.MAP})
        self.maps = Maps.make(self.layout, {s: fd for s, fd in part.maps.descriptors.items() if s != PROGRAMS})
        self.views, self.programs, self.roots, self.senders = Views(self.maps), [], [], []
        try:
            self.load_roads()
        except BaseException:
            self.close()
            raise
