"""Resident memory of the running IP router with a 64 MB arena, in MB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import report

CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); import ip_router; from mezzo.runtime import Router\n"
    "with Router.from_click(ip_router.text(1_000_000), frames=32768) as r:\n"
    "    r.run(); print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"
)


def main() -> None:
    here = str(Path(__file__).parent)
    runs = [
        int(subprocess.run([sys.executable, "-c", CODE, here], capture_output=True, check=True, text=True).stdout)
        / 1024
        for _ in range(3)
    ]
    report("router_memory", "MB", runs, 150)


if __name__ == "__main__":
    main()
