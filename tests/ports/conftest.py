"""What tests of ports share: the mark `needs_root`, and a laboratory of two namespaces (tests/ports/netlab.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ports import netlab


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: makes network namespaces; left out where that does not go")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_root") and (why := netlab.usable()):
        pytest.skip(why)


@pytest.fixture
def pair() -> Iterator[netlab.Pair]:
    """A veth pair between two namespaces, 10.7.0.1 (a) and 10.7.0.2 (b), silent until a test sends."""
    with netlab.namespace() as a, netlab.namespace() as b, netlab.veth_pair(a, b, net="10.7.0") as made:
        yield made
