"""State, plainly: what each kind of state means, in ordinary Python objects.

These are the definition (the python target runs on them) and what an element's configuration code fills.  Another
target has its own object of the same face for each kind and takes over the contents with `load(dump())`.

Packets in rings and slots are frame numbers; -1 is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mezzo.ir.module import TABLES, State
from mezzo.ir.types import Type


class Array:
    """`size` integers of one type, from 0."""

    def __init__(self, type: Type, size: int) -> None:
        self.type, self.cells = type, [0] * size

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, index: int) -> int:
        return self.cells[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.cells[index] = self.type.wrap(value)

    def dump(self) -> list[int]:
        return list(self.cells)

    def load(self, values: Iterable[int]) -> None:
        for index, value in enumerate(values):
            self[index] = value


class Table:
    """At most `capacity` entries, exact match."""

    def __init__(self, key: Type, type: Type, capacity: int) -> None:
        self.key, self.type, self.capacity = key, type, capacity
        self.entries: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: int) -> bool:
        return key in self.entries

    def get(self, key: int, default: int = 0) -> int:
        return self.entries.get(key, default)

    def set(self, key: int, value: int) -> bool:
        """False, and nothing done, when the key is new and the table full."""
        if key not in self.entries and len(self.entries) >= self.capacity:
            return False
        self.entries[key] = self.type.wrap(value)
        return True

    def delete(self, key: int) -> bool:
        return self.entries.pop(key, None) is not None

    def clear(self) -> None:
        self.entries.clear()

    def items(self) -> list[tuple[int, int]]:
        """Sorted by key."""
        return sorted(self.entries.items())

    def dump(self) -> list[tuple[int, int]]:
        return self.items()

    def load(self, items: Iterable[tuple[int, int]]) -> None:
        self.clear()
        for key, value in items:
            self.set(key, value)


class LruTable(Table):
    """A table that forgets: where a new key finds no room, the entry goes that was used longest ago.

    Uses are what packet code does to an entry (`use`, `find`, and `set`, which is one whoever says it); `get`, `in` and
    the rest look without being one.  `entries` has the one used longest ago first."""

    def __init__(self, key: Type, type: Type, capacity: int) -> None:
        super().__init__(key, type, capacity)
        self.forgotten = 0  # entries that went for want of room

    def use(self, key: int) -> bool:
        """Whether it is there; if so it is the one used last."""
        if key not in self.entries:
            return False
        self.entries[key] = self.entries.pop(key)
        return True

    def find(self, key: int, default: int) -> int:
        """`get`, as a use."""
        return self.entries[key] if self.use(key) else default

    def set(self, key: int, value: int) -> bool:
        """Always True."""
        if not self.use(key) and len(self.entries) >= self.capacity:
            del self.entries[next(iter(self.entries))]
            self.forgotten += 1
        return super().set(key, value)

    def dump(self) -> Any:
        """How many it forgot, and what it has, used longest ago first."""
        return self.forgotten, list(self.entries.items())

    def load(self, content: Any) -> None:
        """What finds no room counts as forgotten."""
        forgotten, items = content
        self.forgotten = forgotten
        super().load(items)


class Lpm:
    """Prefixes of `key.bits` bits with u32 values; `lookup` finds the longest that holds an address."""

    def __init__(self, key: Type) -> None:
        self.key = key
        self.by_length: list[dict[int, int]] = [{} for _ in range(key.bits + 1)]

    def _prefix(self, key: int, length: int) -> int:
        return key >> (self.key.bits - length) if length else 0

    def __len__(self) -> int:
        return sum(map(len, self.by_length))

    def load_arrays(self, keys: Any, lengths: Any, values: Any) -> None:
        """Replaces everything, from three arrays; of equal prefixes the last counts."""
        self.load(zip(keys.tolist(), lengths.tolist(), values.tolist(), strict=True))

    def add(self, key: int, length: int, value: int) -> None:
        """Adds or replaces a prefix; bits of `key` beyond `length` do not count."""
        self.by_length[length][self._prefix(key, length)] = value

    def remove(self, key: int, length: int) -> bool:
        return self.by_length[length].pop(self._prefix(key, length), None) is not None

    def change(self, keys: Sequence[int], lengths: Sequence[int], values: Sequence[int]) -> None:
        """Adds, replaces or (value -1) removes many prefixes at once; of equal ones the last counts."""
        for key, length, value in zip(keys, lengths, values, strict=True):
            if value < 0:
                self.remove(key, length)
            else:
                self.add(key, length, value)

    def get_all(self, keys: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """The values of exactly these prefixes, -1 for one that is not there."""
        return [self.get(key, length) for key, length in zip(keys, lengths, strict=True)]

    def get(self, key: int, length: int, default: int = -1) -> int:
        """The value of exactly this prefix."""
        return self.by_length[length].get(self._prefix(key, length), default)

    def lookup(self, key: int, default: int = 0) -> int:
        for length in range(self.key.bits, -1, -1):
            found = self.by_length[length].get(self._prefix(key, length))
            if found is not None:
                return found
        return default

    def clear(self) -> None:
        for level in self.by_length:
            level.clear()

    def items(self) -> Iterator[tuple[int, int, int]]:
        """(key, length, value), sorted by key, then length."""
        rows = [
            (prefix << (self.key.bits - length), length, value)
            for length, level in enumerate(self.by_length)
            for prefix, value in level.items()
        ]
        return iter(sorted(rows))

    def dump(self) -> list[tuple[int, int, int]]:
        return list(self.items())

    def load(self, items: Iterable[tuple[int, int, int]]) -> None:
        self.clear()
        for key, length, value in items:
            self.add(key, length, value)


class Ring:
    """A deque of at most `size` packets."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.frames: deque[int] = deque()

    def __len__(self) -> int:
        return len(self.frames)

    def push(self, frame: int, front: bool = False) -> bool:
        """False, and nothing done, when the ring is full."""
        if len(self.frames) >= self.size:
            return False
        if front:
            self.frames.appendleft(frame)
        else:
            self.frames.append(frame)
        return True

    def pop(self, back: bool = False) -> int:
        if not self.frames:
            return -1
        return self.frames.pop() if back else self.frames.popleft()

    def dump(self) -> list[int]:
        """Frame numbers, front first."""
        return list(self.frames)

    def load(self, frames: Iterable[int]) -> None:
        self.frames = deque(frames)


