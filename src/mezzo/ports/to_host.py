"""ToHost: packets go on in the stack of this machine, as if they had just come in by an interface.

In the kernel's level that is the verdict XDP_PASS.  Natively the kernel is asked to run a program that does nothing but
give this verdict on the packet (BPF_PROG_TEST_RUN with live frames, Linux 5.18): it copies the bytes, and the stack has
worked on them before the call returns, some 10 µs a packet.  What the call needs, its arguments and the context of the
program, is written in front of the packet into the headroom of its frame, or behind it: so threads do not share it.
"""

import os

from mezzo.base import Diagnostic, MezzoError
from mezzo.base.bpf import TEST_RUN, system_call
from mezzo.elements import (
    Arg,
    ConfigError,
    Element,
    Packet,
    Port,
    Word,
    frame_address,
    frame_size,
    i64,
    libc,
    mem_zero,
    set_mem_u32,
    set_mem_u64,
    u32,
    u64,
    write,
)
from mezzo.pipeline.wire import WIRE
from mezzo.ports import _attach, _netdev, privileged
from mezzo.ports._libc import address_of

LEAST, MOST = 14, 3000  # bytes that the kernel takes: an Ethernet header, and what fits in a page beside its own
# union bpf_attr of the call: program, result, sizes, data in and out, repeat, duration, sizes and places of contexts,
# flags, CPU, batch; behind it struct xdp_md: data, its end, metadata, interface, queue, interface out.
SIZE_IN, DATA_IN, REPEAT, CONTEXT_SIZE, CONTEXT_IN, FLAGS, BATCH, ATTRIBUTES = 8, 16, 32, 40, 48, 64, 72, 80
END, INTERFACE, CONTEXT = 4, 12, 24
BLOCK = ATTRIBUTES + CONTEXT
LIVE_FRAMES = 1 << 1
NOWHERE = 0


class ToHost(Element):
    """Gives packets to the stack of this machine, as if they had come in by the interface DEVICE.

    They are Ethernet frames.  What the kernel does not take leaves by output 0, or dies where that is not connected.
    Packets that came by XDP from DEVICE in the kernel's level (mezzo run --place) do not leave that level.
    """

    ports, processing, flow = "1/0-1", "h/h", "x/x"
    runtime = True
    held = -1  # the descriptor of the program
    host_device = Arg(Word(), doc="the interface that they seem to come from", keyword="DEVICE")
    see = ("FromDevice", "KernelTap", "Place")

    count: u64
    byte_count: u64
    refused: u64
    program: u32
    interface: u32
    number: u64
    call_at: u64
    reads = {
        "count": "packets that the host got",
        "byte_count": "bytes that it got",
        "refused": "packets that it did not take",
    }

    # -- packet code

    def push(self, port: u32, p: Packet):
        length, start = p.length, p.frame_start
        at = self.room(start, length)
        if length < LEAST or length > MOST or at == NOWHERE or self.give(frame_address(p.frame), at, start, length) < 0:
            self.refused += 1
            self.push(0, p, "not taken by the host")
            return
        self.count += 1
        self.byte_count += length
        self.kill(p)

    def room(self, start: u32, length: u32) -> u32:
        """Where in the frame the call's arguments have room, at a multiple of 8."""
        if start >= BLOCK + 8:
            return (start - BLOCK) & ~u32(7)
        behind = (start + length + 7) & ~u32(7)
        return behind if behind + BLOCK <= frame_size() else u32(NOWHERE)

    def give(self, frame: u64, at: u32, start: u32, length: u32) -> i64:
        """The kernel's answer: less than 0 when it did not take the packet."""
        block = frame + at
        context = block + ATTRIBUTES
        mem_zero(block, BLOCK)
        set_mem_u32(block, self.program)
        set_mem_u32(block + SIZE_IN, length)
        set_mem_u64(block + DATA_IN, frame + start)
        set_mem_u32(block + REPEAT, 1)
        set_mem_u32(block + CONTEXT_SIZE, CONTEXT)
        set_mem_u64(block + CONTEXT_IN, context)
        set_mem_u32(block + FLAGS, LIVE_FRAMES)
        set_mem_u32(block + BATCH, 1)
        set_mem_u32(context + END, length)
        set_mem_u32(context + INTERFACE, self.interface)
        return libc(self.call_at, self.number, TEST_RUN, block, ATTRIBUTES)

    def wire(self, p: Packet) -> Port:
        """The kernel's half."""
        self.count += 1
        self.byte_count += p.length
        return WIRE

    # -- Python

    def initialize(self):
        try:
            link = _netdev.link(self.host_device)
            self.require_no_way_back(link.index)
            (self.held,), _ = privileged.ask({"do": "xdp_pass", "device": self.host_device})
        except MezzoError as trouble:
            first = trouble.diagnostics[0]
            raise ConfigError(f"{first.message}: {first.hint}" if first.hint else first.message) from trouble
        self.program, self.interface = self.held, link.index
        self.call_at, self.number = address_of("syscall"), system_call()

    def require_no_way_back(self, index):
        """Generic XDP sees what the stack receives, so such packets would come to the router again."""
        generic = [one for one in _attach.attached_to(index) if one.mode == "generic"]
        if generic:
            what = f"packets would come to the generic XDP program `{generic[0].name}` of {self.host_device} again"
            raise MezzoError(Diagnostic(what, hint="say METHOD PACKET, or MODE native, at its FromDevice"))

    def cleanup(self):
        if self.held >= 0:
            os.close(self.held)

    @write("reset_counts", "sets the counts to 0", flags="b")
    def reset_counts(self, text: str) -> None:
        self.count = self.byte_count = self.refused = 0
