"""StoreData on every target."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.pipeline import compile_text


def through(element: str) -> str:
    return f"in0 :: Feed -> x :: {element} -> out0 :: Collect;"


def test_writes_and_leaves_out_what_stands_behind_the_end(vectors: Any) -> None:
    give = {"in0": [b"......", b"....", b"...", b"..", b""]}
    vectors(through('StoreData(2, "ab")'), give=give, want={"out0": [b"..ab..", b"..ab", b"..a", b"..", b""]}, drops={})


def test_grow(vectors: Any) -> None:
    give = {"in0": [b"......", b"...", b""]}
    vectors(
        through('StoreData(2, "ab", GROW true)'), give=give, want={"out0": [b"..ab..", b"..ab", b"\0\0ab"]}, drops={}
    )


def test_mask(vectors: Any) -> None:
    give = {"in0": [bytes.fromhex("aaaaaa"), b"\xaa\xaa", b""]}
    want = {"out0": [bytes.fromhex("aaa5ff"), b"\xaa\xa5", b""]}
    vectors(through("StoreData(1, \\<5555>, \\<0fff>)").replace("5555", "55ff"), give=give, want=want, drops={})


def test_troubles() -> None:
    with pytest.raises(MezzoError, match="MASK has 1 bytes and DATA 2"):
        compile_text("Idle -> StoreData(0, ab, x) -> Discard;")
    with pytest.raises(MezzoError, match="no packet reaches"):
        compile_text("Idle -> StoreData(99999, ab) -> Discard;")
