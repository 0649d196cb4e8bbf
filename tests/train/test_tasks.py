"""The tasks of ``retrograd train`` and how they change images."""

import subprocess
import sys

import numpy as np

from retrograd.ops.random import manual_seed
from retrograd.train.augment import flipped, shifted, warped
from retrograd.train.tasks import digits_task


def test_the_task(make_trainer):
    task = digits_task()
    images, labels = task.train.take(range(3))
    assert task.model(images).shape == (3, 10) and labels.shape == (3,)
    assert sum(parameter.numel() for parameter in task.model.parameters()) == 9978
    assert (len(task.train), len(task.held_out), len(task.classes)) == (1442, 355, 10)


def test_shifts_by_at_most_one_pixel():
    manual_seed(0)
    image = np.arange(1, 33, dtype=np.float32).reshape(2, 4, 4)
    batch = np.repeat(image[None], 200, axis=0)
    moved = shifted(batch)
    assert moved.shape == batch.shape and moved.dtype == batch.dtype and (batch == image).all()
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    allowed = [padded[:, down : down + 4, right : right + 4] for down in range(3) for right in range(3)]
    seen = {next(i for i, one in enumerate(allowed) if np.array_equal(one, result)) for result in moved}
    assert seen == set(range(9))
    manual_seed(0)
    assert np.array_equal(shifted(batch), moved)


def test_knows_the_kernels_that_training_runs(tmp_path):
    code = """
import sys
from retrograd.kernels.launch import registered
from retrograd.train import Settings, Trainer
from retrograd.train.tasks import digits_task
task = digits_task()
Trainer(task, Settings(epochs=1), sys.argv[1]).run()
assert set(task.kernels) <= {kernel.path for kernel in registered()}
print(*({kernel.path for kernel in registered() if "f" in kernel} - set(task.kernels)))
"""
    run = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == [], "these are compiled one by one; name them in train/tasks.py"
