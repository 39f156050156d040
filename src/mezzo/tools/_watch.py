"""Handlers read again and again, with rates: a line a handler, and how fast its number grows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mezzo.tools._terminal import harmless

NUMBER = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*")


@dataclass
class Watch:
    """Keeps the readings before; `row` gives those of now."""

    clock: Callable[[], float] = time.monotonic
    _before: dict[str, tuple[float, float]] = field(default_factory=dict)

    def rates(self, values: Mapping[str, str]) -> dict[str, float | None]:
        """How fast each number has grown since the reading before, a second; None where there is none."""
        now = self.clock()
        found: dict[str, float | None] = {}
        for name, text in values.items():
            before = self._before.get(name)
            number = float(text) if NUMBER.fullmatch(text) else None
            found[name] = None
            if number is None:
                self._before.pop(name, None)
                continue
            if before is not None and now > before[0]:
                found[name] = (number - before[1]) / (now - before[0])
            self._before[name] = (now, number)
        return found


def lines(values: Mapping[str, str], rates: Mapping[str, float | None]) -> list[str]:
    """A line for each handler: its name, its value, and its rate where it has one."""
    width = max(map(len, values), default=0)
    return [f"{name:<{width}}  {_value(text):>14}  {_rate(rates[name]):>12}".rstrip() for name, text in values.items()]


def _value(text: str) -> str:
    text = harmless(text.strip())
    if "\n" in text:
        return f"{text.splitlines()[0][:40]} …"
    return f"{int(text):,}" if re.fullmatch(r"-?\d{1,18}", text) else text


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{si(rate)}/s"


def si(value: float) -> str:
    """1234567 as 1.23 M."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.3g} {letter}"
    return f"{value:.3g}"


def readings(
    read: Callable[[], Mapping[str, str]],
    every_s: float,
    times: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Sequence[str]]:
    """The lines of each reading; `times`: how many, for ever with None."""
    watch, count = Watch(), 0
    while times is None or count < times:
        if count:
            sleep(every_s)
        values = read()
        yield lines(values, watch.rates(values))
        count += 1
