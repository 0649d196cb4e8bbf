"""The active set of kernels: ``compiled`` (fast) or ``textbook`` (plain NumPy).

Operators call ``kernels.conv(...)``; the name is looked up in the active set on first use and cached until the set
changes. No set is imported before that, so ``import retrograd`` does not load the compiler.
"""

from __future__ import annotations

import importlib
import inspect
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from threading import RLock, get_ident
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

from .specs.array_spec import Array, Spec, arrays_in, layout_of, leaves, mapped
from .specs.convolution_options import AUTO, TEXTBOOK_ALGORITHMS, Options

_PACKAGES = {"compiled": "retrograd.kernels.compiled", "textbook": "retrograd.kernels.textbook"}

# convolution algorithms of the textbook set, each a module with these kernels
_ALGORITHMS = "retrograd.kernels.textbook.algorithms"
_CONVOLUTION = ("conv", "conv_input_grad", "conv_weight_grad")


if TYPE_CHECKING:
    from .kernels.interface import Interface
else:  # the declarations take 0.8 MiB, which running a kernel does not need
    Interface = object


class KernelSet(Interface):
    """The kernels of the active set as attributes, with the signatures of ``kernels.interface``."""

    _active = "compiled"
    _convolution = "auto"

    def __getattr__(self, name: str) -> Any:
        # called only for names that are not in __dict__ yet
        if name.startswith("__"):
            raise AttributeError(name)
        return self.load(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_interface()})

    def load(self, name: str) -> Any:
        """Return and cache the active set's kernel, or a wrapper that notifies listeners or dispatches by device."""
        with _lock:  # another thread may enter a listener, or choose another set
            found: Any = self.found(name)
            if listeners:
                found = _ObservedKernel(name)
            elif _by_array:
                found = _ByDevice(name)
            elif (direct := getattr(found, "direct", None)) is not None:  # the same without Python code
                found = direct.run
            self.__dict__[name] = found
        return found

    def load_formula(self, formula: Any) -> Any:
        """Return the kernel of a user's formula, like `load`."""
        _formulas[formula.kernel] = formula
        return self.load(formula.kernel)

    def found_formula(self, formula: Any) -> Any:
        """Return the kernel of a user's formula, like `found`."""
        _formulas[formula.kernel] = formula
        return self.found(formula.kernel)

    def found(self, name: str) -> Any:
        """Return the kernel of the active set: the function of Python, which steps call and plans are made of.

        Raises:
            ImportError: the set cannot be imported.
            AttributeError: it has no kernel of this name.
        """
        package = _PACKAGES[KernelSet._active]
        if KernelSet._convolution != "auto" and name in _CONVOLUTION:
            package = f"{_ALGORITHMS}.{KernelSet._convolution}"
        return _kernel_of(KernelSet._active, package, name)

    def for_arrays(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the kernel of the set for the device of these arrays.

        Raises:
            RuntimeError: they are on several devices.
        """
        if not _by_array:
            return self.found(name)
        places = {device_of(leaf) for leaf in leaves((args, kwargs)) if type(leaf) in _by_array or _has_axes(leaf)}
        if len(places) > 1:
            first, *others = sorted(places)
            raise RuntimeError(
                f"{name}: its arrays are on the devices {first} and {', '.join(others)}; move some: x.to({first!r})"
            )
        device = DEVICES.get(places.pop() if places else "cpu")
        if device is None:
            return self.found(name)
        return _kernel_of(device.kernels, _PACKAGES.get(device.kernels, device.kernels), name)


def _has_axes(value: Any) -> bool:
    return isinstance(value, Array) and value.ndim > 0


def _kernel_of(active: str, package: str, name: str) -> Any:
    """Return a set's own kernel, or the textbook kernel if the set has none."""
    hint = "use_kernels('textbook') runs on plain NumPy instead"
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"the kernel set {active!r} ({package}) cannot be imported: {error}; {hint}") from error
    formula = _formulas.get(name)
    key = name if formula is None else "formula_kernel"
    try:
        if not hasattr(module, key) and key in _interface():
            module = importlib.import_module(_PACKAGES["textbook"])
        found = getattr(module, key)
    except AttributeError as error:
        raise AttributeError(
            f"the kernel set {active!r} ({package}) has no kernel {name!r}: {error}; {hint}"
        ) from error
    return found if formula is None else found(formula)


def _interface() -> dict[str, Any]:
    from .kernels.interface import KERNELS

    return KERNELS


