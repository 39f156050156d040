"""IPv4 lookup elements: one face, three ways to keep the table.

    RadixIPLookup DirectIPLookup RangeIPLookup   the LPM state: a compressed trie in native code
    StaticIPLookup                               the same, without handlers that change it
    LinearIPLookup SortedIPLookup                an array searched from the longest prefix down

A packet is routed by its destination annotation.  A route with a gateway puts that into the annotation, for ARPQuerier.
The value of a prefix in the LPM is the number of its next hop; next hops are few even where routes are many.  A small
table is also written out as code, longest prefix first, which is used until a handler changes a route: it touches no
memory, and costs 1 ns where the trie costs 10.
"""

from typing import Any

from mezzo.elements import (
    LPM,
    Array,
    ConfigError,
    Element,
    Env,
    Packet,
    Port,
    Raw,
    Rest,
    bounded,
    flag,
    read,
    u32,
    u64,
    write,
)
from mezzo.elements.ip_routes import Route, RouteList, parse_route, read_orders, rows
from mezzo.wire.address import format_ip, mask_of, parse_ip

NO_HOP = 0xFFFFFFFF
UNROLLED = 16  # routes that become code
WARNINGS = 5  # repeated prefixes that are named one by one


def longest_first(route: Route) -> tuple[int, int]:
    return -route.length, route.address


class _RouteTable(Element):
    """The configuration and the handlers that only read; `_fill`, `_get`, `_find`, `_routes` are each table's own."""

    ports, processing, flow = "1/-", "h/h", "x/x"
    routes = Rest(Raw(), "routes: ADDRESS/LENGTH [GATEWAY] OUTPUT")

    def setup(self, words: list[str], env: Env) -> list[str]:
        # The arguments are routes and nothing else; half a million of them are read at once.
        self.words, self.env, self.troubles, self.warnings = words, env.within(self.name), [], []
        self.args["routes"] = words
        listed = RouteList(words, self.noutputs, self.env)
        self.troubles += listed.troubles
        repeats = listed.drop_repeats()
        for kept, dropped in repeats[:WARNINGS]:
            self.warn(f"{kept.prefix} is given twice; `{kept}` is kept, `{dropped}` is not")
        if len(repeats) > WARNINGS:
            self.warn(f"{len(repeats) - WARNINGS} more prefixes are given twice; the first of each is kept")
        if not self.troubles:
            self._fill(listed)
        return self.troubles

    def _fill(self, listed: RouteList) -> None:
        """Takes over the routes of the configuration."""
        raise NotImplementedError

    def _get(self, address: int, length: int) -> Route | None:
        """The route of exactly this prefix."""
        raise NotImplementedError

    def _find(self, address: int) -> Route | None:
        """The route that a packet to `address` takes."""
        raise NotImplementedError

    def _routes(self) -> Any:
        """All routes there are."""
        raise NotImplementedError

    @read("table", "the routes, one a line", flags="$")
    def table(self):
        return rows(self._routes())

    @read("lookup", "output and gateway for an address; -1 when there is no route", param=True)
    def lookup(self, text):
        known = self.env.look("ip", text.strip())
        route = self._find(known if known is not None else parse_ip(text.strip()))
        if route is None:
            return "-1"
        return f"{route.port} {format_ip(route.gateway)}" if route.gateway else str(route.port)


class _LiveTable(_RouteTable):
    """Adds the handlers that change routes; `_put`, `_remove`, `_clear` and `_apply` are each table's own: how routes
    are kept is all in which tables differ, so there is nothing to inherit."""

    def _put(self, route: Route) -> None:
        """Adds a route, or replaces the one of its prefix."""
        raise NotImplementedError

    def _remove(self, address: int, length: int) -> None:
        """Takes the route of exactly this prefix out."""
        raise NotImplementedError

    def _clear(self) -> None:
        """Takes all routes out."""
        raise NotImplementedError

    def _act(self, command: str, text: str) -> None:
        """Does one command."""
        route = parse_route(text, self.noutputs, self.env, command == "remove")
        old = self._get(route.address, route.length)
        _check(command, route, old)
        if command == "remove":
            self._remove(route.address, route.length)
        else:
            self._put(route)

    @write("add", "adds a route; an error where the prefix has one")
    def add(self, text):
        self._act("add", text)

    @write("set", "adds or replaces a route")
    def set(self, text):
        self._act("set", text)

    @write("remove", "removes the route of a prefix")
    def remove(self, text):
        self._act("remove", text)

    @write("flush", "removes all routes")
    def flush(self, text):
        self._clear()

    @write("ctrl", "lines of add, set or remove and a route; all of them or, after an error, none")
    def ctrl(self, text):
        # Nothing is touched before every line is known to be right, and then all is changed at once.
        orders = read_orders(text, self.noutputs, self.env)
        prefixes = list(dict.fromkeys([route[:2] for _, route in orders]))
        now: dict[tuple[int, int], Route | None] = dict(zip(prefixes, self._get_all(prefixes), strict=True))
        for command, route in orders:
            _check(command, route, now[route[:2]])
            now[route[:2]] = None if command == "remove" else route
        self._apply(now)

    def _get_all(self, prefixes: list[tuple[int, int]]) -> list[Route | None]:
        """The routes of exactly these prefixes."""
        known = {(r.address, r.length): r for r in self._routes()}
        return [known.get(prefix) for prefix in prefixes]

    def _apply(self, routes: dict[tuple[int, int], Route | None]) -> None:
        """Gives each prefix its route, or none; all of them, or none where they have no room."""
        raise NotImplementedError


