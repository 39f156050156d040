"""What is to run in the kernel: a prefix of the graph, from device inputs on, and where packets leave it.

The native program stays whole; this is a second copy of some of its instances, under the same numbers.  A packet goes
as far as it can here, then leaves by a wire, or goes up and natively continues at the very input where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mezzo.ir.module import Program

Port = tuple[int, int]  # an instance and one of its ports
GONE: Port = (-1, 0)  # among ups: a number that leads nowhere


def punt(input: int) -> int:
    """The output that stands for going up as the packet came in by an input (a returned PUNT); punt(punt(n)) is n."""
    return -1 - input


@dataclass(frozen=True, slots=True)
class Injection:
    """Where native code hands packets to the kernel's level: `instance`, behind whose output is the input `to`;
    `entry`: which of the plan's entries they are packets of."""

    instance: int
    to: Port
    entry: int


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """`program`: numbered as the native one; placed instances have the units that the kernel can run.

    entries: (instance, 0) of each device input.  ups: inputs at which packets that go up continue natively; the place
    in it is the `way` of the record.  ways: outputs that lead up (punt(input) for PUNT), as a place in `ups`.
    wires: outputs by which a packet leaves the levels, as the instance of the device or of the way to the host.
    devices: of entries and wires, the interface; a wire without one goes on in the host's stack.
    no_turn: wires by which nothing goes back as XDP_TX: it is redirected there, as to others.
    apart: scalars of placed instances that native code does more with than add.
    injections: entries for packets that native code has.
    ordered: a flow's packets are to leave in order; overtaken: of those that go up some leave by a wire's device.
    """

    program: Program
    placed: tuple[int, ...]
    entries: tuple[Port, ...]
    ups: tuple[Port, ...] = ()
    ways: dict[Port, int] = field(default_factory=dict)
    wires: dict[Port, int] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    no_turn: frozenset[int] = frozenset()
    apart: frozenset[tuple[int, str]] = frozenset()
    injections: tuple[Injection, ...] = ()
    ordered: bool = False
    overtaken: bool = False

    def needs_gates(self, frags: bool = False) -> bool:
        """Whether order takes gates (see gates.py); `frags`: packets of several buffers may come, and go up."""
        met = self.overtaken or bool(self.injections) or (frags and bool(self.wires))
        return self.ordered and met

    @property
    def keys(self) -> dict[int, int]:
        """Where in the map of devices each wire's interface is to be, by the wire's instance."""
        named = sorted({i for i in self.wires.values() if i in self.devices})
        return {i: key for key, i in enumerate(named)}
