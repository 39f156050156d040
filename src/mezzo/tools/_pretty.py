"""The page that `mezzo pretty` writes: everything in one file, readable by day and by night.

The configuration as it was written, coloured; each name knows its declaration, each class its description below; the
picture; a table of elements with their ports; and what each class does.  Nothing is loaded from anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic
from mezzo.frontends.click.marks import Mark, marks
from mezzo.graph import Instance, Resolved
from mezzo.tools._page import as_text, first_line

if TYPE_CHECKING:
    from mezzo.elements.element import Element

# Characters that a page must not hold, as a file that is no text has them.
_UNSEEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000)), "\ufffd")
MOST_DRAWN = 400  # elements; a larger picture takes long and shows nothing

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --paper: #ffffff; --soft: #5a6b7b; --line: #d8dfe6; --card: #f6f8fa;
  --comment: #5b6b5b; --keyword: #8a2be2; --class: #0b5fa5; --name: #7a3e00; --config: #0b6e4f; --error: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #dce3ea; --paper: #14181d; --soft: #9aa9b8; --line: #323b45;
  --card: #1c2229; --comment: #93a893; --keyword: #c9a2ff; --class: #7ec3ff; --name: #ffc48a; --config: #7fdcb8;
  --error: #ff8a94; } }
body { margin: 0 auto; max-width: 76rem; padding: 1rem 1.5rem 3rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } nav a { margin-right: 1rem; }
a { color: inherit; text-decoration-color: var(--soft); } p, .soft { color: var(--soft); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto;
  font: 13px/1.55 ui-monospace, 'DejaVu Sans Mono', Menlo, monospace; tab-size: 8; }
.c-cmt { color: var(--comment); font-style: italic; } .c-kw { color: var(--keyword); font-weight: 600; }
.c-cd, .c-class { color: var(--class); } .c-cd { font-weight: 600; } .c-cfg { color: var(--config); }
.c-ed { color: var(--name); font-weight: 600; }
.c-err { text-decoration: underline wavy var(--error); } .error { color: var(--error); white-space: pre-wrap; }
:target { outline: 2px solid var(--class); border-radius: 3px; }
.picture { background: #fff; border: 1px solid var(--line); border-radius: 6px; overflow: auto; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
td code { font-size: 12.5px; } summary { cursor: pointer; }
""".strip()


