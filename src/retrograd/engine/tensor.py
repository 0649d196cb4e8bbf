"""Tensor: an array with the graph that produced it.

`retrograd.ops` attaches the operators and mathematical methods; `methods.py` attaches the methods that run or observe a
backward sweep.
"""

from __future__ import annotations

import copy
import weakref
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..arrays import number, shared, to_host, zeros
from ..kernel_set import device_of
from . import arithmetic
from .aliasing import mark_detached, unlink_views
from .arguments import as_flag, kind_name
from .dtype import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    OWN,
    Attached,
    DTypeLike,
    as_allowed_array,
    as_own,
    default_dtype,
    zeros_of_extents,
)
from .grad_mode import INFERENCE, thread
from .operator import interpreted, interpreters, operator
from .printing import format_elements

# ---- The shape of a tensor ------------------------------------------------------------------------------------------


class Size(tuple[int, ...]):
    """A shape: a tuple of extents with `numel`; slices of it are Sizes, too."""

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return prod(self)

    def __repr__(self) -> str:
        return f"retrograd.Size({[*self]})"

    def __format__(self, spec: str) -> str:
        """In messages, a shape reads as a tuple."""
        return format(tuple.__repr__(self), spec)

    def __getitem__(self, place: Any) -> Any:
        found = tuple.__getitem__(self, place)
        return Size(found) if type(place) is slice else found

    def __add__(self, other: Any) -> Any:
        found = tuple.__add__(self, other)
        return found if found is NotImplemented else Size(found)


# ---- Conversions of a tensor to Python and NumPy --------------------------------------------------------------------


