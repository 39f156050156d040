"""How packets leave by a packet socket, two ways for a transmitter to inherit.

Messages: one sendmmsg takes a batch from the arena's frames (`_messages`).

A ring (PACKET_TX_RING): packets are copied into slots of the kernel's, one send asks for all of them, and a slot's
status word comes back when the device is done with the packet; until then the packet is in flight.  The kernel takes
slots in order, and stops for good at one that it refuses (TP_STATUS_WRONG_FORMAT): that packet is dropped and counted,
and those behind it are put into the slots from there on once more.
"""

import errno

from mezzo.elements import (
    Element,
    bounded,
    flag,
    frame_address,
    i64,
    libc,
    load_acquire_u32,
    mem_copy,
    mem_u16,
    mem_u32,
    mem_u64,
    mem_zero,
    now,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    store_release_u32,
    u32,
    u64,
)
from mezzo.ports._messages import MOST, VECTOR, _Messages
from mezzo.ports._segment import HEADER_SIZE
from mezzo.ports._slots import HEAD, after, between, slot_at

DONT_WAIT = 0x40
AGAIN, NO_BUFFERS = errno.EAGAIN, errno.ENOBUFS
DOWN, NO_DEVICE, NO_ADDRESS = errno.ENETDOWN, errno.ENODEV, errno.ENXIO
AVAILABLE, ASKED, WRONG = 0, 1, 4  # TP_STATUS of a slot
RETRY_NS = 100_000
NO_PACKET = 1  # a flag of one of our slots: the kernel has none for it


class _Sending(Element):
    """The counts that both ways have."""

    runtime = True
    tx_ring = False

    fd: i64
    send_at: u64
    waits: u64
    full: u64
    downs: u64
    errors: u64
    reads = {
        "waits": "how often the socket's buffer was full",
        "full": "packets that the queueing discipline dropped, or with TX_RING how often it was full",
        "downs": "packets dropped because the interface is down",
        "errors": "packets that the kernel refused",
    }

    def is_down(self, answer: i64) -> flag:
        return answer == -DOWN or answer == -NO_DEVICE or answer == -NO_ADDRESS


class _ByMessages(_Sending, _Messages):
    messages: u64
    vectors: u64

    def lay(self, k: u32, at: u64, length: u32):
        vector = self.vectors + u64(k) * (2 * VECTOR)
        set_mem_u64(vector, at)
        set_mem_u64(vector + 8, length)

    def hand(self, count: u32) -> i64:
        return libc(self.send_at, self.fd, self.messages, count, DONT_WAIT)

    def judge(self, answer: i64, count: u32) -> u32:
        if answer >= 0:
            return u32(answer)
        if answer == -AGAIN:
            self.waits += 1
            return 0
        if answer == -NO_BUFFERS:
            self.full += 1
            return 1
        if self.is_down(answer):
            self.downs += count
            return count
        self.errors += 1
        return 1


