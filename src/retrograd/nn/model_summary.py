"""summary: a table of a model's layers, with outputs, parameters and multiply-adds, from one run of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._files.terminal import aligned, bytes_text
from ..arrays import empty, from_host, same
from ..engine.arguments import kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..kernel_set import Listener, kernels
from ..ops.random.random import Generator, get_rng_state, set_rng_state
from ..ops.signatures import advised
from .module import Module

__all__ = ["ModelSummary", "SummaryRow", "summary"]

# kernel -> multiply-adds of a call, from the definition (an algorithm may need fewer)
_PRODUCTS: dict[str, Callable[..., int]] = {
    "conv": lambda y, x, w, *_: y.size * _per_channel(w),
    "conv_input_grad": lambda y, g, w, *_: g.size * _per_channel(w),
    "matmul": lambda y, a, *_: y.size * a.shape[-1],
    "attention": lambda y, q, k, v, *_: q[..., 0].size * k.shape[2] * (q.shape[3] + v.shape[3]),
}


def _per_channel(w: np.ndarray) -> int:
    return w.size // max(1, w.shape[0])


@dataclass
class SummaryRow:
    """One call of one module.

    path: the module's path in the model, "" for the model itself; the first if there are several. kind: its class.
    output: shapes of the Tensors it returned. parameters: elements of its own parameters, without its children's; 0 in
    later calls of the same module. multiply_adds: of the matrix products and convolutions it ran itself. memory: bytes
    of its outputs, 0 for those that a child created or that are its input. again: whether it was called before.
    """

    path: str
    kind: str
    output: list[tuple[int, ...]] = field(default_factory=list)
    parameters: int = 0
    multiply_adds: int = 0
    memory: int = 0
    again: bool = False


@dataclass
class ModelSummary:
    """The rows of ``summary``, in call order, and their totals; str() gives the table.

    parameters, trainable: elements of all parameters, called or not. parameter_memory: bytes of these and of buffers.
    not_called: paths of the modules with parameters that were not called.
    """

    rows: list[SummaryRow]
    parameters: int
    trainable: int
    parameter_memory: int
    not_called: list[str]

    @property
    def multiply_adds(self) -> int:
        return sum(row.multiply_adds for row in self.rows)

    @property
    def memory(self) -> int:
        """Bytes of all outputs."""
        return sum(row.memory for row in self.rows)

    def __str__(self) -> str:
        lines = [("Layer", "Type", "Output", "Parameters", "Multiply-adds", "Memory")]
        for row in self.rows:
            shapes = ", ".join(f"{shape}" for shape in row.output) or "-"
            own = "again" if row.again else _count(row.parameters)
            memory = bytes_text(row.memory) if row.memory else "-"
            lines.append((row.path or "(model)", row.kind, shapes, own, _count(row.multiply_adds), memory))
        text = aligned(lines, left=3)
        rule = "-" * max(map(len, text))
        text[1:1] = [rule]
        text += [
            rule,
            f"Parameters: {self.parameters:,} ({self.trainable:,} trainable), "
            f"with buffers {bytes_text(self.parameter_memory)}",
            f"Multiply-adds: {self.multiply_adds:,}",
            f"Outputs: {bytes_text(self.memory)}",
        ]
        if self.not_called:
            text.append(f"Not called: {', '.join(self.not_called)}")
        return "\n".join(text)

    __repr__ = __str__


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


@advised
def summary(
    model: Module, input_size: Sequence[int] | Sequence[Sequence[int]] | None = None, *, inputs: Any = None
) -> ModelSummary:
    """Run a model once and list its layers: path, type, output shape, parameters, multiply-adds, bytes of the output.

    The run is in eval mode and without gradients; modes, buffers and the random number generator are restored
    afterwards. Parameters and multiply-adds of a row are the module's own, without its children's, so that columns add
    up; a module called several times has a row for each call.

    Args:
        model: any Module.
        input_size: the shape of the input, batch included, or a list of shapes; the inputs are random, in the dtype of
            the first parameter.
        inputs: instead of input_size, the input itself, a list or tuple of inputs, or a dict of keyword arguments.

    Returns:
        The table; print it, or read its rows.

    Raises:
        TypeError: model is not a Module.
        ValueError: neither or both of input_size and inputs are given, or input_size is not a shape.

    >>> import retrograd
    >>> print(retrograd.summary(retrograd.nn.Linear(3, 2), (4, 3)))
    Layer    Type    Output  Parameters  Multiply-adds  Memory
    ----------------------------------------------------------
    (model)  Linear  (4, 2)           8             24    32 B
    ----------------------------------------------------------
    Parameters: 8 (8 trainable), with buffers 32 B
    Multiply-adds: 24
    Outputs: 32 B
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary: model must be a Module, got {kind_name(model)}")
    if (input_size is None) == (inputs is None):
        raise ValueError("summary: give either input_size (a shape, or a list of shapes) or inputs")
    args, kwargs = _arguments(model, input_size, inputs)
    watch = _CallRecorder(model)
    with _temporary_eval(model), no_grad(), watch.running():
        model(*args, **kwargs)
    parameters = list(model.parameters())
    sizes = [p.array.size for p in parameters]
    called = {id(module) for module in watch.called}
    return ModelSummary(
        watch.rows,
        sum(sizes),
        sum(size for size, p in zip(sizes, parameters, strict=True) if p.requires_grad),
        sum(t.array.nbytes for t in (*parameters, *model.buffers())),
        [path for path, m in model.named_modules() if id(m) not in called and any(True for _ in m.parameters(False))],
    )


