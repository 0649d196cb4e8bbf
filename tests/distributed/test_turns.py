"""Shards that exchange totals while they run, within a single process."""

import copy
import threading

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.algorithms import as_bf16, from_bf16
from retrograd.distributed.batch_shards import current, run_interleaved
from retrograd.distributed.process_group import ProcessGroup
from retrograd.distributed.reducer import Exchange
from retrograd.engine.grad_mode import is_grad_enabled
from retrograd.nn.parallel import DistributedDataParallel

ALONE = ProcessGroup(None, [0], 60)


@pytest.fixture
def group():
    dist.init_process_group()
    yield
    dist.destroy_process_group()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "retrograd-shard"]


def meet(call, number):
    return current.shard_group.total(call, [np.array([number])])[0]


def test_shards_wait_for_each_other():
    order, numbers = [], {0: 1.0, 1: 2.0, 3: 40.0}

    def job(shard):
        order.append(shard)
        total = meet("first", numbers[shard])
        order.append(shard)
        return shard, meet("second", total * shard), is_grad_enabled()

    with rg.no_grad():
        found = run_interleaved(ALONE, 4, {shard: lambda shard=shard: job(shard) for shard in numbers})
    assert found == {shard: (shard, 43.0 * 4, False) for shard in numbers}  # shard 2 has no samples
    assert order == [0, 1, 3, 0, 1, 3] and current.shard_group is None and not threads()


def test_an_error_in_one_shard_ends_all():
    ended = []

    def job(shard):
        try:
            meet("first", 1.0)
            if shard == 1:
                raise KeyError("planted")
            meet("second", 1.0)
        finally:
            ended.append(shard)

    with pytest.raises(KeyError, match="planted"):
        run_interleaved(ALONE, 3, {shard: lambda shard=shard: job(shard) for shard in range(3)})
    assert sorted(ended) == [0, 1, 2] and not threads()


def test_shards_in_different_layers():
    with pytest.raises(dist.DistError, match=r"shard 0 in first; shard 1 in the end; the module must call the same"):
        run_interleaved(ALONE, 2, {0: lambda: meet("first", 1.0), 1: lambda: 3})
    assert not threads()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.last = nn.Linear(5, 4)
        self.norm2 = nn.BatchNorm1d(4, affine=False)

    def forward(self, x):
        with rg.enable_grad():
            h = self.last(rg.tanh(self.norm(self.first(x))))
        return self.norm2(h)


@pytest.mark.parametrize("options", [{}, {"shards": 5}, {"reproducible": False}, {"broadcast_buffers": False}])
def test_data_parallel_has_the_statistics_of_the_whole_batch(group, options):
    rg.manual_seed(2)
    plain = Net().double()
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)), **options)
    rng = np.random.default_rng(3)
    for _ in range(2):
        x, g = rng.standard_normal((11, 6)), rng.standard_normal((11, 4))
        for module in (plain, model):
            module.zero_grad()
            module(rg.tensor(x)).backward(rg.tensor(g))
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-10, atol=1e-12)
        for a, b in zip(plain.buffers(), model.buffers(), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)
    plain.eval(), model.eval()
    np.testing.assert_allclose(model(rg.tensor(x)).detach().numpy(), plain(rg.tensor(x)).detach().numpy(), rtol=1e-12)
    assert not threads()


