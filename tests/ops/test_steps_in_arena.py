"""Steps in an arena: the bits of eager training, whatever the arena contained before, and arrays that must not move."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_types import CASES, as_function
from ops.test_steps import assert_bits, gpt, lenet, lstm, normalized, root
from retrograd import nn, optim
from retrograd.arrays import Lifetime, lay_out, span
from retrograd.engine import memory_planning
from retrograd.engine.steps import Steps
from retrograd.kernel_set import instead
from retrograd.testing.function_call import outputs_of

F = nn.functional
_SETS = ["compiled", pytest.param("textbook", marks=pytest.mark.nightly)]
sets = pytest.mark.parametrize("kernel_set", _SETS, indirect=True)
compiled = pytest.mark.parametrize("kernel_set", ["compiled"], indirect=True)


class Ragged(nn.Module):
    """Sequences of different lengths: the layer's kernel has no plan."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(8, 16), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, [7, 5, 5, 2])
        return self.head(self.gru(packed)[1][0])


def ragged() -> tuple[Any, Any, Any]:
    model = Ragged()
    return model, rg.randn(7, 4, 8), optim.SGD(model.parameters(), lr=0.1)


class Training:
    """A training step of a network with its state, which can be restored."""

    def __init__(self, make: Any) -> None:
        rg.manual_seed(3)
        self.model, self.x, self.optimizer = make()
        self.labels = rg.tensor([1, 0, 3, 2])
        self.step()
        states = [each for state in self.optimizer.state.values() for each in state.values()]
        tensors = [*self.model.parameters(), *self.model.buffers(), *states]
        self.arrays = [each.array for each in tensors if isinstance(each, rg.Tensor)]
        self.before = [array.copy() for array in self.arrays]

    def step(self) -> Any:
        loss = F.cross_entropy(self.model(self.x), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def restore(self) -> None:
        for array, value in zip(self.arrays, self.before, strict=True):
            array[...] = value

    def outcome(self, run: Callable[[], Any]) -> list[np.ndarray]:
        """Return the results of three steps from the first state: losses, gradients, parameters, buffers, states."""
        self.restore()
        losses = [run().array.copy() for _ in range(3)]
        gradients = [each.grad.array for each in self.model.parameters()]
        return [*losses, *(each.copy() for each in (*gradients, *self.arrays))]


def spoil(steps: Steps) -> None:
    """Fill the arena with NaN, and with integers that are not valid indices."""
    assert steps.memory is not None
    steps.memory.arena.memory.fill(255)


def spoilt_run(steps: Steps) -> Any:
    spoil(steps)
    steps.run()
    return steps.result


@pytest.mark.parametrize("make", [lenet, normalized, lstm, gpt, ragged])
@sets
def test_training(make: Any) -> None:
    """Three replays in memory full of NaN match three training steps from the same state."""
    training = Training(make)
    steps = rg.record_steps(training.step).in_arena()
    found = training.outcome(lambda: spoilt_run(steps))
    assert_bits(found, training.outcome(training.step))
    assert steps.memory is not None and steps.memory.arrays > 10
    assert steps.memory.least <= steps.memory.arena.memory.size < steps.memory.bytes + steps.memory.scratch


def by_plan(steps: Steps) -> int:
    return sum(id(step) in steps._planned for step in steps)


@compiled
def test_which_steps_run_by_their_plans() -> None:
    for make, others in ((lenet, set()), (normalized, set()), (lstm, {"pad_slice"})):
        steps = rg.record_steps(Training(make).step).in_arena()
        assert {step.kernel for step in steps if id(step) not in steps._planned} == others
    steps = rg.record_steps(Training(ragged).step).in_arena()
    assert "recurrent_grad" in {step.kernel for step in steps if id(step) not in steps._planned}
    with rg.use_kernels("textbook"):
        assert by_plan(rg.record_steps(Training(lenet).step).in_arena()) == 0


@compiled
@pytest.mark.parametrize("reverse", [False, True])
def test_small_layers_run_by_their_plans_after_calls_without_python(reverse: bool) -> None:
    """Their prepared results do not share memory, unlike those of the plan."""
    layer = nn.LSTM(3, 5, bidirectional=reverse)
    x = rg.randn(4, 2, 3)

    def step() -> None:
        layer(x)[0].sum().backward()

    for _ in range(6):
        step()
    steps = rg.record_steps(step).in_arena()
    planned = {step.kernel for step in steps if id(step) in steps._planned}
    assert {"recurrent", "recurrent_grad"} <= planned


# ---- nothing is used after another array has taken its place -------------------------------------------------------


def misuses(steps: Steps) -> list[str]:
    """Return the wrong accesses, found with a shadow of the arena that stores the owner of every byte."""
    assert steps.memory is not None
    shadow = np.zeros(steps.memory.arena.memory.size, np.int64)
    start = span(steps.memory.arena.memory)[0]

    def bytes_of(array: np.ndarray) -> slice:
        low, high = span(array)
        return slice(low - start, high - start)

    found = []
    for at, step in enumerate(steps):
        for array in step.inputs:
            place = steps.memory.arena.offset(array)
            if place is not None and (shadow[bytes_of(array)] != id(root(array))).any():
                found.append(f"step {at}, {step.kernel}: what it reads at {place} belongs to another")
        placed = steps._planned.get(id(step))
        scratch = [] if placed is None else [*placed.memory.values()]
        for array in (*step.outputs, *scratch):
            if steps.memory.arena.offset(array) is not None:
                shadow[bytes_of(array)] = id(root(array))
        for array in (*step.inputs, *step.outputs):
            if steps.memory.arena.offset(array) is not None and (shadow[bytes_of(array)] != id(root(array))).any():
                found.append(f"step {at}, {step.kernel}: it writes over what it reads or returns")
    return found


@pytest.mark.parametrize("make", [lenet, normalized, lstm, gpt, ragged])
@sets
def test_every_byte_that_is_read_is_the_array_s_own(make: Any) -> None:
    assert misuses(rg.record_steps(Training(make).step).in_arena()) == []


@compiled
def test_a_lifetime_that_is_too_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the shadow and the bits of the result reveal it."""

    def shortened(lifetimes: list[Lifetime]) -> Any:
        return lay_out([each._replace(last=max(each.first, each.last - 1)) for each in lifetimes])

    x, w = rg.randn(50, 50), rg.randn(50, 50)  # no index arrays: a wrong index could crash the process

    def run() -> Any:
        y = rg.exp(x)
        z = rg.sin(w @ y)
        return w @ (rg.cos(w @ z) + y)

    steps, training = rg.record_steps(run), rg.record_steps(Training(lenet).step)
    expected = steps.result.array.copy()
    assert misuses(steps.in_arena()) == []
    monkeypatch.setattr(memory_planning, "lay_out", shortened)
    assert len(misuses(training.in_arena())) > 3
    wrong = steps.in_arena()
    assert misuses(wrong) and not np.array_equal(spoilt_run(wrong).array, expected)


# ---- who holds an array --------------------------------------------------------------------------------------------


def in_arena(steps: Steps) -> list[bool]:
    """Return for each step whether its first result is in the arena."""
    assert steps.memory is not None
    return [steps.memory.arena.offset(step.outputs[0]) is not None for step in steps]


def test_what_somebody_holds_stays() -> None:
    x, kept = rg.ones(100), []

    def run(hold: Any) -> Any:
        y = rg.exp(x)
        kept[:] = [hold(y)]
        return rg.sin(rg.cos(y))

    for hold in (
        lambda y: y,
        lambda y: y.array,
        lambda y: y[3:],
        lambda y: y.array[::-1][2:],
        lambda y: {"y": [y.detach()]},
        lambda y: memoryview(y.array),
        lambda y: np.asarray(memoryview(y.array))[1:],
        lambda y: lambda: y,
    ):
        steps = rg.record_steps(run, hold).in_arena()
        assert in_arena(steps) == [False, True, False], hold
    steps = rg.record_steps(run, lambda y: None).in_arena()
    assert in_arena(steps) == [True, True, False]
    steps = rg.record_steps(run, lambda y: y).in_arena()
    x.array.fill(2)
    spoilt_run(steps)
    np.testing.assert_array_equal(kept[0].array, rg.exp(x).array)
    np.testing.assert_array_equal(steps.result.array, rg.sin(rg.cos(rg.exp(x))).array)


def test_what_the_graph_of_the_result_saves_stays() -> None:
    """A backward pass may still follow."""
    x = rg.ones(100, requires_grad=True)
    assert in_arena(rg.record_steps(lambda: rg.exp(rg.exp(x)).sum()).in_arena()) == [False, False, False]
    with rg.no_grad():
        assert in_arena(rg.record_steps(lambda: rg.exp(rg.exp(x)).sum()).in_arena()) == [True, True, False]


def test_what_was_dropped_since_goes_into_the_arena() -> None:
    w = nn.Parameter(rg.ones(100))
    steps = rg.record_steps(lambda: (w * 2).sum().backward())
    assert not in_arena(steps.in_arena())[-1]
    w.grad = None
    assert in_arena(steps.in_arena())[-1]


def test_another_list_of_the_steps_holds_nothing_but_what_it_shares() -> None:
    x = rg.ones(100)
    steps = rg.record_steps(lambda: rg.exp(F.celu(rg.sin(x), 0.5)))
    same, part = steps.copy(), steps[:2]
    assert in_arena(steps.in_arena()) == [True, True, False]
    assert in_arena(part.in_arena()) == [True, False]  # the last step reads the result of the second
    same.set(alpha=1.0)  # a separate step with the same arrays
    assert in_arena(steps.in_arena()) == [False, False, False]


def test_the_arrays_that_were_recorded_can_go() -> None:
    x = rg.ones(1000)
    steps = rg.record_steps(lambda: rg.exp(rg.sin(x)))
    alive = weakref.ref(steps[0].result)
    found = steps.in_arena()
    del steps
    gc.collect()
    assert alive() is None
    before = found.result.array.copy()
    np.testing.assert_array_equal(spoilt_run(found).array, before)


# ---- layouts -------------------------------------------------------------------------------------------------------


def check(function: Callable[[], Any]) -> Steps:
    """Check that the steps in an arena reproduce the function's results, also for other input values."""
    steps = rg.record_steps(function)
    expected = [each.array.copy() for each in outputs_of(steps.result)]
    found = steps.in_arena()
    assert misuses(found) == []
    for _ in range(2):
        spoilt_run(found)
        assert_bits([each.array for each in outputs_of(found.result)], expected)
    return found


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 4), (7, 5, 3), (2, 1, 17, 33), (1025,)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    x = rg.randn(*shape)
    check(lambda: rg.exp(rg.sin(x) * 2 + rg.cos(x)).sum())
    check(lambda: (rg.exp(x).reshape(-1) * 3, rg.sin(x).double().sum()))


