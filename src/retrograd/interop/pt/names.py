"""The meaning of the globals in a .pt file. A global that is not listed here is refused by name."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._files.state import brief
from ...engine.tensor import Size
from ...ops.memory.device import device
from .arrays import ARRAYS
from .refusal import Refused
from .storage import DTYPES
from .tensors import REBUILD, rebuild_from_other, rebuild_from_type
from .values import Name, Pending, checked_key

__all__ = ["CALLS", "name_of"]

_DTYPES = {
    f"torch.{name}": np.dtype(name)
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
_SYNONYMS = {
    "torch.double": "float64",
    "torch.float": "float32",
    "torch.half": "float16",
    "torch.long": "int64",
    "torch.int": "int32",
    "torch.short": "int16",
}
_VALUES: dict[str, Any] = {**_DTYPES, **{name: np.dtype(dtype) for name, dtype in _SYNONYMS.items()}}

# classes that stand for themselves in the arguments of calls
_CLASSES = {
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "numpy.ndarray",
    "builtins.int",
    "builtins.float",
    "builtins.str",
    "torch.bfloat16",
    "torch.uint16",
    "torch.uint32",
    "torch.uint64",
}
_FACTORIES = {
    "builtins.list": list,
    "builtins.dict": dict,
    "builtins.set": set,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.str": str,
}

_WHY = (
    ("torch.Complex", "complex numbers; save torch.view_as_real(x)"),
    ("torch.complex", "complex numbers; save torch.view_as_real(x)"),
    ("torch.float8", "numbers of 8 bits; save x.float()"),
    ("torch.Float8", "numbers of 8 bits; save x.float()"),
    ("torch._utils._rebuild_qtensor", "a quantised tensor; save x.dequantize()"),
    ("torch.QU", "quantised numbers; save x.dequantize()"),
    ("torch.QI", "quantised numbers; save x.dequantize()"),
    ("torch._utils._rebuild_sparse", "a sparse tensor; save x.to_dense()"),
    ("torch._utils._rebuild_nested", "a nested tensor; save a list of tensors"),
    ("torch._utils._rebuild_meta", "a tensor without numbers (device meta)"),
    ("torch.nn.modules.", "a whole model; save model.state_dict()"),
    ("torch.optim.", "a whole optimizer or scheduler; save its state_dict()"),
)


def name_of(module: str, name: str) -> Any:
    """Return the dtype that a global names, or a Name for any other global in the tables.

    Raises:
        Refused: the global is not in the tables.
    """
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    text = f"{module}.{name}"
    if text in _VALUES:
        return _VALUES[text]
    if text in CALLS or text in DTYPES or text in _CLASSES:
        return Name(text)
    why = next((why for start, why in _WHY if text.startswith(start)), None)
    if why is None:
        raise Refused(
            f"it holds {brief(text)[1:-1]}; restoring it would run code. Only tensors, numbers, strings, "
            f"lists, tuples, sets and dicts are read: in PyTorch, load the file and save these alone, such "
            f"as torch.save(model.state_dict(), path)"
        )
    raise Refused(f"it holds {brief(text)[1:-1]}, {why}")


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    if not isinstance(pairs, (list, tuple)):
        raise Refused("an OrderedDict is made of no pairs")
    result: OrderedDict[Any, Any] = OrderedDict()
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Refused("an OrderedDict is made of no pairs")
        result[checked_key(pair[0])] = pair[1]
    return result


def _counter(counts: Any = None) -> Counter[Any]:
    result: Counter[Any] = Counter()
    if counts is not None and not isinstance(counts, dict):
        raise Refused("a Counter is made of no dict")
    dict.update(result, counts or {})
    return result


def _defaultdict(factory: Any = None) -> defaultdict[Any, Any]:
    if factory is None:
        return defaultdict(None)
    if type(factory) is not Name or factory.text not in _FACTORIES:
        raise Refused("a defaultdict makes its values by a function; save dict(x)")
    return defaultdict(_FACTORIES[factory.text])


def _sequence(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def made(items: Any = ()) -> Any:
        if not isinstance(items, (list, tuple)):
            raise Refused("a set or a tuple is made of no list")
        return kind(items)

    return made


def _bytes(text: Any, encoding: Any) -> bytes:
    """bytes in protocol 2: text whose letters are the bytes."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Refused("bytes are made of something else than text in latin1")
    return text.encode("latin1")


def _bytearray(data: Any = b"", encoding: Any = "latin-1") -> bytearray:
    return bytearray(data if type(data) is bytes else _bytes(data, encoding))


def _complex(real: Any, imaginary: Any) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise Refused("a complex number is made of no floats")
    return complex(real, imaginary)


def _namespace() -> Pending:
    def build(state: Any) -> Namespace:
        result = Namespace()
        if not isinstance(state, dict) or not all(type(key) is str for key in state):
            raise Refused("an argparse.Namespace holds no dict of names")
        vars(result).update(state)
        return result

    return Pending(build)


def _size(items: Any = ()) -> Size:
    if not isinstance(items, (tuple, list)) or not all(type(n) is int for n in items):
        raise Refused("a torch.Size holds no integers")
    return Size(items)


def _device(kind: Any, index: Any = None) -> device:
    try:
        return device(kind, index)
    except (RuntimeError, TypeError) as error:
        raise Refused(str(error)) from None


CALLS: dict[str, Callable[..., Any]] = {
    **REBUILD,
    **ARRAYS,
    "torch._utils._rebuild_device_tensor_from_numpy": rebuild_from_other,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": rebuild_from_other,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "collections.defaultdict": _defaultdict,
    "argparse.Namespace": _namespace,
    "builtins.dict": _ordered,
    "builtins.list": _sequence(list),
    "builtins.set": _sequence(lambda items: set(map(checked_key, items))),
    "builtins.frozenset": _sequence(lambda items: frozenset(map(checked_key, items))),
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": _bytes,
}
