"""Element classes made from text, so that the places in their errors do not move when a test file does."""

from __future__ import annotations

import linecache
import sys
from textwrap import indent
from types import ModuleType
from typing import Any

from mezzo.base import MezzoError
from mezzo.elements import Element, Env
from mezzo.frontends.python import translate
from mezzo.ir.linear import check_linear
from mezzo.ir.module import Unit
from mezzo.ir.spec import check_unit

HEAD = '''from mezzo.elements import *
class Example(Element):
    """An example."""
    count: u64
    small: u8
    codes: Array[u16, 8]
    table: Table[u32, u32, 100]
    ring: Ring[4]
    slots: Slots[2]
    log: Buffer[64]
    image: Blob
    limit = Arg(Int(), 5)
'''


def element_class(methods: str, file: str = "example.py") -> type[Element]:
    """The class Example with these methods; `example.py` is what its errors call the file."""
    text = HEAD + indent(methods.strip("\n"), "    ") + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = sys.modules["example"] = ModuleType("example")
    exec(compile(text, file, "exec"), module.__dict__)
    found: type[Element] = module.__dict__["Example"]
    return found


def unit_of(methods: str, file: str = "example.py", **constants: Any) -> Unit:
    """The unit of one instance; its packet code is translated, and nothing is checked."""
    element = element_class(methods, file)("example")
    troubles = element.setup([], Env())
    assert not troubles, troubles
    for name, value in constants.items():
        setattr(element, name, value)
    return translate(element)


def complaint(methods: str) -> str:
    """What the user reads about these methods; empty when all is well."""
    try:
        unit = unit_of(methods)
        check_unit(unit)
        check_linear(unit)
    except MezzoError as error:
        return str(error) + "\n"
    return ""
