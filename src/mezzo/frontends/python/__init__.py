"""The packet language: a typed subset of Python, read from a method's source and translated to IR."""

from mezzo.frontends.python.unit import translate, translate_wire

__all__ = ["translate", "translate_wire"]
