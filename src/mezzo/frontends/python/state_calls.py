"""Methods of the element's state: tables, prefixes, rings, slots, blobs, buffers."""

from __future__ import annotations

import ast
from typing import Any

from mezzo.frontends.python.arguments import NOTHING, Arguments
from mezzo.frontends.python.values import Num, Pkt, Value, literal
from mezzo.ir import ops
from mezzo.ir.types import BOOL, U8, U16, U32, U64, Type


class StateCalls(Arguments):
    """`self.NAME.METHOD(…)`: a method st_<kind>_<method>(state, node, wanted, name) each."""

    def st_table_get(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        args = self.args(node, 1, 2, "table.get(key, default)")
        default = self.number(args[1], state.type) if len(args) == 2 else literal(0, state.type)
        made = ops.LruGet if state.kind == "lru" else ops.TableGet
        return Num(made(state.type, state.name, self.number(args[0], state.key), default))

    def st_table_set(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        key, value = self.args(node, 2, 2, "table.set(key, value)")
        done = self.out.fresh("fits") if wanted else ""
        self.out.add(
            ops.TablePut(
                done, state.name, self.number(key, state.key), self.number(value, state.type), span=self.span(node)
            )
        )
        return Num(ops.Local(BOOL, done)) if wanted else NOTHING

    def st_table_delete(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (key,) = self.args(node, 1, 1, "table.delete(key)")
        done = self.out.fresh("was") if wanted else ""
        self.out.add(ops.TableDel(done, state.name, self.number(key, state.key), span=self.span(node)))
        return Num(ops.Local(BOOL, done)) if wanted else NOTHING

    st_lru_get, st_lru_set, st_lru_delete = st_table_get, st_table_set, st_table_delete

    def st_lpm_lookup(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        args = self.args(node, 1, 2, "lpm.lookup(address, default)")
        default = self.number(args[1], U32) if len(args) == 2 else ops.u32(0)
        return Num(ops.LpmGet(U32, state.name, self.number(args[0], state.key), default))

    def st_ring_push(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (packet,) = self.args(node, 1, 1, "ring.push(p)")
        self.out.add(ops.RingPush(state.name, self.packet(packet).expr, span=self.span(node)))
        return NOTHING

    def st_ring_push_front(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (packet,) = self.args(node, 1, 1, "ring.push_front(p)")
        self.out.add(ops.RingPush(state.name, self.packet(packet).expr, True, span=self.span(node)))
        return NOTHING

    def st_ring_pop(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.pop(state, node, name, False)

    def st_ring_pop_back(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.pop(state, node, name, True)

    def pop(self, state: Any, node: ast.Call, name: str, back: bool) -> Value:
        self.args(node, 0, 0, "ring.pop()")
        born = self.birth(node, name)
        self.out.add(ops.RingPop(born, state.name, back, span=self.span(node)))
        return Pkt(born)

    def st_slots_put(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        index, packet = self.args(node, 2, 2, "slots.put(index, p)")
        self.out.add(ops.SlotPut(state.name, self.number(index, U32), self.packet(packet).expr, span=self.span(node)))
        return NOTHING

    def st_slots_take(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (index,) = self.args(node, 1, 1, "slots.take(index)")
        born = self.birth(node, name)
        self.out.add(ops.SlotTake(born, state.name, self.number(index, U32), span=self.span(node)))
        return Pkt(born)

    def st_slots_used(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (index,) = self.args(node, 1, 1, "slots.used(index)")
        return Num(ops.SlotUsed(state.name, self.number(index, U32), span=self.span(node)))

    def st_blob_read(self, state: Any, type_: Type, order: str, node: ast.Call) -> Value:
        (at,) = self.args(node, 1, 1, "blob.u32(offset)")
        return Num(ops.BlobLoad(type_, state.name, self.number(at, U64), order, span=self.span(node)))

    def st_blob_u8(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U8, "little", node)

    def st_blob_u16le(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U16, "little", node)

    def st_blob_u32le(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U32, "little", node)

    def st_blob_u64le(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U64, "little", node)

    def st_blob_u32(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U32, "big", node)

    def st_buffer_put(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (arg,) = self.args(node, 1, 1, "buffer.put(u32(value))")
        value = self.expr(arg)
        if not isinstance(value, Num) or value.type is BOOL:
            self.fail(arg, "the width of this number is open", "write buffer.put(u32(value))")
        self.out.add(ops.BufPut(state.name, value.expr, span=self.span(node)))
        return NOTHING

    def st_buffer_put_packet(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        packet, offset, length = self.args(node, 3, 3, "buffer.put_packet(p, offset, length)")
        owner = self.packet(packet)
        at, count = self.number(offset, U32), self.number(length, U32)
        self.out.add(ops.BufPutPacket(state.name, owner.expr, "data", at, count, span=self.span(node)))
        return NOTHING
