"""What the verifier refuses is said at the Python line, in words; the classic refusals are provoked by leaving out what
prevents them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements import library
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.targets.kernel import KernelRefusal, frame, load, lower, why_not
from mezzo.targets.kernel.frame import Frame
from mezzo.targets.kernel.refusal import WORDS, last_words
from tests.targets import kernel_elements

pytestmark = pytest.mark.needs_root
Golden = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def elements() -> Iterator[None]:
    for name in ("ReadsFar", "ReadsAnywhere", "Pushes", "Keeps", "LooksUp"):
        library.register(getattr(kernel_elements, name))
    yield


def refusal(element: str) -> KernelRefusal:
    with pytest.raises(KernelRefusal) as caught:
        Router.from_click(f"Feed -> {element} -> Collect", target="kernel", cache=False).close()
    return caught.value


def shown(error: MezzoError) -> str:
    """The error without what differs from kernel to kernel: registers and offsets."""
    text = str(error).replace(str(Path(kernel_elements.__file__).parent), "tests")
    return "\n".join("the verifier: …" if x.startswith("the verifier:") else x for x in text.split("\n")) + "\n"


def test_an_access_that_is_not_compared(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(Frame, "not_behind", lambda *_: None)
    error = refusal("ReadsFar")
    golden("kernel/access.txt", shown(error))
    assert "invalid access to packet" in error.log
    assert not error.is_size
    assert error.instance == 2  # behind the scheduler and Feed


def test_an_offset_without_bound(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(frame, "FARTHEST", 1 << 40)
    golden("kernel/offset.txt", shown(refusal("ReadsAnywhere")))


def test_Lo02_a_pointer_from_before_the_packet_moved(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    whole, seen = Frame.read_ends, list[Frame]()

    def only_once(frame: Frame) -> None:
        if frame not in seen:
            whole(frame)
        seen.append(frame)

    monkeypatch.setattr(Frame, "read_ends", only_once)
    golden("kernel/stale.txt", shown(refusal("Pushes")))


def test_what_is_found_is_tested_first(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(lower, "_at_found", lambda f, found, type, default: f.t.load(type, found))
    golden("kernel/found.txt", shown(refusal("LooksUp")))


def test_the_reason_is_the_last_thing_said() -> None:
    log = "0: (b7) r0 = 0\n; line\n1: (95) exit\nR0 !read_ok\nprocessed 2 insns (limit 1000000) max_states\n"
    assert last_words(log) == "R0 !read_ok"
    assert all(words for _, words in WORDS)


def test_without_rights_the_kernel_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(load.bpf, "create_map", refuse)
    with pytest.raises(MezzoError, match=r"the kernel makes no map for `\w+`: Operation not permitted"):
        Router.from_click("Feed -> Null -> Collect", target="kernel")


def test_what_stays_out_says_why_and_where(golden: Golden) -> None:
    plan = compile_text("f :: Feed -> k :: Keeps; k[0] -> q :: Queue -> Discard; k[1] -> Print(x) -> Discard")
    reasons = why_not(plan.whole())
    golden("kernel/why_not.txt", shown(MezzoError(*reasons["k"])))
    assert [d.message for d in reasons["f"]] == ["`f` stays out of the kernel: no packets are pushed to it"]
    assert "it asks how many entries `ring` has" in str(reasons["q"])
    assert set(reasons) >= {"f", "k", "q", "scheduler"}


def test_Lo04_no_headers_and_no_compiler_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with Router.from_click(
        "f :: Feed -> Strip(14) -> CheckIPHeader -> c :: Collect", target="kernel", cache=False
    ) as r:
        assert sum(len(part.placed) for part in r.engine.parts) == 2


def test_a_refused_program_is_written_once_more_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, seen = load.bpf.load_code, []

    def refuse_first(*given: Any, **more: Any) -> int:
        seen.append(given)
        if len(seen) == 1:
            raise load.bpf.Refused(OSError(13, "Permission denied"), "0: (95) exit\nR0 !read_ok\n")
        return whole(*given, **more)

    monkeypatch.setattr(load.bpf, "load_code", refuse_first)
    Router.from_click("Feed -> Counter -> Collect", target="kernel", cache=False).close()
    assert len(seen) == 2
    assert seen[0] != seen[1]
