"""Tokens become a tree (`parse_block`); several syntax errors are found in one run.

Recursive descent.  Groups and compounds nest at most `MAX_DEPTH` deep, which keeps the recursion well inside
Python's own limit; chains, lists and files are loops and may be of any length.

After a syntax error the parser skips to the next `;`, to a word that can only begin a statement, or to the bracket
that closes the current block, and goes on.  What it then reports is worth reading, because a broken statement says
little about the next one.

Where an end of a chain is left out inside a group or compound, it stands for `input` (at the beginning) or `output`
(at the end): `( [0] -> [0]; [1] -> Paint(1) -> [0] )`.
"""

from __future__ import annotations

import re

from mezzo.base import MezzoError, Reporter
from mezzo.frontends.click.lexer import KEYWORDS, Lexer, Token
from mezzo.frontends.click.source import ConfigText, SourceText
from mezzo.frontends.click.tree import (
    Arrow,
    Block,
    Body,
    Chain,
    ClassDef,
    ClassName,
    Compound,
    Define,
    Formal,
    Ports,
    Reference,
    Require,
    Statement,
)

MAX_DEPTH = 64
MAX_PORT = 65535
MAX_ERRORS = 40

_ARROWS = ("->", "=>")
_STATEMENT_WORDS = ("elementclass", "require", "define")
_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]{1,8}|[0-9]{1,9}")


class _Broken(Exception):
    """The statement cannot be read on; its diagnostic is already reported."""


def parse_text(source: SourceText, reporter: Reporter) -> Block:
    """The whole text as a block; what is wrong with it goes to the reporter."""
    return _Parser(source, reporter).file()


