"""What a router changed comes back, however the router ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.ports import _ethtool, _netdev, privileged
from tests.ports.netlab import Pair, inside, ip, namespace, run_in, wait_until

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

CHANGES = """
import os, sys, time
from mezzo.ports import privileged
device = sys.argv[1]
facts = [
    privileged.ask({"do": "features", "device": device, "at": "here", "off": ["tso", "txvlan"]})[1],
    privileged.ask({"do": "features", "device": device, "at": "peer", "off": ["tx-checksum", "gso"]})[1],
    privileged.ask({"do": "link", "device": device, "mtu": 1400})[1],
]
"""
READY = "print('ready', flush=True)\nsys.stdin.read()\n"


def state(pair: Pair) -> Any:
    """Everything that the script changes, at both ends."""
    found = []
    for end in (pair.a, pair.b):
        with inside(end.ns):
            found.append((_ethtool.wanted(end.name), _netdev.link(end.name).mtu))
    return found


@contextmanager
def router(pair: Pair, script: str = CHANGES + READY, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that has changed things and waits.  Its warden has its stderr, so `communicate` ends after both."""
    with inside(pair.a.ns):
        process = subprocess.Popen(
            [sys.executable, "-c", script, pair.a.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
        )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def processes() -> list[int]:
    """Those that have not ended; who reaps a killed router's warden is not ours."""
    stats = [p.read_text() for p in Path("/proc").glob("[0-9]*/stat") if p.exists()]
    return [int(s.split()[0]) for s in stats if s.rpartition(")")[2].split()[0] not in "ZX"]


def test_kill_9_and_the_offloads_and_the_mtu_come_back(pair):
    before = state(pair)
    with router(pair) as process:
        assert state(pair) != before
        (warden,) = children(process.pid)
        process.kill()
        _, said = process.communicate(timeout=10)
    assert state(pair) == before
    assert said == ""
    wait_until(lambda: warden not in processes())


def test_the_end_of_the_process_is_enough(pair):
    before = state(pair)
    with router(pair) as process:
        assert process.communicate("", timeout=10)[1] == ""
    assert process.returncode == 0 and state(pair) == before


def test_signals_to_the_whole_group_do_not_reach_the_warden(pair):
    before = state(pair)
    with router(pair, start_new_session=True) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)
    assert state(pair) == before


def test_undone_in_time_there_is_nothing_left_for_the_warden(pair):
    before = state(pair)
    undoes = "for f in facts: privileged.undo(f['undo'])\n" + READY
    with router(pair, CHANGES + undoes) as process:
        assert state(pair) == before
        run_in(pair.a.ns, ["ethtool", "-K", pair.a.name, "tso", "off"])
        process.kill()
        process.communicate(timeout=10)
    assert not state(pair)[0][0]["tx-tcp-segmentation"]


@pytest.mark.parametrize("how", ["ends", "is killed"])
@pytest.mark.parametrize("first", [0, 1])
def test_what_two_routers_need_stays_until_the_last_ends(pair, how, first):
    """Whichever goes first: the other one needs the switch still, and takes it back in the end."""
    before = state(pair)
    with router(pair) as one:
        changed = state(pair)
        with router(pair) as other:
            order = [one, other] if first == 0 else [other, one]
            for process, expected in zip(order, (changed, before), strict=True):
                if how == "is killed":
                    process.kill()
                process.communicate(None if how == "is killed" else "", timeout=10)
                assert state(pair) == expected


def test_no_change_no_warden(pair):
    script = (
        CHANGES.split("facts")[0]
        + (
            "privileged.ask({'do': 'promiscuous', 'device': device})\n"
            "privileged.ask({'do': 'features', 'device': device, 'at': 'here', 'off': ['lro']})\n"
        )
        + READY
    )
    with router(pair, script) as process:
        assert children(process.pid) == []


def test_a_forked_child_that_lives_on_does_not_hold_it_up(pair):
    script = CHANGES + "if os.fork() == 0:\n    os.close(1); os.close(2); time.sleep(60)\n" + READY
    before = state(pair)
    with router(pair, script) as process:
        child = next(p for p in children(process.pid) if b"warden" not in Path(f"/proc/{p}/cmdline").read_bytes())
        process.kill()
        process.communicate(timeout=10)
        os.kill(child, signal.SIGKILL)
    assert state(pair) == before


def test_a_warden_that_was_killed_has_a_successor(pair):
    before = state(pair)
    one_more = "privileged.ask({'do': 'features', 'device': device, 'at': 'here', 'off': ['rx-checksum']})\n"
    with router(pair, CHANGES + READY.replace("read()", "readline()") + one_more + READY) as process:
        (warden,) = children(process.pid)
        os.kill(warden, signal.SIGKILL)
        wait_until(lambda: warden not in processes())
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        assert warden not in children(process.pid)
        process.kill()
        process.communicate(timeout=10)
    assert state(pair) == before


def test_the_peer_moves_and_the_router_is_killed(pair):
    with inside(pair.b.ns):
        before = _ethtool.wanted(pair.b.name)
    with namespace() as third, router(pair) as process:
        ip("link", "set", pair.b.name, "netns", third, ns=pair.b.ns)
        process.kill()
        process.communicate(timeout=10)
        with inside(third):
            assert _ethtool.wanted(pair.b.name) == before


def test_the_warden_keeps_no_namespace(pair):
    """A router may run where the namespace is deleted under it: then nothing else holds it."""
    with router(pair) as process:
        (warden,) = children(process.pid)
        routers = os.stat(f"/proc/{process.pid}/ns/net").st_ino
        wait_until(lambda: os.stat(f"/proc/{warden}/ns/net").st_ino != routers)


def test_mtu_and_state_are_put_back(pair):
    with inside(pair.a.ns):
        first = privileged.ask({"do": "link", "device": pair.a.name, "mtu": 1300, "up": False})[1]
        assert (first["mtu"], first["up"]) == (1300, False)
        assert privileged.undo(first["undo"]) == []
        found = _netdev.link(pair.a.name)
        assert (found.mtu, found.is_up) == (1500, True)


def test_a_change_that_the_kernel_refuses_is_not_held(pair):
    with inside(pair.a.ns):
        with pytest.raises(privileged.Refused, match="its settings: Invalid argument"):
            privileged.ask({"do": "link", "device": pair.a.name, "mtu": 1 << 20})
        assert _netdev.link(pair.a.name).mtu == 1500
        facts = privileged.ask({"do": "link", "device": pair.a.name, "mtu": 1400})[1]
        assert [c["old"] for c in json.loads(json.dumps(facts["undo"]))] == [1500]
        privileged.undo(facts["undo"])
