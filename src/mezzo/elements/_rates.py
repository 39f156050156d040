"""Rates without a timer: a rate is the slope between two readings of a counter.

A timer that samples would keep a router under the virtual clock alive for ever, and a moving average costs every
packet.  So a window keeps the readings that handlers caused: the rate spans from the newest reading that is at least
a second old, or from the start, to now.  Several readers share it without disturbing each other.
"""

from fractions import Fraction

SPAN_NS = 10**9
KEPT = 64


class RateWindow:
    """Readings (time ns, values), oldest first."""

    def __init__(self, now_ns: int, *values: int) -> None:
        self.samples = [(now_ns, values)]

    def rates(self, now_ns: int, *values: int) -> list[Fraction]:
        """How much each value grows a second; 0 when no time has passed."""
        old = [s for s in self.samples if now_ns - s[0] >= SPAN_NS]
        start_ns, before = old[-1] if old else self.samples[0]
        self._remember(now_ns, values, len(old))
        if now_ns <= start_ns:
            return [Fraction(0)] * len(values)
        return [Fraction((new - was) * 10**9, now_ns - start_ns) for new, was in zip(values, before, strict=True)]

    def _remember(self, now_ns: int, values: tuple[int, ...], old: int) -> None:
        """Keeps one reading beyond the span, and not two that are close together."""
        if old > 1:
            del self.samples[: old - 1]
        if now_ns - self.samples[-1][0] >= SPAN_NS // (KEPT // 2):
            self.samples.append((now_ns, values))


def show_rate(rate: Fraction) -> str:
    """Whole when it is whole, else with up to three digits behind the point."""
    return str(rate.numerator) if rate.denominator == 1 else f"{float(rate):.3f}".rstrip("0").rstrip(".")


def mean_rate(count: int, spent_ns: int) -> Fraction:
    """`count` in `spent_ns`, a second; 0 when no time has passed."""
    return Fraction(count * 10**9, spent_ns) if spent_ns > 0 else Fraction(0)
