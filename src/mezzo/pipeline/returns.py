"""Where packets that native code has go back to the kernel's level (Reinject), and where they come up from there.

The element itself is native, and an entry of the kernel's level beside the device inputs: what is behind its output is
reached from there as well.  Its packets are as those of one device input, whose interface wires and the host see.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mezzo.pipeline import devices
from mezzo.pipeline.link import Linker
from mezzo.pipeline.reach import Reach
from mezzo.pipeline.told import NATIVE
from mezzo.pipeline.wishes import Wish
from mezzo.targets.kernel.plan import GONE, KernelPlan, Port
from mezzo.targets.kernel.roads import reached


class Returns(Reach):
    """`sources`: of each place where packets go back, the input that they come to and whose packets they are."""

    def __init__(self, linker: Linker, wishes: Sequence[Wish], virtual: bool) -> None:
        super().__init__(linker, wishes, virtual)
        self.sources: dict[int, tuple[Port, int]] = {}

    def inputs(self) -> list[int]:
        """The device inputs that can have a half."""
        return [i for i, e in enumerate(self.elements) if devices.is_input(e) and self.half(i).unit is not None]

    def handed_over(self, entries: Sequence[int]) -> dict[int, tuple[Port, int]]:
        """The sources, when these are the device inputs."""
        found = {}
        for i, element in enumerate(self.elements):
            if devices.is_injector(element) and i not in self.left and not self.why_not_handed_over(i, entries):
                to = self.next(i, 0)
                assert to is not None, "there is something behind it"
                found[i] = to, self.owners(i, entries)[0]
        return found

    def why_not_handed_over(self, i: int, entries: Sequence[int]) -> str:
        wish, owners = self.wishes[i], self.owners(i, entries)
        if wish is not None and wish.level == NATIVE:
            return "so it is wished"
        if self.next(i, 0) is None:
            to = self.program.instances[i].outputs[0]
            behind = f"`{self.elements[to[0]].name}`, which is native" if to is not None else "nothing"
            return f"behind it is {behind}"
        if not owners:
            device = self.elements[i].device  # type: ignore[attr-defined]
            return f"{device} is no input of the kernel's level" if device else "no input is in the kernel"
        if len(owners) > 1:
            return f"say which input's packets they are as: DEVICE {' or '.join(self.device(e) for e in owners)}"
        return ""

    def owners(self, i: int, entries: Sequence[int]) -> list[int]:
        """The device inputs that the packets of a place where native code hands some over may be of."""
        device = self.elements[i].device  # type: ignore[attr-defined]
        return [e for e in entries if e not in self.left and device in ("", self.device(e))]

    def device(self, i: int) -> str:
        return str(getattr(self.elements[i], "devname", ""))

    def without_input(self, placed: Collection[int]) -> dict[int, str]:
        """Places that packets would go back from as those of an input that is native after all."""
        return {i: f"`{self.elements[e].name}` is native" for i, (_, e) in self.sources.items() if e not in placed}


def up_places(kernel: KernelPlan) -> dict[int, list[Port | None]]:
    """By instance where packets come up, the elements and inputs at which they go on, by way.  What native code has
    handed over comes up where its own road does: else ways that it never goes would be circles."""
    places = [None if to == GONE else (to[0] - 1, to[1]) for to in kernel.ups]
    found: dict[int, list[Port | None]] = {i: places for i, _ in kernel.entries}
    for one in kernel.injections:
        road = reached(kernel, one.to[0])
        mine = {way for (i, _), way in kernel.ways.items() if i in road}
        found[one.instance] = [place if way in mine else None for way, place in enumerate(places)]
    return found
