"""Changes of the machine that outlive a process, and who undoes them.

A `Change` says which interface, what, the value before and the value now.  The process that has the rights keeps a
`Ledger` of them: it is written before the change is made, and handed on to the warden; `release` undoes.  Two ports
that need the same switch hold one change: the last to let go undoes it.

Routers of other processes may rely on the same: each says so (`_claims`), the value from before the first of them goes
from one to the next, and the last that ends undoes.

Undoing looks first: a value that is no longer what we set was changed by somebody else, and stays; an interface that is
gone needs nothing; one that was moved to another namespace or renamed is found there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from mezzo.base import MezzoError
from mezzo.ports import _claims, _netdev, _netns

Told = dict[str, Any]
OWNER = os.urandom(4).hex()  # this process; a number would not do, a helper may have its own count of processes


@dataclass(frozen=True)
class Change:
    """`kind` is a row of `KINDS`; `key` says which of several, for example the name of an offload."""

    kind: str
    device: _netdev.Device
    key: str
    old: int
    new: int

    @property
    def place(self) -> tuple[str, int, str, str]:
        """What a second change of the same thing has in common with this."""
        return self.kind, self.device.index, self.device.mac, self.key

    @property
    def claimed(self) -> tuple[str, ...]:
        """What claims call it; the value now is part of that."""
        return self.kind, str(self.device.index), self.device.mac, self.key or "-", str(int(self.new))

    def as_json(self) -> Told:
        return asdict(self) | {"owner": OWNER}


def from_json(told: Mapping[str, Any]) -> Change:
    return Change(told["kind"], _netdev.Device(**told["device"]), told["key"], told["old"], told["new"])


@dataclass(frozen=True)
class Kind:
    """How to read and set one thing; both run in the interface's namespace."""

    read: Callable[[_netdev.Link, str], int]
    write: Callable[[_netdev.Link, str, int], None]


def _read_feature(link: _netdev.Link, key: str) -> int:
    from mezzo.ports import _ethtool

    switches = _ethtool.wanted(link.name)
    if key not in switches:
        raise MezzoError("nobody can change it now; an XDP program may be attached to its peer")
    return int(switches[key])


def _write_feature(link: _netdev.Link, key: str, value: int) -> None:
    from mezzo.ports import _ethtool

    _ethtool.set_features(link.name, {key: bool(value)})


def _read_channels(link: _netdev.Link, key: str) -> int:
    from mezzo.ports import _ethtool

    return _ethtool.channels(link.name)[key]


def _write_channels(link: _netdev.Link, key: str, value: int) -> None:
    from mezzo.ports import _ethtool

    _ethtool.write_channels(link.name, {key: value})


KINDS: Mapping[str, Kind] = {
    "mtu": Kind(lambda link, _: link.mtu, lambda link, _, value: _netdev.change(link.index, mtu=value)),
    "up": Kind(lambda link, _: int(link.is_up), lambda link, _, value: _netdev.change(link.index, up=bool(value))),
    "feature": Kind(_read_feature, _write_feature),
    "channels": Kind(_read_channels, _write_channels),
}


def undo(change: Change) -> str:
    """Takes one change back; what kept it from being so, or ""."""
    kind = KINDS[change.kind]
    try:
        found = _netdev.find(change.device)
        if found is None:
            return ""
        space, link = found
        with _netns.inside(space.path):
            if not _claims.others(change.claimed, OWNER) and kind.read(link, change.key) == change.new:
                kind.write(link, change.key, change.old)
        return ""
    except (OSError, MezzoError, KeyError) as trouble:
        return f"{change.device.name}: {change.kind} {change.key} could not be set back to {change.old}: {trouble}"


@contextmanager
def _at(change: Change) -> Iterator[None]:
    """In the namespace where the interface is."""
    found = _netdev.find(change.device)
    with _netns.inside(found[0].path if found is not None else _netns.HERE):
        yield


def undo_all(changes: Iterable[Change]) -> list[str]:
    """The last first; what could not be undone, as text."""
    return [said for said in map(undo, reversed(list(changes))) if said]


class Ledger:
    """What this process changed and has not undone.  `guard` hears of every change that is held or let go."""

    def __init__(self, guard: Callable[[str, Told], None]) -> None:
        self._held: dict[tuple[str, int, str, str], tuple[Change, int]] = {}
        self._claims: dict[tuple[str, int, str, str], closing[socket.socket]] = {}
        self._guard = guard

    def hold(self, changes: Iterable[Change]) -> list[Told]:
        """Notes changes that are about to be made; gives them in the form that `release` takes back.

        What is so already is no change, unless it is so because of another one who holds it.
        """
        told = []
        for change in changes:
            before = self._held.get(change.place)
            if before is None:
                change = self._inherited(change)
            if before is None and change.old == change.new:
                continue
            if before is None:
                self._guard("hold", change.as_json())
                self._claim(change)
            first = before[0] if before else change
            self._held[change.place] = (first, before[1] + 1 if before else 1)
            told.append(change.as_json())
        return told

    def _inherited(self, change: Change) -> Change:
        """With the value from before others of our kind made the same change, if there are some."""
        with suppress(OSError, MezzoError), _at(change):
            there = _claims.others(change.claimed, OWNER)
            return replace(change, old=there[0]) if there else change
        return change

    def _claim(self, change: Change) -> None:
        with suppress(OSError, MezzoError), _at(change):
            self._claims[change.place] = _claims.claim(change.claimed, int(change.old), OWNER)

    def let_go(self) -> None:
        """This process needs nothing any more; its warden undoes."""
        while self._claims:
            self._claims.popitem()[1].__exit__()

    @contextmanager
    def holding(self, changes: Iterable[Change]) -> Iterator[list[Told]]:
        """Around making changes: what could not be made is let go again."""
        told = self.hold(changes)
        try:
            yield told
        except BaseException:
            self.release(told)
            raise

    def release(self, told: Iterable[Mapping[str, Any]]) -> list[str]:
        """Undoes what nobody else needs; what could not be undone, as text.  What is not held is left alone."""
        said = []
        for change in reversed([from_json(t) for t in told]):
            first, count = self._held.get(change.place, (change, 0))
            if count > 1:
                self._held[change.place] = (first, count - 1)
            elif count == 1:
                del self._held[change.place]
                if change.place in self._claims:
                    self._claims.pop(change.place).__exit__()
                said.append(undo(first))
                self._guard("drop", first.as_json())
        return [s for s in said if s]


@cache
def ledger() -> Ledger:
    """This process's own.  Its warden starts with the first change."""
    from mezzo.ports import warden

    return Ledger(warden.tell)


def sorted_by_owner(changes: Iterable[Mapping[str, Any]]) -> tuple[list[Told], list[Told]]:
    """Those of this process, and those that a helper made."""
    mine: list[Told] = []
    theirs: list[Told] = []
    for told in changes:
        (mine if told["owner"] == OWNER else theirs).append(dict(told))
    return mine, theirs
