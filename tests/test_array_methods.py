"""Methods and operators of arrays compute nothing outside of kernels, so recordings miss no step."""

from __future__ import annotations

import ast
import copy
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from array_spy import Spy, strict_by_default
from conformance.test_strict_arrays import NETWORKS, REFUSALS, Words, backward, cases, forward, lenet
from retrograd import distributions, lowbit, nn, optim
from retrograd.kernel_set import use_kernels
from retrograd.nn.model_summary import summary
from retrograd.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    parameters_to_vector,
    parametrizations,
    parametrize,
    per_sample_gradients,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    vector_to_parameters,
    weight_norm,
)
from retrograd.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, truncated
from retrograd.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from strict_array import Strict
from test_numpy_calls import PACKAGE, ROOMS

# (file, kind of access) -> why it is allowed
EXEMPT = {
    ("engine/printing.py", "array2string"): "prints elements",
    ("ops/product/einsum.py", "einsum_path"): "orders products by shapes; it reads no element",
}


def assert_no_places(spy: Spy) -> None:
    found = Counter({place: count for place, count in spy.places.items() if (place[0], place[2]) not in EXEMPT})
    assert not found, "use kernels, or a function of arrays/:\n" + "\n".join(map(str, sorted(found.items())))


def in_other_order(array: np.ndarray) -> np.ndarray:
    return array.copy(order="F")


def with_gaps(array: np.ndarray) -> np.ndarray:
    found = np.zeros([2 * n for n in array.shape], array.dtype)
    part: np.ndarray = found[(slice(None, None, 2),) * array.ndim + (...,)]
    part[...] = array
    return part


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("placed", [np.copy, in_other_order, with_gaps])
def test_operators(placed: Callable[[np.ndarray], np.ndarray]) -> None:
    """Forward and backward of all operators and layers, on arrays with several memory layouts."""
    with use_kernels("textbook"), np.errstate(all="ignore"), Spy() as spy:
        for _, call, form in cases():
            try:
                _, outputs = forward(call, form, [Strict(placed(array)) for array in call.arrays])
                backward(outputs, Strict)
            except REFUSALS:
                continue
    assert_no_places(spy)


# ---- programs that the tables of operators and layers do not cover ---------------------------------------------------


def drawn(*shape: int) -> rg.Tensor:
    return rg.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))


