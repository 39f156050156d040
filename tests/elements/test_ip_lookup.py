"""Route lookups: every element the same answers, by configuration and by handler."""

from __future__ import annotations

import gzip
import random
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from tests.elements.ip_packets import ip

LIVE = ("RadixIPLookup", "DirectIPLookup", "RangeIPLookup", "LinearIPLookup", "SortedIPLookup")
ALL = (*LIVE, "StaticIPLookup")
TARGETS = ("python", "native")
ROUTES = Path(__file__).parents[3] / "shared/data/routes/rib-ipv4-20140513.dat.gz"


def text_of(element: str, routes: str, outputs: int = 2) -> str:
    ends = " ".join(f"r[{i}] -> out{i} :: Collect;" for i in range(outputs))
    return f"in0 :: Feed -> GetIPAddress(16) -> r :: {element}({routes}); {ends}"


def table(element: str, routes: str, outputs: int = 2, target: str = "native") -> Router:
    return Router.from_click(text_of(element, routes, outputs), target=target, virtual=True)


def lookups(router: Router, *addresses: str) -> list[str]:
    return [router.read("r.lookup", a) for a in addresses]


def routed(router: Router, addresses: list[str], outputs: int) -> dict[str, tuple[int, str]]:
    """Destination -> (output, destination annotation) of packets really sent."""
    assert router.feed("in0", [ip(dst=a) for a in addresses]) == len(addresses)
    router.run(rounds=100_000)
    found = {}
    for port in range(outputs):
        for to, way in router.collect_packets(f"out{port}", lambda p: (bytes(p.data[16:20]), bytes(p.anno[:4]))):
            found[socket.inet_ntoa(to)] = port, socket.inet_ntoa(way)
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", LIVE)
def test_Eo13_longest_prefix_and_removal(element: str, target: str) -> None:
    with table(element, "0/0 1, 10.0.0.0/8 0, 10.1.0.0/16 9.9.9.9 1", target=target) as router:
        assert lookups(router, "10.1.2.3", "10.2.2.3", "11.0.0.1") == ["1 9.9.9.9", "0", "1"]
        assert routed(router, ["10.1.2.3", "10.2.2.3"], 2) == {"10.1.2.3": (1, "9.9.9.9"), "10.2.2.3": (0, "10.2.2.3")}
        router.write("r.remove", "10.1.0.0/16")
        assert lookups(router, "10.1.2.3") == ["0"]
        assert routed(router, ["10.1.2.3"], 2) == {"10.1.2.3": (0, "10.1.2.3")}
        router.write("r.remove", "0.0.0.0/0 1")
        assert lookups(router, "11.0.0.1") == ["-1"]
        assert routed(router, ["11.0.0.1"], 2) == {}
        assert router.drops() == {("r", "no route"): 1}


@pytest.mark.parametrize("element", ALL)
def test_Eo14_edges_of_the_address_space(element: str) -> None:
    routes = "0.0.0.0/0 0, 128.0.0.0/1 1, 255.255.255.255/32 2, 0.0.0.0/32 3"
    ports = {
        "255.255.255.255": 2, "255.255.255.254": 1, "0.0.0.0": 3, "0.0.0.1": 0, "127.255.255.255": 0, "128.0.0.0": 1,
    }  # fmt: skip
    for target in TARGETS:
        with table(element, routes, 4, target) as router:
            assert lookups(router, *ports) == [str(p) for p in ports.values()]
            assert {to: port for to, (port, _) in routed(router, list(ports), 4).items()} == ports


def test_Eo16_same_prefix_twice() -> None:
    for element in ALL:
        with table(element, "1.0.0.0/8 0, 1.0.0.0/8 1") as router:
            (warning,) = router.plan.warnings
            assert "1.0.0.0/8 is given twice; `1.0.0.0/8 - 0` is kept" in str(warning)
            assert lookups(router, "1.2.3.4") == ["0"]
            if element == "StaticIPLookup":
                continue
            router.write("r.add", "2.0.0.0/8 1")
            with pytest.raises(HandlerError, match=r"conflict with existing route `2\.0\.0\.0/8 - 1`"):
                router.write("r.add", "2.0.0.0/8 0")
            router.write("r.set", "2.0.0.0/8 3.3.3.3 0")
            assert lookups(router, "2.2.3.4") == ["0 3.3.3.3"]


