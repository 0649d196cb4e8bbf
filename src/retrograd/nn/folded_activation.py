"""The activation folded into a layer: ``activation="relu"`` (Gluon, SINGA), ``act_fn`` (numpy-ml)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.tensor import Tensor
from . import functional as F  # noqa: N812  PyTorch's name

__all__ = ["Activation", "folded"]

Activation = str | Callable[[Tensor], Tensor] | None

# PyTorch's names, and MXNet's where they differ
_NAMED: dict[str, Callable[..., Tensor]] = {
    **{name: getattr(F, name) for name in ("elu", "gelu", "hardsigmoid", "leaky_relu", "mish", "relu", "selu")},
    **{name: getattr(F, name) for name in ("sigmoid", "silu", "softplus", "softsign", "tanh")},
    "softrelu": F.softplus,
    "log_sigmoid": F.logsigmoid,
}


def folded(name: str, activation: Any) -> Callable[[Tensor], Tensor]:
    """The function that ``activation`` is or names; ``name`` is the layer's, for messages.

    Raises:
        ValueError: activation is not a known name.
        TypeError: activation is neither a string nor callable.
    """
    if isinstance(activation, str):
        function = _NAMED.get(activation.lower())
        if function is None:
            raise ValueError(
                f"{name}: activation={activation!r} must be a function, or one of {', '.join(sorted(_NAMED))}"
            )
        return function
    if not callable(activation):
        raise TypeError(f"{name}: activation={activation!r} must be a name, a function of a Tensor, or None")
    return activation