def test_views() -> None:
    x, w = rg.randn(6, 8), rg.randn(8, 8)

    def run() -> Any:
        y = rg.exp(x)
        a, b = y.chunk(2, 1)
        mixed = a.transpose(0, 1) @ b + rg.flip(w, (0, 1))[::2, 1:5]
        wide = rg.cos(y)[:, 3:4].expand(6, 8)
        return rg.cat((mixed.T, wide[:4, ::2])).unfold(0, 3, 2).contiguous(), y[1:].sin()[::2].sum(0)

    assert sum(in_arena(check(run))) == 5


def test_steps_in_place() -> None:
    x = rg.randn(3, 700)

    def run() -> Any:
        y = rg.exp(x)
        y[1:, ::2].mul_(3)
        y.relu_().add_(x)
        y[0] = rg.sin(x[1])
        return rg.sqrt(y.abs())

    assert in_arena(check(run))[0]


@pytest.mark.parametrize(
    "kernel",
    [lambda x: x, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: np.broadcast_to(x[:1], (5, *x.shape[1:]))],
)
def test_a_kernel_that_returns_its_input(kernel: Any) -> None:
    x = rg.randn(4, 6)
    with instead({"exp": kernel}):
        found = check(lambda: rg.sin(rg.exp(rg.cos(x))))
        assert in_arena(found) == [True, True, False] and len({id(root(step.outputs[0])) for step in found[:2]}) == 1


