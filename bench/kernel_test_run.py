"""Paths through the kernel's level as XDP programs, on one packet again and again (BPF_PROG_TEST_RUN).

    floor    a program that drops at once: what the kernel does around a run
    tx       count, and back by the same interface
    acl      a firewall of ten rules, and back
    route    check, look up among 300 routes, time to live and its checksum, addresses, redirect to another interface

`--against route=FILE` takes an object that clang made of a program of the same function.  First both get 6000 sound,
damaged and random packets, and must answer the same, bytes and verdict.  Then both are measured by turns, and the
ratios printed of time, of instructions run for the packet, and of the program's size.  The object's maps are known by
their names: `counts` (256 bytes for each CPU), `routes` (LPM trie of u32, which tells a number), `devices`, and
`config`, a struct in its data that ends with the longest frame of the device (see `configured`).  Restore puts the time
to live and its checksum back, because the kernel gives every run the same bytes.  `--gates` measures each path with a
look at the gate of the packet's flow as well (targets/kernel/gates).
Needs rights.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from _bpf_steps import Machine
from harness import RUNS, pin, report

from mezzo.base import bpf
from mezzo.elements import Element, Packet, Port, library
from mezzo.pipeline import compile_text
from mezzo.pipeline.wire import WIRE, wire_unit
from mezzo.targets.kernel import Part
from mezzo.targets.kernel.elf import SYMBOL, _sections, _string
from mezzo.targets.kernel.load import BY_DESCRIPTOR, BY_VALUE, Compiler, patch
from mezzo.targets.kernel.plan import KernelPlan
from mezzo.tools._random_packets import cases
from mezzo.wire.build import ether, ip, udp
from mezzo.wire.checksum import internet_checksum

REPEAT, TURNS = 500_000, 7
LONGEST = 2048  # bytes that the device takes
CPUS = os.cpu_count() or 1
FRAME = ether("1:1:1:1:1:1", "2:2:2:2:2:2", 0x0800, ip("1.2.3.4", "10.2.3.4", 17, udp(1, 53, bytes(18))))
ROUTES = [("10.2.0.0/16", 0), *((f"{20 + n % 4}.{n // 4}.0.0/16", n % 3) for n in range(299))]
SOURCES = ("1.2.3.4", "1.2.3.4", "10.0.0.1", "127.0.0.1", "224.0.0.5")
TARGETS = ("10.2.3.4", "10.1.2.3", "10.0.0.7", "20.3.0.1", "21.3.0.1", "9.9.9.9")
IN = "FromDevice(lo, METHOD XDP, TIMESTAMP false)"
RULES = (
    "deny src net 127.0.0.0/8, deny src net 224.0.0.0/4, allow src host 10.0.0.1 && tcp dst port 22, "
    "deny tcp dst port 22, allow tcp dst port 80, allow tcp dst port 443, allow udp dst port 53, "
    "allow udp src port 53, allow icmp && dst net 10.0.0.0/24, "
    "allow udp && dst net 10.1.0.0/16 && dst port 5000, deny all"
)
PATHS = {
    "tx": f"{IN} -> Queue -> ToDevice(lo, METHOD XDP);",
    "acl": f"""{IN} -> c :: Classifier(12/0800, -) -> Strip(14) -> MarkIPHeader -> IPFilter({RULES}) -> Unstrip(14)
        -> Queue -> ToDevice(lo, METHOD XDP); c [1] -> Discard;""",
    "route": f"""{IN} -> Restore -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader
        -> rt :: RadixIPLookup({", ".join(f"{net} {port}" for net, port in ROUTES)}) -> DecIPTTL
        -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(out, METHOD XDP);
        c [1] -> Discard; rt [1] -> Discard; rt [2] -> Discard;""",
}
C_MAPS = {
    "counts": (bpf.MAP_PERCPU_ARRAY, 4, 256, 1, 0),
    "config": (bpf.MAP_ARRAY, 4, 1024, 1, 0),
    "routes": (bpf.MAP_LPM, 8, 4, 4096, bpf.NO_PREALLOC),
    "devices": (bpf.MAP_DEVMAP, 4, 4, 64, 0),
}


@library.register
class Restore(Element):
    """Puts the time to live and its checksum back."""

    ports, processing = "1/1", "a/a"
    word = int.from_bytes(FRAME[22:26], "big")

    def process(self, p: Packet) -> Port:
        p.set_u32(22, self.word)
        return 0


def part_of(text: str, gates: bool = False) -> Part:
    """The configuration's only input and what it reaches, up to the queue's device."""
    plan = compile_text(text)
    kinds = [type(element).__name__ for element in plan.elements]
    first, queue, last = (kinds.index(name) for name in ("FromDevice", "Queue", "ToDevice"))
    linked = list(plan.whole().instances)
    for i in (first, last):
        linked[i] = replace(linked[i], unit=wire_unit(plan.elements[i]), inputs=(None,), pull_inputs=(False,))
    for i, one in enumerate(linked):
        linked[i] = replace(one, outputs=tuple((last, 0) if to == (queue, 0) else to for to in one.outputs))
    placed = tuple(i for i in range(1, len(linked)) if i != queue)
    program = replace(plan.program, instances=tuple(linked))
    devices = {first: "lo", last: "out" if "ToDevice(out" in text else "lo"}
    known = {"wires": {(last, WIRE): last}, "devices": devices, "ordered": gates, "overtaken": gates}
    made = KernelPlan(program, placed, ((first, 0),), **known)
    part = Part.of(made, [element.all_cells() for element in plan.elements])
    part.cells[last]["longest"].value = LONGEST
    if "Restore" in kinds:
        table = plan.elements[kinds.index("RadixIPLookup")]
        table.cells = part.cells[kinds.index("RadixIPLookup")]
        table.initialize()
    for key in made.keys.values():
        bpf.map_put(part.maps.descriptors["devices"], struct.pack("=I", key), struct.pack("=I", 1))
    return part


@dataclass(frozen=True)
class Measured:
    """A program; `maps`: by descriptor, bytes of a key and of a value."""

    fd: int
    code: bytes
    maps: dict[int, tuple[int, int]]

    @property
    def size(self) -> int:
        return len(self.code) // 8

    def steps(self) -> int:
        """Instructions that it runs for the packet."""
        machine = Machine(FRAME, {fd: value for fd, (_, value) in self.maps.items()})
        verdict, steps = machine.run(self.code, {fd: key for fd, (key, _) in self.maps.items()})
        assert verdict == bpf.test_run(self.fd, b"", FRAME).verdict
        return steps


def measured(part: Part) -> Measured:
    maps = {part.maps.descriptors[symbol]: (one.key, one.value) for symbol, one in part.layout.maps.items()}
    code = patch(Compiler(False).object_of(part.roots[0].text), part.maps)
    return Measured(part.roots[0].fd, code, maps)


def load_c(file: str) -> Measured:
    """The program in an object of clang's; its maps are filled as the path's are."""
    with open(file, "rb") as opened:
        content = opened.read()
    sections = _sections(content)
    names, symbols = sections[".strtab"], list(SYMBOL.iter_unpack(sections[".symtab"]))
    maps: dict[str, int] = {}
    code = bytearray(sections["xdp"])
    for at, info in struct.iter_unpack("<QQ", sections.get(".relxdp", b"")):
        name = _string(names, symbols[info >> 32][0])
        if name not in maps:
            kind, key, value, entries, flags = C_MAPS[name]
            maps[name] = bpf.create_map(kind, key, value, entries, name, flags)
        opcode, registers, offset, addend = struct.unpack_from("<BBhi", code, at)
        source = BY_VALUE if name == "config" else BY_DESCRIPTOR
        struct.pack_into("<BBhi", code, at, opcode, registers & 15 | source << 4, offset, maps[name])
        struct.pack_into("<i", code, at + 12, addend if name == "config" else 0)
    fill(maps)
    sizes = {fd: (C_MAPS[name][1], C_MAPS[name][2] * (name != "counts" or CPUS)) for name, fd in maps.items()}
    return Measured(bpf.load_code(bytes(code), "c"), bytes(code), sizes)


def fill(maps: dict[str, int]) -> None:
    for net, port in ROUTES if "routes" in maps else ():
        address, length = net.split("/")
        key = struct.pack("=I4s", int(length), bytes(map(int, address.split("."))))
        bpf.map_put(maps["routes"], key, struct.pack("=I", port))
    if "devices" in maps:
        bpf.map_put(maps["devices"], bytes(4), struct.pack("=I", 1))
    bpf.map_put(maps["config"], bytes(4), configured("routes" in maps))


def configured(routes: bool) -> bytes:
    """The data of a program in C: with routes 64 next hops (output, gateway), the 14 bytes of an Ethernet header, and
    whether the time to live is decremented; then the longest frame, at a place that divides by four."""
    hops = b"".join(struct.pack("=II", n, 0) for n in range(3)).ljust(8 * 64, b"\0")
    told = hops + FRAME[:14] + b"\1\0" if routes else b""
    return (told + struct.pack("=I", LONGEST)).ljust(1024, b"\0")


def frames() -> Iterator[bytes]:
    """Packets that the rules and routes are about, many of them damaged, cut or longer, and packets of all kinds."""
    dice = random.Random(1)
    for case in cases(3000, 1, 1):
        yield case.data.ljust(14, b"\0")
        ports = [dice.choice((22, 53, 80, 443, 5000, dice.randrange(65536))) for _ in range(2)]
        packet = ip(dice.choice(SOURCES), dice.choice(TARGETS), dice.choice((1, 6, 17)), udp(*ports, bytes(18)))
        sound = internet_checksum(packet[:8] + FRAME[22:26] + packet[12:20])  # with what Restore writes
        frame = bytearray(FRAME[:14] + packet)
        frame[18:20] = sound.to_bytes(2, "big")
        for _ in range(dice.choice((0, 0, 0, 1, 3))):
            frame[dice.randrange(12, 42)] = dice.choice((0, 1, 70, dice.randrange(256)))
        size = dice.choice((*[len(frame)] * 3, dice.randrange(14, 80), 3000))
        yield bytes(frame[:size]).ljust(size, b"\0")


def agree(mine: int, other: int) -> None:
    for frame in frames():
        want, got = (bpf.test_run(fd, b"", frame) for fd in (other, mine))
        dropped = want.verdict == got.verdict == 1
        assert dropped or (want.verdict, want.packet) == (got.verdict, got.packet), frame.hex()


def measure(programs: dict[str, int]) -> dict[str, list[float]]:
    """Nanoseconds of a run of each program, by turns."""
    found: dict[str, list[float]] = {name: [] for name in programs}
    for name, fd in programs.items():
        verdict = bpf.test_run(fd, b"", FRAME, repeat=9).verdict
        assert verdict == (1 if name == "floor" else 4 if name.startswith("route") else 3), (name, verdict)
    for _ in range(TURNS * RUNS):
        for name, fd in programs.items():
            start = time.thread_time_ns()  # the kernel tells whole nanoseconds
            bpf.test_run(fd, b"", FRAME, repeat=REPEAT)
            found[name].append((time.thread_time_ns() - start) / REPEAT)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", action="append", default=[], metavar="PATH=OBJECT")
    parser.add_argument("--gates", action="store_true")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="of these only")
    options = parser.parse_args()
    against = dict(one.split("=", 1) for one in options.against)
    pin()
    floor = bpf.load_code(struct.pack("<BBhi", 0xB7, 0, 0, 1) + struct.pack("<BBhi", 0x95, 0, 0, 0), "floor")
    for name in options.paths or PATHS:
        part = part_of(PATHS[name])
        programs = {name: measured(part), **({f"{name} in C": load_c(against[name])} if name in against else {})}
        if name in against:
            agree(programs[name].fd, programs[f"{name} in C"].fd)
        if options.gates:
            gated = part_of(PATHS[name], True)
            programs[f"{name} with gates"] = measured(gated)
        runs = measure({"floor": floor, **{which: one.fd for which, one in programs.items()}})
        told = {
            "ns": {which: round(statistics.median(some), 2) for which, some in runs.items()},
            "run": {which: one.steps() for which, one in programs.items()},
            "instructions": {which: one.size for which, one in programs.items()},
        }
        ratios = {what: round(of[name] / of[f"{name} in C"], 3) for what, of in told.items() if name in against}
        report(f"kernel_test_run {name}", "ns/packet", runs[name], **told, **({"ratios": ratios} if ratios else {}))
        part.close()
        if options.gates:
            gated.close()
    os.close(floor)


if __name__ == "__main__":
    main()
