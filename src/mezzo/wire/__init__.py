"""Headers as tables of bit fields, checksums, addresses, and the printing of packets.

Adding a header is adding a file: `headers()` finds every `Header` class in this folder.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from mezzo.wire.header import Field, Header, bits, view

__all__ = ["Field", "Header", "bits", "headers", "view"]


@cache
def headers() -> dict[str, type[Header]]:
    """Every header table by its short name (`eth ip ip6 tcp ...`)."""
    modules = [import_module(f"{__name__}.{m.name}") for m in iter_modules(__path__)]
    classes = [c for m in modules for c in vars(m).values() if isinstance(c, type) and c.__module__ == m.__name__]
    return {c.short: c for c in classes if issubclass(c, Header) and c.short}
