"""`mezzo verify`: agreement, the reasons of what stays out, and the least packet that shows a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from mezzo.elements.dec_ip_ttl import DecIPTTL
from mezzo.targets.kernel import lower_stmt
from mezzo.tools import verify
from mezzo.tools._agree import Difference, compare, smaller
from mezzo.tools._random_packets import cases
from mezzo.tools.main import main

WITHOUT_RIGHTS = "--targets=python,native"
Out = pytest.CaptureFixture[str]


def test_the_same_seed_gives_the_same_packets() -> None:
    assert list(cases(50, 7, 2)) == list(cases(50, 7, 2)) != list(cases(50, 8, 2))
    assert {one.way for one in cases(50, 7, 2)} == {0, 1}


def test_an_element_on_two_targets(capsys: Out) -> None:
    assert main(["verify", "Paint(3)", "--packets", "20", WITHOUT_RIGHTS]) == 0
    assert capsys.readouterr().out == "the targets agree on 20 packets; 20 by x[0]\n"


@pytest.mark.needs_root
def test_a_file_on_three_targets(tmp_path: Path, capsys: Out) -> None:
    file = tmp_path / "x.click"
    file.write_text(
        "in :: InfiniteSource -> s :: Strip(14) -> c :: CheckIPHeader -> q :: Queue -> Discard; c[1] -> Discard"
    )
    assert main(["verify", str(file), "--packets", "60"]) == 0
    said = capsys.readouterr()
    assert "the targets agree on 60 packets" in said.out
    assert "`q` stays out of the kernel: it asks how many entries `ring` has" in said.err
    assert "; it stores packets" in said.err


def test_wrong_words(capsys: Out) -> None:
    wrong = {
        (): "verify what?",
        ("Paint(3)", "--targets=fpga"): "no target `fpga`",
        ("Paint(3)", "--packets=0"): "give 1 or more",
        ("Nothing",): "neither a file nor an element",
    }
    for words, said in wrong.items():
        assert main(["verify", *words]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.needs_root
def test_a_difference_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that stores one byte too many in IP headers."""
    right = lower_stmt.STMT[lower_stmt.ops.PStore]

    def wrong(f, s) -> None:  # type: ignore[no-untyped-def]
        right(f, s)
        f.t.store("i8", "77", f.span("net", lower_stmt.ops.u32(1), "1", 1))

    monkeypatch.setitem(lower_stmt.STMT, lower_stmt.ops.PStore, wrong)
    monkeypatch.setattr("mezzo.targets.kernel.load.cache.load", lambda name: None)
    bench, _ = verify.class_bench(DecIPTTL, "")
    assert bench is not None
    found = compare(bench, ("python", "kernel"), list(cases(60, 1, 1)))
    assert isinstance(found, Difference)
    least = smaller(bench, found)
    assert (len(least.cases), least.target, least.what) == (1, "kernel", "bytes at x[0]")
    (case,) = least.cases
    # What is needed: a network mark, a time to live of 2 or more, and as many bytes as are read and written.
    assert (len(case.data), sum(map(bool, case.data)), any(case.anno)) == (12, 1, False)
