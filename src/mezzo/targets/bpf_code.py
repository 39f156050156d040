"""From LLVM's assembly to BPF: apart, because another process does it as well (base/aside), which needs no more."""

from __future__ import annotations

from functools import cache as once
from typing import Any

import llvmlite.binding as llvm

CPU, FEATURES = "v3", "+allows-misaligned-mem-access"  # BPF's version 3: Linux 5.3


@once
def machine() -> Any:
    """LLVM's target machine for BPF."""
    # LLVM ends the process where a program needs more than 512 bytes of stack; the verifier says the same in an error.
    llvm.set_option("mezzo", f"--bpf-stack-size={1 << 20}")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("bpfel")
    return target.create_target_machine(cpu=CPU, features=FEATURES, opt=2, reloc="static", codemodel="default")


def compile_text(text: str) -> bytes:
    """Assembly to an object."""
    made = machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = made.triple, str(made.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(made, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(made.emit_object(module))
