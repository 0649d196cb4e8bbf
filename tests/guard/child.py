"""Operators whose arrays lie between inaccessible pages; test_guard.py runs it in a separate process.

    python -m guard.child SEED CASES

The name of a case is printed before it runs, so that the last line names the one that ended the process.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from conformance.table import Layer, Op
from conformance.test_conformance import LAYERS, OPERATORS
from guard import pages
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.kernels.compiled.machine import launch, scratch
from retrograd.kernels.compiled.machine.plan_tracing import planner
from retrograd.testing.function_call import Call, numbers
from retrograd.testing.layer import _Layer
from retrograd.testing.operator import LAYOUTS

# NaN of both types, which is no index; and tiny numbers, True, an index that leads far out
GARBAGE = 0x7FF8_0000_7FC0_0001, 0x0101_0101_0101_0101
# what becomes of int64 that the user holds, once forward is over; truth values are turned round
CHANGES: dict[str, Callable[[np.ndarray], Any]] = {
    "10**9": lambda array: 10**9,
    "-1": lambda array: -1,
    "2**62": lambda array: 2**62,
    "small": lambda array: np.random.default_rng(7).integers(-3, 9, array.shape),
}


class Case(NamedTuple):
    entry: Op
    dtype: str
    layout: str
    large: bool
    before: bool
    change: str

    def __str__(self) -> str:
        size, side = "large" if self.large else "small", "before" if self.before else "behind"
        return f"{self.entry.name} ({self.dtype}, {self.layout}, {size}, {side} a page, integers become {self.change})"

    def call(self) -> Call:
        """Of a layer, as a function of its input and parameters."""
        options, args, function = self.entry.options, self.entry.args, self.entry.function
        random = bool(options.get("random"))
        layer = _Layer(function, args, options.get("train", True), random) if isinstance(self.entry, Layer) else None
        if self.large:
            args = options["large"]
        if layer is None:
            return Call(function, args, options.get("kwargs") or {}, random)
        count = len(args)

        def applied(*values: Any, **kwargs: Any) -> Any:
            return layer.call_with_parameters(values[:count], values[count:], kwargs)

        parameters = [parameter.array.copy() for parameter in layer.module.parameters()]
        return Call(applied, (*args, *parameters), options.get("kwargs") or {}, random)

    def results(self, garbage: int, change: bool) -> Iterator[bytes]:
        """The bits of outputs, gradients and second derivatives; ``change``: of integers, after forward."""
        pages.use(garbage, self.before)
        call, order = self.call(), self.entry.options.get("order", 2)
        layout = LAYOUTS.get(self.layout, np.copy)
        for again in (False, True)[: max(1, order)]:
            arrays = [layout(a.astype(self.dtype) if a.dtype.kind == "f" else a) for a in call.arrays]
            tensors = call.tensors(arrays, self.dtype, requires_grad=order > 0)
            outputs = call.outputs(tensors)
            yield from (y.array.tobytes() for y in outputs)
            held = [t.array for t in (*tensors, *outputs) if t.array.dtype.kind in "iub"] if change else []
            for array in held:
                changed = ~array if array.dtype == np.bool_ else np.asarray(CHANGES[self.change](array))
                array[...] = changed.astype(array.dtype)  # of few bits, which wrap
            yield from (g.tobytes() for g in gradients([tensors[k] for k in call.floating], outputs, again))

    def run(self) -> Iterator[str]:
        """What is wrong."""
        before = pages.damaged()
        first, second = (list(self.results(garbage, False)) for garbage in GARBAGE)
        if first != second:
            yield "other garbage in fresh memory gives other bits"
        if pages.damaged() != before:
            yield "memory outside of an array was written to"
        if list(self.results(GARBAGE[0], True)) != first:
            yield "gradients are other ones once integers have been changed after forward"


def gradients(inputs: list[Tensor], outputs: tuple[Tensor, ...], again: bool) -> list[np.ndarray]:
    """Those of the inputs; ``again``: and of these, to the inputs and to the upstream gradients."""
    roots = [y for y in outputs if y.requires_grad]
    if not roots:
        return []
    upstream = [Tensor(numbers(y.shape, 5 + k).astype(y.dtype), requires_grad=again) for k, y in enumerate(roots)]
    found = [g for g in grad(roots, inputs, upstream, create_graph=again, allow_unused=True) if g is not None]
    roots = [g for g in found if g.requires_grad]
    if again and roots:
        vectors = [Tensor(numbers(g.shape, 9 + k).astype(g.dtype)) for k, g in enumerate(roots)]
        found += [g for g in grad(roots, [*inputs, *upstream], vectors, allow_unused=True) if g is not None]
    return [g.array for g in found]


def cases(entries: list[Op], seed: int, count: int) -> Iterator[Case]:
    draw = random.Random(seed)
    draw.shuffle(entries)
    for k in range(count):
        entry = entries[k % len(entries)]
        layouts = ["C order", *LAYOUTS] if entry.options.get("layouts", True) else ["C order"]
        large = entry.options.get("large") is not None and draw.random() < 0.5
        sides = True, False
        yield Case(
            entry, draw.choice(("f4", "f8")), draw.choice(layouts), large, draw.choice(sides), draw.choice([*CHANGES])
        )


def count_kernels() -> list[int]:
    """One number that grows with each launch."""
    count = [0]

    def counted(self: launch.Kernel, dtype: str) -> Any:
        count[0] += 1
        return dict.__getitem__(self, dtype)

    launch.Kernel.__getitem__ = counted  # type: ignore[method-assign,assignment]
    return count


def forget_scratch() -> None:
    """Let each piece of memory that kernels would find from call to call be an array of its own, full of garbage.

    A plan still names the memory that it needs: an array here would be kept in it, with what the last run left.
    """
    plain = scratch.shared, scratch.carved

    def shared(count: int, dtype: str) -> np.ndarray:
        return np.empty(count, dtype) if planner() is None else plain[0](count, dtype)

    def carved(dtype: str, *counts: int) -> list[np.ndarray]:
        return [np.empty(count, dtype) for count in counts] if planner() is None else plain[1](dtype, *counts)

    for module in [module for name, module in sys.modules.items() if name.startswith("retrograd.kernels.compiled")]:
        for replacement in (shared, carved):
            name = replacement.__name__
            if module is not scratch and getattr(module, name, None) is getattr(scratch, name):
                setattr(module, name, replacement)
    scratch.shared, scratch.carved = shared, carved


def main(seed: int, count: int) -> int:
    launches, faults = count_kernels(), 0
    forget_scratch()
    pages.use(GARBAGE[0], True)
    for case in cases([*OPERATORS, *LAYERS], seed, count):
        print(case, flush=True)
        for fault in case.run():
            print(f"FAULT in {case}: {fault}", flush=True)
            faults += 1
    print(f"{launches[0]} kernel calls, {pages.count()} arrays, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
