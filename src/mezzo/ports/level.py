"""What the ends of devices have of the kernel's level of a router (docs/design/0003).

An input is entered by a root program, attached to its interface; packets that go up come by sockets in the root's map.
A wire is an interface in the map of devices, to which programs redirect.  Reinject runs a root itself.  The router
hands a part out before ports are opened; `_xdp_port` attaches it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.ports import _attach, _gates, _netdev, privileged

if TYPE_CHECKING:
    from mezzo.targets.kernel.part import Part


@dataclass(frozen=True, slots=True)
class Root:
    """Of an input: the program, its map of sockets by queue, how large it is, and who lowers its gates."""

    program: int
    sockets: int
    instructions: int
    keeper: _gates.Keeper | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """Of an output: its place in the map of devices."""

    devices: int
    key: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Of a Reinject: the part, the program, those that send (targets/kernel/senders), the interface that its packets
    are of (0 when it is gone), and whether a flow's packets stay in order."""

    part: Any
    program: int
    senders: tuple[int, ...]
    interface: int
    ordered: bool


def hand_out(ends: Sequence[Any], part: Part) -> None:
    """Gives those of the elements that are ends what they have of the part; they are numbered as in its plan."""
    plan, maps = part.plan, part.maps.descriptors
    assert plan is not None
    inputs = [ends[i] for i, _ in plan.entries]
    if _gates.SYMBOL in maps:
        _keep_gates(part, inputs)
    for n, end in enumerate(inputs):
        end.below = Root(part.roots[n].fd, maps[f"sockets{n}"], part.instructions, part.keeper)
        end.keep_gates(end.router.arena, part.keeper.bell if part.keeper is not None else 0)
    for i, key in plan.keys.items():
        ends[i].below = Wire(maps["devices"], key)
    if plan.injections:
        ends[plan.injections[0].instance].router.at_rest(lambda: _enter(ends, part))


def _enter(ends: Sequence[Any], part: Part) -> None:
    """While no packet code runs: what ways say changes with the program."""
    assert part.plan is not None
    part.injectors = [ends[one.instance] for one in part.plan.injections]
    for one, root in zip(part.plan.injections, part.injected_roots, strict=True):
        device = part.plan.devices[part.plan.entries[one.entry][0]]
        link, ordered = _netdev.maybe_link(device), _gates.SYMBOL in part.maps.descriptors
        index = link.index if link is not None else 0
        ends[one.instance].enter(Entry(part, root.fd, tuple(part.senders), index, ordered))


def _keep_gates(part: Part, inputs: Sequence[Any]) -> None:
    """By who does it for the part whose place this one takes."""
    there = [end.below.keeper for end in inputs if isinstance(end.below, Root)]
    keeper = next((one for one in there if one is not None and not one.ended), None)
    if keeper is not None and keeper is not part.keeper:
        keeper.go_on(part, inputs)
    elif keeper is None:
        _gates.Keeper(part, inputs)


def lend(ends: Sequence[Any], part: Part, fresh: Collection[Any]) -> None:
    """Gives new ends what they need to be opened, while another part runs, whose gates are kept for them as well."""
    plan, maps = part.plan, part.maps.descriptors
    assert plan is not None
    for n, (i, _) in enumerate(plan.entries):
        if any(ends[i] is one for one in fresh):
            ends[i].below = Root(part.roots[n].fd, maps[f"sockets{n}"], part.instructions)
            ends[i].keep_gates(ends[i].router.arena, 0)
    for i, key in plan.keys.items():
        if any(ends[i] is one for one in fresh):
            ends[i].below = Wire(maps["devices"], key)


# -- who can


def cannot_redirect(device: str) -> str:
    """Why packets cannot be redirected to an interface; "" when they can be, or the driver does not say."""
    link = _netdev.maybe_link(device)
    if link is None:
        return f"there is no interface {device}"
    if link.kind == "veth":
        return _no_peer(link)
    # Some drivers send such frames only with a program of their own attached: whether they do is known after that.
    features = _netdev.xdp_features(link.index)
    able = features is None or features & (_netdev.NDO_XMIT | _netdev.XDP_BASIC)
    return "" if able else f"its driver ({link.kind or 'a device'}) sends no frames of XDP programs"


def is_veth(device: str) -> bool:
    link = _netdev.maybe_link(device)
    return link is not None and link.kind == "veth"


def queues_at_once(device: str) -> int:
    """On how many CPUs at once a program of an interface may run: by its queues; generic XDP is where the packet is."""
    link = _netdev.maybe_link(device)
    if link is None:
        return 1
    features = _netdev.xdp_features(link.index)
    native = features is None or features & _netdev.XDP_BASIC
    return _attach.queues_of(link.index) if native else os.cpu_count() or 1


def _no_peer(link: _netdev.Link) -> str:
    """Asked of whoever will switch it: nothing is switched by that."""
    try:
        privileged.ask({"do": "features", "device": link.name, "at": "peer"})
        return ""
    except (MezzoError, OSError) as trouble:
        reason = getattr(trouble, "reason", trouble)
        return f"the other end of the veth must have GRO on, and it cannot be switched: {reason}"


def can_transmit(link: _netdev.Link) -> bool:
    """Whether the driver takes redirected frames, as things are; before Linux 6.3 it does not say."""
    features = _netdev.xdp_features(link.index)
    return features is None or bool(features & _netdev.NDO_XMIT)
