"""An element's page, made from its class: the same facts as text, as Markdown and as JSON."""

from __future__ import annotations

import inspect
from typing import Any

from mezzo.elements import library
from mezzo.elements.args import Arg, Rest
from mezzo.elements.element import Element

WIDTH = 100


def own_classes() -> list[type[Element]]:
    """The classes of mezzo's own library, by name; those that a program registers are left out."""
    classes = [cls for name in library.names() if (cls := library.maybe_find(name)) is not None]
    return [c for c in classes if c.__module__.startswith(("mezzo.elements.", "mezzo.ports."))]


def first_line(cls: type[Element]) -> str:
    return doc_of(cls).split("\n", 1)[0]


def doc_of(cls: type[Element]) -> str:
    """The class's own text: a class without one says nothing of its own."""
    return inspect.cleandoc(cls.__dict__.get("__doc__") or "")


def facts(cls: type[Element]) -> dict[str, Any]:
    """All that a page says, as plain values."""
    return {
        "name": cls.__name__,
        "aliases": list(cls.aliases),
        "doc": doc_of(cls),
        "ports": cls.ports,
        "processing": cls.processing,
        "flow": cls.flow or "x/x",
        "arguments": [argument_facts(a) for a in cls.arguments.values()],
        "methods": {m: [argument_facts(a) for a in more] for m, more in methods(cls).items()},
        "handlers": [handler_facts(cls, name) for name in sorted(cls.handler_table)],
        "example": cls.example,
        "example_reads": dict(cls.example_reads),
        "see": list(cls.see),
    }


def methods(cls: type[Element]) -> dict[str, list[Arg]]:
    """The arguments that only a METHOD of a device has, by method."""
    more: dict[str, list[Arg]] = getattr(cls, "arguments_by_method", dict)()
    return {m: args for m, args in more.items() if args}


def argument_facts(arg: Arg) -> dict[str, Any]:
    rest = isinstance(arg, Rest)
    least = arg.least if isinstance(arg, Rest) else 0
    return {
        "name": arg.keyword,
        "by_place": arg.positional,
        "required": least > 0 or (arg.required and not rest),
        "many": rest,
        "default": None if arg.required or rest else default_text(arg),
        "takes": arg.kind.words,
        "doc": arg.doc,
    }


def default_text(arg: Arg) -> str:
    """A default as one would write it; empty where it means "not given"."""
    if arg.default is None or arg.default in ("", b""):
        return ""
    if isinstance(arg.default, bytes) and len(arg.default) > 24:
        return f"{len(arg.default)} bytes of text"
    try:
        return arg.kind.show(arg.default)
    except (TypeError, ValueError, IndexError):
        return str(arg.default)


def handler_facts(cls: type[Element], name: str) -> dict[str, str]:
    handler = cls.handler_table[name]
    mode = ("r" if handler.read else "") + ("w" if handler.write else "")
    return {"name": name, "mode": mode, "flags": handler.flags, "doc": handler.doc}


# -- ports, in words

_KINDS = {"h": "push", "l": "pull", "a": "agnostic"}


def port_words(cls: type[Element]) -> list[str]:
    """One line for inputs, one for outputs: how many, and push or pull."""
    ins, _, outs = (cls.ports or "0/0").partition("/")
    kin, _, kout = (cls.processing or "a/a").partition("/")
    outs, kout = outs or ins, kout or kin
    return [_side("input", ins, kin), _side("output", outs, kout)]


def _side(word: str, count: str, codes: str) -> str:
    if count == "0":
        return f"no {word}s"
    if count in ("=", "=+"):
        number = f"as many {word}s as inputs" if count == "=" else f"one {word} more than inputs"
    else:
        number = f"{_count(count)} {word}{'' if count == '1' else 's'}"
    kinds_ = [_KINDS[c] for c in codes] or ["agnostic"]
    if len(set(kinds_)) == 1:
        return f"{number}, {kinds_[0]}"
    first = ", ".join(f"{k} ({word} {i})" for i, k in enumerate(kinds_[:-1]))
    return f"{number}, {first}, {kinds_[-1]} (the others)"


def _count(code: str) -> str:
    if code == "-":
        return "any number of"
    low, dash, high = code.partition("-")
    if not dash:
        return low
    return f"{low or 0} to {high}" if high else f"{low} or more"


# -- forms


