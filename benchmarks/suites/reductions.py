"""Reductions, scans and sorting: of all elements, per channel, along the last axis and along the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..harness import Rows
from .jobs import SHAPES, Job, rows_of

IMAGES, FEATURES, SEQUENCES = SHAPES
Reduction = Callable[[Any, Any], Any]

# shape -> the axes that are reduced there
SEVERAL: dict[tuple[int, ...], tuple[Any, ...]] = {
    IMAGES: (None, 1, (0, 2, 3)),
    FEATURES: (None, 0, 1),
    SEQUENCES: (2,),
}
ONE: dict[tuple[int, ...], tuple[Any, ...]] = {IMAGES: (1, 0), FEATURES: (0, 1), SEQUENCES: (2,)}

OVER_SEVERAL: dict[str, Reduction] = {
    "sum": lambda x, dim: x.sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "var": lambda x, dim: x.var(dim),
    "std": lambda x, dim: x.std(dim),
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim),
    "norm": lambda x, dim: x.norm(2, dim),
    "norm 1": lambda x, dim: x.norm(1, dim),
    "logsumexp": lambda x, dim: x.logsumexp(tuple(range(x.ndim)) if dim is None else dim),
}
OVER_ONE: dict[str, Reduction] = {
    "prod": lambda x, dim: x.prod(dim),
    "max": lambda x, dim: x.max(dim)[0],
    "min": lambda x, dim: x.min(dim)[0],
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
}
WITHOUT_GRADIENT: dict[str, Reduction] = {
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "all": lambda x, dim: x.all(dim),
    "any": lambda x, dim: x.any(dim),
}
LAST_AXIS: dict[str, Reduction] = {
    "sort": lambda x, dim: x.sort(dim)[0],
    "topk 5": lambda x, dim: x.topk(5, dim)[0],
    "median": lambda x, dim: x.median(dim)[0],
}


def _jobs() -> Iterator[Job]:
    for shapes, table in ((SEVERAL, OVER_SEVERAL), (ONE, OVER_ONE), (ONE, WITHOUT_GRADIENT)):
        for name, reduction in table.items():
            for shape, dims in shapes.items():
                for dim in dims:
                    yield _job("reduction", name, reduction, shape, dim, table is not WITHOUT_GRADIENT)
    for name in ("argmax", "argmin"):
        yield _job("reduction", name, WITHOUT_GRADIENT[name], IMAGES, None, False)
    yield _job("reduction", "prod", lambda x, _: x.prod(), FEATURES, None, True)
    yield _job("reduction", "max", lambda x, _: x.max(), IMAGES, None, True)
    for name, reduction in LAST_AXIS.items():
        for shape in (FEATURES, SEQUENCES):
            # long inputs have ties, among which the libraries choose differently
            yield _job("order", name, reduction, shape, -1, shape == FEATURES or name == "topk 5")


def _job(group: str, name: str, reduction: Reduction, shape: tuple[int, ...], dim: Any, backward: bool) -> Job:
    def operator(x: Any) -> Any:
        return reduction(x, dim)

    near_one = {"low": 0.99, "high": 1.01} if name in ("prod", "cumprod") else {}
    backward = backward and name != "sum"  # its backward only passes the gradient on
    label = f"{name} {shape}, {'all' if dim is None else f'dim {dim}'}"
    return Job(group, label, operator, operator, (shape,), backward=backward, rows=shape != IMAGES, **near_one)


def rows(quick: bool, compile: bool) -> Rows:
    return rows_of(_jobs(), quick, compile)
