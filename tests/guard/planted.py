"""Operators with faults that the guarded run must find; ``python -m guard.planted`` prints the names of those found."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

from conformance.table import Op, normal
from guard import pages
from guard.child import GARBAGE, cases
from retrograd.engine.function import Function
from retrograd.engine.tensor import Tensor

X, INDEX = normal(3, 5), np.array([2, 0])


def _element(x: np.ndarray, place: int) -> Any:
    kind = ctypes.c_float if x.dtype == np.float32 else ctypes.c_double
    return kind.from_address(x.ctypes.data + place * x.itemsize)


def reads(place: int) -> Any:
    return lambda x: Tensor(np.full(3, _element(x.array.copy(), place).value))


def writes(place: int) -> Any:
    def function(x: Tensor) -> Tensor:
        copy = x.array.copy()
        _element(copy, place).value = 1.0
        return Tensor(np.ones(3))

    return function


def uses_after_free(x: Tensor) -> Tensor:
    copy = x.array.copy()
    address = copy.ctypes.data
    del copy
    return Tensor(np.full(3, ctypes.c_float.from_address(address).value))


def leaves_garbage(x: Tensor) -> Tensor:
    y = np.empty_like(x.array)
    y[:-1] = 1.0
    return Tensor(y)


class Trusting(Function):
    """x[index], whose backward reads the index of the user"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: np.ndarray) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = x.array.shape
        return Tensor(x.array[index])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (index,) = ctx.saved_tensors
        y = np.zeros(ctx.shape, g.dtype)
        y[index % 3] = g.array
        return Tensor(y), None


OPERATORS = [
    Op("reads behind its array", reads(15), X, order=0),
    Op("reads before its array", reads(-1), X, order=0),
    Op("writes behind its array", writes(15), X, order=0),
    Op("writes before its array", writes(-1), X, order=0),
    Op("uses an array after it was freed", uses_after_free, X, order=0),
    Op("returns what it has not written", leaves_garbage, X, order=0),
    Op("trusts an index of the user", lambda x, i: Trusting.apply(x, i.array), X, INDEX, order=1),
]


def main() -> None:
    pages.use(GARBAGE[0], True)
    for entry in OPERATORS:
        for case in cases([entry], 0, 8):
            process = os.fork()
            if not process:
                os._exit(any(case.run()))
            if os.waitpid(process, 0)[1]:  # it found something, or died
                print(entry.name, flush=True)
                break


if __name__ == "__main__":
    main()
