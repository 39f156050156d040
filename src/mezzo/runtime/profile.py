"""The time that each element takes, sampled by slices.

Now and then packets run through traced code for a moment (about `SLICE_S` of every `EVERY_S`); it takes down the CPU's
counter where a packet goes into an element, where it was pulled out of one, and where a push ends.  For the rest of the
time packets run through the code that they always do, so the cost is that of the slices.

What is between two rows belongs to the element whose turn it is: a push begins the turn of the element that it goes to
and its end gives it back; what was pulled out of an element was its work until then, and then it is the puller's turn.
A driver (a source, Unqueue, a device) has what is outside of all pushes, with the scheduler's turn.  What a row costs
is measured beforehand and taken off.  Pauses longer than `PAUSE_NS` are sleep, not work.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from mezzo.base import MezzoError
from mezzo.runtime.eye import Viewer, eye_of

if TYPE_CHECKING:
    from mezzo.runtime.router import Router
    from mezzo.targets.native.watched import Lens, Rows, Sight

EVERY_S = 0.5
SHORTEST_S, SLICE_S, LONGEST_S = 0.0002, 0.001, 0.01  # slices, by how soon there are enough rows
ROWS = 2048
PAUSE_NS = 200_000
FADE = 0.8  # what a slice before counts for, against the one behind it


@dataclass
class Spent:
    """Of one element: time, and how often it had a packet."""

    ns: float = 0.0
    packets: float = 0.0


class Profile(Viewer):
    """`rows()` tells what was found; `stop` ends it."""

    kind, rows = "times", ROWS

    def __init__(self, router: Router) -> None:
        self.router, self.eye = router, eye_of(router)
        self.spent: dict[str, Spent] = {}
        self.slices, self.slice_s = 0, SLICE_S
        self.grabbed: Rows | None = None
        self.sight_ticks = 0.0
        self._ended = threading.Event()
        self.trouble = ""
        self.thread = threading.Thread(target=self.run, name="mezzo-profile", daemon=True)

    def run(self) -> None:
        """Samples until it is stopped: the work of its thread."""
        from mezzo.targets.native.watched import cost_of_a_sight

        try:
            self.sight_ticks = cost_of_a_sight(self.router.arena)
            self.eye.add(self)
            self._pause(self.slice_s)
            while not self._ended.is_set() and not self.router.closed:
                self.eye.rest(self, True, self._grab)
                self._digest()
                self._pause(EVERY_S)
                self.eye.rest(self, False)
                self._pause(self.slice_s)
            self.eye.remove(self)
        except MezzoError as trouble:
            self.trouble = str(trouble)

    def _pause(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def stop(self) -> None:
        self._ended.set()

    # -- what the rows say

    def _grab(self, lens: Lens) -> None:
        """At rest, so it only copies."""
        self.grabbed = lens.take()
        lens.clear()
        self.graph, self.elements = self.router.graph, self.router.elements
        self.names = [linked.name for linked in self.router.plan.program.instances]

    def _digest(self) -> None:
        rows, clock = list(self.grabbed or ()), self.eye.clock
        self.slice_s *= 0.5 if len(rows) >= ROWS else 1.5
        self.slice_s = min(max(self.slice_s, SHORTEST_S), LONGEST_S)
        if len(rows) < 2 or clock is None:
            return
        self.slices += 1
        for spent in self.spent.values():
            spent.ns, spent.packets = spent.ns * FADE, spent.packets * FADE
        for thread in {row.thread for row in rows}:
            self.account([row for row in rows if row.thread == thread], clock.rate)

    def account(self, rows: list[Sight], rate: float) -> None:
        """Gives each piece of time to an element; `rate`: nanoseconds a tick."""
        stack: list[int] = []
        for row, after in pairwise(rows):
            who = self._turn(stack, row, after)
            ns = (after.ticks - row.ticks - self.sight_ticks) * rate
            if who is not None and ns < PAUSE_NS:
                self._of(who).ns += max(ns, 0.0)
            if not row.is_left:
                self._of(row.instance).packets += 1

    def _turn(self, stack: list[int], row: Sight, after: Sight) -> int | None:
        """Whose turn it is between two rows."""
        if row.is_left:
            while stack and stack.pop() != row.instance:
                pass
        elif not row.is_out:
            stack.append(row.instance)
        if after.is_out and (row.is_left or row.is_out or not stack):
            return after.instance  # its pull is under way
        if row.is_out:
            return self._neighbour(row, "outputs_of")
        return stack[-1] if stack else self._neighbour(after, "inputs_of") if not after.is_left else None

    def _neighbour(self, row: Sight, side: str) -> int | None:
        """The element at the other end, where that is one."""
        ends = getattr(self.graph, side)(self.names[row.instance])
        mine = [c for c in ends if (c.src_port if side == "outputs_of" else c.dst_port) == row.port]
        others = {(c.dst if side == "outputs_of" else c.src) for c in mine}
        found = self.elements.get(others.pop()) if len(others) == 1 else None
        return found.index if found is not None else None

    def _of(self, instance: int) -> Spent:
        return self.spent.setdefault(self.names[instance], Spent())

    # -- asking

    def table(self) -> list[tuple[str, str, float, float]]:
        """(element, class, its part of the time, nanoseconds a packet), the dearest first."""
        whole = sum(spent.ns for spent in self.spent.values()) or 1.0
        elements = self.router.elements
        found = [
            (name, type(elements[name]).__name__, spent.ns / whole, spent.ns / spent.packets if spent.packets else 0.0)
            for name, spent in self.spent.items()
            if name in elements
        ]
        return sorted(found, key=lambda row: -row[2])