class Slots:
    """`size` places for one packet each."""

    def __init__(self, size: int) -> None:
        self.cells = [-1] * size

    def __len__(self) -> int:
        return len(self.cells)

    def used(self, index: int) -> bool:
        return self.cells[index] >= 0

    def put(self, index: int, frame: int) -> bool:
        """False, and nothing done, when the slot is used."""
        if self.cells[index] >= 0:
            return False
        self.cells[index] = frame
        return True

    def take(self, index: int) -> int:
        frame, self.cells[index] = self.cells[index], -1
        return frame

    def dump(self) -> list[int]:
        return list(self.cells)

    def load(self, frames: Iterable[int]) -> None:
        for index, frame in enumerate(frames):
            self.cells[index] = frame


class Buffer:
    """At most `size` bytes that packet code appends and Python takes away."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.content = bytearray()

    def __len__(self) -> int:
        return len(self.content)

    def append(self, data: bytes | bytearray | memoryview) -> bool:
        """False, and nothing done, when it does not fit."""
        if len(self.content) + len(data) > self.size:
            return False
        self.content += data
        return True

    def view(self) -> memoryview:
        """The bytes in it; valid until the next append or `clear`."""
        return memoryview(self.content)

    def clear(self) -> None:
        self.content = bytearray()

    def dump(self) -> bytes:
        return bytes(self.content)

    def load(self, data: bytes) -> None:
        self.content = bytearray(data)


class Blob:
    """Read-only bytes (a file mapped, a constant packet).  `bind` replaces them, at a quiescent point only."""

    def __init__(self) -> None:
        self.data: Any = b""

    def __len__(self) -> int:
        return len(self.data)

    def bind(self, data: Any) -> None:
        self.data = data

    def dump(self) -> Any:
        return self.data

    def load(self, data: Any) -> None:
        self.bind(data)


class Scalar:
    """One integer; what `Store` keeps for a scalar state."""

    def __init__(self, type: Type) -> None:
        self.type, self.value = type, 0

    def dump(self) -> int:
        return self.value

    def load(self, value: int) -> None:
        self.value = self.type.wrap(int(value))


def make_cell(state: State) -> Any:
    """The plain object for one declared state."""
    if state.kind == "scalar":
        return Scalar(state.type)
    if state.kind == "array":
        return Array(state.type, state.size)
    if state.kind in TABLES:
        assert state.key is not None
        return (Table if state.kind == "table" else LruTable)(state.key, state.type, state.size)
    if state.kind == "lpm":
        assert state.key is not None
        return Lpm(state.key)
    return {"ring": Ring, "slots": Slots, "buffer": Buffer}[state.kind](state.size) if state.kind != "blob" else Blob()
