"""Arguments of elements: what keeps their words apart, and the places that messages about them show."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.elements import confparse
from mezzo.elements.args import Env
from mezzo.elements.library import maybe_find
from mezzo.elements.units import parse_int
from mezzo.pipeline import compile_text


def complaints(text: str) -> list[str]:
    """Place and message of each error and warning."""
    with pytest.raises(MezzoError) as caught:
        compile_text(text, file="main.click")
    return [f"{d.span}: {d.message}" for d in caught.value.diagnostics]


@pytest.mark.parametrize("space", [" ", "\t", "\n", " \r\n\t "])
def test_any_space_ends_a_keyword(space: str) -> None:
    found = maybe_find("Queue")
    assert found is not None
    queue = found()
    assert queue.setup(confparse.split_args(f"CAPACITY{space}7"), Env()) == [] and queue.capacity == 7


def test_Ao09_an_error_in_an_argument_names_the_included_file() -> None:
    tail = "c[0] -> Discard; c[1] -> Discard; c[2] -> Discard"
    text = f'Idle -> c :: Classifier(12/0800,\n# 50 "other.h"\n12/080,\n-); {tail}'
    (said,) = complaints(text)
    assert said.startswith("other.h:50:1: c :: Classifier: pattern 1: `12/080` has an odd number of hex digits")


def test_places_of_arguments() -> None:
    said = complaints(
        "AddressInfo(a 1.2.3.4,\n b,\n c 1.2.3.z);\nIdle -> r :: RadixIPLookup(1.0.0.0/8 0,\n  2/8 9)\n"
        " -> Print(A, MAXLENGTH z, FOO 1) -> Discard;\nIdle -> Unqueue(BURST 1, BURST 2) -> Discard;"
    )
    places = [text.split(": ")[0].removeprefix("main.click:") for text in said]
    assert places == ["2:2", "3:2", "5:3", "6:14", "6:27", "7:26"]


@pytest.mark.parametrize(
    ("head", "config", "place"),
    [("$c", "$c", "1:38"), ("$c", "CAPACITY\n $c", "1:38"), ("__REST__ $c", "$c,\n x", "1:41")],
)
def test_variables_and_places(head: str, config: str, place: str) -> None:
    """A variable is shown where it is used; one that stands for several arguments leaves the element's place."""
    text = "elementclass Q { %s | input -> Queue(%s) -> Unqueue -> output } Idle -> Q(%s) -> Discard"
    (said,) = complaints(text % (head, config, "1, 2" if "REST" in head else "x"))
    assert said.startswith(f"main.click:{place}: Q@2/Queue@1 :: Queue: ")


def test_a_warning_is_told_along_with_the_error() -> None:
    said = complaints("AddressInfo(a 1.1.1.1, a 2.2.2.2); Idle -> Queue(x) -> Unqueue -> Discard")
    assert ["warning" if "two different values" in text else "error" for text in said] == ["warning", "error"]


def test_many_troubles_of_a_long_text_are_told_quickly() -> None:
    routes = ",\n".join(f"1.0.0.{i % 256}/32 7" for i in range(300))
    said = complaints(f"Idle -> r :: RadixIPLookup({routes}) -> Discard")
    assert [text.split(":")[1] for text in said] == [*(str(i + 1) for i in range(20)), *["1"] * 280]


@pytest.mark.parametrize("text", ["--5", "+-5", "- 5", "+ 5", "-", "+", "5 5", "0x-5", "-_5", ""])
def test_an_integer_has_one_sign_at_most(text):
    with pytest.raises(ValueError, match="expected an integer"):
        parse_int(text)