def test_Eo18_many_slash_24s_with_longer_prefixes() -> None:
    routes = [f"10.0.{i}.0/26 1" for i in range(17)] + [f"10.0.{i}.0/24 0" for i in range(17)]
    for element in ALL:
        for order in (routes, routes[::-1]):
            with table(element, ", ".join(order)) as router:
                assert lookups(router, "10.0.3.5", "10.0.3.100") == ["1", "0"]
                got = routed(router, ["10.0.3.5", "10.0.3.100"], 2)
                assert [got["10.0.3.5"][0], got["10.0.3.100"][0]] == [1, 0]


def test_any_space_is_between_the_words_of_a_route() -> None:
    with table("RadixIPLookup", "10.0.0.0/8\t1, 11.0.0.0/8\n 9.9.9.9\t0") as router:
        assert lookups(router, "10.0.0.1", "11.0.0.1") == ["1", "0 9.9.9.9"]
        router.write("r.ctrl", "add\t12.0.0.0/8\t1\n")
        assert lookups(router, "12.0.0.1") == ["1"]
    with pytest.raises(MezzoError, match=r"`11\.0\.0\.0/8` is not a route"):
        table("RadixIPLookup", "10.0.0.0/8\t1, 11.0.0.0/8")


def test_the_forms_of_a_route() -> None:
    routes = "10.0.0.1/255.255.255.0 - 1, 11.0.0.1 1.2.3.4 0, net 0, host 1, 12/8 0"
    text = "AddressInfo(net 18.26.4.9/24, host 18.26.5.9); " + text_of("RadixIPLookup", routes)
    with Router.from_click(text, virtual=True) as router:
        table_text = (
            "10.0.0.0/24\t\t-\t\t1\n11.0.0.1/32\t\t1.2.3.4\t\t0\n12.0.0.0/8\t\t-\t\t0\n"
            "18.26.4.0/24\t\t-\t\t0\n18.26.5.9/32\t\t-\t\t1\n"
        )
        assert router.read("r.table") == table_text


@pytest.mark.parametrize(
    "route, words",
    [
        ("10.0.0.0/8", "is not a route; write ADDRESS/LENGTH"),
        ("10.0.0.0/33 0", "0 to 32"),
        ("10.0.0/8/8 0", "10.0.0/8/8"),
        ("10.0.0.0/8 2", "there is no output 2; outputs 0 to 1"),
        ("10.0.0.0/8 -1", "there is no output -1"),
        ("10.0.0.0/8 1.2.3.4 x", "`x` is not a number"),
        ("10.0.0.0/8 1.2.3 0", "1.2.3"),
        ("10.0.0.0/8 1.2.3.4 0 0", "is not a route"),
        ("010.0.0.0/8 0", "leading zero"),
    ],
)
def test_a_wrong_route_is_explained(route: str, words: str) -> None:
    for element in ("RadixIPLookup", "StaticIPLookup"):
        with pytest.raises(MezzoError) as trouble:
            table(element, f"9.0.0.0/8 0, {route}")
        assert words in str(trouble.value)
    with table("LinearIPLookup", "") as router, pytest.raises(HandlerError) as refused:
        router.write("r.add", route)
    assert words in str(refused.value)


