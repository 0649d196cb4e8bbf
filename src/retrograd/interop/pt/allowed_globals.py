"""Allow-list of globals in a .pt file, and the functions that rebuild tensors, arrays and containers.

Source: numpy/_core/src/multiarray/methods.c, array_reduce and array_setstate.

Source: torch/_utils.py and torch/_tensor.py.
"""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._files.state import brief, checked_bools
from ...engine.tensor import Size, Tensor
from ...nn.parameter import Parameter
from ...ops.device import device
from ..dtypes import widened
from .objects import BFLOAT16, DTYPES, UNTYPED, Name, Pending, Refused, Storage, checked_key

__all__ = ["ARRAYS", "CALLS", "REBUILD", "name_of", "rebuild_from_other", "rebuild_from_type"]


# ---- NumPy arrays and numbers in a pickle: only integers, floats and bools ------------------------------------------

_NUMBERS = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")


def _numpy_dtype(text: Any, align: Any = False, copy: Any = True) -> Pending:
    if type(text) is not str or not _NUMBERS.fullmatch(text):
        raise Refused(f"an array has the dtype {brief(text)}; integers, floats and bools are read")

    def build(state: Any) -> np.dtype[Any]:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if order not in ("<", ">", "|", "="):
            raise Refused("a dtype of an array has no byte order")
        return np.dtype(text).newbyteorder(order)

    return Pending(build)


def _numpy_array(data: Any, dtype: Any, shape: Any, fortran: bool) -> np.ndarray:
    if type(data) is str:  # from Python 2
        data = data.encode("latin1")
    sizes = isinstance(shape, tuple) and len(shape) <= 32 and all(type(n) is int and 0 <= n < 2**62 for n in shape)
    if not sizes or not isinstance(dtype, np.dtype) or not isinstance(data, (bytes, bytearray)):
        raise Refused("an array has no shape, dtype or bytes")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise Refused(f"an array of shape {shape} and dtype {dtype} has {len(data):,} bytes")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="))
    return checked_bools("an array", array)


def _numpy_reconstruct(kind: Any, shape: Any, code: Any) -> Pending:
    if type(kind) is not Name or kind.text != "numpy.ndarray":
        raise Refused("an array is of a custom class; save np.asarray(x)")

    def build(state: Any) -> np.ndarray:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise Refused("an array has no state")
        shape, dtype, fortran, data = state[-4:]
        return _numpy_array(data, dtype, shape, bool(fortran))

    return Pending(build)


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    return _numpy_array(data, dtype, (), False)[()]


def _numpy_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    return _numpy_array(data, dtype, shape, order == "F")


ARRAYS: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _numpy_dtype,
    **{f"numpy.{core}.multiarray._reconstruct": _numpy_reconstruct for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _numpy_scalar for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": _numpy_buffer for core in ("core", "_core")},
}


# ---- Tensors in a .pt file: PyTorch's rebuild functions, on our storages --------------------------------------------


def _storage(storage: Any) -> Storage:
    if type(storage) is not Storage:
        raise Refused(f"a tensor is made of {type(storage).__name__} instead of a storage")
    return storage


def _tensor(array: np.ndarray, requires_grad: Any) -> Tensor:
    if requires_grad is True and array.dtype.kind == "f":
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32)
        return Tensor(array, requires_grad=True)
    return Tensor(array)


def _rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    found = _storage(storage)
    if metadata:
        raise Refused("a tensor is a lazy conjugate or negative; save x.resolve_conj().resolve_neg()")
    if found.dtype == UNTYPED:
        raise Refused("a tensor has numbers without a dtype")
    return _tensor(found.array(offset, size, stride), requires_grad)


def _rebuild_tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    if metadata:
        raise Refused("a tensor is a lazy conjugate or negative; save x.resolve_conj().resolve_neg()")
    return _tensor(_storage(storage).array(offset, size, stride, _dtype_name(dtype)), requires_grad)


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, np.dtype):
        return dtype.name
    if type(dtype) is Name and dtype.text in ("torch.bfloat16", "torch.uint16", "torch.uint32", "torch.uint64"):
        return BFLOAT16 if dtype.text == "torch.bfloat16" else dtype.text.removeprefix("torch.")
    raise Refused("a tensor has numbers of a dtype that is not read")


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any = None, state: Any = None) -> Tensor:
    """Return a Parameter; or a Tensor for integers, which a Parameter cannot hold here."""
    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise Refused("a parameter is not made of a tensor")
    array = data.array
    if array.dtype.kind != "f":
        return _with_attributes(data, state)
    if array.dtype not in (np.float32, np.float64) or not array.flags.writeable:
        array = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    return _with_attributes(Parameter(array, requires_grad), state)


