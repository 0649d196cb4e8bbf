"""Public functions, methods and layers, each with the code that names it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import retrograd as rg

MODULES = (
    "",
    "nn.functional",
    "nn.init",
    "linalg",
    "fft",
    "special",
    "sparse",
    "nn.utils",
    "nn.utils.rnn",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "autograd",
    "autograd.functional",
    "data",
    "data.transforms",
    "distributions",
    "rules",
    "lowbit",
    "random",
    "amp",
    "interop",
    "nn.grad",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "testing",
    "nn",
    "utils.data",
    "utils.checkpoint",
)
# they start servers, threads or processes, reach for the network, or end the process
LEFT_OUT = {
    "explain",
    "graph",
    "load",
    "save",
    "compile",
    "summary",
    "load_packed",
    "backward_source",
    "check_layer",
    "check_op",
    "Tensor.backward_source",
    "MNIST",
    "load_mnist",
    "read_images",
    "DistributedSampler",
    "Digits",
    "DataLoader",
}
# dunder methods besides public ones
OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "radd",
    "rsub",
    "rmul",
    "rtruediv",
    "rpow",
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "abs",
    "invert",
    "getitem",
    "setitem",
    "contains",
    "len",
    "float",
    "int",
    "bool",
    "index",
    "format",
    "iter",
)


@dataclass(frozen=True)
class Target:
    """``code`` names a callable of ``signature``; ``kind`` is "function", "method" (of T) or "layer" (then called)."""

    code: str
    kind: str
    signature: inspect.Signature
    called: str = ""  # the name that the function itself has, where ``code`` is another name of it

    @property
    def name(self) -> str:
        return self.code.rpartition(".")[2]

    @property
    def sets(self) -> bool:
        """Whether it changes a setting of the process, which other calls would notice."""
        return self.name.startswith(("set_", "manual_seed", "seed", "use_", "register_", "override", "enable"))


def targets() -> list[Target]:
    """All of them, in a fixed order."""
    found: dict[str, Target] = {}
    for target in (*_of_modules(), *_of_tensors()):
        if target.name not in LEFT_OUT:
            found.setdefault(target.code, target)
    return list(found.values())


def _of_modules() -> Iterator[Target]:
    for path in MODULES:
        module = importlib.import_module(f"retrograd.{path}".rstrip("."))
        names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for name in sorted(names):
            value = getattr(module, name, None)
            if not callable(value) or isinstance(value, type) and issubclass(value, Exception):
                continue
            if isinstance(value, type) and value in (rg.Tensor, rg.nn.Module, rg.nn.Parameter, np_dtype()):
                continue
            signature = _signature(value)
            if signature is not None:
                layer = isinstance(value, type) and issubclass(value, rg.nn.Module)
                called = getattr(value, "__name__", "")
                yield Target(
                    f"rg.{path}.{name}".replace("..", "."), "layer" if layer else "function", signature, called
                )


def _of_tensors() -> Iterator[Target]:
    operators = [f"__{name}__" for name in OPERATORS]
    for name in sorted([n for n in dir(rg.Tensor) if not n.startswith("_")] + operators):
        value = inspect.getattr_static(rg.Tensor, name, None)
        signature = _signature(value) if inspect.isfunction(value) else None
        if signature is not None:
            yield Target(f"Tensor.{name}", "method", signature, value.__name__)


def _signature(value: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def np_dtype() -> type:
    """The class of element types, which are callable too."""
    return type(rg.float32)