@pytest.mark.parametrize("element", ("RadixIPLookup", "LinearIPLookup"))
def test_ctrl_does_all_or_nothing(element: str) -> None:
    with table(element, "1.0.0.0/8 0") as router:
        before = router.read("r.table")
        for bad in ("jump 3.0.0.0/8 1", "add 2.0.0.0/8 1", "remove 4.0.0.0/8"):
            with pytest.raises(HandlerError):
                router.write("r.ctrl", f"add 2.0.0.0/8 1\nset 1.0.0.0/8 1\nremove 1.0.0.0/8 - 1\n{bad}\n")
            assert router.read("r.table") == before
        router.write("r.ctrl", "add 2.0.0.0/8 1\n\nremove 1.0.0.0/8\nset 2.0.0.0/8 5.5.5.5 0\n")
        assert router.read("r.table") == "2.0.0.0/8\t\t5.5.5.5\t\t0\n"
        router.write("r.flush", "")
        assert router.read("r.table") == "" and lookups(router, "2.0.0.1") == ["-1"]


@pytest.mark.parametrize("element", ("RadixIPLookup", "LinearIPLookup"))
def test_a_batch_without_room_changes_nothing(element: str) -> None:
    with table(element, "1.0.0.0/8 0") as router:
        before = router.read("r.table")
        many = "".join(f"add 3.0.{i}.0/24 9.9.8.{i} 1\n" for i in range(64))
        with pytest.raises(HandlerError, match="room for 64"):
            router.write("r.ctrl", f"remove 1.0.0.0/8\n{many}add 4.0.0.0/8 9.9.9.9 1\n")
        assert router.read("r.table") == before and lookups(router, "1.0.0.1", "3.0.1.1") == ["0", "-1"]
        router.write("r.ctrl", f"remove 1.0.0.0/8\n{''.join(many.splitlines(True)[:63])}")
        assert lookups(router, "1.0.0.1", "3.0.1.1") == ["-1", "1 9.9.8.1"]


def test_static_tables_do_not_change() -> None:
    with table("StaticIPLookup", "1.0.0.0/8 0") as router, pytest.raises(HandlerError):
        router.write("r.add", "2.0.0.0/8 1")


def test_next_hops_come_and_go_in_bounded_memory() -> None:
    with table("RadixIPLookup", "1.0.0.0/8 0") as router:
        for i in range(200):
            router.write("r.set", f"2.0.0.0/8 9.9.9.{i} 1")
        assert lookups(router, "1.0.0.1", "2.0.0.1") == ["0", "1 9.9.9.199"]
        with pytest.raises(HandlerError, match="room for 64 next hops"):
            for i in range(64):
                router.write("r.add", f"3.0.{i}.0/24 9.9.8.{i} 1")
        assert lookups(router, "1.0.0.1", "2.0.0.1", "3.0.9.1") == ["0", "1 9.9.9.199", "1 9.9.8.9"]


def test_a_full_list_says_so() -> None:
    with table("LinearIPLookup", "") as router, pytest.raises(HandlerError, match="room for 64 routes"):
        for i in range(65):
            router.write("r.add", f"3.0.{i}.0/24 1")


def slow(routes: dict[tuple[int, int], int], address: int) -> int:
    """The longest prefix, by trying each."""
    for length in range(32, -1, -1):
        found = routes.get((length, address >> (32 - length)))
        if found is not None:
            return found
    return -1


@pytest.mark.parametrize("element", ALL)
def test_random_tables_and_changes(element: str) -> None:
    chance = random.Random(6)
    routes: dict[tuple[int, int], int] = {}
    words = []

    def fresh() -> tuple[int, int, str]:
        length = chance.choice((0, 1, 7, 8, 9, 16, 17, 18, 19, 23, 24, 25, 26, 31, 32))
        bits = chance.getrandbits(32) & 0x03030303 | 0x0A000000
        prefix = bits >> (32 - length) if length else 0
        return length, prefix, f"{socket.inet_ntoa(bits.to_bytes(4, 'big'))}/{length}"

    for _ in range(60):
        length, prefix, word = fresh()
        if (length, prefix) not in routes:
            routes[length, prefix] = chance.randrange(4)
            words.append(f"{word} {routes[length, prefix]}")
    with table(element, ", ".join(words), 4) as router:
        for round_ in range(4):
            addresses = [(chance.getrandbits(32) & 0x03030303 | 0x0A000000) for _ in range(100)]
            names = [socket.inet_ntoa(a.to_bytes(4, "big")) for a in addresses]
            want = [slow(routes, a) for a in addresses]
            assert [int(x) for x in lookups(router, *names)] == want
            got = routed(router, sorted(set(names)), 4)
            assert [got.get(n, (-1, ""))[0] for n in names] == want
            if element == "StaticIPLookup":
                break
            for _ in range(10 + round_):
                length, prefix, word = fresh()
                if (length, prefix) in routes:
                    del routes[length, prefix]
                    router.write("r.remove", word)
                else:
                    routes[length, prefix] = chance.randrange(4)
                    router.write("r.add", f"{word} {routes[length, prefix]}")


