"""The functions that generated code calls: packets, checksums, tables, tries, the generator, division.

Each is written once as LLVM text; a program gets those it asks for.  Names in a template are replaced by offsets.
"""

from __future__ import annotations

from mezzo.packet.arena import CONTROL, HEADROOM, IN_RING, META, META_SIZE, STAGGER, Arena
from mezzo.targets.native.layout import RUNTIME
from mezzo.targets.native.text import RANGE, TAGS

DECLARES = """\
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.vector.reduce.add.v16i64(<16 x i64>)
declare i16 @llvm.bswap.i16(i16)
declare i32 @llvm.bswap.i32(i32)
declare i48 @llvm.bswap.i48(i48)
declare i64 @llvm.bswap.i64(i64)
declare i128 @llvm.bswap.i128(i128)
declare i32 @clock_gettime(i32, ptr) nounwind
"""

_KILL = """
define internal fastcc void @kill(ptr %a, i32 %f) alwaysinline {
  %fo = shl nuw i32 %f, META_SHIFT
  %mo = zext i32 %fo to i64
  %m = getelementptr inbounds i8, ptr %a, i64 %mo
  %live = getelementptr inbounds i8, ptr %m, i64 META_LIVE
  store i8 0, ptr %live, align 1TAG_meta
  %cp = getelementptr inbounds i8, ptr %a, i64 FREE_COUNT
  %n = load i64, ptr %cp, align 8TAG_control
  %base = getelementptr inbounds i8, ptr %a, i64 FREE_AT
  %sp = getelementptr inbounds i32, ptr %base, i64 %n
  store i32 %f, ptr %sp, align 4TAG_free
  %n1 = add nuw nsw i64 %n, 1
  store i64 %n1, ptr %cp, align 8TAG_control
  ret void
}
"""

# A packet dies and is counted: out of line, so that the many places where packets may die stay small.
_DROP = """
define internal fastcc void @drop(ptr %a, i32 %f, ptr %n) noinline nounwind willreturn {
  call fastcc void @kill(ptr %a, i32 %f)
  %old = load i64, ptr %n, align 8TAG_drops
  %new = add i64 %old, 1
  store i64 %new, ptr %n, align 8TAG_drops
  ret void
}
"""

# What a faulting function may hold: a frame, or -1.
_RELEASE = """
define internal fastcc void @release(ptr %a, i32 %f) cold noinline nounwind willreturn {
  %none = icmp eq i32 %f, -1
  br i1 %none, label %done, label %held
held:
  call fastcc void @kill(ptr %a, i32 %f)
  br label %done
done:
  ret void
}
"""

# Takes frame %f off the free list, or returns -1.
_POP = """\
  %cp = getelementptr inbounds i8, ptr %a, i64 FREE_COUNT
  %n = load i64, ptr %cp, align 8TAG_control
  %some = icmp ne i64 %n, 0
  br i1 %some, label %take, label %none, !prof !1
none:
  %ep = getelementptr inbounds i8, ptr %a, i64 EXHAUSTED
  %e0 = load i64, ptr %ep, align 8TAG_control
  %e1 = add i64 %e0, 1
  store i64 %e1, ptr %ep, align 8TAG_control
  ret i32 -1
take:
  %n1 = add nsw i64 %n, -1
  store i64 %n1, ptr %cp, align 8TAG_control
  %base = getelementptr inbounds i8, ptr %a, i64 FREE_AT
  %sp = getelementptr inbounds i32, ptr %base, i64 %n1
  %f = load i32, ptr %sp, align 4TAG_free, !range !3
"""

# Makes the metadata at %m that of a fresh packet from %dz to %ez.
# Few stores, none across a cache line: about one a cycle reaches the cache, and that is what making a packet costs.
# The offsets are stored as whole words, so that LLVM and the CPU can hand them to the loads that follow.
# The gate of a frame that was in a ring stays: who brought the packet into it knows.
_FRESH = """\
  %eh = shl nuw i64 %ez, 32
  %de = or disjoint i64 %dz, %eh
  store <64 x i8> zeroinitializer, ptr %m, align 64TAG_meta
  store i64 %de, ptr %m, align 64TAG_meta
  %m8 = getelementptr inbounds i8, ptr %m, i64 8
  store i64 FRESH, ptr %m8, align 8TAG_meta
  %m64 = getelementptr inbounds i8, ptr %m, i64 64
  store i64 0, ptr %m64, align 8TAG_meta
"""

