"""One set of vectors, every target: the same configuration and packets, the same answers, the pool full at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mezzo.runtime import Router
from mezzo.targets import target_names

Packets = Iterable[bytes]


def run_on(
    target: str,
    text: str,
    give: Mapping[str, Packets] | None = None,
    writes: Iterable[tuple[str, str]] = (),
    outputs: Iterable[str] = (),
    reads: Iterable[str] = (),
    seconds: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    """What one target makes of it: packets per output, handler texts, drops."""
    with Router.from_click(text, target=target, virtual=options.pop("virtual", True), **options) as router:
        for path, value in writes:
            router.write(path, value)
        for name, packets in (give or {}).items():
            packets = list(packets)
            assert router.feed(name, packets) == len(packets), "the feed is full"
        router.run(seconds=seconds, rounds=1_000_000)
        return {
            "out": {name: router.collect(name) for name in outputs},
            "reads": {path: router.read(path) for path in reads},
            "drops": router.drops(),
        }


def run_both(
    text: str,
    give: Mapping[str, Packets] | None = None,
    want: Mapping[str, list[bytes]] | None = None,
    reads: Mapping[str, str] | None = None,
    drops: Mapping[tuple[str, str], int] | None = None,
    outputs: Iterable[str] = (),
    read_also: Iterable[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Runs on every target, checks what is wanted, and that the targets agree; gives the definition's answer.

    `want`: the packets of each Collect.  `reads`: handler texts.  `drops`: all drops, exactly.  `outputs`, `read_also`:
    Collects and handlers that are only compared between targets.
    """
    names = [*(want or {}), *outputs]
    paths = [*(reads or {}), *read_also]
    answers = {t: run_on(t, text, give, outputs=names, reads=paths, **options) for t in target_names()}
    base = answers["python"]
    for name, packets in (want or {}).items():
        assert base["out"][name] == packets, f"{name}: {[p.hex() for p in base['out'][name]]}"
    for path, value in (reads or {}).items():
        assert base["reads"][path] == value, f"{path} reads {base['reads'][path]!r}"
    if drops is not None:
        assert base["drops"] == dict(drops)
    for target, answer in answers.items():
        assert answer == base, f"{target} differs from the definition"
    return base
