"""Packets to a device: the half that all drivers share.

The task pulls packets into the slots of the transmit ring and calls the driver's `transmit` once a batch, which hands
them to the wire, with one system call at most, and takes back those that are done: `self.complete(n)` for n slots, in
ring order.  From the slot's being filled to that moment a packet is *in flight*.

Flow control: without room (of slots, or of bytes under BQL) the task stops pulling.  It is called again when the
descriptor says so, and by a timer that doubles its wait, so a completion that nobody tells about costs little.  One
that never comes is counted as lost after COMPLETION_WAIT, its slot is used again, and its frame stays the driver's
until the port is closed: the device may still be reading it.
"""

from mezzo.elements import (
    Arg,
    Bool,
    Duration,
    Int,
    Packet,
    Port,
    bounded,
    mem_u16,
    mem_u32,
    mem_u64,
    now,
    python,
    read,
    set_mem_u16,
    set_mem_u32,
    u16,
    u32,
    u64,
    write,
)
from mezzo.pipeline.wire import WIRE
from mezzo.ports._dql import _Limited
from mezzo.ports._end import MOST
from mezzo.ports._slots import HEAD, TAIL, after, ahead, put_slot, release, slot_at, space
from mezzo.ports.ring import TRANSMIT, Ring

STAGE = 1024  # slots in front of the faults
FIRST_WAIT_NS, LAST_WAIT_NS = 50_000, 20_000_000
LOOK_NS = 100_000_000  # between looks for completions that nobody tells about
POLLOUT = 4
FILLED, REFUSED, DRY = 0, 1, 2
NEVER = (1 << 64) - 1


