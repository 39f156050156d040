"""The text of a progress bar, from what it is told: time, position, size.  Without I/O and without a clock.

     74% |**************     |  23315k   1200k/s    00:05 ETA
         |      ***          |    5200   1200/s     --:-- ETA       the size is not known
         |-------------------|    ----              --:-- ETA       nor is the position

The rate is the mean of the time in which something moved: where nothing does for STALL_NS the bar says so, and that
time does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

STALL_NS = 5_000_000_000
LONGEST_BAR = 240
AROUND = 38  # characters beside banner and bar
PREFIXES = " kMGTPE"


@dataclass
class Progress:
    """How far something is.  `begin` starts it; `line` shows it at a time."""

    size: float | None = None
    began_ns: int = 0
    moved_ns: int = 0  # when the position was last seen to have changed
    stalled_ns: int = 0
    last: float = 0.0

    def begin(self, now_ns: int, size: float | None) -> None:
        self.size, self.last, self.stalled_ns = size, 0.0, 0
        self.began_ns = self.moved_ns = now_ns

    def line(self, now_ns: int, position: float | None, width: int, banner: str = "", ended: bool = False) -> str:
        """One line of at most `width` characters; `ended`: with the time that it took."""
        waited = self.see(now_ns, position)
        head = f"{banner} " if banner else ""
        if self.size is not None:
            head += "  -% " if position is None else f"{self.percent(position):3}% "
        bar = self.bar(position, min(width - len(head) - AROUND, LONGEST_BAR), ended)
        shown = "   ----" if position is None else short(position)
        rate, time = self.rate_text(now_ns), self.time_text(now_ns, position, waited, ended)
        return f"{head}{bar} {shown} {rate:>9} {time}"[:width]

    def see(self, now_ns: int, position: float | None) -> int:
        """Takes note of a position; how long nothing has moved."""
        waited = now_ns - self.moved_ns
        if position is None or position <= self.last:
            return waited
        if waited >= STALL_NS:
            self.stalled_ns += waited
        self.last, self.moved_ns = position, now_ns
        return 0

    def percent(self, position: float) -> int:
        if not self.size:
            return 100
        return int(max(0.0, min(100.0 * position / self.size, 100.0)))

    def bar(self, position: float | None, length: int, ended: bool) -> str:
        if length < 1:
            return ""
        if position is None or (self.size is None and ended):
            return f"|{'-' * length}|"
        if self.size is not None:
            return f"|{'*' * (length * self.percent(position) // 100):{length}}|"
        # It goes to and fro, a step a line.
        mark = "*" * min(3, length)
        steps = length - len(mark)
        at = abs((self.steps() + steps) % (2 * steps) - steps) if steps else 0
        return f"|{' ' * at + mark:{length}}|"

    def steps(self) -> int:
        return (self.moved_ns - self.began_ns) // 250_000_000

    def rate(self, now_ns: int) -> float:
        seconds = (now_ns - self.began_ns - self.stalled_ns) / 1e9
        return self.last / seconds if seconds > 0 else 0.0

    def rate_text(self, now_ns: int) -> str:
        rate = self.rate(now_ns)
        return f"{short(rate).strip()}/s" if rate > 0 else ""

    def time_text(self, now_ns: int, position: float | None, waited: int, ended: bool) -> str:
        if ended:
            return f"{clock((now_ns - self.began_ns) // 10**9)}    "
        if waited >= STALL_NS:
            return " - stalled -"
        rate = self.rate(now_ns)
        if self.size is None or position is None or position > self.size or rate <= 0:
            return "   --:-- ETA"
        return f"{clock(int((self.size - position) / rate))} ETA"


def short(value: float) -> str:
    """A number in six characters: `   512`, `23.3M`."""
    power = 0
    while value >= 99_999.5 and power < len(PREFIXES) - 1:
        value, power = value / 1000, power + 1
    prefix = PREFIXES[power].strip()
    return f"{value:6.0f}{prefix}" if value >= 1000 or not power else f"{value:6.1f}{prefix}"


def clock(seconds: int) -> str:
    """`   mm:ss`, or with hours before."""
    hours, rest = divmod(max(seconds, 0), 3600)
    return (f"{min(hours, 99):2}:" if hours else "   ") + f"{rest // 60:02}:{rest % 60:02}"
