"""Recordings of ``compile``: a call's launches, their replay as one node of the graph, and what cannot be replayed."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
from threading import Lock
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from .. import kernel_set
from ..arrays import copies, empty_like, host, is_constant, shares_memory, span
from ..engine.aliasing import check_unchanged, mark_changed
from ..engine.arguments import kind_name
from ..engine.batch_norm_fusion import with_fused_batch_norms
from ..engine.call_site import describe_call_site
from ..engine.freezing import frozen
from ..engine.function import Function
from ..engine.fusion import fused
from ..engine.grad_mode import INFERENCE, is_graph_retained, thread
from ..engine.memory_planning import plan_if_any, root
from ..engine.steps import Outline, Step, Steps
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.random.dropout import random_key
from ..ops.random.random import default_generator
from ..specs.array_spec import Spec, arrays_in, leaves
from .recording_references import PLAIN
from .recording_state import Generators
from .recording_step import Delivery, Training

# ---- Replay ----------------------------------------------------------------------------------------------------------

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


# ---- What two recorded calls have in common --------------------------------------------------------------------------


class Needed(NamedTuple):
    """An argument that is a tensor: whether its gradient is needed."""

    gradient: bool


class Call(NamedTuple):
    """The steps of a call and of its backward, and the arrays of its own.

    forward, decided: how many steps and decisions belong to the call itself. delivered: the gradients of a
    training step; None for a call that delivers none. uses, marked: as in ``Recording``.
    """

    steps: Steps
    inputs: list[np.ndarray]
    forward: int
    decided: int
    upstream: list[np.ndarray]
    grads: list[np.ndarray | None]
    delivered: list[Delivery] | None = None
    uses: Sequence[int] = ()
    marked: Sequence[np.ndarray] = ()


def read_outside(call: Call, held: list[np.ndarray]) -> list[np.ndarray]:
    """The arrays that are read or written outside of the steps of a call."""
    results = [value.array for value in tensors_in(call.steps.result)]
    grads = [*call.grads, *(each.after for each in call.delivered or ())]
    return [*held, *call.inputs, *call.upstream, *results, *(g for g in grads if g is not None)]


def frozen_steps(call: Call, held: list[np.ndarray]) -> Steps | str:
    """The steps with constant weights."""
    wanted = [copies.duplicate(value.array) for value in tensors_in(call.steps.result)]
    given = [copies.same_layout(array) for array in call.inputs]
    others = [copies.other_numbers(array) for array in call.inputs]
    outside = read_outside(call, held)
    fewer, constants = frozen(call.steps, held, outside)
    fewer, _ = fused(*with_fused_batch_norms(fewer, len(fewer), outside), outside)
    del outside
    call.steps.clear()  # what refers to an array keeps it out of the arena
    varying: list[int] = []
    while True:
        steps = fewer.in_arena(constants, varying)
        parts = parts_of(steps, 0, len(steps), steps.decisions)
        for arrays in (others, given):
            for array, value in zip(call.inputs, arrays, strict=True):
                copies.put(array, value)
            run_parts(parts)
        if not (found := steps.overwritten()):
            break
        varying += found
    if all(map(copies.about_equal, [value.array for value in tensors_in(steps.result)], wanted)):
        return steps
    return "with constant weights, the result would be another one"


@contextmanager
def put_back_after(arrays: Sequence[np.ndarray], generators: Generators) -> Iterator[Callable[[], None]]:
    """Put the elements of the arrays back, when the result is called and at the end, and then the random numbers."""
    random, kept = generators.states(), [copies.duplicate(array) for array in arrays]

    def put_back() -> None:
        for array, before in zip(arrays, kept, strict=True):
            if array.flags.writeable:
                copies.put(array, before)

    try:
        yield put_back
    finally:
        put_back()
        generators.set_states(random)


_uncollected = 0  # recordings under way, while which automatic collection is off
_counting = Lock()


@contextmanager
def older_objects_uncollected() -> Iterator[None]:
    """Keep what a recording makes young, so that ``gc.collect`` can pass over all older objects.

    To visit all objects of a process took most of the time of a recording.
    """
    global _uncollected
    with _counting:
        is_on = gc.isenabled() or _uncollected > 0
        _uncollected += is_on
        gc.disable()
    try:
        yield
    finally:
        with _counting:
            _uncollected -= is_on
            if is_on and not _uncollected:
                gc.enable()


def collect_young() -> None:
    """Collect what was made since ``older_objects_uncollected`` began, also if a part was collected meanwhile."""
    gc.collect(1 if sys.version_info < (3, 14) else 2)  # since 3.14, generation 1 is only a part of the older objects


def difference(call: Call, again: Call) -> str | None:
    """Return a difference between the steps of two calls; the second one has layouts in place of arrays."""
    steps, others = call.steps, again.steps
    if reason := _value_read(steps):
        return reason
    for place, step in enumerate(steps):
        if any(isinstance(leaf, (bool, int, float)) for leaf in leaves(step.result)):
            return f"Python reads a number that {step.name} computes{_line(steps, place)}"
    if len(steps) != len(others) or call.forward != again.forward:
        names = [step.kernel for step in steps], [step.kernel for step in others]
        place = next((at for at, (a, b) in enumerate(zip(*names, strict=False)) if a != b), min(map(len, names)))
        return f"{DEPENDS}{_line(max(steps, others, key=len), place)}"
    if call.decided != again.decided or len(steps.decisions) != len(others.decisions):
        return "a decision depends on values"
    for (place, made), (at, again_made) in zip(steps.decisions, others.decisions, strict=True):
        if (place, made.why, made.others, made.found) != (at, again_made.why, again_made.others, again_made.found):
            return f"Python reads {made.why}"
    for place, (one, other) in enumerate(zip(steps, others, strict=True)):
        if one.kernel != other.kernel:
            return f"the steps depend on values: {one.name} or {other.name}{_line(steps, place)}"
        if one.kernel == "dropout":  # its random numbers are drawn at each replay
            one, other = (step._replace(args=step.args[:2]) for step in (one, other))
        a, b = ([*leaves((step.args, step.kwargs))] for step in (one, other))
        if len(a) != len(b) or not all(map(_alike, a, b)):
            return f"a number of {one.name} depends on values or is random{_line(steps, place)}"
    return None


def needs_results(call: Call, known: list[np.ndarray]) -> bool:
    """Whether a call must be recorded with true results, since NumPy may compute from them."""
    given = {id(root(array)) for array in (*call.inputs, *call.upstream, *known)}
    others = [each for each in call.steps.sources() if id(each) not in given and not is_constant(each)]
    if any(array.size != 1 or array.item() != 1 for array in others):  # 1: such as the upstream gradient
        return True
    return any(id(root(array)) not in given for array in _unmade_results(call))


def _returned(value: Any) -> Any:
    """Return a result with the layouts of its tensors in place of these, to be compared."""
    if isinstance(value, Tensor):
        return value.array.shape, value.array.dtype
    if isinstance(value, dict):
        return [(key, _returned(each)) for key, each in value.items()]
    return [type(value), *map(_returned, value)] if isinstance(value, (tuple, list)) else repr(value)


def _unmade_results(call: Call) -> list[np.ndarray]:
    """The results that no step makes."""
    made = {id(root(array)) for step in call.steps for array in step.outputs}
    results = [value.array for value in tensors_in(call.steps.result) if isinstance(value, Tensor)]
    return [array for array in results if id(root(array)) not in made]


DEPENDS = "the number of steps depends on values"


def _line(steps: Steps, place: int) -> str:
    """The user's line of a step, for the end of a sentence."""
    return f", in {describe_call_site(steps.sites[place])}" if place < len(steps.sites) else ""


