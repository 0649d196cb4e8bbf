"""Optimizer, the base class: parameter groups, state, the update step, and saving."""

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import chain
from operator import attrgetter, is_
from typing import Any, Final

import numpy as np

from .._files.state import brief, check_table, items, names
from .._files.state import number as number_of
from ..arrays import from_host, zeros_like
from ..arrays import number as number_in
from ..engine.aliasing import ChangingArrays, check_memory, mark_changed
from ..engine.arguments import as_list, kind_name
from ..engine.call_site import in_package
from ..engine.grad_mode import enable_grad
from ..engine.steps import update_listeners
from ..engine.tensor import Tensor, wrap
from ..formulas import UPDATES, form
from ..kernel_set import exact, kernels
from .options import CHECKS, IMPLEMENTATION_OPTIONS, as_number, check_implementation_options

__all__ = ["Batch", "Optimizer", "clip_after_step", "required"]


# ---- Batches: the arguments of one kernel launch, cached while only the gradients change ----------------------------

State = dict[str, Any]
array_of: Final = attrgetter("array")
_shape_of, _dtype_of = attrgetter("shape"), attrgetter("dtype")


class Batch:
    """Parameters of one dtype that one kernel launch updates, with their arrays, states and buffers.

    ``columns`` has one list of arrays per buffer; ``changed`` are all arrays that a step writes. ``keep`` is a cache of
    the kernel. ``fresh`` says whether the states were created for this step.

    The next step reuses a batch if ``matches`` finds all objects unchanged. A batch keeps parameters, arrays and states
    alive, so that their ids are not reused, but not gradients.
    """

    fresh: bool
    parameters: list[Tensor]
    formula: Callable[..., Any]

    def __init__(
        self,
        formula: Callable[..., Any],
        parameters: Sequence[Tensor],
        states: Sequence[State],
        buffers: Sequence[str],
        counters: Iterable[str],
        fresh: bool,
    ) -> None:
        self.formula, self.parameters, self.fresh = formula, list(parameters), fresh
        self._buffers, self._counters = tuple(buffers), tuple(counters)
        self.states: list[State] = list(states) if buffers or self._counters else []  # without both there is no state
        self.arrays: list[np.ndarray] = list(map(array_of, parameters))
        self.columns: list[list[np.ndarray]] = [_column(states, name) for name in buffers]
        self.changed: list[np.ndarray] = [*self.arrays, *chain(*self.columns)]
        for at, array in enumerate(self.changed):  # kernels write into any memory
            check_memory(array, "an optimizer's step", "parameter" if at < len(self.arrays) else "state")
        self.mark_changed = ChangingArrays(self.changed).mark
        self.keep: dict[str, Any] = {}
        self._shapes, self._dtypes = list(map(_shape_of, self.arrays)), list(map(_dtype_of, self.arrays))
        self._objects = [*parameters, *self.arrays, *self.states, *self.changed[len(self.arrays) :]]

    def matches(
        self, formula: Callable[..., Any], parameters: Sequence[Tensor], states: Mapping[Tensor, State]
    ) -> bool:
        """Return whether these are its parameters, with the same formula, arrays and buffers, all at the same step."""
        if len(parameters) != len(self.parameters) or formula is not self.formula:
            return False
        try:
            current = [states[parameter] for parameter in parameters] if self.states else []
            columns = [_column(current, name) for name in self._buffers]
            same = all(len({state[name] for state in current}) == 1 for name in self._counters)
        except (KeyError, AttributeError):
            return False
        # map, chain and is_ stay within the interpreter's C code: this runs in every step
        objects = chain(parameters, map(array_of, parameters), current, *columns)
        return same and all(map(is_, objects, self._objects))

    def accepts(self, gradients: Sequence[np.ndarray]) -> bool:
        """Return whether the gradients have the shapes and dtypes of the parameters."""
        same = list(map(_shape_of, gradients)) == self._shapes
        return same and all(map(is_, map(_dtype_of, gradients), self._dtypes))


