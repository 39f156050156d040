"""Looking into a router that runs: traces, taps and the profile by their handlers, and that nothing stays of it."""

from __future__ import annotations

import ctypes
import json
import time

import pytest

from mezzo.base import MezzoError
from mezzo.packet.arena import META, META_SIZE
from mezzo.runtime import Router
from mezzo.runtime.eye import eye_of
from mezzo.runtime.filters import compile_filter, network_offset
from mezzo.runtime.handlers import HandlerError
from mezzo.runtime.profile import Profile
from mezzo.runtime.taps import Tap, edges_of
from mezzo.targets.native.watched import Sight
from tests.runtime.controlled import running

IP = "UDPIPEncap(10.0.0.1, {}, 10.9.9.9, 80)"
TEXT = f"""
a :: RatedSource(RATE 3000, DATA \\<00>) -> ea :: {IP.format(53)} -> [0]m :: Null;
b :: RatedSource(RATE 2000, DATA \\<00>) -> eb :: {IP.format(54)} -> [0]m;
m -> t :: DecIPTTL -> q :: Queue(100) -> u :: Unqueue -> c :: Counter -> d :: Discard;
"""
OUTCOMES = ("ended", "failed")


def look(router, kind, **asked):
    router.write("look", json.dumps({"id": "x", "kind": kind, **asked}))


