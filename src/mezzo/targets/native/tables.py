"""The functions of one shape of table, as LLVM text: hash, find, has, get, put, delete.  One that forgets has use, too.

Open addressing with linear probing, at most half full.  Deletion moves later entries of the run back into the hole
(Knuth, volume 3, section 6.4, algorithm R), so there are no tombstones.  `state.Table` works on the same memory.
"""

from __future__ import annotations

from mezzo.targets.native.layout import TableShape
from mezzo.targets.native.text import TAGS, fill, ll, ll_mem

_FIND = """
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
"""
_PLAIN = """
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
"""
_DELETE = """
define internal fastcc i1 @tdel_ID(ptr %d, KEY %k) {
entry:
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %has = icmp ne i32 %u, 0
  br i1 %has, label %present, label %absent
absent:
  ret i1 false
present:
  call fastcc void @tcut_ID(ptr %d, ptr %body, ptr %e)
  ret i1 true
}
define internal fastcc void @tcut_ID(ptr %d, ptr %body, ptr %e) {
start:
LEAVE
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
MOVED
  br label %scan
done:
  %hup = getelementptr inbounds i8, ptr %he, i64 USED
  store i32 0, ptr %hup, align 4TAG_table
  %cp = getelementptr inbounds i8, ptr %d, i64 8
  %n = load i64, ptr %cp, align 8TAG_desc
  %n1 = add nsw i64 %n, -1
  store i64 %n1, ptr %cp, align 8TAG_desc
  ret void
}
"""
# The ring: each entry's USED word leads to the one used before it, its LAST word to the one used after it.
_RING = """
define internal fastcc ptr @tslot_ID(ptr %body, i32 %slot) alwaysinline {
  %wide = zext i32 %slot to i64
  %o = mul nuw nsw i64 %wide, STRIDE
  %e = getelementptr inbounds i8, ptr %body, i64 %o
  ret ptr %e
}
define internal fastcc void @tjoin_ID(ptr %body, i32 %a, i32 %b) alwaysinline {
  %ea = call fastcc ptr @tslot_ID(ptr %body, i32 %a)
  %eb = call fastcc ptr @tslot_ID(ptr %body, i32 %b)
  %np = getelementptr inbounds i8, ptr %ea, i64 USED
  %lp = getelementptr inbounds i8, ptr %eb, i64 LAST
  %b1 = add nuw i32 %b, 1
  store i32 %b1, ptr %np, align 4TAG_table
  store i32 %a, ptr %lp, align 4TAG_table
  ret void
}
define internal fastcc i32 @tnext_ID(ptr %e) alwaysinline {
  %np = getelementptr inbounds i8, ptr %e, i64 USED
  %n1 = load i32, ptr %np, align 4TAG_table
  %n = add i32 %n1, -1
  ret i32 %n
}
define internal fastcc i32 @tlast_ID(ptr %e) alwaysinline {
  %lp = getelementptr inbounds i8, ptr %e, i64 LAST
  %l = load i32, ptr %lp, align 4TAG_table
  ret i32 %l
}
define internal fastcc i32 @tnumber_ID(ptr %body, ptr %e) alwaysinline {
  %b0 = ptrtoint ptr %body to i64
  %e0 = ptrtoint ptr %e to i64
  %o = sub i64 %e0, %b0
  %i = udiv exact i64 %o, STRIDE
  %r = trunc i64 %i to i32
  ret i32 %r
}
define internal fastcc void @tleave_ID(ptr %body, ptr %e) alwaysinline {
  %n = call fastcc i32 @tnext_ID(ptr %e)
  %l = call fastcc i32 @tlast_ID(ptr %e)
  call fastcc void @tjoin_ID(ptr %body, i32 %l, i32 %n)
  ret void
}
define internal fastcc void @tmoved_ID(ptr %body, ptr %e) alwaysinline {
  %i = call fastcc i32 @tnumber_ID(ptr %body, ptr %e)
  %n = call fastcc i32 @tnext_ID(ptr %e)
  %l = call fastcc i32 @tlast_ID(ptr %e)
  call fastcc void @tjoin_ID(ptr %body, i32 %l, i32 %i)
  call fastcc void @tjoin_ID(ptr %body, i32 %i, i32 %n)
  ret void
}
define internal fastcc void @tfirst_ID(ptr %body, i32 %i) alwaysinline {
  %end = call fastcc ptr @tslot_ID(ptr %body, i32 SLOTS)
  %f = call fastcc i32 @tnext_ID(ptr %end)
  call fastcc void @tjoin_ID(ptr %body, i32 %i, i32 %f)
  call fastcc void @tjoin_ID(ptr %body, i32 SLOTS, i32 %i)
  ret void
}
define internal fastcc void @tuse_ID(ptr %body, ptr %e) {
  %l = call fastcc i32 @tlast_ID(ptr %e)
  %first = icmp eq i32 %l, SLOTS
  br i1 %first, label %out, label %turn
turn:
  call fastcc void @tleave_ID(ptr %body, ptr %e)
  %i = call fastcc i32 @tnumber_ID(ptr %body, ptr %e)
  call fastcc void @tfirst_ID(ptr %body, i32 %i)
  br label %out
out:
  ret void
}
define internal fastcc i1 @thas_ID(ptr %d, KEY %k) {
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %has = icmp ne i32 %u, 0
  br i1 %has, label %hit, label %out
hit:
  call fastcc void @tuse_ID(ptr %body, ptr %e)
  br label %out
out:
  ret i1 %has
}
define internal fastcc VMEM @tget_ID(ptr %d, KEY %k, VMEM %default) {
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %has = icmp ne i32 %u, 0
  br i1 %has, label %hit, label %out
hit:
  %vp = getelementptr inbounds i8, ptr %e, i64 VALUE
  %v = load VMEM, ptr %vp, align 1TAG_table
  call fastcc void @tuse_ID(ptr %body, ptr %e)
  ret VMEM %v
out:
  ret VMEM %default
}
define internal fastcc i1 @tput_ID(ptr %d, KEY %k, VMEM %v, i64 %capacity) {
  %body = load ptr, ptr %d, align 8TAG_desc
  %e = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  %up = getelementptr inbounds i8, ptr %e, i64 USED
  %u = load i32, ptr %up, align 4TAG_table
  %has = icmp ne i32 %u, 0
  br i1 %has, label %replace, label %new
replace:
  %vp = getelementptr inbounds i8, ptr %e, i64 VALUE
  store VMEM %v, ptr %vp, align 1TAG_table
  call fastcc void @tuse_ID(ptr %body, ptr %e)
  ret i1 true
new:
  %cp = getelementptr inbounds i8, ptr %d, i64 8
  %n = load i64, ptr %cp, align 8TAG_desc
  %room = icmp ult i64 %n, %capacity
  br i1 %room, label %insert, label %forget
forget:
  %end = call fastcc ptr @tslot_ID(ptr %body, i32 SLOTS)
  %oi = call fastcc i32 @tlast_ID(ptr %end)
  %oe = call fastcc ptr @tslot_ID(ptr %body, i32 %oi)
  call fastcc void @tcut_ID(ptr %d, ptr %body, ptr %oe)
  %fp = getelementptr inbounds i8, ptr %d, i64 16
  %f = load i64, ptr %fp, align 8TAG_desc
  %f1 = add i64 %f, 1
  store i64 %f1, ptr %fp, align 8TAG_desc
  %again = call fastcc ptr @tfind_ID(ptr %body, KEY %k)
  br label %insert
insert:
  %at = phi ptr [ %e, %new ], [ %again, %forget ]
  %kw = zext KEY %k to KWIDE
  %kv = trunc KWIDE %kw to KMEM
  store KMEM %kv, ptr %at, align 1TAG_table
  %nvp = getelementptr inbounds i8, ptr %at, i64 VALUE
  store VMEM %v, ptr %nvp, align 1TAG_table
  %i = call fastcc i32 @tnumber_ID(ptr %body, ptr %at)
  call fastcc void @tfirst_ID(ptr %body, i32 %i)
  %now = load i64, ptr %cp, align 8TAG_desc
  %n1 = add nuw nsw i64 %now, 1
  store i64 %n1, ptr %cp, align 8TAG_desc
  ret i1 true
}
"""


def table_id(shape: TableShape) -> str:
    return f"{shape.key}_{shape.value}_{shape.slots}" + ("_lru" if shape.forgets else "")


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
    whole = _FIND + (_RING if shape.forgets else _PLAIN) + _DELETE
    id, ring = table_id(shape), shape.forgets
    names = {
        "FOLD": fold,
        "ID": id,
        "LEAVE": f"  call fastcc void @tleave_{id}(ptr %body, ptr %e)" if ring else "",
        "MOVED": f"  call fastcc void @tmoved_{id}(ptr %body, ptr %he)" if ring else "",
        "KEY": key,
        "KMEM": kmem,
        "KWIDE": "i256",
        "VMEM": ll_mem(shape.value),
        "KTRUNC": f"  %ekw = zext {kmem} %ek0 to i256\n  %ek = trunc i256 %ekw to {key}",
        "STRIDE": str(shape.stride),
        "USED": str(shape.used_at),
        "LAST": str(shape.used_at + 4),
        "SLOTS": str(shape.slots),
        "VALUE": str(shape.value_at),
        "MASK": str(shape.slots - 1),
        "SHIFT": str(shape.shift),
    } | {f"TAG_{k}": v for k, v in TAGS.items()}
    return fill(whole, names)