_ZERO_8 = "store i64 0, ptr %m64, align 8"
_ZERO_16 = "store <16 x i8> zeroinitializer, ptr %m64, align 16"

_MAKE = """
define internal fastcc i32 @make(ptr %a, i32 %len) alwaysinline "min-legal-vector-width"="512" {
  %fits = icmp ule i32 %len, LONGEST
  br i1 %fits, label %short, label %long, !prof !1
long:
  %lp = getelementptr inbounds i8, ptr %a, i64 TOO_LONG
  %l0 = load i64, ptr %lp, align 8TAG_control
  %l1 = add i64 %l0, 1
  store i64 %l1, ptr %lp, align 8TAG_control
  ret i32 -1
short:
""" + _POP + """  %fo = shl nuw i32 %f, META_SHIFT
  %mo = zext i32 %fo to i64
  %mp = getelementptr inbounds i8, ptr %a, i64 %mo
  %m = getelementptr inbounds i8, ptr %mp, i64 META_AT
  %stag = and i32 %f, STAGGER_MASK
  %st64 = shl nuw nsw i32 %stag, 6
  %data = add nuw nsw i32 %st64, HEADROOM
  %end = add nuw nsw i32 %data, %len
  %dz = zext i32 %data to i64
  %ez = zext i32 %end to i64
""" + _FRESH.replace(_ZERO_8, _ZERO_16) + """  ret i32 %f
}
"""

_ADOPTED = """
define internal fastcc void @fresh(ptr %m, i64 %dz, i64 %ez) alwaysinline "min-legal-vector-width"="512" {
""" + _FRESH + """  ret void
}
"""

_TAKE_FRAME = """
define internal fastcc i32 @take_frame(ptr %a) alwaysinline {
""" + _POP.replace("EXHAUSTED", "STARVED") + """  %fo = shl nuw i32 %f, META_SHIFT
  %mo = zext i32 %fo to i64
  %mp = getelementptr inbounds i8, ptr %a, i64 %mo
  %live = getelementptr inbounds i8, ptr %mp, i64 META_LIVE
  store i8 IN_RING, ptr %live, align 1TAG_meta
  %gate = getelementptr inbounds i8, ptr %mp, i64 META_GATE
  store i16 0, ptr %gate, align 2TAG_meta
  ret i32 %f
}
"""

# Where the C library keeps the number of what went wrong, for this thread; negative.
_ERRNO = """
declare ptr @__errno_location() nounwind
define internal fastcc i64 @errno() cold noinline nounwind willreturn {
  %p = call ptr @__errno_location()
  %n = load i32, ptr %p, align 4
  %w = sext i32 %n to i64
  %r = sub i64 0, %w
  ret i64 %r
}
"""

_CLONE = """
define internal fastcc i32 @clone(ptr %a, i32 %f) {
  %g = call fastcc i32 @make(ptr %a, i32 0)
  %got = icmp ne i32 %g, -1
  br i1 %got, label %copy, label %none, !prof !1
none:
  ret i32 -1
copy:
  %fz = zext i32 %f to i64
  %gz = zext i32 %g to i64
  %fm32 = shl nuw i32 %f, META_SHIFT
  %gm32 = shl nuw i32 %g, META_SHIFT
  %fm = zext i32 %fm32 to i64
  %gm = zext i32 %gm32 to i64
  %meta = getelementptr inbounds i8, ptr %a, i64 META_AT
  %fp = getelementptr inbounds i8, ptr %meta, i64 %fm
  %gp = getelementptr inbounds i8, ptr %meta, i64 %gm
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %gp, ptr align 16 %fp, i64 80, i1 false)TAG_meta
  %data = load i32, ptr %fp, align 4TAG_metaRANGE
  %ep = getelementptr inbounds i8, ptr %fp, i64 4
  %end = load i32, ptr %ep, align 4TAG_metaRANGE
  %len = sub nuw i32 %end, %data
  %lz = zext i32 %len to i64
  %dz = zext i32 %data to i64
  %fo = shl nuw nsw i64 %fz, FRAME_SHIFT
  %go = shl nuw nsw i64 %gz, FRAME_SHIFT
  %base = getelementptr inbounds i8, ptr %a, i64 DATA_AT
  %fd = getelementptr inbounds i8, ptr %base, i64 %fo
  %gd = getelementptr inbounds i8, ptr %base, i64 %go
  %fb = getelementptr inbounds i8, ptr %fd, i64 %dz
  %gb = getelementptr inbounds i8, ptr %gd, i64 %dz
  call void @llvm.memcpy.p0.p0.i64(ptr %gb, ptr %fb, i64 %lz, i1 false)TAG_data
  ret i32 %g
}
"""