_formulas: dict[str, Any] = {}  # users' formulas by kernel name


def formula_of(name: str) -> Any:
    """Return the user's formula whose kernel has this name, or None."""
    return _formulas.get(name)


# Two words, read by machine code; prepared operators do not run while one of them is 0. The first says that kernels are
# the compiled ones, and nobody listens to their calls; the second belongs to the engine.
usual: Final = array("q", [1, 1])

_lock = RLock()
kernels: Final = KernelSet()


# ---- Listeners ---------------------------------------------------------------------------------------------------

listeners: dict[int, list[Listener]] = {}  # by thread, innermost last; almost always empty


class Listener:
    """While its ``with`` block runs, every kernel call of this thread goes to `call`. Other threads are not affected.

    Among several listeners, the innermost is called; kernels that it calls go to the next one.
    """

    _thread = 0

    def __enter__(self) -> Self:
        with _lock:
            self._thread = get_ident()
            listeners.setdefault(self._thread, []).append(self)
            clear_kernels()
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            entered = listeners[self._thread]  # self._thread, since a generator may be closed in another thread
            del entered[len(entered) - 1 - entered[::-1].index(self)]
            if not entered:
                del listeners[self._thread]
            clear_kernels()

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call; ``kernel(*args, **kwargs)`` computes it without this listener."""
        return kernel(*args, **kwargs)


class _ObservedKernel:
    """A kernel whose calls go to the listeners of the calling thread.

    kernel: the function to call; None: looked up by the device of the arrays. below: how many listeners, counted from
    the outermost, still get the call; None: all.
    """

    __slots__ = ("below", "kernel", "name")

    def __init__(self, name: str, kernel: Callable[..., Any] | None = None, below: int | None = None) -> None:
        self.name, self.kernel, self.below = name, kernel, below

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entered = listeners.get(get_ident(), [])
        count = len(entered) if self.below is None else self.below
        if not count:
            return (self.kernel or kernels.for_arrays(self.name, args, kwargs))(*args, **kwargs)
        return entered[count - 1].call(self.name, _ObservedKernel(self.name, self.kernel, count - 1), args, kwargs)

    def bare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """Return the function that finally runs for these arguments."""
        entered = listeners.get(get_ident(), [])
        for listener in reversed(entered if self.below is None else entered[: self.below]):
            if isinstance(listener, instead) and self.name in listener.functions:
                return listener.functions[self.name]
        found: Callable[..., Any] = self.kernel or kernels.for_arrays(self.name, args, kwargs)
        return found

    def replaced_by(self, function: Callable[..., Any]) -> _ObservedKernel:
        """Return another function whose calls go to the same listeners."""
        return _ObservedKernel(self.name, function, self.below)


class instead(Listener):  # noqa: N801
    """Replace the kernels of these names by other functions in this thread, within a ``with`` block.

    Each function takes the arguments of the kernel, including arrays, and returns the same kind of result. calls: the
    number of calls so far.
    """

    calls: int
    functions: Mapping[str, Callable[..., Any]]

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.functions, self.calls, self._runs = functions, 0, False

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self.functions.get(name)
        if function is None or self._runs:  # inside such a function, the kernels are not replaced
            return kernel(*args, **kwargs)
        self.calls += 1
        self._runs = True
        try:
            return cast(_ObservedKernel, kernel).replaced_by(function)(*args, **kwargs)
        finally:
            self._runs = False


def is_textbook_kernel(function: Any) -> bool:
    """Return whether a function is a textbook kernel or a changed copy of one."""
    return is_copy(function, getattr(importlib.import_module(_PACKAGES["textbook"]), _name(function), None))


def is_copy(function: Any, original: Any) -> bool:
    """Return whether a function has the name and parameters of another one, like a changed copy."""
    return (
        isinstance(function, FunctionType)
        and isinstance(original, FunctionType)
        and _name(function) == _name(original)
        and [*inspect.signature(function).parameters] == [*inspect.signature(original).parameters]
    )


def _name(function: Any) -> str:
    return getattr(function, "__name__", "")


# ---- Devices ------------------------------------------------------------------------------------------------------


class Device(NamedTuple):
    """A device whose arrays are not NumPy arrays: its name, its array type, and its kernels.

    name: such as "gpu". array: the array type, with NumPy's protocols; see ``retrograd.arrays.protocol``. from_host:
    converts a NumPy array to this type. kernels: "textbook", whose NumPy functions dispatch to the arrays, or a module
    with faster kernels of the same names; textbook kernels are used for those that it lacks.
    """

    name: str
    array: type
    from_host: Callable[[Array], Any]
    kernels: str = "textbook"


DEVICES: dict[str, Device] = {}  # by name, without "cpu"; almost always empty
_by_array: dict[type, Device] = {}


def add_device(name: str, array: type, from_host: Callable[[Array], Any], kernels: str = "textbook") -> Device:
    """Register a device: ``x.to(name)`` moves tensors there, and kernels are chosen by the device of their arrays.

    The arguments are those of ``Device``. ``use_kernels`` still chooses the kernels for the CPU.

    Raises:
        ValueError: the name is in use or not an identifier, or ``array`` is the type of another device's arrays.
        TypeError: ``array`` is not a type.
    """
    if not isinstance(name, str) or not name.isidentifier() or name == "cpu" or name in DEVICES:
        known = ", ".join(["cpu", *DEVICES])
        raise ValueError(f"add_device: name={name!r} must be a new identifier; {known} are known")
    if not isinstance(array, type):
        raise TypeError(f"add_device: array={array!r} must be the type of the device's arrays")
    if array in _by_array or issubclass(array, Array):
        raise ValueError(
            f"add_device: array={array.__name__} is the type of another device's arrays; give this device its own type"
        )
    with _lock:
        found = DEVICES[name] = _by_array[array] = Device(name, array, from_host, kernels)
        clear_kernels()
    return found


def remove_device(name: str) -> None:
    """Unregister a device; tensors on it do not change.

    Raises:
        KeyError: there is no device of this name.
    """
    with _lock:
        del _by_array[DEVICES.pop(name).array]
        clear_kernels()


def clear_kernels() -> None:
    """Clear the cache, so that each kernel is looked up again."""
    kernels.__dict__.clear()
    plain = not listeners and not _by_array and KernelSet._convolution == "auto"
    usual[0] = int(plain and KernelSet._active == "compiled")


def sets_of(name: str) -> tuple[str, ...]:
    """Return the kernel sets and device modules that have their own kernel of this name."""
    others = [each.kernels for each in DEVICES.values() if each.kernels not in _PACKAGES]
    packages = {**_PACKAGES, **dict(zip(others, others, strict=True))}
    return tuple([label for label, path in packages.items() if hasattr(importlib.import_module(path), name)])


def device_of(x: Any) -> str:
    """Return the name of an array's device."""
    found = _by_array.get(type(x))
    return "cpu" if found is None else found.name


