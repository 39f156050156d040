"""Hot reload of the standard IP router under load: how long no packet code runs, and how long all of it takes.

The load is the router's own traffic out of its captures, again and again; what changes is the length of two queues.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

from harness import report

from mezzo.runtime import Router

EXAMPLES = Path(__file__).parent.parent / "examples"
RELOADS = 40


def main() -> None:
    text = (EXAMPLES / "ip-router.click").read_text()
    texts = text, text.replace("Queue(1000)", "Queue(900)")
    assert texts[0] != texts[1]
    with tempfile.TemporaryDirectory() as folder:
        files = {f"IN{i}": str(EXAMPLES / f"captures/eth{i}-in.pcap") for i in (0, 1)}
        files |= {f"OUT{i}": f"{folder}/{i}.pcap" for i in (0, 1)}
        load = "InfiniteSource(LIMIT -1) -> Counter -> Discard;"
        with Router.from_click(texts[0] + load, str(EXAMPLES / "ip-router.click"), files) as router:
            runner = threading.Thread(target=router.run)
            runner.start()
            blackouts, whole = [], []
            for n in range(RELOADS):
                begun = time.perf_counter()
                done = router.reload(texts[(n + 1) % 2] + load)
                whole.append((time.perf_counter() - begun) * 1e3)
                blackouts.append(done.blackout_ns / 1e6)
            router.please_stop()
            runner.join()
    report("reload_blackout", "ms", blackouts, 1.0, most=round(max(blackouts), 3))
    report("reload_whole", "ms", whole)


if __name__ == "__main__":
    main()
