"""Module, optimizer and loss of a scikit-learn estimator, made from its parameters.

Each may be a class, whose arguments are then also parameters of the estimator: ``module__hidden=64`` sets
``hidden=64`` of the module.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from ... import nn, optim
from ..._files.state import brief, count
from ...engine.tensor import Tensor

__all__ = ["PARTS", "make_loss", "make_module", "make_optimizer", "meant", "perceptron"]


# ---- The default network of the estimators --------------------------------------------------------------------------


def perceptron(n_features: int, n_outputs: int, hidden: int | Sequence[int] = 100) -> nn.Sequential:
    """Build a network from rows (N, n_features) to scores (N, n_outputs), with ReLU hidden layers.

    hidden: the width of the hidden layer, or the widths of several; () gives a linear model.

    Raises:
        ValueError: a width is not a positive int.
    """
    every = hidden if isinstance(hidden, (Sequence, np.ndarray)) else [hidden]
    widths = [n_features, *(count(1)("perceptron: hidden", width) for width in every)]
    layers: list[nn.Module] = []
    for inside, out in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inside, out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], n_outputs))


# ---- Module, optimizer and loss from an estimator's parameters ------------------------------------------------------

PARTS = "module", "optimizer", "loss"

_LOSSES = {name.lower(): getattr(nn, name) for name in dir(nn) if name.endswith("Loss")}
_OPTIMIZERS = {
    name.lower(): kind
    for name, kind in vars(optim).items()
    if inspect.isclass(kind) and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
}


def make_module(owner: str, module: Any, arguments: Mapping[str, Any], sizes: Mapping[str, Any]) -> nn.Module:
    """Make a new module: the result of calling ``module``, a copy of a given Module, or a perceptron for None.

    owner: the estimator's name, for messages.
    arguments: the arguments of the call.
    sizes: further arguments; the call gets those that it has parameters for.

    Raises:
        TypeError: module is not a Module and does not return one.
        ValueError: the arguments do not fit the parameters.
    """
    if isinstance(module, nn.Module):
        if arguments:
            raise ValueError(
                f"{owner}: module is an instance of {type(module).__name__}, so {_listed('module', arguments)} "
                f"cannot be set; pass a class or a function that makes it, as module={type(module).__name__}"
            )
        return copy.deepcopy(module)
    make = perceptron if module is None else module
    if not callable(make):
        raise TypeError(f"{owner}: module={brief(module)} must be a Module, or a class or function that makes one")
    made = make(**_fitting(owner, "module", make, arguments, sizes))
    if not isinstance(made, nn.Module):
        raise TypeError(f"{owner}: module={_name(make)} returned {type(made).__name__}; it must return an nn.Module")
    return made


def make_optimizer(
    owner: str, optimizer: Any, arguments: Mapping[str, Any], lr: Any, module: nn.Module
) -> optim.Optimizer:
    """Make a new optimizer for the module's parameters.

    Raises:
        TypeError: optimizer is neither the name nor the class of an optimizer.
        ValueError: there is no optimizer of this name, it cannot train the module, or the arguments do not fit its
            parameters.
    """
    kind = _named(owner, "optimizer", optimizer, _OPTIMIZERS)
    if not (inspect.isclass(kind) and issubclass(kind, optim.Optimizer)):
        shown = f"an instance of {type(kind).__name__}" if isinstance(kind, optim.Optimizer) else brief(kind)
        raise TypeError(
            f"{owner}: optimizer is {shown}; it must be a name such as 'Adam', or a class of retrograd.optim, which "
            "is called with the parameters of the module"
        )
    if issubclass(kind, optim.LBFGS):
        raise ValueError(
            f"{owner}: LBFGS evaluates the loss several times per step, but fit does so once; choose another optimizer"
        )
    if "lr" in arguments:
        raise ValueError(f"{owner}: optimizer__lr={brief(arguments['lr'])} is the parameter lr; write lr=...")
    given = list(module.parameters())
    if not given:
        raise ValueError(f"{owner}: the module, {type(module).__name__}, has no parameters to train; give it a layer")
    return kind(**_fitting(owner, "optimizer", kind, {**arguments, "lr": lr}, {"params": given}))


def make_loss(
    owner: str, loss: Any, arguments: Mapping[str, Any], default: type[nn.Module], weighted: bool
) -> Callable[..., Tensor]:
    """Make a function of output and target; if ``weighted``, also of sample weights, by which it multiplies the losses.

    Raises:
        TypeError: loss is not a name, a class or a function.
        ValueError: there is no loss of this name, the arguments do not fit its parameters, or weights are required from
            a loss that has no ``reduction``.
    """
    kind = default if loss is None else _named(owner, "loss", loss, _LOSSES)
    if not callable(kind):
        raise TypeError(f"{owner}: loss={brief(loss)} must be a name such as 'MSELoss', a class or a function")
    if not inspect.isclass(kind):
        if arguments:
            raise ValueError(f"{owner}: {_listed('loss', arguments)} cannot be set, as loss is not a class")
        return _weighted(_of_samples(owner, kind)) if weighted else kind
    if not weighted:
        return _made(kind, _fitting(owner, "loss", kind, arguments, {}))
    if "reduction" in arguments:
        raise ValueError(f"{owner}: loss__reduction and sample_weight exclude each other; leave loss__reduction out")
    made = _made(kind, _fitting(owner, "loss", kind, arguments, {"reduction": "none"}))
    return _weighted(_of_samples(owner, made))


def _made(kind: Any, arguments: Mapping[str, Any]) -> Callable[..., Tensor]:
    made: Callable[..., Tensor] = kind(**arguments)
    return made


def meant(name: str, names: Sequence[str]) -> str:
    """Return `` (did you mean ...?)`` if a name resembles one of these."""
    close = get_close_matches(name, names, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _of_samples(owner: str, loss: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of each sample or element, where ``loss`` is their mean."""
    if isinstance(loss, nn.Module):
        if hasattr(loss, "reduction"):
            loss = copy.copy(loss)
            loss.reduction = "none"
            return loss
    elif "reduction" in (_parameters(loss) or ()):
        return functools.partial(loss, reduction="none")
    raise ValueError(
        f"{owner}: sample_weight needs the loss of each sample, but loss={_name(loss)} takes no reduction='none'; "
        "leave sample_weight out, or give the loss this argument"
    )


