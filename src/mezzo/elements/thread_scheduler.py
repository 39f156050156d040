"""The scheduler of a thread that may sleep: one among several threads, or one with descriptors to watch.

What another thread or a descriptor can make runnable is *polled*: run every 32 rounds, and last thing before sleep.
An idle thread spins for SPIN_NS, for a wake-up costs two system calls and some 30 µs; then it

    announces     asleep = 1 in its bell; membarrier(2), a full barrier on every running thread of the process
    looks         runs the polled tasks once more
    sleeps        ppoll(2) over its eventfd and descriptors, unless somebody rang

Whoever changes what a polled task of this thread looks at reads `asleep` after the change, and where it is set swaps
it for 0 and writes the eventfd.  The barrier lies between two of these, or on one side of both: behind the change, that
was there when the polled tasks ran; in front of the read, `asleep` is seen.  So no wake-up is lost, and who rings needs
no barrier.

The bell is a line of memory: asleep, eventfd, mail (u32 each), and for thread 0 `told`: somebody fell asleep.
A timer of this thread that another one sets comes by mail: `far` holds the time, its last bits count settings.

`run` comes back DONE when nothing is left to do here; whether that is so everywhere only the runtime can tell.
"""

from mezzo.elements import (
    Arg,
    Array,
    Bool,
    Int,
    atomic_swap_u32,
    bounded,
    entry,
    flag,
    i64,
    libc,
    load_acquire_u32,
    mem_u16,
    mem_u32,
    set_mem_u64,
    store_release_u32,
    u32,
    u64,
)  # fmt: skip
from mezzo.elements.scheduler import BUDGET, CLOCK_EVERY, DONE, NEVER, STOPPED, WAIT, Scheduler

POLL_EVERY = 32  # rounds
SPIN_NS = 20_000  # more steals the CPU from the thread that is waited for, where CPUs are few or busy
CHECK_NS = 100_000_000  # thread 0 sees Python so often: signals, `until`
MOST = 1 << 24
BUSY, SPINNING, ANNOUNCED = 0, 1, 2
ASLEEP, EVENT, MAIL, TOLD = 0, 4, 8, 12  # in the bell
SEQUENCE = 15  # the bits of a time in `far` that count settings


class ThreadScheduler(Scheduler):
    """Runs tasks and timers of a thread, and sleeps; made by mezzo."""

    runtime = True
    first = Arg(Bool(), True)  # thread 0, which Python is waiting for
    several = Arg(Bool(), False)  # there are further threads
    places = Arg(Int(), 1)
    bell: u64  # addresses
    first_bell: u64
    fds: u64
    timespec: u64
    scratch: u64
    ppoll_at: u64
    read_at: u64
    write_at: u64
    membarrier_at: u64
    membarrier_number: u64
    nfds: u64
    ends: flag  # the router may be done one day: no descriptor is watched
    settling: flag  # asked whether there is anything to do: do not sleep
    phase: u32
    told: flag
    since: u64
    sleeps: u64
    polled_count: u32
    polled: Array[u32, "places"]
    far: Array[u64, "places"]
    seen: Array[u64, "places"]

    def configure(self):
        super().configure()
        self.timers = self.places - self.ntasks

    # -- what comes from outside

    def visit(self):
        """Makes runnable what somebody else may have made ready."""
        for i in bounded(self.polled_count, MOST):
            self.wake(self.polled[i])
        if self.several and load_acquire_u32(self.bell + MAIL) != 0:
            atomic_swap_u32(self.bell + MAIL, 0)
            for timer in bounded(self.timers, MOST):
                at = self.far[timer]
                if at != self.seen[timer]:
                    self.seen[timer] = at
                    at = at | SEQUENCE
                    if at == NEVER:
                        self.timer_clear_(timer)
                    else:
                        self.timer_set_(timer, at)

    @entry
    def timer_set(self, timer: u32, at: u64):
        self.seen[timer] = self.far[timer]  # what came by mail before is overtaken
        self.timer_set_(timer, at)

    @entry
    def timer_clear(self, timer: u32):
        self.seen[timer] = self.far[timer]
        self.timer_clear_(timer)

    # -- sleep

    def busy(self):
        if self.phase == ANNOUNCED:
            store_release_u32(self.bell + ASLEEP, 0)
        self.phase = BUSY
        self.told = False

    def run_one(self):
        task = self.take_first()
        if self.run_task(task):
            self.wake(task)
            if self.phase != BUSY:
                self.busy()

    def idle(self) -> u64:
        """One step towards sleep; BUDGET to go on."""
        self.look()
        if self.settling:
            return DONE
        if self.phase == BUSY:
            self.phase = SPINNING
            self.since = self.now
        elif self.phase == SPINNING and self.now - self.since >= SPIN_NS:
            self.phase = ANNOUNCED
            store_release_u32(self.bell + ASLEEP, 1)
            if self.several:
                libc(self.membarrier_at, self.membarrier_number, 8, 0, 0)  # MEMBARRIER_CMD_PRIVATE_EXPEDITED
        elif self.phase == ANNOUNCED:
            if self.first and self.ends and self.timer_count == 0 and not self.told:
                self.told = True
                return DONE
            return self.nap()
        self.visit()
        return BUDGET

    def nap(self) -> u64:
        wait: u64 = NEVER
        if self.timer_count != 0:
            due = self.next_due()
            wait = due - self.now if due > self.now else 0
        if self.first:
            wait = min(wait, CHECK_NS)
            wait = min(wait, self.limit - self.now if self.limit > self.now else 0)
        elif self.ends:
            self.tell_first()
        ready: i64 = -1
        if load_acquire_u32(self.bell + ASLEEP) != 0 and self.stop == 0:
            self.sleeps += 1
            spec: u64 = 0
            if wait != NEVER:
                spec = self.timespec
                set_mem_u64(spec, wait // 1_000_000_000)
                set_mem_u64(spec + 8, wait % 1_000_000_000)
            ready = libc(self.ppoll_at, self.fds, self.nfds, spec, 0, 0)
        if load_acquire_u32(self.bell + ASLEEP) == 0 or mem_u16(self.fds + 6) != 0:
            libc(self.read_at, u64(mem_u32(self.bell + EVENT)), self.scratch, 8)
        self.busy()
        store_release_u32(self.bell + ASLEEP, 0)
        self.look()
        self.visit()
        if self.first and (ready <= 0 or atomic_swap_u32(self.bell + TOLD, 0) != 0):
            return WAIT
        return BUDGET

    def tell_first(self):
        """Thread 0 may be waiting for this thread to have nothing to do."""
        store_release_u32(self.first_bell + TOLD, 1)
        if atomic_swap_u32(self.first_bell + ASLEEP, 0) != 0:
            set_mem_u64(self.scratch, 1)
            libc(self.write_at, u64(mem_u32(self.first_bell + EVENT)), self.scratch, 8)

    # -- the loop

    @entry
    def run(self, count: u64) -> u64:
        if self.settling:
            self.visit()
        for _ in bounded(u32(count), 0xFFFF_FFFF):
            if self.stop != 0:
                self.look()
                return STOPPED
            if (self.rounds & (CLOCK_EVERY - 1)) == 0:
                self.look()
            if (self.rounds & (POLL_EVERY - 1)) == 0:
                self.visit()
            self.rounds += 1
            if self.timer_count != 0 and self.next_due() <= self.now:
                self.fire_one()
                self.busy()
            elif self.task_count != 0:
                self.run_one()
            else:
                status = self.idle()
                if status != BUDGET:
                    return status
        self.look()
        return BUDGET
