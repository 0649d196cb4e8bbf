"""Worker processes: the same batches as without them, and every failure is reported without hanging."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import retrograd
from data.loading import (
    Chosen,
    Convolving,
    Noisy,
    Seeds,
    SeedStream,
    Shared,
    Shuffled,
    Who,
    fail,
    leave_a_mark,
    seed_numpy,
    seed_numpy_and_draw,
    unpicklable_batch,
)
from retrograd.data import DataLoader, get_worker_info
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import default_generator, manual_seed

FORK = "fork" if hasattr(os, "fork") else None  # starts sooner than the others


def batches(loader):
    return [tuple(part.array.tolist() for part in batch) for batch in loader]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_any_number_of_workers_gives_the_same_batches_in_two_epochs():
    found = []
    for workers in (0, 1, 2):
        manual_seed(7)
        loader = DataLoader(Noisy(), 3, shuffle=True, num_workers=workers, persistent_workers=workers == 2)
        epochs = []
        for _ in range(2):
            for batch in loader:
                epochs.append(tuple(part.array.tolist() for part in batch))
                default_generator.random()  # as dropout would
        found.append((epochs, default_generator.bit_generator.state))
    assert found[0] == found[1] == found[2]
    assert len({noise for batch in found[0][0] for noise in batch[1]}) == 20
    loader._workers.close()


def test_a_loader_with_workers_is_taken_up_in_its_middle_by_one_without():
    manual_seed(5)
    whole = batches(loader := DataLoader(Noisy(), 3, shuffle=True)) + batches(loader)
    manual_seed(5)
    loader = DataLoader(Noisy(), 3, shuffle=True, num_workers=2, multiprocessing_context=FORK)
    running, states = iter(loader), {}
    for stop in (1, 2, 3):
        next(running)  # others are made already, and not counted
        states[stop] = loader.state_dict(), default_generator.bit_generator.state
    running.close()
    for stop, (state, generator) in states.items():
        fresh = DataLoader(Noisy(), 3, shuffle=True)
        default_generator.random(3)
        fresh.load_state_dict(state)
        default_generator.bit_generator.state = generator
        assert batches(fresh) + batches(fresh) == whole[stop:]


def test_who_works():
    loader = DataLoader(Who(), 1, num_workers=2)
    rows = [[part[0] if isinstance(part, list) else part.item() for part in batch] for batch in loader]
    assert [row[1] for row in rows] == [0, 1, 0, 1, 0, 1]
    assert len({row[0] for row in rows} - {os.getpid()}) == 2
    assert {(row[2], row[3], row[4]) for row in rows} == {(2, True, "1")}
    assert get_worker_info() is None
    assert not any(alive(row[0]) for row in rows)  # they end with the epoch


def test_persistent_workers_stay_until_the_loader_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("RETROGRAD_TEST_FOLDER", str(tmp_path))
    loader = DataLoader(Who(), 3, num_workers=1, persistent_workers=True, worker_init_fn=leave_a_mark)
    found = {process for _ in range(3) for batch in loader for process in batch[0].array.tolist()}
    assert len(found) == 1 and [path.name for path in tmp_path.iterdir()] == [f"0-{found.copy().pop()}"]
    next(iter(loader))  # left early: what was made ahead is dropped
    assert [batch[0].shape for batch in loader] == [(3,), (3,)]
    first, second = iter(loader), iter(loader)
    next(first), next(second)
    with pytest.raises(RuntimeError, match="a new iteration over this loader has started"):
        next(first)
    assert all(alive(process) for process in found) or loader._workers is None
    del loader, first, second
    gc.collect()
    assert not any(alive(process) for process in found)


def test_an_iterable_dataset_is_shared_out():
    loader = DataLoader(
        Shared(9), 2, num_workers=2, prefetch_factor=3, persistent_workers=True, multiprocessing_context=FORK
    )
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    running = iter(loader)
    next(running), next(running), next(running)
    saved = loader.state_dict()
    running.close()
    loader.load_state_dict(saved)
    assert [batch.tolist() for batch in loader] == [[5, 7], [8]]


def test_compiled_kernels_run_in_workers():
    dataset = Convolving()
    plain = [batch.numpy() for batch in DataLoader(dataset, 2)]  # the main process has its threads then
    for context in ("spawn", "forkserver", "fork"):
        loader = DataLoader(dataset, 2, num_workers=2, multiprocessing_context=context, timeout=120)
        for ours, theirs in zip(plain, loader, strict=True):
            assert np.array_equal(ours, theirs.numpy())


def test_workers_have_the_kernels_of_the_process():
    with use_kernels("textbook", convolution="singa"):
        (batch,) = DataLoader(Chosen(), 2, num_workers=1, timeout=120)
    assert [set(names) for names in batch] == [{"textbook"}, {"singa"}]


def test_arrays_arrive_in_memory_that_can_be_written_to():
    for _, _, array in DataLoader(Noisy(4), 2, num_workers=1):
        array.array += 1


# ---- seeds of the workers ------------------------------------------------------------------------------------------


def epochs_of(loader, count=2):
    """The rows of ``seeds_and_draws`` of each epoch."""
    return [[row for batch in loader for row in batch] for _ in range(count)]


def seed_loader(dataset=None, **options):
    options = {"multiprocessing_context": FORK, **options}
    return DataLoader(dataset or Seeds(), 1, num_workers=2, collate_fn=list, **options)


def check_draws(rows):
    """Each worker's numbers are those of generators with its seed; returns the base seed."""
    (base,) = {seed - worker for worker, seed, *_ in rows}
    for worker in (0, 1):
        own = [row for row in rows if row[0] == worker]
        assert len(own) == 2
        numpys, pythons = np.random.RandomState((base + worker) % 2**32), random.Random(base + worker)
        for row in own:
            assert row[1:] == (base + worker, base + worker, numpys.randint(10**9), pythons.random())
    return base