class _ByRing(_Sending):
    posted: u32  # in our ring: the next to be copied into a slot of the kernel's
    taken: u32  # in our ring: the next that comes back
    kernel_at: u64
    kernel_end: u64
    kernel_size: u32
    fill_at: u64  # the kernel's slot for `posted`
    reap_at: u64  # the kernel's slot of `taken`
    prefix: u32
    at_status: u32
    at_length: u32
    at_data: u32

    def use_kernel_ring(self, made):
        """Python: from now on packet code fills this ring."""
        self.kernel_at = self.fill_at = self.reap_at = made.send_address
        self.kernel_size, self.kernel_end = made.send_shape.size, made.send_address + made.send_shape.bytes
        self.prefix = HEADER_SIZE if made.prefixed else 0
        layout = made.layout
        self.at_status, self.at_length, self.at_data = layout.status, layout.length, layout.header

    def send_slots(self):
        for _ in bounded(MOST, MOST):
            self.reap()
            self.post()
            if not self.is_asked():
                return
            answer = libc(self.send_at, self.fd, 0, 0, DONT_WAIT)
            if answer >= 0 or self.took_back(answer) == 0:
                break
        self.reap()
        if self.is_asked():
            self.armed = now() + RETRY_NS
            self.timer_at(self.armed)

    def is_asked(self) -> flag:
        """Has the kernel not taken the last packet?  It takes them in order."""
        if self.taken == self.posted:
            return False
        last = self.kernel_end if self.fill_at == self.kernel_at else self.fill_at
        return load_acquire_u32(last - self.kernel_size + self.at_status) == ASKED

    def post(self):
        """Packets are copied into slots of the kernel's."""
        n = self.slots
        for _ in bounded(between(self.posted, mem_u32(self.ring + HEAD), n), MOST):
            at = self.fill_at
            if load_acquire_u32(at + self.at_status) != AVAILABLE:
                break  # given up, and yet in the device's hands
            place = slot_at(self.ring, self.posted)
            word = mem_u64(place)
            length = u32(word >> 32) & 0xFFFF
            to = at + self.at_data
            if self.prefix != 0:
                mem_zero(to, HEADER_SIZE)
            mem_copy(to + self.prefix, frame_address(u32(word)) + (mem_u64(place + 8) & 0xFFFF), length)
            set_mem_u32(at + self.at_length, length + self.prefix)
            store_release_u32(at + self.at_status, ASKED)
            self.fill_at = self.next_slot(at)
            self.posted = after(self.posted, n)

    def reap(self):
        """What has left goes home."""
        n, done = self.slots, u32(0)
        for _ in bounded(between(self.taken, self.posted, n), MOST):
            place = slot_at(self.ring, self.taken)
            if mem_u16(place + 6) & NO_PACKET == 0:
                if load_acquire_u32(self.reap_at + self.at_status) != AVAILABLE:
                    break
                self.reap_at = self.next_slot(self.reap_at)
            self.give_frame(mem_u32(place))
            self.taken = after(self.taken, n)
            done += 1
        if done != 0:
            self.complete(done)

    def took_back(self, answer: i64) -> u32:
        """How many packets were dropped because of what the call said, so that those behind them can go."""
        count: u32 = 0
        if answer == -AGAIN:
            self.waits += 1
        elif answer == -NO_BUFFERS:
            self.full += 1  # the slot is asked for once more
        elif self.is_down(answer):
            count = self.take_back(True)
            self.downs += count
        else:
            count = self.take_back(False)
            self.errors += count
        return count

    def take_back(self, everything: flag) -> u32:
        """Drops what the kernel has not taken, or the one that it refused, which is where it stopped; how many."""
        n, at, index, count = self.slots, self.reap_at, self.taken, u32(0)
        for _ in bounded(between(index, self.posted, n), MOST):
            place = slot_at(self.ring, index)
            if mem_u16(place + 6) & NO_PACKET == 0:
                status = load_acquire_u32(at + self.at_status)
                if status == WRONG or (status == ASKED and everything):
                    break
                at = self.next_slot(at)
            index = after(index, n)
        if index == self.posted:
            return 0
        stopped, last = at, after(index, n) if not everything else self.posted
        for _ in bounded(between(index, self.posted, n), MOST):
            store_release_u32(at + self.at_status, AVAILABLE)
            at = self.next_slot(at)
        for _ in bounded(between(index, last, n), MOST):
            set_mem_u16(slot_at(self.ring, index) + 6, NO_PACKET)
            index = after(index, n)
            count += 1
        self.fill_at = stopped
        self.posted = last
        return count

    def next_slot(self, at: u64) -> u64:
        return self.kernel_at if at + self.kernel_size == self.kernel_end else at + self.kernel_size

    def abandon(self):
        """All in flight is given up.  Their bytes are in the kernel's slots, so the frames go home."""
        self.take_back(True)
        head = mem_u32(self.ring + HEAD)
        for _ in bounded(between(self.taken, head, self.slots), MOST):
            self.give_frame(mem_u32(slot_at(self.ring, self.taken)))
            self.taken = after(self.taken, self.slots)
        self.posted = head
        self.reap_at = self.fill_at
