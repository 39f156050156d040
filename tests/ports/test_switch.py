"""Switches: learning, flooding, full receivers, and other processes that are killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.ports._members import Members
from mezzo.ports._shared import Layout
from mezzo.ports.switch import PLACES, TABLE
from mezzo.runtime import Router
from mezzo.runtime.device import connect
from tests.ports.test_pipe import checks, child, count, name, run_until, target

__all__ = ["child", "name", "target"]  # fixtures

A, B, C = (bytes([2, 0, 0, 0, 0, k]) for k in (1, 2, 3))
EVERYBODY, GROUP = b"\xff" * 6, bytes.fromhex("01005e000005")


def frame(to: bytes, source: bytes, mark: int = 0, length: int = 60) -> bytes:
    return (to + source + b"\x08\x00" + mark.to_bytes(4, "big") + bytes(length))[:length]


class Hosts:
    """Ports of one switch, in one process; `all` waits until nothing more comes."""

    def __init__(self, switch: str, names: str, **options) -> None:
        self.ports = {n: connect("switch", f"{switch}:{n}", **options) for n in names}

    def __getitem__(self, name: str):
        return self.ports[name]

    def send(self, name: str, *packets: bytes) -> dict[str, list[bytes]]:
        """What everybody gets of packets that one sends."""
        assert self.ports[name].send(packets) == len(packets)
        return {n: got for n, port in self.ports.items() if (got := port.receive())}

    def close(self, *names: str) -> None:
        for n in names or [*self.ports]:
            self.ports.pop(n).close()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@pytest.mark.slow
def test_do06_what_is_unknown_is_flooded_and_answers_are_learnt(name, target):
    with Hosts(name, "abc", target=target) as hosts:
        first, answer = frame(B, A, 1), frame(A, B, 2)
        assert hosts.send("a", first) == {"b": [first], "c": [first]}
        assert hosts.send("b", answer) == {"a": [answer]}
        assert hosts.send("a", first) == {"b": [first]}
        moved, late = frame(A, B, 3), frame(B, A, 4)
        assert hosts.send("c", moved) == {"a": [moved]}
        assert hosts.send("a", late) == {"c": [late]}
        assert hosts["a"].router.read("to.table") == "02:00:00:00:00:01 0\n02:00:00:00:00:02 2\n"


def test_groups_are_flooded_and_never_learnt_and_nothing_comes_back(name, target):
    with Hosts(name, "abc", target=target) as hosts:
        for to in (EVERYBODY, GROUP):
            assert hosts.send("a", frame(to, A)) == {n: [frame(to, A)] for n in "bc"}
        assert hosts.send("b", frame(EVERYBODY, GROUP)) == {n: [frame(EVERYBODY, GROUP)] for n in "ac"}
        assert hosts.send("c", frame(GROUP, C)) == {n: [frame(GROUP, C)] for n in "ab"}
        assert hosts.send("a", frame(A, A)) == {}
        assert hosts["a"].router.read("to.home") == "1"


def test_do07_tags_pass_and_short_frames_do_not(name, target):
    tagged = B + A + bytes.fromhex("8100 0064 0800") + bytes(46)
    with Hosts(name, "ab", target=target) as hosts:
        assert hosts.send("a", tagged) == {"b": [tagged]}
        assert hosts.send("a", frame(B, A, length=13), frame(B, A, length=14)) == {"b": [frame(B, A, length=14)]}
        assert hosts["a"].router.read("to.short") == "1"


def test_lengths_and_order_are_kept(name, target):
    with Hosts(name, "ab", target=target) as hosts:
        sent = [frame(B, A, k, 14 + 13 * k) for k in range(130)]
        assert hosts.send("a", *sent)["b"] == [p for p in sent if len(p)]


@pytest.mark.slow
def test_a_full_receiver_loses_its_copy_and_nobody_waits(name, target):
    with Hosts(name, "abc", target=target, ring=16) as hosts:
        sent = [frame(B, A, k) for k in range(40)]
        assert hosts["a"].send(sent[:20]) == 20
        assert hosts["c"].receive() == sent[:15]
        assert hosts["a"].send(sent[20:]) == 20
        assert hosts["b"].receive() == sent[:15]
        assert hosts["c"].receive() == sent[20:35]
        assert hosts["a"].router.read("to.full") == str(10 + 25)
        assert hosts["b"].facts()["dropped because this port was full"] == 25
        assert hosts["c"].router.read("from.kernel_drops") == "10"
        assert all(port.router.conservation().balanced for port in hosts.ports.values())


@pytest.mark.slow
def test_what_was_learnt_of_a_port_goes_with_it(name, target):
    with Hosts(name, "abc", target=target) as hosts:
        hosts.send("b", frame(EVERYBODY, B))
        assert hosts.send("a", frame(B, A)) == {"b": [frame(B, A)]}
        hosts["a"].send([frame(B, A)])  # nobody takes it
        hosts.close("b")
        assert wait_for(lambda: hosts.send("a", frame(B, A)) == {"c": [frame(B, A)]})
        hosts.ports["d"] = connect("switch", f"{name}:d")
        assert hosts["d"].port.place == 1
        assert hosts["d"].receive() == []
        assert hosts.send("a", frame(B, A)) == {n: [frame(B, A)] for n in "cd"}


def wait_for(true) -> bool:
    """The news of a member come by its thread: some tries later."""
    return any(true() for _ in range(1000))


@pytest.mark.slow
def test_addresses_that_share_an_entry_are_flooded(name):
    """The table holds 1024 addresses, one where several would lie: the others are unknown, and still reached."""
    with Hosts(name, "ab") as hosts:
        many = [bytes([2, 1, k >> 16, k >> 8 & 255, k & 255, 9]) for k in range(4000)]
        for at in range(0, len(many), 100):
            hosts.send("b", *(frame(EVERYBODY, address) for address in many[at : at + 100]))
        assert 900 < len(hosts["a"].port.table()) <= 1024
        for at in range(0, len(many), 100):
            sent = [frame(address, A) for address in many[at : at + 100]]
            assert hosts.send("a", *sent) == {"b": sent}


@pytest.mark.slow
def test_between_two_threads(name):
    text = f"""
        Numbered(FLOW 1, TO 2, LIMIT 200000) -> a :: ToDevice({name}:a, METHOD SWITCH);
        ra :: FromDevice({name}:a, METHOD SWITCH) -> o :: InOrder -> Discard;
        Numbered(FLOW 2, TO 1, LIMIT 200000) -> b :: ToDevice({name}:b, METHOD SWITCH);
        rb :: FromDevice({name}:b, METHOD SWITCH) -> p :: InOrder -> Discard;
    """
    with Router.from_click(text, threads=2) as router:
        lost = lambda: count(router, "a") - count(router, "p") + count(router, "b") - count(router, "o")  # noqa: E731
        full = lambda: int(router.read("ra.kernel_drops")) + int(router.read("rb.kernel_drops"))  # noqa: E731
        run_until(router, lambda: count(router, "a") + count(router, "b") == 400_000 and lost() == full())
        assert checks(router)["broken"] + checks(router)["again"] + checks(router, "p")["again"] == 0
        assert int(router.read("o.missed")) + int(router.read("p.missed")) <= full()
        assert router.conservation().balanced
        assert router.drops() == {}


# -- what is refused


@pytest.mark.slow
def test_names_in_use_too_many_ports_and_nonsense_are_refused(name):
    with Hosts(name, "a", ring=64):
        with pytest.raises(MezzoError, match=rf"port `{name}:a` is in use by process {os.getpid()}"):
            connect("switch", f"{name}:a")
        with pytest.raises(MezzoError, match="64 slots, not 128"):
            connect("switch", f"{name}:b", ring=128)
        with pytest.raises(MezzoError, match="names no port"):
            connect("switch", name)
        with pytest.raises(MezzoError, match="no name for a switch"):
            connect("switch", "a b:c")
        assert connect("switch", f"{name}:b").close() is None


@pytest.mark.slow
def test_a_switch_with_all_its_ports_taken_says_so(name):
    layout, members = Layout(PLACES, 16, 2048, TABLE), []
    for k in range(PLACES):
        members.append(Members("switch", name, PLACES, f"p{k}"))
        make, any_will_do = lambda: (layout.facts(), layout.size, PLACES), lambda facts: None
        members[k].join(range(PLACES), make, any_will_do, lambda memory, place: 1)
    assert [m.place for m in members] == [*range(PLACES)]
    with pytest.raises(MezzoError, match=f"all {PLACES} ports of switch `{name}` are in use"):
        connect("switch", f"{name}:more")
    for member in members:
        member.close()
        member.free()


# -- other processes


@pytest.mark.slow
def test_killed_ports_are_noticed_and_replaced(name, child):
    text = f"""
        Numbered(FLOW 1, TO 2) -> to :: ToDevice({name}:me, METHOD SWITCH);
        f :: FromDevice({name}:me, METHOD SWITCH) -> o :: InOrder -> Discard;
    """
    with Router.from_click(text, frames=2048) as router:
        for _ in range(2):
            sender, reader = (
                child("send", "SWITCH", f"{name}:sender", "FLOW 2, TO 1"),
                child("receive", "SWITCH", f"{name}:reader"),
            )
            sender.ready(), reader.ready()
            before = count(router, "o")
            run_until(router, lambda before=before: count(router, "o") > before + 5_000)
            sender.kill()
            reader.kill()
            run_until(router, lambda: "none" in router.read("to.port"))
        found = checks(router)
        assert (found["again"], found["broken"]) == (0, 0)
        assert int(router.read("o.restarts")) >= 1
        assert router.conservation().balanced
        assert router.drops() == {}
        last = child("receive", "SWITCH", f"{name}:reader").ready()
        run_until(router, lambda: last.ask()[0] > 0)
        assert last.ask()[2:] == [0, 0]


@pytest.mark.slow
def test_nothing_is_left_behind(name):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with Hosts(name, "abc") as hosts:
            assert hosts.send("a", frame(B, A)) == {n: [frame(B, A)] for n in "bc"}
    assert len(os.listdir("/proc/self/fd")) == before
    assert name not in Path("/proc/net/unix").read_text()
