"""Click text from the XML of click2xml (`click_of_xml`), ours or Click's, with compounds if it has them.

Classes with a `classid` are written before they are used, as the XML has them; those without a name get one.  Elements
and connections are written as they come; what the text means is for the front end to find out.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.parsers import expat

from mezzo.base import Diagnostic, MezzoError, Span

_SPACE = "{http://www.lcdf.org/click/xml/}"
_DEEPEST = 60


def click_of_xml(text: str, file: str = "xml") -> str:
    """The configuration; MezzoError where the XML is none of click2xml's."""
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace"))
    except ElementTree.ParseError as trouble:
        line, column = trouble.position
        lines = text.split("\n")
        place = Span(file, line, column + 1, lines[line - 1] if line <= len(lines) else "")
        raise MezzoError(Diagnostic(f"this is not XML: {expat.ErrorString(trouble.code)}", place)) from None
    if _tag(root) != "configuration":
        raise MezzoError(Diagnostic(f"{file} is XML with `{_tag(root)}` outside, not a `configuration` of click2xml"))
    return "\n".join(_Writer(file).block(root, 0)) + "\n"


def _tag(node: ElementTree.Element) -> str:
    return node.tag.removeprefix(_SPACE)


def _number(formal: ElementTree.Element) -> int:
    number = formal.get("number", "")
    return int(number) if number.isdecimal() else 0


class _Writer:
    def __init__(self, file: str) -> None:
        self._file = file
        self._classes: dict[str, str] = {}  # by classid

    def block(self, node: ElementTree.Element, depth: int) -> list[str]:
        """The statements of a configuration or compound."""
        if depth > _DEEPEST:
            raise MezzoError(f"{self._file}: classes are nested more than {_DEEPEST} deep")
        indent, lines = "  " * depth, list[str]()
        for child in node:
            if _tag(child) == "elementclass":
                lines += [indent + line for line in self._class(child, depth)]
            elif _tag(child) == "element":
                config = child.get("config", "")
                text = f"{self._need(child, 'name')} :: {self._class_name(child)}" + (f"({config})" if config else "")
                lines.append(f"{indent}{text};")
            elif _tag(child) == "connection":
                lines.append(f"{indent}{self._connection(child)};")
            elif _tag(child) != "formal":
                raise MezzoError(f"{self._file}: `{_tag(child)}` has no meaning in a configuration")
        return lines

    def _class(self, node: ElementTree.Element, depth: int) -> list[str]:
        identity = self._need(node, "classid")
        name = node.get("classname") or f"Class@{len(self._classes) + 1}"
        if len(node) != 1 or _tag(node[0]) not in ("compound", "synonym"):
            raise MezzoError(f"{self._file}: class `{name}` is neither a compound nor a synonym")
        if _tag(node[0]) == "synonym":
            lines = [f"elementclass {name} {self._class_name(node[0])};"]
        else:
            lines = self._compound(name, node[0], depth)
        self._classes[identity] = name
        return lines

    def _compound(self, name: str, node: ElementTree.Element, depth: int) -> list[str]:
        formals = sorted((f for f in node if _tag(f) == "formal"), key=_number)
        words = [f"{f.get('key', '')} ${self._need(f, 'name')}".strip() for f in formals]
        head = f"elementclass {name} {{" + (f" {', '.join(words)} |" if words else "")
        # The DTD calls what is extended "prev…", Click's own tool writes "overload…".
        extends = any(key.startswith(("prevclass", "overloadclass")) for key in node.attrib)
        return [head, *self.block(node, depth + 1), "|| ... }" if extends else "}"]

    def _class_name(self, node: ElementTree.Element) -> str:
        if "classname" in node.attrib:
            return node.attrib["classname"]
        identity = self._need(node, "classid")
        if identity not in self._classes:
            raise MezzoError(f"{self._file}: there is no class with the classid `{identity}` before its use")
        return self._classes[identity]

    def _connection(self, node: ElementTree.Element) -> str:
        out, into = node.get("fromport", "0"), node.get("toport", "0")
        parts = [self._need(node, "from"), f"[{out}]" if out != "0" else "", "->"]
        parts += [f"[{into}]" if into != "0" else "", self._need(node, "to")]
        return " ".join(part for part in parts if part)

    def _need(self, node: ElementTree.Element, key: str) -> str:
        if key not in node.attrib:
            raise MezzoError(f"{self._file}: a `{_tag(node)}` has no `{key}`")
        return node.attrib[key]
