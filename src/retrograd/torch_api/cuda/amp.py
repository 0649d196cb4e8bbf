"""``torch.cuda.amp``, PyTorch's older path of mixed precision; see ``retrograd.amp``."""

from __future__ import annotations

from typing import Any

from ...ops.dtypes.dtype import DTypeLike
from .. import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):  # noqa: N801  PyTorch's name
    """``amp.autocast("cuda")``, which does nothing."""

    def __init__(self, enabled: bool = True, dtype: DTypeLike = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``amp.GradScaler("cuda")``, which does nothing."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """``amp.custom_fwd(device_type="cuda")``"""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """``amp.custom_bwd(device_type="cuda")``"""
    return amp.custom_bwd(bwd, device_type="cuda")
