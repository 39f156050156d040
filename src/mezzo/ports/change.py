"""The ports of a router when another graph takes the place of the one that runs.

A port whose ends are all the same stays as it is, with what waits in its rings.  A device that only the new graph has
is opened beside the old one, so that trouble comes before anything has changed.  Where an end is another (other words,
or an end more or less) the device is opened anew while nobody runs.  A device that only the old graph had is closed
behind it.  What lies in the rings of a port that was closed comes home then; a port that cannot tell which frames these
are has them on its account until the router ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mezzo.packet.arena import Arena

if TYPE_CHECKING:
    from mezzo.ports._end import _End
    from mezzo.ports.port import Port, PortTable

Key = tuple[str, str]


class Change:
    """Of one `PortTable`; `reopened`: the devices that do not go on without a break."""

    def __init__(self, table: PortTable, elements: Sequence[Any], arena: Arena) -> None:
        self.table, self.arena = table, arena
        ends: dict[Key, list[_End]] = {}
        for element in elements:
            if hasattr(element, "make_port"):
                ends.setdefault((element.method, element.device_key), []).append(element)
        old = table.all
        same = {key for key, mine in ends.items() if key in old and _same(old[key].ends, mine)}
        self.kept = {key: old[key] for key in same}
        self.anew = {key: mine for key, mine in ends.items() if key in old and key not in same}
        self.gone = [port for key, port in old.items() if key not in ends]
        self.reopened = tuple(old[key].device for key in self.anew)
        self.made: dict[Key, Port] = {}
        try:
            for key, mine in ends.items():
                if key not in old:
                    self.made[key] = table.opened(mine, arena)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """The new graph does not come: what was opened for it is closed."""
        for port in self.made.values():
            self.table.drop(port)

    def apply(self, router: Any) -> None:
        """While nobody runs: the table is that of the new graph, and its descriptors are watched; those of ends that
        are not kept are not any more (`Team.join`)."""
        self.closed = [self.table.all[key] for key in self.anew]
        for port in self.closed:
            port.close()
            self.clear(port)
        try:
            for key, mine in self.anew.items():
                self.made[key] = self.table.opened(mine, self.arena)
                for end in mine:
                    end.initialize()
        finally:
            self._enter(router)

    def _enter(self, router: Any) -> None:
        self.table.become({**self.kept, **self.made}, [p for p in (*self.closed, *self.gone) if p.opened])
        self.table.watch(router, self.made.values())

    def finish(self, router: Any) -> None:
        """Behind the old graph."""
        for port in self.gone:
            port.close()
            router.at_rest(lambda port=port: self.clear(port))
        self.table.gone = [port for port in self.table.gone if port.opened]

    def clear(self, port: Port) -> None:
        """Sends home what lies in the rings of a closed port, and frees them."""
        frames = port.leftovers()
        if len(set(frames)) == sum(port.all_frames().values()):
            for frame in frames:
                self.arena.give_frame(frame)
            port.free()

    def is_late(self, end: Any) -> bool:
        """Whether an end has no port before the swap."""
        return any(end is one for mine in self.anew.values() for one in mine)


def _same(old: Sequence[_End], new: Sequence[_End]) -> bool:
    return {id(end) for end in old} == {id(end) for end in new}