def _reader(steps: Steps, array: np.ndarray) -> str:
    """The user's line that first reads an array."""
    owner = root(array)
    places = (place for place, step in enumerate(steps) if any(root(each) is owner for each in step.inputs))
    return _line(steps, next(places, len(steps)))


def _value_read(steps: Steps) -> str | None:
    """Return the first read of an array by Python that no decision repeats."""
    decisions = iter([*[each.why for _, each in steps.decisions], None])
    following = next(decisions)
    for why, site in zip(steps.reads, steps.read_sites, strict=True):
        if why != following:
            return f"Python reads {why}, in {describe_call_site(site)}"
        following = next(decisions)
    return None


def simplified(call: Call, again: Call, known: list[np.ndarray]) -> Call | str:
    """The call without decisions about constants; those about arrays that no step changes come before all steps.

    An array that is neither known, nor of the call or a result of its steps, is a constant if it is the same in both
    calls, else the reason why there can be no recording.
    """
    steps = call.steps
    own = {id(root(array)) for array in call.inputs}
    others = {id(root(array)) for array in (*known, *call.upstream)}
    others |= {id(root(array)) for step in steps for array in step.outputs}
    changed = {id(root(array)) for step in steps for array in step.changed}
    unchanged = own | {id(root(array)) for array in known} - changed
    copied = {
        id(root(step.result)): step.args[0]
        for step in steps
        if step.kernel == "duplicate" and id(root(step.args[0])) in unchanged and id(root(step.result)) not in changed
    }
    first: list[tuple[int, host.Decision]] = []
    parts: tuple[list[tuple[int, host.Decision]], ...] = [], []
    for number, ((place, one), (_, other)) in enumerate(zip(steps.decisions, again.steps.decisions, strict=True)):
        one = one._replace(arrays=tuple([copied.get(id(root(array)), array) for array in one.arrays]))
        roots = [id(root(array)) for array in one.arrays]
        for each, a, b in zip(roots, one.arrays, other.arrays, strict=True):
            if each not in own | others and (a is b or not copies.same_bits(a, b)) and not is_constant(root(a)):
                return f"Python reads {one.why} from an array that NumPy computes"
        if unchanged.issuperset(roots):
            first.append((0, one))
        elif not (own | others).isdisjoint(roots):
            parts[number >= call.decided].append((place, one))
    steps.decisions = [*first, *parts[0], *parts[1]]
    return call._replace(decided=len(first) + len(parts[0]))


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, Spec) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    return a is b or type(a) is type(b) and (a == b or repr(a) == repr(b))


