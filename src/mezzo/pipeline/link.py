"""Links units into a program: who is connected to whom, who is woken, whose readiness is asked.

Wakes and readiness follow the graph: down along pull connections to the tasks that pull, up along push connections to
the tasks that push, forward along push connections to the queues that may fill.  Each search stops at the first
element that answers it, so a queue in between ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mezzo.elements.element import Element
from mezzo.graph import Resolved
from mezzo.ir.module import Linked, Unit

Place = tuple[int, int]
FIRST_UP = 2  # outputs of a device input that are its own


class Linker:
    """The tables the searches work on; index i is element i, instance i + 1.  `ups`: of device inputs, where what comes
    up from the kernel goes on, and of what hands packets to it."""

    def __init__(
        self,
        resolved: Resolved,
        elements: Sequence[Element],
        units: Sequence[Unit],
        ups: Mapping[int, Sequence[Place | None]] | None = None,
    ) -> None:
        self.elements, self.units = elements, units
        number = {e.name: i for i, e in enumerate(elements)}
        self.outs: list[list[list[Place]]] = [[[] for _ in range(e.noutputs)] for e in elements]
        self.ins: list[list[list[Place]]] = [[[] for _ in range(e.ninputs)] for e in elements]
        for c in resolved.graph.connections:
            self.outs[number[c.src]][c.src_port].append((number[c.dst], c.dst_port))
            self.ins[number[c.dst]][c.dst_port].append((number[c.src], c.src_port))
        self.push_out = [[k == "push" for k in e.output_kinds] for e in elements]
        self.push_in = [[k == "push" for k in e.input_kinds] for e in elements]
        for i, places in (ups or {}).items():
            self.connect_ups(i, places)
        self.tasks = [i for i in range(len(elements)) if self.drives(i)]
        self.timers = [i for i, u in enumerate(units) if u.function("timer") is not None]
        self.task_number = {i: t for t, i in enumerate(self.tasks)}

    def connect_ups(self, i: int, places: Sequence[Place | None]) -> None:
        """Gives a device input the outputs by which packets that come up from the kernel go on, behind its own two."""
        own = FIRST_UP - len(self.outs[i])
        self.outs[i] += [*([] for _ in range(own)), *([place] if place is not None else [] for place in places)]
        self.push_out[i] += [True] * (own + len(places))
        for number, place in enumerate(places):
            if place is not None:
                self.ins[place[0]][place[1]].append((i, FIRST_UP + number))

    def run(self) -> tuple[tuple[int, ...], tuple[int, ...], list[Linked]]:
        """(tasks, timers, linked instances); instance numbers count from 1, 0 is the scheduler."""
        timer_number = {i: t for t, i in enumerate(self.timers)}
        linked = [self.linked(i, timer_number.get(i, -1)) for i in range(len(self.elements))]
        return tuple(i + 1 for i in self.tasks), tuple(i + 1 for i in self.timers), linked

    def drives(self, i: int) -> bool:
        """Has a task that does something here: nobody pulls from it, and it can pull or make packets itself."""
        if self.units[i].function("task") is None or not all(self.push_out[i]):
            return False
        return not self.push_in[i] or not all(self.push_in[i]) or getattr(self.elements[i], "task_always", False)

    def linked(self, i: int, timer: int) -> Linked:
        element, unit = self.elements[i], self.units[i]
        used = unit.uses
        in_pull = not all(self.push_out[i])
        down = self.down(i) if in_pull and ("down" in used or unit.function("process")) else ()
        ready = tuple(self.ready(i, p) for p in range(len(self.outs[i]))) if "ready" in used else ()
        return Linked(
            element.name,
            unit,
            outputs=tuple(self.one(self.outs[i][p], self.push_out[i][p]) for p in range(len(self.outs[i]))),
            inputs=tuple(self.one(self.ins[i][p], not self.push_in[i][p]) for p in range(element.ninputs)),
            pull_outputs=tuple(not x for x in self.push_out[i]),
            pull_inputs=tuple(not x for x in self.push_in[i]),
            task=self.task_number.get(i, -1),
            timer=timer,
            wake_down=tuple(down),
            wake_up=tuple(self.up(i)) if "up" in used else (),
            ready=ready,
        )

    def reached(self, instance: int, who: str) -> tuple[int, ...]:
        """The tasks that a wake from an instance reaches: its own ("self"), those that pull from it, or push to it."""
        i = instance - 1
        if who == "self":
            return (self.task_number[i],) if i in self.task_number else ()
        return tuple(self.down(i) if who == "down" else self.up(i))

    def one(self, ends: list[Place], active: bool) -> Place | None:
        """The far end of a push output or pull input, as an instance number."""
        return (ends[0][0] + 1, ends[0][1]) if active and ends else None

    # -- searches; each yields in the order found, which is the order of the graph

    def down(self, start: int) -> Iterator[int]:
        """Tasks that pull from here."""
        return self.tasks_along(start, self.outs, self.push_out, False)

    def up(self, start: int) -> Iterator[int]:
        """Tasks that push to here."""
        return self.tasks_along(start, self.ins, self.push_in, True)

    def tasks_along(
        self, start: int, ends: list[list[list[Place]]], is_push: list[list[bool]], push: bool
    ) -> Iterator[int]:
        """The tasks first met along connections of one kind, push or pull."""
        seen, stack = {start}, [start]
        while stack:
            i = stack.pop()
            for port, places in enumerate(ends[i]):
                for j, _ in places if is_push[i][port] == push else ():
                    if j in seen:
                        continue
                    seen.add(j)
                    if j in self.task_number:
                        yield self.task_number[j]
                    else:
                        stack.append(j)

    def ready(self, start: int, port: int) -> tuple[int, ...]:
        """Instances whose `ready` stands for room behind a push output."""
        if not self.push_out[start][port]:
            return ()
        found, seen = [], set()
        stack = [j for j, _ in self.outs[start][port]]
        while stack:
            j = stack.pop()
            if j in seen:
                continue
            seen.add(j)
            if self.units[j].function("ready") is not None:
                found.append(j + 1)
                continue
            for p, ends in enumerate(self.outs[j]):
                if self.push_out[j][p]:
                    stack += [k for k, _ in ends]
        return tuple(sorted(found))
