"""Running routers: threads of execution, handlers, the ledger of where packets went."""

from mezzo.runtime.router import Router

__all__ = ["Router"]
