"""ToHost: packets go on in the stack of this machine, as if they had just come in by an interface.

In the kernel's level that is the verdict XDP_PASS.  Natively the kernel is asked to run a program that does nothing but
give this verdict on the packet (see _live_frames): it copies the bytes, and the stack has worked on them before the
call returns, some 10 µs a packet.
"""

import os

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import Arg, ConfigError, Packet, Port, Word, flag, frame_address, u32, u64, write
from mezzo.pipeline.wire import WIRE
from mezzo.ports import _attach, _netdev, privileged
from mezzo.ports._live_frames import LEAST, MOST, NOWHERE, _LiveFrames


class ToHost(_LiveFrames):
    """Gives packets to the stack of this machine, as if they had come in by the interface DEVICE.

    They are Ethernet frames.  What the kernel does not take leaves by output 0, or dies where that is not connected.
    Packets that came by XDP from DEVICE in the kernel's level (mezzo run --place) do not leave that level.
    """

    ports, processing, flow = "1/0-1", "h/h", "x/x"
    held = -1  # the descriptor of the program
    host_device = Arg(Word(), doc="the interface that they seem to come from", keyword="DEVICE")
    see = ("FromDevice", "KernelTap", "Place")

    count: u64
    byte_count: u64
    refused: u64
    program: u32
    interface: u32
    reads = {
        "count": "packets that the host got",
        "byte_count": "bytes that it got",
        "refused": "packets that it did not take",
    }

    # -- packet code

    def push(self, port: u32, p: Packet):
        length, start = p.length, p.frame_start
        at = self.room(start, start + length)
        if length < LEAST or length > MOST or at == NOWHERE or not self.give(frame_address(p.frame), at, start, length):
            self.refused += 1
            self.push(0, p, "not taken by the host")
            return
        self.count += 1
        self.byte_count += length
        self.kill(p)

    def give(self, frame: u64, at: u32, start: u32, length: u32) -> flag:
        return self.give_live(frame + at, self.program, frame + start, length, self.interface) >= 0

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
        self.may_call()

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
