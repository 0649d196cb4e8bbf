"""Recorded calls give the same bits as usual, with gradients and as objects."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from replay.small import NETWORKS, gradients, image, launches, network, same
from retrograd import nn
from retrograd.nn.compilation import explain_recording

pytestmark = pytest.mark.usefixtures("without_gradients")


# ---------------------------------------------------------------- the same results


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(11, 6), nn.LSTM(6, 7, 2), nn.Linear(7, 11)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.head(self.lstm(self.embedding(x))[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_replay_has_the_same_bits(name: str) -> None:
    make, shape = NETWORKS[name]
    net = make().eval()
    compiled = rg.compile(net)
    assert same(compiled, net, image(1, *shape))
    assert launches(compiled) == 1


def test_codes() -> None:
    net = Words().eval()
    compiled, codes = rg.compile(net), rg.tensor(np.random.default_rng(0).integers(0, 11, (5, 3)))
    assert same(compiled, net, codes) and launches(compiled) == 1
    with pytest.raises(IndexError, match="=11 is out of range"):  # as usual, and not from the arena
        compiled(rg.tensor(np.full((5, 3), 11)))
    assert same(compiled, net, codes)


def test_a_result_is_not_overwritten_by_the_next_call() -> None:
    compiled = rg.compile(network())
    x, y = image(0), image(1)
    compiled(x)
    first = compiled(x)
    before = first.numpy().copy()
    compiled(y)
    np.testing.assert_array_equal(first.numpy(), before)
    first.numpy()[...] = 7
    np.testing.assert_array_equal(compiled(x).numpy(), before)


def test_arguments_are_read_at_each_call() -> None:
    compiled, net, x = rg.compile(network()), network(), image()
    compiled(x)
    x.numpy()[...] *= -2
    assert bits(compiled(x).numpy()) == bits(net(x).numpy())


def test_several_results_and_named_arguments() -> None:
    def both(x: rg.Tensor, factor: float, *, other: rg.Tensor) -> Any:
        return {"sum": x + other, "rest": (x * factor, [other.exp()])}

    compiled = rg.compile(both)
    for seed in range(3):
        x, y = image(seed), image(seed + 5)
        found, wanted = (
            (each["sum"].numpy(), each["rest"][0].numpy(), each["rest"][1][0].numpy())
            for each in (compiled(x, 0.5, other=y), both(x, 0.5, other=y))
        )
        assert bits(found) == bits(wanted)
    assert launches(compiled) == 1
    assert bits(compiled(x, 3.0, other=y)["rest"][0].numpy()) == bits((x * 3.0).numpy())
    assert launches(compiled) == 2


def test_each_layout_and_dtype_is_recorded() -> None:
    net = network()
    compiled = rg.compile(net)
    x = image()
    turned = rg.Tensor(np.ascontiguousarray(x.numpy().transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1))
    for given in (x, image(2, 1, 3, 9, 9), turned, x):
        assert same(compiled, net, given)
    assert launches(compiled) >= 3
    double, wide = rg.compile(net.double()), rg.Tensor(x.numpy().astype(np.float64))
    assert same(double, net, wide)


def test_old_recordings_are_dropped() -> None:
    compiled = rg.compile(nn.ReLU())
    for length in range(1, 30):
        assert same(compiled, rg.relu, image(0, length))
    assert launches(compiled) == 16


# ---------------------------------------------------------------- gradients


def trained(net: nn.Module, call: Callable[..., Any], shape: tuple[int, ...], steps: int = 4) -> list[bytes]:
    """The bits of losses, gradients, parameters and buffers in some training steps, with accumulated gradients."""
    rg.manual_seed(7)
    optimizer, found = rg.optim.AdamW(net.parameters(), lr=0.01), []
    with rg.enable_grad():
        for step in range(steps):
            x = image(step, *shape).requires_grad_(step % 2 == 1)
            y = call(x)
            loss = (y * y).mean() + y.sum() * 0.1
            loss.backward()
            found += bits(loss.detach().numpy()) + ([] if x.grad is None else bits(x.grad.numpy()))
            found += [row for p in net.parameters() if p.grad is not None for row in bits(p.grad.numpy())]
            if step != 1:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    return found + [row for value in net.state_dict().values() for row in bits(value.numpy())]


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_has_the_same_bits(name: str, mode: str) -> None:
    make, shape = NETWORKS[name]
    rg.manual_seed(1)
    net = make()
    getattr(net, mode)()
    other = copy.deepcopy(net)
    compiled = rg.compile(other)
    assert trained(net, net, shape) == trained(other, compiled, shape)
    assert launches(compiled) == 2  # with and without a gradient of x


def test_words_are_trained() -> None:
    nets = [Words(), Words()]
    nets[1].load_state_dict(nets[0].state_dict())
    calls = nets[0], rg.compile(nets[1])
    codes = rg.tensor(np.random.default_rng(0).integers(0, 11, (5, 3)))
    with rg.enable_grad():
        for _ in range(3):
            for net, call in zip(nets, calls, strict=True):
                nn.functional.cross_entropy(call(codes).reshape(-1, 11), codes.reshape(-1)).backward()
                rg.optim.SGD(net.parameters(), lr=0.1).step()
    assert all(bits(a.array) == bits(b.array) for a, b in zip(*(net.parameters() for net in nets), strict=True))
    assert launches(calls[1]) == 1


def test_calls_before_their_backward_run_as_usual() -> None:
    net, x, y = network(), image(0), image(1)
    compiled = rg.compile(copy.deepcopy(net))
    with rg.enable_grad():
        for call in (net, compiled):
            call(x).sum().backward()
            call.zero_grad()
            first, second = call(x), call(y)  # two at a time
            (first * 2).sum().backward()
            (second * 3).sum().backward()
            call(y).sum().detach()  # never differentiated
            call(x).sum().backward()
    assert gradients(net) == gradients(compiled)


def test_frozen_parameters_and_other_requests() -> None:
    net, x = network(), image()
    compiled = rg.compile(copy.deepcopy(net))
    for freeze in (True, False, True):
        with rg.enable_grad():
            for call in (net, compiled):
                call.zero_grad()
                call[0].requires_grad_(not freeze)
                call[5].bias.grad_req = "null" if freeze else "add"
                call(x).sum().backward()
                call(x).sum().backward()
        assert gradients(net) == gradients(compiled) and (net[0].weight.grad is None) == freeze


def test_a_gradient_stays_what_it_was() -> None:
    compiled, x = rg.compile(network()), image()
    with rg.enable_grad():
        compiled(x).sum().backward()
        first = compiled[0].weight.grad.numpy()
        before = first.copy()
        compiled.zero_grad()
        compiled(x * 3).sum().backward()
    np.testing.assert_array_equal(first, before)
    assert not np.array_equal(compiled[0].weight.grad.numpy(), before)


def test_further_backward_passes() -> None:
    """They run the function again; without retain_graph there is none, as usual."""
    found = []
    with rg.enable_grad():
        for call in (network(), rg.compile(network())):
            rows = []
            for seed in range(4):
                x = image(seed).requires_grad_()
                loss = call(x).square().sum()
                loss.backward(retain_graph=True)
                loss.backward()
                (g,) = rg.autograd.grad(call(x).sin().sum(), x, create_graph=True)
                g.square().sum().backward()
                rows += bits(x.grad.numpy()) + gradients(call)
                with pytest.raises(RuntimeError, match="freed"):
                    loss.backward()
            found.append(rows)
    assert found[0] == found[1] and "it has second derivatives" in explain_recording(call)


def test_a_weight_changed_before_backward_is_an_error_as_usual() -> None:
    net, x = network(), image()
    with rg.enable_grad():
        for call in (net, rg.compile(network())):
            call(x).sum().backward()
            loss = call(x).sum()
            with rg.no_grad():
                call[5].weight.mul_(2)
            with pytest.raises(RuntimeError, match="changed in place"):
                loss.backward()


def test_results_with_and_without_gradients() -> None:
    def several(x: rg.Tensor) -> Any:
        return {"y": x.exp(), "largest": x.argmax(1), "rest": [x.detach() * 2]}

    compiled, found = rg.compile(several), []
    with rg.enable_grad():
        for call in (several, compiled, compiled):
            x = image().requires_grad_()
            result = call(x)
            assert not result["largest"].requires_grad and not result["rest"][0].requires_grad
            (result["y"] * result["rest"][0]).sum().backward()
            found.append(bits(x.grad.numpy()) + bits(result["largest"].numpy()))
    assert found[0] == found[1] == found[2] and launches(compiled) == 1


# ---------------------------------------------------------------- as an object


def test_a_compiled_module_is_the_module() -> None:
    net = network()
    compiled = rg.compile(net)
    assert isinstance(compiled, nn.Sequential) and type(compiled).__name__ == "Sequential"
    assert compiled[0] is net[0] and compiled.state_dict().keys() == net.state_dict().keys()
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    compiled.train()
    assert net.training and rg.compile(compiled) is compiled
    assert repr(compiled) == repr(net)


def test_copies_record_for_themselves() -> None:
    compiled, x = rg.compile(network()), image()
    compiled(x)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert bits(other(x).numpy()) == bits(compiled(x).numpy())
        other[0].weight.mul_(0)
        assert same(other, copy.deepcopy(other), x)
        assert not np.array_equal(other(x).numpy(), compiled(x).numpy())


def test_decorators_and_methods() -> None:
    @rg.compile
    def twice(x: rg.Tensor) -> rg.Tensor:
        """Twice x."""
        return x * 2

    class Model:
        factor = rg.ones(1) * 3

        @rg.compile(dynamic=True)
        def scaled(self, x: rg.Tensor) -> rg.Tensor:
            return x * 3

    assert twice.__name__ == "twice" and twice.__doc__ == "Twice x."
    assert same(twice, lambda x: x * 2, image()) and same(Model().scaled, lambda x: x * 3, image())


def test_threads_do_not_share_memory() -> None:
    compiled, net = rg.compile(network()), network()
    inputs = [image(seed) for seed in range(4)]
    wanted = [net(x).numpy() for x in inputs]
    compiled(inputs[0])
    failures: list[int] = []

    def work(place: int) -> None:
        with rg.no_grad():
            for _ in range(100):
                if not np.array_equal(compiled(inputs[place]).numpy(), wanted[place]):
                    failures.append(place)

    workers = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_a_compiled_network_is_freed() -> None:
    compiled = rg.compile(network())
    compiled(image())
    size = len(gc.get_objects())
    for _ in range(3):
        other = rg.compile(network())
        other(image())
        del other
    gc.collect()
    assert len(gc.get_objects()) < size + 500


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    assert rg.compile(net, disable=True) is net
    monkeypatch.setenv("RETROGRAD_EAGER", "1")
    assert rg.compile(net) is net


def test_messages() -> None:
    with pytest.raises(TypeError, match="compile: model is int, needs a module or a function"):
        rg.compile(3)
    with pytest.raises(TypeError, match="compile: fullgraph"):
        rg.compile(network(), fullgraph="yes")  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"explain_recording: compiled is Sequential, needs a result of retrograd\.compile"
    ):
        explain_recording(network())
    assert "nothing was recorded yet" in explain_recording(rg.compile(network()))


# ---------------------------------------------------------------- constant weights


def test_large_results_and_gradients_are_not_copied() -> None:
    """New arrays take the place of the recorded ones, also where launches see them in another shape."""

    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 256), nn.Linear(256, 300)

        def forward(self, x: rg.Tensor) -> Any:
            y = self.second(self.first(x).relu())
            return y, y.softmax(-1), y.transpose(0, 1).tanh()

    net = Large()
    other = copy.deepcopy(net)
    compiled, kept = rg.compile(other), []
    with rg.enable_grad():
        for seed in range(4):
            found = []
            for module, call in ((net, net), (other, compiled)):
                x = image(seed, 120, 64).requires_grad_()
                results = call(x)
                upstream = [image(seed + place, *y.shape) for place, y in enumerate(results)]
                rg.autograd.backward(results, upstream)
                found.append(bits(tuple(y.detach().numpy() for y in results)) + bits(x.grad.numpy()))
                found[-1] += [row for p in module.parameters() for row in bits(p.grad.numpy())]
                kept += [(y.detach().numpy(), y.detach().numpy().copy()) for y in results]
                module.zero_grad()
            assert found[0] == found[1]
    assert all(np.array_equal(now, before) for now, before in kept)
    (recording,) = compiled._recorder.found.values()
    assert sum(port._is_replaced for port in recording.results) >= 2
    with rg.enable_grad():  # a result that backward needs
        for call in (net, compiled):
            results = call(image(0, 120, 64))
            results[1].detach().mul_(2)
            with pytest.raises(RuntimeError, match="changed in place"):
                rg.autograd.backward(results, [rg.ones(*y.shape) for y in results])


def test_a_large_result_that_is_returned_twice() -> None:
    """From 64 KiB on, a replay writes results to new arrays."""

    def twice(x: rg.Tensor) -> Any:
        y = x + 1
        return y, y

    compiled = rg.compile(twice)
    for seed in range(4):
        x = rg.tensor(np.random.default_rng(seed).normal(size=(130, 140)).astype("f"))
        first, second = compiled(x)
        assert first is second and bits(first.numpy()) == bits(x.numpy() + np.float32(1))
    assert launches(compiled) == 1


def test_an_expanded_row_is_repeated_as_in_eager_mode() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(140, 130)).astype("f"), rng.normal(size=(130, 1)).astype("f")
    for function in (rg.add, rg.compile(rg.add)):
        for _ in range(3):
            z = function(rg.tensor(x).T, rg.tensor(y).expand(130, 140))
            np.testing.assert_array_equal(z.numpy(), x.T + y)


def test_a_plan_is_for_its_number_of_threads() -> None:
    """The weight gradient of a GRU has scratch for each thread."""
    net, x, found, before = nn.GRU(40, 50), rg.randn(30, 16, 40), [], rg.get_num_threads()

    def step(x: rg.Tensor) -> None:
        net.zero_grad()
        net(x)[0].square().sum().backward()

    try:
        with rg.enable_grad():
            for threads in (1, 2):
                rg.set_num_threads(threads)
                compiled = rg.compile(step)
                for _ in range(4):
                    compiled(x)
                    found.append([p.grad.numpy().tobytes() for p in net.parameters()])
    finally:
        rg.set_num_threads(before)
    assert all(each == found[0] for each in found)


@pytest.mark.filterwarnings("error")
def test_empty_results_and_made_up_numbers() -> None:
    x = rg.tensor(np.random.default_rng(0).normal(size=(130, 150)).astype("f"))
    empty, similar = rg.compile(lambda x: x.std(-1, keepdim=True)), rg.compile(nn.CosineSimilarity(-1))
    for _ in range(3):
        assert empty(rg.zeros(0, 5)).shape == (0, 1)
        np.testing.assert_allclose(similar(x, x * 0.5).numpy(), np.ones(130), rtol=1e-5)
