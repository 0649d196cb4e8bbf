"""Registry of the supported operators, by domain and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from ..node import DOMAIN

Compute = Callable[..., Any]

_MODULES = (
    "casts",
    "control_flow",
    "convolution",
    "fourier",
    "indexing",
    "interpolation",
    "normalization",
    "pointwise",
    "pooling",
    "products",
    "random",
    "recurrent",
    "reductions",
    "shapes",
    "training",
)


@dataclass(frozen=True)
class Operator:
    """An operator: compute(node, *inputs) returns the output, or a tuple of several.

    constants: positions of inputs that are not trained, such as running statistics. stateful: compute also receives the
    module, as ``module=``, to read its mode. branches: it also receives ``run=``, which computes a graph attribute:
    run(name, *inputs) returns its outputs. differentiates: one of these graphs is "y", the steps before the node that
    compute its attribute y from xs and zs. typed: it receives float16 and similar types unchanged; others get float32.
    """

    compute: Compute
    constants: frozenset[int] = frozenset()
    stateful: bool = False
    branches: bool = False
    typed: bool = False
    differentiates: bool = False


_operators: dict[tuple[str, str], Operator] = {}


def operator(
    *names: str,
    domain: str = DOMAIN,
    constants: tuple[int, ...] = (),
    stateful: bool = False,
    branches: bool = False,
    typed: bool = False,
    differentiates: bool = False,
) -> Callable[[Compute], Compute]:
    """Register a function under the names of operators."""

    def register(compute: Compute) -> Compute:
        for name in names:
            _operators[domain, name] = Operator(
                compute, frozenset(constants), stateful, branches, typed, differentiates
            )
        return compute

    return register


@lru_cache(maxsize=1)
def operators() -> dict[tuple[str, str], Operator]:
    """Return all registered operators."""
    for module in _MODULES:
        import_module(f"{__package__}.{module}")
    return _operators