class _Parser:
    def __init__(self, source: SourceText, reporter: Reporter) -> None:
        self._source = source
        self._reporter = reporter
        self._lexer = Lexer(source, reporter)
        # What each open block would be closed by: ")" a group, "}" a compound.
        self._open: list[Token] = []

    # Blocks

    def file(self) -> Block:
        block = Block(self._source, 0)
        while True:
            self._statements(block)
            token = self._lexer.next()
            if token.kind == "end":
                return block
            self._error(token, f"this `{token.text}` closes nothing", hint="drop it")

    def _statements(self, block: Block) -> None:
        """Read statements up to a token that ends the block, which is left to the caller."""
        # Whether the last chain led to `output`, so that a chain without a beginning is no surprise behind it.
        after_output = True
        depth = len(self._open)
        while (kind := self._lexer.peek().kind) not in (")", "}", "||", "end"):
            if kind == ";":
                self._lexer.next()
                continue
            try:
                statement = self._statement(after_output)
            except _Broken:
                unclosed = len(self._open) - depth
                del self._open[depth:]
                self._skip_statement(unclosed)
                continue
            block.statements.append(statement)
            if isinstance(statement, Chain):
                last = statement.lists[-1]
                after_output = len(last) == 1 and last[0].what == "output"

    def _statement(self, after_output: bool) -> Statement:
        token = self._lexer.peek()
        if token.kind == "elementclass":
            return self._class_definition()
        if token.kind == "define":
            self._lexer.next()
            return Define(self._config_of(token))
        if token.kind == "require":
            self._lexer.next()
            return Require(self._config_of(token), token.offset)
        if token.kind == "provide":
            raise self._broken(token, "`provide` is a reserved word", "use another name")
        return self._chain(after_output)

    def _config_of(self, word: Token) -> ConfigText:
        opening = self._take("(", f"`(` behind `{word.text}`")
        return self._lexer.config(opening)

    # Chains

    def _chain(self, after_output: bool) -> Chain:
        chain = Chain([], [])
        while True:
            first = not chain.lists
            refs = self._list(first, after_output)
            chain.lists.append(refs)
            token = self._lexer.peek()
            if token.kind not in _ARROWS:
                break
            if not first and any(ref.left_out for ref in refs):
                raise self._broken(token, "an element is missing before this arrow", "name the element here")
            self._lexer.next()
            chain.arrows.append(Arrow(token.kind == "=>", token.offset))
        self._expect_end_of_chain(token, chain.lists[-1][-1])
        return chain

    def _expect_end_of_chain(self, token: Token, last: Reference) -> None:
        # A `;` may be left out where what follows cannot belong to the chain.
        if token.kind in (";", "name", "[", "{", "}", ")", "||", "end") or token.kind in KEYWORDS:
            return
        if token.kind == "(" and isinstance(last.what, Block):
            raise self._unexpected(token, "`->`, `=>` or `;` behind a group")
        raise self._unexpected(token, "`->`, `=>`, `::`, `,` or `;`")

    def _list(self, first: bool, after_output: bool) -> list[Reference]:
        refs = [self._reference(first, True, after_output)]
        while self._lexer.peek().kind == ",":
            self._lexer.next()
            if self._lexer.peek().kind in (*_ARROWS, ";", ")", "}", "end"):
                break
            refs.append(self._reference(first, False, after_output))
        return refs

    def _reference(self, first: bool, alone: bool, after_output: bool) -> Reference:
        start = self._lexer.peek()
        inputs = self._ports() if start.kind == "[" else None
        token = self._lexer.peek()
        if token.kind == "name":
            self._lexer.next()
            ref = Reference(token.text, token.offset, inputs=inputs)
        elif token.kind == "{":
            ref = Reference(self._compound(), token.offset, inputs=inputs)
        elif token.kind == "(":
            ref = Reference(self._group(), token.offset, inputs=inputs)
        else:
            return self._left_out(start, inputs, first, alone, after_output)
        self._declaration(ref)
        return ref

    def _declaration(self, ref: Reference) -> None:
        """The rest of an element: `:: Class`, `(config)`, `[ports]`."""
        token = self._lexer.peek()
        if token.kind == "::":
            if not isinstance(ref.what, str):
                raise self._broken(token, "only a name can be declared with `::`", "write `name :: { ... }`")
            self._lexer.next()
            ref.declared = self._class()
            token = self._lexer.peek()
        if token.kind == "(" and not isinstance(ref.what, Block):
            self._lexer.next()
            ref.config = self._lexer.config(token)
            token = self._lexer.peek()
        if token.kind == "[":
            ref.outputs = self._ports()

    def _class(self) -> ClassName | Compound:
        token = self._lexer.peek()
        if token.kind == "{":
            return self._compound()
        if token.kind == "name":
            self._lexer.next()
            return ClassName(token.text, token.offset)
        raise self._unexpected(self._lexer.peek(), "an element class or `{`")

    def _left_out(
        self, start: Token, ports: Ports | None, first: bool, alone: bool, after_output: bool
    ) -> Reference:
        """No element where one may stand: `input` or `output` of the group or compound around it."""
        token = self._lexer.peek()
        if not self._may_be_left_out(token.kind, ports is not None, first, alone):
            if ports is not None:
                raise self._unexpected(token, "an element behind this port")
            raise self._unexpected(token, "an element" if alone else "an element behind `,`")
        if first and ports is None and not after_output:
            self._reporter.warn(
                f"this `{token.text}` begins a connection at `input`",
                self._source.span(token.offset, 2),
                hint=f"write `input {token.text}` if that is meant, or drop the `;` before it",
            )
        if first:
            return Reference("input", start.offset, outputs=ports, left_out=True)
        return Reference("output", start.offset, inputs=ports, left_out=True)

    def _may_be_left_out(self, following: str, has_ports: bool, first: bool, alone: bool) -> bool:
        """Whether an end can be meant here: only inside a block, and only where a chain begins or ends."""
        if not self._open or following == "::":
            return False
        if following == ",":
            return has_ports
        return first == (following in _ARROWS) and (has_ports or alone)

    def _ports(self) -> Ports:
        opening = self._lexer.next()
        numbers: list[int] = []
        while True:
            if self._lexer.peek().kind == "]":
                self._lexer.next()
                return Ports(numbers or [0], True, opening.offset)
            first = last = self._port_number()
            if self._lexer.peek().kind == "-":
                dash = self._lexer.next()
                last = self._port_number()
                if last < first:
                    raise self._broken(dash, f"ports {first}-{last} run backwards", f"write [{last}-{first}]")
            numbers += range(first, last + 1)
            if len(numbers) > MAX_PORT + 1:
                raise self._broken(opening, f"more than {MAX_PORT + 1} ports in one list")
            if self._lexer.peek().kind == "]":
                self._lexer.next()
                return Ports(numbers, False, opening.offset)
            self._take(",", "`]` or `,` in a port list")

    def _port_number(self) -> int:
        token = self._take("name", "a port number")
        if not _NUMBER.fullmatch(token.text):
            raise self._broken(token, f"`{token.text}` is not a port number", "write a number, counted from 0")
        number = int(token.text, 16 if token.text[:2] in ("0x", "0X") else 10)
        if number > MAX_PORT:
            raise self._broken(token, f"port {token.text} is too high", f"ports run from 0 to {MAX_PORT}")
        return number

    # Groups, compounds, classes

    def _group(self) -> Block:
        opening = self._enter("group")
        block = Block(self._source, opening.offset)
        self._statements(block)
        self._close(opening, ")")
        return block

    def _compound(self) -> Compound:
        opening = self._enter("compound")
        compound = Compound(opening.offset)
        while True:
            if self._lexer.peek().kind == "...":
                self._extension(compound)
                break
            compound.bodies.append(self._body())
            if self._lexer.peek().kind != "||":
                break
            self._lexer.next()
        self._close(opening, "}")
        return compound

    def _extension(self, compound: Compound) -> None:
        token = self._lexer.next()
        compound.extends = token.offset
        if not compound.bodies or self._lexer.peek().kind != "}":
            raise self._broken(token, "`...` stands last, behind at least one body", "write `{ ... body ... || ... }`")

    def _body(self) -> Body:
        token = self._lexer.peek()
        formals = self._formals()
        block = Block(self._source, token.offset)
        self._statements(block)
        return Body(formals, block)

    def _formals(self) -> list[Formal]:
        """`$a, KEY $b, __REST__ $c |`, or nothing."""
        formals: list[Formal] = []
        while True:
            token = self._lexer.peek()
            if token.kind == "|" and not formals:
                self._lexer.next()
                return formals
            formal = self._formal(required=bool(formals))
            if formal is None:
                return formals
            formals.append(formal)
            if self._lexer.peek().kind != "|":
                self._take(",", "`,` or `|` behind a parameter")
            else:
                self._lexer.next()
                return formals

    def _formal(self, required: bool) -> Formal | None:
        token = self._lexer.peek()
        if token.kind == "variable":
            self._lexer.next()
            return Formal(token.text[1:], "", token.offset)
        if token.kind == "name" and self._lexer.peek_second().kind == "variable":
            self._lexer.next()
            variable = self._lexer.next()
            return Formal(variable.text[1:], token.text, token.offset)
        if required:
            raise self._unexpected(self._lexer.peek(), "a parameter such as `$x`")
        return None

    def _class_definition(self) -> ClassDef:
        self._lexer.next()
        token = self._take("name", "the name of the class")
        return ClassDef(token.text, token.offset, self._class())

    def _enter(self, what: str) -> Token:
        opening = self._lexer.next()
        self._open.append(opening)
        if len(self._open) > MAX_DEPTH:
            self._error(opening, f"{what} nested more than {MAX_DEPTH} deep", "name inner parts with `elementclass`")
            raise MezzoError(*self._reporter.errors)
        return opening

    def _close(self, opening: Token, closer: str) -> None:
        token = self._lexer.peek()
        if token.kind != closer:
            found = "the text ends" if token.kind == "end" else f"`{token.text}` stands"
            self._reporter.error(
                f"this `{opening.text}` is not closed",
                self._source.span(opening.offset),
                hint=f"write `{closer}` where {found} (line {self._source.span(token.offset).line})",
            )
            # A stray `||` would otherwise come back forever; a closing bracket may belong to a block around this one.
            if token.kind == "||":
                self._lexer.next()
                self._open.pop()
                raise _Broken
        else:
            self._lexer.next()
        self._open.pop()

    # Errors

    def _error(self, token: Token, message: str, hint: str = "") -> None:
        self._reporter.error(message, self._source.span(token.offset, max(1, len(token.text))), hint=hint)
        if len(self._reporter.errors) >= MAX_ERRORS:
            self._reporter.error("too many errors; the rest of the text is not read")
            raise MezzoError(*self._reporter.errors)

    def _broken(self, token: Token, message: str, hint: str = "") -> _Broken:
        self._error(token, message, hint)
        return _Broken()

    def _unexpected(self, token: Token, wanted: str) -> _Broken:
        if token.kind == "end":
            message = f"the text ends where {wanted} should stand"
        elif token.kind == "unknown":
            message = f"{token.text!r} has no meaning here"
        else:
            message = f"syntax error at `{token.text}`"
        return self._broken(token, message, f"write {wanted}")

    def _take(self, kind: str, wanted: str) -> Token:
        """Take the next token, which must be of this kind."""
        if self._lexer.peek().kind != kind:
            raise self._unexpected(self._lexer.peek(), wanted)
        return self._lexer.next()

    def _skip_statement(self, nested: int) -> None:
        """Go on at the next `;`, or at a token that only a statement or a block's end can be.

        `nested` brackets were opened by the broken statement and not closed.
        """
        while (token := self._lexer.peek()).kind != "end":
            if nested <= 0 and token.kind in (";", ")", "}", "||", *_STATEMENT_WORDS):
                return
            self._lexer.next()
            if token.kind == "(":
                self._lexer.config(token)
            elif token.kind == "{":
                nested += 1
            elif token.kind in (")", "}"):
                nested -= 1
