"""Wrappers: what is put around any port.

    port = Trace(Fault(MemoryPort(), drop_pct=5, seed=1), "x.pcap")
    Rate(port, "10Mbps")

Each adds a hook to the port and gives the port back; the ends that are made with it have the hook as a constant, so a
port without wrappers has none of their code.  Order does not matter: a trace shows what the graph sees, a fault is what
the wire does, a rate is in front of both.
"""

from __future__ import annotations

from mezzo.elements.units import parse_bandwidth, parse_duration
from mezzo.ports._fault import Faults
from mezzo.ports.port import Port


def Trace(port: Port, file: str) -> Port:
    """A capture of all that passes, both directions, in `file`."""
    port.hooks["trace"] = file
    return port


def Fault(
    port: Port,
    *,
    drop_pct: float = 0,
    corrupt_pct: float = 0,
    duplicate_pct: float = 0,
    reorder_pct: float = 0,
    delay: str = "0s",
    delay_pct: float = 100,
    lose_pct: float = 0,
    seed: int = 1,
) -> Port:
    """What goes wrong on purpose; see `_fault` for what each means."""
    shares = (drop_pct, corrupt_pct, duplicate_pct, reorder_pct, delay_pct, lose_pct)
    if not all(0 <= share <= 100 for share in shares):
        raise ValueError("a share is a percentage from 0 to 100")
    port.hooks["fault"] = Faults(*shares, delay=parse_duration(delay), seed=seed)
    return port


def Rate(port: Port, bandwidth: str) -> Port:
    """The most that passes in each direction: `10Mbps`."""
    port.hooks["rate"] = parse_bandwidth(bandwidth)
    return port
