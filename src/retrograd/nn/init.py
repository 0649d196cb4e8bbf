"""Weight initialization with PyTorch's names, drawn from retrograd's own generator.

All functions write into the tensor's existing memory and return the tensor. Values are drawn in the order of the
logical shape: they depend neither on the memory layout nor, except for rounding, on the dtype.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar

import numpy as np

from ..arrays import eye as identity
from ..arrays import from_host
from ..engine.aliasing import check_memory, mark_changed
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.argument_checks import as_count, as_element, as_real
from ..ops.random import random
from ..ops.signatures import require_bound
from ..torch_api.missing import attach_to_module
from .module import Module

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


# ---- Initialization functions ---------------------------------------------------------------------------------------

attach_to_module(__name__)
AnyTensor = TypeVar("AnyTensor", bound=Tensor)

_GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 3.0 / 4.0}
_LINEAR = ("linear", *(f"conv{kind}{ndim}d" for kind in ("", "_transpose") for ndim in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that preserves a signal's variance through nonlinearity.

        linear and conv*: 1, sigmoid: 1, tanh: 5/3, relu: sqrt(2), selu: 3/4
        leaky_relu: sqrt(2 / (1 + param**2)) with param the negative slope, 0.01 by default

    Source: He et al. 2015 (arXiv:1502.01852); selu and tanh as in PyTorch.

    Raises:
        TypeError: nonlinearity is not a str.
        ValueError: nonlinearity is not one of these, or param is not a number.
    """
    if not isinstance(nonlinearity, str):
        raise TypeError(f"calculate_gain: nonlinearity is {kind_name(nonlinearity)}, needs a str such as 'relu'")
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"calculate_gain: negative slope param={param!r} is not a number")
        slope = as_real("calculate_gain", "param", param)
        return math.sqrt(2.0 / (1.0 + slope * slope))
    known = ", ".join((*_LINEAR, *_GAINS, "leaky_relu"))
    raise ValueError(f"calculate_gain: unsupported nonlinearity {nonlinearity!r}; use one of {known}")


def uniform_(
    tensor: AnyTensor, a: float = 0.0, b: float = 1.0, generator: np.random.Generator | None = None
) -> AnyTensor:
    """Fill with draws from U(a, b).

    Raises:
        ValueError: a > b, or one of them is not finite.
        TypeError: tensor is not a floating-point Tensor.
    """
    a, b = as_real("uniform_", "a", a), as_real("uniform_", "b", b)
    if not (math.isfinite(a) and math.isfinite(b) and a <= b):
        raise ValueError(f"uniform_: a={a} must be at most b={b}, both finite; values are drawn from [a, b)")
    if not _is_skipped(tensor):
        _fill(tensor, random.as_generator("uniform_", generator).uniform(a, b, tensor.array.shape))
    return tensor


def normal_(
    tensor: AnyTensor, mean: float = 0.0, std: float = 1.0, generator: np.random.Generator | None = None
) -> AnyTensor:
    """Fill with draws from N(mean, std**2).

    Raises:
        ValueError: std < 0.
        TypeError: tensor is not a floating-point Tensor.
    """
    mean, std = as_real("normal_", "mean", mean), as_real("normal_", "std", std)
    if not std >= 0:
        raise ValueError(f"normal_: std={std} must be at least 0")
    if not _is_skipped(tensor):
        _fill(tensor, random.as_generator("normal_", generator).normal(mean, std, tensor.array.shape))
    return tensor


def constant_(tensor: AnyTensor, val: float) -> AnyTensor:
    """Fill with val.

    Raises:
        TypeError: tensor is not a floating-point Tensor.
    """
    if not _is_skipped(tensor):
        _fill(tensor, as_element("constant_", "val", val, tensor.array.dtype))
    return tensor


