"""Recordings of ``compile``: a call's launches, and their replay as one node of the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

from .. import kernel_set
from ..arrays import copies, empty_like, host, span
from ..engine.aliasing import check_unchanged, mark_changed
from ..engine.function import Function
from ..engine.grad_mode import INFERENCE, is_graph_retained, thread
from ..engine.memory_planning import root
from ..engine.steps import Step, Steps
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.random.dropout import random_key
from ..ops.random.random import default_generator
from ..specs.array_spec import arrays_in
from .recording_references import PLAIN
from .recording_step import Training

Upstream = list[tuple[int, ...] | None]  # the strides of upstream gradients; None where a result gets none
_Part = tuple[Any, host.Decision | None]  # a program of launches, and a decision after them


class Recording:
    """The launches of a call, the arrays that it reads its arguments from, and its result.

    upstream: the gradients of the results, for the launches ``back`` of a backward pass, which give ``grads``: None
    where the result does not depend on a tensor. uses: the places of the tensors that these belong to, since a
    tensor may have several that are not added up. read_back, results_back: the tensors that these read, and the places
    of results. again: gives ``grads`` by running the function, for upstream gradients in another memory order, which
    may lead to other kernels, or after another decision.
    """

    def __init__(
        self, steps: Steps, inputs: list[np.ndarray], forward: int, decided: int, training: Training | None = None
    ) -> None:
        self.steps, self.inputs, self.training = steps, inputs, training
        numbers = None if training is None else training.numbers
        self.parts = parts_of(steps, 0, forward, steps.decisions[:decided], numbers)
        self.back = parts_of(steps, forward, len(steps), steps.decisions[decided:])
        self._uses = _Uses(steps, (*self.parts, *self.back))
        arrays = [each.array for each in tensors_in(steps.result)]
        self._uses.hold_shared(arrays)
        self.results = [Port(array, self._uses) for array in arrays]
        self._upstream_ports: list[Port] = []
        self._grad_ports: list[Port] = []
        self.runs = 0
        self.is_random = any(step.kernel == "dropout" for step in steps)
        self.random: Any = None  # the state of the random numbers before the last run
        self.grads: list[np.ndarray | None] = []
        self.read_back: list[Tensor] = []
        self.results_back: list[int] = []
        self.has_rules = False  # whether a module has a backward rule, which ``without_backward_rules`` turns off
        self.uses: Sequence[int] = ()
        self.used: Upstream | None = None  # as recorded; None: all results
        self.again: Callable[..., list[Tensor | None]] | None = None
        self.undone: list[tuple[np.ndarray, np.ndarray]] = []  # what another run must find as before, with copies
        self.marked: list[np.ndarray] = []  # whose changes a backward pass must notice, as in eager mode
        self.read_again: list[np.ndarray] = []  # that ``again`` reads, and that the call does not change
        self.misses = 0  # how many runs in succession led to other decisions
        self.threads = kernels.get_num_threads()  # for which there is scratch
        self.lock = Lock()
        self.owner: Any = None  # a reference to the node whose backward has not run

    def set_backward(self, upstream: list[np.ndarray], grads: list[np.ndarray | None], used: Upstream | None) -> None:
        """Set the arrays of the upstream gradients, and of the gradients."""
        self.grads, self.used = grads, used
        self._upstream_ports = [Port(array, self._uses) for array in upstream]
        kept = [array for array in grads if array is not None]
        self._uses.hold_shared((*upstream, *kept))
        self._grad_ports = [Port(array, self._uses) for array in kept]

    def has_upstream_of(self, strides: Upstream) -> bool:
        """Whether the upstream gradients were recorded with these strides, and for the same results."""
        if None in strides or self.used is not None and None in self.used:
            return strides == self.used
        return [port.array.strides for port in self._upstream_ports] == strides

    def run_back(self, upstream: Sequence[np.ndarray]) -> list[np.ndarray | None] | None:
        """Return the gradients, in new arrays; None after other decisions, or for other settings of the kernels."""
        if kernel_set.listeners or kernels._active != "compiled" or kernels.get_num_threads() > self.threads:
            return None
        for port, g in zip(self._upstream_ports, upstream, strict=True):
            port.read(g)
        for port in self._grad_ports:
            port.renew()
        done = run_parts(self.back)
        made = iter([port.taken() for port in self._grad_ports])
        for port in (*self._upstream_ports, *self.results):
            port.reset()
        return [None if y is None else next(made) for y in self.grads] if done else None

    def __str__(self) -> str:
        """Steps, launches and memory; then decisions that are made again, fused steps, and updates of optimizers."""
        launches = sum(len(program.calls) for program, _ in (*self.parts, *self.back))
        lines = [f"{len(self.steps)} steps, {launches} launches; {self.steps.memory}"]
        why = [each.why for _, each in self.steps.decisions]
        if why:
            lines.append(f"in {len(why) + 1} segments, between which Python checks {'; '.join(dict.fromkeys(why))}")
        kinds = Counter(step.name for step in self.steps if _is_fused(step))
        if kinds:
            lines.append("fused: " + ", ".join(f"{count} {name}" for name, count in sorted(kinds.items())))
        if self.training is not None:
            names = Counter(type(each.optimizer).__name__ for each in self.training.updates.values())
            delivered = sum(each.after is not None and not each.kept for each in self.training.deliveries)
            updates = "".join(f", {count} update{'s' * (count > 1)} of {name}" for name, count in names.items())
            lines.append(f"a training step: {delivered} gradients{updates}")
        called = Counter(step.name for at, step in enumerate(self.steps) if self.steps[at : at + 1].calls() is None)
        if called:
            lines.append("called, since they have no plan: " + ", ".join(f"{n} {name}" for name, n in called.items()))
        return "\n  ".join(lines)

    @property
    def is_free(self) -> bool:
        """Whether no backward needs what the memory holds."""
        return self.owner is None or self.owner() is None

    def run(self, arrays: Sequence[np.ndarray]) -> bool:
        """Run the forward pass on other arguments; False if they lead to other decisions."""
        if kernels.get_num_threads() > self.threads:  # another thread has raised it since the recording was chosen
            return False
        self.runs += 1
        for array, kept in self.undone:
            copies.put(kept, array)
        for own, given in zip(self.inputs, arrays, strict=True):
            copies.put(own, given)
        for port in self.results:
            port.renew()
        if self.is_random:
            self.random = default_generator.get_state()
        if run_parts(self.parts):
            self.misses = 0
            if self.marked:
                mark_changed(self.marked, "a recorded call")
            return True
        self.misses += 1
        for array, kept in self.undone:
            copies.put(array, kept)
        if self.is_random:
            default_generator.set_state(self.random)
        return False


def _is_fused(step: Step) -> bool:
    """Whether a step was several; chains are named such as mul+relu."""
    return "+" in step.name or step.kernel.endswith(("_clamp", "_clamp_grad", "conv_max_pool"))


_LARGE = 1 << 16  # bytes: replacing a smaller array takes as long as a copy


class Port:
    """An array of a recording that another one replaces in each run, so that it need not be copied.

    That is possible if all launches take the array or views of it, and no tables of addresses. Otherwise its elements
    are copied.
    """

    def __init__(self, array: np.ndarray, uses: _Uses) -> None:
        self.array = self._now = array
        self._places: list[tuple[Any, int, int, np.ndarray]] = []
        self._is_replaced = False
        if array.nbytes < _LARGE or id(root(array)) in uses.fixed:
            return
        low, high = span(array)
        for program, at, place, each, begin, end in uses.arguments:
            if begin < high and low < end:
                if begin < low or end > high:
                    return
                self._places.append((program, at, place, each))
        self._is_replaced = bool(self._places)

    def _put(self, array: np.ndarray) -> None:
        self._now = array
        for program, at, place, before in self._places:
            program.replace(at, place, before if array is self.array else copies.same_view(before, self.array, array))

    def renew(self) -> None:
        """Let the next run write to a new array."""
        if self._is_replaced and (other := empty_like(self.array)).strides == self.array.strides:
            self._put(other)

    def read(self, array: np.ndarray) -> None:
        """Let the next run read an array of the same layout."""
        if self._is_replaced:
            self._put(array)
        else:
            copies.put(self.array, array)

    def present(self) -> np.ndarray:
        """Return what the run has written, in an array that the next one does not write to."""
        return copies.duplicate(self.array) if self._now is self.array else self._now

    def reset(self) -> None:
        """Forget the array of the last run."""
        if self._now is not self.array:
            self._put(self.array)

    def taken(self) -> np.ndarray:
        """Return what the run has written, and forget it."""
        found = self.present()
        self.reset()
        return found


class _Uses:
    """The arrays that are arguments of launches, with their addresses, and the ids of those that are used otherwise."""

    def __init__(self, steps: Steps, parts: Sequence[_Part]) -> None:
        self.arguments: list[tuple[Any, int, int, np.ndarray, int, int]] = []
        otherwise = [array for _, decision in parts if decision is not None for array in decision.arrays]
        for at, step in enumerate(steps):
            if not steps.takes_arrays(at):
                otherwise += arrays_in((step.args, step.kwargs, step.result))
        for program, _ in parts:
            for at, (_, arguments, check) in enumerate(program.calls):
                for place, each in enumerate(arguments):
                    if isinstance(each, np.ndarray) and each.size:
                        self.arguments.append((program, at, place, each, *span(each)))
                if check is not None:
                    otherwise.append(check)
        self.fixed = {id(root(array)) for array in otherwise}

    def hold_shared(self, arrays: Sequence[np.ndarray]) -> None:
        """Keep arrays in their memory that are among these twice, or of which one is a view of another."""
        found = Counter(id(root(array)) for array in arrays)
        self.fixed.update(key for key, count in found.items() if count > 1)


def run_parts(parts: list[_Part]) -> bool:
    for program, checked in parts:
        program.run()
        if checked is not None and not checked.holds():
            return False
    return True


class Replayed(Function):
    """A replayed call with gradients; its results are those of ``recording``, one after another."""

    _needs_all_saved = True

    @staticmethod
    def forward(ctx: Any, recording: Recording, arrays: Sequence[np.ndarray], *tensors: Tensor) -> Any:
        with recording.lock:
            if not recording.is_free or not recording.run(arrays):  # another thread may have been faster
                raise OtherDecisionError
            recording.owner = ref(ctx)
            ctx.is_run = False
            ctx.set_materialize_grads(False)
            results = [wrap(port.present()) for port in recording.results]
        ctx.recording = recording
        ctx.save_for_backward(*recording.read_back, *[results[place] for place in recording.results_back])
        recorded = tensors_in(recording.steps.result)
        if constant := [y for y, x in zip(results, recorded, strict=True) if not x._requires_grad]:
            ctx.mark_non_differentiable(*constant)
        return (*results,)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        recording: Recording | None = ctx.recording
        if recording is None:  # its edges lead to the nodes of a second run
            return grads
        _ = ctx.saved_tensors  # an error if one of them has been changed in place
        if recording.owner is None or recording.owner() is not ctx:
            raise RuntimeError(
                "compile: the graph of a recorded call was freed by its backward; pass retain_graph=True to the first"
            )
        given = [g for g, x in zip(grads, tensors_in(recording.steps.result), strict=True) if x._requires_grad]
        needed = ctx.needs_input_grad[2:]
        with recording.lock:
            try:
                found = _gradients(ctx, recording, given)
            finally:
                if not is_graph_retained():
                    recording.owner = None
        return None, None, *[y if need else None for y, need in zip(found, needed, strict=True)]


def _gradients(ctx: Any, recording: Recording, given: list[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients of a call, by its launches where these fit, else by running the function again."""
    assert recording.again is not None
    if thread.mode.enabled:  # the gradients have a graph
        check_unchanged(ctx, recording.read_again)
        first = {place: at for at, place in reversed([*enumerate(recording.uses)])}
        edges = [ctx.edges[2 + first[each]] for each in sorted(first)]
        with_graph = recording.again(given, recording.random, False, edges, ctx)
        recording.owner = ctx.recording = None
        return with_graph
    fits = recording.has_upstream_of([None if g is None else g.array.strides for g in given])
    if fits and not ctx.is_run and not (recording.has_rules and thread.mode.rules_disabled):
        ctx.is_run = True  # the launches overwrite what they read
        found = recording.run_back([g.array for g in given if g is not None])
        if found is not None:
            return [None if y is None else wrap(y) for y in found]
    check_unchanged(ctx, recording.read_again)
    return recording.again(given, recording.random, not fits)


