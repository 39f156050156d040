"""The demo: the standard IP router over recorded traffic, in a few seconds and without root.

    python examples/demo.py [folder for the results; `out` by default]

It routes the two input captures (real pings, DNS, HTTP and iperf3 traffic, and crafted packets for each thing a router
must notice), writes one capture per output, says what came in, went out and died where and why, writes a page with
the picture of the graph, and then measures the router on the same traffic repeated.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mezzo.packet.capture import open_capture
from mezzo.packet.capture_write import CaptureWriter
from mezzo.runtime import Router
from mezzo.tools import _result
from mezzo.tools._terminal import table

HERE = Path(__file__).parent
ROUTER = HERE / "ip-router.click"
REPEATS = 200


def variables(out: Path, **more: object) -> dict[str, str]:
    """The router's files."""
    files = {f"IN{i}": HERE / f"captures/eth{i}-in.pcap" for i in (0, 1)} | {
        f"OUT{i}": out / f"eth{i}-out.pcap" for i in (0, 1)
    }
    return {k: str(v) for k, v in {**files, **more}.items()}


def route(out: Path) -> _result.Result:
    """One run in virtual time, every connection counted."""
    begun = time.monotonic()
    with Router.from_click(ROUTER.read_text(), str(ROUTER), variables(out), virtual=True, counted=True) as router:
        compile_s = time.monotonic() - begun
        begun, cpu = time.monotonic(), time.process_time()
        ended = router.run(seconds=120)
        spent = time.process_time() - cpu, time.monotonic() - begun
        return _result.Result.of(router, ended, "native", compile_s, *spent, router.now_ns / 1e9)


def repeat_capture(source: Path, target: Path) -> int:
    """The records of `source` again and again; how many."""
    with open_capture(source) as capture:
        records = list(capture.records())
    with target.open("wb") as file:
        writer = CaptureWriter(file, nanosecond=True)
        for _ in range(REPEATS):
            for record in records:
                writer.write(record.time_ns, record.data, record.wire_length)
        writer.flush()
    return REPEATS * len(records)


def measure(out: Path) -> tuple[int, float]:
    """(packets, ns of CPU a packet) of the same traffic repeated, as fast as it goes, from file to file."""
    bulk = {f"IN{i}": out / f"bulk{i}.pcap" for i in (0, 1)}
    packets = sum(repeat_capture(HERE / f"captures/eth{i}-in.pcap", bulk[f"IN{i}"]) for i in (0, 1))
    more = {f"OUT{i}": out / f"bulk{i}-out.pcap" for i in (0, 1)}
    with Router.from_click(
        ROUTER.read_text(), str(ROUTER), variables(out, **bulk, **more, TIMING="false"), virtual=True
    ) as router:
        cpu = time.process_time()
        router.run(seconds=120)
        spent = time.process_time() - cpu
    for path in (*bulk.values(), *more.values()):
        path.unlink()
    return packets, spent * 1e9 / packets


def count(path: Path) -> int:
    with open_capture(path) as capture:
        return sum(1 for _ in capture.records())


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(parents=True, exist_ok=True)
    result = route(out)
    print("Captures")
    files = [HERE / f"captures/eth{i}-in.pcap" for i in (0, 1)] + [out / f"eth{i}-out.pcap" for i in (0, 1)]
    print(table(("file", "packets"), [(str(f), count(f)) for f in files]))
    print("\nDrops: where and why")
    print(_result.drop_table(result))
    (out / "report.html").write_text(_result.report(result, "the standard IP router"), encoding="utf-8")
    packets, ns = measure(out)
    print(f"\ncompiled in {result.compile_s:.2f} s")
    print(f"{packets:,} packets of this traffic from file to file: {ns:.0f} ns of CPU each")
    print(f"the picture of the graph with its counters: {out / 'report.html'}")


if __name__ == "__main__":
    main()
