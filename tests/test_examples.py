"""Every example runs: configurations are checked, Python files executed, away from the tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
CONFIGS = sorted(EXAMPLES.rglob("*.click"))
# Examples that change the machine: they need root, and are run by hand.
BY_HAND = {"record_demo.py"}
LIVE = {"mirror.py", "fastpath.py"}  # on interfaces: tests/examples/test_live_examples.py
PROGRAMS = sorted(p for p in EXAMPLES.glob("*.py") if p.name not in BY_HAND | LIVE)
NAMES = ("DEV", "DEV0", "DEV1", "LAN", "WAN", "INSIDE", "OUTSIDE", "CLIENTS", "A", "B", "C")
INTERFACES = tuple(f"{name}=lo" for name in NAMES)


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src")}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_there_are_examples():
    assert CONFIGS
    assert PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("file", CONFIGS, ids=lambda p: p.name)
def test_a_configuration_is_sound(file, tmp_path):
    captures = [
        f"{name}={EXAMPLES / 'captures' / f'{eth}-in.pcap'}" for name, eth in (("IN0", "eth0"), ("IN1", "eth1"))
    ]
    captures.append(f"FILE={EXAMPLES / 'captures' / 'demo-traffic.pcap'}")
    done = run(sys.executable, "-m", "mezzo.tools.main", "check", str(file), *captures, *INTERFACES, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("file", PROGRAMS, ids=lambda p: p.name)
def test_a_program_runs(file, tmp_path):
    done = run(sys.executable, str(file), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("name", sorted(BY_HAND | LIVE))
def test_a_program_that_is_not_run_here_is_sound_python(name):
    file = EXAMPLES / name
    compile(file.read_text(encoding="utf-8"), str(file), "exec")
