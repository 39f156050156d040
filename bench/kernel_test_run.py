"""A fast path as an XDP program, on one packet again and again (BPF_PROG_TEST_RUN): check, look up, TTL, rewrite, send.

StoreData puts the time to live and its checksum back each time, because the kernel gives every run the same bytes.  The
floor is a program that sends at once; both include what the kernel does around a run.  Needs rights.
"""

from __future__ import annotations

from harness import RUNS, pin, report

from mezzo.base import bpf
from mezzo.pipeline import compile_text
from mezzo.targets.kernel import Part
from mezzo.targets.kernel.emit import Wire
from mezzo.wire.build import ether, ip, udp

REPEAT = 2_000_000
FRAME = ether("1:1:1:1:1:1", "2:2:2:2:2:2", 0x0800, ip("1.2.3.4", "10.2.3.4", 17, udp(1, 2, bytes(18))))
PATH = f"""
    Idle -> store :: StoreData(22, \\<{FRAME[22:26].hex()}>) -> strip :: Strip(14) -> check :: CheckIPHeader
         -> rt :: RadixIPLookup(10.0.0.0/8 0, 20.0.0.0/8 1, 0.0.0.0/0 1) -> ttl :: DecIPTTL
         -> encap :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
    rt [1] -> Discard;
"""
FLOOR = "Idle -> null :: Null -> Discard;"


def part_of(text: str, names: tuple[str, ...]) -> Part:
    """The named elements as a program from wire to wire."""
    plan = compile_text(text)
    program, cells = plan.whole(), [element.all_cells() for element in plan.elements]
    numbers = [program.index(name) for name in names]
    return Part(program, numbers, [(numbers[0], 0)], cells, wire=True, wires={(numbers[-1], 0): Wire("tx")})


def main() -> None:
    pin()
    for name, text, names in (
        ("kernel_floor", FLOOR, ("null",)),
        ("kernel_fast_path", PATH, ("store", "strip", "check", "rt", "ttl", "encap")),
    ):
        part = part_of(text, names)
        runs = [float(bpf.test_run(part.fd, b"", FRAME, repeat=REPEAT).duration_ns) for _ in range(RUNS)]
        assert bpf.test_run(part.fd, b"", FRAME, repeat=9).verdict == 3, "XDP_TX"
        report(name, "ns/packet", runs, instructions=part.instructions)
        part.close()


if __name__ == "__main__":
    main()
