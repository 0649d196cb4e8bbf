"""Which kernels the operators run on: ``compiled`` (fast) or ``textbook`` (plain NumPy that says what it means).

Operators call ``kernels.conv(...)``; the name is looked up in the active set when it is first used and kept until
the set changes. Neither set is imported before that, so ``import retrograd`` loads no compiler.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ..geometry import Window

_PACKAGES = {"compiled": "retrograd.kernels", "textbook": "retrograd.textbook"}

# algorithms of the textbook set that a network or one of its windows can name, each a module with these kernels
_ALGORITHMS = "retrograd.textbook.algorithms"
ALGORITHMS = ("singa", "mxnet", "pytorch", "numpy_ml")
_CONVOLUTION = ("conv", "conv_input_grad", "conv_weight_grad")


class KernelSet:
    """The kernels of the active set as attributes."""

    _active = "compiled"
    _convolution = "auto"

    def __getattr__(self, name: str) -> Any:
        # runs only for a name that is not in __dict__ yet
        if name.startswith("__"):
            raise AttributeError(name)
        package = _PACKAGES[KernelSet._active]
        if KernelSet._convolution != "auto" and name in _CONVOLUTION:
            package = f"{_ALGORITHMS}.{KernelSet._convolution}"
        way_out = "use_kernels('textbook') runs on plain NumPy instead"
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"the kernel set {KernelSet._active!r} ({package}) cannot be imported: {error}; {way_out}"
            ) from error
        try:
            kernel = getattr(module, name)
        except AttributeError as error:
            raise AttributeError(
                f"the kernel set {KernelSet._active!r} ({package}) has no kernel {name!r}: {error}; {way_out}"
            ) from error
        self.__dict__[name] = kernel
        return kernel


kernels = KernelSet()


class use_kernels:  # noqa: N801  a function to its callers, a class so that "with" can restore
    """Run every operator on the kernel set ``name`` from now on; as a context manager, until the block ends.

    name: "compiled" (the default set, Numba) or "textbook" (plain NumPy). Both have the same kernels.
    convolution: how the textbook set computes convolutions and their gradients: "auto" (plainly, tap by tap), or as
        "singa", "mxnet", "pytorch" or "numpy_ml" do. A layer that names an algorithm of its own keeps it.

    The setting holds for the whole process, not for one thread.

    Raises:
        ValueError: ``name`` is not a kernel set, ``convolution`` is not one of these algorithms, or one is named for
            the compiled set.

    >>> import retrograd
    >>> with retrograd.use_kernels("textbook", convolution="singa"):
    ...     print(retrograd.active_kernels())
    textbook
    """

    def __init__(self, name: str, convolution: str = "auto") -> None:
        if name not in _PACKAGES:
            raise ValueError(f"use_kernels: name={name!r} is not a kernel set; choose one of {', '.join(_PACKAGES)}")
        if convolution not in ("auto", *ALGORITHMS):
            raise ValueError(
                f"use_kernels: convolution={convolution!r} is not an algorithm of the textbook set; "
                f"choose one of auto, {', '.join(ALGORITHMS)}"
            )
        if convolution != "auto" and name != "textbook":
            raise ValueError(
                f"use_kernels: convolution={convolution!r} belongs to the textbook set, not to {name!r}; "
                f"use_kernels('textbook', convolution={convolution!r})"
            )
        self.name, self.convolution, self._before = name, convolution, kernel_setting()
        _activate(name, convolution)

    def __enter__(self) -> use_kernels:
        _activate(self.name, self.convolution)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _activate(*self._before)

    def __repr__(self) -> str:
        algorithm = "" if self.convolution == "auto" else f", convolution={self.convolution!r}"
        return f"use_kernels({self.name!r}{algorithm})"


def _activate(name: str, convolution: str) -> None:
    KernelSet._active, KernelSet._convolution = name, convolution
    kernels.__dict__.clear()


def convolution_kernel(name: str, window: Window) -> Any:
    """``kernels.<name>`` for a window that names its algorithm.

    An algorithm of the textbook set runs whichever set is active. Of the names of the compiled set (such as "winograd")
    that set makes what it can; they say how fast and not what, so the textbook set computes plainly.
    """
    if window.algorithm in ALGORITHMS:
        return getattr(importlib.import_module(f"{_ALGORITHMS}.{window.algorithm}"), name)
    return getattr(kernels, name)


def exact(name: str) -> Any:
    """The kernel of the textbook set, whichever is active: its text is exact for integers, which no other has."""
    return getattr(importlib.import_module(_PACKAGES["textbook"]), name)


def compile_ahead(kernels: Sequence[str]) -> None:
    """Let the active set compile these float32 kernels now, on all cores, rather than one by one when first used."""
    if kernels and KernelSet._active == "compiled":
        from ..kernels.precompile import compile_ahead

        compile_ahead(kernels)


def active_kernels() -> str:
    """Name of the active kernel set."""
    return KernelSet._active


def kernel_setting() -> tuple[str, str]:
    """What use_kernels takes to get back to where it is now: the active set, and its algorithm of convolution."""
    return KernelSet._active, KernelSet._convolution