def test_a_kernel_that_returns_what_it_keeps() -> None:
    constant = np.arange(6.0)
    with instead({"exp": lambda x: constant}):
        assert in_arena(check(lambda: rg.sin(rg.exp(rg.ones(6).double())))) == [True, False, False]
    assert constant.tolist() == [0, 1, 2, 3, 4, 5]


def test_memory_of_another_owner_stays() -> None:
    with instead({"exp": lambda x: np.frombuffer(bytearray(x.tobytes()), x.dtype)}):
        assert in_arena(check(lambda: rg.sin(rg.exp(rg.ones(6))))) == [False, False]


@contextmanager
def without_automatic_collection() -> Iterator[None]:
    """Each arena then collects the garbage of its recording only, instead of visiting all objects of the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore::UserWarning")
@sets
def test_every_operator() -> None:
    """For the conformance tables, forward and backward: in an arena full of NaN, the results are unchanged."""
    wrong, count = [], 0
    with np.errstate(all="ignore"), without_automatic_collection():
        for case in CASES:
            if case.form is not as_function or case.label != case.name:
                continue
            tensors = [rg.Tensor(each.copy(), requires_grad=each.dtype.kind == "f") for each in case.call.arrays]

            def run(case: Any = case, tensors: Any = tensors) -> Any:
                results = outputs_of(case.form(case.call, tensors))
                if differentiable := [y for y in results if y.requires_grad]:
                    rg.autograd.backward(differentiable, [rg.ones_like(y) for y in differentiable])
                return [y.detach() for y in results]

            try:
                steps = rg.record_steps(run)
            except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError):
                continue  # entries that test errors
            gradients = [each.grad for each in tensors if each.grad is not None]
            results = [each.array for each in (*steps.result, *gradients)]
            expected = [each.copy() for each in results]
            before = [each.array.copy() for each in tensors]
            found = steps.in_arena()
            for each, value in zip(tensors, before, strict=True):
                each.array[...] = value
            spoilt_run(found)
            if any(
                not np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
                for one, other in zip(results, expected, strict=True)
            ) or misuses(found):
                wrong.append(case.name)
            count += 1
    assert not wrong and count > 300


# ---- what Steps can do ---------------------------------------------------------------------------------------------


@compiled
def test_numbers_can_be_set() -> None:
    rg.manual_seed(3)
    x = rg.ones(1000)
    steps = rg.record_steps(lambda: F.dropout(rg.celu(x, 0.5), 0.25) * 3.0).in_arena()
    count, before = by_plan(steps), spoilt_run(steps).array.copy()
    key = int(steps.numbers()["key"][0])
    steps.set(key=key + 1)
    assert by_plan(steps) == count == 3
    assert not np.array_equal(spoilt_run(steps).array, before)
    steps.set(key=key)
    np.testing.assert_array_equal(spoilt_run(steps).array, before)
    steps.set(p=0.75)
    assert abs((spoilt_run(steps).array == 0).mean() - 0.75) < 0.1
    steps.set(p=0.25)
    np.testing.assert_array_equal(spoilt_run(steps).array, before)


@compiled
def test_parts_and_copies_are_in_the_same_memory() -> None:
    x = rg.randn(50)
    steps = rg.record_steps(lambda: rg.exp(rg.sin(rg.cos(x)))).in_arena()
    expected = steps.result.array.copy()
    for parts in ((steps[:1], steps[1:]), (steps.copy(),), (steps.in_arena(),)):
        spoil(steps)
        steps.result.array.fill(0)
        for part in parts:
            assert part.memory is steps.memory and by_plan(part) == len(part)
            part.run()
        np.testing.assert_array_equal(steps.result.array, expected)
    assert steps.in_arena().result is steps.result and len(steps.sources()) == 1


@compiled
def test_what_it_says() -> None:
    x = rg.ones(1000)
    steps = rg.record_steps(lambda: rg.exp(rg.sin(rg.cos(rg.tanh(x))))).in_arena()
    assert str(steps).splitlines() == [
        "%1 @0: float32[1000] = tanh(%0: float32[1000])",
        "%1 @0: float32[1000] = cos(%1: float32[1000])",
        "%1 @0: float32[1000] = sin(%1: float32[1000])",
        "%2: float32[1000] = exp(%1: float32[1000])",
    ]
    assert steps.lines({"x": x.array, "y": steps.result.array})[-1] == "y: float32[1000] = exp(%0: float32[1000])"
    assert str(steps.memory) == (
        "3 arrays of 12,000 bytes and 0 bytes of scratch, of which 4,032 are needed at once: an arena of 4,032 bytes"
    )
    assert rg.record_steps(lambda: rg.exp(x)).memory is None
    nothing = rg.record_steps(lambda: None).in_arena()
    nothing.run()
    assert nothing == [] and nothing.memory is not None and nothing.memory.arena.memory.size == 0


@compiled
def test_more_threads_than_there_is_scratch_for() -> None:
    x, w = rg.randn(60, 100), rg.randn(80, 100).T  # each thread copies the transposed one
    steps = rg.record_steps(lambda: x @ w)
    threads = rg.get_num_threads()
    arena = steps.in_arena()
    rg.set_num_threads(threads + 1)
    try:
        with pytest.raises(ValueError, match=f"scratch for {threads} threads, and {threads + 1} run now; .* in_arena"):
            arena.run()
        steps.in_arena().run()
    finally:
        rg.set_num_threads(threads)
    arena.run()
