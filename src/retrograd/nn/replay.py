"""``compile``: calls recorded once and replayed without Python between the kernels.

The first call with arguments of new layouts runs the function twice, and records its steps (``engine/steps``), with
gradients also those of a backward pass. Nothing with a plan is computed then, since that would take most of the time,
and memory: numbers that differ between the two runs stand in for the results, unless a decision or NumPy may read them.
Further calls copy the arguments into the recorded arrays and run the kernels' launches, prepared once, on memory that
was planned once. What a recording depends on is compared before each replay; a call that cannot be recorded, or whose
recording no longer holds, runs as usual. So the results are those of the function, to the bit.

A call with gradients is one node of the graph. Its memory holds what backward needs; until that has run, or the result
is gone, further calls run as usual.

Model: CUDA graphs, and PyTorch's ``torch.compile``, whose signature it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import repeat
from operator import attrgetter, is_
from threading import get_ident
from typing import Any

import numpy as np

from .. import kernel_set
from ..arrays import copies, host, return_freed_memory
from ..engine.aliasing import change_since, next_order, recorded_changes
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad, grad_since
from ..engine.batch_norm_fusion import with_fused_batch_norms
from ..engine.dtype import default_dtype, set_default
from ..engine.fusion import fused
from ..engine.grad_mode import enable_grad, thread
from ..engine.hooks import has_hooks, without_hooks
from ..engine.memory_planning import root
from ..engine.recording_gate import gate
from ..engine.steps import Outline, record_layouts, record_steps
from ..engine.tensor import Tensor, wrap
from ..ops.random.random import Generator, default_generator
from ..specs.array_spec import leaves
from .module import Module
from .module_hooks import changes
from .recorded_call import (
    DEPENDS,
    Call,
    Needed,
    changed_after_use,
    changed_before_decisions,
    collect_young,
    difference,
    frozen_steps,
    needs_results,
    older_objects_uncollected,
    put_back_after,
    read_outside,
    simplified,
    unsafe,
)
from .recording import (
    OtherDecisionError,
    Recording,
    Replayed,
    Upstream,
    form_of,
    is_container,
    mapped_tensors,
    taken,
    tensors_in,
    with_tensors,
)
from .recording_pieces import LEAST, Pieces, put_in_place, separated, without_pieces
from .recording_references import PLAIN
from .recording_state import State
from .recording_step import (
    Before,
    Training,
    UnrecordableError,
    is_differentiable,
    only_known,
    refuse_hook,
    updates_of,
    without_copies,
)

_MOST_CHANGES = 8
_MOST = 16  # recordings of a function; the oldest is dropped
_MOST_VALUES = 256  # of all arguments, among them those in tuples, lists and dicts
_MOST_LAYOUTS = 256  # whose calls are counted
_MOST_MISSES = 4  # replays in succession with other decisions, or attempts to record, before calls run as usual


_TEXTBOOK = "the textbook kernels have no plans"
_FEW = f"it has fewer than {LEAST} steps"
_TWICE = "it has second derivatives"
_WHOLE = {_TEXTBOOK, _FEW, _TWICE}  # reasons for which the modules that it calls cannot be recorded either


@contextmanager
def _settings_of(place: Any) -> Iterator[None]:
    """Let operators use the settings of a call again: exact algorithms, and the default type."""
    mode, default = thread.mode, default_dtype()
    exact, mode.exact = mode.exact, place[0]
    if default.char != place[2]:  # that of all threads
        set_default(np.dtype(place[2]))
    try:
        yield
    finally:
        mode.exact = exact
        if default.char != place[2]:
            set_default(default)


class Recorder:
    """The recordings of a function."""

    patience = 0  # calls of a layout that run as usual before one is recorded
    is_piece = False  # of a function that runs as usual

    def __init__(self, function: Callable[..., Any], fullgraph: bool, frozen: bool = False) -> None:
        self.function, self.fullgraph, self.frozen = function, fullgraph, frozen
        gate.is_used = gate.is_used or not frozen
        self.pieces = Pieces(function, self._piece)
        self.called: Counter[Any] = Counter()  # how often there was a call of each layout, with patience
        self.relaid: Counter[Any] = Counter()  # how often the upstream gradients were others than recorded
        self.state: State | None = None
        self.changes_in_row = 0  # of the state, without a call in between that found it unchanged
        self.others: list[tuple[State, dict[Any, Recording | str]]] = []  # of other modes, such as training
        self.found: dict[Any, Recording | str] = {}  # by layouts: a recording, or why there is none
        self.upstream: dict[Any, Upstream] = {}  # by the same: the strides of the upstream gradients
        self.is_module = isinstance(function, Module)

    def _piece(self, module: Module) -> Recorder:
        """A recorder for a module that the function calls; the first call runs as usual, since it may be the last."""
        found = Recorder(module, False, self.frozen)
        found.patience, found.is_piece = 1, True
        return found

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.frozen:  # a module of its own, which no recording changes
            return self._call(args, kwargs)
        gate.enter(me := get_ident())
        try:
            return self._call(args, kwargs)
        finally:
            gate.active.remove(me)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = thread.mode
        if mode.watch is not None or mode.interpreter is not None or mode.running is not None:
            return self._whole(args, kwargs)
        arrays: list[np.ndarray] = []
        key: list[Any] = [mode.exact, mode.inference, default_dtype().char, *kwargs]
        trained: list[Tensor] = []
        given: list[int] = []
        values = [*args, *kwargs.values()] if kwargs else [*args]
        for at, value in enumerate(values):
            if isinstance(value, Tensor):
                array = value.array
                if min(array.strides, default=0) < 0:
                    return self._as_usual("an argument is in reversed order", args, kwargs)
                arrays.append(array)
                given.append(id(value))
                key += array.shape, array.strides, array.dtype.char
                if mode.enabled and value._requires_grad:
                    key.append("grad, with hooks" if has_hooks(value) else "grad")
                    if given.index(id(value)) == len(given) - 1:
                        trained.append(value)
            elif isinstance(value, PLAIN):
                key += type(value), value if value and value == value else repr(value)  # 0.0 is not -0.0; NaN is NaN
            elif is_container(value):
                key += type(value), len(value)
                if type(value) is dict:
                    key += value
                values[at + 1 : at + 1] = value.values() if type(value) is dict else value
                if len(values) > _MOST_VALUES:  # or a list that contains itself
                    return self._as_usual(f"its arguments have more than {_MOST_VALUES} values", args, kwargs)
            else:
                return self._as_usual(f"an argument is {kind_name(value)}", args, kwargs)
        if kernel_set.listeners or host.listeners or mode.rules is not None:
            return self._whole(args, kwargs)
        if kernel_set.kernels._active != "compiled":
            return self._as_usual(_TEXTBOOK, args, kwargs)
        state = self.state
        if state is None or not (state.references.hold() if self.frozen else state.holds()):  # frozen: nobody else's
            state = self._change_state()
            if state.is_lazy:
                self.state = None
                return self._whole(args, kwargs)
            if self.changes_in_row > _MOST_CHANGES:
                return self._as_usual("what it refers to changes at every call", args, kwargs)
        else:
            self.changes_in_row = 0
        if not state.ids.isdisjoint(given) or not state.memory.isdisjoint(map(id, map(root, arrays))):
            return self._as_usual("an argument is a parameter or buffer of the function", args, kwargs)
        if len(given) > 1 and len({*given}) < len(given):  # the same tensor several times may lead to other steps
            key.append((*map(given.index, given),))
        if mode.enabled:
            trained += state.trained
        key += kernel_set.kernels.get_num_threads(), bool(trained)
        if not self.is_module:
            key.append(state.has_rules and mode.rules_disabled)
            key += map(is_, map(attrgetter("_grad"), state.leaves), repeat(None))
        found = self.found.get(place := (*key,))
        if found is None:
            if self.called[place] < self.patience:
                if len(self.called) > _MOST_LAYOUTS:
                    self.called.clear()
                self.called[place] += 1
                return self._whole(args, kwargs)
            if state.optimizers and not state.is_ready:
                state.is_ready = True  # the first step makes the states of optimizers
                self._compile_ahead(args, kwargs, trained)
                return self._whole(args, kwargs)
            with older_objects_uncollected():
                return self._recorded(place, args, kwargs, trained)
        if isinstance(found, str):
            return self._as_usual(found, args, kwargs)
        try:
            if found.training is not None:
                if found.lock.acquire(blocking=False):
                    try:
                        if not found.training.is_ready():
                            self.found.pop(place, None)  # another thread may have dropped it
                        elif found.training.run(partial(found.run, arrays)):
                            return taken(found, mode.inference)
                    finally:
                        found.lock.release()
            elif trained:
                if found.is_free:
                    tensors = Replayed.apply(found, arrays, *[trained[place] for place in found.uses])
                    return with_tensors(found.steps.result, tensors)
            elif found.lock.acquire(blocking=False):  # else another thread replays it
                try:
                    if found.run(arrays):
                        return taken(found, mode.inference)
                finally:
                    found.lock.release()
        except OtherDecisionError:
            pass
        if found.misses > _MOST_MISSES:
            self.found[place] = "its values lead to other decisions from call to call"
        return self._whole(args, kwargs)

    def _whole(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call as usual."""
        if thread.mode.pieces is None:
            return self.function(*args, **kwargs)
        with without_pieces():
            return self.function(*args, **kwargs)

    def _as_usual(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that cannot be recorded, in pieces where it calls modules."""
        if self.fullgraph:
            raise RuntimeError(f"compile: with fullgraph=True, this call cannot be recorded: {reason}")
        if reason in _WHOLE:
            return self._whole(args, kwargs)
        mode = thread.mode
        outer, mode.pieces = mode.pieces, self.pieces
        try:
            return self.function(*args, **kwargs)
        finally:
            mode.pieces = outer

    def _change_state(self) -> State:
        """Take up the recordings of the present state, such as training or eval mode, if there are any."""
        if self.state is not None:
            self.others = [(self.state, self.found), *self.others[:3]]
        for place, (state, found) in enumerate(self.others):
            if state.holds():
                self.state, self.found = state, found
                del self.others[place]
                return state
        self.changes_in_row += 1
        self.state, self.found = State(self.function), {}
        return self.state

    def _recorded(self, place: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trained: list[Tensor]) -> Any:
        """Call the function, and record the call for the next ones."""
        self._drop_first_step(place)
        try:
            with nullcontext(True) if self.frozen else gate.alone(get_ident()) as alone:
                if not alone and self.called[place] > _MOST_MISSES:
                    raise UnrecordableError("other threads are in compiled calls whenever this one could be recorded")
                if not alone:
                    self.called[place] += 1
                    raise UnrecordableError("", later=True)
                with without_pieces():
                    found = self._record(place, args, kwargs, trained)
        except MemoryError:
            found = "there is not enough memory to record it"
        except UnrecordableError as error:
            if error.later:
                return self._whole(args, kwargs)
            found = error.reason
        while len(self.found) >= _MOST:
            self.found.pop(next(iter([*self.found]), None), None)
        self.found[place] = found
        if isinstance(found, Recording) and found.training is not None:
            collect_young()  # references from dead cycles would count
            found.training.count_references()
        result = self._as_usual(found, args, kwargs) if isinstance(found, str) else self._call(args, kwargs)
        return_freed_memory()  # of the recorded arrays, and of gradients that the replay has replaced
        return result

    def _compile_ahead(self, args: tuple[Any, ...], kwargs: dict[str, Any], trained: list[Tensor]) -> None:
        """Compile the kernels of a call that runs as usual on several cores: a trial shows which ones it needs."""
        state = self.state
        compiling = kernel_set.compiling_ahead()
        if state is None or compiling is None or state.obstacle() is not None:
            return
        held = [part for array in (*state.arrays, *state.states()) for part in copies.ends(array)]
        with (
            compiling,
            gate.alone(get_ident()) as alone,
            without_pieces(),
            state.put_back_after(),
            put_back_after(held, state.generators),
            np.errstate(all="ignore"),  # of made-up numbers
            state.results_as_leaves(),
            suppress(Exception),  # the call itself raises it
        ):
            if alone:
                outline = Outline([], False)
                self._call_with(args, kwargs, trained, copies.other_numbers, None, Before(state), False, outline)

    def _drop_first_step(self, place: Any) -> None:
        """Drop a training step that ran once, with other gradients present: usually the first, which has none."""
        flags = 0 if self.is_module or self.state is None else len(self.state.leaves)
        for other, found in [*self.found.items()] if flags else []:
            is_step = isinstance(found, Recording) and found.training is not None and found.runs < 2
            if is_step and other[:-flags] == place[:-flags]:
                del self.found[other]

    def _record(
        self, place: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trained: list[Tensor]
    ) -> Recording | str:
        """Record a call, and another one with other numbers: what differs between them cannot be replayed.

        Nothing but the kernels' results remains: random numbers and the tensors of modules are put back.
        """
        state = self.state
        assert state is not None
        if obstacle := state.obstacle():
            return obstacle
        held = [*state.arrays, *state.states()]
        with state.put_back_after():
            tried = self._tried(place, args, kwargs, trained, held)
        if isinstance(tried, str):
            return tried
        one, other, outline = tried
        del tried
        delivered = one.delivered or []
        held += [each.before for each in delivered if each.before is not None]
        simpler = simplified(one, other, held)
        if isinstance(simpler, str):
            return simpler
        one = simpler
        to_undo = changed_before_decisions(one, held)
        if trained and one.delivered is None:  # whose backward may run the call again
            to_undo += [array for array in changed_after_use(one, held) if not any(array is each for each in to_undo)]
        changed = {id(root(array)) for step in one.steps for array in step.changed}
        sources = {id(root(array)) for array in one.steps.sources()} - changed
        read_again = [array for array in state.arrays if id(root(array)) in sources]
        undone = [(array, copies.duplicate(array)) for array in to_undo]
        if reason := unsafe(one, held, other, outline):
            return reason
        del other, outline
        if one.delivered is not None:
            read = {id(array) for array in one.steps.sources()}
            after = without_copies(one.steps, [each.after for each in delivered])
            delivered = [
                each._replace(before=each.before if id(each.before) in read else None, after=array)
                for each, array in zip(delivered, after, strict=True)
            ]
            one = one._replace(forward=len(one.steps), delivered=delivered)
        else:
            one = one._replace(grads=without_copies(one.steps, one.grads))
        return_freed_memory()  # the arena is zeroed memory, fresh from the system
        forward = one.forward
        if self.frozen:
            if not changed.isdisjoint({id(root(array)) for array in held}):
                return "it changes a parameter or buffer, which would be constant"
            steps = frozen_steps(one, held)
            if isinstance(steps, str):
                return steps
            forward = len(steps)
        else:
            seen = read_outside(one, held)
            steps, forward = fused(*with_fused_batch_norms(one.steps, one.forward, seen), seen)
            one.steps.clear()  # what refers to an array keeps it out of the arena
            steps = steps.in_arena()
        for at, step in enumerate(steps):
            kinds = [type(leaf) for leaf in leaves(step.result) if not isinstance(leaf, (np.ndarray, *PLAIN))]
            if kinds and steps[at : at + 1].calls() is None:
                return f"{step.name} has no plan, and returns {kinds[0].__name__}"
            if step.kernel == "dropout" and steps.with_numbers(at, "key", "stream") is None:
                return "dropout has no plan for other random numbers"
        decided = len(steps.decisions) if self.frozen else one.decided
        training = None
        if one.delivered is not None:
            training = Training(one.delivered, updates_of(steps, state.optimizers))
            training.is_ready()  # finds the numbers
        if self.is_piece and one.forward < LEAST:
            return _FEW
        found = Recording(steps, one.inputs, forward, decided, training)
        found.undone, found.read_again = undone, read_again
        updated = [] if training is None else [a for update in training.updates.values() for a in update.batch.changed]
        found.marked = [array for array in one.marked if not any(array is each for each in updated)]
        if trained and training is None:
            found.set_backward(one.upstream, one.grads, self.upstream.get(place))
            found.uses = one.uses
            found.has_rules = state.has_rules
            needs = mapped_tensors((args, kwargs), lambda tensor: Needed(tensor._requires_grad))
            found.again = partial(self._computed_again, state, self.found, place, found.inputs, undone, *needs)
            read = {id(root(array)) for step in steps[forward:] for array in step.inputs}
            found.read_back = [tensor for tensor in state.tensors if id(root(tensor.array)) in read]
            results = enumerate(tensors_in(steps.result))
            found.results_back = [at for at, each in results if id(root(each.array)) in read]
        return found

    def _tried(
        self,
        place: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trained: list[Tensor],
        held: list[np.ndarray],
    ) -> tuple[Call, Call, Outline] | str:
        """Record two calls: with made-up results if that suffices, else with true ones."""
        state = self.state
        assert state is not None
        count, before = changes[0], Before(state)
        tried: tuple[Call, Call, Outline] | str = ""
        if not self.frozen:  # which is compared with the true result
            try:
                tried = self._two_calls(place, args, kwargs, trained, held, before, False)
            except UnrecordableError:
                tried = ""
        for _ in range(2):  # the first calls fill caches, such as those of resampling, in steps of their own
            if isinstance(tried, str) and (not tried or tried.startswith(DEPENDS)):
                tried = self._two_calls(place, args, kwargs, trained, held, before, True)
        if count != changes[0]:
            return "it sets an attribute of a module"
        if not state.references.hold():
            return "it changes something that it refers to"
        return tried

    def _two_calls(
        self,
        place: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trained: list[Tensor],
        held: list[np.ndarray],
        before: Before,
        exact: bool,
    ) -> tuple[Call, Call, Outline] | str:
        """Call the function with the given numbers, and first with others, of which only the layouts are kept.

        exact: compute all results; otherwise "" is returned where the true ones may be needed.
        """
        state = self.state
        assert state is not None
        strides, failed = self.upstream.get(place), None
        # no kernel changes an array unless it computes exactly, so only what is put there must be undone
        parts = held if exact else [part for array in held for part in copies.ends(array)]
        quiet = nullcontext() if exact else np.errstate(all="ignore")  # of made-up numbers
        with put_back_after(parts, state.generators) as put_back, quiet, state.results_as_leaves():
            for part in () if self.frozen else parts:  # what NumPy computes from a parameter may change
                copies.put(part, copies.other_numbers(part))
            outline = Outline([leaf.array.size for leaf in (*state.leaves, *trained)], exact)
            try:  # first the call that keeps no arrays: the other one then uses its memory again
                other = self._call_with(args, kwargs, trained, copies.other_numbers, strides, before, exact, outline)
            except UnrecordableError:
                raise
            except Exception as error:
                if not exact:
                    return ""
                failed = error
            put_back()
            try:
                one = self._call_with(args, kwargs, trained, copies.same_layout, strides, before, exact)
            except UnrecordableError:
                raise
            except Exception as error:  # the function's own one, or one of an argument that is a leaf here
                if not exact:
                    return ""
                self.called[place] += 1
                if self.fullgraph:
                    raise
                if self.called[place] <= _MOST_MISSES:
                    raise UnrecordableError("", later=True) from error
                return f"it fails while it is recorded: {type(error).__name__}: {error}"
        if failed is not None:
            return f"it fails for other numbers of the same shapes: {type(failed).__name__}: {failed}"
        reason = difference(one, other)
        if not exact and (reason is not None or needs_results(one, held)):
            return ""
        return reason or (one, other, outline)

    def _call_with(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trained: list[Tensor],
        numbers: Callable[[np.ndarray], np.ndarray],
        strides: Upstream | None,
        before: Before,
        exact: bool,
        outline: Outline | None = None,
    ) -> Call:
        """Record a call with arguments of its own, and its backward if there is something to train.

        exact: as in ``_two_calls``. outline: gets the steps, without the arrays that they make.

        Raises:
            UnrecordableError: it delivers gradients or makes a step of an optimizer in a way that cannot be repeated.
        """
        record = record_steps if exact else record_layouts
        arrays: list[np.ndarray] = []
        wanted: list[Tensor] = []
        known: dict[int, Tensor] = {}

        def own(value: Tensor) -> Tensor:
            if id(value) in known:  # the same argument again
                arrays.append(known[id(value)].array)
                return known[id(value)]
            arrays.append(numbers(value.array))
            known[id(value)] = found = wrap(arrays[-1])
            if thread.mode.enabled and value._requires_grad:
                wanted.append(found.requires_grad_())
                if has_hooks(value):
                    found.register_hook(refuse_hook)
            return found

        given, named = mapped_tensors((args, kwargs), own)
        form = form_of((given, named))
        wanted += trained[len(wanted) :]
        assert self.state is not None
        start, random = next_order(), self.state.generators.states()
        hooked = self.state.hooked
        with before.step(numbers) as delivered, only_known(self.state, known), without_hooks(hooked, refuse_hook):
            if outline is None:
                steps = record(self.function, *given, **named)
                changed = {id(root(array)) for step in steps for array in step.changed}
            else:
                result = outline.record(self.function, *given, **named)
                steps, steps.result = outline.steps, result
                changed = {id(owner) for owners in outline.changed for owner in owners if owner is not None}
        if drawn := self.state.generators.drawn_since(random, steps):
            raise UnrecordableError(drawn)
        if form_of((given, named)) != form:
            raise UnrecordableError("it changes a list or dict that is an argument")
        delivered = [
            each._replace(kept=each.kept and (each.after is None or id(root(each.after)) not in changed))
            for each in delivered
        ]
        is_step = not all(each.kept for each in delivered)
        forward, decided = len(steps), len(steps.decisions)
        results = [value for value in tensors_in(steps.result) if isinstance(value, Tensor)]
        upstream: list[np.ndarray] = []
        grads: list[np.ndarray | None] = []
        uses: list[int] = []
        differentiable = [value for value in results if value._requires_grad]
        if is_step:
            if any(map(is_differentiable, differentiable)):
                raise UnrecordableError("it delivers gradients, and returns a result that can be differentiated")
        elif differentiable and not trained and not self.frozen:
            raise UnrecordableError("its result requires a gradient, in no_grad or of a tensor that the call makes")
        elif trained and differentiable:
            draw = Generator()
            steps_of = strides or [y.array.strides for y in differentiable]
            used = [(y, each) for y, each in zip(differentiable, steps_of, strict=True) if each is not None]
            upstream = [copies.strided(y.array, each) for y, each in used]
            for g in upstream:
                g[...] = draw.standard_normal(g.shape)
            outer = [wrap(g) for g in upstream]
            with separated(differentiable, wanted, start, self.is_piece) as separate:
                if separate is None:
                    raise UnrecordableError("its gradients would be added up in another order")
                uses, leaves = [place for place, _ in separate], [leaf for _, leaf in separate]
                run = record if outline is None else outline.record
                try:
                    with without_hooks(leaves):  # which run when the gradients are delivered
                        back = run(grad, [y for y, _ in used], leaves, outer, allow_unused=True)
                except Exception as error:  # an error of the backward pass, which there may be none of
                    raise UnrecordableError(f"its backward fails: {type(error).__name__}: {error}") from error
            if outline is None:
                grads = [None if each is None else each.array for each in back.result]
                steps += back
                steps.reads += back.reads
                steps.sites += back.sites
                steps.read_sites += back.read_sites
                steps.decisions += [(forward + place, each) for place, each in back.decisions]

        every = [*tensors_in(steps.result)]
        if all(type(value) is Tensor for value in every):
            bare = [wrap(value.array) for value in every]
            for value, each in zip(bare, every, strict=True):
                value._requires_grad = each._requires_grad
            steps.result = with_tensors(steps.result, bare)
        marked = [array for array in self.state.arrays if change_since(array, start) is not None]
        return Call(steps, arrays, forward, decided, upstream, grads, delivered if is_step else None, uses, marked)

    def _computed_again(
        self,
        state: State,
        recordings: dict[Any, Recording | str],
        place: Any,
        inputs: list[np.ndarray],
        undone: list[tuple[np.ndarray, np.ndarray]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        upstream: Sequence[Tensor | None],
        random: Any,
        other_layout: bool,
        edges: Sequence[Any] | None = None,
        node: Any = None,
    ) -> list[Tensor | None]:
        """The gradients of a call with other decisions, or other upstream gradients, than were recorded.

        state, recordings: of the function when the call was recorded, which may be in another mode now, such as eval.
        undone: arrays that the call has changed, with copies from before. args, kwargs: of the call, with a ``Needed``
        in place of each tensor. random: the state of the random numbers before it. other_layout: record the next call
        with these strides. node: of the call, if the gradients shall have a graph. edges: of the tensors it trains.
        """
        strides = [None if g is None else g.array.strides for g in upstream]
        if other_layout and self.relaid[place] < _MOST_MISSES:
            self.relaid[place] += 1
            recordings.pop(place, None)
            self.upstream[place] = strides
        if any(min(each, default=0) < 0 for each in strides if each is not None):
            recordings[place] = "its upstream gradient is in reversed order"
        arrays = iter(inputs)
        wanted: list[Tensor] = []
        known: dict[int, Tensor] = {}

        def own(value: Needed) -> Tensor:
            array = next(arrays)
            if id(array) in known:
                return known[id(array)]
            found = wrap(array if edges is None else copies.duplicate(array))
            if value.gradient:
                edge = None if edges is None else edges[len(wanted)]
                if isinstance(edge, Tensor):
                    found = edge
                else:
                    found.requires_grad_()
                    found._edge = edge
                wanted.append(found)
            known[id(array)] = found
            return found

        before, changed = next_order(), recorded_changes()
        with (
            enable_grad(),
            state.in_force(),
            _settings_of(place),
            put_back_after(state.arrays, state.generators),
            without_pieces(),
        ):
            for array, kept in undone:
                copies.put(array, kept)
            if random is not None:
                default_generator.set_state(random)
            given, named = mapped_tensors((args, kwargs), own, Needed)
            is_compiled = kernel_set.kernels._active == "compiled"
            with nullcontext() if is_compiled else kernel_set.use_kernels("compiled"):  # as the call
                every = [*tensors_in(self.function(*given, **named))]
            results = [value for value in every if value._requires_grad]
            wanted += state.trained
            used = [(y, g) for y, g in zip(results, upstream, strict=True) if g is not None]
            outer = [g for _, g in used]
            with separated(results, wanted, before, self.is_piece) as separate:
                leaves = [leaf for _, leaf in separate or enumerate(wanted)]
                with without_hooks(leaves):
                    found = grad_since(before, [y for y, _ in used], leaves, outer, create_graph=edges is not None)
            if edges is not None:
                recordings[place] = _TWICE
                put_in_place(node, every, before, changed)
            return [*found]

    def explained(self) -> str:
        if not self.found:
            return "nothing was recorded yet: call it, a training step twice"
        lines = []
        for place, found in self.found.items():
            shapes = ", ".join(str(each) for each in place if isinstance(each, tuple))
            lines.append(f"{shapes}: {'runs as usual, since ' if isinstance(found, str) else ''}{found}")
        return "\n".join([*lines, *(f"  {line}" for line in self.pieces.explained())])
