"""Mixed precision as in ``torch.amp``, where everything is computed in the dtype of its operands.

For an unavailable device, autocast and GradScaler do nothing and warn, as in PyTorch. On the CPU, autocast would
compute in another dtype, so it raises; GradScaler scales losses.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.device import device
from ..ops.dtypes.dtype import DTypeLike
from ..ops.pointwise.comparison import isfinite

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
    """Multiply losses by a scale, and leave out steps whose gradients are not finite.

    For an unavailable device, it does nothing and warns, as in PyTorch. For "cpu", ``step`` divides the gradients by
    the scale first. ``update`` sets the next scale: growth_factor times it after growth_interval steps in a row with
    finite gradients, backoff_factor times it after one without. float32 gradients seldom need it.

    Raises:
        ValueError: growth_factor is not above 1, or backoff_factor not below 1.
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
        on_cpu = str(device).partition(":")[0] == "cpu"
        if enabled and not on_cpu:
            _warn("GradScaler", str(device), "losses are not scaled")
        if not growth_factor > 1:
            raise ValueError(f"GradScaler: growth_factor={growth_factor} must be above 1")
        if not backoff_factor < 1:
            raise ValueError(f"GradScaler: backoff_factor={backoff_factor} must be below 1")
        self._enabled = bool(enabled) and on_cpu
        self._state: dict[str, Any] = {
            "scale": float(init_scale),
            "growth_factor": growth_factor,
            "backoff_factor": backoff_factor,
            "growth_interval": growth_interval,
            "_growth_tracker": 0,
        }
        self._finite: dict[int, bool] = {}  # by the id of an optimizer: whether its unscaled gradients are
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """Return ``outputs``, a Tensor or several, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._state["scale"]
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(each) for each in outputs])
        raise TypeError(
            f"GradScaler.scale: outputs is {kind_name(outputs)}, needs a Tensor, or a list or tuple of them"
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, for example before they are clipped.

        Raises:
            RuntimeError: this was done since the last ``update``.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._finite:
            raise RuntimeError("GradScaler.unscale_: the gradients are unscaled already; call update() after each step")
        found = True
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        found &= bool(isfinite(parameter.grad).all().item())
                        parameter.grad.mul_(1.0 / self._state["scale"])
        self._finite[id(optimizer)] = found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Return optimizer.step(*args, **kwargs); without a step, None if a gradient is NaN or infinite.

        Raises:
            RuntimeError: there was a step since the last ``update``, or a closure is given, which would compute other
                gradients.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if args or "closure" in kwargs:
            raise RuntimeError("GradScaler.step: a closure is not supported; call backward() before")
        if id(optimizer) in self._stepped:
            raise RuntimeError("GradScaler.step: there was a step since the last update(); call update() after each")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(**kwargs) if self._finite[id(optimizer)] else None

    def update(self, new_scale: Any = None) -> None:
        """Set the next scale: ``new_scale``, or the one that follows from the gradients since the last call.

        Raises:
            RuntimeError: there was no step.
        """
        if not self._enabled:
            return
        state = self._state
        if new_scale is not None:
            state["scale"] = float(new_scale)
        elif not self._finite:
            raise RuntimeError("GradScaler.update: call step() or unscale_() before")
        elif not all(self._finite.values()):
            state["scale"] *= state["backoff_factor"]
            state["_growth_tracker"] = 0
        else:
            state["_growth_tracker"] += 1
            if state["_growth_tracker"] == state["growth_interval"]:
                if np.isfinite(np.float32(state["scale"] * state["growth_factor"])):
                    state["scale"] *= state["growth_factor"]
                state["_growth_tracker"] = 0
        self._finite.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        """Return the scale; 1.0 if this is not enabled."""
        return float(self._state["scale"]) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Return whether losses are scaled: for the device "cpu" only."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, the options and the number of steps in a row; an empty dict if this is not enabled."""
        return {**self._state} if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a ``state_dict``.

        Raises:
            RuntimeError: it is that of a scaler that was not enabled.
        """
        if not self._enabled:
            return
        if state_dict.keys() != self._state.keys():
            raise RuntimeError(
                f"GradScaler.load_state_dict: the keys are {[*state_dict]}, expected {[*self._state]}; a scaler that "
                "is not enabled has none"
            )
        self._state = {**state_dict}


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate Function.forward: return ``fwd`` unchanged."""
    return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs) if fwd is None else fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate Function.backward: return ``bwd`` unchanged."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


def _warn(name: str, kind: str, meaning: str) -> None:
    warnings.warn(f"{name}: there is no device {kind!r}, so it does nothing; {meaning}", UserWarning, stacklevel=3)
