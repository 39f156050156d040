"""mezzo: a multi-level modular router."""

__version__ = "0.1.0"
