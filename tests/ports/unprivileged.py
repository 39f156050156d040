"""Runs Python as the user nobody, without any right to the network.

The interpreter and this tree may lie where nobody cannot look, so the right to read files is kept, and no other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOBODY = 65534


def argv(words: list[str], *capabilities: str) -> list[str]:
    """The command line that runs `words` as nobody with these capabilities, as ambient ones."""
    names = ",".join(["-all", "+dac_read_search", *(f"+{c}" for c in capabilities)])
    who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *who, f"--inh-caps={names}", f"--ambient-caps={names}", "--", *words]


def python(script: str, *words: str, capabilities: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Any:
    """Runs a script as nobody; the finished process."""
    return subprocess.run(
        argv([sys.executable, "-c", script, *words], *capabilities),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": "/nonexistent", **(env or {})},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
