"""The CPU: its name, features and vector width.

``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` replace the host's, as they do in Numba.
"""

from __future__ import annotations

import os
from functools import lru_cache

import llvmlite.binding as llvm


@lru_cache(maxsize=1)
def cpu() -> tuple[str, str]:
    """Name and feature string of the CPU that kernels are compiled for."""
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        # a named CPU has its own features; those of the host would undo the choice
        features = "" if "NUMBA_CPU_NAME" in os.environ else llvm.get_host_cpu_features().flatten()
    return name, features


@lru_cache(maxsize=1)
def target_machine() -> llvm.TargetMachine:
    """LLVM's code generator for that CPU."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = cpu()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault")


@lru_cache(maxsize=1)
def vector_bytes() -> int:
    """Bytes in one vector register: 64 with AVX-512, 32 with AVX, otherwise 16 (SSE, NEON).

    Asked of the code generator, because only it knows the features of a bare CPU name.
    """
    module = llvm.parse_assembly(_PROBE)
    module.triple = llvm.get_process_triple()
    text = target_machine().emit_assembly(module)
    return 64 if "zmm" in text else 32 if "ymm" in text else 16


_PROBE = """
define void @probe(ptr %p) {
  %x = load <16 x float>, ptr %p, align 4
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %p, align 4
  ret void
}
"""