_RANDOM = """
define internal fastcc i32 @random(ptr %c) alwaysinline {
  %p = getelementptr inbounds i8, ptr %c, i64 RANDOM
  %s0 = load i64, ptr %p, align 8TAG_state
  %s = add i64 %s0, -7046029254386353131
  store i64 %s, ptr %p, align 8TAG_state
  %a = lshr i64 %s, 30
  %b = xor i64 %s, %a
  %d = mul i64 %b, -4658895280553007687
  %e = lshr i64 %d, 27
  %f = xor i64 %d, %e
  %g = mul i64 %f, -7723592293110705685
  %h = lshr i64 %g, 31
  %i = xor i64 %g, %h
  %j = lshr i64 %i, 32
  %k = trunc i64 %j to i32
  ret i32 %k
}
"""

# RFC 1071 section 2: the sum may be taken in any byte order, in wide words, and folded and swapped at the end.
_SUM = """
define internal fastcc i16 @sumfold(i64 %s, i32 %init) alwaysinline {
  %lo = and i64 %s, 4294967295
  %hi = lshr i64 %s, 32
  %a = add i64 %lo, %hi
  %alo = and i64 %a, 65535
  %ahi = lshr i64 %a, 16
  %b = add i64 %alo, %ahi
  %blo = and i64 %b, 65535
  %bhi = lshr i64 %b, 16
  %c = add i64 %blo, %bhi
  %clo = and i64 %c, 65535
  %chi = lshr i64 %c, 16
  %d = add i64 %clo, %chi
  %d16 = trunc i64 %d to i16
  %be = call i16 @llvm.bswap.i16(i16 %d16)
  %bz = zext i16 %be to i64
  %iz = zext i32 %init to i64
  %e = add i64 %bz, %iz
  %elo = and i64 %e, 65535
  %ehi = lshr i64 %e, 16
  %f = add i64 %elo, %ehi
  %flo = and i64 %f, 65535
  %fhi = lshr i64 %f, 16
  %g = add i64 %flo, %fhi
  %g16 = trunc i64 %g to i16
  ret i16 %g16
}
define internal fastcc i16 @sum16(ptr %p, i64 %len, i32 %init) {
entry:
  %big = and i64 %len, -64
  %small = icmp eq i64 %big, 0
  br i1 %small, label %words, label %lines
lines:
  %j = phi i64 [ 0, %entry ], [ %j1, %lines ]
  %v = phi <16 x i64> [ zeroinitializer, %entry ], [ %v1, %lines ]
  %lp = getelementptr inbounds i8, ptr %p, i64 %j
  %l = load <16 x i32>, ptr %lp, align 1TAG_data
  %lz = zext <16 x i32> %l to <16 x i64>
  %v1 = add <16 x i64> %v, %lz
  %j1 = add nuw nsw i64 %j, 64
  %on = icmp ult i64 %j1, %big
  br i1 %on, label %lines, label %lined
lined:
  %s0 = call i64 @llvm.vector.reduce.add.v16i64(<16 x i64> %v1)
  br label %words
words:
  %i = phi i64 [ 0, %entry ], [ %big, %lined ], [ %next, %word ]
  %s = phi i64 [ 0, %entry ], [ %s0, %lined ], [ %s1, %word ]
  %next = add nuw nsw i64 %i, 8
  %more = icmp ule i64 %next, %len
  br i1 %more, label %word, label %rest
word:
  %q = getelementptr inbounds i8, ptr %p, i64 %i
  %w = load i64, ptr %q, align 1TAG_data
  %low = and i64 %w, 4294967295
  %high = lshr i64 %w, 32
  %both = add i64 %low, %high
  %s1 = add i64 %s, %both
  br label %words
rest:
  %four = and i64 %len, 4
  %hasfour = icmp ne i64 %four, 0
  br i1 %hasfour, label %whole, label %tail
whole:
  %fp = getelementptr inbounds i8, ptr %p, i64 %i
  %f = load i32, ptr %fp, align 1TAG_data
  %fz = zext i32 %f to i64
  %sf = add i64 %s, %fz
  %i4 = add nuw nsw i64 %i, 4
  br label %tail
tail:
  %it = phi i64 [ %i, %rest ], [ %i4, %whole ]
  %st = phi i64 [ %s, %rest ], [ %sf, %whole ]
  %two = and i64 %len, 2
  %hastwo = icmp ne i64 %two, 0
  br i1 %hastwo, label %half, label %last
half:
  %hp = getelementptr inbounds i8, ptr %p, i64 %it
  %h = load i16, ptr %hp, align 1TAG_data
  %hz = zext i16 %h to i64
  %s2 = add i64 %st, %hz
  br label %last
last:
  %s3 = phi i64 [ %st, %tail ], [ %s2, %half ]
  %one = and i64 %len, 1
  %hasone = icmp ne i64 %one, 0
  br i1 %hasone, label %byte, label %done
byte:
  %at = add nsw i64 %len, -1
  %bp = getelementptr inbounds i8, ptr %p, i64 %at
  %b = load i8, ptr %bp, align 1TAG_data
  %bz = zext i8 %b to i64
  %s4 = add i64 %s3, %bz
  br label %done
done:
  %s5 = phi i64 [ %s3, %last ], [ %s4, %byte ]
  %r = call fastcc i16 @sumfold(i64 %s5, i32 %init)
  ret i16 %r
}
"""