def changed_before_decisions(call: Call, known: list[np.ndarray]) -> list[np.ndarray]:
    """The known arrays that a call changes before its last decision: running statistics before labels are checked."""
    last = max((place for place, _ in call.steps.decisions[: call.decided]), default=0)
    changed = {id(root(array)) for step in call.steps[:last] for array in step.changed}
    return [*{id(root(array)): root(array) for array in known if id(root(array)) in changed}.values()]


def changed_after_use(call: Call, known: list[np.ndarray]) -> list[np.ndarray]:
    """The known arrays whose elements a call uses and changes, such as the vectors of a spectral norm.

    Running statistics are not among them: their elements only go into new running statistics.
    """
    held = {id(root(array)) for array in known}
    changed: dict[int, np.ndarray] = {}
    used: set[int] = set()
    for step in call.steps[call.forward - 1 :: -1] if call.forward else ():
        made = {id(root(array)) for array in step.outputs}
        if not made <= held or made & used:
            used |= {id(root(array)) for array in step.inputs} & held
        changed.update({id(root(array)): root(array) for array in step.changed if id(root(array)) in held})
    return [array for key, array in changed.items() if key in used]


_MOST_UNDONE = 1 << 20  # bytes that a replay copies, to put them back after another decision


_MOST_COMPARED = 1000  # steps of NumPy's search for a common element


def unsafe(call: Call, known: list[np.ndarray], other: Call, again: Outline) -> str | None:
    """Why the steps cannot be replayed, which ran again with other numbers: as the other call, ``again``."""
    steps = call.steps
    own = {id(root(array)) for array in (*call.inputs, *call.upstream)}
    held = {id(root(array)) for array in known}
    for array, same in zip(steps.sources(), again.sources, strict=True):
        if same is not array and held.issuperset((id(array), id(same))):
            return "it reads another parameter or buffer for other values" + _reader(steps, array)
        if id(root(array)) in own or id(root(array)) in held or is_constant(array):
            continue
        if same is array:
            reason = f"it reads an array of shape {array.shape} that is no argument, parameter or buffer: pass it"
            return reason + _reader(steps, array)
        if not copies.same_bits(array, same):
            reason = f"NumPy computes an array of shape {array.shape} from values, or with random numbers"
            return reason + _reader(steps, array)
    foreign = {id(owner): owner for array in (*steps.sources(), *known) if (owner := root(array)).base is not None}
    spans = sorted(map(span, foreign.values()))
    if any(low < high for (_, high), (low, _) in pairwise(spans)):
        return "two arrays share memory that is not NumPy's"
    pending = steps.decisions[: call.decided], steps.decisions[call.decided :]
    read = {id(array) for array in steps.sources()}
    can_undo = sum(array.nbytes for array in changed_before_decisions(call, known)) <= _MOST_UNDONE
    for place, (step, changed) in enumerate(zip(steps, again.changed, strict=True)):
        line = _line(steps, place)
        if step.inputs and step.host and plan_if_any(step) is None:
            return f"{step.name} has no plan, and {step.host}{line}"
        later = [each.why for at, each in pending[place >= call.forward] if at > place]
        for array, unmade in zip(step.changed, changed, strict=True):
            if later and id(root(array)) in held and (place >= call.forward or not can_undo):
                return f"Python reads {later[0]} after {step.name} has changed a parameter or buffer{line}"
            if id(root(array)) in own:
                return f"{step.name} changes an argument in place{line}"
            if id(root(array)) not in held and (root(array) is unmade or id(root(array)) in read):
                whose = "no argument, parameter or buffer" if root(array) is unmade else "made by NumPy"
                return f"{step.name} changes an array of shape {array.shape} that is {whose}{line}"
    gradients = {id(root(each.after)) for each in call.delivered or () if each.after is not None}
    for value in tensors_in(steps.result):
        if type(value) is not Tensor:
            return f"the result contains {kind_name(value)}"
        if id(root(value.array)) in own | held:
            return "it returns an argument or parameter, or a view of one"
        if id(root(value.array)) in gradients:
            return "it returns the gradient of a parameter, or a view of one: return a clone"
    if _returned(steps.result) != _returned(other.steps.result):
        return "what it returns depends on values"
    from_elsewhere = {*map(id, _unmade_results(call))}
    for one, same in zip(tensors_in(steps.result), tensors_in(other.steps.result), strict=True):
        if id(one.array) in from_elsewhere and one.array is same.array and not is_constant(one.array):
            return f"it returns an array of shape {one.shape} that is no argument, parameter or buffer"
        if id(one.array) in from_elsewhere and not copies.same_bits(one.array, same.array):
            return f"NumPy computes a result of shape {one.shape} from values"
    results = {id(value): value.array for value in tensors_in(steps.result)}
    if any(root(a) is root(b) and shares_memory(a, b, _MOST_COMPARED) for a, b in combinations(results.values(), 2)):
        return "two of its results share memory: return a clone of one"
    return None
