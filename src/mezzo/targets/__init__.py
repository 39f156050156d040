"""The targets: `python` (the definition), `native`.  A target is a folder; tests find it by scan.

Every target has
    build(program, arena, cells, hosts, *, seed, virtual, trace, cache, whole) -> engine
where `whole()` is the program with all bodies (its units may be skeletons), and every engine has
    run(rounds) -> status of the scheduler    call(instance, function, *args)
    push(instance, port, frame)               pull(instance, port) -> frame or -1
    drops(instance) -> {reason: count}        cells[instance][state]    now_ns    epoch_ns    close()
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from mezzo.base import MezzoError


def target_names() -> list[str]:
    return sorted(p.name for p in Path(__file__).parent.iterdir() if (p / "__init__.py").exists())


def load_target(name: str) -> Any:
    """The target's module; its `build` makes an engine."""
    if name not in target_names():
        raise MezzoError(f"there is no target `{name}`; there are {', '.join(target_names())}")
    return import_module(f"mezzo.targets.{name}")
