"""Operators on arrays of another library, which are not ndarrays and never convert implicitly.

They run on the textbook kernels, whose functions of NumPy hand the call to the arrays (``__array_function__``). Every
result, and every gradient, is such an array again, with the elements that NumPy gives. So a tensor on another device
needs arrays with NumPy's protocols, and no second text of any operator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_conformance import LAYERS
from conformance.test_types import CASES
from retrograd import nn
from retrograd.arrays import from_host
from retrograd.engine.tensor import wrap
from retrograd.kernel_set import Device, active_kernels, add_device, plan, remove_device, sets_of, use_kernels
from retrograd.kernels.interface import KERNELS
from retrograd.nn import functional
from retrograd.testing.function_call import Call, outputs_of
from strict_array import Strict, crossed

REFUSALS = (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)
NUMBERS = {"is_contiguous", "numel"}  # whose results are numbers of Python
# entries that refuse their arguments on any array: tables write methods without their underscore, and all ask gradients
REFUSED = {
    "addmm as x.addmm_()",
    "baddbmm as x.baddbmm_()",
    "masked_fill: broadcast as x.masked_fill_()",  # another shape
    "linalg.qr: complete",  # has no gradient
}


def in_place(call: Call, tensors: list[rg.Tensor], form: Any) -> Any:
    """The result of a method that changes its first tensor, which is no leaf."""
    return form(call, [x.clone() if x.requires_grad else x for x in tensors])


def as_layer(make: Callable[[], nn.Module], call: Call, tensors: list[rg.Tensor]) -> Any:
    """The result of a layer, whose tensors are made next to the first argument, and its parameters."""
    rg.manual_seed(1)
    layer = make().eval().double()
    owned = [x for part in layer.modules() for x in vars(part).values() if isinstance(x, rg.Tensor)]
    for x in (*layer.parameters(), *layer.buffers(), *owned):
        x.array = from_host(x.array, like=tensors[0].array)
    tensors += layer.parameters()
    return call.with_values(tensors, layer)


def cases() -> Iterator[tuple[str, Call, Any]]:
    """The name, the call and what runs it, of functions, methods, methods that change a tensor, and layers."""
    for case in CASES:
        if case.name not in NUMBERS and (case.label == case.name or " as x." in case.label):
            changes = case.label.endswith("_()")
            yield case.label, case.call, partial(in_place, form=case.form) if changes else case.form
    for entry in LAYERS:
        yield f"layer {entry.name}", Call(lambda *args: None, entry.args, {}, True), partial(as_layer, entry.function)


def forward(call: Call, form: Any, arrays: list[Any]) -> tuple[list[rg.Tensor], list[rg.Tensor]]:
    """The inputs of a call, a layer's parameters among them, and its outputs."""
    inputs = [rg.Tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    return inputs, [y for y in outputs_of(form(call, inputs)) if isinstance(y, rg.Tensor)]


def backward(outputs: list[rg.Tensor], kind: Any) -> None:
    """The backward pass from all outputs, for the same random gradients in every call."""
    results = [y for y in outputs if y.requires_grad]
    if results:
        random = np.random.default_rng(1)
        rg.autograd.backward(
            results, [wrap(kind(random.standard_normal(y.shape).astype(y.array.dtype))) for y in results]
        )


def differs(expected: Any, found: Any) -> bool:
    return not isinstance(found, Strict) or not np.allclose(expected, found.to_host(), 1e-6, 1e-9, equal_nan=True)


def wrong(call: Call, form: Any) -> str | None:
    """What is wrong with a call on strict arrays, empty if nothing is; None if it refuses its arguments."""
    try:
        inputs, outputs = forward(call, form, [array.copy() for array in call.arrays])
    except REFUSALS:
        return None
    try:
        backward(outputs, np.asarray)
        has_gradient = True
    except REFUSALS:
        has_gradient = False
    try:
        others, results = forward(call, form, [Strict(array.copy()) for array in call.arrays])
        if has_gradient:
            backward(results, Strict)
    except (*REFUSALS, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    if any(differs(y.array, z.array) for y, z in zip(outputs, results, strict=True)):
        return "another result, or an array of NumPy"
    pairs = [(x.grad, other.grad) for x, other in zip(inputs, others, strict=True) if x.grad is not None]
    if has_gradient and any(other is None or differs(x.array, other.array) for x, other in pairs):
        return "another gradient, or an array of NumPy"
    return ""


@pytest.fixture
def device() -> Iterator[Device]:
    """Strict arrays as a device; the kernels of the CPU stay the compiled ones."""
    yield add_device("strict", Strict, Strict)
    remove_device("strict")


@pytest.mark.filterwarnings("ignore")
def test_operators_on_strict_arrays(device: Device) -> None:
    """Two kernel sets are active: the compiled one computes what the textbook's on the device is compared with."""
    assert active_kernels() == "compiled"
    with np.errstate(all="ignore"):
        found = {name: wrong(call, form) for name, call, form in cases() if call.arrays}
    assert not {name: text for name, text in found.items() if text}
    assert {name for name, text in found.items() if text is None} == REFUSED
    assert len(found) > 1500


@pytest.mark.parametrize("kind", [np.asarray, Strict])
def test_changes_of_strict_arrays(kind: Any) -> None:
    """A change in place reaches the views of a tensor and their gradients, and is refused once a backward needs it."""
    with use_kernels("textbook"):
        leaf = rg.Tensor(kind(np.arange(6.0).reshape(2, 3)), requires_grad=True)
        x = leaf * 1.0
        row, windows = x[0], x.unfold(1, 2, 1)
        row.mul_(3.0)
        assert windows[0, 1].tolist() == [3.0, 6.0]
        (x.sum() + windows.sum()).backward()
        assert leaf.grad is not None and leaf.grad.tolist() == [[6.0, 9.0, 6.0], [2.0, 3.0, 2.0]]
        x = leaf * 1.0
        y = x * x
        x[1:].add_(1.0)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


@pytest.mark.parametrize("kind", [np.asarray, Strict])
def test_strided_views_of_strict_arrays(kind: Any) -> None:
    x = rg.Tensor(kind(np.arange(12.0).reshape(3, 4)))
    with use_kernels("textbook"):
        y = x[1:].as_strided((2, 3, 2), (5, 0, 1))
        assert type(y.array) is type(x.array)
        assert y.tolist() == [[[4, 5]] * 3, [[9, 10]] * 3]
        x[1].zero_()
        assert y[0].tolist() == [[0, 0]] * 3
        assert x.as_strided((0, 2), (1, 1)).shape == (0, 2)
        assert x.as_strided((), (), 7).tolist() == 0.0


def test_tensors_made_next_to_strict_arrays() -> None:
    x = rg.Tensor(Strict(np.ones((2, 3))))
    with use_kernels("textbook"):
        made = [
            x.new_tensor([1, 2]),
            x.new_zeros(2),
            x.new_ones(2),
            x.new_empty(2),
            x.new_full((2,), 3),
            rg.rand_like(x),
            rg.randn_like(x),
            rg.randint_like(x, 5),
            rg.zeros_like(x),
            x.new_empty_strided((2,), (1,)),
        ]
        assert all(isinstance(each.array, Strict) for each in made)
        copy = rg.tensor(x, dtype=rg.float32)
        assert isinstance(copy.array, Strict) and copy.dtype is rg.float32


class Words(nn.Module):
    """A language model: an LSTM or a block of a transformer."""

    def __init__(self, recurrent: bool) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)
        self.body: Any = (
            nn.LSTM(16, 16, 2, batch_first=True)
            if recurrent
            else nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.LayerNorm(16))
        )

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        y = self.body(self.embed(x))
        return self.out(y[0] if isinstance(y, tuple) else y).permute(0, 2, 1)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def normalized() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(6, 10),
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "lenet": (lenet, False),
    "batch norm": (normalized, False),
    "lstm": (lambda: Words(True), True),
    "transformer": (lambda: Words(False), True),
}
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


