"""A call that ``compile`` recorded twice: what both runs have in common, and why it cannot be replayed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..arrays import copies, host, is_constant, shares_memory, span
from ..engine.arguments import kind_name
from ..engine.batch_norm_fusion import with_fused_batch_norms
from ..engine.call_site import describe_call_site
from ..engine.freezing import frozen
from ..engine.fusion import fused
from ..engine.memory_planning import plan_if_any, root
from ..engine.steps import Outline, Steps
from ..engine.tensor import Tensor
from ..specs.array_spec import Spec, leaves
from .recording import parts_of, run_parts, tensors_in
from .recording_state import Generators
from .recording_step import Delivery


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
