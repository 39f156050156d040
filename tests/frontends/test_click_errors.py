"""What the parser says of wrong texts, and that nothing but its errors ever comes out.

The texts are tests/golden/parser/NAME.click, the messages NAME.txt.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.base import MezzoError
from mezzo.frontends.click import parse_click, unparse

GOLDEN = Path(__file__).parents[1] / "golden"
CLASSES = ["Classifier", "Counter", "Discard", "Idle", "Null", "Paint", "Queue", "Tee", "Unqueue"]

WRONG = sorted(path.stem for path in (GOLDEN / "parser").glob("*.click"))


def report(text: str) -> str:
    with pytest.raises(MezzoError) as caught:
        parse_click(text, "router.click", is_element_class=CLASSES.__contains__, class_names=CLASSES)
    return str(caught.value) + "\n"


@pytest.mark.parametrize("name", WRONG)
def test_messages(name: str, golden: Callable[[str, str], None]) -> None:
    text = (GOLDEN / "parser" / f"{name}.click").read_bytes().decode()
    golden(f"parser/{name}.txt", report(text))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "{" * 100_000,
        "a :: Queue(" + "(" * 100_000,
        "Idle -> " + "(-> " * 100_000,
        "x :: { " * 100_000 + "} " * 100_000,
        "||" * 100_000,
        ")" * 100_000,
        "[" * 100_000,
        "a :: " * 50_000,
        "#x\n" * 50_000,
        "elementclass " * 50_000,
        "define($a0 x);" + "".join(f"define($a{i + 1} $a{i}$a{i});" for i in range(60)),
        "define($a0 x);" + "".join(f'define($a{i + 1} "$a{i}$a{i}");' for i in range(60)),
        "E(" + "${a-" * 20_000 + "$a" + "}" * 20_000 + ")(",
        "".join(f"elementclass A{i} {{ A{i - 1} }}" for i in range(1, 1000)) + "A999",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_texts_end_in_located_errors(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(MezzoError):
        parse_click(text)
    assert time.process_time() - begin < 20


def test_classes_that_double_each_other_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mezzo.frontends.click.expand.MAX_ELEMENTS", 1000)
    text = "".join(f"elementclass A{i} {{ A{i - 1}; A{i - 1} }}" for i in range(1, 60)) + "A59"
    with pytest.raises(MezzoError, match="expands to more than 1000 elements"):
        parse_click(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a :: Queue(" + "(" * 100_000 + ")" * 100_001, 1),
        ("Idle -> " + "Null -> " * 10_000 + "Discard", 10_002),
        ("Idle -> " + "( -> ) -> " * 5_000 + "Discard", 2),
        ("#line 5\n" * 20_000 + "x :: Null", 1),
        ("a :: Null;" + "a -> a;" * 5_000, 1),
    ],
    ids=lambda value: str(value)[:12],
)
def test_long_texts_work(text: str, count: int) -> None:
    assert len(parse_click(text).elements) == count


PIECES = [
    "a", "b", "Queue", "x :: ", "->", "=>", "::", "[", "]", "0", "1", "0-2", "(", ")", "{", "}", "|", "||",
    "...", ";", ",", "$a", "${a-b}", "K $v", "elementclass ", "define($a $b)", "define(", "require(", "library x",
    "input", "output", '"', "'", "\\<48>", "//", "/*", "*/", "\n",
    '# 3 "f"\n', "#", " ", "\t", "\\", "-", "\0", "\u00e9", "__REST__ $r",
]  # fmt: skip

SEED = """
elementclass Q { $cap, K $k, __REST__ $r | input -> Queue($cap) -> [0] output || input -> output || ... }
define($x 5, $y $x); require(compact_config);
a, b :: Tee(2); Idle -> a => ( [0] -> [0]; [1] -> Paint($x) -> [0] ) -> Q(1, K 2, 3)
  -> { input -> Null -> output } -> b;
b [0-1] => Discard, d :: Discard; // end
# 40 "gen.h"
c :: Classifier(12/0800, "a,b", /* c */ -) -> x :: Null -> [1] b [1,] => y :: Null, z :: Null;
"""


def parse_or_refuse(text: str) -> None:
    try:
        parse_click(text, is_element_class=CLASSES.__contains__)
        flat = parse_click(text)
        again = parse_click(unparse(flat.elements, flat.connections, flat.requirements))
        # Text puts connections into chains, and so changes their order.
        assert set(again.connections) == set(flat.connections)
        assert replace(again, connections=flat.connections) == flat
    except MezzoError as error:
        assert error.diagnostics and str(error)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_any_pieces_parse_or_are_refused(pieces: list[str]) -> None:
    parse_or_refuse("".join(pieces))


def test_any_mutation_parses_or_is_refused() -> None:
    chance = random.Random(20)
    for _ in range(700):
        text = SEED
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(text) + 1)
            cut = at + chance.choice([0, 0, 1, 5])
            text = text[:at] + chance.choice([*PIECES, "", ""]) + text[cut:]
        parse_or_refuse(text)