@pytest.mark.parametrize(
    ("context", "dataset", "options"),
    [
        ("spawn", Seeds(), dict),
        pytest.param(
            *("spawn", SeedStream(), lambda: {"generator": np.random.default_rng(4)}), marks=pytest.mark.nightly
        ),
        ("fork", Seeds(), lambda: {"generator": retrograd.Generator().manual_seed(4)}),
        ("fork", SeedStream(), dict),
        ("fork", Seeds(), lambda: {"seed": 4}),
        ("fork", SeedStream(), lambda: {"generator": np.random.default_rng(4)}),
    ],
)
def test_each_worker_has_a_new_seed_in_each_epoch(context, dataset, options):
    if context == "fork" and not hasattr(os, "fork"):
        pytest.skip("needs fork")
    found = []
    for persistent in (False, True):
        manual_seed(5)
        loader = seed_loader(dataset, persistent_workers=persistent, multiprocessing_context=context, **options())
        before = default_generator.bit_generator.state
        found.append(epochs_of(loader, 3))
        assert default_generator.bit_generator.state == before
    assert found[0] == found[1]  # repeatable, and the same in new processes as in old ones
    first, second, third = (check_draws(rows) for rows in found[0])
    assert min(abs(first - second), abs(first - third), abs(second - third)) > 2
    draws = [row[3:] for rows in found[0] for row in rows]
    assert len(set(draws)) == len(draws)
    loader._workers.close()


def test_an_epoch_of_persistent_workers_that_is_left_early_changes_no_later_number():
    loader = seed_loader(persistent_workers=True, seed=2)
    whole = epochs_of(loader)
    loader = seed_loader(persistent_workers=True, seed=2)
    next(iter(loader))
    assert epochs_of(loader, 1) == whole[1:]
    manual_seed(7)
    loader = seed_loader(persistent_workers=True)
    again = epochs_of(loader)
    manual_seed(7)
    assert epochs_of(loader) == again


