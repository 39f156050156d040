"""A strict reader of OpenMetrics 1.0 text: what it takes, any does."""

from __future__ import annotations

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]Inf|NaN)")
ENDS = {"counter": "_total", "gauge": "", "info": "_info"}


def parse(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Sample name -> labels -> value; an AssertionError names the rule that is broken."""
    assert text.endswith("# EOF\n"), "it ends with # EOF and a newline"
    families: dict[str, dict[str, str]] = {}
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    current, order = "", 0
    for line in text.split("\n")[:-2]:
        assert line and line.strip() == line, f"no empty lines or spaces around: {line!r}"
        if line.startswith("# "):
            what, name, rest = line[2:].split(" ", 2)
            assert what in ("TYPE", "UNIT", "HELP") and re.fullmatch(NAME, name)
            if name != current:
                assert name not in families, f"{name} is described in one place"
                families[name], current, order = {}, name, 0
            rank = ("TYPE", "UNIT", "HELP").index(what) + 1
            assert rank > order, f"{what} of {name} comes twice or late"
            families[name][what], order = rest, rank
            assert what != "TYPE" or rest in ENDS, rest
            assert what != "UNIT" or name.endswith("_" + rest), f"{name} does not end in its unit {rest}"
            continue
        match = SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        order = 9
        kind = families[current]["TYPE"]
        assert match[1] == current + ENDS[kind], f"{match[1]} stands under {current}"
        labels = tuple(sorted(re.findall(LABEL, match[2] or "")))
        assert len(dict(labels)) == len(labels), "a label comes once"
        value = float(match[match.lastindex or 0])
        assert kind != "counter" or value >= 0, "counters do not fall below nothing"
        samples = found.setdefault(match[1], {})
        assert labels not in samples, f"{line!r} comes twice"
        samples[labels] = value
    return found
