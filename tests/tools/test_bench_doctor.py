"""mezzo bench over made-up benchmarks, and mezzo doctor."""

from __future__ import annotations

import errno
import json

import pytest

from mezzo.tools import _doctor_ports

GOOD = """print('{"name": "good", "unit": "ns/packet", "value": 2.0, "goal": 2.5, "per_calibration": 1.5}')"""
SLOW = """print('{"name": "slow", "unit": "s", "value": 5.0, "goal": 2.5}')"""
RATE = """print('{"name": "rate", "unit": "reads/s", "value": %s, "goal": 50}')"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "harness.py").write_text("raise SystemExit('not a benchmark')")
    return tmp_path


def test_results_as_a_table_and_as_json(mezzo, folder):
    lines = mezzo("bench", "--folder", str(folder)).out.splitlines()
    assert lines[1].split() == ["good", "2.00", "ns/packet", "2.5", "reached", "1.50"]
    assert "2.00 times the goal" in lines[2]
    assert [r["name"] for r in json.loads(mezzo("bench", "--folder", str(folder), "--json", "good").out)] == ["good"]


@pytest.mark.parametrize(("value", "verdict"), [(38, "0.76 times the goal"), (50, "reached"), (380, "reached")])
def test_of_a_rate_the_goal_is_the_least(mezzo, folder, value, verdict):
    (folder / "rate.py").write_text(RATE % value)
    assert verdict in mezzo("bench", "--folder", str(folder), "rate").out.splitlines()[1]


def test_a_benchmark_that_fails_is_named(mezzo, folder):
    (folder / "bad.py").write_text("raise RuntimeError('no luck')")
    done = mezzo("bench", "--folder", str(folder), "bad", "good")
    assert done.status == 1
    assert "bad: RuntimeError: no luck" in done.err
    assert "good" in done.out


def test_a_result_without_a_figure_is_named_and_the_others_are_shown(mezzo, folder):
    (folder / "odd.py").write_text("""print('{"name": "odd", "unit": "s"}')""")
    done = mezzo("bench", "--folder", str(folder))
    assert done.status == 1
    assert "odd: it printed a result without one of name, unit, value" in done.err
    assert "good" in done.out and "slow" in done.out


def test_the_benchmarks_of_the_tree_are_found(mezzo):
    assert "source_discard" in mezzo("bench", "--list").out.split()


def test_a_group_of_benchmarks_has_a_name(mezzo):
    found = mezzo("bench", "--list", "ports").out.split()
    assert "port_memory" in found and all(name.startswith("port_") for name in found)


def test_doctor_names_a_fix_for_everything_that_is_missing(mezzo):
    done = mezzo("doctor", "--json")
    findings = json.loads(done.out)
    assert done.status == 0
    assert {
        "python",
        "llvmlite",
        "cpu",
        "memfd",
        "huge pages",
        "network namespaces",
        "bpf system call",
        "netmap",
        "tshark",
    } <= {f["name"] for f in findings}
    assert all(f["fix"] for f in findings if not f["found"])


def test_doctor_tries_what_ports_need(mezzo):
    found = {f["name"]: f for f in json.loads(mezzo("doctor", "--json").out)}
    assert {"capabilities", "mezzo-open", "packet sockets", "AF_XDP sockets", "locked memory", "tap"} <= set(found)


def test_a_refusal_is_said_with_its_remedy(monkeypatch):
    """A capability that is missing, one that does not help, and a kernel without the thing are three troubles."""

    def refused(number):
        raise OSError(number, "no")

    monkeypatch.setattr(_doctor_ports._capabilities, "effective", lambda: 0)
    row = _doctor_ports.tried("x", lambda: refused(errno.EPERM), "xs", "packet")
    assert (row.found, row.fix) == (False, "run it as root, or have a mezzo-open with cap_net_raw")
    assert "CAP_NET_ADMIN" in _doctor_ports.capabilities().use
    monkeypatch.setattr(_doctor_ports._capabilities, "effective", lambda: -1)
    assert "seccomp" in _doctor_ports.tried("x", lambda: refused(errno.EPERM), "xs", "packet").fix
    assert "CONFIG_" in _doctor_ports.tried("x", lambda: refused(errno.EAFNOSUPPORT), "xs", "packet").fix


def test_doctor_for_people(mezzo):
    assert mezzo("doctor").out.startswith("ok       python")