def _check(command: str, route: Route, old: Route | None) -> None:
    """Refuses what contradicts the route that the prefix has."""
    if command == "remove" and (old is None or (route.port >= 0 and old != route)):
        raise ConfigError(f"there is no route `{route.prefix if route.port < 0 else route}`")
    if command == "add" and old is not None:
        raise ConfigError(f"conflict with existing route `{old}`; `set` replaces it")


class _TrieTable(_RouteTable):
    """Keeps routes in the LPM state, and a few of them as code."""

    places = 64  # next hops there is room for
    lpm: LPM[u32]
    hops: Array[u64, "places"]  # gateway << 32 | output
    changed: flag  # by a handler: the code is out of date

    def _fill(self, listed):
        while self.places < 2 * len(listed.pairs):
            self.places *= 2
        for number, (gateway, port) in enumerate(listed.pairs):
            self.hops[number] = gateway << 32 | port
        self.used = len(listed.pairs)
        few = listed if len(listed) <= UNROLLED else ()
        self.code = tuple((r.address, mask_of(r.length), r.gateway, r.port) for r in sorted(few, key=longest_first))
        self._listed = listed

    def initialize(self):
        # Only now, straight into the target's own table: half a million routes should not be kept twice.
        self.lpm.load_arrays(self._listed.keys, self._listed.lengths, self._listed.hops)
        self._listed = None

    def hands_over(self, old):
        """Routes are those of the configuration, which is what its user said last."""
        return [name for name in super().hands_over(old) if name not in ("lpm", "changed")]

    def process(self, p: Packet) -> Port:
        to = p.dst_ip
        if self.code and not self.changed:
            for key, mask, way, port in self.code:
                if to & mask == key:
                    if way != 0:
                        p.dst_ip = way
                    return port
        else:
            number = self.lpm.lookup(to, NO_HOP)
            if number != NO_HOP:
                hop = self.hops[number]
                gateway = u32(hop >> 32)
                if gateway != 0:
                    p.dst_ip = gateway
                return u32(hop)
        self.kill(p, "no route")

    def _route(self, address: int, length: int, number: int) -> Route:
        hop = self.hops[number]
        return Route(address, length, hop >> 32, hop & 0xFFFFFFFF)

    def _get(self, address, length):
        number = self.lpm.get(address, length, -1)
        return None if number < 0 else self._route(address, length, number)

    def _find(self, address):
        number = self.lpm.lookup(address, NO_HOP)
        return None if number == NO_HOP else self._route(0, 0, number)

    def _routes(self):
        return (self._route(*item) for item in self.lpm.items())


class RadixIPLookup(_TrieTable, _LiveTable):
    """Routes packets by longest prefix match; fast for tables of any size.

    Packets without a route are dropped. Routes can be changed while packets flow.
    """

    see = ("DirectIPLookup", "RangeIPLookup", "StaticIPLookup", "LinearIPLookup", "GetIPAddress")
    example = """
        InfiniteSource(LIMIT 3, STOP true) -> SetIPAddress(10.1.2.3)
            -> r :: RadixIPLookup(0.0.0.0/0 192.168.0.1 0, 10.0.0.0/8 1)
            -> a :: Counter -> Discard;
        r[1] -> b :: Counter -> Discard;
    """
    example_reads = {"a.count": "0", "b.count": "3"}

    def _put(self, route):
        self.lpm.add(route.address, route.length, self._hop(route.gateway << 32 | route.port))
        self.changed = True

    def _hop(self, hop: int) -> int:
        return self._hops({hop})[hop]

    def _hops(self, hops: set[int]) -> dict[int, int]:
        """The numbers of next hops, new ones where it must be; those that no route uses any more are used again."""
        known = {self.hops[number]: number for number in reversed(range(self.used))}
        found = {hop: known[hop] for hop in hops if hop in known}
        fresh = sorted(hops - found.keys())
        free = list(range(self.used, self.places))
        if len(free) < len(fresh):
            taken = {item[2] for item in self.lpm.items()} | set(found.values())
            free = [number for number in range(self.places) if number not in taken]
        if len(free) < len(fresh):
            raise ConfigError(f"there is room for {self.places} next hops, and all are used")
        for hop, number in zip(fresh, free, strict=False):
            self.hops[number], found[hop] = hop, number
            self.used = max(self.used, number + 1)
        return found

    def _get_all(self, prefixes):
        found = self.lpm.get_all([address for address, _ in prefixes], [length for _, length in prefixes])
        pairs = zip(prefixes, found, strict=True)
        return [None if number < 0 else self._route(*prefix, number) for prefix, number in pairs]

    def _apply(self, routes):
        numbers = self._hops({r[2] << 32 | r[3] for r in routes.values() if r is not None})
        values = [-1 if r is None else numbers[r[2] << 32 | r[3]] for r in routes.values()]
        self.lpm.change([address for address, _ in routes], [length for _, length in routes], values)
        self.changed = True

    def _remove(self, address, length):
        self.lpm.remove(address, length)
        self.changed = True

    def _clear(self):
        self.lpm.clear()
        self.changed = True


