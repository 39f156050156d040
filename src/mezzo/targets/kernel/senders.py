"""Programs that send a packet as it is: the first to the host's stack, the others to a place in the map of devices.

Native code runs them on live frames, for packets that it handed to the kernel's level (docs/design/0003).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from mezzo.base import bpf
from mezzo.targets.kernel.frame import DROP, PASS
from mezzo.targets.kernel.plan import KernelPlan
from mezzo.targets.kernel.roads import DEVICES

NAME = "mezzo_sends"
REDIRECT = 51  # the helper bpf_redirect_map
MOVE, CALL, EXIT, WIDE, BY_DESCRIPTOR = 0xB7, 0x85, 0x95, 0x18, 1  # RFC 9669


def _code(*rows: tuple[int, int, int]) -> bytes:
    """Instructions of (opcode, registers, immediate)."""
    return b"".join(struct.pack("=BBhi", opcode, registers, 0, immediate) for opcode, registers, immediate in rows)


def passing() -> bytes:
    return _code((MOVE, 0, PASS), (EXIT, 0, 0))


def redirecting(devices: int, key: int) -> bytes:
    """To what the map has under a key; where there is nothing the packet dies."""
    named = (WIDE, 1 | BY_DESCRIPTOR << 4, devices), (0, 0, 0)
    return _code(*named, (MOVE, 2, key), (MOVE, 3, DROP), (CALL, 0, REDIRECT), (EXIT, 0, 0))


def load_senders(plan: KernelPlan, maps: Mapping[str, int], frags: bool) -> list[int]:
    """Their descriptors, in the order of the ways that name them; programs of one map are all with `frags`, or none."""
    if not plan.injections:
        return []
    codes = [passing(), *(redirecting(maps[DEVICES], key) for key in sorted(plan.keys.values()))]
    return [bpf.load_code(code, NAME, bpf.HAS_FRAGS if frags else 0) for code in codes]
