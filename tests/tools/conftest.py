"""Running a command line in this process: `mezzo("check", "-e", "…")` gives status, standard output and error."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from mezzo.tools import click as driver
from mezzo.tools.main import main


class Done(NamedTuple):
    status: int
    out: str
    err: str


def _caller(run: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def call(*words: str) -> Done:
        capsys.readouterr()
        try:
            status = run(list(words))
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Done(status, *capsys.readouterr())

    return call


@pytest.fixture
def mezzo(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    return _caller(main, capsys)


@pytest.fixture
def click(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    return _caller(driver.main, capsys)
