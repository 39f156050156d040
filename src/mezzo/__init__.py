"""mezzo: a multi-level modular router.

from mezzo import Router
from mezzo.elements import Counter, Discard, InfiniteSource

source = InfiniteSource(limit=1000, stop=True)
with Router.from_elements(source >> Counter(name="c") >> Discard()) as router:
    router.run()
    print(router.read("c.count"))
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Router", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    """The router is imported when somebody asks: `mezzo --version` need not wait for it."""
    if name == "Router":
        from mezzo.runtime import Router

        return Router
    if name == "connect":
        from mezzo.runtime.device import connect

        return connect
    raise AttributeError(f"module `mezzo` has no `{name}`")
