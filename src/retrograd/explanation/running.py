"""The code that computes a gradient, line by line: the backward that ran, and other algorithms of the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from ..engine.backward_pass import grad
from ..engine.tensor import Tensor
from ..kernel_set import use_kernels
from .measure import Arrays, Call
from .numbers import numbers
from .trace import Trace, traced
from .where import part_of

__all__ = ["Algorithm", "Run", "as_dicts", "backward_run", "follow"]


class Algorithm(NamedTuple):
    """One way to compute an array of the page, to be stepped through.

    group: the family that it belongs to, "singa" for example; cost: what it takes, by name of the figure
    """

    name: str
    group: str
    about: str
    result: str
    call: Callable[[], Any]
    cost: dict[str, int] | None = None


class Run(NamedTuple):
    """An algorithm and the lines that ran."""

    algorithm: Algorithm
    trace: Trace


def backward_run(name: str, call: Call, inputs: Arrays, gy: Any) -> Run:
    """The backward of an operator on the textbook kernels: its Function's lines, the kernels', the formulas'."""
    with use_kernels("textbook"):
        tensors = {each: Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for each, array in inputs.items()}
        y = call(*tensors.values())
        wanted = [tensor for tensor in tensors.values() if tensor.requires_grad]
        upstream = Tensor(gy.astype(y.array.dtype))
        about = "the backward that ran, on the textbook kernels"
        algorithm = Algorithm(
            f"{name}: backward", "backward", about, "", lambda: grad(y, wanted, upstream, allow_unused=True)
        )
        return follow(algorithm)


def follow(algorithm: Algorithm) -> Run:
    """Run an algorithm and record its lines."""
    return Run(algorithm, traced(algorithm.call, _is_text))


def as_dicts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs as the page's document has them, see document.py."""
    return [
        {
            "name": run.algorithm.name,
            "group": run.algorithm.group,
            "about": run.algorithm.about,
            "result": run.algorithm.result,
            "cost": run.algorithm.cost,
            "complete": run.trace.complete,
            "functions": [
                {"name": s.name, "file": s.file, "first_line": s.first_line, "source": s.text, "sha256": s.sha256}
                for s in run.trace.functions
            ],
            "steps": [
                {"function": step.function, "line": step.line, "arrays": step.arrays} for step in run.trace.steps
            ],
            "values": [{"shape": [*each.shape], "values": numbers(each)} for each in run.trace.values],
        }
        for run in runs
    ]


@lru_cache(maxsize=4096)
def _is_text(code: CodeType) -> bool:
    """Whether a function is among those that people read: a backward, a textbook kernel, a formula."""
    part = part_of(code.co_filename)
    if part in ("ops", ""):  # or of a Function of the user's own
        return code.co_name == "backward"
    if part not in ("textbook", "formulas", "explanation"):
        return False
    if code.co_name.startswith("_") or Path(code.co_filename).name == "__init__.py":
        return False
    module = next((m for m in sys.modules.values() if getattr(m, "__file__", None) == code.co_filename), None)
    names = getattr(module, "__all__", ())
    return code.co_name in names if part != "formulas" else code.co_name in vars(module or object)
