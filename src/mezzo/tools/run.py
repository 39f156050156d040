"""runs a configuration until it stops, has nothing left to do, or is interrupted

    mezzo run router.click
    mezzo run -e 'InfiniteSource(LIMIT 5) -> c :: Counter -> Discard' --handlers c.count
    mezzo run router.click FILE=in.pcap --virtual --stats --report report.html

--trace N prints the way of the first N packets through the graph, with what each element changed.  --stats and
--report count the packets on every connection; without them nothing is counted that the elements do not count.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements.script_signals import DESK
from mezzo.ports import privileged
from mezzo.tools._control import control_arguments, open_control
from mezzo.tools._seeing import seeing, seeing_arguments
from mezzo.tools._source import Source, place_argument, read_source, source_arguments
from mezzo.tools._terminal import Progress, print_errors

if TYPE_CHECKING:
    from mezzo.runtime import Router
    from mezzo.runtime.conservation import Ledger
    from mezzo.runtime.paths import Path as PacketPath
    from mezzo.tools._result import Result


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    how = parser.add_argument_group("how it runs")
    how.add_argument("--target", default="native", metavar="NAME", help="native (the default), or python")
    how.add_argument("--virtual", action="store_true", help="under a virtual clock, which jumps to the next timer")
    how.add_argument("--time", type=positive_seconds, metavar="T", help="stop after T seconds of the router's clock")
    how.add_argument("-j", "--threads", type=natural, default=1, metavar="N", help="run on N threads (1)")
    how.add_argument("--seed", type=natural, default=1, metavar="N", help="where its random numbers begin (1)")
    how.add_argument("--frames", type=natural, default=32768, metavar="N", help="packets there is room for (32768)")
    how.add_argument(
        "--frame-size", type=natural, default=2048, metavar="BYTES", help="a power of two from 2048 (2048)"
    )
    how.add_argument(
        "--open", metavar="SOCKET", default="", help="open interfaces by the mezzo-open that listens there"
    )
    place_argument(how)
    how.add_argument("--force", action="store_true", help="replace what another program attached to an interface")
    control_arguments(parser.add_argument_group("who may ask and tell it while it runs (mezzo read, write, shell)"))
    what = parser.add_argument_group("what it tells")
    what.add_argument(
        "--handlers",
        action="append",
        default=[],
        metavar="EL.H",
        help="print this read handler after the run; may be repeated",
    )
    what.add_argument("--trace", type=natural, default=0, metavar="N", help="the way of the first N packets")
    what.add_argument("--stats", action="store_true", help="packets in, out and dropped of every element")
    what.add_argument("--conservation", action="store_true", help="where every frame is, and whether accounts agree")
    what.add_argument(
        "--report", metavar="FILE.html", help="write a page with the picture of the graph and its counters"
    )
    what.add_argument("--json", action="store_true", help="everything as JSON on standard output")
    seeing_arguments(what, natural)
    what.add_argument("-q", "--quiet", action="store_true", help="no summary")


def natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number, not `{text}`")
    return int(text)


def positive_seconds(text: str) -> float:
    """A time as elements read it: 5, 1.5s, 20ms."""
    from mezzo.elements.units import parse_duration

    try:
        return parse_duration(text, "s") / 1e9
    except ValueError as trouble:
        raise argparse.ArgumentTypeError(str(trouble)) from None


def main(args: argparse.Namespace) -> int:
    source = read_source(args)
    if args.report:
        require_writable(args.report)
    traces: list[PacketPath] = []
    tracer = make_tracer(args, traces)
    began = time.monotonic()
    privileged.use(args.open)
    with ended_in_order(), build(source, args, tracer) as router:
        compile_s = time.monotonic() - began
        print_errors(router.plan.warnings)
        if router.plan.placement is not None and not args.quiet:
            why = "" if router.plan.placement.kernel is not None else "; `mezzo place` says why"
            print(f"placement: {router.plan.placement}{why}", file=sys.stderr)
        result = drive(router, args, compile_s, tracer)
        reads = {path: read_handler(router, path) for path in args.handlers}
        ledger = router.conservation() if args.conservation else None
    tell(result, reads, traces, args, ledger)
    if args.report:
        from mezzo.tools._result import report

        Path(args.report).write_text(report(result, source.file), encoding="utf-8")
    return 1 if router.failures else 0


def read_handler(router: Router, path: str) -> str:
    """What `EL.H`, or `EL.H ARGUMENT`, reads."""
    name, _, argument = path.partition(" ")
    return router.read(name, argument)


def require_writable(name: str) -> None:
    """Says before the run that the report could not be written after it."""
    try:
        with open(name, "a", encoding="utf-8"):
            pass
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"--report {name}: {trouble.strerror}")) from None


def make_tracer(args: argparse.Namespace, traces: list[PacketPath]) -> Any:
    if not args.trace:
        return None
    from mezzo.runtime.paths import Tracer, render

    def finished(path: PacketPath) -> None:
        traces.append(path)
        if not args.json:
            print(render(path) + "\n")

    return Tracer(args.trace, finished)


def build(source: Source, args: argparse.Namespace, tracer: Any) -> Router:
    from mezzo.runtime import Router

    return Router.from_click(
        source.text,
        source.file,
        source.variables,
        source.folders,
        virtual=args.virtual,
        counted=bool(args.stats or args.report),
        target=args.target,
        seed=args.seed,
        frames=args.frames,
        frame_size=args.frame_size,
        threads=args.threads,
        force=args.force,
        trace=tracer.seen if tracer else None,
        place=args.place,
    )


def follow(router: Router, tracer: Any) -> None:
    """The tracer knows the graph that runs, also when another has taken over."""
    tracer.attach(router)
    router.on_change.append(lambda: tracer.attach(router))


def drive(router: Router, args: argparse.Namespace, compile_s: float, tracer: Any) -> Result:
    """Runs the router, and says what came of it."""
    from mezzo.tools._result import Result

    if tracer:
        follow(router, tracer)
    progress, began = Progress(), time.monotonic()
    cpu, clock = time.process_time(), router.now_ns
    with stop_on_signals(router) as interrupted, ExitStack() as stack:
        open_control(router, args)
        stack.enter_context(seeing(router, args))
        privileged.renounce()
        ended = router.run(args.time, until=watcher(router, progress, interrupted, tracer))
    cpu_s, wall_s = time.process_time() - cpu, time.monotonic() - began
    progress.clear()
    if tracer:
        tracer.finish()
    result = Result.of(
        router,
        "interrupted" if interrupted() else ended,
        args.target,
        compile_s,
        cpu_s,
        wall_s,
        (router.now_ns - clock) / 1e9,
    )
    result.traced = tracer is not None
    return result


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM is an exception, as Ctrl-C is one: what a router has opened while it starts or ends is closed."""

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    ours = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        DESK.underlay(signal.SIGTERM, end)
    try:
        yield
    finally:
        if ours:
            DESK.underlay(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def stop_on_signals(router: Router) -> Iterator[Callable[[], bool]]:
    """Turns SIGINT and SIGTERM into a clean stop; the second one of a kind acts as it always does.

    A signal that a script asks for is the script's.
    """
    got: list[int] = []

    def handle(number: int, frame: object) -> None:
        got.append(number)
        router.please_stop()
        DESK.underlay(number, old.get(number, signal.SIG_DFL))

    old: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        old[number] = DESK.underlay(number, handle)
    try:
        yield lambda: bool(got)
    finally:
        for kind, before in old.items():
            DESK.underlay(kind, before)


def watcher(router: Router, progress: Progress, interrupted: Callable[[], bool], tracer: Any) -> Callable[[], bool]:
    """What the loop asks between slices: whether to stop.  Shows the progress of long runs by the way."""
    began = shown = time.monotonic()
    start_ns = router.now_ns
    others = any(type(e).__name__ == "ProgressBar" for e in router.elements.values())  # it has the line

    def ask() -> bool:
        nonlocal shown
        if tracer:
            tracer.look()
        now = time.monotonic()
        if now - shown >= 0.5 and not others:
            shown = now
            clock = (router.now_ns - start_ns) / 1e9
            dropped = sum(router.drops().values())
            held = router.arena.held
            progress.show(
                f"running {now - began:.0f} s, clock {clock:.1f} s, {held:,} packets held, {dropped:,} dropped"
            )
        return interrupted()

    return ask


def tell(
    result: Result,
    reads: dict[str, str],
    traces: list[PacketPath],
    args: argparse.Namespace,
    ledger: Ledger | None = None,
) -> None:
    from mezzo.runtime import paths
    from mezzo.tools import _result

    if args.json:
        found = _result.as_json(result) | {"handlers": reads}
        if ledger is not None:
            found["conservation"] = ledger.as_dict()
        if args.trace:
            found["trace"] = [paths.as_json(path) for path in traces]
        print(json.dumps(found, indent=2))
        return
    for path, text in reads.items():
        print(f"{path}:\n{text}" if len(reads) > 1 else text, end="" if text.endswith("\n") else "\n")
    if args.stats:
        print(_result.stats_table(result))
    if ledger is not None:
        print(ledger.table(), end="")
    if not args.quiet:
        print(_result.headline(result), file=sys.stderr)
        if result.drops and not args.stats:
            print(_result.drop_table(result), file=sys.stderr)
