"""Recorded steps: contents, printing, and identical bits when they run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_types import CASES, as_function
from retrograd import nn, optim
from retrograd.kernel_set import instead
from retrograd.testing.function_call import outputs_of

F = nn.functional


def normalized() -> tuple[Any, Any, Any]:
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        *(nn.Conv2d(4, 6, 3, stride=2), nn.BatchNorm2d(6)),
        *(nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 10)),
    )
    return model, rg.randn(4, 1, 9, 9), optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)


def lenet() -> tuple[Any, Any, Any]:
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 10)),
    )
    return model, rg.randn(4, 1, 28, 28), optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][-1])


def lstm() -> tuple[Any, Any, Any]:
    model = Last()
    return model, rg.randn(7, 4, 8), optim.SGD(model.parameters(), lr=0.1)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.next_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        n, steps, width = x.shape
        heads = [part.reshape(n, steps, 4, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(n, steps, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.next_norm(x))))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.blocks, self.head = nn.Sequential(Block(16), Block(16)), nn.Linear(16, 10)

    def forward(self, words: Any) -> Any:
        x = self.words(words) + self.places(rg.arange(words.shape[1]))
        return self.head(self.blocks(x)[:, -1])


def gpt() -> tuple[Any, Any, Any]:
    model = Gpt()
    return model, rg.randint(0, 20, (4, 8)), optim.SGD(model.parameters(), lr=0.1)


def training(make: Any, clip: bool = False) -> tuple[Callable[[], Any], list[np.ndarray]]:
    """Return a training step, and the arrays that it reads and changes: images, labels, parameters, states."""
    rg.manual_seed(3)
    model, x, optimizer = make()
    labels = rg.tensor([1, 0, 3, 2])

    def step() -> Any:
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    step()
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, rg.Tensor)]
    return step, [each.array for each in (x, labels, *model.parameters(), *model.buffers(), *states)]


@pytest.mark.parametrize("make", [lenet, normalized, lstm, gpt])
@pytest.mark.parametrize("kernel_set", ["compiled", pytest.param("textbook", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("clip", [False, True])
def test_a_training_step_again(make: Any, kernel_set: str, clip: bool) -> None:
    """The steps reproduce the bits of the recorded step; with other numbers in the same arrays, those of a new step."""
    with rg.use_kernels(kernel_set):
        step, arrays = training(make, clip)
        before = [array.copy() for array in arrays]
        steps = rg.record_steps(step)
        after, loss = [array.copy() for array in arrays], steps.result.array.copy()

        def restore() -> None:
            for array, value in zip(arrays, before, strict=True):
                array[...] = value

        restore()
        steps.run()
        assert_bits(arrays, after)
        assert_bits([steps.result.array], [loss])
        if clip:
            return  # its factor is a number, and the recorded value is used again
        before[0] = np.flip(before[0], 0) if before[0].dtype.kind == "i" else before[0] * 1.5
        before[1] = np.array([3, 3, 1, 0])
        restore()
        steps.run()
        found = [array.copy() for array in (*arrays, steps.result.array)]
        restore()
        loss = step().array
        assert_bits(found, [*arrays, loss])


def assert_bits(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.view(f"u{one.itemsize}"), other.view(f"u{other.itemsize}"))


@pytest.mark.parametrize("make", [lenet, normalized, lstm, gpt])
def test_every_array_comes_from_a_step(make: Any) -> None:
    """Except for inputs, parameters, states, and constants that depend only on shapes."""
    step, arrays = training(make)
    known = {id(array) for array in map(root, arrays)}
    others = [array for array in rg.record_steps(step).sources() if id(array) not in known]
    constants = [array for array in others if is_constant(array)]
    assert [array for array in others if not any(array is each for each in constants)] == []


def is_constant(array: np.ndarray) -> bool:
    """Return whether all elements are 1 or count up: upstream gradients, weights of rows, positions."""
    return bool((array == 1).all() or (array == np.arange(array.size)).all())


def root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_what_a_step_says() -> None:
    x, w = rg.ones(2, 3, requires_grad=True), rg.ones(4, 3, requires_grad=True)
    steps = rg.record_steps(lambda: F.linear(x, w).relu())
    assert [step.kernel for step in steps] == ["matmul", "relu"]
    assert steps[0].inputs[0] is x.array and steps[1].inputs[0] is steps[0].outputs[0]
    assert str(steps).splitlines() == [
        "%2: float32[2, 4] = matmul(%0: float32[2, 3], %1: float32[3, 4], None)",
        "%3: float32[2, 4] = relu(%2: float32[2, 4])",
    ]
    assert steps.result.shape == (2, 4) and [array is x.array for array in steps.sources()][0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_operator_again() -> None:
    """Running the steps of each conformance case again on the same arrays leaves all results unchanged."""
    wrong = []
    with rg.use_kernels("textbook"), np.errstate(all="ignore"):
        for case in CASES:
            if case.form is not as_function or case.label != case.name:
                continue
            tensors = [rg.Tensor(array.copy()) for array in case.call.arrays]
            try:
                steps = rg.record_steps(lambda case=case, tensors=tensors: case.form(case.call, tensors))
            except (TypeError, ValueError, IndexError, RuntimeError):
                continue  # entries that test errors
            before = [y.array.copy() for y in outputs_of(steps.result)]
            steps.run()
            for one, y in zip(before, outputs_of(steps.result), strict=True):
                if not np.array_equal(one, y.array, equal_nan=one.dtype.kind == "f"):
                    wrong.append(case.name)
    assert not wrong


def test_a_part_and_a_formula_of_the_user() -> None:
    @rg.formula
    def doubled(x: Any) -> Any:
        return x + x

    x = rg.ones(3)
    steps = rg.record_steps(lambda: rg.exp(doubled(x)))
    assert str(steps[:1]) == "%1: float32[3] = doubled(%0: float32[3])" and len(steps[1:]) == 1
    same = steps.copy()
    same.run()
    assert same == steps and same.result is steps.result


def test_a_replaced_kernel_runs_again() -> None:
    x = rg.ones(3)
    with instead({"exp": lambda x: x * 0 + 5}):
        inside = rg.record_steps(lambda: rg.exp(x))
    inside.run()
    assert inside.result.tolist() == [5, 5, 5]

    def run() -> Any:
        with instead({"exp": lambda x: x * 7}):
            return rg.exp(x)

    outside = rg.record_steps(run)
    x.array[...] = 2
    outside.run()
    assert outside.result.tolist() == [14, 14, 14]


def test_what_is_written_in_place() -> None:
    x = rg.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    steps = rg.record_steps(lambda: (x * 3).sum().backward())
    (added,) = [step for step in steps if step.kernel == "accumulate"]
    assert added.outputs[0] is x.grad.array is added.inputs[0] and x.grad.tolist() == [5, 5, 5]
    steps.run()
    assert x.grad.tolist() == [8, 8, 8]


def test_numbers_can_be_set() -> None:
    rg.manual_seed(3)
    x = rg.ones(1000, requires_grad=True)
    steps = rg.record_steps(lambda: F.dropout(rg.celu(x, 0.5), 0.25) * 3.0)
    numbers = steps.numbers()
    assert numbers["p"] == [0.25] and numbers["alpha"] == [0.5] and len(numbers["key"]) == 1
    before = steps.result.array.copy()
    steps.set(key=int(numbers["key"][0]) + 1)
    steps.run()
    after = steps.result.array.copy()
    assert not np.array_equal(before, after) and abs((after == 0).mean() - 0.25) < 0.1
    steps.set(key=int(numbers["key"][0]))
    steps.run()
    assert np.array_equal(before, steps.result.array)
    with pytest.raises(TypeError, match="set: no step has a number 'momentum'; there are alpha, "):
        steps.set(momentum=1.0)


def test_a_learning_rate_can_be_set() -> None:
    def trained(lr: float) -> np.ndarray:
        w = nn.Parameter(rg.tensor(np.arange(4.0)))
        optimizer = rg.optim.Adam([w], lr=lr)
        w.grad = rg.tensor(np.array([1.0, -2.0, 0.5, 3.0]))
        steps = rg.record_steps(optimizer.step)
        for state in optimizer.state[w].values():
            if isinstance(state, rg.Tensor):
                state.array[...] = 0
        w.array[...] = np.arange(4.0)
        steps.set(lr=0.25)
        steps.run()
        return w.array.copy()

    np.testing.assert_array_equal(trained(0.125), trained(0.25))


def test_arrays_have_given_names() -> None:
    x = rg.tensor(np.arange(4.0, dtype=np.float32))
    steps = rg.record_steps(lambda: (rg.exp(x[1:]), rg.sin(x)))
    assert steps.lines() == str(steps).splitlines()
    assert steps.lines({"x": x.array, "again": x.array[2:], "y": steps[1].result}) == [
        "%0: float32[3] = exp(x: float32[3])",
        "y: float32[4] = sin(x: float32[4])",
    ]


def test_a_read_of_the_host_is_noted() -> None:
    x, labels = rg.tensor(np.array([[3.0, 4.0], [0.5, -1.0]])), rg.tensor(np.array([1, 0]))
    assert rg.record_steps(lambda: rg.exp(x)).reads == []
    (why,) = rg.record_steps(lambda: F.cross_entropy(x, labels)).copy().reads
    assert why == "whether labels are classes"
    (why,) = rg.record_steps(lambda: F.cross_entropy(x, labels, rg.ones(2, dtype=rg.float64))).copy().reads
    assert why == "the sum of weights, and whether labels are classes"


def test_other_threads_are_not_recorded() -> None:
    import threading

    def other() -> None:
        rg.exp(rg.ones(3))

    def run() -> Any:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return rg.sin(rg.ones(3))

    assert [step.kernel for step in rg.record_steps(run)] == ["sin"]


def test_a_failed_call_leaves_nothing_behind() -> None:
    def fails() -> None:
        rg.exp(rg.ones(3))
        raise KeyError("x")

    with pytest.raises(KeyError):
        rg.record_steps(fails)
    assert rg.record_steps(lambda: None) == []
    with pytest.raises(TypeError, match="record_steps: function is Tensor, needs something to call"):
        rg.record_steps(rg.ones(2))
