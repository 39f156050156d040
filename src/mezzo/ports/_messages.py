"""How slots leave by sendmmsg, or one by one, for a transmitter to inherit: in batches, from the frames they lie in.

The kernel has copied what it took when the call comes back, so those slots are complete at once; what it did not take
stays in the ring and is tried again when there is room.  A driver says how a slot becomes a message (`lay`), which call
that is (`hand`), and what its answer means (`judge`).
"""

from mezzo.elements import Element, bounded, frame_address, i64, mem_u32, mem_u64, u32, u64
from mezzo.ports._slots import HEAD, TAIL, after, between, slot_at

BATCH = 64  # messages of a call
MESSAGE, VECTOR = 64, 16  # struct mmsghdr; struct iovec
MOST = 1 << 16


class _Messages(Element):
    runtime = True

    def lay(self, k: u32, at: u64, length: u32):
        """A driver's: message `k` is the packet at `at`."""

    def hand(self, count: u32) -> i64:
        """A driver's: gives messages to the kernel; how many it took, or -errno."""
        return 0

    def judge(self, answer: i64, count: u32) -> u32:
        """A driver's: how many packets are done with, by what the system call said."""
        return 0

    def send_messages(self):
        for _ in bounded(MOST, MOST):
            if self.send_some() == 0:
                break

    def send_some(self) -> u32:
        """One batch; how many packets it was the end of."""
        n = self.slots
        first = after(mem_u32(self.ring + TAIL), n)
        count = min(between(first, mem_u32(self.ring + HEAD), n), BATCH)
        if count == 0:
            return 0
        at = first
        for k in bounded(count, BATCH):
            place = slot_at(self.ring, at)
            word = mem_u64(place)
            self.lay(k, frame_address(u32(word)) + (mem_u64(place + 8) & 0xFFFF), u32(word >> 32) & 0xFFFF)
            at = after(at, n)
        done = self.judge(self.hand(count), count)
        for _ in bounded(done, BATCH):
            self.give_frame(mem_u32(slot_at(self.ring, first)))
            first = after(first, n)
        self.complete(done)
        return done