def test_tensors_move_to_a_device_and_back(device: Device) -> None:
    x = rg.tensor([[1.0, -2.0]], requires_grad=True)
    y = x.to("strict")
    assert y.device == rg.device("strict") and not y.is_cpu and x.device == rg.device("cpu") and x.is_cpu
    assert y.to("strict") is y and y.to(y) is y and y.cpu().is_cpu and rg.zeros(2).to(y).device == y.device
    assert y.to("strict", rg.float64).dtype == rg.float64 and y.to(rg.float64).device == y.device
    assert "device='strict'" in repr(y) and "device" not in repr(x)
    (y * y).sum().cpu().backward()
    assert x.grad is not None and x.grad.is_cpu and x.grad.tolist() == [[2.0, -4.0]]
    assert rg.autograd.gradcheck(lambda x: (x.to("strict") ** 3).cpu(), [rg.rand(3, dtype=rg.float64).requires_grad_()])


def test_a_module_moves(device: Device) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(18, 3))
    x = rg.rand(4, 1, 5, 5)
    expected = net(x)
    net(x).sum().backward()
    before = list(net.parameters())
    assert net.to("strict") is net and all(a is b for a, b in zip(before, net.parameters(), strict=True))
    everything = [*net.parameters(), *net.buffers(), *[p.grad for p in net.parameters()]]
    assert all(isinstance(each.array, Strict) for each in everything if each is not None)
    found = net.eval()(x.to("strict"))
    assert found.device == rg.device("strict")
    assert net.cpu()(x).is_cpu and expected.is_cpu
    with pytest.raises(RuntimeError, match="to: a parameter has no shape yet; run the module once, then move it"):
        nn.LazyLinear(3).to("strict")


