"""The functions of one shape of table, as LLVM text: hash, find, has, get, put, delete.

Open addressing with linear probing, at most half full.  Deletion moves later entries of the run back into the hole
(Knuth, volume 3, section 6.4, algorithm R), so there are no tombstones.  `state.Table` works on the same memory.
"""

from __future__ import annotations

from mezzo.targets.native.layout import TableShape
from mezzo.targets.native.text import TAGS, fill, ll, ll_mem

_TABLE = """
define internal fastcc i64 @thash_ID(KEY %k) alwaysinline {
FOLD
  %x1 = lshr i64 %x, 32
  %x2 = xor i64 %x, %x1
  %x3 = mul i64 %x2, -7046029254386353131
  %h = lshr i64 %x3, SHIFT
  ret i64 %h
}
define internal fastcc ptr @tfind_ID(ptr %body, KEY %k) {
entry:
  %h0 = call fastcc i64 @thash_ID(KEY %k)
  br label %probe
probe:
  %h = phi i64 [ %h0, %entry ], [ %h2, %step ]
  %o = mul nuw nsw i64 %h, STRIDE
  %e = getelementptr inbounds i8, ptr %body, i64 %o
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %free = icmp eq i32 %u, 0
  br i1 %free, label %out, label %test
test:
  %ek0 = load KMEM, ptr %e, align 1TAG_table
KTRUNC
  %same = icmp eq KEY %ek, %k
  br i1 %same, label %out, label %step
step:
  %h1 = add nuw nsw i64 %h, 1
  %h2 = and i64 %h1, MASK
  br label %probe
out:
  ret ptr %e
}
define internal fastcc i1 @thas_ID(ptr %d, KEY %k) {
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %r = icmp ne i32 %u, 0
  ret i1 %r
}
define internal fastcc VMEM @tget_ID(ptr %d, KEY %k, VMEM %default) {
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %vp = getelementptr inbounds i8, ptr %e, i64 VALUE
  %v = load VMEM, ptr %vp, align 1TAG_table
  %has = icmp ne i32 %u, 0
  %r = select i1 %has, VMEM %v, VMEM %default
  ret VMEM %r
}
define internal fastcc i1 @tput_ID(ptr %d, KEY %k, VMEM %v, i64 %capacity) {
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %vp = getelementptr inbounds i8, ptr %e, i64 VALUE
  %u = load i32, ptr %up, align 4TAG_table
  %has = icmp ne i32 %u, 0
  br i1 %has, label %replace, label %new
replace:
  store VMEM %v, ptr %vp, align 1TAG_table
  ret i1 true
new:
  %cp = getelementptr inbounds i8, ptr %d, i64 8
  %n = load i64, ptr %cp, align 8TAG_desc
  %room = icmp ult i64 %n, %capacity
  br i1 %room, label %insert, label %full
full:
  ret i1 false
insert:
  %kw = zext KEY %k to KWIDE
  %kv = trunc KWIDE %kw to KMEM
  store KMEM %kv, ptr %e, align 1TAG_table
  store VMEM %v, ptr %vp, align 1TAG_table
  store i32 1, ptr %up, align 4TAG_table
  %n1 = add nuw nsw i64 %n, 1
  store i64 %n1, ptr %cp, align 8TAG_desc
  ret i1 true
}
define internal fastcc i1 @tdel_ID(ptr %d, KEY %k) {
entry:
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %has = icmp ne i32 %u, 0
  br i1 %has, label %start, label %absent
absent:
  ret i1 false
start:
  %b0 = ptrtoint ptr %body to i64
  %e0 = ptrtoint ptr %e to i64
  %eo = sub i64 %e0, %b0
  %i0 = udiv exact i64 %eo, STRIDE
  br label %scan
scan:
  %hole = phi i64 [ %i0, %start ], [ %hole, %keep ], [ %j, %move ]
  %jp = phi i64 [ %i0, %start ], [ %j, %keep ], [ %j, %move ]
  %j0 = add nuw nsw i64 %jp, 1
  %j = and i64 %j0, MASK
  %jo = mul nuw nsw i64 %j, STRIDE
  %je = getelementptr inbounds i8, ptr %body, i64 %jo
  %jup = getelementptr inbounds i8, ptr %je, i64 USED
  %ju = load i32, ptr %jup, align 4TAG_table
  %ho = mul nuw nsw i64 %hole, STRIDE
  %he = getelementptr inbounds i8, ptr %body, i64 %ho
  %jfree = icmp eq i32 %ju, 0
  br i1 %jfree, label %done, label %judge
judge:
  %ek0 = load KMEM, ptr %je, align 1TAG_table
KTRUNC
  %home = call fastcc i64 @thash_ID(KEY %ek)
  %far0 = sub i64 %j, %home
  %far = and i64 %far0, MASK
  %gap0 = sub i64 %j, %hole
  %gap = and i64 %gap0, MASK
  %fill = icmp uge i64 %far, %gap
  br i1 %fill, label %move, label %keep
keep:
  br label %scan
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %he, ptr %je, i64 STRIDE, i1 false)TAG_table
  br label %scan
done:
  %hup = getelementptr inbounds i8, ptr %he, i64 USED
  store i32 0, ptr %hup, align 4TAG_table
  %cp = getelementptr inbounds i8, ptr %d, i64 8
  %n = load i64, ptr %cp, align 8TAG_desc
  %n1 = add nsw i64 %n, -1
  store i64 %n1, ptr %cp, align 8TAG_desc
  ret i1 true
}
"""


def table_id(shape: TableShape) -> str:
    return f"{shape.key}_{shape.value}_{shape.slots}"


def table_text(shape: TableShape) -> str:
    """The functions of one shape of table."""
    key, kmem = ll(shape.key), ll_mem(shape.key)
    if shape.key.bits == 128:
        fold = (
            "  %lo = trunc i128 %k to i64\n  %hi0 = lshr i128 %k, 64\n  %hi = trunc i128 %hi0 to i64\n"
            "  %him = mul i64 %hi, -3335678366873096957\n  %x = xor i64 %lo, %him"
        )
    elif shape.key.bits == 64:
        fold = "  %x = add i64 %k, 0"
    else:
        fold = f"  %x = zext {key} %k to i64"
    names = {
        "FOLD": fold,
        "ID": table_id(shape),
        "KEY": key,
        "KMEM": kmem,
        "KWIDE": "i256",
        "VMEM": ll_mem(shape.value),
        "KTRUNC": f"  %ekw = zext {kmem} %ek0 to i256\n  %ek = trunc i256 %ekw to {key}",
        "STRIDE": str(shape.stride),
        "USED": str(shape.used_at),
        "VALUE": str(shape.value_at),
        "MASK": str(shape.slots - 1),
        "SHIFT": str(shape.shift),
    } | {f"TAG_{k}": v for k, v in TAGS.items()}
    return fill(_TABLE, names)
