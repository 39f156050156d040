"""Metrics: what a scrape holds, by the rules of the text, through a real client."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import urllib.error
import urllib.request

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.metrics import OLD, OPEN, Family, Registry, cpu_ns, exposition
from mezzo.runtime.metrics_server import MOST, MetricsServer, parse_address
from tests.ports.netlab import wait_until
from tests.runtime.controlled import running
from tests.runtime.open_metrics import parse

TEXT = "InfiniteSource(LIMIT 30) -> c :: Counter -> q :: SimpleQueue(10) -> Idle;"


def labelled(**labels):
    return tuple(sorted(labels.items()))


@contextlib.contextmanager
def served(router):
    server = MetricsServer(router, ("127.0.0.1", 0))
    try:
        yield server
    finally:
        server.close()


def scrape(server, accept=OPEN, path="/metrics"):
    request = urllib.request.Request(f"http://{server.where}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_a_scrape_counts_what_happened():
    with Router.from_click(TEXT) as router, served(router) as server:
        router.run()
        kind, text = scrape(server)
        found = parse(text)
    assert kind == OPEN
    c = labelled(element="c", **{"class": "Counter"}, handler="count")
    assert found["mezzo_element_events_total"][c] == 30
    q = {"element": "q", "class": "SimpleQueue"}
    assert found["mezzo_element_drops_packets_total"][labelled(**q, reason="full")] == 20
    assert found["mezzo_queue_length_packets"][labelled(**q)] == 10
    assert found["mezzo_queue_capacity_packets"][labelled(**q)] == 10
    assert found["mezzo_pool_held_frames"][()] == 10 and found["mezzo_pool_frames"][()] == 32768
    assert found["mezzo_thread_rounds_total"][labelled(thread="0")] > 0


def test_a_router_that_runs_on_two_threads_is_scraped_by_several_at_once():
    text = "InfiniteSource -> q :: Queue -> Unqueue -> c :: Counter -> Discard;"
    with running(text, threads=2) as router, served(router) as server:
        wait_until(lambda: int(router.read("c.count")) > 0, 20)
        clients = [http.client.HTTPConnection(*server.address, timeout=20) for _ in range(4)]
        for client in clients:
            client.request("GET", "/metrics", headers={"Accept": OPEN})
        found = [parse(client.getresponse().read().decode()) for client in clients]
        for client in clients:
            client.close()
    c = labelled(element="c", **{"class": "Counter"}, handler="count")
    assert all(one["mezzo_element_events_total"][c] > 0 for one in found)
    assert len(found[0]["mezzo_thread_rounds_total"]) == 2


def test_a_thread_that_is_gone_has_no_time():
    """A counter that fell to nothing would be one that began anew."""
    with Router.from_click(TEXT) as router:
        router.run()
        assert "mezzo_thread_cpu_seconds_total" not in parse(Registry(router).text())
        gone = threading.Thread(target=lambda: None)
        gone.start()
        gone.join()
        wait_until(lambda: not os.path.exists(f"/proc/self/task/{gone.native_id}"))  # Python does not wait for that
        router.runner_tid = gone.native_id
        assert cpu_ns(router, 0) is None
        router.runner_tid = threading.get_native_id()
        assert parse(Registry(router).text())["mezzo_thread_cpu_seconds_total"][labelled(thread="0")] > 0


def test_one_quiescent_point_a_scrape(monkeypatch):
    with Router.from_click(TEXT) as router:
        rests = []
        real = router.at_rest
        monkeypatch.setattr(router, "at_rest", lambda job: (rests.append(1), real(job))[1])
        Registry(router).text()
    assert rests == [1]


def test_who_does_not_ask_for_it_gets_the_older_form():
    with Router.from_click(TEXT) as router, served(router) as server:
        kind, text = scrape(server, "text/plain")
    assert kind == OLD and "# EOF" not in text and "# UNIT" not in text
    assert "# TYPE mezzo_element_events_total counter" in text and "# TYPE mezzo_build_info gauge" in text


def test_strange_names_are_escaped():
    family = Family("x", "gauge", 'help with "quotes" and \\ and\nlines')
    family.add(1, element='a"b\\c\nd', other="\udcff")
    found = parse(exposition([family]))
    assert found["x"] == {labelled(element='a\\"b\\\\c\\nd', other="?"): 1}


PATHS = [("/", 200), ("/metrics?x=1", 200), ("/etc/passwd", 404), ("/metrics/..", 404)]


@pytest.mark.parametrize("path, status", PATHS)
def test_nothing_else_is_served(path, status):
    with Router.from_click(TEXT) as router, served(router) as server:
        try:
            scrape(server, path=path)
            found = 200
        except urllib.error.HTTPError as refusal:
            found = refusal.code
    assert found == status


def test_writing_is_no_method_of_it():
    with Router.from_click(TEXT) as router, served(router) as server:
        client = http.client.HTTPConnection(*server.address, timeout=10)
        client.request("POST", "/metrics", b"x")
        assert client.getresponse().status == 501
        client.close()


def test_silent_clients_keep_nobody_else_waiting():
    with Router.from_click(TEXT) as router, served(router) as server:
        silent = [socket.create_connection(server.address) for _ in range(MOST // 2)]
        assert parse(scrape(server)[1])
        for one in silent:
            one.close()


def test_after_the_end_it_says_so():
    with Router.from_click(TEXT) as router:
        server = MetricsServer(router, ("127.0.0.1", 0))
    with pytest.raises(urllib.error.HTTPError, match="503"):
        scrape(server)
    server.close()


@pytest.mark.parametrize(
    "text, address",
    [("9100", ("127.0.0.1", 9100)), (":0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80)), ("h:1", ("h", 1))],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "x", "1:2:3", "99999", "-1", "[::1]"])
def test_what_is_no_address(text):
    with pytest.raises(MezzoError, match="no address"):
        parse_address(text)


def test_a_port_that_is_taken_is_told():
    with Router.from_click(TEXT) as router, served(router) as server, pytest.raises(MezzoError, match="in use"):
        MetricsServer(router, server.address)
