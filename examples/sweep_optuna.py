"""A sweep of learning rate, width and dropout with Optuna: each worker is a process that trains one trial at a time.

The workers share a journal file. A callback of ``fit`` prunes a trial that is below the median of the others after an
epoch. Needs ``pip install 'retrograd[sweeps]'``.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from trial import trial

from data import run
from retrograd.train import Callback, Fit

NAME = "digits"


class Pruning(Callback):
    """Reports the accuracy of each epoch, and ends a trial that Optuna prunes."""

    def __init__(self, of: optuna.Trial) -> None:
        self.trial = of

    def on_epoch_end(self, fit: Fit, record: dict) -> None:
        self.trial.report(record["held_out_accuracy"], record["epoch"])
        if self.trial.should_prune():
            raise optuna.TrialPruned(f"after epoch {record['epoch']}")


def storage(journal: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(journal)))


def work(journal: Path, number: int, trials: int, epochs: int) -> None:
    """Run the trials of one worker."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        study_name=NAME,
        storage=storage(journal),
        sampler=optuna.samplers.TPESampler(seed=number),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
    )

    def objective(of: optuna.Trial) -> float:
        lr = of.suggest_float("lr", 1e-4, 1e-1, log=True)
        channels = of.suggest_int("channels", 4, 32, log=True)
        return trial(lr, channels, of.suggest_float("dropout", 0.0, 0.5), epochs, [Pruning(of)])

    study.optimize(objective, n_trials=trials)


def main(trials: int = 16, workers: int = 2, epochs: int = 6) -> tuple[str, float]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder, "journal.log")
        study = optuna.create_study(study_name=NAME, storage=storage(journal), direction="maximize")
        start = multiprocessing.get_context("spawn").Process
        shares = [trials * (k + 1) // workers - trials * k // workers for k in range(workers)]
        processes = [start(target=work, args=(journal, k, share, epochs)) for k, share in enumerate(shares)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise RuntimeError("a worker has failed")
        pruned = sum(each.state == optuna.trial.TrialState.PRUNED for each in study.trials)
        print(f"{len(study.trials)} trials, {pruned} of them pruned; the best: {study.best_params}")
        return "accuracy", study.best_value


if __name__ == "__main__":
    run(main)
