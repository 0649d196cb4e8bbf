"""The environment of a run: package versions and the machine."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["machine", "versions"]


def versions() -> dict[str, str]:
    """Return the versions of retrograd, Python and packages by name; "not installed" for missing ones."""
    from .. import __version__

    installed = {"retrograd": __version__, "Python": platform.python_version()}
    for name, package in (
        ("NumPy", "numpy"),
        ("Numba", "numba"),
        ("llvmlite", "llvmlite"),
        ("tqdm", "tqdm"),
        ("Matplotlib", "matplotlib"),
        ("Pillow", "pillow"),
        ("safetensors", "safetensors"),
    ):
        try:
            installed[name] = version(package)
        except PackageNotFoundError:
            installed[name] = "not installed"
    return installed


def machine() -> dict[str, str]:
    """Return the CPU as the system names it, the target of compiled kernels, the threads, and the system."""
    from ..kernels.compiled.machine.launch import get_num_threads
    from ..kernels.compiled.machine.target import cpu, vector_bytes

    return {
        "CPU": _cpu_name(),
        "Kernels for": f"{cpu()[0]}, {8 * vector_bytes()}-bit vectors",
        "Threads": str(get_num_threads()),
        "System": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
