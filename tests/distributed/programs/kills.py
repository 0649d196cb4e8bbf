"""Trains, and writes checkpoints, while processes die: kills.py FOLDER STEPS [MODE] [RANK:MOMENT:COUNT[:SIGNAL] ...].

MODE: sync, batch norm takes the statistics of the whole batch; zero, the optimizer's state is shared out. Process RANK
(of those that have started) sends itself a signal when it comes to MOMENT for the COUNT-th time: KILL; TERM, which asks
all to stop after the step; STOP, or STOP3, which goes on after 3 seconds.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
from network import Network, batches

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import checkpoint, reducer
from retrograd.distributed.optim import ZeroRedundancyOptimizer
from retrograd.distributed.process_group import ProcessGroup
from retrograd.nn.functional import cross_entropy

folder, steps, *plan = sys.argv[1:]
mode = plan.pop(0) if plan and plan[0] in ("sync", "zero") else ""
dist.init_process_group(timeout=float(os.environ.get("TIMEOUT", 30)))
started = dist.get_rank()
blows = {}
for rank, moment, count, *what in (word.split(":") for word in plan):
    if int(rank) == started:
        blows[moment, int(count)] = (what or ["KILL"])[0]
seen, asked = {}, []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))


def come_to(moment):
    seen[moment] = seen.get(moment, 0) + 1
    what = blows.get((moment, seen[moment]), "")
    if what[4:]:
        subprocess.Popen(["sh", "-c", f"sleep {what[4:]}; kill -CONT {os.getpid()}"])
    if what:
        os.kill(os.getpid(), getattr(signal, f"SIG{what[:4]}"))


def around(owner, name, before=None, after=None):
    function = getattr(owner, name)

    def wrapped(*args, **kwargs):
        come_to(before)
        result = function(*args, **kwargs)
        come_to(after)
        return result

    setattr(owner, name, wrapped)


around(reducer.Exchange, "begin", "before sending", "sending")
around(reducer.Exchange, "_next", "receiving", "between the halves")
around(ProcessGroup, "all_agree", "before agreeing", "agreed")
around(checkpoint, "write_pieces", "writing", "written")
around(checkpoint, "write_metadata", "writing metadata", "metadata written")

x, y = next(batches(1, 64))
data = rg.utils.data.TensorDataset(rg.tensor(x), rg.tensor(y))
loader = dist.ShardedLoader(data, 16, shuffle=True, seed=4)
model = Network()
if mode == "sync":
    model = rg.nn.SyncBatchNorm.convert_sync_batchnorm(model)
optimizer = rg.optim.Adam(model.parameters(), lr=0.01)
if mode == "zero":
    optimizer = ZeroRedundancyOptimizer(model.parameters(), rg.optim.Adam, lr=0.01)
trainer = dist.ShardedTrainer(model, optimizer, seed=7)
trainer.tell = lambda: asked[0] if asked else -1
model.norm.register_forward_hook(lambda *_: come_to("forward"))
model.drop.register_full_backward_hook(lambda *_: come_to("backward"))


def loss(x, y):
    output = model(x)
    return cross_entropy(output, y), (output.array.argmax(1) == y.array).sum()


def state():
    if mode == "zero":
        optimizer.consolidate_state_dict(to=0)
        return {"model": model.state_dict(), "steps": trainer.steps}
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": trainer.steps}


digest, longest = hashlib.sha256(), 0.0
while trainer.steps < int(steps) and trainer.told < 0:
    for batch in loader:
        if trainer.steps == int(steps) or trainer.told > 0:
            break
        start = time.perf_counter()
        numbers = trainer.step(batch, loss, before=lambda _: come_to("optimizer"))
        longest = max(longest, time.perf_counter() - start)
        come_to("after the step")
        assert numbers.shape == (8, 2) and np.isfinite(numbers).all()
        for value in [*model.state_dict().values(), numbers]:
            digest.update(np.asarray(getattr(value, "array", value)).tobytes())
        if trainer.steps % 2 == 0:
            trainer.save(state(), folder)
digests = [None] * dist.get_world_size()
dist.all_gather_object(digests, digest.hexdigest())
assert len(set(digests)) == 1, digests
checkpoint.load(saved := {}, checkpoint_id=folder)
assert saved["steps"] == trainer.steps // 2 * 2
for name, value in model.state_dict().items() if trainer.steps % 2 == 0 else ():
    np.testing.assert_array_equal(saved["model"][name].numpy(), value.numpy())
if trainer.is_first:
    print(f"steps {trainer.steps}")
    print(f"digest {digests[0]} lost {trainer.lost} longest {longest:.3f}")