def by_length(keys: Any, lengths: Any, ports: Any, addresses: Any) -> Any:
    """The reference for big tables: each length on its own, from the shortest to the longest."""
    found = np.full(len(addresses), -1)
    for length in range(33):
        shift = np.uint64(32 - length)
        chosen = lengths == length
        prefixes, order = np.unique(keys[chosen] >> shift, return_index=True)
        if len(prefixes):
            place = np.minimum(np.searchsorted(prefixes, addresses >> shift), len(prefixes) - 1)
            hit = prefixes[place] == addresses >> shift
            found[hit] = ports[chosen][order][place][hit]
    return found


@pytest.mark.skipif(not ROUTES.exists(), reason="the shared route table is not there")
def test_Eo15_a_whole_internet_table() -> None:
    with gzip.open(ROUTES, "rt") as file:
        words = "".join(line for line in file if not line.startswith(";")).replace("/", " ").split()
    keys = np.frombuffer(b"".join(map(socket.inet_aton, words[::3])), ">u4").astype(np.uint64)
    lengths, ports = np.array(words[1::3], np.uint64), np.array(words[2::3], np.uint64) % np.uint64(3)
    text = ", ".join(map("{}/{} {}".format, words[::3], words[1::3], ports.tolist()))
    chance = np.random.default_rng(7)
    near = keys[chance.integers(0, len(keys), 5000)] | chance.integers(0, 256, 5000, np.uint64)
    addresses = np.concatenate([near, chance.integers(0, 1 << 32, 5000, np.uint64)])
    names = [socket.inet_ntoa(a.to_bytes(4, "big")) for a in addresses.tolist()]
    want = by_length(keys, lengths, ports, addresses).tolist()
    with table("RadixIPLookup", text, 3) as router:
        assert [int(x) for x in lookups(router, *names)] == want
        got = routed(router, names[4000:6000], 3)
        assert [got.get(n, (-1, ""))[0] for n in names[4000:6000]] == want[4000:6000]
        router.write("r.set", f"{names[0]}/32 9.9.9.9 2")
        assert lookups(router, names[0]) == ["2 9.9.9.9"]


def test_lookup_of_nonsense_is_refused() -> None:
    with table("RadixIPLookup", "1.0.0.0/8 0") as router:
        for bad in ("", "1.2.3", "x"):
            with pytest.raises(HandlerError):
                router.read("r.lookup", bad)


def test_static_table_of_any_size(vectors: Any) -> None:
    for count in (1, 16, 17, 40):
        routes = ", ".join(f"10.0.{i}.0/24 10.9.9.{i} {i % 2}" for i in range(count))
        packets = [ip(dst=f"10.0.{i}.7") for i in range(count + 1)]
        want = {"out0": packets[0:count:2], "out1": packets[1:count:2]}
        vectors(text_of("StaticIPLookup", routes), {"in0": packets}, want, drops={("r", "no route"): 1})
        with table("StaticIPLookup", routes) as router:
            assert lookups(router, "10.0.0.9", "10.1.0.0") == ["0 10.9.9.0", "-1"]
            assert router.read("r.table").count("\n") == count