SEED = rg.tensor([[1.0, 2.0]])
FACTORIES: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda device: rg.zeros(2, device=device),
    "full": lambda device: rg.full((2,), 3.0, device=device),
    "arange": lambda device: rg.arange(1, 5, 2, device=device),
    "linspace": lambda device: rg.linspace(0, 1, 3, device=device),
    "logspace": lambda device: rg.logspace(0, 1, 3, device=device),
    "eye": lambda device: rg.eye(2, device=device),
    "range": lambda device: rg.range(1, 3, device=device),
    "scalar_tensor": lambda device: rg.scalar_tensor(2.0, device=device),
    "empty_strided": lambda device: rg.empty_strided((2, 2), (1, 2), device=device).fill_(1),
    "tril_indices": lambda device: rg.tril_indices(3, 3, device=device),
    "tensor": lambda device: rg.tensor([1.0, 2.0], device=device),
    "as_tensor": lambda device: rg.as_tensor(np.arange(3.0), rg.float32, device),
    "asarray": lambda device: rg.asarray([1, 2], device=device, copy=True),
    "Tensor": lambda device: rg.Tensor([1.0, 2.0], device=device),
    "FloatTensor": lambda device: rg.FloatTensor([1.0, 2.0], device=device),
    "rand": lambda device: rg.rand(2, device=device),
    "randn": lambda device: rg.randn(2, device=device, requires_grad=True),
    "randint": lambda device: rg.randint(0, 9, (3,), device=device),
    "randperm": lambda device: rg.randperm(4, device=device),
    "normal": lambda device: rg.normal(0.0, 1.0, (3,), device=device),
    "zeros_like": lambda device: rg.zeros_like(SEED, device=device),
    "full_like": lambda device: rg.full_like(SEED, 2, device=device),
    "rand_like": lambda device: rg.rand_like(SEED, device=device),
    "randint_like": lambda device: rg.randint_like(SEED, 9, device=device),
    "new_tensor": lambda device: SEED.new_tensor([3.0], device=device),
    "new_zeros": lambda device: SEED.new_zeros(2, device=device),
    "new_full": lambda device: SEED.new_full((2,), 3.0, device=device),
    "new": lambda device: SEED.new([1.0], device=device),
    "hann_window": lambda device: rg.hann_window(4, device=device),
    "signal.windows.kaiser": lambda device: rg.signal.windows.kaiser(5, device=device),
    "signal.windows.hann": lambda device: rg.signal.windows.hann(5, device=device),
    "fft.fftfreq": lambda device: rg.fft.fftfreq(5, device=device),
    "sparse_coo_tensor": lambda device: rg.sparse_coo_tensor([[0, 1]], [1.0, 2.0], device=device).to_dense(),
    "mask": lambda device: nn.Transformer.generate_square_subsequent_mask(3, device=device),
}
LAYERS_WITH_DEVICE: dict[str, Callable[[Any], nn.Module]] = {
    "Linear": lambda device: nn.Linear(3, 2, device=device),
    "Conv2d": lambda device: nn.Conv2d(1, 2, 3, device=device),
    "BatchNorm2d": lambda device: nn.BatchNorm2d(3, device=device),
    "LSTM": lambda device: nn.LSTM(3, 2, 2, bidirectional=True, device=device),
    "GRUCell": lambda device: nn.GRUCell(3, 2, device=device),
    "Embedding": lambda device: nn.Embedding(5, 2, device=device),
    "MultiheadAttention": lambda device: nn.MultiheadAttention(4, 2, device=device),
    "TransformerEncoderLayer": lambda device: nn.TransformerEncoderLayer(4, 2, 8, device=device),
    "ConvLSTMCell2d": lambda device: nn.ConvLSTMCell2d(2, 3, 3, device=device),
    "PReLU": lambda device: nn.PReLU(device=device),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FACTORIES)
def test_new_tensors_on_a_device(device: Device, name: str) -> None:
    make, results = FACTORIES[name], []
    for place in ("cpu", "strict", rg.device("strict"), None):
        rg.manual_seed(1)
        results.append(make(place))
    assert [str(x.device) for x in results] == ["cpu", "strict", "strict", "cpu"]
    assert all(x.is_leaf or name == "sparse_coo_tensor" for x in results)
    assert all(x.requires_grad == (name == "randn") for x in results)
    np.testing.assert_allclose(results[1].tolist(), results[0].tolist())


