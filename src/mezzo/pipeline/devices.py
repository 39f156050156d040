"""Which ends of devices have a kernel half, and which queues in front of a device the kernel's own can stand for.

A packet that the kernel sends to a device does not wait in a Queue of the router: the device's own transmit queue takes
it, or drops it.  That is right where the Queue does no more than hold packets until the device pulls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mezzo.elements.element import Element
from mezzo.elements.queue import Queue, SimpleQueue
from mezzo.ir.module import Linked
from mezzo.packet.arena import HEADROOM
from mezzo.pipeline.link import Linker, Place
from mezzo.pipeline.wire import has_wire

HOOKS = (("traced", "TRACE"), ("faulty", "FAULT"), ("limited", "RATE"))
STANDS_IN = (Queue, SimpleQueue)  # for these the device's own queue does
OPTIONS = ("snaplen", "force_ip", "take", "outbound", "protocol", "bpf_filter")  # of a receiver, which its half has not


@dataclass(frozen=True, slots=True)
class Road:
    """From a queue to the device behind it: the elements on the way, and the device; or why there is none."""

    through: tuple[int, ...] = ()
    device: int = -1
    why: str = ""


def is_input(element: Element) -> bool:
    """Whether packets come into the router here, from a device that has a kernel half."""
    return has_wire(element) and element.ninputs == 0


def is_injector(element: Element) -> bool:
    """Whether native code hands packets to the kernel here, where what is behind it is there."""
    return bool(getattr(type(element), "injects", False))


def takes_up(element: Element) -> bool:
    """Whether packets come up here: it has outputs for them then."""
    return hasattr(element, "up") and (is_input(element) or is_injector(element))


def is_pulling(element: Element) -> bool:
    """Whether a device's end pulls what it sends."""
    return has_wire(element) and element.input_kinds == ("pull",)


def input_trouble(element: Element, others: Sequence[Element], virtual: bool) -> str:
    """Why a receiver has no kernel half; "" when it has one."""
    if virtual:
        return "the router runs under a virtual clock, and devices do not"
    if trouble := _device_trouble(element):
        return trouble
    for name in OPTIONS:
        if getattr(element, name, None):
            return f"{name.upper()} is done natively"
    if getattr(element, "headroom", 0) > HEADROOM:
        return f"HEADROOM above {HEADROOM} is made natively"
    device = element.devname  # type: ignore[attr-defined]
    twin = next(
        (o.name for o in others if o is not element and is_input(o) and getattr(o, "devname", "") == device), ""
    )
    return f"`{twin}` reads another queue of the device" if twin else ""


def output_trouble(element: Element) -> str:
    """Why a transmitter has no kernel half; "" when it has one."""
    if getattr(element, "bql", False):
        return "BQL counts what goes by its ring"
    if getattr(element, "copies", False):
        return "output 0 gets copies of what was sent"
    return _device_trouble(element) or getattr(element, "wire_trouble", str)()


def cannot_turn(element: Element) -> bool:
    """Whether what came in by a transmitter's device cannot go back by it as XDP_TX."""
    ask = getattr(element, "cannot_turn", None)
    return ask is not None and ask()


def told_of(element: Element) -> tuple[object, ...]:
    """All that a device's end says of its device, for a name under which something is kept."""
    trouble = "" if is_input(element) else output_trouble(element)
    return trouble, cannot_turn(element), queues_of(element)


def _device_trouble(element: Element) -> str:
    method = getattr(element, "method", "xdp")
    if method != "xdp":
        return f"its METHOD is {method.upper()}, and only XDP has a kernel half"
    hooks = [word for name, word in HOOKS if getattr(element, name, False)]
    return f"{' and '.join(hooks)} sees packets natively" if hooks else ""


def road_behind(queue: int, elements: Sequence[Element], linker: Linker) -> Road:
    """What is behind a queue; numbers are those of elements."""
    element = elements[queue]
    if type(element) not in STANDS_IN:
        return Road(why=f"{type(element).__name__} decides which packets it keeps")
    if len(linker.outs[queue]) > 1 and linker.outs[queue][1]:
        return Road(why="output 1 gets what finds it full, and the kernel does not tell")
    through: list[int] = []
    at = queue
    while True:
        ends: list[Place] = linker.outs[at][0] if linker.outs[at] else []
        if not ends:
            return Road(why="nothing pulls from it")
        at = ends[0][0]
        if is_pulling(elements[at]):
            return Road(tuple(through), at)
        if linker.units[at].function("process") is None or len(linker.ins[at]) != 1:
            return Road(why=f"`{elements[at].name}` pulls from it, which is no device")
        through.append(at)


def is_queue(linked: Linked) -> bool:
    """Whether packets are pushed in here and pulled out."""
    return linked.unit.function("push") is not None and linked.pull_outputs[:1] == (True,)


def queues_of(element: Element) -> int:
    """On how many CPUs at once packets of a device may come."""
    ask = getattr(element, "queues_at_once", None)
    return ask() if ask is not None else 1
