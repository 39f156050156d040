"""The ports of a router when another graph takes the place of the one that runs.

A port whose ends are all the same stays as it is, with what waits in its rings.  A device that only the new graph has
is opened beside the old one, so that trouble comes before anything has changed.  Where an end is another (other words,
or an end more or less) the device is opened anew while nobody runs; if it does not open, the ends that it had get it
back, and nothing has changed.  A device that only the old graph had is closed behind it.  What lies in the rings of a
port that was closed comes home then; a port that cannot tell which frames these are has them on its account until the
router ends.
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
        self.joined: dict[Key, Port] = {}  # those of `anew`, not open yet
        self.made: dict[Key, Port] = {}
        self.closed: list[Port] = []
        try:
            for key, mine in self.anew.items():
                old[key].require_there()
                if mine[0].given_port is None:
                    self.joined[key] = table.joined(mine)
            for key, mine in ends.items():
                if key not in old:
                    self.made[key] = table.opened(table.joined(mine), arena)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """The new graph does not come: what was opened for it is closed."""
        for port in self.made.values():
            self.table.drop(port)

    def reopen(self, router: Any) -> None:
        """While nobody runs, and before anything else has changed.  What does not open comes out as an exception; then
        all is as it was, or the table is dead: no packet code may run any more."""
        olds = [(key, self.table.all[key], list(self.table.all[key].ends)) for key in self.anew]
        try:
            for _, port, _ in olds:
                for end, fd, _ in port.descriptors():
                    router.unwatch(end, fd)
                port.close()
                self.clear(port)
            for key, mine in self.anew.items():
                port = self.joined.get(key) or self.table.joined(mine)
                self.made[key] = self.table.opened(port, self.arena)
                for end in mine:
                    end.initialize()
        except BaseException:
            self._restore(router, olds)
            raise
        self.closed = [port for _, port, _ in olds]

    def _restore(self, router: Any, olds: Sequence[tuple[Key, Port, list[_End]]]) -> None:
        """The ends that the devices had get them back."""
        for key in self.anew:
            if key in self.made:
                self.table.drop(self.made.pop(key))
        again: dict[Key, Port] = {}
        try:
            for key, _, ends in olds:
                again[key] = self.table.opened(self.table.joined(ends), self.arena)
                for end in ends:
                    end.initialize()
        except Exception as trouble:
            self.table.dead = f"a device could be opened neither anew nor as it was: {trouble}"
        self.table.become({**self.table.all, **again}, [port for _, port, _ in olds if port.opened])
        self.table.watch(router, again.values())
        if not self.table.dead:
            self.table.start()
            for _, _, ends in olds:
                for end in ends:
                    router.wake(end, "self")

    def enter(self, router: Any) -> None:
        """The table is that of the new graph, and its descriptors are watched; those of ends that are not kept are not
        any more (`Team.join`)."""
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
        frames = set(port.leftovers())  # one that a device left behind may stand in two rings
        known = len(frames) == sum(port.all_frames().values())
        if known and all(self.arena.in_ring(frame) for frame in frames):
            for frame in frames:
                self.arena.give_frame(frame)
            port.free()

    def is_late(self, end: Any) -> bool:
        """Whether an end has no port before the swap."""
        return any(end is one for mine in self.anew.values() for one in mine)


def _same(old: Sequence[_End], new: Sequence[_End]) -> bool:
    return {id(end) for end in old} == {id(end) for end in new}
