"""KernelTun and KernelTap: a wire to the host's own stack, made for this router (`_tun` says how packets cross it)."""

import os
import select

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import (
    NO_FRAME,
    REQUIRED,
    Arg,
    Bool,
    ConfigError,
    EtherAddress,
    Int,
    IPAddress,
    IPPrefix,
    Packet,
    Word,
    bounded,
    flag,
    frame_address,
    read,
    u32,
    u64,
    walltime,
)
from mezzo.ports import privileged
from mezzo.ports._cut import FIRST, FRAME_START
from mezzo.ports._tun import AGAIN, BAD_STATE, IO, NOTHING, TunPort, _Tun, offload_facts, open_queues, start_in
from mezzo.wire.address import format_ether, format_ip

ETHER_HEADER, TAG_SIZE = 14, 4
MOST = 1 << 16


class _Wire(TunPort):
    """The device of one KernelTun or KernelTap."""

    def __init__(self, device, method):
        super().__init__(device)
        self.method = method

    def open(self, arena):
        (end,) = self.ends
        end.check_room(arena)
        name = end.device or f"{self.method}%d"
        self.queues, self.link, self.offloads = open_queues(name, self.method, 1)
        (queue,) = self.queues
        self.device = self.link["name"]
        self.defer("closing the device", lambda: os.close(queue))
        self.belongings.descriptors.append(queue)
        settings = {"up": True, "mtu": end.mtu, "addresses": [f"{format_ip(end.addr[0])}/{end.addr[1]}"]}
        if end.ether is not None and end.tap:
            settings["mac"] = format_ether(end.ether).lower().replace("-", ":")
        _, facts = privileged.ask({"do": "link", "device": self.device} | settings)
        self.link |= facts
        self.defer("the interface's settings", lambda: self.put_back(facts["undo"]))
        if end.gateway:
            default_route(self.device, end.gateway)
        memory = end.use_queue(queue, arena)
        self.keep("memory of super-packets", memory.free)
        self.watch_link(self.link["index"], self.tell)

    def put_back(self, changes):
        self.troubles += privileged.undo(changes)

    def facts(self):
        told = super().facts() | {k: self.link[k] for k in ("index", "name", "mac", "mtu") if self.link.get(k)}
        return told | offload_facts(self.offloads)

    def descriptors(self):
        return [(self.ends[0], self.queues[0], select.POLLIN)]


def default_route(device, gateway):
    """The host's default route goes over the device; it goes when the device does."""
    try:
        privileged.ask({"do": "route", "device": device, "gateway": format_ip(gateway)})
    except privileged.Refused as refusal:
        hint = refusal.hint or "leave GATEWAY out, and set routes yourself"
        raise MezzoError(Diagnostic(f"GATEWAY {format_ip(gateway)}: {refusal.reason}", hint=hint)) from refusal


