"""The active set of kernels: ``compiled`` (fast) or ``textbook`` (plain NumPy).

Operators call ``kernels.conv(...)``; the name is looked up in the active set on its first use and cached until the set
changes. No set is imported before that, so ``import retrograd`` does not load the compiler.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock, get_ident
from types import FunctionType, TracebackType
from typing import Any, Self

from .options import AUTO, TEXTBOOK_ALGORITHMS, Options

_PACKAGES = {"compiled": "retrograd.kernels.compiled", "textbook": "retrograd.textbook"}

# algorithms of convolution in the textbook set, each a module with these kernels
_ALGORITHMS = "retrograd.textbook.algorithms"
_CONVOLUTION = ("conv", "conv_input_grad", "conv_weight_grad")


class KernelSet:
    """The kernels of the active set as attributes."""

    _active = "compiled"
    _convolution = "auto"

    def __getattr__(self, name: str) -> Any:
        # called only for names not yet in __dict__
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = _STANDING_IN.get(name) or self._found(name)
        self.__dict__[name] = kernel
        return kernel

    def _found(self, name: str) -> Any:
        package = _PACKAGES[KernelSet._active]
        if KernelSet._convolution != "auto" and name in _CONVOLUTION:
            package = f"{_ALGORITHMS}.{KernelSet._convolution}"
        hint = "use_kernels('textbook') runs on plain NumPy instead"
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"the kernel set {KernelSet._active!r} ({package}) cannot be imported: {error}; {hint}"
            ) from error
        try:
            return getattr(module, name)
        except AttributeError as error:
            raise AttributeError(
                f"the kernel set {KernelSet._active!r} ({package}) has no kernel {name!r}: {error}; {hint}"
            ) from error


kernels = KernelSet()


# ---- a function in place of a kernel -----------------------------------------------------------------------------


class _StandIn:
    """Called as a kernel: the function that the calling thread put in its place, or the kernel itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.of_threads: dict[int, list[instead]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entered = self.of_threads.get(get_ident())
        if not entered:
            return kernels._found(self.name)(*args, **kwargs)
        entered[-1].calls += 1
        return entered[-1].function(*args, **kwargs)


_STANDING_IN: dict[str, _StandIn] = {}
_lock = Lock()


class instead(AbstractContextManager["instead"]):  # noqa: N801
    """Within it, this thread calls a function where it would call the kernel of the function's name.

    function: takes what the kernel takes, arrays among it, and returns what it returns. calls: how many there were.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name, self.function, self.calls = function.__name__, function, 0

    def __enter__(self) -> Self:
        with _lock:
            stand_in = _STANDING_IN.setdefault(self.name, _StandIn(self.name))
            stand_in.of_threads.setdefault(get_ident(), []).append(self)
            kernels.__dict__[self.name] = stand_in
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            of_threads = _STANDING_IN[self.name].of_threads
            entered = of_threads[get_ident()]
            entered.pop()
            if not entered:
                del of_threads[get_ident()]
            if not of_threads:
                del _STANDING_IN[self.name]
                kernels.__dict__.pop(self.name, None)


def is_text_of_a_kernel(function: Any) -> bool:
    """Whether it is a textbook kernel, or a changed copy of one."""
    return is_copy(function, getattr(importlib.import_module(_PACKAGES["textbook"]), _name(function), None))


def is_copy(function: Any, text: Any) -> bool:
    """Whether a function has the name and the parameters of another one, as a changed copy has."""
    return (
        isinstance(function, FunctionType)
        and isinstance(text, FunctionType)
        and _name(function) == _name(text)
        and [*inspect.signature(function).parameters] == [*inspect.signature(text).parameters]
    )


def _name(function: Any) -> str:
    return getattr(function, "__name__", "")


# ---- the choice of a set -----------------------------------------------------------------------------------------


class use_kernels:  # noqa: N801  a function to its callers, a class so that "with" can restore
    """Run all operators on the kernel set ``name`` from now on; in a ``with``, until the block ends.

    name: "compiled" (the default set, Numba) or "textbook" (plain NumPy). Both have the same kernels.
    convolution: the textbook set's algorithm for convolutions and their gradients: "auto" (tap by tap), or "singa",
        "mxnet", "pytorch" or "numpy_ml". A layer that sets its own algorithm keeps it.

    The setting is for the whole process, not for one thread.

    Raises:
        ValueError: ``name`` is not a kernel set, or ``convolution`` is not one of these algorithms or is given with the
            compiled set.

    >>> import retrograd
    >>> with retrograd.use_kernels("textbook", convolution="singa"):
    ...     print(retrograd.active_kernels())
    textbook
    """

    def __init__(self, name: str, convolution: str = "auto") -> None:
        if name not in _PACKAGES:
            raise ValueError(f"use_kernels: name={name!r} is not a kernel set; choose one of {', '.join(_PACKAGES)}")
        if convolution not in ("auto", *TEXTBOOK_ALGORITHMS):
            raise ValueError(
                f"use_kernels: convolution={convolution!r} is not an algorithm of the textbook set; "
                f"choose one of auto, {', '.join(TEXTBOOK_ALGORITHMS)}"
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


def convolution_kernel(name: str, options: Options) -> Any:
    """``kernels.<name>``, or its namesake in the textbook set if the options name one of its algorithms."""
    if options is AUTO or options.algorithm not in TEXTBOOK_ALGORITHMS:  # (nearly every call is the first)
        return getattr(kernels, name)
    return _textbook(name)


def exact(name: str) -> Any:
    """The textbook kernel, whichever set is active: only that set computes integers, and exactly."""
    return _textbook(name)


def _textbook(name: str) -> Any:
    return _STANDING_IN.get(name) or getattr(importlib.import_module(_PACKAGES["textbook"]), name)


def compile_ahead(kernels: Sequence[str]) -> None:
    """Compile these float32 kernels of the active set now, on all cores, instead of one by one on first use."""
    if kernels and KernelSet._active == "compiled":
        from .kernels.compiled.machine.precompile import compile_ahead

        compile_ahead(kernels)


def active_kernels() -> str:
    """Name of the active kernel set."""
    return KernelSet._active


def kernel_setting() -> tuple[str, str]:
    """The current arguments of use_kernels: the active set and its algorithm of convolution."""
    return KernelSet._active, KernelSet._convolution
