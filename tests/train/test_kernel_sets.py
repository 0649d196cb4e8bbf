"""Training is the same on both kernel sets, and on one and two threads."""

import dataclasses

import numpy as np
import pytest

from retrograd.kernels.compiled.machine.launch import get_num_threads, set_num_threads
from retrograd.ops.random.random import manual_seed
from retrograd.train import Trainer
from train.small import SMALL, bits, small_task

COMPILED = dataclasses.replace(SMALL, kernels="compiled")


@pytest.fixture
def trained(tmp_path):
    def train(name, settings=COMPILED, threads=1) -> Trainer:
        before = get_num_threads()
        set_num_threads(threads)
        try:
            manual_seed(settings.seed)
            trainer = Trainer(small_task(), settings, tmp_path / name)
            trainer.run()
        finally:
            set_num_threads(before)
        return trainer

    return train


def test_threads_do_not_change_a_bit(trained):
    one, two, again = trained("one"), trained("two", threads=2), trained("again", threads=2)
    assert bits(one) == bits(two) == bits(again)


def test_both_sets_train_to_the_same_losses(trained):
    compiled, textbook = trained("compiled"), trained("textbook", SMALL)
    losses = [[record["loss"] for record in trainer.history] for trainer in (compiled, textbook)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