class DirectIPLookup(RadixIPLookup):
    """Routes packets by longest prefix match; the same table as RadixIPLookup, under its other name."""

    see = ("RadixIPLookup",)
    example = RadixIPLookup.example.replace("Radix", "Direct")


class RangeIPLookup(RadixIPLookup):
    """Routes packets by longest prefix match; the same table as RadixIPLookup, under its other name."""

    see = ("RadixIPLookup",)
    example = RadixIPLookup.example.replace("Radix", "Range")


class LinearIPLookup(_LiveTable):
    """Routes packets by longest prefix match in a list; for tables of a few routes.

    The list is kept sorted, longest prefix first, so that the first match is the right one.
    """

    capacity = 64  # routes there is room for
    keys: Array[u32, "capacity"]
    masks: Array[u32, "capacity"]
    hops: Array[u64, "capacity"]
    used: u32
    see = ("RadixIPLookup", "StaticIPLookup")
    example = RadixIPLookup.example.replace("Radix", "Linear")
    example_reads = RadixIPLookup.example_reads

    def _fill(self, listed):
        while self.capacity < 2 * len(listed):
            self.capacity *= 2
        self._load(listed)

    def _load(self, routes: Any) -> None:
        self.used = 0
        for index, route in enumerate(sorted(routes, key=longest_first)):
            self.keys[index], self.masks[index] = route.address, mask_of(route.length)
            self.hops[index] = route.gateway << 32 | route.port
            self.used += 1

    def process(self, p: Packet) -> Port:
        to = p.dst_ip
        for i in bounded(self.used, self.capacity):
            if to & self.masks[i] == self.keys[i]:
                hop = self.hops[i]
                gateway = u32(hop >> 32)
                if gateway != 0:
                    p.dst_ip = gateway
                return u32(hop)
        self.kill(p, "no route")

    def _routes(self):
        for i in range(self.used):
            hop = self.hops[i]
            yield Route(self.keys[i], self.masks[i].bit_count(), hop >> 32, hop & 0xFFFFFFFF)

    def _get(self, address, length):
        return next((r for r in self._routes() if (r.address, r.length) == (address, length)), None)

    def _find(self, address):
        return next((r for r in self._routes() if address & mask_of(r.length) == r.address), None)

    def _put(self, route):
        others = [r for r in self._routes() if r[:2] != route[:2]]
        if len(others) >= self.capacity:
            raise ConfigError(f"the table is full: it has room for {self.capacity} routes; use RadixIPLookup for more")
        self._load([*others, route])

    def _apply(self, routes):
        others = [r for r in self._routes() if r[:2] not in routes]
        fresh = [r for r in routes.values() if r is not None]
        if len(others) + len(fresh) > self.capacity:
            raise ConfigError(f"the table is full: it has room for {self.capacity} routes; use RadixIPLookup for more")
        self._load([*others, *fresh])

    def _remove(self, address, length):
        self._load([r for r in self._routes() if r[:2] != (address, length)])

    def _clear(self):
        self.used = 0


class SortedIPLookup(LinearIPLookup):
    """Routes packets by longest prefix match in a sorted list: LinearIPLookup under its other name."""

    see = ("LinearIPLookup",)
    example = RadixIPLookup.example.replace("Radix", "Sorted")


class StaticIPLookup(_TrieTable):
    """Routes packets by longest prefix match in a table that never changes; otherwise RadixIPLookup."""

    see = ("RadixIPLookup", "LinearIPLookup")
    example = RadixIPLookup.example.replace("Radix", "Static")
    example_reads = RadixIPLookup.example_reads
