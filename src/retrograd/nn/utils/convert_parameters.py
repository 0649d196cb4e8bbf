"""Conversion of parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.aliasing import mark_changed
from ...engine.arguments import as_list, kind_name
from ...engine.tensor import Tensor
from ...kernel_set import exact, kernels
from ...ops.shape.shape import reshaped

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return a copy of the elements of all parameters in logical order, concatenated: shape (sum of their sizes,).

    Unlike PyTorch's, the vector is detached from the graph.

    Raises:
        ValueError: there are no parameters, or their dtypes differ.
        TypeError: one of the parameters is not a Tensor.
    """
    tensors = _tensors("parameters_to_vector", parameters)
    return Tensor(exact("concatenate")([reshaped(tensor.array, (-1,)) for tensor in tensors], 0))


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of vec (shape (sum of the sizes,)) into the parameters, in place.

    In PyTorch the parameters become views of vec; here they keep their own memory and its order.

    Raises:
        TypeError: vec or one of the parameters is not a Tensor.
        ValueError: vec does not have the length of all parameters, or their dtypes differ; nothing is changed.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: vec must be a Tensor, got {kind_name(vec)}")
    tensors = _tensors("vector_to_parameters", parameters)
    size = sum(tensor.array.size for tensor in tensors)
    if vec.array.shape != (size,):
        raise ValueError(
            f"vector_to_parameters: vec has shape {vec.array.shape}, but must be ({size},), one entry per element of "
            "the parameters"
        )
    begin = 0
    for tensor in tensors:
        array = tensor.array
        kernels.assign(array, vec.array[begin : begin + array.size].reshape(array.shape))
        begin += array.size
    mark_changed((tensor.array for tensor in tensors), "vector_to_parameters")


def _tensors(name: str, parameters: Iterable[Tensor]) -> list[Tensor]:
    tensors = as_list(name, "parameters", parameters, "a list of Tensors")
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: parameters[{position}] must be a Tensor, got {kind_name(tensor)}")
    dtypes = sorted({str(tensor.dtype) for tensor in tensors})
    if len(dtypes) != 1:
        raise ValueError(
            f"{name}: parameters have the dtypes {' and '.join(dtypes)}; convert them to one"
            if dtypes
            else f"{name}: parameters is empty"
        )
    return tensors