def _weighted(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def mean(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        of_samples = loss(output, target)
        return (of_samples.reshape(len(weight), -1).mean(1) * weight).mean()

    return mean


def _named(owner: str, part: str, value: Any, table: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    if value.lower() not in table:
        known = sorted(kind.__name__ for kind in table.values())
        raise ValueError(
            f"{owner}: {part}={brief(value)} is unknown; the names are {', '.join(known)}{meant(value, known)}"
        )
    return table[value.lower()]


def _fitting(
    owner: str, part: str, make: Any, arguments: Mapping[str, Any], offered: Mapping[str, Any]
) -> dict[str, Any]:
    """Return ``arguments`` and those of ``offered`` that a callable has parameters for, if these are all it needs."""
    parameters = _parameters(make)
    if parameters is None:
        return dict(arguments)
    kinds = inspect.Parameter
    names = [p.name for p in parameters.values() if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    takes_any &= make not in _OPTIMIZERS.values()  # their **kwargs only take PyTorch options without meaning here
    for name in arguments:
        if name not in names and not takes_any:
            own = [f"{part}__{other}" for other in names if other not in offered or part == "module"]
            raise ValueError(
                f"{owner}: {part}__{name} is set, but {_name(make)} has no parameter {name!r}; "
                + (f"there are {', '.join(own)}" if own else "it has none")
                + meant(f"{part}__{name}", own)
            )
    call = {**{name: value for name, value in offered.items() if name in names}, **arguments}
    missing = [name for name in names if parameters[name].default is kinds.empty and name not in call]
    if missing:
        settings = ", ".join(f"{part}__{name}=..." for name in missing)
        raise ValueError(f"{owner}: {_name(make)} needs {', '.join(missing)}; set {settings}")
    return call


def _parameters(make: Any) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError):  # for example, a function in C
        return None


def _name(thing: Any) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))


def _listed(part: str, arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{part}__{name}" for name in arguments)
