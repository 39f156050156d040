"""A router as the cable or the switch between two hosts whose offloads are as they come (Do09, Jo01, Jo06)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mezzo.runtime import Router
from tests.ports.netlab import End, Pair, inside, ip, raw_socket, run_in
from tests.ports.xdplab import frame

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
HERE, THERE = "10.9.0.1", "10.9.0.2"
SWITCH = """
    FromDevice({a}, PROMISC true) -> [0] s :: EtherSwitch; s[0] -> Queue -> ToDevice({a});
    FromDevice({b}, PROMISC true) -> [1] s; s[1] -> Queue -> ToDevice({b});
"""


@pytest.mark.parametrize("method", ["PACKET", "XDP"])
def test_Do09_a_cable_says_whether_it_hears_frames_for_others(wires: tuple[Pair, Pair], method: str) -> None:
    one, two = wires
    given = {"": "no; frames to other addresses may be missing (PROMISC true)", ", PROMISC true": "yes"}
    for promisc, says in given.items():
        text = "".join(
            f"f{k} :: FromDevice({x}, METHOD {method}{promisc}) -> Queue -> t{k} :: ToDevice({y}, METHOD {method});"
            for k, (x, y) in enumerate([(one.a.name, two.a.name), (two.a.name, one.a.name)])
        )
        with inside(one.a.ns), Router.from_click(text, frames=4096) as made:
            assert [f"promiscuous\t{says}\n" in made.read(f"f{k}.port") for k in (0, 1)] == [True, True]
            link = ip("-d", "link", "show", one.a.name)
            assert f"promiscuity {int(bool(promisc))}" in link
            with raw_socket(one.b) as left, raw_socket(two.b) as right:
                to_right, to_left = two.b.mac_bytes + frame(1)[6:], one.b.mac_bytes + frame(2)[6:]
                left.send(to_right)
                right.send(to_left)
                made.run(seconds=5, until=lambda made=made: made.read("t0.count") == made.read("t1.count") == "1")
                assert (left.recv(2000), right.recv(2000)) == (to_left, to_right)


@contextmanager
def switched(wires: tuple[Pair, Pair]) -> Iterator[tuple[End, End]]:
    """Two hosts at a switch that runs, whose methods are the ones that it finds."""
    one, two = wires
    for end, address in ((one.b, HERE), (two.b, THERE)):
        ip("address", "add", f"{address}/24", "dev", end.name, ns=end.ns)
    with inside(one.a.ns), Router.from_click(SWITCH.format(a=one.a.name, b=two.a.name), frames=16384) as made:
        thread = threading.Thread(target=made.run)
        thread.start()
        try:
            yield one.b, two.b
        finally:
            made.please_stop()
            thread.join(10)
            assert not thread.is_alive()


def test_Jo01_tcp_across_a_switch_is_fast_without_ethtool(wires: tuple[Pair, Pair]) -> None:
    """20 MB at more than 100 Mb/s, everything as it comes."""
    size = 20 << 20
    with switched(wires) as (here, there):
        with inside(there.ns):
            server = socket.create_server((THERE, 5001))
        with inside(here.ns):
            client = socket.socket()
        got: list[int] = []
        taker = threading.Thread(target=lambda: got.append(taken(server)))
        taker.start()
        with server, client:
            client.settimeout(20)
            start = time.monotonic()
            client.connect((THERE, 5001))
            client.sendall(bytes(size))
            client.shutdown(socket.SHUT_WR)
            taker.join(20)
            speed = 8 * size / (time.monotonic() - start)
    assert got == [size]
    assert speed > 100e6, f"{speed / 1e6:.0f} Mb/s"


def taken(server: socket.socket) -> int:
    connection, _ = server.accept()
    with connection:
        return sum(iter(lambda: len(connection.recv(1 << 16)), 0))


@pytest.mark.parametrize("hosts", ["on", "off"])
@pytest.mark.parametrize("bridge", ["on", "off"])
def test_Jo06_questions_are_answered_whatever_the_offloads(wires: tuple[Pair, Pair], hosts: str, bridge: str) -> None:
    """The kernel at each host drops a datagram whose checksum is wrong, so an answer proves both."""
    with switched(wires) as (here, there):
        for ends, value in (((here, there), hosts), ([w.a for w in wires], bridge)):
            for end in ends:
                run_in(end.ns, ["ethtool", "-K", end.name, "tx", value])
        with inside(there.ns):
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            server.bind((THERE, 53))
        with inside(here.ns):
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with server, client:
            server.settimeout(5)
            client.settimeout(5)
            for size in (20, 1400, 4000):  # the last one is of fragments
                client.sendto(bytes(size), (THERE, 53))
                question, who = server.recvfrom(8000)
                server.sendto(question[::-1], who)
                assert len(client.recv(8000)) == size