class ToDevice(_Limited):
    """Pulls packets and sends them to a device.

    METHOD says how; without it, as the FromDevice of the same device, else by XDP or PACKET.  A packet that was handed
    over leaves as a copy by output 0, where that is connected; one that no frame of the device can take leaves by
    output 1, or dies.  While the device has no room nothing is pulled: the queue holds the packets.
    """

    ports, processing, flow = "1/0-2", "l/h", "x/x"
    half = "Transmitter"
    is_transmitter = True
    most = 0xFFFF  # bytes that a slot can tell
    unsent = False  # what is in flight waits for room, not for a completion
    tells = False  # the driver wakes the task by itself when there is room
    wait_ns = 10**9  # for a completion; 0 where it is up to somebody when they come

    burst = Arg(Int(1, MOST), 32, "most packets a scheduling", positional=False)
    debug = Arg(Bool(), False, "tells when the device has no room", positional=False)
    completion_wait = Arg(Duration(), None, "when a completion counts as lost; 0 is never", positional=False)

    stage: u64
    events_at: u64
    longest: u32
    flying: u32
    progress: u64
    backoff: u64
    armed: u64
    lost: u64
    refused: u64
    stops: u64
    pulls: u64
    reads = {
        "count": "packets handed to the device",
        "byte_count": "bytes handed to the device",
        "lost": "packets whose completion never came",
        "refused": "packets of no bytes, or of more than the device takes",
        "stops": "how often there was no room",
        "pulls": "how often the input was pulled",
    }
    example = "InfiniteSource(LIMIT 5) -> t :: ToDevice(here, METHOD MEMORY);"
    example_reads = {"t.count": "5"}
    see = ("FromDevice", "ToDump", "KernelTap", "Queue")

    def configure(self) -> None:
        super().configure()
        self.patience = self.wait_ns if self.completion_wait is None else self.completion_wait
        self.copies = self.noutputs > 0
        self.set_limits()
        self.set_hooks()
        self.loses = self.lose != 0
        if self.loses and self.unsent:
            self.error(f"FAULT: lose: METHOD {self.method.upper()} has no completions that could be lost; say drop")

    # -- packet code

    def transmit(self):
        """A driver's: hands the slots in front of head to the wire, and takes back those that are done."""

    def task(self) -> bool:
        ring = self.stage if self.faulty else self.ring
        slots = u32(STAGE) if self.faulty else self.slots
        room = space(ring, slots)
        if room == 0 or self.flying != 0:
            self.pass_on()
            room = space(ring, slots)
        n = min(room, u32(self.burst))
        if self.limited:
            self.refill()
        at = mem_u32(ring + HEAD)
        filled: u32 = 0
        moved: u32 = 0
        got: u32 = FILLED
        for _ in bounded(n, MOST):
            if self.bql and self.limiting and self.available() < 0:
                break
            if self.limited and self.tokens < 0:
                break
            got = self.fill(ring, at)
            if got == DRY:
                break
            moved += 1
            if got == FILLED:
                at = after(at, slots)
                filled += 1
        if filled != 0:
            release(ring, at)
            if self.flying == 0:
                self.progress = now()
            self.count += filled
            if self.traced:
                self.trace_flush()
            self.pass_on()
            self.backoff = 0
        return self.come_back(moved, got == DRY)

    def fill(self, ring: u64, at: u32) -> u32:
        """Pulls a packet into a slot: FILLED; REFUSED, and the slot is as it was; DRY where there was none."""
        self.pulls += 1
        p = self.pull(0)
        if p is None:
            return DRY
        length = p.length
        if length == 0 or length > self.longest:
            self.refused += 1
            self.push(1, p, "cannot be sent")
            return REFUSED
        if self.copies:
            q = p.clone()
            if q is not None:
                self.push(0, q)
        start = p.frame_start
        word = u64(self.lend(p)) | u64(length) << 32
        if self.traced:
            self.trace_slot(word, u64(start))
        put_slot(ring, at, word, u64(start))
        self.byte_count += length
        if self.limited:
            self.spend(length)
        if self.bql:
            self.note_queued(length)
        return FILLED

    def pass_on(self):
        """To the wire, through the faults where there are some."""
        if self.faulty:
            self.fault_pass()
        self.transmit()
        self.flying = self.slots - 1 - space(self.ring, self.slots)
        if self.faulty and self.bql and self.flying == 0 and space(self.stage, STAGE) == STAGE - 1:
            self.note_completed(self.queued - self.completed)  # what the faults dropped never comes back

    def complete(self, count: u32):
        """The driver's word that `count` slots are done."""
        n: u32 = self.survivors(count) if self.loses else count
        # One that was given up may come late: its slot is room already.
        n = min(n, self.slots - 1 - space(self.ring, self.slots))
        if n != 0:
            self.reclaim(n)
            self.progress = now()

    def reclaim(self, n: u32):
        """The oldest `n` slots in flight are room again."""
        tail = mem_u32(self.ring + TAIL)
        if self.bql:
            bytes: u32 = 0
            at: u32 = after(tail, self.slots)
            for _ in bounded(n, MOST):
                bytes += mem_u16(slot_at(self.ring, at) + 4)
                at = after(at, self.slots)
            self.note_completed(min(bytes, self.queued - self.completed))
        set_mem_u32(self.ring + TAIL, ahead(tail, n, self.slots))

    def survivors(self, count: u32) -> u32:
        n: u32 = 0
        for _ in bounded(count, MOST):
            if u64(self.draw()) >= self.lose:
                n += 1
        return n

    def come_back(self, moved: u32, dry: bool) -> bool:
        """Whether to run again at once; else when."""
        if self.flying != 0 and self.patience != 0 and now() - self.progress >= self.patience:
            self.give_up()
            return True
        waiting = not dry or (self.unsent and self.flying != 0)
        stopped = waiting and moved == 0
        if self.events_at != 0:
            set_mem_u16(self.events_at, u16(POLLOUT if stopped else 0))
        if waiting and not stopped:
            return True
        due: u64 = NEVER
        if self.limited and self.tokens < 0:
            due = self.paid_at()
        elif stopped:
            self.stops += 1
            if self.debug and self.backoff == 0:
                self.say_stopped()
            if not self.tells:
                self.backoff = min(max(2 * self.backoff, FIRST_WAIT_NS), LAST_WAIT_NS)
                due = now() + self.backoff
        if self.flying != 0 and self.patience != 0:
            due = min(due, now() + LOOK_NS)
        if self.faulty:
            due = min(due, self.fault_due())
        if due != NEVER and (due < self.armed or self.armed <= now()):
            self.armed = due
            self.timer_at(due)
        return False

    def timer(self):
        self.armed = 0
        self.wake()

    def give_up(self):
        """The completions of all that is in flight are lost; their slots are used again."""
        n = self.flying
        self.lost += n
        self.abandon()
        self.reclaim(n)
        self.flying = 0
        self.progress = now()
        self.say_lost(n)

    def abandon(self):
        """A driver's: the slots in flight are used again; their frames stay its own until the port is closed."""

    @python
    def say_stopped(self) -> None:
        self.say(f"{self.name}: `{self.device}` has no room")

    @python
    def say_lost(self, n: int) -> None:
        self.say(f"{self.name}: {n} packets were handed to `{self.device}` and never came back; going on without them")

    # -- the kernel's half: an XDP program pushes packets here, and they leave at once (docs/design/0003)

    def wire(self, p: Packet) -> Port:
        if p.length > self.longest:
            self.refused += 1
            return 1, "cannot be sent"
        self.count += 1
        self.byte_count += p.length
        return WIRE

    # -- faults: from the ring that the task fills through the stage to the driver's ring

    def fault_pass(self):
        tail = mem_u32(self.stage + TAIL)
        n = STAGE - 1 - space(self.stage, STAGE)
        for _ in bounded(n, STAGE):
            if space(self.ring, self.slots) < 3:
                break
            tail = after(tail, STAGE)
            place = slot_at(self.stage, tail)
            self.fault_one(mem_u64(place), mem_u64(place + 8))
        set_mem_u32(self.stage + TAIL, tail)
        for _ in range(STAGE // 8):
            if space(self.ring, self.slots) == 0:
                break
            self.fault_release()

    def fault_put(self, word: u64, more: u64):
        """A slot comes out of the faults."""
        head = mem_u32(self.ring + HEAD)
        put_slot(self.ring, head, word, more)
        release(self.ring, after(head, self.slots))

    # -- the life of an end

    def initialize(self) -> None:
        self.longest = min(self.most, self.router.arena.frame_size, self._port.longest())
        if self.faulty:
            self._stage = Ring.make(STAGE, TRANSMIT)
            self.stage = self._stage.address
            self._port.keep("free the ring of the faults", self._stage.close)
        if self.traced:
            self.open_trace(self.trace, self.encap_word())

    def encap_word(self) -> str:
        return "ETHER"

    # -- handlers

    @read("packets_in_flight", "packets handed to the device and not completed")
    def read_packets_in_flight(self) -> int:
        return self._ring.pending

    @read("bytes_in_flight", "bytes of those")
    def read_bytes_in_flight(self) -> int:
        return sum(slot.length for slot in self._ring.slots())

    @write("reset_counts", "sets the counts to 0", flags="b")
    def reset_counts(self, text: str) -> None:
        for name in ("count", "byte_count", "lost", "refused", "stops", "pulls"):
            setattr(self, name, 0)
