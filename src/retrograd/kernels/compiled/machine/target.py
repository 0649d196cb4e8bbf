"""The CPU: its name, features and vector width.

``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` replace the host's, as they do in Numba.
"""

from __future__ import annotations

import os
from functools import lru_cache
from platform import machine

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

    Determined from the code generator, because only it knows the features of a bare CPU name.
    """
    return _widest("<16 x float>", "fadd")


@lru_cache(maxsize=1)
def integer_bytes() -> int:
    """Bytes in one vector register of small integers: AVX has them from AVX2 on, AVX-512 with its part BW."""
    return _widest("<32 x i16>", "add")


@lru_cache(maxsize=1)
def counts_bits() -> bool:
    """Whether the CPU counts the bits of 32-bit lanes (AVX-512 VPOPCNTDQ); others count those of bytes."""
    lanes = integer_bytes() // 4
    count = f"call <{lanes} x i32> @llvm.ctpop.v{lanes}i32(<{lanes} x i32> %x)"
    return "vpopcntd" in _assembly(f"<{lanes} x i32>", count)


@lru_cache(maxsize=1)
def adds_products() -> bool:
    """Whether an x86 CPU adds products of small integers to 32-bit lanes (VNNI)."""
    if machine() not in ("x86_64", "AMD64"):
        return False
    return "vpdpbusd" in _emitted(_BYTES_TIMES_BYTES)


def _widest(vector: str, operation: str) -> int:
    assembly = _assembly(vector, f"{operation} {vector} %x, %x")
    return 64 if "zmm" in assembly else 32 if "ymm" in assembly else 16


def _assembly(vector: str, operation: str) -> str:
    """The assembly that the code generator emits for ``operation`` on a ``vector`` %x."""
    return _emitted(
        f"define void @probe(ptr %p) {{ %x = load {vector}, ptr %p, align 4 %y = {operation} "
        f"store {vector} %y, ptr %p, align 4 ret void }}"
    )


def _emitted(source: str) -> str:
    module = llvm.parse_assembly(source)
    module.triple = llvm.get_process_triple()
    return target_machine().emit_assembly(module)


_BYTES_TIMES_BYTES = """
define i32 @probe(<16 x i8> %x, <16 x i8> %y) {
  %a = zext <16 x i8> %x to <16 x i32>
  %b = sext <16 x i8> %y to <16 x i32>
  %c = mul <16 x i32> %a, %b
  %d = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %c)
  ret i32 %d
}
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
"""
