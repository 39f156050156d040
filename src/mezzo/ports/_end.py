"""What the two ends of a device share: the method, the port behind it, and what both tell.

`FromDevice(eth0, METHOD XDP)` is written as one class and becomes the driver's when it is configured: its class is then
made of the driver's half in `ports/xdp.py` and the class as written, so an option that the driver declares is an
argument of the element, and one that it does not know is refused with the methods that do.  The folder is the list of
methods; a file that has a class `Receiver` or `Transmitter` is one.

Hooks around the wire (trace, fault, rate) are constants of an end: those that are off leave no code.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from mezzo.base import Span
from mezzo.elements import Arg, Bandwidth, ConfigError, Element, Env, Int, Text, Word, read, u32, u64
from mezzo.elements.args import read_arguments
from mezzo.elements.element import Trouble
from mezzo.ports._fault import Fault, _Faulty
from mezzo.ports.port import COUNTS, Port
from mezzo.ports.ring import LARGEST, LEAST, Ring

MOST = 1 << 16  # slots that one run of a task handles
SYNONYMS = {"linux": "packet", "auto": ""}  # LINUX is Click's word; AUTO: as without METHOD
DEFAULTS = ("xdp", "packet")  # without METHOD: the first that the device takes
CAPTURES = re.compile(r"\.(pcap|pcapng|cap|dump|gz)$|/")


@cache
def methods() -> list[str]:
    """The names of all drivers."""
    files = Path(__file__).parent.glob("[a-z]*.py")
    return sorted(p.stem for p in files if re.search(r"^class (Receiver|Transmitter)\(", p.read_text(), re.M))


def driver(method: str) -> ModuleType:
    return import_module(f"mezzo.ports.{method}")


@cache
def merged(written: type[Element], half: type[Element]) -> type[Element]:
    """The class of an end: the driver's half over the class as it is written in the configuration."""
    bases = (half,) if issubclass(half, written) else (half, written)
    scope = {"__module__": half.__module__, "__qualname__": f"{half.__qualname__}.{written.__name__}"}
    made = type(written.__name__, bases, scope | {"__doc__": written.__doc__})
    first, then = (written, half) if issubclass(half, written) else (half, written)
    made.arguments = {**first.arguments, **then.arguments}
    return made


