"""Every handler of every element, given what no caller means well by.

A handler may refuse (HandlerError, with a sentence); it may not raise anything else, which would be a bug that a client
of the control socket finds, and afterwards every packet is still accounted for.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.tools._page import own_classes

ROOT = Path(__file__).parent.parent.parent
HOSTILE = (
    "", " ", "-1", "1", "9" * 5000, "nan", "1e400", "0x", "\udcff\udcfe", "\0", "a\nb", "x" * 3000, "1.2.3.4/33", "::",
    "$(", "%s%n", "1 2 3", "\\<", '"', "18446744073709551615", "../..", "\u0661", "1_0", ",,,",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cls", [c for c in own_classes() if c.example], ids=lambda c: c.__name__)
def test_hostile_values_for_every_handler(cls, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.symlink(ROOT / "examples", tmp_path / "examples")
    with Router.from_click(cls.example, cls.__name__, target="python", virtual=True, frames=512) as router:
        for element in [e for e in router.elements.values() if type(e) is cls]:
            for name, handler in router.handlers.table(element).items():
                for value in HOSTILE:
                    with contextlib.suppress(MezzoError):
                        if handler.read is not None:
                            router.read(f"{element.name}.{name}", value)
                    with contextlib.suppress(MezzoError):
                        if handler.write is not None:
                            router.write(f"{element.name}.{name}", value)
        router.please_stop()
        router.run(0.001)
        assert router.conservation().balanced
