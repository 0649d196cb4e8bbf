"""Mixed precision as in ``torch.amp``, without effect: everything is computed in the dtype of its operands.

For an unavailable device, autocast does nothing and warns, as in PyTorch. On the CPU it would compute in another dtype,
so it raises.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..ops.device import device
from ..ops.dtypes.dtype import DTypeLike

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_HALF = "float16", "bfloat16"


def is_autocast_available(device_type: str) -> bool:
    """False."""
    device(device_type)
    return False


class autocast:  # noqa: N801  PyTorch's name
    """A context manager and decorator without effect.

    device_type: for "cuda" or another accelerator, a warning says that there is none.
    dtype, cache_enabled: without effect.

    Raises:
        RuntimeError: ``device_type`` is "cpu", where it would compute in bfloat16 or float16.
    """

    def __init__(
        self, device_type: str, dtype: DTypeLike = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device: str = device(device_type).type
        self.fast_dtype = dtype
        if enabled and self.device != "cpu":
            _warn("autocast", self.device, "everything is computed in the type of its operands")
        elif enabled and (dtype is None or str(dtype).rpartition(".")[2] in _HALF):
            raise RuntimeError(
                f"autocast: on the CPU it would compute in {dtype or 'bfloat16'}, and there are only float32 and "
                "float64; leave it out, or pass enabled=False"
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class GradScaler:
    """Scales nothing, since float32 gradients do not vanish as float16 gradients do. ``step`` calls the optimizer.

    device, init_scale, growth_factor, backoff_factor, growth_interval: without effect.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and str(device) != "cpu":
            _warn("GradScaler", str(device), "losses are not scaled")

    def scale(self, outputs: Any) -> Any:
        """Return ``outputs`` unchanged."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Do nothing: gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Return optimizer.step(*args, **kwargs)."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Do nothing: there is no scale to update."""

    def get_scale(self) -> float:
        """1.0"""
        return 1.0

    def is_enabled(self) -> bool:
        """False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dict, like a disabled PyTorch scaler."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing: there is no state to load."""


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate Function.forward: return ``fwd`` unchanged."""
    return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs) if fwd is None else fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate Function.backward: return ``bwd`` unchanged."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


def _warn(name: str, kind: str, meaning: str) -> None:
    warnings.warn(f"{name}: there is no device {kind!r}, so it does nothing; {meaning}", UserWarning, stacklevel=3)
