"""Whose turn it is to change the configuration of a running router.

One change at a time, and each begins with what the one before it left: two clients that replace two elements at once
find both replaced.  Others wait for their turn.

Packet code that asks (a script does) cannot wait: nothing is swapped while it is under way.  Its change is *due*: made
ready at once, so that what is wrong is told, and swapped when its call has come back.  If it asks again before that,
the later change takes the due one's place, and begins with what that one would have left.  Where somebody else's change
is under way it is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.runtime.gently import gently

if TYPE_CHECKING:
    from mezzo.pipeline import Plan
    from mezzo.runtime.reload import Reload, Report
    from mezzo.runtime.router import Router

TURN_S = 0.02
Making = Callable[["Plan"], tuple["Plan", str]]  # of the plan before: the one after it, and its text


class Changing:
    """`router.changing`."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.due: Reload | None = None
        self.ending = False
        self._turn = threading.Lock()  # held from where a change begins until it is made; by a due one, too
        self._asking = threading.Lock()  # held by packet code that asks

    def run(self, making: Making) -> Report:
        """Changes it; MezzoError says why not, and then nothing has changed."""
        if self.router.is_inside():
            return self._from_inside(making)
        self._wait()
        try:
            with gently(self.router):
                change = self._made(making, self.router.plan)
                self.router.reloaded = change.run()
            return self.router.reloaded
        finally:
            self._turn.release()

    def end(self) -> None:
        """The router is about to be closed, and nobody runs it: there are no changes any more, when this returns."""
        self.ending = True
        due, self.due = self.due, None
        if due is not None:
            due.give_up()
            return
        while not self._turn.acquire(timeout=TURN_S):
            self.router.serve_if_idle()

    def _made(self, making: Making, before: Plan) -> Reload:
        from mezzo.runtime.reload import Reload

        return Reload(self.router, *making(before))

    def _wait(self) -> None:
        router = self.router
        while not self._turn.acquire(timeout=TURN_S):
            if self.ending:
                raise MezzoError("the router is closed")
            if router.runner == threading.get_ident():
                router.serve()
            else:
                router.serve_if_idle()

    # -- asked for by packet code

    def _from_inside(self, making: Making) -> Report:
        if not self._asking.acquire(blocking=False):
            raise _under_way()
        try:
            before = self.due
            if before is None and not self._turn.acquire(blocking=False):
                raise _under_way()
            return self._put_off(making, before)
        finally:
            self._asking.release()

    def _put_off(self, making: Making, before: Reload | None) -> Report:
        try:
            with gently(self.router):
                change = self._made(making, before.plan if before is not None else self.router.plan)
                change.make_ready()
        except BaseException:
            if before is None:
                self._turn.release()
            raise
        if before is not None:
            before.give_up()
        self.due = change
        self.router.at_quiescence(lambda: self._swap(change), lambda: None)
        return change.report()

    def _swap(self, change: Reload) -> None:
        """At rest, and no packet code is under way."""
        if self.due is not change:  # another one took its place
            return
        self.due = None
        try:
            change.swap_at_once()
            if not change.is_made:
                change.give_up()
                self.router.say(f"reload: {change.trouble}")
                return
            change.after()
            self.router.reloaded = change.report()
        finally:
            self._turn.release()


def _under_way() -> MezzoError:
    return MezzoError(Diagnostic("another change of the configuration is under way", hint="ask again when it is made"))
