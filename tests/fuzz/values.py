"""Names used by generated code: ``T`` makes a tensor of either library, with numbers determined by a seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 1e38, -1e-40)


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0, kind: str = "normal") -> np.ndarray:
    """Numbers of a shape: normal draws, "zeros", "ones", small "ints", or "special" with NaN and infinities."""
    draw = np.random.default_rng(seed)
    if kind == "normal" and dtype.startswith("float"):
        values: Any = draw.normal(0.0, 2.0, shape)
    elif kind == "special" and dtype.startswith("float"):
        values = draw.choice(SPECIAL, shape)
    elif kind in ("zeros", "ones"):
        values = np.full(shape, kind == "ones")
    elif dtype == "bool":
        values = draw.random(shape) < 0.5
    else:
        values = draw.integers(0 if dtype == "uint8" or kind == "ints" else -3, 4, shape)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def namespace_of(library: Any, requires_grad: Callable[[Any], Any], leaves: list[Any]) -> dict[str, Any]:
    """The names of a line for ``library``, retrograd or torch; tensors that require a gradient go into ``leaves``."""

    def tensor(
        shape: tuple[int, ...] = (),
        dtype: str = "float32",
        seed: int = 0,
        kind: str = "normal",
        grad: bool = False,
        layout: str = "plain",
    ) -> Any:
        """layout: "transposed" or "every second", of other strides; "clone", the result of an operator."""
        if layout == "transposed" and len(shape) > 1:
            shape = (shape[1], shape[0], *shape[2:])
        if layout == "every second" and shape:
            shape = (2 * shape[0], *shape[1:])
        x = library.tensor(numbers(shape, dtype, seed, kind))
        if grad and dtype.startswith("float"):
            x = requires_grad(x)
            leaves.append(x)
        if layout == "transposed" and len(shape) > 1:
            return x.transpose(0, 1)
        if layout == "every second" and shape:
            return x[::2]
        return x.clone() if layout == "clone" else x

    return {
        "rg": library,
        "T": tensor,
        "A": numbers,
        "np": np,
        "inf": math.inf,
        "nan": math.nan,
        "slot": Recorded,
    }


class Recorded:
    """A callable of the user's that takes anything and returns its first argument."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args else None

    def __repr__(self) -> str:
        return "slot()"
