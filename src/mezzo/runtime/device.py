"""A device from Python, without writing a graph.

    with connect("packet", "eth0", promisc=True) as device:
        device.send([b"..."])
        print(device.receive(seconds=0.1))

Behind it is a router: a receiving end into a Collect, a Feed into a sending end.  It runs while `send` or `receive`
does; between the calls packets wait in the rings of the device.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import Collect, Feed, FromDevice, ToDevice
from mezzo.elements.args import Env
from mezzo.graph import Graph
from mezzo.pipeline import graph_of
from mezzo.ports._end import keywords
from mezzo.ports.port import Port
from mezzo.runtime.router import Router

ROOM = 4096  # packets that wait between two calls
SLICE_S = 0.01  # how long `receive` runs before it looks at what came
OF_ROUTER = ("target", "frames", "frame_size", "seed", "virtual", "cache")


class Device:
    """An open device; `close` it, or use it as a context manager."""

    def __init__(self, router: Router) -> None:
        self.router = router

    @property
    def port(self) -> Port:
        return next(iter(self.router.ports))  # type: ignore[no-any-return]

    def send(self, packets: Iterable[Any], seconds: float = 1.0) -> int:
        """Hands packets to the device; how many it took before the time was over."""
        before, given, fed = self._sent(), list(packets), 0
        end = time.monotonic() + seconds
        while (fed < len(given) or self._waiting()) and time.monotonic() < end:
            fed += self.router.feed("out", given[fed : fed + ROOM])
            self.router.run(seconds=SLICE_S, until=lambda: not self._waiting())
        return self._sent() - before

    def _waiting(self) -> int:
        return int(self.router.read("out.length"))

    def _sent(self) -> int:
        return int(self.router.read("to.count"))

    def receive(self, seconds: float = 0.0, least: int = 1) -> list[bytes]:
        """The packets that came; waits for `least` of them, for `seconds` at most."""
        end = time.monotonic() + seconds
        found: list[bytes] = []
        while True:
            self.router.run(seconds=SLICE_S, until=lambda: self.router.elements["in"].cell("ring").dump() != [])
            found += self.router.collect("in")
            if len(found) >= least or time.monotonic() >= end:
                return found

    def facts(self) -> dict[str, Any]:
        """What the device is, and what it counted."""
        return self.port.facts() | self.port.statistics()

    def close(self) -> None:
        self.router.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def connect(method: str, device: str | Port = "", **options: Any) -> Device:
    """Opens a device by one of the methods of FromDevice.  Options are those of FromDevice, ToDevice and Router."""
    more = {name: options.pop(name) for name in OF_ROUTER if name in options}
    known = {name: _options(cls, method, device) for name, cls in ENDS.items()}
    both = sorted({word for words in known.values() for word in words})
    unknown = [name for name in options if name.upper() not in both]
    if unknown:
        hint = f"it takes {', '.join(w.lower() for w in both)}"
        raise MezzoError(Diagnostic(f"connect: METHOD {method.upper()} has no option `{unknown[0]}`", hint=hint))
    given = {name: {k: v for k, v in options.items() if k.upper() in words} for name, words in known.items()}
    fault = received(given["from"].pop("fault", ""))
    given["from"] |= {"fault": fault} if fault else {}
    source, sink = (cls(device, name=name, method=method, **given[name]) for name, cls in ENDS.items())
    parts = [graph_of(source >> Collect(name="in")), graph_of(Feed(name="out") >> sink)]
    instances = {n: i for graph, _ in parts for n, i in graph.instances.items()}
    made = {n: e for _, elements in parts for n, e in elements.items()}
    graph = Graph(instances, tuple(c for graph, _ in parts for c in graph.connections))
    return Device(Router.from_graph(graph, made, **more))


def received(fault: str) -> str:
    """FAULT for the end that receives, which has no completions to lose."""
    words = fault.replace(",", " ").split()
    left = [w for pair in zip(words[::2], words[1::2], strict=False) if pair[0] != "lose" for w in pair]
    return " ".join(left) if "lose" in words else fault


ENDS: dict[str, Any] = {"from": FromDevice, "to": ToDevice}


def _options(cls: Any, method: str, device: str | Port) -> list[str]:
    """The keywords that an end has with this method."""
    end = cls(device)
    end.become([device.device if isinstance(device, Port) else device or "-", f"METHOD {method}"], Env())
    return [word for word in keywords(type(end)) if word not in ("DEVNAME", "METHOD")]
