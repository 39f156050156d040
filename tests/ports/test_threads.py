"""Both ends of a device on threads of their own: every frame comes back, in order."""

from __future__ import annotations

import socket
import threading

import pytest

from mezzo.runtime import Router
from tests.ports.netlab import Pair, inside, raw_socket, wait_until

pytestmark = pytest.mark.needs_root
KIND = 0x88B5  # an Ethernet type for experiments
FRAMES = 2000


def frame(number: int) -> bytes:
    return b"\xff" * 6 + b"\x02\0\0\0\0\x01" + KIND.to_bytes(2, "big") + number.to_bytes(4, "big") + bytes(42)


def listen(sock: socket.socket, heard: list[int]) -> None:
    """Writes down the numbers of the frames that come back."""
    sock.settimeout(5)
    while len(heard) < FRAMES:
        data = sock.recv(2048)
        if data[12:14] == KIND.to_bytes(2, "big") and data[:6] != b"\xff" * 6:
            heard.append(int.from_bytes(data[14:18], "big"))


@pytest.mark.parametrize("method", ["packet", "xdp"])
def test_receiver_and_transmitter_on_two_threads(pair: Pair, method: str) -> None:
    text = f"""
        StaticThreadSched(f 0, t 1);
        f :: FromDevice({pair.a.name}, METHOD {method}, PROMISC true) -> c :: Classifier(12/88B5) -> EtherMirror
            -> q :: Queue(1000) -> t :: ToDevice({pair.a.name}, METHOD {method});
    """
    with inside(pair.a.ns), Router.from_click(text, threads=2, frames=8192) as router:
        assert "q\t0, 1\tspsc\t" in router.read("threads")
        runner = threading.Thread(target=router.run)
        runner.start()
        try:
            with raw_socket(pair.b) as sock:
                heard: list[int] = []
                listener = threading.Thread(target=listen, args=(sock, heard))
                listener.start()
                for number in range(FRAMES):
                    # The kernel's ring between the two ends of a veth has 256 places.
                    wait_until(lambda sent=number: sent - len(heard) < 100 or not listener.is_alive())  # type: ignore[misc]
                    sock.send(frame(number))
                listener.join(10)
                assert heard == list(range(FRAMES))
        finally:
            router.please_stop()
            runner.join(10)
        assert not runner.is_alive()
