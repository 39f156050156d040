"""Packets for a program of the kernel, natively: BPF_PROG_TEST_RUN, from packet code.

    try_out     runs a program on a copy of the packet; what it made of it comes back, and nothing leaves
    give_live   (BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18) runs it on a copy that the kernel treats by the verdict, as if
                the packet had come by an interface: it has left, or the stack has worked on it, when the call returns

What the call needs, its arguments and the contexts of the program, is a block in the packet's own frame, in front of
the packet or behind it: so threads do not share it.
"""

from mezzo.base.bpf import TEST_RUN, system_call
from mezzo.elements import Element, frame_size, i64, libc, mem_zero, set_mem_u32, set_mem_u64, u32, u64
from mezzo.ports._libc import address_of

# union bpf_attr of the call: program, verdict, sizes and places of data in and out, repeat, duration, sizes and places
# of contexts in and out, flags, CPU, batch; behind it struct xdp_md twice: data, its end, metadata, interface, …
VERDICT, SIZE_IN, SIZE_OUT, DATA_IN, DATA_OUT, REPEAT = 4, 8, 12, 16, 24, 32
CONTEXT_IN_SIZE, CONTEXT_OUT_SIZE, CONTEXT_IN, CONTEXT_OUT, FLAGS, BATCH, ATTRIBUTES = 40, 44, 48, 56, 64, 72, 80
END, INTERFACE, CONTEXT = 4, 12, 24
TOLD = ATTRIBUTES + CONTEXT  # where the context is that comes back
BLOCK = TOLD + CONTEXT
LIVE_FRAMES = 1 << 1
NOWHERE = 0
LEAST, MOST = 14, 3000  # bytes of a live frame: an Ethernet header, and what fits in a page beside the kernel's own


class _LiveFrames(Element):
    """An element that makes such calls."""

    runtime = True
    number: u64
    call_at: u64

    # -- packet code

    def room(self, first: u32, behind: u32) -> u32:
        """Where in the frame the block has room beside the bytes from `first` to `behind`, at a multiple of 8."""
        if first >= BLOCK + 8:
            return (first - BLOCK) & ~u32(7)
        at = (behind + 7) & ~u32(7)
        return at if at + BLOCK <= frame_size() else u32(NOWHERE)

    def fill(self, block: u64, program: u32, data: u64, length: u32):
        mem_zero(block, BLOCK)
        set_mem_u32(block, program)
        set_mem_u32(block + SIZE_IN, length)
        set_mem_u64(block + DATA_IN, data)
        set_mem_u32(block + REPEAT, 1)
        set_mem_u32(block + CONTEXT_IN_SIZE, CONTEXT)
        set_mem_u64(block + CONTEXT_IN, block + ATTRIBUTES)
        set_mem_u32(block + ATTRIBUTES + END, length)

    def give_live(self, block: u64, program: u32, data: u64, length: u32, interface: u32) -> i64:
        """The kernel's answer: less than 0 when it did not take the packet."""
        self.fill(block, program, data, length)
        set_mem_u32(block + FLAGS, LIVE_FRAMES)
        set_mem_u32(block + BATCH, 1)
        set_mem_u32(block + ATTRIBUTES + INTERFACE, interface)
        return libc(self.call_at, self.number, TEST_RUN, block, ATTRIBUTES)

    def try_out(self, block: u64, program: u32, data: u64, length: u32, metadata: u32, most: u32) -> i64:
        """The same; `metadata` bytes come first, `most` bytes of what the program made come back to where `data` is.
        The block says how many (SIZE_OUT), of which metadata (TOLD), and the verdict."""
        self.fill(block, program, data, length)
        set_mem_u32(block + ATTRIBUTES, metadata)
        set_mem_u32(block + SIZE_OUT, most)
        set_mem_u64(block + DATA_OUT, data)
        set_mem_u32(block + CONTEXT_OUT_SIZE, CONTEXT)
        set_mem_u64(block + CONTEXT_OUT, block + TOLD)
        return libc(self.call_at, self.number, TEST_RUN, block, ATTRIBUTES)

    # -- Python

    def may_call(self) -> None:
        self.call_at, self.number = address_of("syscall"), system_call()