class _ByDevice:
    """A kernel that dispatches each call by the device of its arrays; used while several devices exist."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return kernels.for_arrays(self.name, args, kwargs)(*args, **kwargs)


# ---- Choice of the kernel set ------------------------------------------------------------------------------------


class use_kernels:  # noqa: N801  a function to its callers, a class so that "with" can restore
    """Run all operators on the kernel set ``name`` from now on; in a ``with`` statement, until the block ends.

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

    name: str

    def __init__(self, name: str, convolution: str = "auto") -> None:
        if name not in _PACKAGES:
            hint = f"; use_kernels('textbook', convolution={name!r})" if name in TEXTBOOK_ALGORITHMS else ""
            raise ValueError(
                f"use_kernels: name={name!r} is not a kernel set; choose one of {', '.join(_PACKAGES)}{hint}"
            )
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
    with _lock:
        KernelSet._active, KernelSet._convolution = name, convolution
        clear_kernels()


def convolution_kernel(name: str, options: Options) -> Any:
    """Return ``kernels.<name>``, or the textbook kernel of this name if the options name a textbook algorithm."""
    if options is AUTO or options.algorithm not in TEXTBOOK_ALGORITHMS:  # AUTO in almost every call
        return getattr(kernels, name)
    return exact(name)


def exact(name: str) -> Any:
    """Return the textbook kernel, whichever set is active: only the textbook set has (exact) integer kernels."""
    kernel = _textbook_kernel(name)
    return _ObservedKernel(name, kernel) if listeners else kernel


@cache
def _textbook_kernel(name: str) -> Any:
    return getattr(importlib.import_module(_PACKAGES["textbook"]), name)


