"""DataParallel on one device; DistributedDataParallel is in retrograd.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.arguments import kind_name
from ..torch_api.missing import find_module
from .module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Calls ``module``; keys of the state_dict start with "module.", as in PyTorch.

    There is one device, the CPU, so nothing is distributed: device_ids, output_device and dim must be None, empty or 0.

    Raises:
        RuntimeError: device_ids or output_device names a GPU.
        TypeError: module is not a Module.
    """

    dim: int

    module: Module

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"DataParallel: module must be a Module, got {kind_name(module)}")
        if device_ids or output_device is not None:
            raise RuntimeError(
                f"DataParallel: device_ids={device_ids!r}, output_device={output_device!r}: there is one device, the "
                "CPU; leave both out"
            )
        self.module, self.dim = module, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":  # imported late, because it depends on this package
        from ..distributed import DistributedDataParallel

        return DistributedDataParallel
    return find_module(__name__, name)
