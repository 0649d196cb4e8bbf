"""Export to ONNX, which is not here: ``torch.onnx`` for scripts that import it and may not call it."""

from __future__ import annotations

from typing import Any, NoReturn

from .absent import attach_to_module

__all__ = ["export"]

attach_to_module(__name__)


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """There is no export to ONNX.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "onnx.export: there is no export to ONNX; save the weights with retrograd.save(model.state_dict(), path), load "
        "them into the same network in PyTorch, and export it there"
    )