def _arguments(model: Module, input_size: Any, inputs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    if inputs is not None:
        if isinstance(inputs, Mapping):
            return (), dict(inputs)
        return (inputs if isinstance(inputs, (list, tuple)) else (inputs,)), {}
    several = isinstance(input_size, Sequence) and bool(input_size) and isinstance(input_size[0], Sequence)
    shapes = input_size if several else [input_size]
    like = next((p.array for p in model.parameters()), empty(0, np.float32))
    generator = Generator()  # starts from seed 0
    args = []
    for shape in shapes:
        whole = isinstance(shape, Sequence) and not isinstance(shape, str)
        if not whole or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(
                f"summary: input_size={input_size!r} must be a shape such as (8, 3, 32, 32), or a list of shapes"
            )
        drawn = from_host(generator.standard_normal(tuple(shape)), like=like)
        args.append(Tensor(kernels.cast(drawn, like.dtype)))
    return args, {}


@contextmanager
def _temporary_eval(model: Module) -> Iterator[None]:
    """Switch to eval mode within the block; restore modes, buffers and the random number generator after it."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.array, kernels.duplicate(buffer.array)) for buffer in model.buffers()]
    state = get_rng_state()
    model.eval()
    try:
        yield
    finally:
        set_rng_state(state)
        for module, mode in modes:
            module.training = mode
        for buffer, data, values in buffers:
            if not same(data, values, "whether a buffer has changed", data.dtype.kind == "f"):
                kernels.copy(data, values)
            buffer.array = data


class _CallRecorder(Listener):
    """Records a row for each call of a module, and counts the multiply-adds of the kernels it runs."""

    def __init__(self, model: Module) -> None:
        self.rows: list[SummaryRow] = []
        self.called: list[Module] = []
        self.paths = {id(module): (path, module) for path, module in reversed(list(model.named_modules()))}
        self._stack: list[tuple[SummaryRow, set[int]]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Wrap ``forward`` of every module, and the kernels, within the block."""
        own = [(module, module.__dict__.get("forward")) for _, module in self.paths.values()]
        try:
            for module, _ in own:
                module.forward = self._watched(module, module.forward)
            with self:
                yield
        finally:
            for module, forward in own:
                if forward is None:
                    del module.forward
                else:
                    module.forward = forward

    def _watched(self, module: Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            again = any(module is other for other in self.called)
            own = 0 if again else sum(p.array.size for p in module.parameters(recurse=False))
            row = SummaryRow(self.paths[id(module)][0], type(module).__name__, [], own, again=again)
            self.rows.append(row)
            self.called.append(module)
            known = {id(t) for t in _tensors((args, kwargs))}  # not new: its inputs and its children's outputs
            self._stack.append((row, known))
            try:
                result = forward(*args, **kwargs)
            finally:
                self._stack.pop()
            outputs = _tensors(result)
            row.output = [t.shape for t in outputs]
            row.memory = sum(t.array.nbytes for t in outputs if id(t) not in known)
            if self._stack:
                self._stack[-1][1].update(map(id, outputs))
            return result

        return run

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = kernel(*args, **kwargs)
        if self._stack and name in _PRODUCTS:
            self._stack[-1][0].multiply_adds += _PRODUCTS[name](result, *args)
        return result


def _tensors(value: Any) -> list[Tensor]:
    """Return the Tensors in a value, including those in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []
