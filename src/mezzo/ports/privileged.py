"""The only place that needs rights: what a port cannot do as an ordinary user is asked for here.

    descriptors, facts = privileged.ask({"do": "packet", "device": "eth0"})

`RIGHTS` is the whole list.  A request is a small dict of JSON values, never code; the answer is descriptors that the
asker owns (and closes with `os.close`), and facts, again JSON values.  It is done in process where the process has the
capabilities, else by `mezzo-open` (mezzo.ports._opener), which may have them; who asks need not know which.

    do          fields beside "do"                               gives
    packet      device, type "raw" | "dgram"                     [an AF_PACKET socket, protocol 0, not bound yet],
                                                                 facts: index, name, mac, mtu, flags, kind …
    promiscuous device                                           [a descriptor that keeps it so until it is closed]
    xdp         device, queues, mode, frags, take, force         [the link, a socket for each queue], see _attach.py
    xdp_root    device, queues, mode, frags, force, and a map    the same, for a program of the kernel's level, which
                of sockets                                       follows
    xdp_sockets device, count                                    [count AF_XDP sockets, for sending only]
    bpf_map     device, kind, key, value, entries, name, flags   [a map of the kernel's level], see _making.py
    bpf_program device, name, flags, and descriptors: the code,  [a program of the kernel's level]; none, and the fact
                the maps that it names                           "refused", an errno: the log is in place of the code
    xdp_pass    device                                           [a program that says XDP_PASS, attached to nothing]
    alone       device                                           [a descriptor; the host's stack gets none of its
                                                                 packets until it is closed]
    tap         device, kind "tap" | "tun", vnet_header, queues, [a descriptor for each queue of /dev/net/tun],
                persistent                                       facts as packet's, after the device is made
    link        device, mtu, up, mac, addresses ["10.0.0.1/24"]  [], facts after the change, "undo"
    route       device, gateway (of a tap device)                []; the host's default route goes over it
    features    device, at "here" | "peer", off [names], on []   [], facts: "changed" {name: bool}, "refused" [names],
                                                                 "where" (text for people), "undo"
    channels    device, combined                                 [], facts, "undo"

`facts["undo"]` is a list of changes that outlive the process.  From that moment on somebody undoes them when this
process dies, however it dies (mezzo.ports.warden, or the helper); a port hands the list to `undo(list)` in `close()`.

What cannot be had raises `Refused`: its text names the device, the missing capabilities and how to grant them;
`reason` is one line for a driver's `refusals`, `errno` the number, `missing` the names of capabilities.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.ports import _capabilities

Request = Mapping[str, Any]
Answer = tuple[list[int], dict[str, Any]]


class Refused(MezzoError):
    """A request that was not granted."""

    def __init__(self, reason: str, number: int = 0, missing: Iterable[str] = (), hint: str = "") -> None:
        super().__init__(Diagnostic(reason, hint=hint))
        self.reason, self.errno, self.missing, self.hint = reason, number, tuple(missing), hint

    @classmethod
    def of(cls, trouble: MezzoError) -> Refused:
        """Any error of the user's in this form."""
        if isinstance(trouble, Refused):
            return trouble
        first = trouble.diagnostics[0]
        return cls(first.message, getattr(trouble, "errno", 0), hint=first.hint)


SOME = -1  # descriptors, one at least


@dataclass(frozen=True)
class Right:
    """One kind of request: `work` is `module:function` of mezzo.ports, `fields` what it may say beside the device,
    `takes` how many descriptors come with it."""

    what: str
    work: str
    needs: tuple[str, ...]
    fields: Mapping[str, type] = field(default_factory=dict)
    takes: int = 0

    def do(self, request: Request, given: Sequence[int]) -> Answer:
        module, _, name = self.work.partition(":")
        function: Callable[..., Answer] = getattr(import_module(f"mezzo.ports.{module}"), name)
        return function(request, given) if self.takes else function(request)


RIGHTS: Mapping[str, Right] = {
    "packet": Right("a packet socket", "_rights:packet", ("CAP_NET_RAW",), {"type": str}),
    "promiscuous": Right("promiscuous mode", "_rights:promiscuous", ("CAP_NET_RAW",)),
    "xdp": Right(
        "an XDP program",
        "_attach:open_xdp",
        ("CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"),
        {"queues": int, "mode": str, "frags": bool, "force": bool, "take": str},
    ),
    "xdp_root": Right(
        "an XDP program",
        "_attach:open_root",
        ("CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"),
        {"queues": int, "mode": str, "frags": bool, "force": bool},
        takes=1,
    ),
    "xdp_sockets": Right("AF_XDP sockets", "_attach:bare_sockets", ("CAP_NET_RAW",), {"count": int}),
    "bpf_map": Right(
        "a map of the kernel's level",
        "_making:make_map",
        ("CAP_BPF",),
        {"kind": int, "key": int, "value": int, "entries": int, "name": str, "flags": int},
    ),
    "bpf_program": Right(
        "a program of the kernel's level",
        "_making:make_program",
        ("CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON"),
        {"name": str, "flags": int},
        takes=SOME,
    ),
    "xdp_pass": Right("the way to the host's stack", "_attach:pass_program", ("CAP_NET_ADMIN", "CAP_BPF")),
    "alone": Right("keeping its packets from the host", "_tcx:alone", ("CAP_NET_ADMIN", "CAP_BPF")),
    "tap": Right(
        "a tap device",
        "_rights:tap",
        ("CAP_NET_ADMIN",),
        {"kind": str, "vnet_header": bool, "queues": int, "persistent": bool},
    ),
    "link": Right(
        "its settings",
        "_rights:link",
        ("CAP_NET_ADMIN",),
        {"mtu": int, "up": bool, "mac": str, "addresses": list},
    ),
    "route": Right("a default route over it", "_rights:route", ("CAP_NET_ADMIN",), {"gateway": str}),
    "features": Right(
        "offload switches",
        "_ethtool:switch",
        ("CAP_NET_ADMIN",),
        {"at": str, "off": list, "on": list},
    ),
    "channels": Right("its number of queues", "_ethtool:set_channels", ("CAP_NET_ADMIN",), {"combined": int}),
}
MOST = {"queues": 64, "count": 64, "combined": 1024}  # each costs the kernel memory
PEER_ELSEWHERE = ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")  # entering the namespace of a veth's peer takes the second


def ask(request: Request, given: Sequence[int] = ()) -> Answer:
    """Does one request of the table above, wherever the rights for it are; descriptors that are given stay ours."""
    right = checked(request)
    from mezzo.ports import _opener

    helper = _opener.helper_for(_capabilities.missing(right.needs))
    return helper.ask(request, given) if helper is not None else perform(request, given)


def making(device: str) -> AbstractContextManager[None]:
    """In the block the kernel's level of a router with that input is made (base.bpf), wherever the rights are."""
    from mezzo.ports import _making

    return _making.for_device(device)


def undo(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Takes back what `facts["undo"]` told; gives what could not be undone, as text."""
    from mezzo.ports import _opener, _undo

    mine, theirs = _undo.sorted_by_owner(changes)
    return [*_undo.ledger().release(mine), *(_opener.undo(theirs) if theirs else [])]


def use(path: str) -> None:
    """From now on the `mezzo-open` that listens at `path` is asked; "" takes that back."""
    from mezzo.ports import _opener

    _opener.use(path)


def renounce() -> None:
    """All is open.  Where a helper did it, this process gives up every way to more rights than it has; the helper stays
    connected, for what is opened later and for what must be undone."""
    from mezzo.ports import _opener

    if _opener.in_use():
        _capabilities.renounce()


def checked(request: Request) -> Right:
    """The table's row for a request; a field that it does not know is our mistake, or a helper's client's."""
    what = request.get("do")
    right = RIGHTS.get(what) if isinstance(what, str) else None
    if right is None:
        raise Refused(f"there is no right `{what!s:.80}`; there are: {', '.join(RIGHTS)}", errno.EINVAL)
    kinds = {"do": str, "device": str} | dict(right.fields)
    for name, value in request.items():
        known = name in kinds and isinstance(value, kinds[name]) and _is_plain(value)
        if not known or (name in MOST and value > MOST[name]):
            raise Refused(f"{request['do']}: {name} {value!r:.80} is not part of this request", errno.EINVAL)
    if not request.get("device"):
        raise Refused(f"{request['do']}: which device?", errno.EINVAL)
    return right


def _is_plain(value: Any) -> bool:
    """Text without surprises, numbers that fit, lists of such text: a helper reads this from a stranger."""
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, int):
        return 0 <= value < 1 << 31
    return isinstance(value, list) and all(isinstance(x, str) and x.isprintable() for x in value)


def perform(request: Request, given: Sequence[int] = ()) -> Answer:
    """Does a request in this process; what the kernel refuses is said with the capability that is missing."""
    right = checked(request)
    if len(given) != right.takes and not (right.takes == SOME and given):
        said = f"{len(given)} descriptors are not part of this request"
        raise Refused(f"{request['do']}: {said}", errno.EINVAL)
    try:
        return right.do(request, given)
    except OSError as trouble:
        raise refusal(request, right, trouble) from trouble
    except MezzoError as trouble:
        raise Refused.of(trouble) from trouble
    except (ValueError, LookupError, OverflowError) as trouble:  # an address that is none, a mode that nobody knows
        raise Refused(f"{request['device']}: {right.what}: {trouble}", errno.EINVAL) from trouble


def refusal(request: Request, right: Right, trouble: OSError) -> Refused:
    """What to tell the user about an error of the kernel."""
    number, device = trouble.errno or 0, request["device"]
    head = f"{device}: {right.what}"
    if number not in (errno.EPERM, errno.EACCES):
        return Refused(f"{head}: {_said(trouble)}", number)
    needs = PEER_ELSEWHERE if request.get("at") == "peer" else right.needs
    missing = _capabilities.missing(needs)
    if missing:
        hint = _capabilities.how_to_grant(device, missing)
        verb = "need" if right.what.endswith(("sockets", "settings", "switches")) else "needs"
        return Refused(f"{head} {verb} {' and '.join(missing)}, which this process has not", number, missing, hint)
    return Refused(f"{head}: {_said(trouble)}", number, hint=_capabilities.all_there(needs))


def _said(trouble: OSError) -> str:
    return trouble.strerror or (os.strerror(trouble.errno) if trouble.errno else str(trouble))
