"""RandomSeed: the same numbers on every target, and others without a seed."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names

TARGETS = pytest.mark.parametrize("target", target_names())
S = "s :: Script(TYPE PASSIVE);"


def drawn(router: Router, count: int = 5) -> list[str]:
    return [router.read("s.random", "1000000") for _ in range(count)]


@TARGETS
def test_it_is_the_seed_of_the_router(target: str) -> None:
    with Router.from_click(S, target=target, seed=7) as router:
        want = drawn(router)
    with Router.from_click(f"r :: RandomSeed(7); {S}", target=target) as router:
        assert drawn(router) == want
        assert drawn(router) != want
        router.write("r.seed", "7")
        assert drawn(router) == want


def test_every_target_draws_the_same() -> None:
    found = []
    for target in target_names():
        with Router.from_click(f"RandomSeed(18446744073709551615); {S}", target=target) as router:
            found.append(drawn(router))
    assert all(one == found[0] for one in found)


@TARGETS
def test_without_a_seed_it_begins_anywhere(target: str) -> None:
    with Router.from_click(f"r :: RandomSeed; {S}", target=target) as router:
        first = drawn(router)
        router.write("r.seed", "")
        assert drawn(router) != first


def test_the_numbers_of_packet_code_are_meant() -> None:
    text = "InfiniteSource(LIMIT 200) -> s :: RandomSwitch; s [0] -> a :: Counter -> Discard; s [1] -> Discard;"
    counts = {}
    for target in target_names():
        for seed in (1, 2):
            with Router.from_click(f"RandomSeed({seed}); {text}", target=target, virtual=True) as router:
                router.run()
                counts[target, seed] = router.read("a.count")
    assert len({counts[target, 1] for target in target_names()}) == 1
    assert counts["native", 1] != counts["native", 2]


def test_threads_have_numbers_of_their_own() -> None:
    with Router.from_click(f"r :: RandomSeed(7); {S} InfiniteSource(LIMIT 9) -> Discard;", threads=2) as router:
        router.write("r.seed", "7")
        words = [engine.memory.get(engine.layout.random, 8) for engine in router.engine.engines]
        assert words[0] == 7 and words[1] != 7


@pytest.mark.parametrize("seed", ["-1", "x", "18446744073709551616"])
def test_troubles(seed: str) -> None:
    with pytest.raises(MezzoError, match="SEED"):
        Router.from_click(f"RandomSeed({seed});")
    with Router.from_click("r :: RandomSeed(1);") as router, pytest.raises(MezzoError, match=r"r\.seed"):
        router.write("r.seed", seed)
