"""Leaves out what no path reaches and what nobody reads.

Code behind Return, Break and Continue goes.  So does setting a local that is never read, except what computing its
value does: loads, calls and random numbers can fault or act and stay as `eval`.  So does a loop that only counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.passes.shape import branch, effect, loop, parts, with_bodies


def run(unit: Unit) -> Unit:
    return with_bodies(unit, _function)


def _function(body: ops.Body) -> ops.Body:
    body = _reachable(body)
    while True:
        read = set(_read(body))
        kept = _wanted(body, read)
        if kept == body:
            return body
        body = kept


def _reachable(body: ops.Body) -> ops.Body:
    made: list[ops.Stmt] = []
    for statement in body:
        if isinstance(statement, ops.If):
            made += branch(statement, _reachable(statement.then), _reachable(statement.orelse))
        elif isinstance(statement, ops.For):
            made.append(loop(statement, _reachable(statement.body)))
        else:
            made.append(statement)
        if made and not _goes_on(made[-1]):
            break
    return tuple(made)


def _goes_on(node: ops.Stmt) -> bool:
    """Whether the statement behind this one can be reached."""
    if isinstance(node, ops.If):
        return not all(side and not _goes_on(side[-1]) for side in (node.then, node.orelse))
    return not isinstance(node, (ops.Return, ops.Break, ops.Continue))


def _read(body: ops.Body) -> Iterator[str]:
    """The names of the locals that are read."""
    for statement in body:
        for part in parts(statement):
            yield from _read_expr(part)
        if isinstance(statement, ops.If):
            yield from _read(statement.then)
            yield from _read(statement.orelse)
        elif isinstance(statement, ops.For):
            yield from _read(statement.body)


def _read_expr(expr: ops.Expr) -> Iterator[str]:
    if isinstance(expr, ops.Local):
        yield expr.name
    for part in parts(expr):
        yield from _read_expr(part)


def _loop(node: ops.For, read: set[str]) -> ops.Body:
    """A loop that does nothing goes, unless its count may exceed the limit: that is a fault."""
    counts = isinstance(node.count, ops.Const) and node.count.value <= node.limit
    return () if counts and not node.body and node.name not in read else (node,)


def _wanted(body: ops.Body, read: set[str]) -> ops.Body:
    made: list[ops.Stmt] = []
    for statement in body:
        match statement:
            case ops.Set() if statement.name not in read:
                made += effect(statement.value)
            case ops.TablePut() | ops.TableDel() if statement.done and statement.done not in read:
                made.append(replace(statement, done=""))
            case ops.If():
                made += branch(statement, _wanted(statement.then, read), _wanted(statement.orelse, read))
            case ops.For():
                made += _loop(loop(statement, _wanted(statement.body, read)), read)
            case _:
                made.append(statement)
    return tuple(made)
