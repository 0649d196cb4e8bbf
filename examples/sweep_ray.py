"""A sweep of learning rate, width and dropout with Ray Tune: each worker is a process that trains one trial at a time.

A callback of ``fit`` reports each epoch to Tune, whose scheduler stops trials that are behind the others. Needs
``pip install 'retrograd[sweeps]'``.
"""

from __future__ import annotations

import os
import tempfile

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from trial import trial

from data import run
from retrograd.train import Callback, Fit

METRIC = "held_out_accuracy"


class Report(Callback):
    """Reports each epoch to Tune, which may end the trial in this call."""

    def on_epoch_end(self, fit: Fit, record: dict) -> None:
        tune.report({METRIC: record[METRIC], "epoch": record["epoch"]})


def train(config: dict) -> None:
    """Train one trial in a worker."""
    trial(config["lr"], config["channels"], config["dropout"], config["epochs"], [Report()])


def main(trials: int = 16, workers: int = 2, epochs: int = 6) -> tuple[str, float]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
    space = {
        "lr": tune.loguniform(1e-4, 1e-1),
        "channels": tune.choice([4, 8, 16, 32]),
        "dropout": tune.uniform(0.0, 0.5),
        "epochs": epochs,
    }
    scheduler = ASHAScheduler(metric=METRIC, mode="max", time_attr="epoch", grace_period=1, max_t=epochs)
    try:
        with tempfile.TemporaryDirectory() as folder:
            tuner = tune.Tuner(
                tune.with_resources(train, {"cpu": 1}),
                param_space=space,
                tune_config=tune.TuneConfig(num_samples=trials, scheduler=scheduler),
                run_config=tune.RunConfig(storage_path=folder, verbose=0),
            )
            results = tuner.fit()
            if results.errors:
                raise results.errors[0]
            best = results.get_best_result(METRIC, "max")
            stopped = sum(each.metrics["epoch"] < epochs for each in results)
            print(f"{len(results)} trials, {stopped} of them stopped early; the best: {best.config}")
            return "accuracy", best.metrics[METRIC]
    finally:
        ray.shutdown()


if __name__ == "__main__":
    run(main)
