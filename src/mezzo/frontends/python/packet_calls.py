"""Methods of packets: reads and writes by offset, resizing, marks, clones, copies."""

from __future__ import annotations

import ast
from functools import cache

from mezzo.frontends.python.arguments import NOTHING, WIDTHS, Arguments
from mezzo.frontends.python.values import Num, Pkt, Place, Thing, Value, View
from mezzo.ir import ops
from mezzo.ir.types import I64, U32, U64, Type
from mezzo.wire.header import Header


class PacketCalls(Arguments):
    """`p.NAME(…)`, and from a mark `p.net.NAME(…)`: a method pk_NAME each."""

    def packet_method(self, owner: Pkt | Place, method: str, node: ast.Call, name: str) -> Value:
        packet, mark = (owner.packet, owner.mark) if isinstance(owner, Place) else (owner, "data")
        stem, order = (method[:-2], "little") if method.endswith("le") else (method, "big")
        span = self.span(node)
        if stem in WIDTHS:
            (at,) = self.args(node, 1, 1, f"{method}(offset)")
            return Num(ops.PLoad(WIDTHS[stem], packet.expr, mark, self.number(at, U32), order, span=span))
        if stem.startswith("set_") and stem[4:] in WIDTHS:
            at, value = self.args(node, 2, 2, f"{method}(offset, value)")
            offset = self.number(at, U32)
            self.out.add(ops.PStore(packet.expr, mark, offset, self.number(value, WIDTHS[stem[4:]]), order, span=span))
            return NOTHING
        if stem.startswith("anno_") and stem[5:] in WIDTHS:
            (at,) = self.args(node, 1, 1, f"{method}(offset)")
            place = self.anno_place(at, WIDTHS[stem[5:]])
            return Num(ops.Anno(WIDTHS[stem[5:]], packet.expr, place, span=span))
        if stem.startswith("set_anno_") and stem[9:] in WIDTHS:
            at, value = self.args(node, 2, 2, f"{method}(offset, value)")
            place = self.anno_place(at, WIDTHS[stem[9:]])
            self.out.add(ops.AnnoSet(packet.expr, place, self.number(value, WIDTHS[stem[9:]]), span=span))
            return NOTHING
        known = getattr(self, "pk_" + method, None)
        if known is None:
            self.fail(node, f"packets have no `{method}`", "see docs/language.md for what packet code can do")
        return known(packet, mark, node, name)  # type: ignore[no-any-return]

    @classmethod
    @cache
    def packet_methods(cls) -> frozenset[str]:
        widths = [w + end for w in WIDTHS for end in ("", "le")]
        access = [head + w for head in ("", "set_", "anno_", "set_anno_") for w in widths]
        return frozenset([*access, *(m[3:] for m in dir(cls) if m.startswith("pk_"))])

    def anno_place(self, node: ast.expr, type_: Type) -> int:
        place, last = self.known_int(node, "the annotation's offset"), 48 - type_.bits // 8
        if not 0 <= place <= last:
            self.fail(node, f"the annotations have 48 bytes: a {type_} fits at 0 to {last}, not at {place}")
        return place

    def pk_view(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        which, at = self.args(node, 2, 2, "p.view(Header, offset)")
        header = self.expr(which)
        if not isinstance(header, Thing) or not (isinstance(header.object, type) and issubclass(header.object, Header)):
            self.fail(which, "a header class of mezzo.wire is wanted here")
        return View(packet, mark, self.out.keep(self.number(at, U32)), header.object)

    def pk_sum16(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        args = self.args(node, 2, 3, "p.net.sum16(offset, length) or with an initial sum")
        offset, length = self.number(args[0], U32), self.number(args[1], U32)
        init = self.number(args[2], U32) if len(args) == 3 else ops.u32(0)
        return Num(self.out.keep(ops.Sum16(packet.expr, mark, offset, length, init, span=self.span(node))))

    def resize(self, kind: str, packet: Pkt, node: ast.Call) -> Value:
        (amount,) = self.args(node, 1, 1, f"p.{kind}(count)")
        self.out.add(ops.Resize(kind, packet.expr, self.number(amount, U32), span=self.span(node)))
        return NOTHING

    def pk_strip(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("strip", packet, node)

    def pk_prepend(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("prepend", packet, node)

    def pk_append(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("append", packet, node)

    def pk_trim(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("trim", packet, node)

    def set_mark(self, field: str, packet: Pkt, node: ast.Call) -> Value:
        (at,) = self.args(node, 1, 1, "p.set_network(offset from the start of data)")
        value = self.expr(at)
        if isinstance(value, Thing) and value.object is None:
            self.out.add(ops.MarkClear(packet.expr, field, span=self.span(node)))
        else:
            self.out.add(ops.MetaSet(packet.expr, field, self.fit(value, I64, at, "an offset"), span=self.span(node)))
        return NOTHING

    def pk_set_mac(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.set_mark("mac", packet, node)

    def pk_set_network(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.set_mark("net", packet, node)

    def pk_set_transport(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.set_mark("trans", packet, node)

    def pk_clone(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        self.args(node, 0, 0, "p.clone()")
        born = self.birth(node, name)
        self.out.add(ops.Clone(born, packet.expr, span=self.span(node)))
        return Pkt(born)

    def pk_move(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        to, start, count = (self.number(a, U32) for a in self.args(node, 3, 3, "p.move(to, from, count)"))
        self.out.add(ops.Copy(packet.expr, mark, to, packet.expr, mark, start, count, span=self.span(node)))
        return NOTHING

    def pk_copy_from(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        to, source, start, count = self.args(node, 4, 4, "p.copy_from(to, q, from, count)")
        other = self.expr(source)
        if not isinstance(other, (Pkt, Place)):
            self.fail(source, "a packet is wanted here")
        origin, origin_mark = (other, "data") if isinstance(other, Pkt) else (other.packet, other.mark)
        numbers = [self.number(a, U32) for a in (to, start, count)]
        self.out.add(
            ops.Copy(
                packet.expr, mark, numbers[0], origin.expr, origin_mark, numbers[1], numbers[2], span=self.span(node)
            )
        )
        return NOTHING

    def pk_write(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        to, blob, start, count = self.args(node, 4, 4, "p.write(to, self.blob, from, count)")
        place = self.number(to, U32)
        self.out.add(
            ops.CopyBlob(
                packet.expr,
                mark,
                place,
                self.blob(blob),
                self.number(start, U64),
                self.number(count, U32),
                span=self.span(node),
            )
        )
        return NOTHING