def test_a_new_loader_for_each_epoch():
    manual_seed(1)
    loaders = (seed_loader() for _ in range(2))
    first, second = (check_draws(epochs_of(loader, 1)[0]) for loader in loaders)
    assert abs(first - second) > 2
    state = json.loads(json.dumps(retrograd.get_rng_state()))
    third, fourth = epochs_of(seed_loader())
    retrograd.set_rng_state(state)
    assert epochs_of(seed_loader()) == [third, fourth]


def test_worker_init_fn_may_seed_by_the_initial_seed_or_by_itself():
    manual_seed(3)
    loader = seed_loader(worker_init_fn=seed_numpy)
    for rows in epochs_of(loader):
        check_draws(rows)
    loader = seed_loader(worker_init_fn=seed_numpy_and_draw, persistent_workers=True)
    first, second = epochs_of(loader)
    for worker, seed in {row[:2] for row in first}:
        own = [row[3:] for row in first if row[0] == worker]
        numpys, drawn = np.random.RandomState(worker), np.random.Generator(np.random.PCG64(seed)).random()
        pythons = random.Random(drawn)
        assert own == [(numpys.randint(10**9), pythons.random()) for _ in range(2)]
    check_draws(second)


@pytest.mark.parametrize("options", [{}, {"seed": 3}])
def test_a_loader_taken_up_in_its_middle_has_the_seeds_of_the_epoch(options):
    manual_seed(8)
    whole = [[row[:3] for row in rows] for rows in epochs_of(seed_loader(**options))]
    manual_seed(8)
    running = iter(loader := seed_loader(**options))
    next(running)
    saved = json.loads(json.dumps([loader.state_dict(), retrograd.get_rng_state()]))
    running.close()
    manual_seed(9)
    loader = seed_loader(**options)
    loader.load_state_dict(saved[0])
    retrograd.set_rng_state(saved[1])
    rest, second = epochs_of(loader)
    assert [row[:3] for row in rest] == whole[0][1:]
    assert [row[:3] for row in second] == whole[1]


def test_an_order_that_is_drawn_when_the_iteration_starts():
    """Each worker draws its own order, and the epoch can be resumed. The epoch takes one draw from the generator."""
    found, states = [], []

    def start(workers):
        context = FORK if workers else None
        return DataLoader(Shuffled(20), 5, num_workers=workers, multiprocessing_context=context)

    for workers in (0, 1, 2):
        manual_seed(6)
        loader = start(workers)
        found.append([[batch.tolist() for batch in loader] for _ in range(2)])
        states.append(default_generator.bit_generator.state)
    expected = np.random.Generator(np.random.PCG64(6))
    expected.integers(2**63, size=2)
    assert all(state == expected.bit_generator.state for state in states)
    for first, second in found:
        assert first != second
    for epoch in found[2]:
        orders = sum(epoch[::2], []), sum(epoch[1::2], [])
        assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(20))
    for workers in (0, 1):
        manual_seed(6)
        loader = start(workers)
        next(running := iter(loader))
        saved = loader.state_dict(), retrograd.get_rng_state()
        running.close()
        manual_seed(0)
        loader = start(workers)
        loader.load_state_dict(saved[0])
        retrograd.set_rng_state(saved[1])
        rest, second = ([batch.tolist() for batch in loader] for _ in range(2))
        assert rest == found[workers][0][1:] and second == found[workers][1]


# ---- faults --------------------------------------------------------------------------------------------------------


def test_an_exception_arrives_with_its_traceback():
    loader = DataLoader(Noisy(10, 4, "raise"), 2, num_workers=2)
    running = iter(loader)
    assert next(running)[0].tolist() == [0, 1] and next(running)[0].tolist() == [2, 3]
    with pytest.raises(KeyError, match="no such sample") as caught:
        next(running)
    text = str(caught.value.__cause__)
    assert "in worker process 0 of a DataLoader" in text and "loading.py" in text and "in act" in text


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"dataset": Noisy(4, 1, "own"), "multiprocessing_context": "spawn"},
            RuntimeError,
            "worker 0 raised .*OwnError: bad",
        ),
        (
            {"dataset": Noisy(4, 1, "kill"), "multiprocessing_context": "spawn"},
            RuntimeError,
            r"worker 0 \(process \d+\) was killed by SIGKILL, as",
        ),
        ({"dataset": Noisy(4, 1, "exit")}, RuntimeError, r"worker 0 \(process \d+\) exited with code 3"),
        ({"dataset": Noisy(4, 1, "wait"), "timeout": 0.8}, RuntimeError, "returned no batch within timeout=0.8 s"),
        ({"dataset": Noisy(4), "worker_init_fn": fail}, ValueError, "worker 0 does not want to"),
        ({"dataset": Noisy(4), "collate_fn": unpicklable_batch}, Exception, "<lambda>"),
    ],
)
def test_faults_in_a_worker(options, error, message):
    loader = DataLoader(**{"batch_size": 2, "num_workers": 1, "multiprocessing_context": FORK, **options})
    running = iter(loader)
    with pytest.raises(error, match=message):
        next(running)


