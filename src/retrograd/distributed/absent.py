"""What is said when a part of torch.distributed is asked for that is not here."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..absent import PAGE, missing

_SHARDED = (
    "a model is whole in each process; write nn.parallel.DistributedDataParallel, and share out the optimizer's state "
    "by retrograd.distributed.optim.ZeroRedundancyOptimizer"
)
_STORE = (
    "MPI connects the processes, so there is no store; call init_process_group() without one, and send values by "
    "broadcast_object_list or all_gather_object"
)
_ONE_CALL = "call it once for each tensor"
_MODULES = {
    "fsdp": _SHARDED,
    "rpc": "processes do not call each other's functions; write send, recv and collectives",
    "tensor": _SHARDED,
    "device_mesh": "there are no meshes of devices; write new_group(ranks) for each row of processes",
    "pipelining": _SHARDED,
}
_NAMES = {
    **dict.fromkeys(("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "rendezvous"), _STORE),
    **dict.fromkeys(("DeviceMesh", "init_device_mesh"), _MODULES["device_mesh"]),
    **dict.fromkeys(("all_gather_coalesced", "all_reduce_coalesced"), _ONE_CALL),
    **dict.fromkeys(("launch", "run"), "start the script by retrograd launch -n 4 train.py"),
}


class _Refusing(ModuleType):
    """A module of torch.distributed that is not here: whatever is asked of it is an ImportError that says why."""

    def __init__(self, package: str, name: str) -> None:
        super().__init__(f"{package}.{name}", _MODULES[name])
        self._reason = f"{package} has no {name}: {_MODULES[name]}; see {PAGE}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__path__":  # for which "import" asks to find a part of the module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise ImportError(self._reason, name=self.__name__)


def attach(package: str) -> None:
    """Make the package say what is not in it."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in _NAMES:
            raise AttributeError(f"{package} has no {name}: {_NAMES[name]}; see {PAGE}", name=name)
        raise missing(package, name)

    module = sys.modules[package]
    module.__dict__["__getattr__"] = __getattr__
    for name in _MODULES:
        sys.modules[f"{package}.{name}"] = module.__dict__[name] = _Refusing(package, name)