class OtherDecisionError(Exception):
    """The values of the arguments lead to other decisions than those recorded, such as an error."""


def parts_of(
    steps: Steps,
    begin: int,
    last: int,
    decisions: Sequence[tuple[int, host.Decision]],
    numbers: dict[int, dict[str, float]] | None = None,
) -> list[_Part]:
    """The launches of some steps in an arena, cut where a decision follows; steps without a plan are called.

    numbers: of updates, by the number of the step, as they are when the launches run.
    """
    found: list[_Part] = []
    for end, checked in [*decisions, (last, None)]:
        calls: list[Any] = []
        for at in range(begin, end):
            one = steps[at : at + 1]
            planned = one.calls()
            if steps[at].kernel == "dropout" and (run := steps.with_numbers(at, "key", "stream")) is not None:
                planned = [(_with_random_key, (run,), None)]
            if numbers is not None and at in numbers and (run := steps.with_numbers(at)) is not None:
                planned = [(_with_numbers_of, (run, numbers, at), None)]
            calls += [(one.run, (), None)] if planned is None else planned
        found.append((kernel_set.program_of(calls), checked))
        begin = end
    return found


def _with_random_key(run: Callable[..., None]) -> None:
    key, stream = random_key()
    run(key=key, stream=stream)


def _with_numbers_of(run: Callable[..., None], numbers: dict[int, dict[str, float]], at: int) -> None:
    run(**numbers[at])


