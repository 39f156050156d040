"""The flight recorder: the last packets and events of a router, written down when something goes wrong.

Packets are sights (see `eye`), the first `SNAP` bytes of each, in a native ring; events are drops by element and
reason, handlers that were written, reloads, ports and what the kernel dropped, as a thread finds them every `LOOK_S`.
A dump is PREFIX-N.pcapng (an interface per element and side, comments) and PREFIX-N.txt (events, then packets).  It is
made when a fault was counted, when the run ends with an exception, by the handler `recorder`, or by SIGUSR2.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.packet.capture_notes import ETHERNET, RAW_IP, NotesWriter
from mezzo.runtime.eye import Viewer, eye_of
from mezzo.runtime.filters import network_offset
from mezzo.wire.show import show

if TYPE_CHECKING:
    from mezzo.runtime.router import Router
    from mezzo.targets.native.watched import Sight

SNAP, MOST = 256, 1 << 18
LOOK_S, EVENTS = 0.1, 4096
MOST_DUMPS = 16  # of faults, in one run


class Recorder(Viewer):
    """`start` it before the router runs; `dump` writes what it has."""

    kind, snap = "bytes", SNAP

    def __init__(self, router: Router, packets: int, prefix: str = "") -> None:
        if not 1 <= packets <= MOST:
            raise MezzoError(Diagnostic(f"a recorder of {packets} packets", hint=f"give 1 to {MOST}"))
        self.router, self.packets = router, packets
        self.rows = 1 << (packets - 1).bit_length()
        self.prefix = prefix or f"mezzo-recorder-{os.getpid()}"
        self.events: deque[tuple[int, str]] = deque(maxlen=EVENTS)
        self.dumps = 0
        self._drops: dict[tuple[str, str], int] = {}
        self._ports: dict[str, object] = {}
        self._ended, self._turn = threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self._work, name="mezzo-recorder", daemon=True)

    def start(self) -> None:
        eye_of(self.router).add(self)
        self.router.recorder = self
        self._drops = self.router.drops()
        self.note("recording")
        self.thread.start()

    def stop(self) -> None:
        self._ended.set()

    def note(self, what: str) -> None:
        self.events.append((time.time_ns(), what))

    # -- events

    def _work(self) -> None:
        while not self._ended.wait(LOOK_S) and not self.router.closed:
            with contextlib.suppress(MezzoError):  # it was closed meanwhile
                self.settle()

    def settle(self) -> None:
        """Notes what is new, and writes all down where that is a fault."""
        with self._turn:
            if self.look() and self.dumps < MOST_DUMPS:
                self.dump("a fault was counted")

    def look(self) -> bool:
        """Notes what is new; whether a fault is among it."""
        now = self.router.drops()
        new = {key: n - self._drops.get(key, 0) for key, n in now.items() if n > self._drops.get(key, 0)}
        self._drops = now
        for (element, reason), count in new.items():
            self.note(f"{element}: {count} dropped: {reason}")
        for port in self.router.ports:
            state = (port.state, port.kernel_drops(), tuple(port.troubles))
            if self._ports.setdefault(port.name, state) != state:
                dropped = f", {state[1]} dropped by the kernel" if state[1] else ""
                self.note("; ".join([f"port {port.name}: {port.state}{dropped}", *port.troubles]))
                self._ports[port.name] = state
        return any(reason == "fault" for _, reason in new)

    # -- writing it down

    def dump(self, why: str, prefix: str = "") -> list[str]:
        """Writes both files and gives their names; what the disk refuses is said, and the router goes on."""
        rows, names = self.router.at_rest(self._rows)
        self.dumps += 1
        stem = prefix or f"{self.prefix}-{self.dumps}"
        self.note(f"dumped: {why}")
        clock = eye_of(self.router).clock
        assert clock is not None, "it records since `start`"
        clock.look()
        seen = [(clock.time_ns(row.ticks), _place(names, row), row) for row in rows]
        try:
            with open(f"{stem}.pcapng", "wb") as file:
                self._write_packets(NotesWriter(file, f"mezzo flight recorder: {why}"), seen)
            Path(f"{stem}.txt").write_text(self._text(why, seen), encoding="utf-8", errors="replace")
        except OSError as trouble:
            self.router.say(f"recorder: {stem}: {trouble.strerror or trouble}")
            return []
        self.router.say(f"recorder: {why}: {len(seen)} packets, {len(self.events)} events in {stem}.pcapng and .txt")
        return [f"{stem}.pcapng", f"{stem}.txt"]

    def _rows(self) -> tuple[Iterable[Sight], list[str]]:
        lens = eye_of(self.router).lenses.get(self)
        names = [linked.name for linked in self.router.plan.program.instances]
        return (lens.last(self.packets) if lens is not None else ()), names

    def _write_packets(self, out: NotesWriter, seen: list[tuple[int, str, Sight]]) -> None:
        for time_ns, place, row in seen:
            number = out.interface(place, RAW_IP if network_offset(row.data) == 0 else ETHERNET)
            what = "out of" if row.is_out else "into"
            out.packet(number, time_ns, row.data, row.length, f"{what} {place}, frame {row.frame}")

    def _text(self, why: str, seen: list[tuple[int, str, Sight]]) -> str:
        lines = [f"mezzo flight recorder, {_when(time.time_ns())}: {why}", "", "events"]
        lines += [f"  {_when(at)}  {what}" for at, what in self.events]
        lines += ["", f"the last {len(seen)} packets"]
        for at, place, row in seen:
            first = "ip" if network_offset(row.data) == 0 else "eth"
            what = "out of" if row.is_out else "into"
            lines.append(f"  {_when(at)}  {what} {place}  frame {row.frame}  {show(row.data, first)}")
        return "\n".join(lines) + "\n"

    def status(self) -> str:
        lens = eye_of(self.router).lenses.get(self)
        held = min(lens.count, self.packets) if lens is not None else 0
        return f"{held} of {self.packets} packets, {len(self.events)} events, {self.dumps} dumps\n"


def _place(names: list[str], row: Sight) -> str:
    name = names[row.instance] if row.instance < len(names) else str(row.instance)
    return f"{name}[{row.port}]" if row.is_out else f"[{row.port}]{name}"


def _when(time_ns: int) -> str:
    moment = datetime.datetime.fromtimestamp(time_ns // 10**9, datetime.UTC)
    return f"{moment:%H:%M:%S}.{time_ns % 10**9:09d}"
