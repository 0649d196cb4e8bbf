"""One call of the function under test, with replaceable arrays and fixed other arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..autograd import grad
from ..engine.tensor import Tensor
from ..ops.random.random import get_rng_state, manual_seed, set_rng_state

Arrays = list[np.ndarray]


class Call:
    """``function(*args, **kwargs)`` as a function of the arrays in the arguments, including those in lists and tuples.

    Arrays are passed to the function as Tensors; floating-point ones are differentiated.

    random: draw the same random numbers in every call.
    """

    random: bool
    function: Callable[..., Any]

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], random: bool = False
    ) -> None:
        self.function, self.random = function, random
        self.arrays: Arrays = []
        self._args = [self._to_slot(arg) for arg in args]
        self._kwargs = {key: self._to_slot(value) for key, value in kwargs.items()}
        self.floating: list[int] = [k for k, a in enumerate(self.arrays) if a.dtype.kind == "f"]

    def _to_slot(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            self.arrays.append(value.astype(np.float64) if value.dtype.kind == "f" else value.copy())
            self.arrays[-1].flags.writeable = False  # one check must not affect the next
            return _Slot(len(self.arrays) - 1)
        if type(value) in (list, tuple):
            return type(value)(self._to_slot(item) for item in value)
        return value

    def with_values(self, values: Sequence[Any], function: Callable[..., Any] | None = None) -> Any:
        """Return the result of the function (or another one) with these values instead of the arrays."""
        args = [_put(arg, values) for arg in self._args]
        kwargs = {key: _put(value, values) for key, value in self._kwargs.items()}
        if not self.random:
            return (function or self.function)(*args, **kwargs)
        state = get_rng_state()
        manual_seed(0)
        try:
            return (function or self.function)(*args, **kwargs)
        finally:
            set_rng_state(state)

    def outputs(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the Tensors that the function returns."""
        return outputs_of(self.with_values(tensors))

    def tensors(self, arrays: Arrays, dtype: Any = np.float64, requires_grad: bool = False) -> list[Tensor]:
        """Return a Tensor for each array; floating-point ones in ``dtype``, with the strides of their array."""
        return [
            Tensor(a.astype(dtype, copy=False), requires_grad=requires_grad) if a.dtype.kind == "f" else Tensor(a)
            for a in arrays
        ]

    def results(self, arrays: Arrays, dtype: Any = np.float64, differentiable: bool = True) -> tuple[Arrays, Arrays]:
        """Return the outputs, and the gradients of all floating-point inputs for random upstream gradients."""
        tensors = self.tensors(arrays, dtype, requires_grad=differentiable)
        outputs = self.outputs(tensors)
        return [y.array for y in outputs], self.gradients(outputs, tensors) if differentiable else []

    def gradients(
        self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], between: Callable[[], object] = lambda: None
    ) -> Arrays:
        """Call ``between()``, and return the gradients of all floating-point tensors for random upstream gradients."""
        roots = [y for y in outputs if y.requires_grad]
        if not roots:
            return []
        upstream = [Tensor(numbers(y.shape, 5 + k).astype(y.dtype)) for k, y in enumerate(roots)]
        checked = [tensors[k] for k in self.floating]
        between()
        gradients = grad(roots, checked, upstream, allow_unused=True)
        return [np.zeros_like(t.array) if g is None else g.array for t, g in zip(checked, gradients, strict=True)]


class _Slot:
    """The position of an array in the arguments."""

    def __init__(self, index: int) -> None:
        self.index = index


def _put(value: Any, values: Sequence[Any]) -> Any:
    if isinstance(value, _Slot):
        return values[value.index]
    if type(value) in (list, tuple):
        return type(value)(_put(item, values) for item in value)
    return value


def outputs_of(result: Any) -> tuple[Tensor, ...]:
    """Return the Tensors of a result: one, or those in nested tuples and lists.

    Raises:
        TypeError: result contains no Tensor.
    """
    outputs = tuple(_flat(result))
    if not outputs:
        raise TypeError(f"the function returned {type(result).__name__}, expected a Tensor or a tuple of Tensors")
    return outputs


def _flat(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from _flat(item)


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return standard normal numbers, the same in every call."""
    return np.asarray(np.random.default_rng((seed, *shape)).standard_normal(shape))