def _column(states: Sequence[State], name: str) -> list[np.ndarray]:
    return [state[name].array for state in states]


# ---- Limits of parameters, `nn.Parameter.limits`: every optimizer clips the values to them after each step ----------


def clip_after_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``step`` to clip the parameters afterwards; Optimizer applies this to every subclass."""

    @wraps(step)
    def step_and_clip(self: Any, *args: Any, **kwargs: Any) -> Any:
        for heard in update_listeners:
            heard(self)
        result = step(self, *args, **kwargs)
        for group in self.param_groups:
            _clip(type(self).__name__, group["params"])
        return result

    return step_and_clip


def _clip(name: str, parameters: Iterable[Tensor]) -> None:
    """Clip those parameters that have limits and a gradient."""
    for parameter in parameters:
        limits = getattr(parameter, "_limits", None)  # only a Parameter has them, once they are set
        if limits is not None and parameter._grad is not None and parameter._grad_req != "null":
            kernels.clip_in_place(parameter.array, *limits)
            mark_changed([parameter.array], f"{name}.step")


# ---- Optimizer, the base class: parameter groups, state, and saving them --------------------------------------------

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[Group]
Update = Callable[..., Any]

# entries that schedulers add to a group
SCHEDULER_ENTRIES = ("initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr")
_MAX_STEPS = 2**53  # the largest count exact in float64


class _Required:
    """The class of ``required``."""

    def __repr__(self) -> str:
        return "<required parameter>"

    def __reduce__(self) -> str:
        return "required"  # copies and unpickled ones are the same object


required: Any = _Required()  # the default of an option that every parameter group has to set


class Optimizer:
    """The base class of optimizers: updates parameters, in groups that may have their own options.

    params: an iterable of leaf Tensors, or of dicts ``{"params": tensors, option: value, ...}``. A group may also
    contain your own entries, such as a name; they are kept, also in a state_dict.
    defaults: the options of groups that do not set them; a Tensor of one element counts as a number. An option whose
    default is ``required`` (of this module) has to be set.

    ``param_groups`` is a list of dicts as in PyTorch; options such as ``group["lr"]`` may be changed between
    steps. ``state`` maps a parameter to its dict of counters and buffers, which keep the parameter's memory order.

    Options of all optimizers but LBFGS: ``maximize`` takes the gradient with the opposite sign; numbers are finite and
    at least 0 (dampening may be negative), betas are below 1, alpha and rho at most 1, flags are True or False.

    A subclass sets ``formulas``, its updates (see retrograd.formulas.optimizers; their states become the buffers of a
    parameter), and ``counters``, with their initial values. The method ``formula`` chooses the update of a group.
    Alternatively, a subclass overrides ``step``; ``state[parameter]`` is then an empty dict at first.

    Raises:
        TypeError: params is one Tensor, a set, or contains anything but floating-point Tensors.
        ValueError: params is empty, or a Tensor is not a leaf or is listed twice, or an option is out of range, or a
            required one is missing.

    Warns about an entry of a group that is an option of other optimizers only, or looks like a misspelled option.
    """

    formulas: tuple[Update, ...] = ()  # the last one has all states
    buffer_names: tuple[str, ...] = ()  # arrays shaped like the parameter: the states of the formulas
    counters: dict[str, float] = {"step": 0}  # numbers in the state of every parameter, with initial values

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Tensor, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._batches: dict[int, Batch] = {}  # by position of the group
        if isinstance(params, Tensor):
            raise TypeError("params is one Tensor; pass an iterable such as [tensor] or model.parameters()")
        name = type(self).__name__
        if callable(getattr(params, "parameters", None)):
            raise TypeError(f"{name}: params is {kind_name(params)}, needs tensors; pass model.parameters()")
        if not isinstance(defaults, dict):
            raise TypeError(f"{name}: defaults is {kind_name(defaults)}, needs a dict of options")
        groups = as_list(name, "params", params, "a list of tensors or of groups; pass model.parameters()")
        if not groups:
            raise ValueError(
                f"{name}: params is empty; pass model.parameters() or a list. Layers that a module keeps in a Python "
                "list are not found; use nn.ModuleList"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": params if isinstance(params, (set, frozenset)) else groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls) -> None:
        if "step" in cls.__dict__:
            cls.step = clip_after_step(cls.step)  # type: ignore[method-assign]
        for formula in cls.formulas:
            if formula not in UPDATES.values():
                raise TypeError(f"{cls.__name__}: {formula!r} has no kernel; override step instead of setting formulas")
        if cls.formulas:
            cls.buffer_names = _states_of(cls.formulas[-1])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": {}}  # batches contain memory addresses

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes. A subclass may add options that older pickles and state_dicts lack."""
        self.__dict__.update(state)

    def add_param_group(self, param_group: Group) -> None:
        """Add ``{"params": tensors, option: value, ...}``, for instance layers unfrozen later.

        Raises: as the class.
        """
        name = type(self).__name__
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f'{name}: a param group must be a dict with "params", got {brief(param_group)}')
        params = param_group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError(f"{name}: params is a set, whose order changes from run to run; use a list")
        parameters = [params] if isinstance(params, Tensor) else as_list(name, "params", params, "a list of tensors")
        group = {**self._plain({**self.defaults, **param_group}), "params": parameters}
        for option in group:
            if not isinstance(option, str):
                raise TypeError(f"{name}: a param group has the key {option!r}; keys must be str")
            if group[option] is required:
                raise ValueError(
                    f"{name}: {option} is required, and param group {len(self.param_groups)} has none; pass "
                    f'{option}=... to {name}, or write {{"params": ..., "{option}": ...}}'
                )
        self._check_own_entries(param_group)
        known = {id(parameter) for existing in self.param_groups for parameter in existing["params"]}
        for position, parameter in enumerate(parameters):
            which = f"{name}: params[{position}]"
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{which} must be a Tensor, got {kind_name(parameter)}{_instead(parameter)}")
            if parameter.dtype.kind != "f":  # a lazy layer's parameter has a dtype, but no array
                raise TypeError(f"{which} has dtype {parameter.dtype}; only floats can be trained")
            if not parameter.is_leaf:
                raise ValueError(f"{which} is not a leaf but the result of an operation; use tensor.detach()")
            if id(parameter) in known:
                raise ValueError(f"{which} of shape {parameter.shape} is listed more than once")
            known.add(id(parameter))
        self.check_options(group)
        self.param_groups.append(group)

    def _plain(self, group: Mapping[Any, Any]) -> Group:
        """Return the group with its options as Python numbers; the user's own entries are left as they are."""
        options = (*self.defaults, *SCHEDULER_ENTRIES)
        return {option: as_number(value) if option in options else value for option, value in group.items()}

    def _check_own_entries(self, param_group: Group) -> None:
        """Warn about a user's own entries that may be meant as options."""
        if not self.formulas:  # a custom step may read any entry
            return
        name = type(self).__name__
        own = [option for option in param_group if option not in (*self.defaults, *SCHEDULER_ENTRIES, "params")]
        check_implementation_options(
            name, {option: param_group[option] for option in own if option in IMPLEMENTATION_OPTIONS}
        )
        for option in own:
            import difflib  # only for this message

            close = difflib.get_close_matches(option, self.defaults, 1, 0.81)
            if option in CHECKS or close:
                hint = f"did you mean {close[0]!r}?" if close else f"its options are {list(self.defaults)}"
                text = f"{name}: a param group has the entry {option!r}, which is kept but changes nothing; {hint}"
                level = 1
                while in_package[sys._getframe(level - 1).f_code.co_filename]:
                    level += 1
                warnings.warn(text, UserWarning, stacklevel=level)

    def check_options(self, group: Group) -> None:
        """Raise ValueError if an option of group is out of range."""
        if self.formulas:
            self.check_numbers(group)

    def check_numbers(self, group: Group) -> None:
        """Raise ValueError if one of the options that several optimizers have is out of range."""
        for option in self.defaults:
            if option in CHECKS and option in group:
                checked = CHECKS[option](f"{type(self).__name__}: {option}", group[option])
                if type(checked) is bool:  # 1 becomes True
                    group[option] = checked

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter._grad is not None:  # a new zero array: the old one may be shared
                    parameter._grad = None if set_to_none else _zeros(parameter)
                    if getattr(parameter, "grad_sample", None) is not None:
                        parameter.grad_sample = None

    @clip_after_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, except those whose grad_req is "null"; then clip to ``limits``.

        closure: recomputes the loss (zero_grad, forward, backward); its result is returned.

        Raises:
            RuntimeError: shape or dtype of a gradient, or shape of a buffer, is not that of its parameter; nothing is
                updated.
        """
        if not self.formulas:
            raise NotImplementedError(f"{type(self).__name__} has no formulas; set them, or override step")
        loss = None
        if closure is not None:
            if not callable(closure):
                raise TypeError(
                    f"{type(self).__name__}.step: closure is {kind_name(closure)}, needs a function that computes the "
                    "loss; after loss.backward(), write step()"
                )
            with enable_grad():
                loss = closure()
        work = []
        for place, group in enumerate(self.param_groups):
            for batch, gradients in self._collect(place, group):
                counters, numbers = self._numbers_of(group, batch)
                work.append((batch, gradients, counters, numbers))
        for batch, gradients, counters, numbers in work:
            kernels.update(batch.formula, batch.arrays, gradients, *batch.columns, keep=batch.keep, **numbers)
            self.finish_update(batch, counters)
        return loss

    def _numbers_of(self, group: Group, batch: Batch) -> tuple[dict[str, Any], dict[str, float]]:
        """Return the counters of a batch's next step, and the numbers of its update."""
        counters = self.count(group, batch.states[0]) if batch.states else {}
        values = self.settings(group, counters, batch.fresh)
        return counters, {name: float(values[name]) for name in form(batch.formula).numbers}

    def _count_step(self, batch: Batch, counters: dict[str, Any]) -> None:
        for state in batch.states:
            state.update((name, counters[name]) for name in self.counters)

    # ------------------------------------------------------------------ recorded steps, see nn/recording_step.py

    @property
    def is_recordable(self) -> bool:
        """Whether ``step`` is that of this class, so that its updates can be repeated."""
        return bool(self.formulas) and type(self).step is Optimizer.step and "step" not in vars(self)

    def batches(self) -> dict[int, Batch]:
        """Return the batches of the last step, by the positions of groups that it updated as one batch."""
        return self._batches

    def next_update(self, place: int, batch: Batch) -> tuple[dict[str, Any], dict[str, float]] | None:
        """Return counters and numbers of the next update of a group; None if it would not update just this batch."""
        group = self.param_groups[place]
        if self._batches.get(place) is not batch or not batch.matches(
            self.formula(group), batch.parameters, self.state
        ):
            return None
        batch.fresh = False
        return self._numbers_of(group, batch)

    def finish_update(self, batch: Batch, counters: dict[str, Any]) -> None:
        """Note that a batch has been updated, with these counters."""
        self._count_step(batch, counters)
        # backward through a graph that needs the old values is refused
        batch.mark_changed(f"{type(self).__name__}.step")

    def formula(self, group: Group) -> Update:
        """Return the update of a step with the options of group."""
        return self.formulas[0]

    def buffers_for(self, group: Group, parameter: Tensor) -> tuple[str, ...]:
        """Return the entries of ``buffer_names`` that a step of parameter with the options of group uses."""
        return _states_of(self.formula(group)) if self.formulas else self.buffer_names

    def shape_of(self, name: str, parameter: Tensor) -> tuple[int, ...]:
        """Return the shape of the buffer ``name`` of parameter."""
        return parameter.array.shape

    def settings(self, group: Group, counters: dict[str, Any], fresh: bool) -> dict[str, Any]:
        """Return the values that an update reads: the options of group, the counters, and the betas by name.

        fresh: whether this is the first step of these parameters.
        """
        beta1, beta2 = group.get("betas", (0.0, 0.0))
        decoupled = group.get("decoupled_weight_decay")
        return {**group, **counters, "beta1": beta1, "beta2": beta2, "decoupled": decoupled}

    def count(self, group: Group, state: State) -> dict[str, Any]:
        """Return the counters of the next step; other numbers in the result are for ``settings`` alone."""
        return {name: state[name] + 1 for name in self.counters}

    def start_of(self, name: str, parameter: Tensor, group: Group) -> Tensor:
        """Return the initial value of the buffer ``name`` of parameter."""
        return _zeros(parameter)

    def _collect(self, place: int, group: Group) -> list[tuple[Batch, list[np.ndarray]]]:
        """Return the parameters of group to update in this step, as batches with their gradients."""
        trained = [
            parameter for parameter in group["params"] if parameter._grad is not None and parameter._grad_req != "null"
        ]
        if not trained:
            return []
        gradients = [parameter._grad.array for parameter in trained]
        formula = self.formula(group)
        last = self._batches.get(place)
        if last is not None and last.accepts(gradients) and last.matches(formula, trained, self.state):
            last.fresh = False
            return [(last, gradients)]
        self._check_gradients(trained, gradients)
        kinds: dict[tuple[Any, ...], list[int]] = {}
        states = []
        for number, parameter in enumerate(trained):
            used = self.buffers_for(group, parameter)
            state, fresh = self._state_of(parameter, group, used) if used or self.counters else ({}, False)
            states.append(state)
            kind = (parameter.array.dtype.char, fresh, *(state[name] for name in self.counters))
            kinds.setdefault(kind, []).append(number)
        batches = []
        for (_, fresh, *_), numbers in kinds.items():
            batch = Batch(
                formula, [trained[n] for n in numbers], [states[n] for n in numbers], used, self.counters, fresh
            )
            batches.append((batch, [gradients[n] for n in numbers]))
        if len(batches) == 1:
            self._batches[place] = batch
        return batches

    def _check_gradients(self, parameters: list[Tensor], gradients: list[np.ndarray]) -> None:
        for array, values in zip(map(array_of, parameters), gradients, strict=True):
            if array.shape != values.shape or array.dtype != values.dtype:
                raise RuntimeError(
                    f"{type(self).__name__}: a parameter has shape {array.shape} and dtype {array.dtype}, "
                    f"but its grad has {values.shape} and {values.dtype}; set grad to None or to one that fits"
                )

    def _state_of(self, parameter: Tensor, group: Group, used: tuple[str, ...]) -> tuple[State, bool]:
        """Return the counters and buffers of parameter, and whether a buffer was just created."""
        state = self.state[parameter]
        if not state:
            state.update(self.counters)
        missing = [name for name in used if name not in state]
        for name in missing:
            state[name] = self.start_of(name, parameter, group)
        array = parameter.array
        for name in used:
            buffer = state[name].array
            if buffer.shape != self.shape_of(name, parameter):
                raise RuntimeError(
                    f"{type(self).__name__}: a parameter has shape {array.shape}, but its {name} has {buffer.shape}; "
                    "the parameter was changed after earlier steps; create a new optimizer"
                )
            if buffer.dtype != array.dtype:  # the parameter was converted
                state[name] = Tensor(exact("cast")(buffer, array.dtype))
        return state, bool(missing)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return {"state": {index: buffers}, "param_groups": [options and indices]}, as in PyTorch.

        Parameters are numbered through all groups. Buffers are the optimizer's own Tensors, not copies.
        """
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers[id(parameter)] = len(numbers)
            options = {option: value for option, value in group.items() if option != "params"}
            groups.append({**options, "params": [numbers[id(parameter)] for parameter in group["params"]]})
        state = {numbers[id(parameter)]: dict(entries) for parameter, entries in self.state.items() if entries}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load options and buffers (copied) from the state_dict of an optimizer of the same parameters.

        A user's own entries come from the state_dict; those that it lacks are kept. Everything is checked first: a
        failed call changes nothing.

        Raises:
            ValueError: groups, their sizes or options, or the state of a parameter do not fit; the message says which.
        """
        saved_groups, saved_state = self.checked_groups(state_dict), state_dict["state"]
        parameters: dict[Any, Tensor] = {}
        owners: dict[Any, Group] = {}
        groups = []
        for position, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            numbers = saved["params"]
            if len({*parameters, *numbers}) != len(parameters) + len(numbers):
                raise ValueError(f"optimizer state_dict: group {position} lists a parameter twice")
            options = self._checked_options(position, group, saved)
            parameters.update(zip(numbers, group["params"], strict=True))
            groups.append({**options, "params": group["params"]})
            owners.update(dict.fromkeys(numbers, groups[-1]))
            self.check_options(groups[-1])
        state: defaultdict[Tensor, State] = defaultdict(dict)
        for number, entries in saved_state.items():
            if number not in parameters:
                raise ValueError(f"optimizer state_dict: state of parameter {brief(number)}, which is in no group")
            entries = check_table(f"optimizer state_dict: state of parameter {number}", entries)
            state[parameters[number]] = self._checked_state(number, parameters[number], entries, owners[number])
        self.param_groups[:] = groups
        self.__setstate__({"state": state, "param_groups": self.param_groups})
        self._batches.clear()

    def checked_groups(self, state_dict: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the groups of a state_dict, checking that their sizes are those of this optimizer's groups.

        Raises:
            ValueError: it is not a state_dict, or the number or sizes of the groups differ.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= state_dict.keys():
            raise ValueError('optimizer state_dict: expected a dict with "state" and "param_groups"')
        saved_groups = items(check_table)("optimizer state_dict: param_groups", state_dict["param_groups"])
        check_table("optimizer state_dict: state", state_dict["state"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                f"optimizer state_dict: it has {len(saved_groups)} parameter groups, "
                f"this optimizer has {len(self.param_groups)}"
            )
        found = []
        for position, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            numbers = items(_key)(f"optimizer state_dict: params of group {position}", saved.get("params"))
            if len(numbers) != len(group["params"]):
                raise ValueError(
                    f"optimizer state_dict: group {position} holds {len(numbers)} parameters, "
                    f"this optimizer's holds {len(group['params'])}"
                )
            found.append({**saved, "params": numbers})
        return found

    def _checked_options(self, position: int, group: Group, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a saved group, and the user's own entries.

        Options that default to False may be missing from older files.
        """
        optional = {option: False for option, value in self.defaults.items() if value is False}
        unused = [option for option in IMPLEMENTATION_OPTIONS if option not in self.defaults]
        options = self._plain({name: value for name, value in saved.items() if name not in (*unused, "params")})
        options = {**{name: value for name, value in optional.items() if name not in options}, **options}
        added = [option for option in options if option not in (*self.defaults, *SCHEDULER_ENTRIES)]
        others = CHECKS if self.formulas else ()  # options that only other optimizers have
        foreign = [name for name in added if not isinstance(name, str) or (name in others and name not in group)]
        if foreign or not self.defaults.keys() <= options.keys():
            raise ValueError(
                f"optimizer state_dict: group {position} has the options "
                f"{names(option for option in saved if option != 'params')}, "
                f"{type(self).__name__} has {sorted(self.defaults)}"
            )
        options.update((option, copy.deepcopy(options[option])) for option in added)
        for option in SCHEDULER_ENTRIES:
            if option in options:
                number_of()(f"optimizer state_dict: {option} of group {position}", options[option])
        return {
            **{name: value for name, value in group.items() if name not in (*SCHEDULER_ENTRIES, "params")},
            **options,
        }

    def _checked_state(self, number: Any, parameter: Tensor, entries: Mapping[str, Any], group: Group) -> State:
        """Return a copy of entries with buffers in parameter's memory order and dtype.

        The entries stay unchanged if only a custom ``step`` knows what they mean.
        """
        if not self.formulas and not self.buffer_names:
            return copy.deepcopy(dict(entries))
        where, used = f"optimizer state_dict: state of parameter {number}", self.buffers_for(group, parameter)
        entries = {name: value for name, value in entries.items() if value is not None}  # PyTorch's SGD saves None
        known = {*self.buffer_names, *self.counters}
        if not {*used, *self.counters} <= set(entries) <= known:
            raise ValueError(
                f"{where} has the entries {names(entries)}, "
                f"{type(self).__name__} needs {sorted({*used, *self.counters})}"
            )
        checked: State = {}
        for name, start in self.counters.items():
            checked[name] = checked_number(f"{where}: {name}", entries[name], isinstance(start, int))
        for name in self.buffer_names:
            if name not in entries:
                continue
            array = array_like(f"{where}: {name}", entries[name])
            shape = self.shape_of(name, parameter)
            if array.shape != shape or array.dtype.kind != "f":
                raise ValueError(
                    f"{where}: {name} has shape {array.shape} and dtype {array.dtype}, "
                    f"the parameter has shape {parameter.array.shape} and dtype {parameter.array.dtype}"
                )
            whole = shape == parameter.array.shape
            checked[name] = _zeros(parameter) if whole else self.start_of(name, parameter, group)
            target = checked[name].array
            # a float64 beyond float32's range becomes infinite
            kernels.copy(target, array if array.dtype == target.dtype else exact("cast")(array, target.dtype))
        return checked

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for position, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {position}")
            lines += [f"    {option}: {group[option]}" for option in sorted(group) if option != "params"]
        return "\n".join([*lines, ")"])


def _instead(parameter: Any) -> str:
    """Return what to pass instead of something that is no parameter."""
    if isinstance(parameter, (list, tuple, Iterator)):
        return "; put all into one list: [*a.parameters(), *b.parameters()]"
    if isinstance(parameter, np.ndarray):
        return "; make it one: nn.Parameter(retrograd.tensor(array))"
    return "; pass model.parameters()" if isinstance(parameter, str) or hasattr(parameter, "parameters") else ""


def _zeros(parameter: Tensor) -> Tensor:
    """Return a zero Tensor of parameter's shape, dtype and memory order."""
    return wrap(zeros_like(parameter.array))


def array_like(name: str, value: Any) -> np.ndarray:
    """Return the array of a buffer from a state_dict.

    Raises:
        ValueError: the value is not an array.
    """
    if isinstance(value, Tensor):
        return value.array
    if not isinstance(value, (np.ndarray, list, tuple, int, float, np.generic)):
        raise ValueError(f"{name} is {brief(value)}; it must be a Tensor or an array")
    return from_host(value)


def checked_number(name: str, value: Any, integer: bool) -> Any:
    """Return a number of a state_dict, which may be in a Tensor.

    Raises:
        ValueError: value is not a finite number, or with ``integer`` not an integer of at least 0.
    """
    array = array_like(name, value)
    found = number_in(array, "a number of a saved state") if array.size == 1 and array.dtype.kind in "iuf" else math.nan
    if not math.isfinite(found):
        raise ValueError(f"{name}={brief(value)} is not a {'count' if integer else 'finite number'}")
    if not integer:
        return float(found)
    if not 0 <= found <= _MAX_STEPS or found % 1:
        raise ValueError(f"{name}={brief(value)} is not a count; expected an integer >= 0")
    return int(found)


def _key(name: str, value: Any) -> int | str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{name} is {brief(value)}; it must be the index of a parameter")
    return value


def _states_of(formula: Update) -> tuple[str, ...]:
    """Return the states of an update: the operands after the parameter and its gradient."""
    return form(formula).operands[2:]