# i128 division would be a call into a compiler runtime that is not there; by shift and subtract instead.
_DIV128 = """
define internal fastcc { i128, i128 } @divmod128(i128 %n, i128 %d) noinline {
entry:
  br label %loop
loop:
  %i = phi i32 [ 127, %entry ], [ %i1, %loop ]
  %q = phi i128 [ 0, %entry ], [ %q3, %loop ]
  %r = phi i128 [ 0, %entry ], [ %r3, %loop ]
  %iz = zext i32 %i to i128
  %top = lshr i128 %r, 127
  %carry = icmp ne i128 %top, 0
  %bit0 = lshr i128 %n, %iz
  %bit = and i128 %bit0, 1
  %r1 = shl i128 %r, 1
  %r2 = or i128 %r1, %bit
  %ge0 = icmp uge i128 %r2, %d
  %ge = or i1 %ge0, %carry
  %sub = sub i128 %r2, %d
  %r3 = select i1 %ge, i128 %sub, i128 %r2
  %one = shl i128 1, %iz
  %q1 = or i128 %q, %one
  %q3 = select i1 %ge, i128 %q1, i128 %q
  %i1 = add nsw i32 %i, -1
  %end = icmp slt i32 %i1, 0
  br i1 %end, label %done, label %loop
done:
  %v0 = insertvalue { i128, i128 } undef, i128 %q3, 0
  %v1 = insertvalue { i128, i128 } %v0, i128 %r3, 1
  ret { i128, i128 } %v1
}
"""

