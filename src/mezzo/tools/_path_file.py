"""Paths of packets as a pcapng: an interface per element, and each packet's comment tells the step."""

from __future__ import annotations

from typing import Any, BinaryIO

from mezzo.base import MezzoError
from mezzo.packet.capture_notes import ETHERNET, RAW_IP, NotesWriter


class PathFile:
    """Takes paths as `runtime.paths.as_json(path, whole=True)` gives them."""

    def __init__(self, name: str) -> None:
        try:
            self._file: BinaryIO = open(name, "wb")  # noqa: SIM115
        except OSError as trouble:
            raise MezzoError(f"cannot write `{name}`: {trouble.strerror}") from None
        self._out = NotesWriter(self._file, "the ways of packets through a router, by mezzo trace")

    def add(self, path: dict[str, Any]) -> None:
        steps = path["steps"]
        for number, step in enumerate(steps):
            if not step["data"]:
                continue
            is_last = number == len(steps) - 1
            words = [f"packet {path['packet']}, step {number + 1}: {step['element']}[{step['port']}]", *step["changed"]]
            words += [path["end"]] if is_last else []
            data = bytes.fromhex(step["data"])
            link = RAW_IP if step["link"] == "ip" else ETHERNET
            self._out.packet(self._out.interface(step["element"], link), step["time_ns"], data, 0, "; ".join(words))

    def close(self) -> None:
        self._file.close()
