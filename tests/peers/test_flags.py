"""Boolean options: we accept whatever PyTorch accepts, such as 0, 1 and NumPy's bools."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg

from ..ops.test_flags import CASES, FUNCTIONS, arguments_of

VALUES = (0, 1, np.False_, np.True_)
PLACES = {
    "retrograd": (torch,),
    "linalg": (torch.linalg,),
    "utils": (torch.nn.utils,),
    "Tensor": (torch.Tensor,),
    "autograd": (torch.autograd,),
    "functional": (torch.nn.functional, torch.autograd.functional),
}


def _theirs(value: Any) -> Any:
    if isinstance(value, rg.Tensor):
        return torch.tensor(value.array, requires_grad=value.requires_grad)
    if isinstance(value, rg.nn.Module):
        name = type(value).__name__
        return getattr(torch.nn, name)(*{"Conv1d": (1, 1, 1), "BatchNorm1d": (1,)}.get(name, ())).eval()
    if isinstance(value, (tuple, list)):
        return type(value)(map(_theirs, value))
    return value


def _runs(function: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> bool:
    try:
        function(*given, **options)
    except Exception:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_functions_and_methods() -> None:
    taken = 0
    for name, argument, _ in CASES:
        place, _, word = name.rpartition(".")
        theirs = next((getattr(module, word) for module in PLACES[place] if hasattr(module, word)), None)
        if theirs is None or word == "compile" or argument == "vectorize":  # True is refused
            continue
        for value in VALUES:
            given = {label: _theirs(part) for label, part in arguments_of(name).items()}
            if "outputs" in given:
                given["outputs"] = given["inputs"]
            own = [given.pop("self")] if "self" in given else []
            if _runs(theirs, own, {**given, argument: value}):
                taken += 1
                FUNCTIONS[name](**{**arguments_of(name), argument: value})
    assert taken > 250


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", ["nn", "optim"])
def test_layers_and_optimizers(module: str) -> None:
    ours, theirs, taken = getattr(rg, module), getattr(torch, module), 0
    for name in sorted(set(dir(ours)) & set(dir(theirs))):
        layer = getattr(ours, name)
        if not inspect.isclass(layer) or not issubclass(layer, (rg.nn.Module, rg.optim.Optimizer)):
            continue
        parameters = inspect.signature(layer).parameters
        plain = [3 for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        for option in [option for option, p in parameters.items() if p.annotation == "bool"]:
            for value in VALUES:
                given = {"momentum": 0.9} if option == "nesterov" else {}
                pair = (plain, plain)
                if module == "optim":
                    pair = [[torch.nn.Parameter(torch.ones(2))], 0.1], [[rg.nn.Parameter(rg.ones(2))], 0.1]
                if _runs(getattr(theirs, name), pair[0], {**given, option: value}):
                    taken += 1
                    layer(*pair[1], **given, **{option: value})
    assert taken > 30
