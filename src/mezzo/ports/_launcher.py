"""Makes the program `mezzo-open`: a file of some hundred bytes that may be given capabilities.

Linux ignores the capabilities of a script's file, and an interpreter that has them would run anybody's code with them.
So the file is machine code that does one thing: it makes the capabilities that its file gave it inheritable and
ambient (capabilities(7)) and becomes the Python that it was made for, with the arguments and the environment that
it was made with.  It reads nothing of its caller's: no argument, no variable.

The code is assembled by LLVM, like all of mezzo's; behind it stand the arrays of arguments and variables for
execve(2) with their texts, and before it an ELF header for one segment at a fixed address (elf(5)).
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError

BASE = 0x40_0000
HEADERS = 64 + 56  # the ELF header and one program header
VERSION = 0x2008_0522  # _LINUX_CAPABILITY_VERSION_3
LAST_CAPABILITY = 40
ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8")


@dataclass(frozen=True)
class Machine:
    """`code` is assembler text; {last}, {version} and {variables} (where the second array begins) are filled in."""

    triple: str
    number: int
    code: str


# A stack slot holds the header of capget(2) {version, 0} and its data {effective, permitted, inheritable} twice.
MACHINES = {
    "x86_64": Machine(
        "x86_64-unknown-linux-gnu",
        62,
        """
        .intel_syntax noprefix
        sub rsp, 64
        mov dword ptr [rsp], {version}
        mov dword ptr [rsp + 4], 0
        mov rdi, rsp
        lea rsi, [rsp + 8]
        mov eax, 125            # capget
        syscall
        mov eax, [rsp + 12]
        mov [rsp + 8], eax
        mov [rsp + 16], eax
        mov eax, [rsp + 24]
        mov [rsp + 20], eax
        mov [rsp + 28], eax
        mov eax, 126            # capset
        syscall
        mov ebx, {last}
    .Lraise:
        mov edi, 47             # PR_CAP_AMBIENT
        mov esi, 2              # PR_CAP_AMBIENT_RAISE
        mov edx, ebx
        xor r10d, r10d
        xor r8d, r8d
        mov eax, 157            # prctl
        syscall
        dec ebx
        jns .Lraise
        lea rsi, [rip + .Larguments]
        mov rdi, [rsi]
        lea rdx, [rsi + {variables}]
        mov eax, 59             # execve
        syscall
        mov edi, 127
        mov eax, 60             # exit
        syscall
        .p2align 3
    .Larguments:
        .att_syntax
        """,
    ),
    "aarch64": Machine(
        "aarch64-unknown-linux-gnu",
        183,
        """
        sub sp, sp, #64
        ldr w2, .Lversion
        stp w2, wzr, [sp]
        mov x0, sp
        add x1, sp, #8
        mov x8, #90             // capget
        svc #0
        ldr w2, [sp, #12]
        str w2, [sp, #8]
        str w2, [sp, #16]
        ldr w2, [sp, #24]
        str w2, [sp, #20]
        str w2, [sp, #28]
        mov x0, sp
        mov x8, #91             // capset
        svc #0
        mov x19, #{last}
    .Lraise:
        mov x0, #47             // PR_CAP_AMBIENT
        mov x1, #2              // PR_CAP_AMBIENT_RAISE
        mov x2, x19
        mov x3, #0
        mov x4, #0
        mov x8, #167            // prctl
        svc #0
        subs x19, x19, #1
        b.pl .Lraise
        adr x1, .Larguments
        ldr x0, [x1]
        add x2, x1, #{variables}
        mov x8, #221            // execve
        svc #0
        mov x0, #127
        mov x8, #93             // exit
        svc #0
    .Lversion:
        .word {version}
        .p2align 3
    .Larguments:
        """,
    ),
}


def image(arguments: Sequence[str]) -> bytes:
    """The file that becomes `arguments[0]` with these arguments."""
    name = platform.machine()
    if name not in MACHINES:
        raise MezzoError(f"no mezzo-open can be made for {name}; there are {', '.join(MACHINES)}")
    code = _assembled(MACHINES[name], 8 * (len(arguments) + 1))
    body = code + _strings(BASE + HEADERS + len(code), arguments, ENVIRONMENT)
    return _headers(MACHINES[name].number, HEADERS + len(body)) + body


def _assembled(machine: Machine, variables: int) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    text = machine.code.format(version=VERSION, last=LAST_CAPABILITY, variables=variables)
    # LLVM has no assembly parser to itself here, but a module may carry assembly text.
    lines = "\n".join(f'module asm "{line}"' for line in text.splitlines())
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{lines}\n')
    target = llvm.Target.from_triple(machine.triple).create_target_machine(reloc="pic")
    found = llvm.ObjectFileRef.from_data(target.emit_object(module))
    return next(bytes(s.data()) for s in found.sections() if s.name() == b".text")


def _strings(start: int, *arrays: Sequence[str]) -> bytes:
    """Arrays of pointers, each with its null, and the texts behind them; `start` is where this lies in memory."""
    at = start + sum(8 * (len(a) + 1) for a in arrays)
    pointers, texts = b"", b""
    for array in arrays:
        for text in array:
            pointers += struct.pack("<Q", at + len(texts))
            texts += os.fsencode(text) + b"\0"
        pointers += bytes(8)
    return pointers + texts


def _headers(machine: int, size: int) -> bytes:
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)  # 64 bits, little-endian, version 1
    executable, loaded, read_execute, page = 2, 1, 5, 0x1_0000
    head = struct.pack("<HHIQQQIHHHHHH", executable, machine, 1, BASE + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return identity + head + struct.pack("<IIQQQQQQ", loaded, read_execute, 0, BASE, BASE, size, size, page)


def install(place: Path, arguments: Sequence[str], capabilities: Sequence[str], group: int | None = None) -> None:
    """Writes the file beside its place, gives it its capabilities (setcap), and puts it there."""
    new = place.with_name(f".{place.name}.new")
    try:
        new.write_bytes(image(arguments))
        if group is not None:
            os.chown(new, -1, group)  # first: it would take the capabilities away
        new.chmod(0o755 if group is None else 0o750)
        words = ",".join(name.lower() for name in capabilities) + "=p"
        done = subprocess.run(["setcap", words, str(new)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MezzoError(Diagnostic(f"setcap {words}: {done.stderr.strip()}", hint="run it as root"))
        new.replace(place)
    except FileNotFoundError as trouble:
        hint = "apt-get install libcap2-bin" if trouble.filename == "setcap" else ""
        raise MezzoError(Diagnostic(f"{trouble.filename}: {trouble.strerror}", hint=hint)) from None
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{place}: {trouble.strerror}")) from None
    finally:
        new.unlink(missing_ok=True)


def others_may_write(path: Path) -> Path | None:
    """The first of a path and the folders above it that somebody but root can change."""
    real = path.resolve()
    for place in (path.absolute(), real, *path.absolute().parents, *real.parents):
        try:
            found = place.lstat()
        except OSError:
            continue
        sticky_folder = found.st_mode & 0o1000 and place.is_dir()
        if found.st_uid != 0 or (found.st_mode & 0o022 and not place.is_symlink() and not sticky_folder):
            return place
    return None
