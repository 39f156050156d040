"""Ports: where packets come in and go out.  One file a driver; see `port` for the contract.

from mezzo.ports import Fault, MemoryPort, Trace

port = Trace(Fault(MemoryPort(), drop_pct=5, seed=1), "x.pcap")
"""

from typing import Any

_FACE = {
    "Port": "port", "PortTable": "port", "Ring": "ring", "RingError": "ring", "Slot": "ring", "MemoryPort": "memory",
    "Trace": "_wrap", "Fault": "_wrap", "Rate": "_wrap",
}  # fmt: skip
__all__ = list(_FACE)


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: drivers are elements, and elements ask for this package."""
    if name not in _FACE:
        raise AttributeError(f"mezzo.ports has no `{name}`")
    from importlib import import_module

    return getattr(import_module(f"mezzo.ports.{_FACE[name]}"), name)
