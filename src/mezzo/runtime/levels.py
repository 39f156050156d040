"""A router over two levels: the part of it that is in the kernel, built beside the native whole.

    plan ─► part: maps with what the elements' states hold, programs
            └─► what native code has in common with it ─► engine ─► ports attach the programs to their devices

The native program is whole, so a router without the rights, or of which nothing goes, is one without parts.  State is
one: counters are sums over the levels, drops too, and what a handler writes both see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.pipeline import Plan
from mezzo.ports import privileged
from mezzo.ports.port import PortTable

# The kernel draws from a sequence of its own; as far from the native one as those of threads are from each other.
APART = 0xA3EC_647E_5C9D_8F1B
WORD = (1 << 64) - 1


class Levels:
    """What a router has beside its native engine.  `parts` is empty where everything is native."""

    def __init__(self, plan: Plan, target: str) -> None:
        self.plan, self.parts = plan, list[Any]()
        self._kernel = plan.placement.kernel if plan.placement is not None else None
        if self._kernel is not None and target != "native":
            what = f"parts of the {target} target do not go into the kernel"
            raise MezzoError(Diagnostic(what, hint="run it with --target native, or without --place"))

    def build(
        self,
        cells: Sequence[dict[str, Any]],
        frame_size: int,
        seed: int,
        cache: bool,
        traced: bool,
        before: Levels | None = None,
        keep: Callable[[str], bool] = lambda name: True,
    ) -> dict[str, Any]:
        """Makes the part but for its programs, with the contents of `cells`; what the native target is to know of it.
        LLVM works at them in another process, until `load` wants them.  `traced`: its
        programs can tell of the packets that somebody follows.  `before`: of a router that runs, whose place it is to
        take (see `replace`): elements of equal name and state that `keep` says yes to go on in the same maps,
        and so with what is there.  What `cells` leave out is as its element has it."""
        if self._kernel is None:
            return {}
        from mezzo.targets.kernel import Part
        from mezzo.targets.kernel.common import common_of

        kernel = self._kernel
        options: dict[str, Any] = {"frame_size": frame_size, "use_disk": cache, "noted": traced, "apart": kernel.apart}
        options["frags"] = needs_several_buffers([kernel.devices[i] for i, _ in kernel.entries])
        old = before.parts[0] if before is not None and before.parts else None
        full = [given or element.all_cells() for given, element in zip(cells, self.plan.elements, strict=True)]
        with self._making():
            part = Part.of(kernel, full, before=old, keep=keep, later=True, **options)
        self.parts.append(part)
        part.set_word("random", old.word("random") if old is not None else (seed + APART) & WORD)
        part.set_word("epoch", old.word("epoch") if old is not None else 0)
        return {"common": common_of(part, self.plan.program)}

    def load(self) -> None:
        """The programs of the part: the verifier may find that something is to be refused."""
        for part in self.parts:
            with self._making():
                part.load_roads()

    def _making(self) -> AbstractContextManager[None]:
        assert self._kernel is not None
        return privileged.making(self._kernel.devices[self._kernel.entries[0][0]])

    def set_clock(self, epoch_ns: int) -> None:
        """The kernel's clock is the native one; what to add for the time of day is told."""
        for part in self.parts:
            part.set_word("epoch", epoch_ns)

    def lend(self, fresh: Sequence[Any]) -> None:
        """New ends of devices may be opened, before the place of another part is taken."""
        from mezzo.ports.level import lend

        for part in self.parts:
            lend(self.plan.elements, part, fresh)

    def replace(self, before: Levels, ports: PortTable) -> None:
        """Puts the programs of this in the place of those of `before`, on the interfaces that ports have open: from one
        packet to the next, and none meets no program.  Those of `before` are let go of; state that both have stays."""
        from mezzo.ports.level import hand_out

        for part in self.parts:
            hand_out(self.plan.elements, part)
            enter(part, ports)
        before.close()

    def close(self) -> None:
        """Gives programs and maps back; ports have detached them before."""
        for part in self.parts:
            part.close()
        self.parts.clear()


def enter(part: Any, ports: PortTable) -> None:
    """From the next packet on those of the interfaces that ports have open come to the programs of `part`."""
    there = {port.device: port for port in ports}
    for root, (i, _) in zip(part.device_roots, part.plan.entries, strict=True):
        if (port := there.get(part.plan.devices[i])) is not None:
            port.replace_root(root.fd)
    for root, injector in zip(part.injected_roots, part.injectors, strict=True):
        injector.replace_root(root.fd)


def needs_several_buffers(devices: Sequence[str]) -> bool:
    """Whether packets of one of the devices may be longer than a buffer of its driver."""
    from mezzo.ports._netdev import link
    from mezzo.ports._xdp_port import LARGEST_MTU

    longest = 0
    for device in devices:
        with suppress(OSError, MezzoError):  # one that is not there is told by its port
            longest = max(longest, link(device).mtu)
    return longest > LARGEST_MTU
