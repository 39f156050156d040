"""RandomSeed: where the router's random numbers begin."""

import os

from mezzo.elements import U64, Arg, Element, Env, write


class RandomSeed(Element):
    """Lets the router's random numbers begin at SEED, on every target the same ones; without SEED at a random place.

    Without this element they begin where `--seed` says, 1 if it is not given.
    """

    ports, processing, flow = "0/0", "a/a", ""
    seed = Arg(U64(), None, "where to begin; a random place without it")
    example = "RandomSeed(7); s :: Script(TYPE PASSIVE, return $(random 1000)); Idle -> Discard;"
    example_reads = {"s.run": "95"}
    see = ("RandomSource", "RandomSwitch", "Script")

    def initialize(self):
        self.begin(self.seed)

    def begin(self, seed):
        self.engine.reseed(int.from_bytes(os.urandom(8), "little") if seed is None else seed)

    @write("seed", "where to begin anew; a random place if it is empty")
    def write_seed(self, text):
        self.begin(U64().parse(text.strip(), Env()) if text.strip() else None)
