"""What both ends of a netmap port know: the rules of rings, and syncs that fail.

Rules of rings, looked at whenever the driver does: indexes are in the ring, tail never goes back, nobody else moves
head.  A ring where one is broken is told once and left alone; the others go on.
"""

import errno

from mezzo.base import MezzoError
from mezzo.elements import Arg, Bool, ConfigError, flag, i64, libc, mem_u64, python, set_mem_u64, u32, u64
from mezzo.ports import _netmap_abi as abi
from mezzo.ports._end import _End
from mezzo.ports._mtu import _WithMtu
from mezzo.ports._netmap_port import BROKEN, OURS, RECORD, SEEN, SLOTS
from mezzo.ports._slots import between

RETRIED = (-errno.EAGAIN, -errno.EINTR, -errno.EBUSY)
STUCK = 2
# Why a ring is left alone
INDEX, BACKWARDS, STRANGER, SLOT, THEFT = 1, 2, 3, 4, 5
RULES = {
    INDEX: "an index is out of the ring",
    BACKWARDS: "tail went backwards",
    STRANGER: "somebody else moved head: is another program on the same ring?",
    SLOT: "a slot names no buffer, or more bytes than a buffer has",
    THEFT: "a slot names a buffer that is a frame of this router",
}


class _Half(_WithMtu, _End):
    """What both ends know."""

    zero_copy = Arg(Bool(), False, "frames are netmap's buffers, which ports of one memory exchange", positional=False)

    swappable: u64  # frames below this one are buffers
    marks: u64  # a byte for each of those: is it ours
    buffers: u64  # the address of buffer 0
    buffer_size: u32
    buffer_count: u64
    table: u64  # records of this end's rings
    rings: u32
    fd: i64
    ioctl_at: u64
    system_calls: u64
    busy: u64
    gone: u32

    def sound(self, at: u64, head: u32, tail: u32) -> flag:
        """Do the rules hold in the ring of a record?"""
        n = u32(mem_u64(at + SLOTS))
        if mem_u64(at + BROKEN) != 0:
            return False
        ours, seen = u32(mem_u64(at + OURS)), u32(mem_u64(at + SEEN))
        if head == ours and tail < n and between(head, tail, n) >= between(head, seen, n):
            return True
        rule: u32 = BACKWARDS
        if head != ours:
            rule = STRANGER
        if tail >= n or head >= n:
            rule = INDEX
        self.leave(at, rule)
        return False

    def leave(self, at: u64, rule: u32) -> u32:
        """A ring where a rule was broken is left alone."""
        set_mem_u64(at + BROKEN, rule)
        self.say_broken(u32((at - self.table) // RECORD), rule)
        return STUCK

    def sync(self, request: u64) -> flag:
        """One system call; did it work?"""
        self.system_calls += 1
        answer = libc(self.ioctl_at, self.fd, request, 0)
        if answer >= 0:
            return True
        if answer in RETRIED:
            self.busy += 1
        else:
            self.gone = 1
            self.say_gone(u32(-answer))
        return False

    @python
    def say_broken(self, number, rule):
        self._port.told["trouble"] = f"ring {self.found[number].name}: {RULES[rule]}"
        self.say(f"{self.name}: ring {self.found[number].name} of `{self.device}` is left alone: {RULES[rule]}")

    @python
    def say_gone(self, number):
        said = self._port.state == "gone"
        what = self._port.lose(number)
        for end in self._port.ends:
            end.gone = 1
            self.router.unwatch(end, self._port.fd)
            end.wake_task()
        if not said:
            self.say(f"{self.name}: netmap port `{self.device}`: {what}; the rest goes on")

    # -- Python

    def spec(self):
        try:
            return abi.parse(self.devname)
        except MezzoError as trouble:
            told = trouble.diagnostics[0]
            raise ConfigError(f"{told.message}; {told.hint}" if told.hint else told.message) from None

    def use_rings(self, table, found, ring):
        self.found, self.table, self.rings = found, table.address, len(found)
        self.fd, self.ioctl_at = self._port.fd, self._port.kernel.ioctl_at
        self.swappable, self.marks, self.buffer_size = self._port.swappable, self._port.marks, self._port.buffer_size
        self.buffers, self.buffer_count = self._port.buffers, self._port.buffer_count
        self.use_ring(ring)
