"""Trainers of a small task, on plain NumPy."""

import pytest

from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import manual_seed
from retrograd.train import Trainer
from train.small import SMALL, small_task


@pytest.fixture
def make_trainer(tmp_path):
    def make(folder="run", settings=SMALL, task=None, **options) -> Trainer:
        manual_seed(settings.seed)
        return Trainer(task or small_task(), settings, tmp_path / folder, **options)

    with use_kernels("textbook"):
        yield make
