"""Which kernels the operators run on: ``compiled`` (fast) or ``textbook`` (plain NumPy that says what it means).

Operators call ``kernels.conv(...)``; the name is looked up in the active set when it is first used and kept until
the set changes. Neither set is imported before that, so ``import retrograd`` loads no compiler.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any

_PACKAGES = {"compiled": "retrograd.kernels", "textbook": "retrograd.textbook"}


class KernelSet:
    """The kernels of the active set as attributes."""

    _active = "compiled"

    def __getattr__(self, name: str) -> Any:
        # runs only for a name that is not in __dict__ yet
        if name.startswith("__"):
            raise AttributeError(name)
        package = _PACKAGES[KernelSet._active]
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
    The setting holds for the whole process, not for one thread.

    Raises:
        ValueError: ``name`` is not a kernel set.

    >>> import retrograd
    >>> with retrograd.use_kernels("textbook"):
    ...     print(retrograd.active_kernels())
    textbook
    """

    def __init__(self, name: str) -> None:
        if name not in _PACKAGES:
            raise ValueError(f"use_kernels: name={name!r} is not a kernel set; choose one of {', '.join(_PACKAGES)}")
        self.name, self._before = name, KernelSet._active
        _activate(name)

    def __enter__(self) -> use_kernels:
        _activate(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _activate(self._before)

    def __repr__(self) -> str:
        return f"use_kernels({self.name!r})"


def _activate(name: str) -> None:
    KernelSet._active = name
    kernels.__dict__.clear()


def compile_ahead(kernels: Sequence[str]) -> None:
    """Let the active set compile these float32 kernels now, on all cores, rather than one by one when first used."""
    if kernels and KernelSet._active == "compiled":
        from ..kernels.precompile import compile_ahead

        compile_ahead(kernels)


def active_kernels() -> str:
    """Name of the active kernel set."""
    return KernelSet._active
