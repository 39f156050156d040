"""Ends packets that go round for ever in a loop of push connections."""

from mezzo.elements import Element, u32


class LoopGuard(Element):
    """Drops packets that went through it 64 times in one call.

    mezzo puts one on each push connection that closes a loop (for example from ICMPError back to the routing table), so
    that a packet which never finds the way out dies and is counted instead of exhausting the stack.
    """

    ports, processing = "1/1", "h/h"
    stays_native = "it counts calls inside each other, and in the kernel there are none"
    depth: u32
    example = "InfiniteSource(LIMIT 2, STOP true) -> g :: LoopGuard -> c :: Counter -> Discard;"
    example_reads = {"c.count": "2"}

    def push(self, port, p):
        if self.depth >= 64:
            self.kill(p, "loop")
            return
        self.depth += 1
        self.push(0, p)
        self.depth -= 1
