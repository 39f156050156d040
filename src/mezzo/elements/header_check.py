"""What the elements that check a header share: counts per reason and the VERBOSE and DETAILS arguments."""

from mezzo.elements import Arg, Array, Bool, Element, python, read, u32, u64


class _HeaderCheck(Element):
    """`reasons` lists what can be wrong; a bad packet leaves by output 1, or is dropped with its reason."""

    ports, processing = "1/1-2", "a/ah"
    title = ""  # how VERBOSE calls the header
    reasons: tuple[str, ...] = ()
    nreasons = 8
    verbose = Arg(Bool(), False, "print a line for every bad packet", positional=False)
    all_details = Arg(
        Bool(), False, "taken for Click's sake: counts per reason are always kept", positional=False, keyword="DETAILS"
    )
    drops: u64
    details: Array[u64, "nreasons"]
    reads = ("drops",)

    def note(self, reason: u32):
        self.drops += 1
        self.details[reason] += 1
        if self.verbose:
            self.complain(reason)

    @python
    def complain(self, reason):
        self.say(f"{self.title} header check failed: {self.reasons[reason]}")

    @read("drop_details", "how many packets were bad, by reason")
    def drop_details(self):
        return "".join(f"{self.details[i]}\t{reason}\n" for i, reason in enumerate(self.reasons))