def _with_attributes(tensor: Tensor, state: Any) -> Tensor:
    """Return the tensor with the attributes that its user had set in PyTorch.

    Names that the class defines are left out, and so are names such as ``__array_interface__``, from which NumPy would
    take an address: a file must set neither.
    """
    if isinstance(state, dict):
        names = [name for name in state if type(name) is str and not name.startswith("__")]
        vars(tensor).update({name: state[name] for name in names if not hasattr(type(tensor), name)})
    return tensor


def rebuild_from_type(function: Any, kind: Any, args: Any, state: Any = None) -> Tensor:
    """Rebuild a tensor with Python attributes."""
    own = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
    if type(function) is not Name or type(kind) is not Name or kind.text not in own or type(args) is not tuple:
        raise Refused("a tensor is of a custom class; save x.as_subclass(torch.Tensor)")
    if function.text not in REBUILD:
        raise Refused(f"a tensor is made by {function.text}")
    return _with_attributes(REBUILD[function.text](*args), state)


def rebuild_from_other(data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    """Rebuild a tensor from a device without storages, stored as an array or a tensor."""
    array = data.array if isinstance(data, Tensor) else data
    if not isinstance(array, np.ndarray):
        raise Refused("a tensor of another device is not made of an array")
    name = _dtype_name(dtype)
    return _tensor(widened(array.astype(np.float32 if name == BFLOAT16 else np.dtype(name))), requires_grad)


REBUILD: dict[str, Callable[..., Tensor]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
}


# ---- Globals allowed in a .pt file, with their meaning; any other global is refused by name -------------------------

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

# classes that may be arguments of calls
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
    ("torch._utils._rebuild_qtensor", "a quantized tensor; save x.dequantize()"),
    ("torch.QU", "quantized numbers; save x.dequantize()"),
    ("torch.QI", "quantized numbers; save x.dequantize()"),
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
        raise Refused("an OrderedDict is not made of pairs")
    result: OrderedDict[Any, Any] = OrderedDict()
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Refused("an OrderedDict is not made of pairs")
        result[checked_key(pair[0])] = pair[1]
    return result


def _counter(counts: Any = None) -> Counter[Any]:
    result: Counter[Any] = Counter()
    if counts is not None and not isinstance(counts, dict):
        raise Refused("a Counter is not made of a dict")
    dict.update(result, counts or {})
    return result


def _defaultdict(factory: Any = None) -> defaultdict[Any, Any]:
    if factory is None:
        return defaultdict(None)
    if type(factory) is not Name or factory.text not in _FACTORIES:
        raise Refused("a defaultdict has a custom factory; save dict(x)")
    return defaultdict(_FACTORIES[factory.text])


def _sequence(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def made(items: Any = ()) -> Any:
        if not isinstance(items, (list, tuple)):
            raise Refused("a set or a tuple is not made of a list")
        return kind(items)

    return made


def _bytes(text: Any, encoding: Any) -> bytes:
    """Return the bytes that protocol 2 encodes as text, one letter per byte."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Refused("bytes are not made of latin1 text")
    return text.encode("latin1")


def _bytearray(data: Any = b"", encoding: Any = "latin-1") -> bytearray:
    return bytearray(data if type(data) is bytes else _bytes(data, encoding))


def _complex(real: Any, imaginary: Any) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise Refused("a complex number is not made of floats")
    return complex(real, imaginary)


def _namespace() -> Pending:
    def build(state: Any) -> Namespace:
        result = Namespace()
        if not isinstance(state, dict) or not all(type(key) is str for key in state):
            raise Refused("an argparse.Namespace has no dict of names")
        vars(result).update(state)
        return result

    return Pending(build)


def _size(items: Any = ()) -> Size:
    if not isinstance(items, (tuple, list)) or not all(type(n) is int for n in items):
        raise Refused("a torch.Size has entries other than integers")
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
