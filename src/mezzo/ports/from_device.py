"""Packets from a device: the half that all drivers share.

A driver's `receive` syncs the receive ring, with one system call at most, and gives the number of slots that packets
arrived in; the task here turns slots into packets, BURST at a time, and asks for more only when the ring is empty.

What would be garbage never becomes a packet: slots of no bytes, of fewer than an Ethernet header, or that do not lie in
their frame are counted by reason, and their frames go back.
"""

from mezzo.elements import (
    Arg,
    Bool,
    Int,
    Packet,
    Port,
    Text,
    Word,
    bounded,
    frame_address,
    i64,
    mem_copy,
    mem_u8,
    mem_u32,
    mem_u64,
    read,
    set_mem_u32,
    u8,
    u16,
    u32,
    u64,
    walltime,
    write,
)
from mezzo.packet.arena import HEADROOM
from mezzo.ports import _checksum
from mezzo.ports._end import MOST, _End
from mezzo.ports._slots import (
    HEAD,
    OUTGOING,
    TAG_SIZE,
    TAIL,
    after,
    put_slot,
    put_tag,
    release,
    slot_at,
    space,
)
from mezzo.ports.ring import PARTIAL, RECEIVE, TAGGED, Ring

TO_US, BROADCAST, MULTICAST, TO_OTHERS, FROM_US = 0, 1, 2, 3, 4
ADDRESS = 0xFFFF_FFFF_FFFF
EXTRA_LENGTH = 28  # annotation
ETHER_HEADER = 14
STAGE = 1024  # slots behind the faults
NEVER = (1 << 64) - 1
NOWHERE = 0


