"""``torch.backends.cuda``: flags without effect, since there is no GPU."""

from __future__ import annotations

from typing import Final


class _Matmul:
    """Flags of matrix products, which are computed in the dtype of their operands."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul: Final = _Matmul()


def is_built() -> bool:
    """False."""
    return False


def flash_sdp_enabled() -> bool:
    """Return False: there is only one attention algorithm."""
    return False


mem_efficient_sdp_enabled: Final = flash_sdp_enabled
cudnn_sdp_enabled: Final = flash_sdp_enabled


def math_sdp_enabled() -> bool:
    """True."""
    return True


def enable_flash_sdp(enabled: bool) -> None:
    """Do nothing: the flag selects an algorithm on a GPU."""


enable_mem_efficient_sdp: Final = enable_flash_sdp
enable_math_sdp: Final = enable_flash_sdp
enable_cudnn_sdp: Final = enable_flash_sdp
