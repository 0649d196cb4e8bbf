"""Description of the machine and the versions for a table of results, and restriction to an instruction set."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir

import torch

import retrograd

# Environment variables that limit each library to the instructions of a level: retrograd (LLVM), PyTorch's own kernels,
# oneDNN, MKL and OpenBLAS. onnxruntime has no such switch.
LEVELS = {
    "avx2": {
        "NUMBA_CPU_NAME": "haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}


def restrict(level: str) -> None:
    """Restart this program in the environment of ``level`` unless it runs there; libraries read it when loaded."""
    if any(os.environ.get(name) != value for name, value in LEVELS[level].items()):
        # otherwise torch.compile would reuse cached code for wider vectors
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(Path(gettempdir()) / f"torchinductor_{level}")}
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, **LEVELS[level], **cache})


def describe() -> dict[str, str]:
    facts = {
        "processor": _cpu_info("model name") or platform.processor() or platform.machine(),
        "vector units": ", ".join(flag for flag in ("avx2", "fma", "avx512f", "asimd", "sve") if flag in _flags()),
        "cores given": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "load before the run": f"{os.getloadavg()[0]:.2f}",
        "system": platform.platform(terse=True),
        "Python": platform.python_version(),
        "retrograd": retrograd.__version__,
        "PyTorch": torch.__version__,
    }
    facts.update({name: version(name) for name in ("numpy", "numba", "llvmlite")})
    if not any(variables.items() <= os.environ.items() for variables in LEVELS.values()):
        facts.update({name: os.environ[name] for name in ("NUMBA_CPU_FEATURES", *LEVELS["avx2"]) if name in os.environ})
    return facts


def _cpu_info(field: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def _flags() -> set[str]:
    return set((_cpu_info("flags") or _cpu_info("Features")).split())