@pytest.mark.parametrize("name", LAYERS_WITH_DEVICE)
def test_new_layers_on_a_device(device: Device, name: str) -> None:
    layers = []
    for place in ("cpu", "strict"):
        rg.manual_seed(1)
        layers.append(LAYERS_WITH_DEVICE[name](place))
    here, there = ([*layer.parameters(), *layer.buffers()] for layer in layers)
    assert there and all(x.device == rg.device("strict") and x.is_leaf for x in there)
    assert all(x.tolist() == y.tolist() for x, y in zip(here, there, strict=True))
    layers[0].to_empty(device="strict")
    assert all(x.device == rg.device("strict") for x in layers[0].parameters())


def test_sparse_tensors_move(device: Device) -> None:
    x = rg.rand(3, 2)
    a = rg.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]).to_sparse()
    b = a.to("strict")
    assert b.device == rg.device("strict") and b.indices().device == b.device and b.cpu().indices().is_cpu
    np.testing.assert_allclose((b @ x.to("strict")).tolist(), (a @ x).tolist(), 1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_networks_train_on_two_devices_at_once(device: Device, optimizer: str) -> None:
    """Step by step in turns, on compiled kernels here and on the textbook's there: the same losses."""
    losses: dict[str, list[float]] = {"cpu": [], "strict": []}
    steps = {}
    x, labels = rg.rand(4, 1, 28, 28), rg.tensor([0, 3, 9, 5])
    for place in losses:
        rg.manual_seed(1)
        net = lenet().to(place)
        steps[place] = net, OPTIMIZERS[optimizer](net.parameters()), x.to(place), labels.to(place)
    for _ in range(3):
        for place, (net, stepper, images, targets) in steps.items():
            stepper.zero_grad()
            loss = functional.cross_entropy(net(images), targets)
            loss.backward()
            stepper.step()
            losses[place].append(loss.item())
    np.testing.assert_allclose(losses["strict"], losses["cpu"], 1e-5)


@rg.formula
def squared(x: rg.Tensor) -> rg.Tensor:
    return x * x + 1.0


def test_the_set_is_chosen_when_a_step_is_made(device: Device) -> None:
    x = rg.rand(2, 3)
    y = x.to("strict")
    here, there = rg.record_steps(lambda: (x.exp(), y.exp()))
    assert here.plan().launches and not there.plan().launches
    assert plan("exp", x.array).launches and not plan("exp", y.array).launches
    with use_kernels("textbook"):  # the CPU's
        assert not plan("exp", x.array).launches
    assert squared(y).device == y.device
    np.testing.assert_allclose(squared(y).tolist(), squared(x).array, 1e-6)


def test_a_device_may_have_kernels_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kernels_of_a_device")
    module.exp = lambda x: x * 0 + 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    add_device("own", Strict, Strict, module.__name__)
    try:
        y = rg.ones(2).to("own")
        assert y.exp().tolist() == [7.0, 7.0] and y.neg().tolist() == [-1.0, -1.0]  # the other is the textbook's
    finally:
        remove_device("own")
    with pytest.raises(RuntimeError, match="device: type='own' is not a device; the only one here is 'cpu'"):
        rg.device("own")


def test_what_devices_refuse(device: Device) -> None:
    here = rg.ones(2, 2)
    there = here.to("strict")
    with pytest.raises(RuntimeError, match=r"its arrays are on the devices cpu and strict; move some: x.to\('cpu'\)"):
        here @ there
    with pytest.raises(RuntimeError, match="is not accepted here, only the CPU; pass device='strict' for each tensor"):
        rg.set_default_device("strict")
    with pytest.raises(RuntimeError, match="zeros: device='cuda', but there is one device, the CPU; leave device out"):
        rg.zeros(2, device="cuda")
    for name in ("cpu", "strict", "a b"):
        with pytest.raises(ValueError, match=f"name='{name}' must be a new identifier; cpu, strict are known"):
            add_device(name, type("Other", (), {}), Strict)
    for wrong in (3, lambda: Strict):
        with pytest.raises(TypeError, match="array=.* must be the type of the device's arrays"):
            add_device("new", wrong, Strict)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="add_device: name=3 must be a new identifier"):
        add_device(3, Strict, Strict)  # type: ignore[arg-type]
    for kind in (np.ndarray, Strict):
        with pytest.raises(ValueError, match="is the type of another device's arrays"):
            add_device("new", kind, Strict)


def test_every_kernel_is_in_the_textbook_and_most_are_compiled() -> None:
    sets = {name: sets_of(name) for name in KERNELS}
    assert all("textbook" in each for each in sets.values())
    assert sum("compiled" in each for each in sets.values()) > 280
    assert sets["conv"] == ("compiled", "textbook")