class KernelTun(_Tun):
    """Hands IP packets to the host's own stack, and takes those that it routes here.

    Makes a tun device with the host's address ADDR, up while the router runs and gone after it; with GATEWAY the host's
    default route goes over it.  What the host sends to any other address of the network comes out of output 0, marked
    as IP, with the destination annotation; what is not IP leaves by output 1.  Packets for the host are pushed in, or
    pulled; they need an IP header mark, and what stands in front of it stays here.
    """

    ports, processing, flow = "0-1/1-2", "a/h", "x/y"
    watches = True
    task_always = True  # also where packets are pushed in
    ethernet = False
    is_transmitter, queue, given_port = False, 0, None

    addr = Arg(IPPrefix(), REQUIRED, "the host's address on this wire, and its network: 10.0.0.1/8")
    gateway = Arg(IPAddress(), 0, "a host of the network, by which the default route goes")
    tap_ = Arg(Bool(), False, "carries Ethernet frames, as KernelTap", positional=False, keyword="TAP")
    headroom = Arg(Int(0, FRAME_START), 28, "least bytes free in front of the data", positional=False)
    burst = Arg(Int(1, MOST), 1, "most packets a scheduling", positional=False)
    ether = Arg(EtherAddress(), None, "the host's Ethernet address, with TAP", positional=False)
    mtu = Arg(Int(68, 65535), 1500, "largest IP packet, bytes", positional=False)
    ignore_queue_overflows = Arg(Bool(), False, "taken for Click's sake: overflows are counted", positional=False)
    devname = Arg(Word(), "", "name of the device; without it the kernel takes a free one", positional=False)
    dev_name = Arg(Word(), "", "an old word for DEVNAME", positional=False)

    count: u64
    byte_count: u64
    calls: u64
    sent: u64
    unmarked: u64
    too_big: u64
    reads = {
        "count": "packets from the host",
        "byte_count": "bytes of those",
        "sent": "packets to the host",
        "unmarked": "packets that had no IP header mark, and were dropped",
        "too_big": "packets larger than the MTU, dropped",
    }
    see = ("KernelTap", "FromDevice", "ToDevice")

    def configure(self):
        self.tap = self.tap_ or isinstance(self, KernelTap)
        self.ethernet, self.pulls = self.tap, self.ninputs > 0 and self.input_kinds[0] == "pull"
        self.method, self.device = "tap" if self.tap else "tun", self.devname or self.dev_name
        self.header = ETHER_HEADER if self.tap else 0
        address, length = self.addr
        if self.gateway and (self.gateway ^ address) >> (32 - length):
            network = IPPrefix().show(self.addr)
            raise ConfigError(f"GATEWAY {format_ip(self.gateway)} is not in {network}, the network of the device")

    def check_room(self, arena):
        """Python: a frame holds a packet of the MTU."""
        most = arena.frame_size - FIRST - self.header - TAG_SIZE
        if self.mtu > most:
            message = f"MTU {self.mtu}: a frame of {arena.frame_size} bytes holds {most}"
            raise MezzoError(Diagnostic(message, hint="give a smaller MTU, or larger frames"))

    # -- packet code

    def task(self) -> bool:
        """Reads from the host, and writes what is pulled; asks for more as long as either has something."""
        more = False
        for _ in bounded(self.burst, MOST):
            f = self.take_frame()
            if f == NO_FRAME:
                break
            length = self.fill(f)
            if length in (NOTHING, AGAIN):
                self.give_frame(f)
                more = length == AGAIN
                if length == NOTHING:
                    break
            else:
                more = True
                self.count += 1
                self.byte_count += length
                p = self.adopt(f, start_in(f), length)
                p.timestamp = walltime()
                if self.tap:
                    p.set_mac(0)
                    self.push(0, p)
                elif self.mark_ip(p):
                    self.push(0, p)
                else:
                    self.push(1, p, "not IP")
        if more:
            self.calls += 1
        if self.pulls:
            for _ in bounded(self.burst, MOST):
                q = self.pull(0)
                if q is None:
                    break
                more = True
                self.write(q)
                self.kill(q)
        return more

    def mark_ip(self, p: Packet) -> flag:
        """Marks a sound IP packet, and says where it goes to."""
        if p.length < 20:
            return False
        version, hlen = p.u8(0) >> 4, u32(p.u8(0) & 15) * 4
        if version == 4 and hlen >= 20 and hlen <= p.length and u32(p.u16(2)) >= hlen and u32(p.u16(2)) <= p.length:
            p.set_network(0)
            p.set_transport(hlen)
            p.dst_ip = p.u32(16)
            return True
        if version == 6 and p.length >= 40:
            p.set_network(0)
            p.set_transport(40)
            return True
        return False

    def push(self, port, p):
        self.write(p)
        self.kill(p)

    def write(self, p: Packet):
        """A packet goes to the host, when it is one that the host can take."""
        skipped: u32 = 0
        if not self.tap:
            if not p.has_network or u32(p.network_offset) + 20 > p.length:
                self.unmarked += 1
                return
            skipped = u32(p.network_offset)
        if p.length - skipped > self.mtu + self.header:
            self.too_big += 1
            return
        start = p.frame_start + skipped
        answer = self.emit(frame_address(p.frame) + start, p.length - skipped, start)
        if answer >= 0:
            self.sent += 1
        elif answer == -IO or answer == -BAD_STATE:
            self.downs += 1
        else:
            self.errors += 1

    # -- an end of a port

    @property
    def device_key(self):
        return self.device or f"for {self.name}"

    @property
    def place(self):
        written = self.router.plan.resolved.graph.instances.get(self.name)
        return written.span if written is not None else None

    def make_port(self):
        return _Wire(self.device, self.method)

    def frames_held(self):
        return 0

    # -- handlers

    @read("dev_name", "the name of the device")
    def read_dev_name(self):
        return self.port.device

    @read("packets", "packets from the host")
    def read_packets(self):
        return self.count

    @read("selected_calls", "how often there were packets from the host")
    def read_calls(self):
        return self.calls

    @read("port", "the device, and what is done for it")
    def read_port(self):
        return "".join(f"{k}\t{v}\n" for k, v in self.port.facts().items())


class KernelTap(KernelTun):
    """Hands Ethernet frames to the host's own stack, and takes those that it sends here.

    As KernelTun, but with a tap device: the host asks for addresses by ARP, which the configuration has to answer, and
    takes frames to its own address only; ETHER sets that.
    """

    see = ("KernelTun", "FromDevice", "ToDevice", "ARPResponder")
