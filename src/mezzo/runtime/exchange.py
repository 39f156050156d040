"""Packets that Python gives to a running router, and takes from it: the Feed and Collect elements' other side.

All of it runs where no packet code does, for it changes rings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements.element import Element
from mezzo.packet.arena import Arena, Packet


def octets(data: Any, longest: int) -> bytes | memoryview:
    """A packet's bytes, given as an object with a buffer of bytes; refuses what would be read as something else."""
    try:
        view = memoryview(data)
    except TypeError:
        raise MezzoError(f"a packet is bytes, or a row of a uint8 array, not {type(data).__name__}") from None
    if view.itemsize != 1:
        raise MezzoError(f"a packet is bytes, or a row of a uint8 array; this has {view.itemsize} bytes a number")
    if view.nbytes > longest:
        raise MezzoError(f"a packet of {view.nbytes} bytes: a frame has room for {longest}; give a larger frame_size")
    return data if isinstance(data, bytes) else view.tobytes()


class Exchange:
    """What a router can do with packets of Python's; `Router` is one."""

    arena: Arena
    elements: dict[str, Element]
    closed: bool
    _at_rest: Callable[[Callable[[], Any]], Any]
    _require_open: Callable[[], None]
    wake: Callable[[Element, str], None]

    def feed(self, name: str, packets: Iterable[Any]) -> int:
        """Gives packets (bytes-like, or the rows of a uint8 array) to a Feed element; how many it took."""
        self._require_open()
        element = self._element_for_packets(name, "Feed")
        if isinstance(packets, bytes | bytearray):
            raise MezzoError("feed takes several packets: write [packet] for one")
        return int(self._at_rest(lambda: self._feed(element, packets)))

    def _feed(self, element: Element, packets: Iterable[Any]) -> int:
        count = 0
        for data in packets:
            packet = self.arena.make_from(octets(data, self.arena.longest))
            if packet is None or not element.cell("ring").push(packet.frame):
                if packet is not None:
                    self.arena.free(packet.frame)
                break
            count += 1
        self.wake(element, "self")
        self.wake(element, "down")
        return count

    def collect(self, name: str) -> list[bytes]:
        """Takes the packets out of a Collect element, as bytes."""
        return self.collect_packets(name, bytes)

    def collect_packets(self, name: str, take: Callable[[Packet], Any]) -> list[Any]:
        """`take(packet)` of each packet collected; the packet goes home after that."""
        self._require_open()
        element = self._element_for_packets(name, "Collect")
        return list(self._at_rest(lambda: self._collect(element, take)))

    def _collect(self, element: Element, take: Callable[[Packet], Any]) -> list[Any]:
        found: list[Any] = []
        while (frame := element.cell("ring").pop()) >= 0:
            try:
                found.append(take(Packet(self.arena, frame)))
            finally:
                self.arena.free(frame)
        if element.index >= 0:
            self.wake(element, "self")
        return found

    def collect_array(self, name: str) -> tuple[Any, Any]:
        """The collected packets as numpy arrays: (n x longest uint8, zero behind each packet's end; n lengths)."""
        import numpy as np

        packets = self.collect(name)
        lengths = np.array([len(p) for p in packets], dtype=np.uint32)
        data = np.zeros((len(packets), max(map(len, packets), default=0)), dtype=np.uint8)
        for row, packet in zip(data, packets, strict=True):
            row[: len(packet)] = np.frombuffer(packet, dtype=np.uint8)
        return data, lengths

    def _element_for_packets(self, name: str, cls: str) -> Element:
        """The Feed or Collect element of this name; the error says which there are."""
        if self.closed:
            raise MezzoError("the router is closed")
        element = self.elements.get(name)
        if element is None or type(element).__name__ != cls:
            fit = [n for n, e in self.elements.items() if type(e).__name__ == cls]
            there = f"these are {cls} elements: {', '.join(fit)}" if fit else f"put one there: {name} :: {cls}"
            what = f"is no {cls} element" if element is not None else "is not there"
            raise MezzoError(Diagnostic(f"`{name}` {what}", hint=there))
        return element
