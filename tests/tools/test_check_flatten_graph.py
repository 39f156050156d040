"""mezzo check, flatten, graph: looking at configurations without running them."""

from __future__ import annotations

import json
import time

import pytest

COMPOUND = "elementclass Two { $n | input -> Paint($n) -> c :: Counter -> output; }\nIdle -> t :: Two(3) -> Discard;"


def test_check_says_what_there_is(mezzo, tmp_path):
    file = tmp_path / "x.click"
    file.write_text("Idle -> Queue -> Discard;")
    assert mezzo("check", str(file)) == (0, f"{file}: fine, 3 elements, 2 connections\n", "")
    assert mezzo("check", "-q", str(file)) == (0, "", "")


def test_check_reports_all_errors_at_once_with_places(mezzo, tmp_path):
    file = tmp_path / "x.click"
    file.write_text("Idle -> Discad;\nq :: Queue;\nq :: Queue;\n")
    done = mezzo("check", str(file))
    assert done.status == 1
    assert f"{file}:1:9: " in done.err
    assert f"{file}:3:1: `q` is already an element" in done.err
    assert f"{file}:2:1: first declared here" in done.err


def test_check_finds_wrong_arguments_without_running(mezzo):
    done = mezzo("check", "-e", "Idle -> Queue(many) -> Discard;")
    assert done.status == 1
    assert "CAPACITY" in done.err


def test_check_as_json(mezzo):
    done = mezzo("check", "--json", "-e", "Idle -> Discad;")
    found = json.loads(done.out)
    assert (done.status, found["ok"]) == (1, False)
    assert found["findings"][0]["place"] == "expression:1:9"
    assert found["findings"][0]["hint"] == "did you mean `Discard`?"


@pytest.mark.slow
def test_check_of_a_big_file_is_quick(mezzo, tmp_path):
    file = tmp_path / "big.click"
    file.write_text(
        "".join(f"Idle -> c{i} :: Counter -> q{i} :: Queue({i % 50 + 1}) -> Discard;\n" for i in range(250))
    )
    begun = time.process_time()
    assert mezzo("check", str(file)).status == 0
    assert time.process_time() - begun < 3


def test_flatten_expands_compounds_and_reads_back(mezzo):
    flat = mezzo("flatten", "-e", COMPOUND).out
    assert "t/c :: Counter;" in flat
    assert "(3)" in flat
    assert mezzo("flatten", "-e", flat).out == flat


def test_flatten_lists(mezzo):
    assert mezzo("flatten", "-e", COMPOUND, "--classes").out == "Counter\nDiscard\nIdle\nPaint\n"
    assert "t/c\n" in mezzo("flatten", "-e", COMPOUND, "--names").out
    assert "->" not in mezzo("flatten", "-e", COMPOUND, "--declarations").out


def test_flatten_writes_a_file(mezzo, tmp_path):
    file = tmp_path / "flat.click"
    assert mezzo("flatten", "-e", COMPOUND, "-o", str(file)).status == 0
    assert file.read_text() == mezzo("flatten", "-e", COMPOUND).out
    assert "No such file" in mezzo("flatten", "-e", COMPOUND, "-o", "/no/such/file").err


@pytest.mark.parametrize(("form", "begin"), [("svg", "<svg"), ("html", "<!DOCTYPE html>"), ("dot", "digraph")])
def test_graph_draws_by_the_name(mezzo, tmp_path, form, begin):
    file = tmp_path / f"x.{form}"
    assert mezzo("graph", "-e", COMPOUND, "-o", str(file)).status == 0
    assert file.read_text(encoding="utf-8").startswith(begin)
    assert mezzo("graph", "-e", COMPOUND, "--format", form).out.startswith(begin)


def test_graph_shows_errors_as_check_does(mezzo):
    assert mezzo("graph", "-e", "Idle -> Discad;").err == mezzo("check", "-e", "Idle -> Discad;").err