class Elements(Attached):
    """Base of Tensor with the conversions; Tensor provides the array and `requires_grad`."""

    __slots__ = ()

    array: np.ndarray
    _requires_grad: bool

    @property
    def shape(self) -> Size:
        return Size(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def dim(self) -> int:
        """Return the number of axes."""
        return self.array.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the extent of one axis.

        Raises:
            IndexError: `dim` is out of range.
        """
        shape = self.array.shape
        if dim is None:
            return Size(shape)
        try:
            inside = -len(shape) <= dim < len(shape)
        except TypeError:
            raise TypeError(f"size: dim={dim!r} must be an int, not {type(dim).__name__}") from None
        if not inside:
            raise IndexError(f"size: dim is {dim}, expected {-len(shape)} to {len(shape) - 1} for shape {shape}")
        return shape[dim]

    def numel(self) -> int:
        """Return the number of elements."""
        return self.array.size

    @operator(dtypes="bihf")
    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises:
            RuntimeError: the tensor does not have exactly one element.
        """
        if interpreters and (seen := interpreted(Elements.item, locals())) is not None:
            return seen
        if self.array.size != 1:
            raise RuntimeError(
                f"a tensor of shape {self.array.shape} has {self.array.size} elements, expected exactly 1"
            )
        return number(self.array, "the element of a tensor")

    @operator(dtypes="bihf")
    def tolist(self) -> Any:
        """Return the elements as nested Python lists (a number for a tensor without axes)."""
        if interpreters and (seen := interpreted(Elements.tolist, locals())) is not None:
            return seen
        return to_host(self.array, "the elements of a tensor").tolist()

    @operator(dtypes="bihf")
    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Return the array, which shares the tensor's memory.

        Raises:
            RuntimeError: the tensor requires a gradient, which an array cannot carry, and ``force`` is not True.
        """
        if interpreters and (seen := interpreted(Elements.numpy, locals())) is not None:
            return seen
        if force is not False:
            force = as_flag("numpy", "force", force)
        if self._requires_grad and not force:
            raise RuntimeError(
                "numpy: the tensor requires grad, and an array would silently leave the graph; "
                "use tensor.detach().numpy(), or tensor.array"
            )
        return shared(self.array, "an array of NumPy")

    @operator(dtypes="bihf")
    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> np.ndarray:
        if interpreters and (seen := interpreted(Elements.__array__, locals())) is not None:
            return seen
        if self._requires_grad:
            raise RuntimeError(
                "numpy cannot take a tensor that requires grad: the result would silently leave the graph; "
                "use tensor.detach() first"
            )
        if copy:
            return to_host(self.array, "an array of NumPy").astype(self.array.dtype if dtype is None else dtype)
        if dtype is None or self.array.dtype == dtype:
            return shared(self.array, "an array of NumPy")
        if copy is False:
            raise ValueError(f"__array__: copy=False, but {self.array.dtype} cannot become {np.dtype(dtype)} in place")
        return to_host(self.array, "an array of NumPy").astype(dtype)

    def __len__(self) -> int:
        if not self.array.ndim:
            raise TypeError("len() of a tensor without axes")
        return self.array.shape[0]

    @operator(dtypes="bihf")
    def __float__(self) -> float:
        if interpreters and (seen := interpreted(Elements.__float__, locals())) is not None:
            return seen
        return float(self.item())

    @operator(dtypes="bihf")
    def __int__(self) -> int:
        if interpreters and (seen := interpreted(Elements.__int__, locals())) is not None:
            return seen
        return int(self.item())

    @operator(dtypes="bihf")
    def __bool__(self) -> bool:
        if interpreters and (seen := interpreted(Elements.__bool__, locals())) is not None:
            return seen
        if self.array.size != 1:
            raise RuntimeError(
                f"bool() of a tensor of shape {self.array.shape} is ambiguous; use (tensor.array != 0).any() or .all()"
            )
        return bool(number(self.array, "whether a tensor is true"))

    @operator(dtypes="bihf")
    def __index__(self) -> int:
        if interpreters and (seen := interpreted(Elements.__index__, locals())) is not None:
            return seen
        if self.array.dtype is not INT64 or self.array.size != 1:
            raise TypeError(
                f"only an int64 tensor with one element can be an index, got {self.array.dtype} of shape "
                f"{self.array.shape}"
            )
        return int(number(self.array, "a tensor as an index"))

    def __format__(self, spec: str) -> str:
        if spec and self.array.size == 1:
            return format(number(self.array, "a tensor as text"), spec)
        if spec:
            raise TypeError(
                f"format {spec!r} needs a tensor with one element, got shape {self.array.shape}; "
                "use tensor.item() or format the array"
            )
        return str(self)


# ---- Tensor: an array with the graph that produced it ---------------------------------------------------------------

if TYPE_CHECKING:
    from .hooks import HookDict
    from .node import Node

    # (node that made the tensor, which of its outputs, shape, dtype)
    Edge = tuple[Node, int, tuple[int, ...], np.dtype[Any]]

GRADIENT_REQUESTS = ("add", "write", "null")
_ndarray, _new = np.ndarray, object.__new__


class Tensor(Elements):
    """An array of float32, float64, int64 or bool with the graph that produced it.

    Args:
        data: an ndarray of an allowed dtype is kept, with its dtype and without a copy, and so is the array of a
            Tensor that requires no gradient. Sequences of numbers become float32, as in PyTorch (or the type set by
            set_default_dtype); retrograd.tensor keeps ints and bools. Bare ints, or a Size, are extents:
            Tensor(2, 3) contains zeros; tensor(2) contains the number 2.
        requires_grad: whether to compute gradients for this tensor; only for floating-point tensors.
        dtype: convert to this dtype first. device: the CPU.

    Raises:
        TypeError: a dtype that is not allowed, or data that is not an array of numbers.
        RuntimeError: `requires_grad=True` for integers or bools.

    `array` is the underlying NumPy array, `data` a Tensor that shares its memory and has no history, `grad` the
    accumulated gradient: a Tensor of the same shape and dtype, or None.

    Further attributes can be set, such as ``weight.org = weight.data.clone()``. As in PyTorch, they belong to this one
    object. Changes in place, pickling, copy.copy and retrograd.save keep them; a new tensor made from this one (detach,
    clone, data, a conversion, a state_dict) does not have them. copy.deepcopy copies those of a Tensor; the copy of a
    Parameter starts without any.
    """

    # The slots of the second line are unset until they are needed: most tensors are short-lived. `_view` and `_views`
    # may be unset, too, which counts as None but is found out slowly. `__dict__` contains only attributes that users
    # set; Python makes it when the first one is set.
    __slots__ = (
        *("__dict__", "__weakref__", "_edge", "_grad", "_grad_req", "_requires_grad", "_view", "_views", "array"),
        *("_hooks", "_post_hooks"),
    )
    __hash__ = object.__hash__

    array: np.ndarray
    _grad: Tensor | None
    _edge: Edge | None
    _grad_req: str
    _hooks: HookDict  # the hooks of a leaf, see hooks.py
    _post_hooks: HookDict
    _view: Any  # the relation of a view to its base, see aliasing.py
    _views: Any  # its views, see aliasing.py

    def __init__(
        self,
        data: Any = (),
        requires_grad: bool = False,
        dtype: DTypeLike | int = None,
        *extents: int,
        device: Any = None,
    ) -> None:
        if type(data) is not _ndarray or dtype is not None or extents or OWN.get(data.dtype) is not data.dtype:
            if type(data) is Size and dtype is None:
                data = zeros(data, default_dtype())
            elif type(data) is int and requires_grad is not True and (dtype is None or type(dtype) is int):
                data, requires_grad = zeros_of_extents(data, requires_grad, dtype, *extents), False
            elif extents:
                raise TypeError(f"Tensor: takes data, requires_grad and dtype, got {extents[0]!r} as well")
            else:
                if dtype is None and isinstance(data, list | tuple | range):
                    dtype = default_dtype()
                data = as_allowed_array(data, dtype)
        if device is not None:
            from ..ops.device import array_on_device

            data = array_on_device("Tensor", data, device)
        self.array = data
        self._requires_grad = False
        self._grad = None
        self._edge = self._view = self._views = None
        self._grad_req = INFERENCE if thread.mode.inference else "add"
        if requires_grad is not False:
            self.requires_grad = requires_grad

    # ---- The tensor's place in the graph -------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """A tensor that shares the memory of this one and has no history: changing one changes both.

        Setting it makes this tensor share the memory of another one; its history and `grad` stay. Earlier calls keep
        the old values for their backward. Views keep the old memory: they still share it with each other, but no longer
        with this tensor.

        Setting it raises:
            TypeError: not a Tensor, or one of another dtype.
            ValueError: one of another shape, for a result of an operation. A leaf accepts any shape: its old `grad`
                stays, and the next backward or optimizer step raises an error that asks to set it to None. So does
                the backward of an earlier forward, which still needs the old shape.
        """
        return Tensor.detach(self)  # an uninitialized parameter has its own detach, and no values

    @data.setter
    def data(self, value: Tensor) -> None:
        old = self.array
        if not isinstance(value, Tensor):
            raise TypeError(f"data: expected a Tensor, got {kind_name(value)}; wrap it: Tensor(array)")
        if value.array.dtype != old.dtype:
            raise TypeError(
                f"data: expected {old.dtype} like the tensor itself, got {value.array.dtype}; "
                "convert it: value.to(tensor.dtype)"
            )
        if value.array.shape != old.shape and self._edge is not None:
            raise ValueError(
                f"data: expected shape {old.shape} like the tensor itself, got {value.array.shape}; its backward "
                "needs the old shape: only a leaf can get another one"
            )
        if value.array is not old:
            unlink_views(self, value.array)
            self.array = value.array

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to this tensor.

        Setting it raises:
            TypeError: the value is neither True nor False.
            RuntimeError: True for a dtype that is not floating-point or for a tensor made in inference_mode (inside
                inference_mode, the tensor becomes an ordinary one), or False for a result of an operation.
        """
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        value = as_flag("Tensor", "requires_grad", value)
        if value and self.array.dtype not in (FLOAT32, FLOAT64):
            raise RuntimeError(
                "requires_grad: only float32 and float64 tensors can require a gradient, this one is "
                f"{self.array.dtype}"
            )
        if not value and self._edge is not None:
            raise RuntimeError("requires_grad: only a leaf can be set to False; use tensor.detach() instead")
        if value and self._grad_req is INFERENCE:
            if not thread.mode.inference:
                raise RuntimeError(
                    "requires_grad: a tensor made in inference_mode cannot require a gradient; use tensor.clone()"
                )
            self._grad_req = "add"
        self._requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward sweeps have accumulated, or None; deleting it sets it to None.

        Setting it raises:
            TypeError, ValueError: not a Tensor or None, or another shape or dtype than this tensor's.
        """
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: expected a Tensor or None, got {kind_name(value)}; wrap it: Tensor(array)")
            if value is self:
                raise ValueError("grad: a tensor cannot be its own gradient; assign a copy")
            if value.array.shape != self.array.shape or value.array.dtype != self.array.dtype:
                raise ValueError(
                    f"grad: expected {self.array.dtype} of shape {self.array.shape} like the tensor itself, "
                    f"got {value.array.dtype} of shape {value.array.shape}"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def grad_req(self) -> str:
        """How a backward sweep stores this leaf's gradient: "add" it to `grad`, "write" it there, or "null".

        "null": the leaf is treated as if it did not require a gradient; `grad` does not change.

        Setting it raises:
            ValueError: any other value.
            RuntimeError: the tensor was made in inference_mode.
        """
        return self._grad_req

    @grad_req.setter
    def grad_req(self, value: str) -> None:
        if value not in GRADIENT_REQUESTS:
            known = {"AddTo": "add", "WriteTo": "write", "WriteInplace": "write", "NullOp": "null"}
            same = known.get(str(value).removeprefix("k"))  # MXNet's names in C++
            hint = f'; {value} is "{same}" here' if same else ""
            raise ValueError(f'grad_req: got {value!r}, expected "add", "write" or "null"{hint}')
        if self._grad_req is INFERENCE:
            raise RuntimeError("grad_req: a tensor made in inference_mode takes part in no graph; use tensor.clone()")
        self._grad_req = value

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made this tensor; None for a leaf."""
        edge = self._edge
        return None if edge is None else edge[0]

    @property
    def is_leaf(self) -> bool:
        """True unless the tensor is the result of a recorded operation."""
        return self._edge is None

    @property
    def retains_grad(self) -> bool:
        """True if sweeps store the gradient of this result of an operation; see `retain_grad`."""
        edge = self._edge
        return edge is not None and any(keeper() is self for _, keeper in edge[0].retained)

    def is_inference(self) -> bool:
        """Return True if the tensor was made in inference_mode."""
        return self._grad_req is INFERENCE

    def detach(self) -> Tensor:
        """Return a tensor that shares the array and has no history."""
        result = wrap(self.array)
        result._grad_req = INFERENCE if self._grad_req is INFERENCE else "add"
        return result

    def detach_(self: Self) -> Self:
        """Discard the tensor's history: it becomes a leaf that requires no gradient.

        Raises:
            RuntimeError: the tensor is a view of another one, which would keep the history.
        """
        if type(getattr(self, "_view", None)) is tuple:
            raise RuntimeError("detach_: the tensor is a view of another one; use tensor.detach()")
        mark_detached(self)
        self._edge = None
        self._requires_grad = False
        return self

    def retain_grad(self) -> None:
        """Let backward sweeps also store the gradient of this result of an operation in `grad`.

        Raises:
            RuntimeError: the tensor does not require a gradient.
        """
        if not self._requires_grad:
            raise RuntimeError("retain_grad: the tensor does not require a gradient")
        if self._edge is not None and not self.retains_grad:
            node, index, shape, dtype = self._edge
            # weak, since the tensor refers to the node: no cycle
            node.retained = (*node.retained, (index, weakref.ref(self)))
            if node.outputs is None:
                node.outputs = ((shape, dtype),)  # the sweep looks at `retained` only if outputs is set

    # ---- Copies --------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        result = self._deepcopy_without_attributes(memo)
        if self.__dict__:
            result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def _deepcopy_without_attributes(self, memo: dict[int, Any]) -> Self:
        self._refuse_history("copy.deepcopy")
        result = _new(type(self))
        memo[id(self)] = result
        result.array = arithmetic.copy(self.array)
        result._requires_grad = self._requires_grad
        result._edge = None
        result._grad_req = "add" if self._grad_req is INFERENCE else self._grad_req
        result._grad = None if self._grad is None else wrap(arithmetic.copy(self._grad.array))
        return result

    def __getstate__(self) -> object:
        self._refuse_history("copy.copy or pickle")
        shared(self.array, "a tensor to write")
        state: Any = object.__getstate__(self)
        members, slots = state if type(state) is tuple else (state, {})
        dropped = ("_hooks", "_post_hooks", "_view", "_views")
        remaining = {name: value for name, value in slots.items() if name not in dropped}
        return members, {**remaining, "_grad_req": "add"} if self._grad_req is INFERENCE else remaining

    def __setstate__(self, state: Any) -> None:
        members, slots = state
        for name, value in {**(members or {}), **slots}.items():
            setattr(self, name, value)
        array = as_own(self.array)
        self.array = array if array.flags.writeable else array.copy(order="K")  # joblib may map it read-only

    def _refuse_history(self, what: str) -> None:
        if self._edge is not None:
            raise RuntimeError(
                f"{what}: only leaf tensors can be copied, this one is the result of an operation; use tensor.detach()"
            )

    # ---- Display -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        parts = [format_elements(shared(self.array, "a tensor as text"))]
        if not self.array.size and self.array.ndim != 1:
            parts.append(f"shape={self.array.shape}")
        if self.array.dtype not in (default_dtype(), INT64, BOOL) or not self.array.size:
            parts.append(f"dtype={self.array.dtype}")
        if (place := device_of(self.array)) != "cpu":
            parts.append(f"device={place!r}")
        if self._edge is not None:
            parts.append(f"grad_fn={self._edge[0]!r}")
        elif self._requires_grad:
            parts.append("requires_grad=True")
        return f"tensor({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: shape, dtype, range and a small picture."""
        from ..explanation.notebook import as_html

        return as_html(self)


def wrap(array: np.ndarray) -> Tensor:
    """Return a Tensor around an array whose dtype is known to be allowed: the constructor without its checks."""
    tensor = _new(Tensor)
    tensor.array = array
    tensor._requires_grad = False
    tensor._grad = tensor._edge = tensor._view = tensor._views = None
    tensor._grad_req = "add"
    return tensor


def alias(x: Tensor) -> Tensor:
    """Return a tensor with x's current array and history, which later assignments to either do not affect."""
    if x._requires_grad and x._edge is None:
        return x  # a leaf is its own place in the graph
    result = wrap(x.array)
    result._requires_grad, result._edge = x._requires_grad, x._edge
    return result