def ones_(tensor: AnyTensor) -> AnyTensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: AnyTensor) -> AnyTensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def xavier_uniform_(tensor: AnyTensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> AnyTensor:
    """Fill with draws from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010, equation 16.

    Raises:
        ValueError: tensor has fewer than 2 dimensions.
        TypeError: tensor is not a floating-point Tensor.
    """
    fan_in, fan_out = fans(tensor)
    gain = as_real("xavier_uniform_", "gain", gain)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: AnyTensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> AnyTensor:
    """Fill with draws from N(0, std**2), std = gain * sqrt(2 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010.

    Raises: as ``xavier_uniform_``.
    """
    fan_in, fan_out = fans(tensor)
    gain = as_real("xavier_normal_", "gain", gain)
    std = gain * math.sqrt(2.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: AnyTensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> AnyTensor:
    """Fill with draws from U(-bound, bound), bound = calculate_gain(nonlinearity, a) * sqrt(3 / fan).

    fan is fan_in or fan_out, depending on mode. Source: He et al. 2015 (arXiv:1502.01852).

    Raises:
        ValueError: unknown mode or nonlinearity, or tensor has fewer than 2 dimensions.
        TypeError: tensor is not a floating-point Tensor.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: AnyTensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> AnyTensor:
    """Fill with draws from N(0, std**2), std = calculate_gain(nonlinearity, a) / sqrt(fan).

    fan is fan_in or fan_out, depending on mode. Source: He et al. 2015 (arXiv:1502.01852).

    Raises: as ``kaiming_uniform_``.
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: AnyTensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: np.random.Generator | None = None,
) -> AnyTensor:
    """Fill with draws from N(mean, std**2) restricted to [a, b]; a and b are values, not multiples of std.

    Draws from the normal distribution are repeated until they are in [a, b]. If it rarely falls there, draws come from
    U(a, b) instead and are accepted in proportion to the density.

    Raises:
        ValueError: mean or std is not finite, std is not above 0, or a is not below b.
        TypeError: tensor is not a floating-point Tensor.
    """
    mean, std, a, b = (
        as_real("trunc_normal_", label, number) for label, number in (("mean", mean), ("std", std), ("a", a), ("b", b))
    )
    if not math.isfinite(mean):
        raise ValueError(f"trunc_normal_: mean={mean} must be finite; no draw would ever fall into [a, b]")
    if not 0 < std < math.inf:
        raise ValueError(f"trunc_normal_: std={std} must be above 0 and finite")
    if not a < b:
        raise ValueError(f"trunc_normal_: a={a} must be below b={b}; values are drawn from [a, b]")
    if _is_skipped(tensor):
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("trunc_normal_: mean is more than 2 std from [a, b]", stacklevel=2)
    draw = random.as_generator("trunc_normal_", generator)
    values = kernels.truncated_normal(draw, tensor.array.shape, tensor.array.dtype, mean, std, a, b)
    kernels.copy(tensor.array, from_host(values, like=tensor.array))
    return tensor


def eye_(tensor: AnyTensor) -> AnyTensor:
    """Fill a matrix with 1 on the diagonal and 0 elsewhere.

    Raises:
        ValueError: tensor is not a matrix.
        TypeError: tensor is not a floating-point Tensor.
    """
    rows, columns = _extents("eye_", tensor, (2,))
    if not _is_skipped(tensor):
        _fill(tensor, identity(rows, columns, like=tensor.array))
    return tensor


def dirac_(tensor: AnyTensor, groups: int = 1) -> AnyTensor:
    """Fill a convolution's weight (Co, Ci/groups, *R) so that it passes its input on: 1 at the central tap, else 0.

    In each group, output channel i gets input channel i, if there is one.

    Raises:
        ValueError: tensor does not have 3 to 5 dimensions, or groups does not divide Co.
        TypeError: tensor is not a floating-point Tensor.
    """
    outputs, *_ = _extents("dirac_", tensor, (3, 4, 5))
    if outputs % as_count("dirac_", "groups", groups):
        raise ValueError(f"dirac_: groups={groups!r} must be an int that divides the {outputs} output channels")
    if _is_skipped(tensor):
        return tensor
    kernels.fill_dirac(tensor.array, groups)
    return tensor


def orthogonal_(tensor: AnyTensor, gain: float = 1, generator: np.random.Generator | None = None) -> AnyTensor:
    """Fill (A, B, *R) so that, as a matrix (A, B * R), its shorter side is orthogonal: gain times rows or columns of Q.

    Q is the uniformly distributed orthogonal factor of a matrix of normal draws. Source: Saxe et al. 2013
    (arXiv:1312.6120); F. Mezzadri 2006 (arXiv:math-ph/0609050).

    Raises:
        ValueError: tensor has fewer than 2 dimensions.
        TypeError: tensor is not a floating-point Tensor.
    """
    _check(tensor)
    shape = tensor.array.shape
    if len(shape) < 2:
        raise ValueError(f"orthogonal_: tensor.shape={shape} needs at least 2 dimensions")
    if _is_skipped(tensor) or 0 in shape:
        return tensor
    rows, columns = shape[0], math.prod(shape[1:])
    drawn = random.as_generator("orthogonal_", generator).normal(0.0, 1.0, (max(rows, columns), min(rows, columns)))
    q = kernels.orthogonal_factor(from_host(drawn, like=tensor.array), as_real("orthogonal_", "gain", gain))
    kernels.assign(tensor.array, (q.T if rows < columns else q).reshape(shape))
    return tensor


def sparse_(
    tensor: AnyTensor, sparsity: float, std: float = 0.01, generator: np.random.Generator | None = None
) -> AnyTensor:
    """Fill a matrix with draws from N(0, std**2), and set the fraction ``sparsity`` of each column to 0.

    Source: J. Martens, "Deep learning via Hessian-free optimization", 2010.

    Raises:
        ValueError: tensor is not a matrix, sparsity is not in [0, 1] or std < 0.
        TypeError: tensor is not a floating-point Tensor.
    """
    rows, columns = _extents("sparse_", tensor, (2,))
    if not 0 <= as_real("sparse_", "sparsity", sparsity) <= 1:
        raise ValueError(f"sparse_: sparsity={sparsity} is a fraction and must lie in [0, 1]")
    normal_(tensor, 0.0, std, generator)
    if not _is_skipped(tensor):
        draw = random.as_generator("sparse_", generator)
        zeros = math.ceil(sparsity * rows)
        chosen = [draw.permutation(rows)[:zeros] for _ in range(columns)]
        places = from_host(from_host(chosen, np.int64), like=tensor.array).reshape(columns, zeros)
        kernels.clear_entries(tensor.array, places)
    return tensor


def _deprecated(function: Callable[..., AnyTensor]) -> Callable[..., AnyTensor]:
    """Return the function under PyTorch's old name, without the underscore."""
    new, signature = function.__name__, inspect.signature(function)

    @functools.wraps(function)
    def old(*args: Any, **kwargs: Any) -> AnyTensor:
        require_bound(new[:-1], signature, args, kwargs)
        warnings.warn(f"nn.init.{new[:-1]} is now deprecated in favor of nn.init.{new}.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    old.__name__ = old.__qualname__ = new[:-1]
    return old


uniform: Final = _deprecated(uniform_)
normal: Final = _deprecated(normal_)
constant: Final = _deprecated(constant_)
eye: Final = _deprecated(eye_)
dirac: Final = _deprecated(dirac_)
sparse: Final = _deprecated(sparse_)
orthogonal: Final = _deprecated(orthogonal_)
xavier_uniform: Final = _deprecated(xavier_uniform_)
xavier_normal: Final = _deprecated(xavier_normal_)
kaiming_uniform: Final = _deprecated(kaiming_uniform_)
kaiming_normal: Final = _deprecated(kaiming_normal_)


@contextlib.contextmanager
def initialization_skipped() -> Iterator[None]:
    """Context manager in which the functions above check their arguments but write nothing."""
    previous, _skipping.inside = getattr(_skipping, "inside", False), True
    try:
        yield
    finally:
        _skipping.inside = previous


_skipping = threading.local()


def _fill(tensor: Tensor, values: Any) -> None:
    kernels.assign(tensor.array, from_host(values, like=tensor.array))


def _is_skipped(tensor: Tensor) -> bool:
    """Check the tensor; return whether ``initialization_skipped`` is active. If not, its memory is about to change."""
    _check(tensor)
    if getattr(_skipping, "inside", False):
        return True
    check_memory(tensor.array, "nn.init", "tensor")
    mark_changed((tensor.array,), "nn.init")
    return False


def _extents(name: str, tensor: Tensor, allowed: Collection[int]) -> tuple[int, ...]:
    """Return the shape after checking that its number of axes is allowed."""
    _check(tensor)
    shape = tensor.array.shape
    if len(shape) not in allowed:
        expected = " or ".join(map(str, allowed))
        raise ValueError(f"{name}: tensor.shape={shape} has {len(shape)} dimensions, needs {expected}")
    return shape


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a weight (A, B, *R): B and A times the number of taps.

    Raises:
        ValueError: tensor has fewer than 2 dimensions.
    """
    _check(tensor)
    shape = tensor.array.shape
    if len(shape) < 2:
        raise ValueError(
            f"fan_in and fan_out need a tensor of at least 2 dimensions, got shape {shape}; "
            "use uniform_ or normal_ for a vector"
        )
    taps = math.prod(shape[2:])
    return shape[1] * taps, shape[0] * taps


_calculate_fan_in_and_fan_out = fans  # PyTorch's name, which scripts call


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode={mode!r} must be 'fan_in' or 'fan_out'")
    gain = calculate_gain(nonlinearity, a)
    fan_in, fan_out = fans(tensor)
    fan = fan_in if mode == "fan_in" else fan_out
    if tensor.array.size == 0:
        warnings.warn(f"a tensor of shape {tensor.array.shape} has no elements to initialize", stacklevel=3)
    return gain / math.sqrt(fan) if fan else 0.0


def _check(tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        hint = "; pass a parameter, such as layer.weight" if hasattr(tensor, "parameters") else ""
        raise TypeError(f"nn.init: tensor must be a Tensor, got {kind_name(tensor)}{hint}")
    if tensor.array.dtype.kind != "f":
        raise TypeError(f"tensor must be float32 or float64, got {tensor.array.dtype}")


# ---- Modules created without initialization -------------------------------------------------------------------------

AnyModule = TypeVar("AnyModule", bound=Module)


def skip_init(module_cls: type[AnyModule], *args: Any, **kwargs: Any) -> AnyModule:
    """Return module_cls(*args, **kwargs) with undefined values in its parameters; no function of ``nn.init`` runs.

    Raises:
        RuntimeError: module_cls is not a subclass of Module.
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: expected a subclass of Module, got {module_cls!r}")
    with initialization_skipped():
        return module_cls(*args, **kwargs)
