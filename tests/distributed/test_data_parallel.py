"""DistributedDataParallel in a single process with eight shards: unusual modules and orders of calls."""

import copy

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.nn.parallel import DistributedDataParallel

RNG = np.random.default_rng(12)
X, G = RNG.standard_normal((16, 4)).astype(np.float32), RNG.standard_normal((16, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def group():
    dist.init_process_group()
    yield
    dist.destroy_process_group()


def pair(module):
    """Return the module, and a DistributedDataParallel of a module with the same weights."""
    return module, DistributedDataParallel(copy.deepcopy(module))


def assert_same_grads(plain, parallel):
    for (name, a), b in zip(plain.named_parameters(), parallel.module.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


class Two(nn.Module):
    """Two layers, and a head that a loss may leave unused."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.head = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 2)

    def forward(self, x):
        h = rg.tanh(self.first(x))
        self.hidden = h
        return self.last(h), self.head(h), h.detach()


def test_results_that_the_loss_leaves_out():
    plain, parallel = pair(Two())
    for model in (plain, parallel):
        scores, head, constant = model(rg.tensor(X))
        assert head.requires_grad and not constant.requires_grad
        scores.backward(rg.tensor(G))
    assert plain.head.weight.grad is None
    assert_same_grads(plain, parallel)


def test_a_tensor_that_is_no_result_is_refused_in_the_loss():
    model = DistributedDataParallel(Two())
    scores, _, _ = model(rg.tensor(X))
    loss = (scores * rg.tensor(G)).mean() + (model.module.hidden**2).mean()
    with pytest.raises(RuntimeError, match="made in the module's forward and is not among its results"):
        loss.backward()
    assert model.module.first.weight.grad is None


def test_second_derivatives_are_refused():
    model = DistributedDataParallel(Two())
    x = rg.tensor(X).requires_grad_()
    with pytest.raises(RuntimeError, match=r"create_graph=True: a gradient that processes have exchanged cannot be"):
        rg.autograd.grad((model(x)[0] * rg.tensor(G)).sum(), [x], create_graph=True)


def test_a_second_backward():
    plain, parallel = pair(Two())
    for model in (plain, parallel):
        scores = model(rg.tensor(X))[0]
        scores.backward(rg.tensor(G), retain_graph=True)
        scores.backward(rg.tensor(G))
    assert_same_grads(plain, parallel)
    with pytest.raises(RuntimeError, match=r"graph was freed by an earlier backward; pass retain_graph=True"):
        scores.backward(rg.tensor(G))


def test_several_forwards_before_their_backwards_and_parameters_frozen_between():
    plain, parallel = pair(Two())
    for model in (plain, parallel):
        inner = getattr(model, "module", model)
        first = (model(rg.tensor(X))[0] * rg.tensor(G)).mean()
        inner.first.weight.requires_grad_(False)
        second = (model(rg.tensor(2 * X))[0] * rg.tensor(G)).mean()
        inner.first.weight.requires_grad_(True)
        second.backward()
        first.backward()
    assert_same_grads(plain, parallel)


def test_gradients_that_are_kept_do_not_change():
    model, kept = DistributedDataParallel(Two()), []
    model.module.last.weight.register_hook(lambda g: kept.append((g, g.numpy().copy())))
    for scale in (1, 3):
        model(rg.tensor(scale * X))[0].backward(rg.tensor(G))
    for gradient, before in kept:
        np.testing.assert_array_equal(gradient.numpy(), before)


class Workspace(rg.autograd.Function):
    """The identity, with a backward that returns the same array each time."""

    memory = np.empty(3, np.float32)

    @staticmethod
    def forward(ctx, x):
        return rg.tensor(x.array.copy())

    @staticmethod
    def backward(ctx, g):
        Workspace.memory[...] = g.array
        result = rg.Tensor(Workspace.memory)
        assert np.shares_memory(result.array, Workspace.memory)
        return result


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(rg.tensor([0.1, 0.2, 0.3]))

    def forward(self, x):
        return x[:, :3] + Workspace.apply(self.shift)


def test_a_backward_that_uses_its_memory_again():
    plain, parallel = pair(Shifted())
    for model in (plain, parallel):
        model(rg.tensor(X)).backward(rg.tensor(G))
    assert_same_grads(plain, parallel)


class Counts(nn.Module):
    """Buffers that forward assigns and changes, a mask of infinities, and an integer buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("average", rg.zeros(4))
        self.register_buffer("mask", rg.tensor([0.0, -np.inf, 0.0]))
        self.register_buffer("calls", rg.zeros(1, dtype=rg.int64))
        self.fails = self.reshapes = False

    def forward(self, x):
        self.average = 0.5 * self.average + 0.5 * x.detach().mean(0)
        self.calls += 1
        if self.fails:
            raise KeyError("planted")
        if self.reshapes:
            self.average = rg.zeros(2)
        return rg.softmax(self.layer(x) + self.mask, 1)


def test_buffers_change_by_the_mean_of_the_shards():
    model = DistributedDataParallel(Counts())
    inner = model.module
    average = inner.average
    for step in (1, 2):
        before = average.numpy().copy()
        y = model(rg.tensor(X))
        np.testing.assert_array_equal(inner.average.numpy(), before)  # until the backward ends
        y.backward(rg.tensor(G))
        assert inner.average is average
        np.testing.assert_allclose(average.numpy(), 0.5 * before + 0.5 * X.mean(0), rtol=1e-5)
        assert inner.calls.tolist() == [step]
        np.testing.assert_array_equal(inner.mask.numpy(), [0, -np.inf, 0])
        assert np.isfinite(inner.layer.weight.grad.numpy()).all()


def test_buffers_after_a_forward_without_a_backward():
    model = DistributedDataParallel(Counts())
    inner = model.module
    with rg.no_grad():
        model(rg.tensor(X))  # no backward will follow, so the buffers change at once
    np.testing.assert_allclose(inner.average.numpy(), 0.5 * X.mean(0), rtol=1e-5)
    model(rg.tensor(X))
    model(rg.tensor(X)).backward(rg.tensor(G))
    assert inner.calls.tolist() == [3]
    model(rg.tensor(X))
    model.load_state_dict({**model.state_dict(), "module.average": rg.ones(4)})
    model.eval()
    assert inner.average.tolist() == [1.0] * 4
    model.train()
    model(rg.tensor(X)).backward(rg.tensor(G))
    np.testing.assert_allclose(inner.average.numpy(), 0.5 + 0.5 * X.mean(0), rtol=1e-5)


def test_a_forward_that_fails_changes_no_buffer():
    model = DistributedDataParallel(Counts())
    inner = model.module
    model(rg.tensor(X)).backward(rg.tensor(G))
    before = {name: value.numpy().copy() for name, value in inner.state_dict().items()}
    for fault, error in (("fails", KeyError), ("reshapes", ValueError)):
        setattr(inner, fault, True)
        with pytest.raises(error, match=r"planted|replaced the buffer average of Counts, float32 \(4,\), by .*\(2,\)"):
            model(rg.tensor(X))
        setattr(inner, fault, False)
        for name, value in inner.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), before[name])
    batch, *_ = dist.ShardedLoader(rg.utils.data.TensorDataset(rg.tensor(X)), 16)
    trainer = dist.ShardedTrainer(inner, rg.optim.SGD(inner.parameters(), lr=0.1))
    inner.fails = True
    with pytest.raises(KeyError, match="planted"):
        trainer.step(batch, lambda x: inner(x).mean())
    for name, value in inner.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_a_buffer_and_a_layer_that_come_later():
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    model(rg.tensor(X)).backward(rg.tensor(G))
    model.module.append(nn.BatchNorm1d(3))
    model(rg.tensor(X)).backward(rg.tensor(G))
    assert model.module[2].num_batches_tracked.item() == 1 and (model.module[2].running_var.numpy() != 1).all()
    model.double()
    model.zero_grad()
    model(rg.tensor(X.astype(np.float64))).backward(rg.tensor(G.astype(np.float64)))
    assert model.module[0].weight.grad.dtype == rg.float64


class Hidden(nn.Module):
    """Overrides parameters and buffers, because some are in a list, which Module does not search."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.more = [nn.Parameter(rg.ones(3)), rg.zeros(1)]

    def named_parameters(self, *args, **kwargs):
        yield from super().named_parameters(*args, **kwargs)
        yield "more", self.more[0]

    def forward(self, x):
        return self.layer(x) * self.more[0]


def test_a_module_that_names_its_own_parameters():
    model = DistributedDataParallel(Hidden())
    model(rg.tensor(X)).backward(rg.tensor(G))
    inner = model.module
    expected = (inner.layer(rg.tensor(X)).detach() * rg.tensor(G)).sum(0)
    np.testing.assert_allclose(inner.more[0].grad.numpy(), expected.numpy(), rtol=1e-4)


def test_a_buffer_that_changes_its_shape():
    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.register_buffer("state", rg.zeros(2, 3))

        def forward(self, x):
            self.state.array = np.ones((3, 2), np.float32)
            return self.layer(x)

    model = DistributedDataParallel(Turns())
    with pytest.raises(ValueError, match=r"replaced the buffer state of Turns, float32 \(2, 3\), by float32 \(3, 2\)"):
        model(rg.tensor(X))
    assert model.module.state.tolist() == [[0.0] * 3] * 2


def test_seeds_of_a_trainer():
    model = nn.Linear(4, 3)
    for seed, error in ((-1, ValueError), (1.5, TypeError), ("x", TypeError), (True, TypeError)):
        with pytest.raises(error, match=rf"ShardedTrainer: seed={seed!r}"):
            dist.ShardedTrainer(model, rg.optim.SGD(model.parameters(), lr=0.1), seed=seed)


class Fails(rg.autograd.Function):
    on = False

    @staticmethod
    def forward(ctx, x):
        return rg.tensor(x.array.copy())

    @staticmethod
    def backward(ctx, g):
        if Fails.on:
            raise ArithmeticError("planted")
        return g


class Fragile(Two):
    def forward(self, x):
        return self.last(Fails.apply(rg.tanh(self.first(x))))


def test_a_backward_that_fails_leaves_nothing_behind():
    plain, parallel = pair(Fragile())
    Fails.on = True
    try:
        with parallel.no_sync(), pytest.raises(ArithmeticError, match="planted"):
            parallel(rg.tensor(3 * X)).backward(rg.tensor(G))
        with pytest.raises(ArithmeticError, match="planted"):
            parallel(rg.tensor(3 * X)).backward(rg.tensor(G))
    finally:
        Fails.on = False
    for model in (plain, parallel):
        model(rg.tensor(X)).backward(rg.tensor(G))
    assert_same_grads(plain, parallel)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda y: 0.5, "loss returned float; it must return the mean loss of the shard's samples"),
        (lambda y: y, r"loss returned a Tensor of shape \(2, 3\)"),
        (lambda y: (y.mean(), *range(next(COUNT))), r"loss returned 1 numbers for shard 0 and 8 for another one"),
    ],
)
def test_what_a_trainers_loss_returns(loss, message):
    global COUNT
    COUNT = iter(range(8))
    model = nn.Linear(4, 3)
    trainer = dist.ShardedTrainer(model, rg.optim.SGD(model.parameters(), lr=0.1))
    (batch,) = dist.ShardedLoader(rg.utils.data.TensorDataset(rg.tensor(X)), 16)
    with pytest.raises((TypeError, ValueError), match=message):
        trainer.step(batch, lambda x: loss(model(x)))


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        ("4", TypeError, "bucket_cap_mb='4' must be a number"),
        (0, ValueError, "must be above 0, and finite"),
        (float("inf"), ValueError, "bucket_cap_mb=inf must be above 0, and finite"),
    ],
)
def test_the_size_of_buckets(size, error, message):
    with pytest.raises(error, match=message):
        DistributedDataParallel(nn.Linear(4, 3), bucket_cap_mb=size)


def test_what_a_new_group_refuses():
    with pytest.raises(ValueError, match="use_local_synchronization=True: all processes of the world create a group"):
        dist.new_group(use_local_synchronization=True)
    with pytest.raises(ValueError, match="new_group: backend='nccl'"):
        dist.new_group(backend="nccl")
