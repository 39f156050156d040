"""What `run` has for looking inside: --metrics, --recorder, and SIGUSR2."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mezzo.runtime import Router


def seeing_arguments(group: argparse._ActionsContainer, natural: Any) -> None:
    add = group.add_argument
    add("--metrics", metavar="ADDR", help="serve metrics over HTTP at PORT (of this machine) or HOST:PORT")
    add("--recorder", type=natural, default=0, metavar="N", help="keep the last N packets, and write them at a fault")
    add("--recorder-file", metavar="NAME", default="", help="NAME-1.pcapng, NAME-1.txt … (mezzo-recorder-PID)")


@contextlib.contextmanager
def seeing(router: Router, args: argparse.Namespace) -> Iterator[None]:
    """Metrics and the recorder, for as long as the router runs."""
    with contextlib.ExitStack() as stack:
        if args.recorder:
            stack.enter_context(recording(router, args))
        if args.metrics:
            stack.enter_context(contextlib.closing(metrics(router, args.metrics)))
        yield


@contextlib.contextmanager
def recording(router: Router, args: argparse.Namespace) -> Iterator[None]:
    from mezzo.runtime.recorder import Recorder

    recorder = Recorder(router, args.recorder, args.recorder_file)
    recorder.start()
    try:
        with on_signal(recorder):
            yield
        recorder.settle()
    except Exception as trouble:
        recorder.dump(f"{type(trouble).__name__}: {trouble}")
        raise
    finally:
        recorder.stop()


def metrics(router: Router, address: str) -> Any:
    from mezzo.runtime.metrics_server import MetricsServer, parse_address

    wanted = parse_address(address)
    server = MetricsServer(router, wanted)
    if not wanted[1]:
        print(f"metrics on http://{server.where}/metrics", file=sys.stderr, flush=True)
    return server


@contextlib.contextmanager
def on_signal(recorder: Any) -> Iterator[None]:
    """SIGUSR2 dumps, unless somebody else has it; from a thread, for the signal may come while packets run."""

    def dump(number: int, frame: object) -> None:
        threading.Thread(target=recorder.dump, args=("SIGUSR2",), daemon=True).start()

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGUSR2) != signal.SIG_DFL:
        yield
        return
    old = signal.signal(signal.SIGUSR2, dump)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR2, old)