def train(net: nn.Module, x: rg.Tensor, **options: Any) -> None:
    optimizer = optim.SGD(net.parameters(), lr=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        y: Any = net(x)
        y = y[0] if isinstance(y, tuple) else y
        (y * y).sum().backward()
        optimizer.step()


def networks() -> None:
    for make, words in NETWORKS.values():
        x = rg.Tensor(Strict(np.arange(21).reshape(3, 7) % 20)) if words else drawn(4, 1, 28, 28)
        train(make(), x)


def modules() -> None:
    net = small()
    train(net, drawn(3, 6))
    copy.deepcopy(net)
    net.double().float()
    state = net.state_dict()
    net.load_state_dict(copy.deepcopy(state))
    net.load_state_dict(state, assign=True)
    summary(net, (3, 6))
    vector_to_parameters(parameters_to_vector(net.parameters()) * 2.0, net.parameters())
    for order in (1.0, 2.0, 3.0, math.inf):
        clip_grad_norm_(net.parameters(), 1.0, order)
    clip_grad_value_(net.parameters(), 0.1)


def computed_weights() -> None:
    for add, remove in ((spectral_norm, remove_spectral_norm), (weight_norm, remove_weight_norm)):
        layer = add(nn.Linear(6, 5))
        train(layer, drawn(3, 6))
        remove(layer)
    for name in ("spectral_norm", "weight_norm", "orthogonal"):
        layer = getattr(parametrizations, name)(nn.Linear(6, 5))
        train(layer, drawn(3, 6))
        parametrize.remove_parametrizations(layer, "weight")


def of_each_sample() -> None:
    lstm = nn.LSTM(4, 5, batch_first=True)
    for net, x in ((small(), drawn(3, 6)), (lenet(), drawn(2, 1, 28, 28)), (lstm, drawn(3, 2, 4))):

        def losses(net: Any = net, x: rg.Tensor = x) -> rg.Tensor:
            y = net(x)
            y = y[0] if isinstance(y, tuple) else y
            return (y * y).reshape(y.shape[0], -1).sum(1)

        per_sample_gradients(net, losses)
        with per_sample_gradients(net, loss_reduction="mean"):
            losses().mean().backward()
            losses().mean().backward()


def sequences() -> None:
    layer, x = nn.LSTM(4, 5), drawn(6, 3, 4)
    packed, _ = layer(pack_padded_sequence(x, [6, 4, 2]))
    pad_packed_sequence(packed)[0].sum().backward()
    for y, _ in truncated(layer, x, 2, lengths=[6, 4, 2]):
        y.sum().backward()
    nn.ConvLSTM2d(2, 3, 3, checkpoint=2)(drawn(5, 2, 2, 6, 6), lengths=[5, 3])[0].sum().backward()
    nn.ZoneoutCell(nn.GRUCell(4, 5), 0.5)(x[0])
    train(Words(True).body, drawn(2, 3, 16))


def averages() -> None:
    net = small()
    for options in ({}, {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}, {"use_buffers": True}):
        average = AveragedModel(net, **options)  # type: ignore[arg-type]
        for _ in range(3):
            average.update_parameters(net)


def first_values() -> None:
    for name in nn.init.__all__:
        for options in ({}, {"sparsity": 0.5}, {"val": 0.5}):
            for shape in ((4, 3), (2, 2, 3)):
                try:
                    getattr(nn.init, name)(rg.empty(*shape), **options)
                except (TypeError, ValueError):
                    continue


def quantized() -> None:
    for weight in (lowbit.BinaryConnect(), lowbit.TWN(), lowbit.Int8(), lowbit.DoReFa(4), lowbit.DeepShiftQ(4)):
        net = nn.Sequential(
            lowbit.Conv2d(2, 4, 3, weight=weight, activation=lowbit.Int8()),
            nn.ReLU(),
            lowbit.ConvTranspose2d(4, 4, 3, weight=weight, groups=2),
            nn.Flatten(),
            lowbit.Linear(144, 3, weight=weight),
        )
        train(net, drawn(2, 2, 6, 6))
        lowbit.pack(net.eval())


def chances() -> None:
    positive, shares = rg.tensor([0.3, 0.6]), rg.tensor([3.0, 4.0])
    for name in distributions.__all__:
        for given in ((positive,), (positive, shares), (shares, rg.tensor([1.5, 2.0]))):
            try:
                one = getattr(distributions, name)(*given)
                x = one.sample((3,))
                _ = one.log_prob(x), one.rsample((3,)), one.cdf(x), one.entropy(), one.mean, one.variance
            except (*REFUSALS, AttributeError):
                continue


PROGRAMS = [networks, modules, computed_weights, of_each_sample, sequences, averages, first_values, quantized, chances]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Callable[[], None]) -> None:
    with use_kernels("textbook"), np.errstate(all="ignore"), strict_by_default(), Spy() as spy:
        program()
    assert_no_places(spy)


KINDS = [name for name in optim.__all__ if isinstance(getattr(optim, name), type)]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"amsgrad": True},
    {"maximize": True},
    {"centered": True},
]


@pytest.mark.parametrize("name", KINDS)
def test_optimizers(name: str) -> None:
    """Steps, and saving and loading the state."""
    kind = getattr(optim, name)
    if not issubclass(kind, optim.Optimizer) or kind is optim.Optimizer:
        return
    with use_kernels("textbook"), strict_by_default(), Spy() as spy:
        weight = nn.Parameter(drawn(4, 3).t())
        for options in OPTIONS:
            try:
                optimizer = kind([weight], lr=0.1, **options)
            except TypeError:
                continue

            def loss(optimizer: Any = optimizer) -> rg.Tensor:
                optimizer.zero_grad()
                y = (weight * weight).sum()
                y.backward()
                return y

            for _ in range(2):
                optimizer.step(loss)
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert_no_places(spy)


