"""An element that the kernel's verifier refuses is native, unless it must not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mezzo.base import Diagnostic, MezzoError
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.runtime.fallback import built
from mezzo.targets.kernel import KernelRefusal
from mezzo.targets.kernel import part as kernel_part
from tests.ports.netlab import inside, namespace, veth_pair

TEXT = """FromDevice({}, METHOD XDP) -> s :: Strip(14) -> k :: CheckIPHeader -> c :: Counter -> Discard;"""


@pytest.fixture
def text() -> Iterator[str]:
    """A configuration, in a namespace with its interface."""
    with namespace() as here, namespace() as there, veth_pair(here, there) as pair, inside(here):
        yield TEXT.format(pair.a.name)


def refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Has the verifier refuse these elements."""
    load, plan = kernel_part.load, compile_text(TEXT.format("x0"))
    refused = [plan.program.index(name) for name in names]

    def refusing(code: str, spans: Any, maps: Any, use_disk: bool, flags: int, owners: Any) -> tuple[int, int]:
        for i in refused:
            if i in owners:
                span = spans[list(owners).index(i)]
                raise KernelRefusal(Diagnostic("the kernel refuses this: it is no good", span), "", instance=i)
        return load(code, spans, maps, use_disk, flags, owners)

    monkeypatch.setattr(kernel_part, "load", refusing)


def levels(router: Router) -> dict[str, str]:
    assert router.plan.placement is not None
    return {row.name: row.level for row in router.plan.placement.rows}


@pytest.mark.needs_root
def test_what_is_refused_is_native_and_a_warning_says_why(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "k")
    with Router.from_click(text, place=["s=kernel", "*=kernel?", "s=kernel"]) as router:
        found = levels(router)
        assert (found["s"], found["k"], found["c"]) == ("kernel", "native", "native")
        (warning,) = router.plan.warnings
        assert warning.message == "`k` is native: the kernel refuses this: it is no good"
        assert warning.severity == "warning" and warning.span is not None and "check_ip" in warning.span.file
        assert len(router.parts) == 1


@pytest.mark.needs_root
def test_several_are_refused_one_after_the_other(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "k", "s")
    with Router.from_click(text, place="auto") as router:
        assert set(levels(router).values()) == {"native"} and router.parts == []
        assert len(router.plan.warnings) in (1, 2)


@pytest.mark.needs_root
def test_what_must_be_there_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "k")
    with pytest.raises(KernelRefusal, match="it is no good"):
        Router.from_click(text, place=["auto", "k=kernel"])


def test_other_trouble_is_not_tried_again() -> None:
    tried = []

    def build(plan: Any) -> None:
        tried.append(plan)
        raise MezzoError("no")

    with pytest.raises(MezzoError, match="no"):
        built((), lambda wishes: compile_text("Idle -> Discard", place=wishes), build)
    assert len(tried) == 1