# A poptrie walk; the layout is in lpm.py.
_LPM32 = """
define internal fastcc i32 @lpm32(ptr %d, i32 %key, i32 %default) {
entry:
  %dir = load ptr, ptr %d, align 8TAG_desc
  %slot = lshr i32 %key, 14
  %sz = zext i32 %slot to i64
  %ep = getelementptr inbounds i32, ptr %dir, i64 %sz
  %e = load i32, ptr %ep, align 4TAG_lpm
  %deep = icmp slt i32 %e, 0
  br i1 %deep, label %start, label %leaf
start:
  %np = getelementptr inbounds i8, ptr %d, i64 8
  %nodes = load ptr, ptr %np, align 8TAG_desc
  %n0 = and i32 %e, 2147483647
  %kz = zext i32 %key to i64
  %k36 = shl i64 %kz, 4
  br label %node
node:
  %n = phi i32 [ %n0, %start ], [ %child, %down ]
  %sh = phi i64 [ 12, %start ], [ %sh1, %down ]
  %k0 = lshr i64 %k36, %sh
  %k = and i64 %k0, 63
  %nz = zext i32 %n to i64
  %p = getelementptr inbounds { i64, i64, i32, i32 }, ptr %nodes, i64 %nz
  %vec = load i64, ptr %p, align 8TAG_lpm
  %m0 = shl i64 2, %k
  %m = add i64 %m0, -1
  %bit0 = lshr i64 %vec, %k
  %bit1 = and i64 %bit0, 1
  %bit = icmp ne i64 %bit1, 0
  br i1 %bit, label %down, label %hit
down:
  %b1p = getelementptr inbounds i8, ptr %p, i64 16
  %b1 = load i32, ptr %b1p, align 8TAG_lpm
  %cm = and i64 %vec, %m
  %cc = call i64 @llvm.ctpop.i64(i64 %cm)
  %c32 = trunc i64 %cc to i32
  %c0 = add i32 %b1, %c32
  %child = add i32 %c0, -1
  %sh1 = add nsw i64 %sh, -6
  br label %node
hit:
  %lvp = getelementptr inbounds i8, ptr %p, i64 8
  %lvec = load i64, ptr %lvp, align 8TAG_lpm
  %b0p = getelementptr inbounds i8, ptr %p, i64 20
  %b0 = load i32, ptr %b0p, align 4TAG_lpm
  %lm = and i64 %lvec, %m
  %lc = call i64 @llvm.ctpop.i64(i64 %lm)
  %lc32 = trunc i64 %lc to i32
  %li0 = add i32 %b0, %lc32
  %li = add i32 %li0, -1
  %liz = zext i32 %li to i64
  %lp = getelementptr inbounds i8, ptr %d, i64 16
  %leaves = load ptr, ptr %lp, align 8TAG_desc
  %lep = getelementptr inbounds i32, ptr %leaves, i64 %liz
  %le = load i32, ptr %lep, align 4TAG_lpm
  br label %leaf
leaf:
  %code0 = phi i32 [ %e, %entry ], [ %le, %hit ]
  %unset0 = icmp eq i32 %code0, 0
  %rp = getelementptr inbounds i8, ptr %d, i64 32
  %root = load i32, ptr %rp, align 8TAG_desc
  %code = select i1 %unset0, i32 %root, i32 %code0
  %unset = icmp eq i32 %code, 0
  br i1 %unset, label %miss, label %found
miss:
  ret i32 %default
found:
  %less = add i32 %code, -1
  %vp = getelementptr inbounds i8, ptr %d, i64 24
  %values = load ptr, ptr %vp, align 8TAG_desc
  %direct = icmp eq ptr %values, null
  br i1 %direct, label %own, label %named
own:
  ret i32 %less
named:
  %lessz = zext i32 %less to i64
  %vep = getelementptr inbounds i32, ptr %values, i64 %lessz
  %v = load i32, ptr %vep, align 4TAG_lpm
  ret i32 %v
}
"""

