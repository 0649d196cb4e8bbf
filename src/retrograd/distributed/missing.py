"""Errors for the parts of torch.distributed that this package does not support."""

from __future__ import annotations

import sys
from typing import Any

from ..torch_api.missing import PAGE, find_module

_SHARDED = (
    "a model is whole in each process; write nn.parallel.DistributedDataParallel, and partition the optimizer's state "
    "with retrograd.distributed.optim.ZeroRedundancyOptimizer"
)
_STORE = (
    "MPI connects the processes, so there is no store; call init_process_group() without one, and send values by "
    "broadcast_object_list or all_gather_object"
)
_ONE_CALL = "call it once for each tensor"
_MODULES = {
    "fsdp": _SHARDED,
    "rpc": "processes do not call each other's functions; use send, recv and collectives",
    "tensor": _SHARDED,
    "device_mesh": "there are no meshes of devices; call new_group(ranks) for each row of processes",
    "pipelining": _SHARDED,
}
_NAMES = {
    **dict.fromkeys(("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "rendezvous"), _STORE),
    **dict.fromkeys(("DeviceMesh", "init_device_mesh"), _MODULES["device_mesh"]),
    **dict.fromkeys(("all_gather_coalesced", "all_reduce_coalesced"), _ONE_CALL),
    **dict.fromkeys(("launch", "run"), "start the script with retrograd launch -n 4 train.py"),
}


def _reason(package: str, name: str) -> str:
    return f"{package} has no {name}: {_MODULES.get(name) or _NAMES[name]}; see {PAGE}"


def attach(package: str) -> None:
    """Let an error explain each missing name and module of the package."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in _NAMES or name in _MODULES:
            raise AttributeError(_reason(package, name), name=name)
        return find_module(package, name)

    sys.modules[package].__dict__["__getattr__"] = __getattr__