@dataclass
class Page:
    """What is known of a configuration; `docs` is a URL with `%s` for a class's name, or empty."""

    title: str
    text: str
    resolved: Resolved | None
    errors: Sequence[Diagnostic] = ()
    docs: str = ""
    classes: Mapping[str, type[Element]] = field(default_factory=dict)
    _defined: set[str] = field(default_factory=set)
    _declared: set[str] = field(default_factory=set)

    def html(self) -> str:
        parts = [f"<h1>{escape(self.title)}</h1>", self._summary(), self._errors()]
        parts += ["<h2 id='configuration'>Configuration</h2>", f"<pre>{self._source()}</pre>"]
        if self.resolved is not None:
            parts += [self._picture(self.resolved), self._elements(self.resolved), self._classes(self.resolved)]
        body = "\n".join(part for part in parts if part)
        page = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title>\n<style>\n{STYLE}\n</style></head>\n<body>\n{body}\n</body></html>\n"
        )
        return page.translate(_UNSEEN)

    def _summary(self) -> str:
        if self.resolved is None:
            return ""
        graph = self.resolved.graph
        links = "".join(f"<a href='#{x}'>{x}</a>" for x in ("configuration", "picture", "elements", "classes"))
        counted = f"{len(graph.instances)} elements, {len(graph.connections)} connections"
        return f"<p>{counted}</p><nav>{links}</nav>"

    def _errors(self) -> str:
        return "".join(f"<pre class='error'>{escape(d.render())}</pre>" for d in self.errors)

    # The text

    def _source(self) -> str:
        wrong = self._wrong_lines()
        parts, done = [], 0
        for mark in marks(self.text):
            parts += [escape(self.text[done : mark.begin]), self._marked(mark)]
            done = mark.end
        lines = ("".join(parts) + escape(self.text[done:])).split("\n")
        return "\n".join(self._line(line, number, wrong) for number, line in enumerate(lines, 1))

    def _wrong_lines(self) -> dict[int, str]:
        return {d.span.line: d.message for d in self.errors if d.span is not None}

    def _line(self, line: str, number: int, wrong: Mapping[int, str]) -> str:
        message = wrong.get(number)
        return line if message is None else f"<span class='c-err' title='{_attribute(message)}'>{line}</span>"

    def _marked(self, mark: Mark) -> str:
        text = self.text[mark.begin : mark.end]
        if mark.kind in ("comment", "directive", "config"):
            # A part that goes over lines is closed at each end, since lines may be marked, too.
            css = "c-cfg" if mark.kind == "config" else "c-cmt"
            return "\n".join(f"<span class='{css}'>{escape(line)}</span>" for line in text.split("\n"))
        if mark.kind == "keyword":
            return f"<span class='c-kw'>{text}</span>"
        if mark.kind == "declared":
            # Compounds may declare the same name; the first has the place.
            place = "" if text in self._declared else f" id='e-{text}'"
            self._declared.add(text)
            return f"<span class='c-ed'{place} title='{self._declaration(text)}'>{text}</span>"
        if mark.kind == "defined":
            place = "" if text in self._defined else f" id='c-{text}'"
            self._defined.add(text)
            return f"<span class='c-cd'{place}>{text}</span>"
        if mark.kind in ("name", "class"):
            return self._name(text)
        return escape(text)

    def _name(self, text: str) -> str:
        if text in self._defined:
            return f"<a class='c-class' href='#c-{text}'>{text}</a>"
        if text in self.classes:
            title = _attribute(first_line(self.classes[text]))
            return f"<a class='c-class' href='{self._doc_link(text)}' title='{title}'>{text}</a>"
        declaration = self._declaration(text)
        return f"<a href='#row-{text}' title='{declaration}'>{text}</a>" if declaration else text

    def _doc_link(self, cls: str) -> str:
        return escape(self.docs.replace("%s", cls)) if self.docs else f"#class-{cls}"

    def _declaration(self, name: str) -> str:
        instance = self.resolved.graph.instances.get(name) if self.resolved is not None else None
        return _attribute(_written(instance)) if instance is not None else ""

    # The graph

    def _picture(self, resolved: Resolved) -> str:
        from mezzo.graph import draw_svg

        head, count = "<h2 id='picture'>Picture</h2>", len(resolved.graph.instances)
        if count > MOST_DRAWN:
            return f"{head}<p>{count} elements are too many for a picture.</p>"
        return f"{head}<div class='picture'>{draw_svg(resolved)}</div>"

    def _elements(self, resolved: Resolved) -> str:
        rows = [self._row(resolved, instance) for _, instance in sorted(resolved.graph.instances.items())]
        head = "<tr><th>element</th><th>class</th><th>configuration</th><th>inputs</th><th>outputs</th></tr>"
        return f"<h2 id='elements'>Elements</h2>\n<table>{head}\n" + "\n".join(rows) + "</table>"

    def _row(self, resolved: Resolved, instance: Instance) -> str:
        name, graph = instance.name, resolved.graph
        into = [(c.dst_port, c.src, c.src_port) for c in graph.inputs_of(name)]
        out_of = [(c.src_port, c.dst, c.dst_port) for c in graph.outputs_of(name)]
        cells = [
            f"<a href='#e-{name}'>{name}</a>" if name in self._declared else name,
            f"<a class='c-class' href='{self._doc_link(instance.cls)}'>{instance.cls}</a>",
            f"<code>{escape(instance.config)}</code>",
            _ports(resolved.input_kinds[name], into, "from"),
            _ports(resolved.output_kinds[name], out_of, "to"),
        ]
        return f"<tr id='row-{name}'>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

    def _classes(self, resolved: Resolved) -> str:
        used = sorted({i.cls for i in resolved.graph.instances.values()})
        parts = ["<h2 id='classes'>Classes</h2>"]
        for name in used:
            cls = self.classes.get(name)
            if cls is None:
                parts.append(f"<p id='class-{name}'>{escape(name)}: a class that is not here</p>")
                continue
            head = f"<summary><b>{name}</b> <span class='soft'>{escape(first_line(cls))}</span></summary>"
            parts.append(f"<details id='class-{name}'>{head}<pre>{escape(as_text(cls))}</pre></details>")
        return "\n".join(parts)


def _ports(kinds: Sequence[str], joined: Sequence[tuple[int, str, int]], word: str) -> str:
    lines = []
    for port, kind in enumerate(kinds):
        ends = [f"<a href='#row-{n}'>{escape(n)}</a>" + (f" [{p}]" if p else "") for at, n, p in joined if at == port]
        lines.append(f"{port} <span class='soft'>{kind}, {word}</span> " + ", ".join(ends))
    return "<br>".join(lines)


def _written(instance: Instance) -> str:
    config = " ".join(instance.config.split())
    return f"{instance.name} :: {instance.cls}" + (f"({config[:400]})" if config else "")


def _attribute(text: str) -> str:
    return escape(text, quote=True)
