"""Trains while processes die: kills.py STEPS [sync] [RANK:MOMENT:COUNT ...].

sync: batch norm takes the statistics of the whole batch. Process RANK (of those that have started) kills itself when it
comes to MOMENT for the COUNT-th time.
"""

import hashlib
import os
import signal
import sys
import time

import numpy as np
from network import Network, batches

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import exchange
from retrograd.distributed.process_group import ProcessGroup
from retrograd.nn.functional import cross_entropy

steps, *plan = sys.argv[1:]
sync = plan[:1] == ["sync"]
plan = plan[sync:]
dist.init_process_group(timeout=30)
started = dist.get_rank()
deaths = [(moment, int(count)) for rank, moment, count in (word.split(":") for word in plan) if int(rank) == started]
seen = {}


def come_to(moment):
    seen[moment] = seen.get(moment, 0) + 1
    if (moment, seen[moment]) in deaths:
        os.kill(os.getpid(), signal.SIGKILL)


def around(owner, name, before=None, after=None):
    function = getattr(owner, name)

    def wrapped(*args):
        come_to(before)
        result = function(*args)
        come_to(after)
        return result

    setattr(owner, name, wrapped)


around(exchange.Exchange, "begin", "before sending", "sending")
around(exchange.Exchange, "_next", "receiving", "between the halves")
around(ProcessGroup, "all_agree", "before agreeing", "agreed")

x, y = next(batches(1, 64))
data = rg.utils.data.TensorDataset(rg.tensor(x), rg.tensor(y))
loader = dist.ShardedLoader(data, 16, shuffle=True, seed=4)
model = Network()
if sync:
    model = rg.nn.SyncBatchNorm.convert_sync_batchnorm(model)
optimizer = rg.optim.Adam(model.parameters(), lr=0.01)
trainer = dist.ShardedTrainer(model, optimizer, seed=7)
model.norm.register_forward_hook(lambda *_: come_to("forward"))
model.drop.register_full_backward_hook(lambda *_: come_to("backward"))


def loss(x, y):
    output = model(x)
    return cross_entropy(output, y), (output.array.argmax(1) == y.array).sum()


digest, longest = hashlib.sha256(), 0.0
while trainer.steps < int(steps):
    for batch in loader:
        if trainer.steps == int(steps):
            break
        start = time.perf_counter()
        numbers = trainer.step(batch, loss, before=lambda _: come_to("optimizer"))
        longest = max(longest, time.perf_counter() - start)
        come_to("after the step")
        assert numbers.shape == (8, 2) and np.isfinite(numbers).all()
        for value in [*model.state_dict().values(), numbers]:
            digest.update(np.asarray(getattr(value, "array", value)).tobytes())
digests = [None] * dist.get_world_size()
dist.all_gather_object(digests, digest.hexdigest())
assert len(set(digests)) == 1, digests
if trainer.is_first:
    print(f"digest {digests[0]} lost {trainer.lost} longest {longest:.3f}")