class FromDevice(_End):
    """Reads packets from a device.

    METHOD says how: XDP, PACKET (LINUX is another word for it), TAP, FD, PIPE, SWITCH, NETMAP, MEMORY, or PCAP, which
    replays a capture file.  Without it an interface is read by XDP, or by PACKET where that cannot be.  Sets the time
    and the packet type.  The packets it sends are not read back, unless OUTBOUND.
    """

    ports, processing, flow = "0/1-2", "/h", "x/x"
    half = "Receiver"
    configure_first = True  # ToDevice takes the method of the receiver of its device
    polls = False  # asks again and again instead of sleeping
    lossless = False  # where no queue has room, packets wait in the ring
    ethernet = True
    tags = False  # may slots carry a VLAN tag beside the data
    timed = False  # the driver says in `again_ns` when more comes; NEVER when it does not know
    partials = False  # may slots carry an unfinished checksum
    direct = False  # no hook needs slots, and the driver makes packets of what arrived itself: `take_all`

    promisc = Arg(Bool(), False, "reads packets to other addresses too")
    snaplen = Arg(Int(0, 65535), 0, "most bytes of a packet that are kept; 0 is all")
    sniffer = Arg(Bool(), None, "true: the host reads the packets too; false: it does not", positional=False)
    force_ip = Arg(Bool(), False, "what is not IP goes to output 1, or dies; sets the IP marks", positional=False)
    outbound = Arg(Bool(), False, "reads packets too that the host sends", positional=False)
    protocol = Arg(Int(0, 65535), 0, "only packets of this Ethernet type; 0 is all", positional=False)
    bpf_filter = Arg(Text(), "", "a filter of the kernel's, where METHOD has one", positional=False)
    encap = Arg(Word(), None, "link type, where METHOD leaves a choice", positional=False)
    headroom = Arg(Int(0, 1024), 0, "least bytes free in front of the data", positional=False)
    burst = Arg(Int(1, MOST), 32, "most packets a scheduling", positional=False)
    timestamp = Arg(Bool(), True, "sets the timestamp", positional=False)

    stage: u64
    own: u64
    frame_size: u32
    again_ns: u64
    empties: u64
    runts: u64
    misfits: u64
    reads = {"count": "packets so far", "byte_count": "bytes so far"}
    example = "FromDevice(examples/captures/eth0-in.pcap, METHOD PCAP) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "251"}
    see = ("ToDevice", "PollDevice", "FromDump", "KernelTap")

    def configure(self) -> None:
        super().configure()
        self.require_known(("promisc", "sniffer", "outbound", "protocol", "bpf_filter", "encap"))
        self.least = ETHER_HEADER if self.ethernet else 1
        self.mends = self.tags or self.partials or self.headroom > HEADROOM
        self.set_hooks()
        wrapped = self._given is not None and "fault" in self._given.hooks  # around both ends, of which one can lose
        if self.lose != 0 and not wrapped:
            self.error("FAULT: lose: what is received has no completions that could be lost; say drop")

    # -- packet code

    def receive(self) -> u32:
        """A driver's: syncs the receive ring; the number of slots in [head, tail)."""
        return space(self.ring, self.slots)

    def stamp(self) -> u64:
        """When the packets arrived that `receive` gave; a driver whose device says so has its own."""
        return walltime()

    def take_all(self) -> u32:
        """A driver's, where it is `direct`: what arrived becomes packets, BURST at most; how many became."""
        return 0

    def task(self) -> bool:
        if self.direct:
            return self.take_all() != 0 or self.polls
        ring = self.stage if self.faulty else self.ring
        slots = u32(STAGE) if self.faulty else self.slots
        there = space(ring, slots)
        if there == 0:
            there = self.fetch() if self.faulty else self.receive()
        n = min(there, u32(self.burst))
        at = mem_u32(ring + HEAD)
        stamp = self.stamp() if self.timestamp else u64(0)
        if self.limited:
            self.refill()
        taken: u32 = 0
        for _ in bounded(n, MOST):
            if self.lossless and not self.ready(0):
                break
            if self.limited and self.tokens < 0:
                break
            place = slot_at(ring, at)
            self.take_in(mem_u64(place), mem_u64(place + 8), stamp)
            at = after(at, slots)
            taken += 1
        if taken != 0:
            release(ring, at)
            if self.traced:
                self.trace_flush()
        if self.faulty or self.limited or self.timed:
            self.come_back(there - taken)
        if self.polls:
            return True
        if self.faulty and taken == n and space(self.ring, self.slots) != 0:
            return True
        return taken == n and n != 0

    def take_in(self, word: u64, more: u64, stamp: u64):
        """One slot becomes a packet, or is refused."""
        frame, length, start = u32(word), u32(word >> 32) & 0xFFFF, u32(more) & 0xFFFF
        if length < self.least or start + length > self.frame_size:
            self.refuse(frame, length)
            return
        self.count += 1
        self.byte_count += length
        if self.limited:
            self.spend(length)
        if self.mends:
            mended = self.mend(frame, start, length, more)
            start, length = u32(mended), u32(mended >> 32)
        if self.traced:
            self.trace_slot(u64(frame) | u64(length) << 32, u64(start))
        self.deliver(frame_address(frame) + start, frame, start, length, u16(word >> 48), stamp)

    def mend(self, frame: u32, start: u32, length: u32, more: u64) -> u64:
        """Does to the bytes what the slot says is left to do; gives start, and length from bit 32."""
        at = frame_address(frame)
        first: u32 = start
        size: u32 = length
        if self.tags and (more & TAGGED) != 0 and first >= TAG_SIZE:
            put_tag(at + first, u16(more >> 16))
            first -= TAG_SIZE
            size += TAG_SIZE
        if self.partials and (more & PARTIAL) != 0:
            _checksum.finish(at + first, size, u32(more >> 33) & 0xFF, u32(more >> 41) & 0xFF)
        if self.headroom > HEADROOM and first < self.headroom and self.headroom + size <= self.frame_size:
            mem_copy(at + self.headroom, at + first, size)
            first = self.headroom
        return u64(first) | u64(size) << 32

    def deliver(self, at: u64, frame: u32, start: u32, length: u32, flags: u16, stamp: u64):
        """A packet with its marks, type and time goes on; `at` is where its bytes are."""
        net = self.ip_place(at, length) if self.force_ip else u32(NOWHERE)
        kept = min(length, u32(self.snaplen)) if self.snaplen != 0 else length
        p = self.adopt(frame, start, kept)
        if self.ethernet:
            p.set_mac(0)
            to = mem_u64(at) & ADDRESS
            if self.outbound and (flags & OUTGOING) != 0:
                p.packet_type = FROM_US
            elif to != self.own:  # a fresh packet is to us
                p.packet_type = self.by_address(to)
        if self.timestamp:
            p.timestamp = stamp
        if self.snaplen != 0 and kept != length:
            p.set_anno_u32(EXTRA_LENGTH, length - kept)
        if self.force_ip and net == NOWHERE:
            self.push(1, p, "not IP")
            return
        if self.force_ip:
            self.mark_ip(p, net - 1)
        self.push(0, p)

    def refuse(self, frame: u32, length: u32):
        """A slot that is no packet."""
        if length == 0:
            self.empties += 1
        elif length < self.least:
            self.runts += 1
        else:
            self.misfits += 1
        self.give_frame(frame)

    def by_address(self, to: u64) -> u8:
        """The packet type by a destination, whose first byte is the lowest."""
        if to == self.own:
            return TO_US
        if (to & 1) != 0:
            return u8(BROADCAST if to == ADDRESS else MULTICAST)
        return u8(TO_US if self.own == 0 else TO_OTHERS)

    def ip_place(self, at: u64, length: u32) -> u32:
        """One more than where a sound IP header begins; NOWHERE without one."""
        net: u32 = 0
        if self.ethernet:
            net = _checksum.network_offset(at, length)
            if net == 0:
                return NOWHERE
        if net + 20 > length:
            return NOWHERE
        first = mem_u8(at + net)
        if (first >> 4) == 4 and (first & 15) >= 5 and net + u32(first & 15) * 4 <= length:
            return net + 1
        return net + 1 if (first >> 4) == 6 and net + 40 <= length else NOWHERE

    def mark_ip(self, p: Packet, net: u32):
        p.set_network(net)
        first = p.net.u8(0)
        p.set_transport(i64(net) + (i64(first & 15) * 4 if (first >> 4) == 4 else 40))

    def come_back(self, left: u32):
        """Hooks that hold packets know when they go on, and some drivers do."""
        due: u64 = self.again_ns if self.timed else u64(NEVER)
        if self.limited and left != 0 and self.tokens < 0:
            due = self.paid_at()
        if self.faulty:
            due = min(due, self.fault_due())
        if due != NEVER:
            self.timer_at(due)

    def timer(self):
        self.wake()

    # -- the kernel's half: a packet of an XDP program (docs/design/0003), which is no slot

    def wire(self, p: Packet) -> Port:
        """As `deliver`; what would be garbage does not come to a program."""
        self.count += 1
        self.byte_count += p.length
        p.set_mac(0)
        p.packet_type = self.by_address(p.u48le(0))
        if self.timestamp:
            p.timestamp = walltime()
        return 0

    # -- faults: from the driver's ring through the stage to the ring that the task reads

    def fetch(self) -> u32:
        there = space(self.ring, self.slots)
        if there == 0:
            there = self.receive()
        n = min(there, (STAGE - 1) // 4)
        at = mem_u32(self.ring + HEAD)
        for _ in bounded(n, STAGE):
            place = slot_at(self.ring, at)
            at = after(at, self.slots)
            self.fault_one(mem_u64(place), mem_u64(place + 8))
        release(self.ring, at)
        for _ in range(STAGE // 8):
            self.fault_release()
        return space(self.stage, STAGE)

    def fault_put(self, word: u64, more: u64):
        """A slot comes out of the faults."""
        tail = mem_u32(self.stage + TAIL)
        put_slot(self.stage, tail, word, more)
        set_mem_u32(self.stage + TAIL, after(tail, STAGE))

    # -- the life of an end

    def initialize(self) -> None:
        self.frame_size = self.router.arena.frame_size
        self.own = int.from_bytes(self._port.mac().to_bytes(6, "big"), "little")
        if self.faulty:
            self._stage = Ring.make(STAGE, RECEIVE)
            self.stage = self._stage.address
            self._port.keep("free the ring of the faults", self._stage.close)
        if self.traced:
            self.open_trace(self.trace, self.encap_word())

    def encap_word(self) -> str:
        return self.encap or ("ETHER" if self.ethernet else "IP")

    # -- handlers

    @read("kernel_drops", "packets that the kernel dropped before they came here; ?? where it does not tell")
    def read_kernel_drops(self) -> str:
        drops = self._port.kernel_drops()
        return "??" if drops is None else str(drops)

    @read("encap", "the link type")
    def read_encap(self) -> str:
        return self.encap_word()

    @read("refused", "slots that were no packets, by reason")
    def read_refused(self) -> str:
        rows = {"empty": self.empties, "runt": self.runts, "not in its frame": self.misfits}
        return "".join(f"{reason}\t{n}\n" for reason, n in rows.items() if n)

    @write("reset_counts", "sets the counts to 0", flags="b")
    def reset_counts(self, text: str) -> None:
        for name in ("count", "byte_count", "empties", "runts", "misfits"):
            setattr(self, name, 0)


class PollDevice(FromDevice):
    """Reads packets from a device without ever sleeping: FromDevice, for a CPU of its own.

    Packets come sooner, and the CPU is always busy.
    """

    polls = True
    burst = Arg(Int(1, MOST), 8, "most packets a scheduling", positional=False)
    example = "PollDevice(examples/captures/eth0-in.pcap, METHOD PCAP, STOP true) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "251"}
    see = ("FromDevice", "ToDevice")
