"""The scheduler: instance 0 of every program, written in the packet language like any element.

Tasks run under stride scheduling (Waldspurger 1995): the runnable task with the smallest pass runs next, and its pass
grows by its stride, so shares are as tickets.  Timers fire in order of their due time, ties in the order they were
set.  One heap holds tasks, one timers; both live in the same arrays, the tasks from place 0, the timers from `ntasks`.

A task is off the heap while it runs; it goes back when it asks to run again or something wakes it.
`run` comes back with a status: BUDGET spent, STOPPED, DONE (nothing will ever run again), WAIT (for the next timer).
Under the virtual clock the time is that of the last timer, and moves only when no task is runnable, to `limit` at most.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from mezzo.elements.args import Arg, Bool, Int
from mezzo.elements.element import Array, Element, entry
from mezzo.ir.types import U32 as u32
from mezzo.ir.types import U64 as u64

BUDGET, STOPPED, DONE, WAIT = 0, 1, 2, 3
NOWHERE = 0xFFFF_FFFF
NEVER = 0xFFFF_FFFF_FFFF_FFFF
STRIDE1 = 1 << 16  # the stride of a task with one ticket
DEFAULT_TICKETS = 1024
DEPTH = 24  # a heap of 2^24 entries
CLOCK_EVERY = 16  # rounds between looks at a wall clock: it costs 20 ns

bounded = None  # packet language


class Scheduler(Element):
    """Runs tasks and timers; made by mezzo for every router."""

    ports = "0/0"
    virtual = Arg(Bool(), False)
    ntasks = Arg(Int(), 1)
    places = Arg(Int(), 1)
    now: u64
    limit: u64  # a virtual clock does not pass it
    stop: u32
    rounds: u64
    pass_now: u64
    order: u64
    task_count: u32
    timer_count: u32
    heap: Array[u32, "places"]
    where: Array[u32, "places"]
    key: Array[u64, "places"]
    seq: Array[u64, "places"]
    stride: Array[u64, "places"]

    def configure(self):
        self.limit = NEVER
        for i in range(self.places):
            self.where[i] = NOWHERE
            self.stride[i] = STRIDE1 // DEFAULT_TICKETS

    # -- the heaps

    def before(self, a: u32, b: u32) -> bool:
        return self.key[a] < self.key[b] or (self.key[a] == self.key[b] and self.seq[a] < self.seq[b])

    def put(self, base: u32, at: u32, item: u32):
        self.heap[base + at] = item
        self.where[item] = at

    def up(self, base: u32, start: u32, item: u32):
        at: u32 = start
        for _ in range(DEPTH):
            if at == 0:
                break
            parent = (at - 1) >> 1
            other = self.heap[base + parent]
            if not self.before(item, other):
                break
            self.put(base, at, other)
            at = parent
        self.put(base, at, item)

    def down(self, base: u32, start: u32, item: u32, count: u32):
        at: u32 = start
        for _ in range(DEPTH):
            child = 2 * at + 1
            if child >= count:
                break
            other = self.heap[base + child]
            if child + 1 < count:
                right = self.heap[base + child + 1]
                if self.before(right, other):
                    child += 1
                    other = right
            if not self.before(other, item):
                break
            self.put(base, at, other)
            at = child
        self.put(base, at, item)

    # -- tasks

    @entry
    def wake(self, task: u32):
        if self.where[task] == NOWHERE:
            if self.key[task] < self.pass_now:
                self.key[task] = self.pass_now
            self.seq[task] = self.order
            self.order += 1
            self.task_count += 1
            self.up(0, self.task_count - 1, task)

    @entry
    def sleep(self, task: u32):
        at = self.where[task]
        if at != NOWHERE:
            self.where[task] = NOWHERE
            self.task_count -= 1
            if at != self.task_count:
                last = self.heap[self.task_count]
                self.up(0, at, last)
                self.down(0, self.where[last], last, self.task_count)

    @entry
    def is_scheduled(self, task: u32) -> bool:
        return self.where[task] != NOWHERE

    @entry
    def set_tickets(self, task: u32, tickets: u32):
        self.stride[task] = u64(max(STRIDE1 // tickets, 1))

    def take_first(self) -> u32:
        """The task whose turn it is, off the heap."""
        task = self.heap[0]
        self.task_count -= 1
        self.where[task] = NOWHERE
        if self.task_count != 0:
            self.down(0, 0, self.heap[self.task_count], self.task_count)
        self.pass_now = self.key[task]
        self.key[task] += self.stride[task]
        return task

    def run_one(self):
        task = self.take_first()
        if self.run_task(task):
            self.wake(task)

    # -- timers: number t is item ntasks + t

    @entry
    def timer_set(self, timer: u32, at: u64):
        self.timer_set_(timer, at)

    def timer_set_(self, timer: u32, at: u64):
        self.timer_clear_(timer)
        item = timer + self.ntasks
        self.key[item] = at
        self.seq[item] = self.order
        self.order += 1
        self.timer_count += 1
        self.up(self.ntasks, self.timer_count - 1, item)

    @entry
    def timer_clear(self, timer: u32):
        self.timer_clear_(timer)

    def timer_clear_(self, timer: u32):
        item = timer + self.ntasks
        at = self.where[item]
        if at != NOWHERE:
            self.where[item] = NOWHERE
            self.timer_count -= 1
            if at != self.timer_count:
                last = self.heap[self.ntasks + self.timer_count]
                self.up(self.ntasks, at, last)
                self.down(self.ntasks, self.where[last], last, self.timer_count)

    @entry
    def next_due(self) -> u64:
        """When the next timer fires; all ones when none is set."""
        if self.timer_count == 0:
            return 0xFFFF_FFFF_FFFF_FFFF
        return self.key[self.heap[self.ntasks]]

    def fire_one(self):
        item = self.heap[self.ntasks]
        self.timer_clear_(item - self.ntasks)
        self.fire_timer(item - self.ntasks)

    # -- the loop

    @entry
    def look(self):
        """Reads the wall clock; it never goes back."""
        clock = self.read_clock()
        if clock > self.now:
            self.now = clock

    @entry
    def run(self, count: u64) -> u64:
        for _ in bounded(u32(count), 0xFFFF_FFFF):
            if self.stop != 0:
                self.stamp()
                return STOPPED
            if not self.virtual and (self.rounds & (CLOCK_EVERY - 1)) == 0:
                self.look()
            self.rounds += 1
            if self.timer_count != 0 and self.next_due() <= self.now:
                self.fire_one()
            elif self.task_count != 0:
                self.run_one()
            elif self.timer_count == 0:
                return DONE
            elif self.virtual:
                if self.next_due() > self.limit:
                    self.now = self.limit
                    return WAIT
                self.now = self.next_due()
            else:
                self.look()
                if self.next_due() > self.now:
                    return WAIT
        self.stamp()
        return BUDGET

    def stamp(self):
        """When packet code came to an end is told."""
        if not self.virtual:
            self.look()


def fill(
    cells: Mapping[str, Any],
    ntasks: int,
    tasks: Sequence[int],
    timers: Sequence[tuple[int, int]],
    strides: Sequence[tuple[int, int]],
) -> None:
    """The state of a scheduler that has not run yet: as if tasks had been woken, and timers set, one after another."""
    places = len(cells["where"])
    heap, where, key, seq = [0] * places, [NOWHERE] * places, [0] * places, [0] * places
    for at, task in enumerate(tasks):
        heap[at], where[task], seq[task] = task, at, at
    for order, (timer, due) in enumerate(timers, len(tasks)):
        key[ntasks + timer], seq[ntasks + timer] = due, order
    # What is sorted is a heap.
    for at, (timer, _) in enumerate(sorted(timers, key=itemgetter(1))):
        heap[ntasks + at], where[ntasks + timer] = ntasks + timer, at
    stride = cells["stride"].dump()
    for task, wide in strides:
        stride[task] = wide
    told = {"heap": heap, "where": where, "key": key, "seq": seq, "stride": stride}
    for name, content in told.items():
        cells[name].load(content)
    counts = {"task_count": len(tasks), "timer_count": len(timers), "order": len(tasks) + len(timers)}
    for name, count in counts.items():
        cells[name].load(count)
