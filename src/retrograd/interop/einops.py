"""einops layers as retrograd modules, the counterpart of ``einops.layers.torch``; einops functions accept Tensors.

>>> from retrograd.interop.einops import Rearrange
"""

from __future__ import annotations

from typing import Any

from .. import nn
from ..engine.tensor import Tensor
from ..ops.product.einsum import einsum

try:
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin
except ImportError:
    raise ImportError("einops is not installed: pip install einops") from None

__all__ = ["EinMix", "Rearrange", "Reduce"]


class Rearrange(RearrangeMixin, nn.Module):  # type: ignore[misc]
    """``einops.rearrange`` with a fixed pattern: ``Rearrange("b c h w -> b (c h w)")``.

    Raises:
        einops.EinopsError: the pattern is invalid, or does not fit the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._apply_recipe(input)


class Reduce(ReduceMixin, nn.Module):  # type: ignore[misc]
    """``einops.reduce`` with a fixed pattern: ``Reduce("b c h w -> b c", "mean")``.

    Raises:
        einops.EinopsError: the pattern or the reduction is invalid, or does not fit the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, nn.Module):  # type: ignore[misc]
    """A linear layer over named axes, see einops: ``EinMix("b c -> b d", weight_shape="c d", c=3, d=5)``.

    Raises:
        einops.EinopsError: the pattern is invalid, or does not fit the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        y = einsum(self.einsum_pattern, self.before(input), self.weight)
        return self.after(y if self.bias is None else y + self.bias)

    def _create_parameters(self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float) -> None:
        self.weight: nn.Parameter = nn.Parameter(Tensor(*weight_shape)) if weight_shape else nn.Parameter(Tensor(0.0))
        nn.init.uniform_(self.weight, -weight_bound, weight_bound)
        self.register_parameter("bias", None if bias_shape is None else nn.Parameter(Tensor(*bias_shape)))
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bias_bound, bias_bound)

    def _create_rearrange_layers(self, before: Any, before_lengths: Any, after: Any, after_lengths: Any) -> None:
        layer: Any = Rearrange
        self.before: nn.Module = nn.Identity() if before is None else layer(before, **before_lengths)
        self.after: nn.Module = nn.Identity() if after is None else layer(after, **after_lengths)
