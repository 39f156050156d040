"""Handlers as a configuration names them: an element of the same compound needs no prefix."""

from __future__ import annotations

from typing import Any


def full_path(element: Any, path: str) -> str:
    """The path as the router knows it: the innermost compound around `element` that has such an element counts."""
    owner, dot, name = path.rpartition(".")
    if not dot:
        return name
    elements, scope = element.router.elements, element.env.scope
    while scope and scope + owner not in elements:
        scope = scope[: scope.rfind("/", 0, -1) + 1]
    return f"{scope}{owner}.{name}"


def check_readable(element: Any, path: str) -> None:
    """ValueError where nothing of this full path can be read; elements need not be ready."""
    owner, dot, name = path.rpartition(".")
    other = element.router.elements.get(owner)
    if not dot:
        element.router.handlers.find(path)
    elif other is None:
        raise ValueError(f"there is no element `{owner}`")
    else:
        handler = element.router.handlers.table(other).get(name) or other.other_handler(name)
        if handler is None or handler.read is None:
            raise ValueError(f"`{owner}` has no handler `{name}` that can be read")