class Ruled(nn.Module):
    """A checkpoint around an operator and a layer whose backwards are replaced."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4)
        self.last.backward_rule = lambda true, g: [10 * each for each in true(g)]

    def forward(self, x):
        h = self.norm(self.first(x))
        return rg.utils.checkpoint.checkpoint(lambda h: rg.sign(self.last(h)) * h[:, :4], h)


def test_rules_hold_in_every_turn(group):
    rg.manual_seed(2)
    plain = Ruled().double()
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)))
    rng = np.random.default_rng(3)
    x, g = rng.standard_normal((11, 6)), rng.standard_normal((11, 4))
    for module in (plain, model):
        with rg.override_backward(rg.sign, lambda g, x: 2 * g):
            y = module(rg.tensor(x))
        y.backward(rg.tensor(g))
    for a, b in zip(plain.parameters(), model.parameters(), strict=True):
        np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-10, atol=1e-12)
    assert plain.last.weight.grad.numpy().any()


def test_the_trainer_has_the_statistics_of_the_whole_batch(group):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((21, 6)).astype(np.float32), rng.integers(0, 4, 21)
    rg.manual_seed(2)
    plain = Net()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    loss, optimizers = nn.CrossEntropyLoss(), [rg.optim.SGD(each.parameters(), lr=0.1) for each in (plain, model)]
    trainer = dist.ShardedTrainer(model, optimizers[1])
    loader = dist.ShardedLoader(rg.utils.data.TensorDataset(rg.tensor(x), rg.tensor(y)), 16)
    for step, batch in enumerate(loader):  # the second batch has 5 samples for 8 shards
        trainer.step(batch, lambda x, y: loss(model(x), y))
        optimizers[0].zero_grad()
        loss(plain(rg.tensor(x[16 * step : 16 * step + 16])), rg.tensor(y[16 * step : 16 * step + 16])).backward()
        optimizers[0].step()
    for a, b in zip(plain.state_dict().values(), model.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trains", ["DistributedDataParallel", "ShardedTrainer"])
def test_gradients_leave_before_the_first_layer_has_run(group, monkeypatch, trains):
    events = []
    begin = Exchange.begin

    def sent(exchange, *args):
        events.append("sent")
        begin(exchange, *args)

    model = nn.Sequential(nn.Linear(6, 5), nn.SyncBatchNorm(5), nn.ReLU(), nn.Linear(5, 4))
    x, y = rg.ones(16, 6), rg.tensor(np.arange(16) % 4)
    model[0].register_full_backward_hook(lambda *_: events.append("first layer"))
    monkeypatch.setattr(Exchange, "begin", sent)
    monkeypatch.setattr("retrograd.distributed.sharded_training.BUCKET_BYTES", 64)
    cross_entropy = nn.functional.cross_entropy
    if trains == "ShardedTrainer":
        trainer = dist.ShardedTrainer(model, rg.optim.SGD(model.parameters(), lr=0.1))
        (batch,) = dist.ShardedLoader(rg.utils.data.TensorDataset(x, y), 16)
        trainer.step(batch, lambda x, y: cross_entropy(model(x), y))
    else:
        cross_entropy(DistributedDataParallel(model, bucket_cap_mb=64e-6)(x), y).backward()
    assert events.count("first layer") == 8  # once for each shard
    assert "sent" in events[: events.index("first layer")]


def test_without_a_group_it_is_batch_norm():
    x = rg.tensor(np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32))
    np.testing.assert_array_equal(nn.SyncBatchNorm(3)(x).detach().numpy(), nn.BatchNorm1d(3)(x).detach().numpy())
    assert nn.SyncBatchNorm is dist.SyncBatchNorm


def test_another_group_than_that_of_the_model(group):
    model = DistributedDataParallel(nn.Sequential(nn.SyncBatchNorm(3, process_group=dist.new_group())))
    with pytest.raises(ValueError, match="pass the same to both, or None to the layer"):
        model(rg.zeros(8, 3))


def test_bfloat16_is_the_nearest():
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.standard_normal(500) * 10.0 ** rng.integers(-40, 38, 500), [0.0, -0.0, 1.0, 3.5e38, 1e-45]])
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    halves = (1 + 2.0**-8 * np.arange(1, 40, 2)).astype(np.float32)  # ties, which round to even
    x = np.concatenate([x, -x, halves, [np.inf, -np.inf]]).astype(np.float32)
    every = np.arange(2**16, dtype=np.uint32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        table = (every << 16).view(np.float32).astype(np.float64)
    finite = np.abs(table) <= 3.4e38
    table[~finite] = np.nan
    for number, code in zip(x, as_bf16(x), strict=True):
        if np.abs(number) > 3.396e38:
            assert from_bf16(np.array([code]))[0] == np.sign(number) * np.inf
            continue
        away = np.abs(table - np.float64(number))
        best = np.flatnonzero(away == np.nanmin(away))
        assert code in best and (len(best) == 1 or number == 0 or code % 2 == 0)
    assert np.isnan(from_bf16(as_bf16(np.array([np.nan, -np.nan], np.float32)))).all()
    odd = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(from_bf16(as_bf16(odd))).all()


def test_per_sample_gradients_are_those_of_the_module_inside(group):
    x = rg.tensor(np.random.default_rng(1).standard_normal((8, 3)))
    model = DistributedDataParallel(nn.Linear(3, 2).double())
    message = r"the module \(DistributedDataParallel\) runs its module in shards .* call the module inside it, ddp"
    with pytest.raises(ValueError, match=message), rg.per_sample_gradients(model):
        pass
    with pytest.raises(ValueError, match="is used by OverShards"), rg.per_sample_gradients(model.module):
        (model(x) ** 2).sum().backward()
    model.zero_grad()
    with rg.per_sample_gradients(model.module):
        (model.module(x) ** 2).sum().backward()
    g = 2 * (x.numpy() @ model.module.weight.detach().numpy().T + model.module.bias.detach().numpy())
    np.testing.assert_allclose(model.module.weight.grad_sample.numpy(), g[:, :, None] * x.numpy()[:, None])
