"""Operators on arrays of another library, which are no ndarrays and never become ones by themselves.

They run on the textbook kernels, whose functions of NumPy hand the call to the arrays (``__array_function__``). Every
result, and every gradient, is such an array again, with the elements that NumPy gives. So a tensor on another device
needs arrays with NumPy's protocols, and no second text of any operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_types import CASES, as_function
from retrograd import nn
from retrograd.engine.tensor import wrap
from retrograd.kernel_set import use_kernels
from retrograd.nn import functional
from retrograd.testing.call import outputs_of
from strict_array import Strict, crossed

# operators that still make an array of NumPy somewhere on their way
NOT_YET = {*"""
    affine_grid as_strided as_strided_scatter binary_cross_entropy_with_logits celu_ combinations cov ctc_loss
    deform_conv2d elu_ fold fractional_max_pool2d fractional_max_pool3d gradient gumbel_softmax histogram
    histogramdd igamma igammac index_put istft nanquantile nextafter poisson put qr quantile repeat_interleave rnn
    rrelu selu_ stft unfold
""".split()}  # noqa: SIM905
REFUSALS = (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)
NUMBERS = {"is_contiguous", "numel"}  # whose results are numbers of Python
RUN = [
    case for case in CASES if case.form is as_function and case.label == case.name and case.name not in NUMBERS
]


def run(case: Any, arrays: list[Any]) -> tuple[list[rg.Tensor], list[rg.Tensor]]:
    """The inputs and the outputs of a case, after its backward pass."""
    inputs = []
    for array in arrays:
        x = rg.Tensor(np.zeros((), array.dtype), requires_grad=array.dtype.kind == "f")
        x.array = array
        inputs.append(x)
    outputs = [y for y in outputs_of(case.form(case.call, inputs)) if isinstance(y, rg.Tensor)]
    results = [y for y in outputs if y.requires_grad]
    if results:
        kind = Strict if any(isinstance(array, Strict) for array in arrays) else np.asarray
        random = np.random.default_rng(1)
        upstream = [wrap(kind(random.standard_normal(y.shape).astype(y.array.dtype))) for y in results]
        rg.autograd.backward(results, upstream)
    return inputs, outputs


def differs(expected: Any, found: Any) -> bool:
    return not isinstance(found, Strict) or not np.allclose(expected, found.to_host(), 1e-6, 1e-9, equal_nan=True)


def wrong(case: Any) -> str:
    """What is wrong with a case on strict arrays; empty if nothing is, or if it is one that refuses its arguments."""
    try:
        inputs, outputs = run(case, [array.copy() for array in case.call.arrays])
    except REFUSALS:
        return ""
    if not case.call.arrays:  # it makes an array from nothing
        return ""
    try:
        others, results = run(case, [Strict(array.copy()) for array in case.call.arrays])
    except (*REFUSALS, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    if any(differs(y.array, z.array) for y, z in zip(outputs, results, strict=True)):
        return "another result, or an array of NumPy"
    pairs = [(x.grad, other.grad) for x, other in zip(inputs, others, strict=True) if x.grad is not None]
    if any(other is None or differs(x.array, other.array) for x, other in pairs):
        return "another gradient, or an array of NumPy"
    return ""


@pytest.mark.filterwarnings("ignore")
def test_operators_on_strict_arrays() -> None:
    with use_kernels("textbook"), np.errstate(all="ignore"):
        found = {case.name: text for case in RUN if (text := wrong(case))}
    operators = {name.partition(":")[0].partition(" ")[0] for name in found}
    extra = {name: text for name, text in found.items() if name.partition(":")[0].partition(" ")[0] not in NOT_YET}
    assert not extra
    assert not NOT_YET - operators, "these run on strict arrays now; take them off the list"


class Words(nn.Module):
    """A language model: an LSTM or a block of a transformer."""

    def __init__(self, recurrent: bool) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)
        self.body: Any = (
            nn.LSTM(16, 16, 2, batch_first=True) if recurrent
            else nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.LayerNorm(16))
        )  # fmt: skip

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        y = self.body(self.embed(x))
        return self.out(y[0] if isinstance(y, tuple) else y).permute(0, 2, 1)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def normalized() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1),
        nn.Linear(6, 10),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "lenet": (lenet, False), "batch norm": (normalized, False),
    "lstm": (lambda: Words(True), True), "transformer": (lambda: Words(False), True),
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: rg.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: rg.optim.Adam(parameters, lr=0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_training_steps_on_strict_arrays(name: str, optimizer: str) -> None:
    """Two steps; what crosses to the host is one look at the labels, or words, of each step, and no parameter."""
    make, words = NETWORKS[name]
    rng = np.random.default_rng(0)
    x: Any = rng.integers(0, 20, (3, 7)) if words else rng.standard_normal((4, 1, 28, 28)).astype(np.float32)
    labels = rng.integers(0, 20, (3, 7)) if words else rng.integers(0, 10, 4)
    losses: list[Any] = []
    for kind in (np.asarray, Strict):
        rg.manual_seed(1)
        net = make()
        with use_kernels("textbook"):
            images, targets = rg.tensor(x), rg.tensor(labels)
            for tensor in (images, targets, *net.parameters(), *net.buffers()):
                tensor.array = kind(tensor.array)
            stepper = OPTIMIZERS[optimizer](net.parameters())
            crossed.clear()
            for _ in range(2):
                stepper.zero_grad()
                loss = functional.cross_entropy(net(images), targets)
                loss.backward()
                stepper.step()
        losses.append(loss.array)
    assert crossed["to host"] <= (4 if words else 2)
    assert all(isinstance(parameter.array, Strict) for parameter in net.parameters())
    np.testing.assert_allclose(losses[1].to_host(), losses[0], 1e-6)