class _End(_Faulty):
    """One end of a device.  FromDevice and ToDevice say which."""

    runtime = True
    is_transmitter = False
    watches = True
    half = ""  # the name of the class in a driver's file
    method = ""
    below = None  # what it has in the kernel's level of the router: level.Root or level.Wire
    knows = ()  # arguments of FromDevice and ToDevice that not every device can follow, and this driver can

    devname = Arg(Text(), doc="the device: an interface, or what METHOD takes")
    method_ = Arg(Word(), None, "how it is reached, or AUTO; see docs/ports.md", positional=False, keyword="METHOD")
    queue_ = Arg(Int(0, 1023), 0, "queue of the device", positional=False, keyword="QUEUE")
    slots_ = Arg(Int(LEAST, LARGEST), None, "slots of the ring; else as METHOD likes", positional=False, keyword="RING")
    trace = Arg(Text(), "", "capture file of all that passes here", positional=False)
    fault = Arg(Fault(), None, "what goes wrong on purpose: `drop 5 duplicate 1 seed 7`", positional=False)
    rate = Arg(Bandwidth(), 0, "the most that passes", positional=False)

    ring: u64  # the ring's address
    slots: u32
    count: u64
    byte_count: u64

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._port = self._ring = self._stage = None
        self._given = args[0] if args and isinstance(args[0], Port) else None
        if self._given is not None:
            args = (self._given.device, *args[1:])
            keywords.setdefault("method", self._given.method)
        super().__init__(*args, **keywords)

    @classmethod
    def arguments_by_method(cls) -> dict[str, list[Arg]]:
        """The arguments that a driver adds, by method."""
        halves = {m: getattr(driver(m), cls.half, None) for m in methods()}
        own = keywords(cls)
        return {
            m.upper(): [a for a in half.arguments.values() if a.keyword not in own]
            for m, half in halves.items()
            if half is not None
        }

    # -- becoming a driver's

    def setup(self, words: list[str], env: Env) -> list[str]:
        if not self.method:
            try:
                self.become(words, env)
            except ValueError as trouble:
                return [str(trouble)]
        strange = [trouble for place, word in enumerate(words) if (trouble := self.unknown(word, place))]
        return strange or super().setup(words, env)

    def become(self, words: list[str], env: Env) -> None:
        told = read_arguments(list(self.arguments.values()), words, env, lambda text, word: None)
        device, method = told["devname"] or "", (told["method_"] or "").lower()
        known = env.names.setdefault("method", {})
        self._refusals = []
        method = SYNONYMS.get(method, method) or known.get(device) or self.choose(device)
        if method == "pcap" and not CAPTURES.search(device):
            method = "packet"  # Click's PCAP reads interfaces
        if method not in methods():
            raise ConfigError(f"METHOD: there is no method {method.upper()}; there are {listed(methods())}")
        half = getattr(driver(method), self.half, None)
        if half is None:
            raise ConfigError(f"METHOD {method.upper()} does not {'send' if self.is_transmitter else 'receive'}")
        known.setdefault(device, method)
        self.__class__ = merged(type(self), half)
        self.method = method

    def choose(self, device: str) -> str:
        """The method of a device that is given without one; why better ones were refused is kept."""
        for name in DEFAULTS[:-1]:
            refusal = driver(name).Port.refusal(device) if name in methods() else "it is not there"
            if not refusal:
                return name
            self._refusals.append(f"{name}: {refusal}")
        return DEFAULTS[-1]

    def unknown(self, word: str, place: int) -> str:
        """What is wrong with a word that has the form of a keyword and is none of this method's."""
        keyword, _, value = word.partition(" ")
        if not value or not re.fullmatch("[A-Z][A-Z_]+", keyword) or keyword in keywords(type(self)):
            return ""
        halves = {m: getattr(driver(m), self.half, None) for m in methods()}
        knowing = [m for m, half in halves.items() if half is not None and keyword in keywords(half)]
        said = f"METHOD {self.method.upper()} does not know it"
        if knowing:
            return Trouble.about(f"{keyword} is an option of METHOD {listed(knowing)}; {said}", place)
        return Trouble.about(f"unknown keyword {keyword}; it takes {', '.join(keywords(type(self)))}", place)

    def configure(self) -> None:
        self.device, self.queue = self.devname, self.queue_

    def set_hooks(self) -> None:
        """Trace, fault and rate, of the arguments or of what was wrapped around the port."""
        for name, value in (self._given.hooks if self._given is not None else {}).items():
            self.args[name] = value
        self.traced = bool(self.trace)
        self.set_faults(self.fault)
        self.set_rate(self.rate)

    def require_known(self, names: Iterable[str]) -> None:
        """Refuses arguments that say something and that this method cannot follow."""
        for name in names:
            arg, value = self.arguments[name], self.args.get(name)
            if name not in self.knows and value is not None and value != arg.default:
                self.error(f"{arg.keyword}: METHOD {self.method.upper()} cannot do that")

    def hands_over(self, old: Any) -> list[str]:
        """What it counted; all else is of a port that it had."""
        return [name for name in COUNTS if name in old.state_specs]

    # -- the port

    @property
    def port(self) -> Port:
        return self._port

    @port.setter
    def port(self, port: Port) -> None:
        self._port = port
        port.refusals += [r for r in getattr(self, "_refusals", ()) if r not in port.refusals]

    @property
    def given_port(self) -> Port | None:
        return self._given

    @property
    def device_key(self) -> str:
        return self.devname

    @property
    def place(self) -> Span | None:
        written = self.router.plan.resolved.graph.instances.get(self.name)
        return written.span if written is not None else None

    def make_port(self) -> Port:
        return driver(self.method).Port(self.devname)

    def use_ring(self, ring: Ring) -> None:
        """The ring that packet code works on; a driver says it in `initialize`."""
        self._ring, self.ring, self.slots = ring, ring.address, ring.size

    def frames_held(self) -> int:
        """Frames that this end holds, beside those in the port's rings."""
        return (len(self._stage.slots()) if self._stage is not None else 0) + self.fault_frames()

    # -- handlers

    @read("port", "the port: method, device, what was done to it")
    def read_port(self) -> str:
        return "".join(f"{k}\t{v}\n" for k, v in self._port.facts().items())

    @read("statistics", "what the device and the kernel counted")
    def read_statistics(self) -> str:
        return "".join(f"{k}\t{v}\n" for k, v in self._port.statistics().items())

    @read("refusals", "better methods and modes that were tried, and why each was refused")
    def read_refusals(self) -> str:
        return "".join(f"{line}\n" for line in self._port.refusals)

    @read("faults", "what went wrong on purpose, by kind")
    def read_faults(self) -> str:
        kinds = ("dropped", "corrupted", "duplicated", "reordered", "delayed")
        counts = (self.fault_drops, self.fault_bits, self.fault_copies, self.fault_swaps, self.fault_delays)
        return "".join(f"{kind}\t{n}\n" for kind, n in zip(kinds, counts, strict=True))

    @read("packets", "packets so far")
    def read_packets(self) -> int:
        return self.count


def keywords(cls: type[Element]) -> list[str]:
    return [a.keyword for a in cls.arguments.values()]


def listed(names: Iterable[str]) -> str:
    return ", ".join(n.upper() for n in names)
