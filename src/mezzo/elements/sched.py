"""Pull schedulers: from which input the next packet comes.

None of them waits while any input has a packet.
"""

from mezzo.elements import Arg, Array, Element, Handler, Int, Rest, Slots, u32, u64

STRIDE1 = 1 << 32  # the stride of an input with one ticket (Waldspurger 1995)
MOST_TICKETS = 1 << 15
MOST_INPUTS = 64
LONGEST = 0xFFFF
MOST_TRIES = 1 << 20


class RoundRobinSched(Element):
    """Pulls from its inputs in turn; an input without packet loses its turn."""

    ports, processing = "-/1", "l/l"
    aliases = ("SimpleRoundRobinSched",)
    next: u32
    example = (
        "InfiniteSource(LIMIT 5) -> Queue -> a :: Counter -> [0] s :: RoundRobinSched; "
        "InfiniteSource(LIMIT 5) -> Queue -> b :: Counter -> [1] s; s -> Unqueue(LIMIT 6) -> d :: Discard;"
    )
    example_reads = {"a.count": "3", "b.count": "3", "d.count": "6"}
    see = ("PrioSched", "StrideSched", "DRRSched")

    def pull(self, port):
        at = self.next
        for _ in range(self.ninputs):
            p = self.pull(at)
            at = 0 if at + 1 >= self.ninputs else at + 1
            if p is not None:
                self.next = at
                return p
        return None


class PrioSched(Element):
    """Pulls from the first input that has a packet; input 0 goes first."""

    ports, processing = "-/1", "l/l"
    aliases = ("SimplePrioSched",)
    example = (
        "InfiniteSource(LIMIT 5) -> Queue -> a :: Counter -> [0] s :: PrioSched; "
        "InfiniteSource(LIMIT 5) -> Queue -> b :: Counter -> [1] s; s -> Unqueue(LIMIT 6) -> d :: Discard;"
    )
    example_reads = {"a.count": "5", "b.count": "1", "d.count": "6"}
    see = ("RoundRobinSched", "StrideSched", "DRRSched")

    def configure(self):
        self.order = tuple(range(self.ninputs))

    def pull(self, port):
        for i in self.order:
            p = self.pull(i)
            if p is not None:
                return p
        return None


class StrideSched(Element):
    """Pulls from its inputs in proportion to their tickets, by stride scheduling.

    Each pull tries the inputs in the order of their passes until one gives a packet; every input tried moves on by its
    stride, so one without packets gathers no credit.
    """

    ports, processing = "1-/1", "l/l"
    tickets = Rest(Int(1, MOST_TICKETS), "tickets of input 0, 1, …")
    ninputs = 0  # the graph sets it
    strides: Array[u64, "ninputs"]
    passes: Array[u64, "ninputs"]
    limits = {"inputs": MOST_INPUTS}
    example = (
        "InfiniteSource(LIMIT 50) -> Queue -> a :: Counter -> [0] s :: StrideSched(3, 1); "
        "InfiniteSource(LIMIT 50) -> Queue -> b :: Counter -> [1] s; s -> Unqueue(LIMIT 40) -> d :: Discard;"
    )
    example_reads = {"a.count": "30", "b.count": "10", "s.tickets0": "3"}
    see = ("RoundRobinSched", "PrioSched", "DRRSched")

    def configure(self):
        if self.ninputs > MOST_INPUTS:
            raise ValueError(f"{self.ninputs} inputs; at most {MOST_INPUTS}")
        if len(self.tickets) != self.ninputs:
            raise ValueError(f"{self.ninputs} inputs need as many tickets, not {len(self.tickets)}")
        own = {f"tickets{i}": ticket_handler(i) for i in range(self.ninputs)}
        self.handler_table = {**type(self).handler_table, **own}
        for i, tickets in enumerate(self.tickets):
            self.strides[i] = self.passes[i] = STRIDE1 // tickets

    def pull(self, port):
        tried: u64 = 0
        for _ in range(self.ninputs):
            best: u32 = 0
            least: u64 = 0xFFFF_FFFF_FFFF_FFFF
            for i in range(self.ninputs):
                if self.passes[i] < least and (tried >> i) & 1 == 0:
                    best = i
                    least = self.passes[i]
            tried |= u64(1) << u64(best)
            self.passes[best] = least + self.strides[best]
            p = self.pull(best)
            if p is not None:
                return p
        return None


def ticket_handler(i):
    def read(element, text):
        return element.tickets[i]

    def write(element, text):
        tickets = Int(1, MOST_TICKETS).parse(text.strip(), element.env)
        element.tickets[i] = tickets
        element.strides[i] = STRIDE1 // tickets

    return Handler(f"tickets{i}", read, write, f"tickets of input {i}")


class DRRSched(Element):
    """Pulls from its inputs so that each gets the same number of bytes: deficit round robin (Shreedhar, Varghese 1995).

    An input may give QUANTUM bytes a round, and keeps what it does not use while it has packets.  One packet an input
    is held here.
    """

    ports, processing = "-/1", "l/l"
    quantum = Arg(Int(1, 1 << 24), 500, "bytes an input a round")
    places = 1
    heads: Slots["places"]
    deficits: Array[u32, "places"]
    next: u32
    example = (
        "InfiniteSource(LENGTH 100, LIMIT 90) -> Queue -> a :: Counter -> [0] s :: DRRSched; "
        "InfiniteSource(LENGTH 900, LIMIT 90) -> Queue -> b :: Counter -> [1] s; s -> Unqueue(LIMIT 50) -> Discard;"
    )
    example_reads = {"a.count": "45", "b.count": "6"}
    see = ("RoundRobinSched", "PrioSched", "StrideSched")

    def configure(self):
        self.places = max(self.ninputs, 1)
        # So many rounds let the longest packet go.
        self.tries = self.ninputs * (LONGEST // self.quantum + 2)
        if self.tries > MOST_TRIES:
            raise ValueError(f"QUANTUM: {self.quantum} is too small for {self.ninputs} inputs")

    def pull(self, port):
        empty: u32 = 0
        for _ in range(self.tries):
            at = self.next
            p = self.heads.take(at)
            if p is None:
                p = self.pull(at)
            if p is None:
                self.deficits[at] = 0
                empty += 1
            elif p.length <= self.deficits[at]:
                self.deficits[at] -= p.length
                return p
            else:
                self.heads.put(at, p)
                empty = 0
            at = 0 if at + 1 >= self.ninputs else at + 1
            self.deficits[at] += self.quantum
            self.next = at
            if empty == self.ninputs:
                break
        return None