def test_what_the_spy_sees() -> None:
    """The spy reports accesses by package code outside of kernels, not those by tests."""
    x = rg.Tensor(Strict(np.arange(4.0)))
    with use_kernels("textbook"), Spy() as spy:
        x.array * 2.0
        x.exp()
        x.tolist()
    assert not spy.places
    with use_kernels("textbook"), Spy() as spy:
        repr(x)
    assert set(spy.places) == {("engine/printing.py", "format_elements", "array2string")}


COPIES: dict[str, Callable[[rg.Tensor], Any]] = {
    "tensor": lambda x: rg.tensor(x) * 2.0,
    "tensor of another type": lambda x: rg.tensor(x, dtype=rg.float64) * 2.0,
    "deepcopy": lambda x: copy.deepcopy(x) * 2.0,
    "parameters_to_vector": lambda x: parameters_to_vector([x]) * 2.0,
    "weights of classes": lambda x: nn.functional.multi_margin_loss(rg.ones(2, 3), rg.tensor([2, 1]), weight=x[:, 0]),
    "histc": lambda x: rg.histc(x, 4, -9.0, 9.0),
    "argmax": lambda x: x.argmax(),
    "resize_": lambda x: x.t()[::2].resize_(9)[:4] * 2.0,
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_run_again(name: str) -> None:
    """A recording reads the new elements of a tensor with gaps, where it copied the old ones."""
    x = drawn(6, 4)[::2].t()[:3]
    steps = rg.record_steps(COPIES[name], x)
    x.mul_(-1.5)
    expected = COPIES[name](x).tolist()
    steps.run()
    assert steps.result.tolist() == expected


# ---- the source code -------------------------------------------------------------------------------------------------

COMPUTES = {
    *("all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "dot"),
    *("fill", "flatten", "item", "max", "mean", "min", "nonzero", "prod", "put", "ravel", "repeat", "round"),
    *("searchsorted", "sort", "std", "sum", "take", "tobytes", "tolist", "trace", "var"),
}
# file -> why it computes with arrays of tensors itself
ON_THE_HOST = {
    "engine/gradcheck.py": "compares gradients with differences",
}


def computing(text: str) -> list[str]:
    """Return where source code calls a computing method of ``<tensor>.array``, computes with it, or writes into it."""
    found: list[ast.AST] = []

    def is_array(node: ast.AST) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        return isinstance(node, ast.Attribute) and node.attr == "array"

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found += [node] * (node.func.attr in COMPUTES and is_array(node.func.value))
        elif isinstance(node, ast.BinOp):
            found += [node] * (is_array(node.left) or is_array(node.right))
        elif isinstance(node, ast.Compare):
            ordered = any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops)
            found += [node] * (ordered and any(map(is_array, (node.left, *node.comparators))))
        elif isinstance(node, ast.AugAssign):
            found += [node] * is_array(node.target)
        elif isinstance(node, ast.Assign):
            found += [node] * any(isinstance(each, ast.Subscript) and is_array(each) for each in node.targets)
    return [ast.unparse(node) for node in found]


@pytest.mark.parametrize("room", ROOMS)
def test_the_text(room: str) -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), line)
        for path in (PACKAGE / room).rglob("*.py")
        for line in computing(path.read_text(encoding="utf-8"))
    }
    extra = {each for each in found if each[0] not in ON_THE_HOST}
    assert not extra, f"use kernels, or a function of arrays/: {sorted(extra)}"


def test_what_computes() -> None:
    text = "x.array.copy(); x.array[0] * 2; x.array[...] = 1; x.array += y; x.array < 1; x.array.reshape(3); x.sum()"
    assert sorted(computing(text)) == [
        "x.array += y",
        "x.array < 1",
        "x.array.copy()",
        "x.array[...] = 1",
        "x.array[0] * 2",
    ]
