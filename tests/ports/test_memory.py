"""The memory driver, and with it what all drivers share: slots become packets, and packets slots, on both targets."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Counter, Discard, FromDevice, PollDevice, Queue, ToDevice
from mezzo.ports import MemoryPort
from mezzo.runtime import Router

TO_US = bytes.fromhex("020000000001 020000000002 0800".replace(" ", ""))
TARGETS = ("python", "native")


def frame(k: int, length: int = 60) -> bytes:
    return (TO_US + k.to_bytes(4, "big") + bytes(length))[:length]


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


def bridge(port, target, **options):
    graph = FromDevice(port, **options) >> Counter(name="c") >> Queue(100, name="q") >> ToDevice(port, name="to")
    return Router.from_elements(graph, target=target)


def test_what_is_given_goes_through_the_graph_and_is_taken(target):
    port = MemoryPort()
    with bridge(port, target) as router:
        packets = [frame(k, 60 + k) for k in range(10)]
        assert port.give(packets) == 10
        assert router.run() == "done"
        assert (router.read("FromDevice@1.count"), router.read("to.count")) == ("10", "10")
        assert router.read("to.packets_in_flight") == "10"
        assert router.read("to.bytes_in_flight") == str(sum(map(len, packets)))
        assert port.take() == packets
        assert router.read("to.packets_in_flight") == "0"


def test_io05_what_is_no_packet_is_counted_by_reason_and_never_delivered(target):
    port = MemoryPort()
    with bridge(port, target) as router:
        port.give([b"", b"x" * 13, frame(1), b""])
        slot = port.receive.slot(2)
        router.run()
        assert router.read("c.count") == "1"
        assert router.read("FromDevice@1.refused") == "empty\t2\nrunt\t1\n"
        port.give([frame(2)])
        at = port.receive.head
        port.receive.put(at, type(slot)(port.receive.slot(at).frame, 2000, start=100))
        router.run()
        assert "not in its frame\t1" in router.read("FromDevice@1.refused")
        assert router.conservation().balanced


def test_a_full_queue_leaves_packets_in_the_ring_and_a_full_ring_stops_the_queue(target):
    port = MemoryPort(slots=64)
    with bridge(port, target) as router:
        given = sum(port.give([frame(k)]) for k in range(63))
        router.run()
        assert (given, router.read("q.length")) == (63, "0")
        assert port.give([frame(k) for k in range(63, 200)]) == 63
        router.run()
        assert (router.read("to.packets_in_flight"), router.read("q.length")) == ("63", "63")
        port.give([frame(k) for k in range(126, 200)])
        router.run()
        assert (router.read("q.length"), router.read("q.drops"), port.receive.space) == ("100", "0", 26)
        taken = []
        while got := port.take():
            taken += got
            router.run()
        assert taken == [frame(k) for k in range(189)]


def test_ring_rules_hold_under_random_bursts(target):
    import random

    chance, port = random.Random(2), MemoryPort(slots=16)
    with bridge(port, target, burst=5) as router:
        sent, got = 0, []
        for _ in range(300 if target == "python" else 2000):
            sent += port.give([frame(sent + k) for k in range(chance.randint(0, 12))])
            router.run(rounds=chance.randint(1, 4))
            port.receive.check()
            port.transmit.check()
            got += port.take(chance.randint(0, 8))
        router.run()
        while more := port.take():
            got += more
            router.run()
        assert got == [frame(k) for k in range(sent)]


def test_loopback_keeps_order_and_frames(target):
    text = (
        "InfiniteSource(LIMIT 2000) -> to :: ToDevice(lo, METHOD MEMORY, LOOPBACK true, RING 32);"
        "FromDevice(lo, METHOD MEMORY) -> c :: Counter -> Discard;"
    )
    with Router.from_click(text, target=target) as router:
        assert router.run() == "done"
        assert router.read("c.count") == "2000"


def test_packet_types_are_by_address(target):
    port = MemoryPort()
    port.mac = lambda: 0x020000000001
    seen: list[int] = []

    def look(element, number, packet):
        if element.name == "d":
            seen.append(packet.packet_type)

    graph = FromDevice(port) >> Discard(name="d")
    with Router.from_elements(graph, target=target, trace=look) as router:
        rest = bytes(54)
        others = [b"\xff" * 6, b"\x01\x00\x5e\x00\x00\x01", b"\x02\x00\x00\x00\x00\x09"]
        port.give([frame(0), *(address + rest for address in others)])
        router.run()
    assert seen == [0, 1, 2, 3]


def test_force_ip_and_snaplen(target):
    port = MemoryPort()
    ip = TO_US + bytes.fromhex("4500001c000000004011") + bytes(40)
    text = FromDevice(port, force_ip=True, snaplen=40)
    good, bad = Counter(name="good"), Counter(name="bad")
    _ = text >> good >> Discard(), text[1] >> bad >> Discard()
    with Router.from_elements(text, target=target) as router:
        port.give([ip, TO_US[:12] + b"\x08\x06" + bytes(46)])
        router.run()
        assert (router.read("good.count"), router.read("bad.count"), router.read("good.byte_count")) == ("1", "1", "40")


def test_copies_of_what_was_sent_and_what_cannot_be_sent_leave_by_the_outputs(target):
    text = (
        "src :: FromDevice(in, METHOD MEMORY) -> Queue -> to :: ToDevice(out, METHOD MEMORY);"
        "to[0] -> sent :: Counter -> Discard; to[1] -> bad :: Counter -> Discard;"
    )
    with Router.from_click(text, target=target) as router:
        router.elements["to"].longest = 100
        router.ports["in"].give([frame(1, 100), frame(2, 101)])
        router.run()
        assert (router.read("sent.count"), router.read("bad.count"), router.read("to.refused")) == ("1", "1", "1")
        assert router.ports["out"].take() == [frame(1, 100)]


def test_polling_never_sleeps(target):
    port = MemoryPort()
    with Router.from_elements(PollDevice(port) >> Discard(name="d"), target=target) as router:
        assert router.run(rounds=50) == "rounds"
        port.give([frame(1)])
        assert router.run(rounds=50) == "rounds"
        assert router.read("d.count") == "1"


def test_a_packet_without_a_free_frame_is_not_given():
    port = MemoryPort()
    with Router.from_elements(FromDevice(port) >> Discard(), frames=4) as router:
        assert port.give([frame(k) for k in range(10)]) == 4
        router.run()
        assert port.give([frame(k) for k in range(10)]) == 4


def test_a_port_that_is_not_open_says_so():
    with pytest.raises(MezzoError, match="not open"):
        MemoryPort("m").give([b"x"])


def test_counts_start_again_and_handlers_tell():
    port = MemoryPort("here")
    with bridge(port, "native") as router:
        port.give([frame(1)])
        router.run()
        router.write("to.reset_counts")
        assert router.read("to.count") == "0"
        assert "method\tmemory\n" in router.read("to.port")
        assert router.read("FromDevice@1.kernel_drops") == "??"
        assert router.read("FromDevice@1.encap") == "ETHER"
        assert router.ports["here"] is port
        with pytest.raises(MezzoError, match="there is no port `there`"):
            router.ports["there"]


def test_headroom_is_made_where_the_driver_leaves_less(target):
    port, seen = MemoryPort(), []
    graph = FromDevice(port, headroom=500) >> Discard(name="d")
    look = lambda e, n, p: seen.append((p.headroom, bytes(p))) if e.name == "d" else None  # noqa: E731
    with Router.from_elements(graph, target=target, trace=look) as router:
        port.give([frame(1), frame(2, 1700)])
        router.run()
    assert [data for _, data in seen] == [frame(1), frame(2, 1700)]
    assert seen[0][0] == 500 and seen[1][0] < 500


def test_debug_tells_that_there_is_no_room(target, capsys):
    text = "InfiniteSource(LIMIT 100) -> Queue -> ToDevice(m, METHOD MEMORY, RING 8, DEBUG true);"
    with Router.from_click(text, target=target) as router:
        router.run()
    assert "`m` has no room" in capsys.readouterr().err


def test_a_port_can_be_used_again_by_another_router(target):
    port = MemoryPort("m")
    for k in range(2):
        with bridge(port, target) as router:
            port.give([frame(k)])
            router.run()
            assert port.take() == [frame(k)]