def news(router, enough, seconds=20.0):
    """Everything a session gave until `enough` of it or its end; the last answer."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        new = json.loads(router.read("look", "x"))
        found += new.get("paths", new.get("packets", []))
        if enough(found) or new["state"].startswith(OUTCOMES):
            return found, new
        time.sleep(0.02)
    raise AssertionError(f"nothing came: {found}")


def tags(router):
    arena = router.arena
    start = arena.meta_offset + META["live"][0]
    return set(arena.mem[start : arena.meta_offset + META_SIZE * arena.frames : META_SIZE])


def has_no_sights(router):
    return router.eye is None or not router.eye.lenses


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_trace_follows_packets_and_goes(threads):
    with running(TEXT, threads=threads) as router:
        look(router, "trace", count=3, filter="src port 54")
        paths, new = news(router, lambda found: False)
        before = int(router.read("c.count"))
        assert new["state"] == "ended" and len(paths) == 3 and has_no_sights(router)
        assert router.at_rest(lambda: tags(router)) <= {0, 1, 2}
        assert router.conservation().balanced
        for engine in getattr(router.engine, "engines", [router.engine]):
            run, own = engine._doors.get((0, "run")), engine.code.function_door(0, "run")
            assert run is None or ctypes.cast(run, ctypes.c_void_p).value == own, "it runs its own code again"
        while int(router.read("c.count")) == before:
            time.sleep(0.01)
    whole = ["m", "t", "q", "u", "c", "d"]  # two push into m
    for path in paths:
        names = [s["element"] for s in path["steps"]]
        assert names == whole[-len(names) :] and path["end"] == "ended in d"  # the first may be on its way already
        times = [s["time_ns"] for s in path["steps"]]
        assert times == sorted(times) and abs(times[0] / 1e9 - time.time()) < 60
    assert names == whole and "ip.ttl 250 → 249" in paths[-1]["steps"][1]["changed"]
    assert bytes.fromhex(paths[-1]["steps"][2]["data"])[8] == 249


@pytest.mark.slow
def test_a_drop_is_told_with_its_reason():
    text = f"RatedSource(RATE 1000) -> {IP.format(5)} -> f :: IPFilter(deny all) -> Discard;"
    with running(text) as router:
        look(router, "trace", count=1, filter="udp")
        paths, _ = news(router, lambda found: found)
    assert paths[0]["end"] == "died in f: denied"


@pytest.mark.slow
def test_drops_of_others_are_not_blamed():
    with running(f"{TEXT} RatedSource(RATE 20000) -> full :: SimpleQueue(1) -> Idle;") as router:
        look(router, "trace", count=10, filter="src port 53 or src port 54")
        paths, _ = news(router, lambda found: False)
        assert sum(router.drops().values()) > 100
    assert {path["end"] for path in paths} == {"ended in d"}


@pytest.mark.slow
def test_a_tap_of_each_kind_of_connection():
    wanted = {"ea->m": {53}, "eb->m": {54}, "*->m": {53, 54}, "q->u": {53, 54}, "t -> [0] q": {53, 54}}
    with running(TEXT) as router:
        for edge, ports in wanted.items():
            look(router, "tap", edge=edge)
            packets, new = news(router, lambda found: len(found) >= 40)
            router.write("unlook", "x")
            found = {int.from_bytes(bytes.fromhex(data)[20:22], "big") for _, _, _, data in packets}
            assert found == ports and new["lost"] == 0, edge
            assert [at for at, *_ in packets] == sorted(at for at, *_ in packets)
            numbers = {(number, bytes.fromhex(data)[21]) for _, number, _, data in packets}
            if edge == "*->m":
                assert numbers == {(new["edges"].index(f"{e} [0] -> [0] m"), p) for e, p in (("ea", 53), ("eb", 54))}


@pytest.mark.slow
def test_a_tap_filters_and_cuts():
    with running(TEXT) as router:
        look(router, "tap", edge="c->d", filter="src port 54", snaplen=24)
        packets, _ = news(router, lambda found: len(found) >= 5)
    assert all(length == 29 and len(data) == 48 and data[40:44] == "0036" for _, _, length, data in packets)


@pytest.mark.slow
def test_what_comes_too_fast_is_counted():
    with running("InfiniteSource -> c :: Counter -> d :: Discard;") as router:
        tap = Tap(router, "c->d", snaplen=8)
        eye_of(router).add(tap)
        while not tap.lost:
            tap.read()
        eye_of(router).remove(tap)
        assert has_no_sights(router) and tap.read() == []


@pytest.mark.slow
def test_the_profile_finds_who_takes_the_time():
    text = f"InfiniteSource(BURST 8) -> n :: Null -> {IP.format(5)} -> s :: SetIPChecksum -> d :: Discard;"
    with running(text) as router:
        look(router, "profile")
        end = time.monotonic() + 30
        while time.monotonic() < end and json.loads(router.read("look", "x")).get("slices", 0) < 2:
            time.sleep(0.05)
        rows = {row["element"]: row for row in json.loads(router.read("look", "x"))["elements"]}
        assert router.read("element_cycles.csv").startswith("name,class,share,ns_per_packet\n")
        assert 'mezzo_element_time_ratio{element="s"' in router.read("metrics")
        router.write("unlook", "x")
        while not has_no_sights(router):
            time.sleep(0.01)
    assert abs(sum(row["share"] for row in rows.values()) - 1) < 0.01
    assert {"n", "s", "d"} <= set(rows) and 0 < rows["s"]["ns"] < 100_000


class Accounts:
    """As much of a router as accounting needs."""

    def __init__(self, text):
        self.router = Router.from_click(text)
        self.profile = Profile(self.router)
        self.profile.graph, self.profile.elements = self.router.graph, self.router.elements
        self.profile.names = [linked.name for linked in self.router.plan.program.instances]

    def sight(self, ticks, what):
        """`>x`: into x; `x>`: out of it by a pull; `/x`: its push ends."""
        index = self.router.elements[what.strip(">/")].index
        return Sight(ticks, index, 0, what.endswith(">"), what.startswith("/"), 0, 0, 0, b"")

    def spent(self, *rows):
        self.profile.account([self.sight(*row) for row in rows], 1.0)
        self.router.close()
        return {name: spent.ns for name, spent in self.profile.spent.items() if spent.ns}


def test_time_belongs_to_the_element_whose_turn_it_is():
    accounts = Accounts("s :: InfiniteSource -> a :: Null -> b :: Null -> d :: Discard;")
    rows = [(0, ">a"), (1, ">b"), (11, ">d"), (111, "/d"), (1111, "/b"), (3111, "/a"), (8111, ">a")]
    assert accounts.spent(*rows) == {"a": 2001, "b": 1010, "d": 100, "s": 5000}


def test_pulls_belong_to_the_element_pulled_from_then_to_the_puller():
    accounts = Accounts("InfiniteSource -> q :: Queue -> u :: Unqueue -> d :: Discard;")
    rows = [(0, ">d"), (10, "/d"), (30, "q>"), (70, ">d"), (150, "/d")]
    assert accounts.spent(*rows) == {"d": 90, "q": 20, "u": 40}


def test_sleep_is_no_work():
    accounts = Accounts("s :: InfiniteSource -> d :: Discard;")
    assert accounts.spent((0, ">d"), (5, "/d"), (10**9, ">d")) == {"d": 5}


@pytest.mark.slow
def test_a_client_that_is_gone_leaves_nothing(monkeypatch):
    monkeypatch.setattr("mezzo.runtime.seeing.LEASE_S", 0.3)
    with running(TEXT) as router:
        look(router, "tap", edge="c->d")
        end = time.monotonic() + 20
        while time.monotonic() < end and router.eye.sessions["x"].state != "ended":
            time.sleep(0.02)
        assert router.eye.sessions["x"].state == "ended" and has_no_sights(router)


@pytest.mark.slow
def test_a_router_may_end_while_somebody_looks():
    with Router.from_click("InfiniteSource(LIMIT 100000) -> c :: Counter -> d :: Discard;") as router:
        look(router, "tap", edge="c->d")
        look_end = time.monotonic() + 20
        while json.loads(router.read("look", "x"))["state"] == "starting" and time.monotonic() < look_end:
            time.sleep(0.02)
        assert router.run() == "done"
        packets, _ = news(router, lambda found: found)
        assert len(packets) == 4096


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(4))
def test_a_router_may_be_closed_while_everybody_looks(turn):
    with running(TEXT) as router:
        for word, kind, asked in (("t", "trace", {"count": 50}), ("p", "profile", {}), ("w", "tap", {"edge": "c->d"})):
            router.write("look", json.dumps({"id": word, "kind": kind, **asked}))
        while turn and any(s.state == "starting" for s in router.eye.sessions.values()):
            time.sleep(0.01)
        time.sleep(0.05 * turn)
    assert not any(s.thread.is_alive() for s in router.eye.sessions.values())


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_viewers_see_the_graph_that_took_over(threads):
    with running(TEXT, threads=threads) as router:
        look(router, "tap", edge="c->d")
        news(router, lambda found: len(found) >= 5)
        router.reload(TEXT.replace("t :: DecIPTTL", "t :: DecIPTTL -> n :: Null"))
        json.loads(router.read("look", "x"))
        packets, _ = news(router, lambda found: len(found) >= 20)
        router.write("unlook", "x")
    assert len(packets) >= 20


@pytest.mark.parametrize(
    "asked, message",
    [
        ("nonsense", "expected a JSON object"),
        ("[]", "expected"),
        ('{"id": "a b", "kind": "trace"}', "the word of letters"),
        ('{"id": "x", "kind": "spy"}', "there is no kind `spy`"),
        ('{"id": "x", "kind": "trace", "count": 0}', "0 packets"),
        ('{"id": "x", "kind": "trace", "count": "1"}', "`count` cannot be '1'"),
        ('{"id": "x", "kind": "trace", "edge": "a->b"}', "`edge` is not known here"),
        ('{"id": "x", "kind": "trace", "filter": "udp and ("}', "filter `udp and (`"),
        ('{"id": "x", "kind": "tap", "edge": "a"}', "is no connection"),
        ('{"id": "x", "kind": "tap", "edge": "a->d"}', "there are a [0] -> [0] ea"),
        ('{"id": "x", "kind": "tap", "edge": "zz->d"}', "there is no element `zz`"),
        ('{"id": "x", "kind": "tap", "edge": "c->d", "snaplen": -1}', "`snaplen` cannot be -1"),
    ],
)
def test_what_is_wrong_is_told(asked, message):
    with Router.from_click(TEXT) as router, pytest.raises(HandlerError) as refusal:
        router.write("look", asked)
    assert message in str(refusal.value) and refusal.value.code == 520


def test_other_words_are_refused():
    with Router.from_click(TEXT) as router:
        for job in (lambda: router.read("look", "y"), lambda: router.write("unlook", "y")):
            with pytest.raises(HandlerError, match="nobody looks as `y`"):
                job()
        assert router.read("look") == ""


def test_what_was_started_with_a_trace_is_not_watched_twice():
    with (
        Router.from_click(TEXT, trace=lambda *a: None) as router,
        pytest.raises(HandlerError, match="watched already"),
    ):
        router.write("look", '{"id": "x", "kind": "profile"}')


def test_edges_by_their_ports():
    with Router.from_click("i :: Idle -> t :: Tee; t[0] -> d :: Discard; t[1] -> e :: Discard;") as router:
        assert [str(c) for c in edges_of(router, "t[1]->*")] == ["t [1] -> [0] e"]
        assert len(edges_of(router, "t->")) == 2 and len(edges_of(router, "->[0]d")) == 1
        with pytest.raises(MezzoError, match="no connection `t"):
            edges_of(router, "t[2]->*")


UDP = bytes.fromhex("45000021000000004011000009090909 0a090909 00350050000d0000 0102030405".replace(" ", ""))
ETHER = bytes(12) + b"\x08\x00"


@pytest.mark.parametrize("front", [b"", ETHER, bytes(12) + b"\x81\x00\x00\x05\x08\x00"], ids=["ip", "eth", "vlan"])
def test_filters_ask_as_ip_filter_does(front):
    data = front + UDP
    assert network_offset(data) == len(front)
    for text, answer in (("udp", 1), ("tcp", 0), ("src port 53", 1), ("dst host 10.9.9.9 and not src port 54", 1)):
        assert compile_filter(text)(data) is bool(answer), text
    assert not compile_filter("src port 53")(data[: len(front) + 21])


def test_what_is_no_ip_matches_no_filter_but_the_empty_one():
    assert not compile_filter("udp")(b"\xff" * 60) and not compile_filter("udp")(b"") and compile_filter(" ")(b"")
