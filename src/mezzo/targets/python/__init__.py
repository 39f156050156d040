"""The python target: the definition.  Each IR function becomes a Python function that pdb can step through."""

from mezzo.targets.python.build import build
from mezzo.targets.python.run import Engine, Moving, inherit

moving = Moving

__all__ = ["Engine", "build", "inherit", "moving"]