def begin_compiling(kernels: Sequence[str], doubles: Sequence[str] = ()) -> Any:
    """Begin to compile these kernels of the active set in other processes; ``finish()`` compiles the rest.

    kernels, doubles: those for float32, and those for float64.

    Returns None if there is nothing to compile: for the textbook set, and if the cache has them.
    """
    if not (kernels or doubles) or KernelSet._active != "compiled":
        return None
    from .kernels.compiled.machine.precompile import Compilation

    found = Compilation(kernels, doubles=doubles)
    return found if found.total else None


def plan(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return the plan of the active set's kernel ``name`` for arrays of given layouts, without reading any element.

    args, kwargs: the arguments of the kernel. Only the layout of an array is used, so a ``Spec`` with strides suffices.
    The plan of a compiled kernel lists the launches of machine code, the memory that they need and the locations of the
    results; the plan of a textbook kernel is one Python call. ``plan.run(*arrays)`` runs it on arrays of these layouts.

    Raises:
        TypeError: the kernel has no plan for these arguments, for example if it reads elements; the message says why.

    >>> import numpy as np
    >>> from retrograd.specs.geometry import conv_window
    >>> from retrograd.kernels.interface import Spec
    >>> x, w = Spec((8, 64, 28, 28), np.dtype("f")), Spec((64, 64, 3, 3), np.dtype("f"))
    >>> [launch.name for launch in plan("conv", x, w, None, conv_window((28, 28), (3, 3), padding=1)).launches][-1]
    'convolution_winograd_gather_f'
    """
    return plan_of_function(kernels.for_arrays(name, args, kwargs), args, kwargs)


def plan_of_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the plan of a kernel of either set."""
    if getattr(function, "__globals__", {}).get("__name__", "").startswith(_PACKAGES["compiled"]):
        from .kernels.compiled.machine.plan import plan_of

        return plan_of(function, args, kwargs)
    return PythonCall(function, *layout_of((args, kwargs)))


def prepared_operator(operator: Callable[..., Any], engine: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return a built-in function that runs the plan of an operator; None if machine code cannot.

    engine: the fields of ``machine.operation.Engine`` after the first; the last are those of ``Recording``.
    """
    from .kernels.compiled.machine import numpy_abi, operation

    if numpy_abi.fault():
        return None
    made = operation.Engine(usual, *(*engine[:-1], operation.Recording(*engine[-1])))
    return operation.Operation(operator, made).run


def compiling_ahead() -> AbstractContextManager[None] | None:
    """A block in which kernels are compiled in other processes as soon as a plan needs them.

    None with one thread, and if the cache seems to have them: this process has compiled none, and would not for its
    first launch.
    """
    from .kernels.compiled.machine import launch

    if launch.get_num_threads() == 1 or not launch.is_compiling():
        return None
    from .kernels.compiled.machine.precompile import compiling_deferred

    return compiling_deferred()


def compile_deferred(plans: Sequence[Any]) -> None:
    """Compile the kernels whose machine code did not exist when these plans were made, on several cores."""
    if any(hasattr(one.function, "ready") for plan in plans for one in plan.launches):
        from .kernels.compiled.machine.precompile import compile_deferred

        compile_deferred(plans)


def program_of(calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...], Any]]) -> Any:
    """Return the calls of plans, in order, as a program, which runs them with little Python in between."""
    from .kernels.compiled.machine.program import Program

    return Program(calls)


def call_into(y: Array, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel. Its result is y itself if no other listener gets the call and it has a plan that fits y."""
    function = kernel
    if isinstance(kernel, _ObservedKernel):
        function = kernel.bare(args, kwargs)
        if kernel.below:
            return kernel(*args, **kwargs)
    try:
        plan = plan_of_function(function, args, kwargs)
    except TypeError:  # there is no plan, or the call itself raises the error about its arguments
        return kernel(*args, **kwargs)
    if not plan.launches or not plan.fits(y):
        return kernel(*args, **kwargs)
    return plan.run(*arrays_in((args, kwargs)), into=y)


class PythonCall(NamedTuple):
    """The plan of a textbook kernel: a single Python call."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    launches: tuple[()] = ()

    def run(self, *arrays: Any) -> Any:
        """Call the kernel with these arrays."""
        given = iter(arrays)
        args, kwargs = mapped((self.args, self.kwargs), lambda leaf: next(given) if isinstance(leaf, Spec) else leaf)
        return self.function(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}, a Python call"


def active_kernels() -> str:
    """Return the name of the active kernel set."""
    return KernelSet._active


def kernel_setting() -> tuple[str, str]:
    """Return the current arguments of use_kernels: the active set and its convolution algorithm."""
    return KernelSet._active, KernelSet._convolution
