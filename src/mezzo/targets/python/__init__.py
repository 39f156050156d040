"""The python target: the definition.  IR becomes Python source, one function per IR function, that pdb can step through."""

from mezzo.targets.python.build import build
from mezzo.targets.python.run import Engine

__all__ = ["Engine", "build"]
