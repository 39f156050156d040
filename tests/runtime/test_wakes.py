"""Wakes that Python asks for reach whoever pulls or pushes, whether packet code asks for them or not."""

from __future__ import annotations

import pytest

from mezzo.elements import Arg, Bool, Element, flag, library, write
from mezzo.runtime import Router


@library.register
class Gate(Element):
    """Lets pulled packets through while it is open."""

    processing = "l/l"
    open_ = Arg(Bool(), False, live=flag, keyword="OPEN")

    def pull(self, port):
        if not self.open_:
            return None
        p = self.pull(0)
        return p

    @write("open", "opens the gate")
    def set_open(self, text):
        self.open_ = True
        self.wake_downstream()


@pytest.mark.parametrize("target", ["python", "native"])
def test_a_handler_wakes_those_that_pull(target):
    text = "in0 :: Feed -> Queue -> g :: Gate -> Unqueue -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        router.feed("in0", [b"a", b"b"])
        router.run()
        assert router.collect("out0") == []
        router.write("g.open", "")
        router.run()
        assert router.collect("out0") == [b"a", b"b"]
