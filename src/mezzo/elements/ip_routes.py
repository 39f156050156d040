"""Routes: how they are written, read, and kept as text; shared by all IPv4 lookup elements.

A route is `ADDRESS/LENGTH [GATEWAY] OUTPUT`; a gateway written `-` is none.  A table can have half a million routes in
one configuration string, so the plain form is read in one tight loop, and only what does not fit goes to the careful
reader, which knows names and explains what is wrong.
"""

import socket
import sys
from array import array
from collections.abc import Iterable, Iterator
from operator import and_
from typing import NamedTuple

from mezzo.elements.args import Env, IPAddress, IPPrefix
from mezzo.elements.element import Trouble
from mezzo.elements.units import parse_int
from mezzo.wire.address import format_ip, mask_of, parse_prefix

FORM = "ADDRESS/LENGTH [GATEWAY] OUTPUT"
FEW = 4096  # routes whose repeats are looked for without numpy
ORDERS = {"add", "set", "remove"}
_LENGTHS = {str(n): n for n in range(33)}


class Route(NamedTuple):
    """`gateway` 0 is none; `port` -1, in a removal, is any."""

    address: int
    length: int
    gateway: int
    port: int

    @property
    def prefix(self) -> str:
        return f"{format_ip(self.address)}/{self.length}"

    def __str__(self) -> str:
        return f"{self.prefix} {format_ip(self.gateway) if self.gateway else '-'} {self.port}"

    def row(self) -> str:
        """As the `table` handler prints it, in columns."""
        first = f"{self.prefix}\t"
        second = f"{format_ip(self.gateway) if self.gateway else '-'}\t"
        first += "\t" if len(first) < 17 else ""
        second += "\t" if len(second) < 9 else ""
        return f"{first}{second}{self.port}"


def parse_route(text: str, outputs: int, env: Env, removal: bool = False) -> Route:
    """Reads one route; a removal may leave out what follows the prefix."""
    words = text.split()
    if not 2 - removal <= len(words) <= 3:
        raise ValueError(f"`{text}` is not a route; write {FORM}")
    address, length = _prefix(words[0], env)
    gateway, port = 0, -1
    if len(words) == 3 and words[1] != "-":
        gateway = IPAddress().parse(words[1], env)
    if len(words) > 1:
        port = _port(words[-1], text, outputs)
    return Route(address & mask_of(length), length, gateway, port)


def _prefix(text: str, env: Env) -> tuple[int, int]:
    """A prefix, a name that stands for one, or an address alone, which is a /32."""
    if "/" in text or env.look("prefix", text) is not None:
        address, length = IPPrefix().parse(text, env)
        return address, length
    known = env.look("ip", text)
    return (known, 32) if known is not None else parse_prefix(text, bare=True)


def _port(text: str, route: str, outputs: int) -> int:
    try:
        port = parse_int(text)
    except ValueError:
        raise ValueError(f"`{route}`: the output `{text}` is not a number; write {FORM}") from None
    if not 0 <= port < outputs:
        raise ValueError(f"`{route}`: there is no output {port}; outputs 0 to {outputs - 1} are connected")
    return port


def read_orders(text: str, outputs: int, env: Env) -> list[tuple[str, Route]]:
    """The lines of a batch: (add, set or remove; the route).  What follows a prefix is read once, then known."""
    known: dict[str, tuple[int, int]] = {}
    masks = [mask_of(n) for n in range(33)]
    to_bytes, inet, number = socket.inet_pton, socket.AF_INET, int.from_bytes
    found = []
    for line in text.splitlines():
        command, _, rest = line.partition(" ")
        prefix, _, tail = rest.partition(" ")
        address, _, length = prefix.partition("/")
        try:
            n, (gateway, port) = _LENGTHS[length], known[tail]
            found.append((command, Route(number(to_bytes(inet, address), "big") & masks[n], n, gateway, port)))
        except (OSError, KeyError, ValueError):
            words = line.split(None, 1)
            if not words:
                continue
            command = words[0]
            route = parse_route("".join(words[1:]), outputs, env, command == "remove")
            if tail and tail == tail.strip():  # more than a space would make the prefix empty
                known[tail] = route.gateway, route.port
            found.append((command, route))
        if command not in ORDERS:
            raise ValueError(f"`{command}` is not a command; write add, set or remove, and a route")
    return found


class RouteList:
    """Routes in columns: arrays `keys`, `lengths`, `hops` of u32; hop i is the (gateway, port) pair `pairs[i]`."""

    def __init__(self, words: list[str], outputs: int, env: Env) -> None:
        self.troubles: list[str] = []
        self.pairs: list[tuple[int, int]] = []
        self._number: dict[tuple[int, int], int] = {}
        self._read(words, outputs, env)

    def hop(self, gateway: int, port: int) -> int:
        """The number of a pair."""
        number = self._number.setdefault((gateway, port), len(self.pairs))
        if number == len(self.pairs):
            self.pairs.append((gateway, port))
        return number

    def _read(self, words: list[str], outputs: int, env: Env) -> None:
        keys, lengths, hops = [], [], []
        known: dict[str, int] = {}  # what follows the prefix -> hop
        to_bytes, inet = socket.inet_pton, socket.AF_INET
        for word in words:
            prefix, _, tail = word.partition(" ")
            address, _, length = prefix.partition("/")
            try:
                row = to_bytes(inet, address), _LENGTHS[length], known[tail]
            except (OSError, KeyError, ValueError):
                try:
                    route = parse_route(word, outputs, env)
                except ValueError as trouble:
                    self.troubles.append(Trouble.about(str(trouble), len(keys) + len(self.troubles)))
                    continue
                number = self.hop(route.gateway, route.port)
                if tail:  # words may be kept apart by more than a space, and then nothing is known to follow one
                    known[tail] = number
                row = route.address.to_bytes(4, "big"), route.length, number
            keys.append(row[0])
            lengths.append(row[1])
            hops.append(row[2])
        self.lengths, self.hops = array("I", lengths), array("I", hops)
        given = array("I", b"".join(keys))
        if sys.byteorder == "little":
            given.byteswap()
        masks = [mask_of(n) for n in range(33)]
        self.keys = array("I", map(and_, given, map(masks.__getitem__, lengths)))

    def drop_repeats(self) -> list[tuple[Route, Route]]:
        """Keeps the first of equal prefixes; gives (the one kept, the one dropped)."""
        if len(self) <= FEW and len(set(zip(self.keys, self.lengths, strict=True))) == len(self):
            return []
        import numpy as np  # slow to import; few routes rarely need it

        ids = np.array(self.keys, np.uint64) << np.uint64(6) | np.array(self.lengths, np.uint64)
        _, first, place = np.unique(ids, return_index=True, return_inverse=True)
        kept = first[place.reshape(-1)]
        repeats = np.flatnonzero(kept != np.arange(len(ids)))
        found = [(self.route(int(kept[i])), self.route(int(i))) for i in repeats]
        if found:
            self.keys, self.lengths, self.hops = (
                array("I", np.array(column, np.uint32)[np.sort(first)].tobytes())
                for column in (self.keys, self.lengths, self.hops)
            )
        return found

    def __len__(self) -> int:
        return len(self.keys)

    def route(self, index: int) -> Route:
        return Route(self.keys[index], self.lengths[index], *self.pairs[self.hops[index]])

    def __iter__(self) -> Iterator[Route]:
        return map(self.route, range(len(self)))


def rows(routes: Iterable[Route]) -> str:
    return "".join(f"{route.row()}\n" for route in routes)