def taken(recording: Recording, inference: bool) -> Any:
    """The result of a run, with tensors of its own."""
    found = [wrap(port.taken()) for port in recording.results]
    for each in found if inference else ():
        each._grad_req = INFERENCE
    return with_tensors(recording.steps.result, found)


def with_tensors(result: Any, tensors: Sequence[Tensor]) -> Any:
    """The result of a call with other tensors; one that it contains twice is one tensor again."""
    others = iter(tensors)
    found: dict[int, Tensor] = {}
    return mapped_tensors(result, lambda tensor: found.setdefault(id(tensor), next(others)))


def is_container(value: Any) -> bool:
    """Whether a value is a tuple, list or dict whose tensors are arguments of a recorded call."""
    if type(value) is dict:
        return all(type(name) is str for name in value)
    return type(value) in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def mapped_tensors(value: Any, function: Callable[[Any], Any], kind: type = Tensor) -> Any:
    """The arguments or the result of a call with its tensors, or values of another kind, replaced, in order."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (tuple, list)):
        parts = [mapped_tensors(each, function, kind) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: mapped_tensors(each, function, kind) for key, each in value.items()}
    return value


def form_of(value: Any) -> Any:
    """Return a fingerprint of the containers among the arguments of a call; it changes with what they contain."""
    if isinstance(value, (tuple, list)):
        return type(value), *map(form_of, value)
    if isinstance(value, dict):
        return (dict, *value, *map(form_of, value.values()))
    return id(value)


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of a result, and values that are neither tensors nor plain."""
    if type(value) in (tuple, list) or hasattr(value, "_fields"):
        for each in value:
            yield from tensors_in(each)
    elif type(value) is dict:
        yield from tensors_in([*value.values()])
    elif not isinstance(value, PLAIN):
        yield value
