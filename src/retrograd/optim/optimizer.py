"""Optimizer: parameter groups, state and their saving; what SGD and Adam share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..engine.changes import mark
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor

__all__ = ["Optimizer"]

Group = dict[str, Any]
Batch = tuple[list[Tensor], list[np.ndarray], list[np.ndarray]]  # parameters, their arrays, their gradients


class Optimizer:
    """Updates parameters, in groups that may have options of their own.

    params: an iterable of leaf Tensors, or of dicts ``{"params": tensors, option: value, ...}``.
    defaults: the options of a group that does not set them.

    ``param_groups`` is a list of dicts as in PyTorch; options such as ``group["lr"]`` may be changed between
    steps. ``state`` maps a parameter to its dict of buffers, which keep the parameter's memory order.

    Raises:
        TypeError: params is one Tensor, a set, or holds something that is no floating point Tensor.
        ValueError: params is empty, or a Tensor is no leaf or comes twice, or an option is out of range.
    """

    buffer_names: tuple[str, ...] = ()  # arrays like the parameter in the state of every parameter
    counter_names: tuple[str, ...] = ()  # integers there

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[Group] = []
        if isinstance(params, Tensor):
            raise TypeError("params is one Tensor; give an iterable such as [tensor] or model.parameters()")
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: params is empty; give model.parameters() or a list")
        if not isinstance(groups[0], dict):
            groups = [{"params": params if isinstance(params, (set, frozenset)) else groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Add ``{"params": tensors, option: value, ...}``, for instance layers that are unfrozen later.

        Raises: as the class.
        """
        name = type(self).__name__
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f'{name}: a param group is a dict with "params", got {param_group!r}')
        params = param_group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError(f"{name}: params is a set, whose order changes from run to run; use a list")
        parameters = [params] if isinstance(params, Tensor) else list(params)
        group = {**self.defaults, **param_group, "params": parameters}
        unknown = [option for option in group if option not in self.defaults and option != "params"]
        if unknown:
            raise ValueError(f"{name}: there is no option {unknown[0]!r}; a group has {list(self.defaults)}")
        known = {id(parameter) for existing in self.param_groups for parameter in existing["params"]}
        for position, parameter in enumerate(parameters):
            which = f"{name}: params[{position}]"
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{which} is no Tensor but {type(parameter).__name__}")
            if parameter.data.dtype.kind != "f":
                raise TypeError(f"{which} has dtype {parameter.data.dtype}; only floats can be trained")
            if not parameter.is_leaf:
                raise ValueError(f"{which} is no leaf but the result of an operation; use tensor.detach()")
            if id(parameter) in known:
                raise ValueError(f"{which} of shape {parameter.shape} is listed more than once")
            known.add(id(parameter))
        self.check_options(group)
        self.param_groups.append(group)

    def check_options(self, group: Group) -> None:
        """Raise ValueError if an option of group is out of range."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or make them zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:  # a fresh zero: the old array may be shared
                    parameter.grad = None if set_to_none else Tensor(np.zeros_like(parameter.grad.data))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, except those whose grad_req is "null".

        closure: computes the loss again (zero_grad, forward, backward); its result is returned.

        Raises:
            RuntimeError: a gradient has another shape or dtype than its parameter; nothing was updated.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        work = [(group, self._trained(group)) for group in self.param_groups]
        changed = []
        for group, batches in work:
            for batch in batches:
                self.update(group, *batch)
                changed += batch[1]
        mark(changed, f"{type(self).__name__}.step")  # a graph that needs the old values refuses to run
        return loss

    def update(
        self, group: Group, parameters: list[Tensor], arrays: list[np.ndarray], gradients: list[np.ndarray]
    ) -> None:
        """Update arrays, those of parameters and all of one dtype, by gradients with the options of group."""
        raise NotImplementedError(f"{type(self).__name__} has no update(group, parameters, arrays, gradients)")

    def state_of(self, parameter: Tensor) -> dict[str, Any]:
        """The buffers and counters of parameter, zeros at first."""
        state = self.state.get(parameter)
        if state is None:
            state = self.state[parameter] = {
                **dict.fromkeys(self.counter_names, 0),
                **{name: zeros_like(parameter) for name in self.buffer_names},
            }
        return state

    def _trained(self, group: Group) -> list[Batch]:
        """The parameters of group that take part in this step, their arrays and gradients, by dtype."""
        single: Batch = ([], [], [])
        double: Batch = ([], [], [])
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None or parameter.grad_req == "null":
                continue
            array, values = parameter.data, gradient.data
            if array.shape != values.shape or array.dtype != values.dtype:
                raise RuntimeError(
                    f"{type(self).__name__}: a parameter has shape {array.shape} and dtype {array.dtype}, "
                    f"but its grad has {values.shape} and {values.dtype}; set grad to None or one that fits"
                )
            parameters, arrays, gradients = single if array.itemsize == 4 else double
            parameters.append(parameter)
            arrays.append(array)
            gradients.append(values)
        return [batch for batch in (single, double) if batch[0]]

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: buffers}, "param_groups": [options and indices]}, as PyTorch's.

        Parameters are numbered through all groups. Buffers are the optimiser's own Tensors, not copies.
        """
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers[id(parameter)] = len(numbers)
            options = {option: value for option, value in group.items() if option != "params"}
            groups.append({**options, "params": [numbers[id(parameter)] for parameter in group["params"]]})
        state = {numbers[id(parameter)]: dict(entries) for parameter, entries in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over options and buffers (copied) of a state_dict of an optimiser over the same parameters.

        Everything is checked first: a call that fails has changed nothing.

        Raises:
            ValueError: groups, their sizes or options, or the state of a parameter do not fit; says which.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= state_dict.keys():
            raise ValueError('optimizer state_dict: expected a dict with "state" and "param_groups"')
        saved_groups, saved_state = state_dict["param_groups"], state_dict["state"]
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                f"optimizer state_dict: it has {len(saved_groups)} parameter groups, "
                f"this optimizer has {len(self.param_groups)}"
            )
        parameters: dict[Any, Tensor] = {}
        groups = []
        for position, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            if len(saved["params"]) != len(group["params"]):
                raise ValueError(
                    f"optimizer state_dict: group {position} holds {len(saved['params'])} parameters, "
                    f"this optimizer's holds {len(group['params'])}"
                )
            if saved.keys() != group.keys():
                raise ValueError(
                    f"optimizer state_dict: group {position} has the options "
                    f"{sorted(saved.keys() - {'params'})}, "
                    f"{type(self).__name__} has {sorted(group.keys() - {'params'})}"
                )
            parameters.update(zip(saved["params"], group["params"], strict=True))
            groups.append({**saved, "params": group["params"]})
            self.check_options(groups[-1])
        state = {}
        for number, entries in saved_state.items():
            if number not in parameters:
                raise ValueError(f"optimizer state_dict: state of parameter {number!r}, which is in no group")
            state[parameters[number]] = self._checked_state(number, parameters[number], entries)
        self.param_groups[:] = groups
        self.state = state

    def _checked_state(self, number: Any, parameter: Tensor, entries: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of entries with buffers in parameter's memory order and dtype."""
        where = f"optimizer state_dict: state of parameter {number}"
        if set(entries) != {*self.buffer_names, *self.counter_names}:
            raise ValueError(
                f"{where} has the entries {sorted(entries)}, "
                f"{type(self).__name__} needs {sorted((*self.buffer_names, *self.counter_names))}"
            )
        checked: dict[str, Any] = {}
        for name in self.counter_names:
            count = np.asarray(entries[name].data if isinstance(entries[name], Tensor) else entries[name])
            if count.size != 1 or count.dtype.kind not in "iuf" or count.item() < 0 or count.item() % 1:
                raise ValueError(f"{where}: {name}={entries[name]!r} is no count; expected an integer >= 0")
            checked[name] = int(count.item())
        for name in self.buffer_names:
            value = entries[name]
            array = value.data if isinstance(value, Tensor) else np.asarray(value)
            if array.shape != parameter.data.shape or array.dtype.kind != "f":
                raise ValueError(
                    f"{where}: {name} has shape {array.shape} and dtype {array.dtype}, "
                    f"the parameter has shape {parameter.data.shape} and dtype {parameter.data.dtype}"
                )
            checked[name] = zeros_like(parameter)
            checked[name].data[...] = array
        return checked

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for position, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {position}")
            lines += [f"    {option}: {group[option]}" for option in sorted(group) if option != "params"]
        return "\n".join([*lines, ")"])


def zeros_like(parameter: Tensor) -> Tensor:
    """A zero Tensor of parameter's shape, dtype and memory order."""
    return Tensor(np.zeros_like(parameter.data))


def require_number(name: str, value: Any, low: float = 0.0, below: float = float("inf")) -> None:
    """Raise ValueError unless value is a number with low <= value < below (NaN is none)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not low <= value < below:
        limit = f"below {below}" if below < float("inf") else "finite"
        raise ValueError(f"{name}={value!r} is invalid; it must be a number of at least {low} and {limit}")
