"""Switches: which output a packet takes does not depend on what it is."""

from mezzo.elements import Arg, ConfigError, Element, Int, entry, i64, randrange, u32, write


class Switch(Element):
    """Sends all packets to output K; drops them when K is negative."""

    ports, processing = "1/-", "h/h"
    switch = Arg(Int(-1, 0xFFFF), 0, "the output; -1: none", keyword="OUTPUT", live=i64)
    example = "InfiniteSource(LIMIT 5) -> s :: Switch(1); s [0] -> a :: Discard; s [1] -> b :: Discard;"
    example_reads = {"a.count": "0", "b.count": "5", "s.switch": "1"}
    see = ("StaticSwitch", "PullSwitch", "RoundRobinSwitch", "HashSwitch", "RandomSwitch")

    def configure(self):
        check_port(self.switch, self.noutputs, "output")

    def push(self, port, p):
        if self.switch < 0:
            self.kill(p, "switched off")
        else:
            self.push(u32(self.switch), p)

    @write("switch", "the output from now on")
    def set_switch(self, text):
        port = type(self).switch.kind.parse(text.strip(), self.env)
        check_port(port, self.noutputs, "output")
        self.switch = port


class StaticSwitch(Element):
    """Sends all packets to output K, for ever; drops them when K is negative."""

    ports, processing = "1/-", "h/h"
    output = Arg(Int(-1, 0xFFFF), doc="the output; -1: none")
    example = "InfiniteSource(LIMIT 5) -> s :: StaticSwitch(1); s [0] -> a :: Discard; s [1] -> b :: Discard;"
    example_reads = {"a.count": "0", "b.count": "5"}
    see = ("Switch",)

    def configure(self):
        check_port(self.output, self.noutputs, "output")

    def push(self, port, p):
        if self.output < 0:
            self.kill(p, "switched off")
        else:
            self.push(self.output, p)


class PullSwitch(Element):
    """Pulls from input K only; gives nothing when K is negative."""

    ports, processing = "-/1", "l/l"
    aliases = ("SimplePullSwitch",)
    switch = Arg(Int(-1, 0xFFFF), 0, "the input; -1: none", keyword="INPUT", live=i64)
    example = (
        "InfiniteSource(LIMIT 5) -> a :: Queue -> [0] s :: PullSwitch(1); "
        "InfiniteSource(LIMIT 3) -> b :: Queue -> [1] s; s -> Unqueue -> d :: Discard;"
    )
    example_reads = {"a.length": "5", "b.length": "0", "d.count": "3"}
    see = ("StaticPullSwitch", "PrioSched", "RoundRobinSched", "Switch")

    def configure(self):
        check_port(self.switch, self.ninputs, "input")

    def pull(self, port):
        if self.switch < 0:
            return None
        p = self.pull(u32(self.switch))
        return p

    @entry
    def rouse(self):
        self.wake_down()

    @write("switch", "the input from now on")
    def set_switch(self, text):
        port = type(self).switch.kind.parse(text.strip(), self.env)
        check_port(port, self.ninputs, "input")
        self.switch = port
        self.call("rouse")


class StaticPullSwitch(Element):
    """Pulls from input K only, for ever; gives nothing when K is negative."""

    ports, processing = "-/1", "l/l"
    input = Arg(Int(-1, 0xFFFF), doc="the input; -1: none")
    example = (
        "InfiniteSource(LIMIT 5) -> a :: Queue -> [0] s :: StaticPullSwitch(1); "
        "InfiniteSource(LIMIT 3) -> b :: Queue -> [1] s; s -> Unqueue -> d :: Discard;"
    )
    example_reads = {"a.length": "5", "b.length": "0", "d.count": "3"}
    see = ("PullSwitch",)

    def configure(self):
        check_port(self.input, self.ninputs, "input")

    def pull(self, port):
        if self.input < 0:
            return None
        p = self.pull(self.input)
        return p


class RoundRobinSwitch(Element):
    """Sends packets to its outputs in turn."""

    ports, processing = "1/1-", "h/h"
    next: u32
    example = "InfiniteSource(LIMIT 5) -> s :: RoundRobinSwitch; s [0] -> a :: Discard; s [1] -> b :: Discard;"
    example_reads = {"a.count": "3", "b.count": "2"}
    see = ("Switch", "HashSwitch", "RandomSwitch")

    def push(self, port, p):
        to = self.next
        self.next = 0 if to + 1 == self.noutputs else to + 1
        self.push(to, p)


class HashSwitch(Element):
    """Chooses the output by a hash of the LENGTH bytes at OFFSET; packets too short take output 0.

    The hash is the sum of the bytes, modulo the number of outputs; for 2, 4 and 8 outputs the high half is mixed in.
    """

    ports, processing = "1/1-", "h/h"
    offset = Arg(Int(0, 0xFFFF), doc="the first byte")
    length = Arg(Int(1, 2048), doc="number of bytes")
    example = (
        "InfiniteSource(DATA \\<00 01>, LIMIT 5) -> s :: HashSwitch(0, 2); "
        "s [0] -> a :: Discard; s [1] -> b :: Discard;"
    )
    example_reads = {"a.count": "0", "b.count": "5"}
    see = ("Switch", "RoundRobinSwitch", "RandomSwitch")

    def configure(self):
        self.mixed = self.noutputs in (2, 4, 8)

    def push(self, port, p):
        if p.length < self.offset + self.length:
            self.push(0, p)
            return
        total: u32 = 0
        for i in range(self.length):
            total += p.u8(self.offset + i)
        if self.mixed:
            self.push((total ^ (total >> 4)) & (self.noutputs - 1), p)
        else:
            self.push(total % self.noutputs, p)


class RandomSwitch(Element):
    """Sends each packet to an output chosen by chance."""

    ports, processing = "1/1-", "h/h"
    example = "InfiniteSource(LIMIT 5) -> s :: RandomSwitch; s [0] -> d :: Discard; s [1] -> d;"
    example_reads = {"d.count": "5"}
    see = ("Switch", "RoundRobinSwitch", "HashSwitch")

    def push(self, port, p):
        self.push(randrange(self.noutputs), p)


def check_port(port, count, word):
    if port >= count:
        raise ConfigError(f"there is no {word} {port}; it has {count}")
