"""Spectral normalization under the names of older PyTorch: weight_orig, weight_u and weight_v in the module itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import from_host
from ...engine.aliasing import mark_changed
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...kernel_set import exact, kernels
from ...ops.random.sampling import randn
from ..arguments import as_module
from ..module import Module
from ..parameter import Parameter
from .parametrizations import check_spectral, default_axis, divided, matrix_of, times, unit
from .parametrize import compute, parameter_named, stop_computing

__all__ = ["remove_spectral_norm", "spectral_norm"]


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """w = original / sigma with the parameter ``<name>_orig`` and the buffers ``<name>_u`` and ``<name>_v``.

    See ``parametrizations.spectral_norm``; here the vectors start with random values.

    Raises:
        ValueError: the module has no such parameter, or n_power_iterations is below 1.
        IndexError: the parameter has no axis ``dim``.
    """
    as_module("spectral_norm", "module", module)
    weight = parameter_named("spectral_norm", module, name)
    axis = check_spectral(weight, n_power_iterations, default_axis(module) if dim is None else dim)
    extents = matrix_of(weight, axis).array.shape
    delattr(module, name)
    module.register_parameter(f"{name}_orig", Parameter(weight.array, weight.requires_grad))
    for letter, extent in zip("uv", extents, strict=True):
        start = unit(from_host(kernels.cast(randn(extent).array, weight.array.dtype), like=weight.array), eps)
        module.register_buffer(f"{name}_{letter}", Tensor(start))
    compute(module, name, _Divided(name, axis, n_power_iterations, eps))
    return module


@dataclass(frozen=True)
class _Divided:
    """Computes original / sigma, after the steps of power iteration."""

    name: str
    axis: int
    n_power_iterations: int
    eps: float

    def __call__(self, module: Module) -> Tensor:
        original, u, v = (module.__dict__[f"{self.name}_{end}"] for end in ("orig", "u", "v"))
        matrix = matrix_of(original, self.axis)
        if module.training:
            mark_changed((u.array, v.array), "spectral_norm")
        for _ in range(self.n_power_iterations if module.training else 0):
            kernels.copy(v.array, unit(times(matrix.array.T, u.array), self.eps))
            kernels.copy(u.array, unit(times(matrix.array, v.array), self.eps))
        return divided(original, matrix, u, v)

    def upgrade_state(self, module: Module, state: dict[str, Any], prefix: str) -> None:
        """Add v to a state of PyTorch before 1.0, which had the normalized weight in its place.

        v solves W v = c u in the least-squares sense, with c such that u W v is sigma, the ratio of the weights.
        """
        key = prefix + self.name
        given = [state.get(key + end) for end in ("_orig", "", "_u")]
        if f"{key}_v" in state or any(value is None for value in given):
            return
        arrays = [from_host(getattr(value, "array", value)) for value in given]
        original, weight, u = [exact("cast")(array, np.dtype(np.float64)) for array in arrays]
        own = [module.__dict__[f"{self.name}_{end}"] for end in ("orig", "u", "v")]
        if original.shape != own[0].shape or weight.shape != original.shape or u.shape != own[1].shape:
            return  # load_state_dict reports them
        del state[key]
        matrix = matrix_of(Tensor(original), self.axis).array
        v = kernels.spectral_start(original, weight, matrix, u)
        state[f"{key}_v"] = Tensor(kernels.cast(v, own[2].array.dtype))


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the normalized weight a parameter again.

    Raises:
        ValueError: the module has no spectral norm of that name.
    """
    as_module("remove_spectral_norm", "module", module)
    original = module.__dict__.get(f"{name}_orig")
    if original is None or not isinstance(getattr(type(module), name, None), property):
        raise ValueError(f"remove_spectral_norm: {type(module).__name__} has no spectral norm of {name!r}")
    training, module.training = module.training, False
    with no_grad():
        value = kernels.duplicate(getattr(module, name).array)
    module.training = training
    stop_computing(module, name)
    for end in ("orig", "u", "v"):
        delattr(module, f"{name}_{end}")
    module.register_parameter(name, Parameter(value, original.requires_grad))
    return module
