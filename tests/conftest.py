"""What all tests share.

Golden files: `golden(name, text)` compares with tests/golden/NAME; `--update-golden` writes it instead.  Tests marked
`needs_root` make network namespaces, and are left out, with one line, where that does not go.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mezzo.runtime import Router
from mezzo.targets import PRIVILEGED
from tests.ports import netlab
from tests.vectors import run_both

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts tests in the background has SIGINT ignored, which programs that they start would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)


GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files from what the code does now")
    parser.addoption("--kernel", action="store_true", help="hold the kernel target to the vectors too; needs rights")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--kernel"):
        PRIVILEGED.clear()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_root") and (why := netlab.usable()):
        pytest.skip(why)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        else:
            assert file.exists(), f"{file} is missing: run pytest --update-golden and review it"
            assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def vectors() -> Any:
    """`vectors(text, give, want, …)`: see tests/vectors.py."""
    return run_both


@pytest.fixture(autouse=True)
def no_router_left() -> Any:
    """After each test every packet is home: routers are closed, and closing proves it."""
    yield
    left = [x for x in Router.alive if not x.closed]
    for router in left:
        router.close()
    assert not left, f"{len(left)} routers were left open"
