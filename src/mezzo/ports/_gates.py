"""Who lowers the gates of the kernel's level (targets/kernel/gates), when nothing of their flows is up any more.

    bell ─► pause ─► which are up? ─► barrier ─► rings' ends ─► at rest: lower what nobody has ─► again, or sleep

A packet that is up was redirected by a program that still runs, is in a receive ring, or is in a frame: a packet's, or
one in a transmit ring.  A global memory barrier (membarrier(2)) lasts until every program that ran when it began has
ended its batch, so the rings have its packets then; what the rings had then is in frames when they were read that far;
and frames know the gate, copies too, until they are free.  So a gate that none knows is of packets that have all left,
or died.  It is lowered to the number that it had before the barrier: what went up since has raised it further.

A receiver rings the bell when a packet with a gate comes up and nobody is awake.  How long the pauses are goes by what
a look costs, since packets wait meanwhile, and by what it brings.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mezzo.base import MezzoError
from mezzo.packet.arena import FREE, META, META_SIZE, Arena
from mezzo.ports._memory import Memory

if TYPE_CHECKING:
    from mezzo.targets.kernel.part import Part

SYMBOL = "gates"
NUMBERS = {"x86_64": 324}  # of membarrier; asm-generic/unistd.h has 283
GENERIC, GLOBAL = 283, 1
LEAST_S, MOST_S = 0.001, 0.05  # of a pause
SHARE = 20  # a look takes this part of the time at most
PATIENCE_S = 0.1  # where the kernel has no barrier: longer than any batch takes
NONE = 0xFFFF_FFFF  # no descriptor
_bells: WeakKeyDictionary[Arena, list[Memory]] = WeakKeyDictionary()
_SOME = re.compile(rb"[^\0]")
_libc = ctypes.CDLL(None, use_errno=True)


class Keeper:
    """Of the gates of one part; `ends` are its device inputs.  `bell` is where they find the bell."""

    def __init__(self, part: Part, ends: Sequence[Any]) -> None:
        self._lock, self._ended = threading.Lock(), False
        self._take(part, ends)
        self._event = os.eventfd(0, os.EFD_CLOEXEC)
        # Packet code may be about to ring when another keeper takes the place of this: its memory stays with the arena.
        self._memory = Memory(8)
        _bells.setdefault(self.ends[0].router.arena, []).append(self._memory)
        self._rung = memoryview(self._memory.map).cast("I")
        self._rung[1] = self._event
        self.bell = self._memory.address
        self.looks = 0
        self._thread = threading.Thread(target=self._watch, name="mezzo-gates", daemon=True)
        self._thread.start()

    def _take(self, part: Part, ends: Sequence[Any]) -> None:
        self.part, self.ends = part, list(ends)
        self._words = memoryview(part.views.view(SYMBOL)).cast("I")
        part.keeper = self

    def go_on(self, part: Part, ends: Sequence[Any]) -> None:
        """With a part that takes the place of the one that there was, in the same maps."""
        with self._lock:
            self.part.keeper = None
            self._words.release()
            self._take(part, ends)

    @property
    def ended(self) -> bool:
        return self._ended

    def leave(self, ends: Sequence[Any]) -> None:
        """The rings of some ends go."""
        with self._lock:
            self.ends = [end for end in self.ends if all(end is not one for one in ends)]
        if not self.ends:
            self.close()

    def close(self) -> None:
        """From here on nothing of the router is looked at.  May be called while no packet code runs, by whoever does
        what the thread waits for; so it is not waited for here."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._words.release()
            self._rung[0] = 1  # nobody rings
            os.eventfd_write(self._event, 1)

    # -- the thread

    def _watch(self) -> None:
        while not self._ended:
            os.eventfd_read(self._event)
            with suppress(MezzoError):  # it is closed, or was interrupted; then the bell is rung again
                self._lower_all()
            with self._lock:
                self._rung[0] = self._ended
        self._rung[1] = NONE
        self._rung.release()
        os.close(self._event)

    def _lower_all(self) -> None:
        """Looks until no gate is up."""
        pause = LEAST_S
        while not self._ended:
            time.sleep(pause)
            if not (up := self._up()):
                self._rung[0] = 0
                if not self._up():  # else something came up, and did not ring
                    return
                self._rung[0] = 1
                continue
            _wait_for_programs()
            ends, begun = self._produced(), time.monotonic()
            lowered = self._at_rest(partial(self._lower, up, ends))
            spent = time.monotonic() - begun
            pause = min(max(LEAST_S if lowered else 2 * pause, SHARE * spent), MOST_S)

    def _at_rest(self, job: Callable[[], int]) -> int:
        with self._lock:
            router = self.ends[0].router if self.ends and not self._ended else None
        return int(router.at_rest(job)) if router is not None else 0

    def _up(self) -> dict[int, int]:
        """The gates that are up, and how often each was raised."""
        with self._lock:
            words = b"" if self._ended else self._words.tobytes()
        pairs = memoryview(words).cast("I")
        raised, lowered = pairs[::2].tolist(), pairs[1::2].tolist()
        if raised == lowered:
            return {}
        return {gate: n for gate, (n, m) in enumerate(zip(raised, lowered, strict=True)) if n != m}

    def _rings(self) -> list[Any]:
        return [ring for end in self.ends for one in end.sockets if (ring := one.rings.get("rx")) is not None]

    def _produced(self) -> list[tuple[Any, int]]:
        """The receive rings, and how far the kernel has filled them."""
        with self._lock:
            return [] if self._ended else [(ring, _word(ring.producer)) for ring in self._rings()]

    def _lower(self, up: dict[int, int], ends: Sequence[tuple[Any, int]]) -> int:
        """At rest; how many gates were lowered."""
        with self._lock:
            if self._ended:
                return 0
            self.looks += 1
            there = self._rings()
            if any(ring in there and (_word(ring.consumer) - end) & 0x8000_0000 for ring, end in ends):
                return 0
            held = held_gates(self.ends[0].router.arena, len(self._words) // 2)
            free = {gate: n for gate, n in up.items() if gate not in held}
            for gate, n in free.items():
                self._words[2 * gate + 1] = n
            return len(free)


def held_gates(arena: Arena, gates: int) -> set[int]:
    """The gates that frames know which are not free."""
    begin, end = arena.meta_offset, arena.meta_offset + META_SIZE * arena.frames
    numbers = arena.mem[begin:end].cast("H")[META["gate"][0] // 2 :: META_SIZE // 2].tobytes()
    live, held = begin + META["live"][0], set[int]()
    for some in _SOME.finditer(numbers):
        frame = some.start() // 2
        if arena.mem[live + META_SIZE * frame] != FREE:
            held.add(int.from_bytes(numbers[2 * frame : 2 * frame + 2], "little") & (gates - 1))
    return held


def _word(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value


def _wait_for_programs() -> None:
    """Until each program that runs now, and the batch of packets that it is in, has ended."""
    number = NUMBERS.get(platform.machine(), GENERIC)
    if _libc.syscall(number, GLOBAL, 0, 0) != 0:
        time.sleep(PATIENCE_S)
