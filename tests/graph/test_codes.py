"""Port count, processing and flow codes."""

from __future__ import annotations

import pytest

from mezzo.graph.codes import flow_outputs, parse_ports, parse_processing


@pytest.mark.parametrize(
    ("code", "used", "counts"),
    [
        ("", (0, 0), (0, 0)),
        ("0/0", (2, 2), (0, 0)),
        ("1", (0, 0), (1, 1)),
        ("1/1-2", (0, 2), (1, 2)),
        ("1/1-2", (0, 7), (1, 2)),
        ("1/1-", (1, 9), (1, 9)),
        ("1/1-", (1, 0), (1, 1)),
        ("-/1", (5, 0), (5, 1)),
        ("-/-", (0, 0), (0, 0)),
        ("-3", (9, 9), (3, 3)),
        ("2-/=", (1, 1), (2, 2)),
        ("2-/=", (1, 4), (4, 4)),
        ("-/=+", (2, 0), (2, 3)),
        ("-/=+", (0, 3), (2, 3)),
        ("1-254", (300, 1), (254, 1)),
    ],
)
def test_port_counts(code: str, used: tuple[int, int], counts: tuple[int, int]) -> None:
    assert parse_ports(code).settle(*used) == counts


@pytest.mark.parametrize(
    ("code", "ports", "kinds"),
    [
        ("a/ah", (1, 3), ("a", "ahh")),
        ("h/lh", (2, 2), ("hh", "lh")),
        ("hl/hlh", (3, 1), ("hll", "h")),
        ("h", (1, 1), ("h", "h")),
        ("/h", (0, 1), ("", "h")),
        ("", (1, 1), ("a", "a")),
    ],
)
def test_processing(code: str, ports: tuple[int, int], kinds: tuple[str, str]) -> None:
    assert parse_processing(code, *ports) == kinds


@pytest.mark.parametrize(
    ("code", "flows"),
    [
        ("x/x", [(0, 1, 2)] * 3),
        ("", [(0, 1, 2)] * 3),
        ("COMPLETE", [(0, 1, 2)] * 3),
        ("x/y", [()] * 3),
        ("xy/x", [(0, 1, 2), (), ()]),
        ("#/#", [(0,), (1,), (2,)]),
        ("#/[^#]", [(1, 2), (0, 2), (0, 1)]),
        ("xy/[xy]x", [(0, 1, 2), (0,), (0,)]),
        ("xyx/xyz", [(0,), (1,), (0,)]),
        ("x/[^x]", [()] * 3),
        ("[x#]/yx#", [(1,), (1,), (1, 2)]),
    ],
)
def test_flow(code: str, flows: list[tuple[int, ...]]) -> None:
    assert [flow_outputs(code, port, 3) for port in range(3)] == flows


@pytest.mark.parametrize("code", ["x", "1/2/3", "1-2-3", "=/1"])
def test_a_wrong_port_code_is_the_class_writer_s_trouble(code: str) -> None:
    with pytest.raises(AssertionError, match="port code"):
        parse_ports(code)
