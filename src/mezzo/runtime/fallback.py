"""What the kernel's verifier refuses after all is native, where the user allows it.

Placement asks what a program could do; the verifier proves it when the program is loaded, and may find too many ways
or an address that it cannot follow.  An element that is to be in the kernel *if it can be* is placed natively then, and
the router is compiled again; one that must be there, by name, is an error with the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from mezzo.base import Diagnostic, MezzoError
from mezzo.pipeline import Plan
from mezzo.pipeline.wishes import wish_for, wishes_for

Built = TypeVar("Built")


def built(
    place: str | Sequence[str], compiled: Callable[[list[str]], Plan], build: Callable[[Plan], Built]
) -> tuple[Built, list[str]]:
    """What `build` makes of the plan for these wishes, or for those of them that the verifier lets be; and which."""
    wishes = [place] * bool(place) if isinstance(place, str) else list(place)
    said: list[Diagnostic] = []
    while True:
        plan = compiled(wishes)
        plan.warnings = [*plan.warnings, *said]
        try:
            return build(plan), wishes
        except MezzoError as trouble:
            name = _refused(plan, trouble, wishes)
            if not name:
                raise
            first = trouble.diagnostics[0]
            said.append(replace(first, message=f"`{name}` is native: {first.message}", severity="warning", hint=""))
        wishes = [*wishes, f"{name}=native"]


def _refused(plan: Plan, trouble: MezzoError, wishes: list[str]) -> str:
    """The element that the verifier refuses, where it need not be in the kernel; else ""."""
    if plan.placement is None or plan.placement.kernel is None:
        return ""
    from mezzo.targets.kernel import KernelRefusal

    if not isinstance(trouble, KernelRefusal) or trouble.instance < 1:
        return ""
    name = plan.program.instances[trouble.instance].name
    wish = wish_for(name, wishes_for(wishes, plan.elements, plan.resolved.graph))
    return "" if wish is not None and wish.level in ("kernel", "native") else name
