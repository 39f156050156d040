"""A client's side of `look` (see docs/seeing.md): begins a session, reads what is new until it ends, ends it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from mezzo.base import MezzoError
from mezzo.tools._client import Client

POLL_S = 0.05


@contextlib.contextmanager
def looking(client: Client, kind: str, **asked: Any) -> Iterator[str]:
    """The word of a session that lasts as long as the block."""
    word = f"{kind}-{os.getpid()}-{time.monotonic_ns() % 10**6}"
    client.write("look", json.dumps({"id": word, "kind": kind, **asked}).encode())
    try:
        yield word
    finally:
        with contextlib.suppress(MezzoError):  # the router may be gone, and the session with it
            client.write("unlook", word.encode())


def news(client: Client, word: str, poll_s: float = POLL_S) -> Iterator[dict[str, Any]]:
    """What is new, again and again, until the session has ended; MezzoError where it failed."""
    while True:
        found = json.loads(client.read("look", word.encode()))
        yield found
        state = found["state"]
        if state.startswith("failed"):
            raise MezzoError(state.removeprefix("failed: "))
        if state == "ended":
            return
        time.sleep(poll_s)