def test_a_worker_killed_while_it_waits_is_noticed():
    loader = DataLoader(Who(), 1, num_workers=2, persistent_workers=True, multiprocessing_context=FORK)
    processes = [batch[0].item() for batch in loader][:2]
    os.kill(processes[1], signal.SIGKILL)
    with pytest.raises(RuntimeError, match=rf"worker 1 \(process {processes[1]}\) was killed by SIGKILL"):
        list(loader)
    assert not alive(processes[0])
    assert len(list(loader)) == 6  # new ones


def test_what_cannot_be_sent_is_said_before_anything_starts():
    with pytest.raises(TypeError, match="num_workers=2 sends the dataset, .* cannot be pickled.*num_workers=0"):
        next(iter(DataLoader(Noisy(), 2, num_workers=2, multiprocessing_context="spawn", collate_fn=lambda _: _)))


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(text)
    source, tests = Path(retrograd.__file__).parents[1], Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(tests)])}
    return subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_script_without_a_main_guard(tmp_path):
    """A new process would run the script again: by default it is forked; with "spawn" an error explains the problem."""
    text = "print('once')\nprint(len(list(DataLoader(Noisy(), 2, num_workers=2{}))))\n"
    head = "from data.loading import Noisy\nfrom retrograd.data import DataLoader\n"
    done = run_script(tmp_path, head + text.format(""))
    assert done.stdout.split() == ["once", "5"], done.stderr
    done = run_script(tmp_path, head + text.format(", multiprocessing_context='spawn'"))
    assert done.returncode == 1
    assert 'under if __name__ == "__main__":' in done.stderr.splitlines()[-1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_workers_end_with_the_main_process(tmp_path):
    done = run_script(
        tmp_path,
        "import os, signal\nfrom data.loading import Who\nfrom retrograd.data import DataLoader\n"
        "running = iter(DataLoader(Who(), 1, num_workers=2))\n"
        "print(next(running)[0].item(), next(running)[0].item(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    processes = [int(word) for word in done.stdout.split()]
    until = time.monotonic() + 10
    while any(alive(process) for process in processes) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(processes) == 2 and not any(alive(process) for process in processes)


def test_workers_end_when_the_main_process_is_killed(tmp_path):
    done = run_script(
        tmp_path,
        "import os, signal\nfrom data.loading import Who\nfrom retrograd.data import DataLoader\n"
        "if __name__ == '__main__':\n"
        "    running = iter(DataLoader(Who(), 1, num_workers=2))\n"
        "    print(next(running)[0].item(), next(running)[0].item(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    processes = [int(word) for word in done.stdout.split()]
    until = time.monotonic() + 10
    while any(alive(process) for process in processes) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(processes) == 2 and not any(alive(process) for process in processes)


def test_what_cannot_be_pickled_is_forked():
    """A lambda, as in many scripts for PyTorch; the batches and random numbers are the same."""
    epochs = []
    for count in (0, 2):
        manual_seed(3)
        loader = DataLoader(Noisy(8), 2, num_workers=count, collate_fn=lambda items: [item[:2] for item in items])
        epochs.append([list(loader), list(loader)])
    assert epochs[0] == epochs[1] and epochs[0][0] != epochs[0][1]