def usage(cls: type[Element]) -> str:
    """`Queue([CAPACITY])`: arguments by place, then keywords."""
    words = []
    for arg in cls.arguments.values():
        word = str(arg.keyword) if arg.positional else f"{arg.keyword} value"
        if isinstance(arg, Rest):
            words.append(f"{arg.keyword}, …" if arg.least else f"[{arg.keyword}, …]")
        else:
            words.append(word if arg.required else f"[{word}]")
    return f"{cls.__name__}({', '.join(words)})" if words else cls.__name__


def argument_line(arg: Arg) -> str:
    """What an argument is: meaning, what it takes, default, bounds on changing it."""
    f = argument_facts(arg)
    parts = [f["doc"]] if f["doc"] else []
    if f["takes"] != "text" or not parts:
        parts.append(f["takes"] if not parts else f"({f['takes']})")
    text = " ".join(parts)
    if f["required"]:
        text += "; required"
    elif f["default"]:
        text += f"; default {f['default']}"
    return text + ("; keyword only" if not arg.positional and not f["many"] else "")


def as_text(cls: type[Element]) -> str:
    """The page for a terminal."""
    blocks = [usage(cls), doc_of(cls)]
    if cls.aliases:
        blocks.append(f"Also known as {', '.join(cls.aliases)}.")
    if cls.arguments:
        rows = [(str(a.keyword), argument_line(a)) for a in cls.arguments.values()]
        blocks.append("ARGUMENTS\n" + _rows(rows))
    for method, args in methods(cls).items():
        blocks.append(f"WITH METHOD {method}\n" + _rows([(str(a.keyword), argument_line(a)) for a in args]))
    blocks.append("PORTS\n" + "\n".join(f"  {line}" for line in port_words(cls)))
    handlers = [handler_facts(cls, n) for n in sorted(cls.handler_table)]
    if handlers:
        blocks.append("HANDLERS\n" + _rows([(f"{h['name']} ({h['mode']})", h["doc"]) for h in handlers]))
    if cls.example:
        example = "\n".join(f"  {line}" for line in inspect.cleandoc(cls.example).split("\n"))
        reads = "".join(f"\n  then {path} reads {_shown(value)}" for path, value in cls.example_reads.items())
        blocks.append(f"EXAMPLE\n{example}{reads}")
    if cls.see:
        blocks.append(f"SEE ALSO\n  {', '.join(cls.see)}")
    return "\n\n".join(b for b in blocks if b) + "\n"


def _rows(rows: list[tuple[str, str]]) -> str:
    import textwrap

    width = min(max(len(a) for a, _ in rows), 24)
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, WIDTH - width - 4) or [""]
        lines.append(f"  {name:<{width}}  {wrapped[0]}".rstrip())
        lines += [f"  {'':<{width}}  {line}" for line in wrapped[1:]]
    return "\n".join(lines)


def _shown(value: str) -> str:
    return value.rstrip("\n").replace("\n", " | ")


def as_markdown(cls: type[Element]) -> str:
    """The page for docs/elements."""
    blocks = [f"# {cls.__name__}", f"`{usage(cls)}`", doc_of(cls)]
    if cls.aliases:
        blocks.append("Also known as " + ", ".join(f"`{a}`" for a in cls.aliases) + ".")
    if cls.arguments:
        rows = [f"| `{a.keyword}` | {_cell(argument_line(a))} |" for a in cls.arguments.values()]
        blocks.append("## Arguments\n\n| name | what |\n| --- | --- |\n" + "\n".join(rows))
    if methods(cls):
        rows = [
            f"| {m} | `{a.keyword}` | {_cell(argument_line(a))} |" for m, more in methods(cls).items() for a in more
        ]
        blocks.append("## Arguments of one METHOD\n\n| METHOD | name | what |\n| --- | --- | --- |\n" + "\n".join(rows))
    blocks.append("## Ports\n\n" + "\n".join(f"- {line}" for line in port_words(cls)))
    handlers = [handler_facts(cls, n) for n in sorted(cls.handler_table)]
    if handlers:
        rows = [f"| `{h['name']}` | {h['mode']} | {_cell(h['doc'])} |" for h in handlers]
        blocks.append("## Handlers\n\n| name | | what |\n| --- | --- | --- |\n" + "\n".join(rows))
    if cls.example:
        reads = "".join(f"\n- `{path}` then reads `{_shown(value)}`" for path, value in cls.example_reads.items())
        blocks.append(f"## Example\n\n```click\n{inspect.cleandoc(cls.example)}\n```\n{reads}")
    if cls.see:
        blocks.append("See also " + ", ".join(f"[{name}]({name}.md)" for name in cls.see) + ".")
    return "\n\n".join(b.rstrip() for b in blocks if b) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