# Lengths, longest first, each probed in a hash table of (prefix, length); the layout is in lpm.py.
_LPMANY = """
define internal fastcc i32 @lpmany(ptr %d, i128 %key, i32 %default) {
entry:
  %table = load ptr, ptr %d, align 8TAG_desc
  %mp = getelementptr inbounds i8, ptr %d, i64 8
  %mask = load i64, ptr %mp, align 8TAG_desc
  %lp = getelementptr inbounds i8, ptr %d, i64 16
  %rows = load ptr, ptr %lp, align 8TAG_desc
  %cp = getelementptr inbounds i8, ptr %d, i64 24
  %count = load i64, ptr %cp, align 8TAG_desc
  br label %level
level:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %row, label %miss
miss:
  ret i32 %default
row:
  %ro = shl nuw nsw i64 %i, 5
  %r = getelementptr inbounds i8, ptr %rows, i64 %ro
  %pm = load i128, ptr %r, align 8TAG_lpm
  %sp = getelementptr inbounds i8, ptr %r, i64 16
  %salt = load i64, ptr %sp, align 8TAG_lpm
  %prefix = and i128 %key, %pm
  %lo = trunc i128 %prefix to i64
  %hi0 = lshr i128 %prefix, 64
  %hi = trunc i128 %hi0 to i64
  %x1 = mul i64 %hi, -3335678366873096957
  %x2 = xor i64 %lo, %x1
  %x3 = add i64 %x2, %salt
  %x4 = lshr i64 %x3, 32
  %x5 = xor i64 %x3, %x4
  %x6 = mul i64 %x5, -7046029254386353131
  %h0 = lshr i64 %x6, 32
  br label %probe
probe:
  %h = phi i64 [ %h0, %row ], [ %hn, %step ]
  %hm = and i64 %h, %mask
  %eo = shl nuw nsw i64 %hm, 5
  %e = getelementptr inbounds i8, ptr %table, i64 %eo
  %ek = load i128, ptr %e, align 8TAG_lpm
  %tp = getelementptr inbounds i8, ptr %e, i64 16
  %et = load i64, ptr %tp, align 8TAG_lpm
  %free = icmp eq i64 %et, 0
  br i1 %free, label %next, label %test
test:
  %k = icmp eq i128 %ek, %prefix
  %t = icmp eq i64 %et, %salt
  %both = and i1 %k, %t
  br i1 %both, label %hit, label %step
step:
  %hn = add i64 %hm, 1
  br label %probe
hit:
  %vp = getelementptr inbounds i8, ptr %e, i64 24
  %v = load i32, ptr %vp, align 8TAG_lpm
  ret i32 %v
next:
  %i1 = add nuw nsw i64 %i, 1
  br label %level
}
"""

PIECES = {
    "kill": _KILL,
    "drop": _DROP,
    "release": _RELEASE,
    "make": _MAKE,
    "fresh": _ADOPTED,
    "take_frame": _TAKE_FRAME,
    "errno": _ERRNO,
    "clone": _CLONE,
    "random": _RANDOM,
    "sum16": _SUM,
    "divmod128": _DIV128,
    "lpm32": _LPM32,
    "lpmany": _LPMANY,
}


def constants(arena: Arena) -> dict[str, str]:
    """What the names in the templates stand for."""
    fresh = 0xFFFF | 0xFFFF << 16 | 0xFFFF << 32 | 1 << 56
    named: dict[str, object] = {
        "META_SHIFT": META_SIZE.bit_length() - 1,
        "META_LIVE": arena.meta_offset + META["live"][0],
        "META_GATE": arena.meta_offset + META["gate"][0],
        "META_AT": arena.meta_offset,
        "IN_RING": IN_RING,
        "FREE_COUNT": CONTROL["free_count"],
        "EXHAUSTED": CONTROL["exhausted"],
        "STARVED": CONTROL["starved"],
        "TOO_LONG": CONTROL["too_long"],
        "FREE_AT": arena.free_offset,
        "LONGEST": arena.longest,
        "STAGGER_MASK": STAGGER - 1,
        "HEADROOM": HEADROOM,
        "FRESH": fresh,
        "FRAME_SHIFT": arena.frame_size.bit_length() - 1,
        "DATA_AT": arena.data_offset,
        "RANDOM": RUNTIME["random"],
        "RANGE": RANGE,
    }
    return {k: str(v) for k, v in named.items()} | {f"TAG_{k}": v for k, v in TAGS.items()}
