"""Weight normalization under the names of older PyTorch versions: weight_g and weight_v in the module itself."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..arguments import as_module
from ..module import Module
from ..parameter import Parameter
from .parametrizations import lengths
from .parametrize import compute, parameter_named, stop_computing

__all__ = ["remove_weight_norm", "weight_norm"]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """w = g * v / |v| with the parameters ``<name>_g`` and ``<name>_v``; see ``parametrizations.weight_norm``.

    Raises:
        ValueError: the module has no such parameter.
        IndexError: the parameter has no axis ``dim``.
    """
    as_module("weight_norm", "module", module)
    weight = parameter_named("weight_norm", module, name)
    with no_grad():
        length = lengths(weight.detach(), dim)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(length, weight.requires_grad))
    module.register_parameter(f"{name}_v", Parameter(weight.array, weight.requires_grad))
    compute(module, name, _Normalized(name, dim))
    return module


@dataclass(frozen=True)
class _Normalized:
    """Computes g * v / |v|."""

    name: str
    dim: int | None

    def __call__(self, module: Module) -> Tensor:
        g, v = module.__dict__[f"{self.name}_g"], module.__dict__[f"{self.name}_v"]
        return v * (g / lengths(v, self.dim))


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the normalized weight a parameter again.

    Raises:
        ValueError: the module has no weight norm of that name.
    """
    as_module("remove_weight_norm", "module", module)
    v = module.__dict__.get(f"{name}_v")
    if v is None or not isinstance(getattr(type(module), name, None), property):
        raise ValueError(f"remove_weight_norm: {type(module).__name__} has no weight norm of {name!r}")
    with no_grad():
        value = kernels.duplicate(getattr(module, name).array)
    stop_computing(module, name)
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    module.register_parameter(name, Parameter(value, v.requires_grad))
    return module
