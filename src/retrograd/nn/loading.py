"""The values of load_state_dict: whether they fit, and copying them. Lazy layers infer their sizes from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import any_true, broadcast_to, empty, from_host, is_array
from ..engine.tensor import Tensor
from ..kernel_set import exact, kernels
from .uninitialized import NO_SHAPE, is_lazy

if TYPE_CHECKING:
    from .module import Module

__all__ = ["fill", "fitting", "kept"]

_COUNTS = ("num_batches_tracked", "n_averaged")  # buffers that divide a mean
Shapes = dict[str, tuple[int, ...]]


def fitting(
    module: Module, own: Mapping[str, Tensor], state_dict: Mapping[str, Any], assign: bool
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays for the keys in both, and the reasons why any do not fit; nothing is changed."""
    arrays: dict[str, np.ndarray] = {}
    problems: list[str] = []
    for key in (key for key in own if key in state_dict):
        value, target = state_dict[key], own[key]
        if is_lazy(value):
            if not is_lazy(target):
                problems.append(f"{key}: {NO_SHAPE}")
            continue  # both are still uninitialised
        array = value.array if isinstance(value, Tensor) else value
        if is_lazy(target) and is_array(array):  # any shape is fine
            place = broadcast_to(empty((), target.dtype), array.shape)
        else:
            place = empty(0, target.dtype) if is_lazy(target) else target.array
        problem = _misfit(key, array, place, assign)
        if problem:
            problems.append(problem)
        arrays[key] = array
    if not problems:
        for path, shapes in _waiting(own, arrays).items():
            owner = module.get_submodule(path)  # a user's own module may lack the method
            problem = owner.misfit_of_shapes(shapes) if hasattr(owner, "misfit_of_shapes") else None
            if problem:
                problems.append(f"size mismatch for {path}{'.' if path else ''}{problem}")
    return arrays, problems


def fill(module: Module, own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray], assign: bool) -> None:
    """Copy (or assign) the arrays, which must fit, into their Tensors."""
    for path, shapes in _waiting(own, arrays).items():
        owner = module.get_submodule(path)
        if hasattr(owner, "learn_from_shapes"):
            owner.learn_from_shapes(shapes)
    for key, array in arrays.items():
        target: Any = own[key]
        if is_lazy(target):
            target.materialize(array.shape)
        if assign:
            target.array, target.grad = array, None
        else:
            kernels.assign(target.array, array)  # a float64 beyond float32's range becomes infinite


def kept(own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """A function that undoes ``fill``; lazy parameters keep the shapes that they got."""
    targets: list[Any] = [own[key] for key in arrays if not is_lazy(own[key])]
    before = [(target, target.array, kernels.duplicate(target.array), target.grad) for target in targets]

    def put_back() -> None:
        for target, array, values, gradient in before:
            kernels.copy(array, values)
            target.array, target.grad = array, gradient

    return put_back


def _waiting(own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray]) -> dict[str, Shapes]:
    """Paths of the modules that infer their sizes from these arrays, with the shapes."""
    waiting: dict[str, Shapes] = {}
    for key, array in arrays.items():
        if is_lazy(own[key]):
            path, _, name = key.rpartition(".")
            waiting.setdefault(path, {})[name] = array.shape
    return waiting


def _misfit(key: str, array: Any, target: np.ndarray, assign: bool) -> str | None:
    """Why array cannot be copied into target, or (assign) replace it; None if it can."""
    if not (is_array(array) or isinstance(array, np.generic)):
        return f'"{key}": expected a Tensor or an array, got {type(array).__name__}.'
    if array.shape != target.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {array.shape} from checkpoint, "
            f"the shape in current model is {target.shape}."
        )
    if not np.can_cast(array.dtype, target.dtype, casting="same_kind"):
        return f"dtype mismatch for {key}: {array.dtype} in checkpoint cannot be copied to {target.dtype}."
    is_count = key.rpartition(".")[2] in _COUNTS and array.dtype.kind in "iu"
    if is_count and any_true(exact("lt")(array, from_host(0, array.dtype)), "whether a count is negative"):
        return f"{key}: {array} is not a count; it must be at least 0."
    fresh = is_array(array) and array.flags.writeable
    if assign and not (fresh and array.dtype.kind == target.dtype.kind):
        return f"{key}: assign=True needs a writable array of kind {target.dtype}, got {array.dtype}; leave assign out."
    return None
