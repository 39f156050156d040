"""The targets: `python` (the definition), `native`, `kernel`.  A target is a folder; tests find it by scan.

`kernel` takes what can be an XDP program and leaves the rest to python; it needs rights, so what runs on every target
(`target_names`) leaves it out unless it is asked for by name.

Every target has
    build(program, arena, cells, hosts, *, seed, virtual, trace, cache, whole) -> engine
where `whole()` is the program with all bodies (its units may be skeletons), and every engine has
    run(rounds) -> status of the scheduler    call(instance, function, *args)
    push(instance, port, frame)               pull(instance, port) -> frame or -1
    drops(instance) -> {reason: count}        cells[instance][state]    now_ns    epoch_ns    reseed(seed)    close()
and those that a reload knows have
    inherit(new, instance, old, its, names): state of an instance of one engine goes to another
    moving(new, old): what goes there as it is, all of it at once: keep(instance, its) -> whether that can be, before;
                      apply(), while nobody runs; settle(), behind
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from mezzo.base import MezzoError

PRIVILEGED = {"kernel"}


def target_names() -> list[str]:
    """Those that run any router for anybody."""
    return [name for name in _folders() if name not in PRIVILEGED]


def _folders() -> list[str]:
    return sorted(p.name for p in Path(__file__).parent.iterdir() if (p / "__init__.py").exists())


def load_target(name: str) -> Any:
    """The target's module; its `build` makes an engine."""
    if name not in _folders():
        raise MezzoError(f"there is no target `{name}`; there are {', '.join(_folders())}")
    return import_module(f"mezzo.targets.{name}")
