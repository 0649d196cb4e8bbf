"""The machine and the versions that a table of figures belongs to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch

import retrograd


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
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"):
        if name in os.environ:
            facts[name] = os.environ[name]
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
