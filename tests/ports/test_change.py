"""A device whose ends change at a reload is opened anew; where that fails, all goes on as it was."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from mezzo.base import MezzoError
from mezzo.ports import packet
from mezzo.ports.port import Port
from mezzo.runtime import Router
from tests.ports import netlab

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
METHODS = pytest.mark.parametrize("method", ["XDP", "PACKET"])
FRAME = bytes.fromhex("ffffffffffff 020000000001 88b5") + bytes(50)


class Lab:
    """A router that counts what comes by an interface and sends it back, while the block runs."""

    def __init__(self, method: str, threads: int) -> None:
        self.method, self.threads, self.pair = method, threads, None

    def text(self, more: str = "", behind: str = "") -> str:
        name, method = self.pair.b.name, self.method
        ends = f"f :: FromDevice({name}, METHOD {method}, PROMISC true{more}) -> c :: Counter -> q :: Queue(50)"
        return f"{ends} -> t :: ToDevice({name}, METHOD {method}); {behind}"

    def send(self) -> None:
        """A frame comes there."""
        with netlab.raw_socket(self.pair.a) as wire:
            before = self.router.read("c.count")
            wire.send(FRAME)
            netlab.wait_until(lambda: self.router.read("c.count") != before)


@contextmanager
def running(method: str, threads: int = 1) -> Iterator[Lab]:
    lab, trouble = Lab(method, threads), []
    with ExitStack() as stack:
        far = stack.enter_context(netlab.namespace())
        lab.pair = stack.enter_context(netlab.veth_pair(far, ""))
        lab.router = stack.enter_context(Router.from_click(lab.text(), threads=threads, frames=16384))
        lab.router.output = io.StringIO()

        def work() -> None:
            try:
                lab.ended = lab.router.run()
            except BaseException as found:
                trouble.append(found)

        lab.thread = threading.Thread(target=work)
        lab.thread.start()
        try:
            yield lab
        finally:
            lab.router.please_stop()
            lab.thread.join(10)
        assert not trouble, trouble
        assert lab.router.conservation().balanced


@pytest.mark.parametrize("threads", [1, 2])
def test_ends_that_do_not_fit_together_are_refused_before_anything_is_closed(threads: int) -> None:
    with running("XDP", threads) as lab:
        lab.send()
        port = lab.router.elements["f"].port
        with pytest.raises(MezzoError, match=r"is read by `f` already"):
            lab.router.reload(lab.text(behind=f"g :: FromDevice({lab.pair.b.name}, METHOD XDP) -> Discard;"))
        assert lab.router.elements["f"].port is port and port.state == "open"
        lab.send()


@METHODS
@pytest.mark.parametrize("threads", [1, 2])
def test_what_does_not_open_anew_is_opened_as_it_was(method: str, threads: int, monkeypatch) -> None:
    with running(method, threads) as lab:
        lab.send()
        kind, opened = type(lab.router.elements["f"].port), []
        real = kind.open

        def fails_once(port: Port, arena) -> None:
            opened.append(port)
            if len(opened) == 1:
                raise OSError(16, "somebody else has it")
            real(port, arena)

        monkeypatch.setattr(kind, "open", fails_once)
        with pytest.raises(MezzoError, match="somebody else has it"):
            lab.router.reload(lab.text(", BURST 8"))
        assert len(opened) == 2 and lab.router.text == lab.text()
        lab.send()
        assert "reopened" in str(lab.router.reload(lab.text(", BURST 8")))
        lab.send()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_device_that_cannot_be_had_at_all_any_more_ends_the_run(threads: int, monkeypatch) -> None:
    """No packet code may touch the rings that it had."""
    with running("PACKET", threads) as lab:
        lab.send()

        def fails(port: Port, arena) -> None:
            raise OSError(16, "somebody else has it")

        monkeypatch.setattr(packet.Port, "open", fails)
        with pytest.raises(MezzoError, match="somebody else has it"):
            lab.router.reload(lab.text(", BURST 8"))
        lab.thread.join(10)
        assert lab.ended == "stopped" and "neither anew nor as it was" in lab.router.failures[0]
        with pytest.raises(MezzoError, match="neither anew nor as it was"):
            lab.router.run()


@METHODS
def test_a_device_that_went_is_opened_when_it_is_back(method: str) -> None:
    with running(method) as lab:
        lab.send()
        pair, port = lab.pair, lab.router.elements["f"].port
        netlab.ip("link", "del", pair.b.name)
        netlab.wait_until(lambda: port.state == "gone")
        with pytest.raises(MezzoError, match="there is no network interface"):
            lab.router.reload(lab.text(", BURST 8"))
        assert "reopened" not in str(lab.router.reload(lab.text(behind="Idle -> Discard;")))
        with netlab.veth_pair(pair.a.ns, "", names=(pair.a.name, pair.b.name)):
            assert f"reopened {pair.b.name}" in str(lab.router.reload(lab.text()))
            lab.send()
