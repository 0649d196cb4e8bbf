"""Trains from the last checkpoint, and writes one after every step: resumed.py FOLDER STEPS."""

import hashlib
import os
import sys

from network import Network, batches

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import checkpoint
from retrograd.nn.functional import cross_entropy

folder, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group(timeout=float(os.environ.get("TIMEOUT", 30)))
model = Network()
optimizer = rg.optim.Adam(model.parameters(), lr=0.01)
trainer = dist.ShardedTrainer(model, optimizer, seed=7)
if os.path.exists(os.path.join(folder, "metadata.json")):
    state = {"model": model.state_dict(), "optimizer": optimizer, "steps": 0}
    checkpoint.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    trainer.steps = state["steps"]
print(f"from step {trainer.steps} with {dist.get_world_size()}", flush=True)
x, y = next(batches(1, 64))
data = rg.utils.data.TensorDataset(rg.tensor(x), rg.tensor(y))
while trainer.steps < steps:
    loader = dist.ShardedLoader(data, 64, shuffle=True, seed=trainer.steps)
    for batch in loader:
        trainer.step(batch, lambda x, y: cross_entropy(model(x), y))
    trainer.save({"model": model.state_dict(), "optimizer": optimizer, "steps": trainer.steps}, folder)
if trainer.is_first:
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.numpy().tobytes())
    print(f"steps {trainer.steps} digest {digest.hexdigest()}", flush=True)
