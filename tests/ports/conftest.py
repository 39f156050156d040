"""What tests of ports share: a laboratory of two namespaces (tests/ports/netlab.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ports import netlab


@pytest.fixture
def pair() -> Iterator[netlab.Pair]:
    """A veth pair between two namespaces, 10.7.0.1 (a) and 10.7.0.2 (b), silent until a test sends."""
    with netlab.namespace() as a, netlab.namespace() as b, netlab.veth_pair(a, b, net="10.7.0") as made:
        yield made


@pytest.fixture
def wires(pair: netlab.Pair) -> Iterator[tuple[netlab.Pair, netlab.Pair]]:
    """Two pairs: a router in `pair.a.ns` is between two namespaces."""
    with netlab.namespace() as other, netlab.veth_pair(pair.a.ns, other, net="10.8.0") as second:
        yield pair, second
