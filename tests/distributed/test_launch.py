"""Starting processes: the launcher, and ``retrograd train --workers``."""

import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from distributed.workers import PROGRAMS, needs_mpi
from retrograd.cli import main
from retrograd.data import TensorDataset
from retrograd.distributed import DistBackendError, init_process_group, is_initialized, launcher, mpi, sharded_training
from retrograd.distributed.mpi import set_environment
from retrograd.train import load_checkpoint


def retrograd(*arguments, seconds=200):
    line = [sys.executable, "-m", "retrograd", *map(str, arguments)]
    variables = {**os.environ, "RETROGRAD_NUM_THREADS": "1"}
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=seconds, check=False)


COMMANDS = ["launch", "-n", "2", "train.py"], ["train", "digits", "--workers", "2", "--output", "run"]


@pytest.mark.parametrize("command", COMMANDS)
def test_without_mpi4py(monkeypatch, capsys, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    assert main(command) == 1
    assert "mpi4py is not installed; pip install 'retrograd[mpi]'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_without_mpiexec(monkeypatch, capsys, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "find_spec", lambda name: True)
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(command) == 1
    assert "there is no mpiexec; pip install 'retrograd[mpi]' brings Open MPI" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["launch", "-n", "0", "x.py"], "--workers 0 must be a positive int"),
        (["launch", "x.py"], "retrograd: pass workers (-n), hosts, or both"),
        (["launch", "--hosts", "a:2,b:0", "x.py"], "--hosts 'a:2,b:0': 'b:0' must be NAME or NAME:PROCESSES"),
        (["launch", "--hosts", "a,", "x.py"], "--hosts 'a,': '' must be NAME or NAME:PROCESSES"),
        (["launch", "--hosts", "a:2,a", "x.py"], "names a machine twice; give it once, with the sum"),
        (["launch", "-n", "2", "--agent", "rsh", "x.py"], "--agent is for --hosts"),
        (["launch", "-n", "2", "--max-restarts", "-1", "x.py"], "--max-restarts -1 must be an int of at least 0"),
        (["launch"], "SCRIPT is missing; see retrograd launch --help"),
        (["train", "digits", "--workers", "0"], "--workers 0 must be from 1 to 8"),
        (["train", "digits", "--max-restarts", "2"], "--max-restarts is for --workers"),
        (["train", "digits", "--workers", "9"], "--workers 9: a batch is cut into 8 shards, so pass at most 8"),
    ],
)
def test_messages(line, message, capsys):
    assert main(line) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def starts(monkeypatch, tmp_path):
    """Record the command lines that the launcher would run; the first one fails."""
    lines = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").touch()
    monkeypatch.setattr(launcher, "find_mpiexec", lambda: "mpiexec")
    monkeypatch.setattr(launcher, "_is_open_mpi", lambda mpiexec: True)
    monkeypatch.setattr(launcher, "_MIN_RUNTIME", 0)
    monkeypatch.setattr(launcher, "_run", lambda line, variables: lines.append(line) or int(len(lines) == 1))
    return lines


def test_hosts_that_do_not_answer_are_left_out(starts, tmp_path, capsys):
    agent = tmp_path / "agent"  # b does not answer the second time
    agent.write_text('#!/bin/sh\ncase $1 in b) mkdir "$0.asked" 2>/dev/null;; c) true;; esac\n')
    agent.chmod(0o755)
    line = ["launch", "--hosts", "localhost:2,b:3,c", "--agent", str(agent), "--max-restarts", "1", "x.py"]
    assert main(line) == 0
    assert [words[words.index("--host") + 1] for words in starts] == ["localhost:2,b:3,c:1", "localhost:2,c:1"]
    assert [words[words.index("-n") + 1] for words in starts] == ["6", "3"]
    assert "-x" in starts[0] and "RETROGRAD_RESTART" in starts[0]
    assert "launch: b does not answer; it is left out of this start" in capsys.readouterr().err
    assert main([*line[:-1], "-n", "2", "x.py"]) == 0  # not more processes than requested
    assert starts[2][starts[2].index("-n") + 1] == "2"
    assert main(["launch", "--hosts", "b", "--agent", str(agent), "x.py"]) == 1
    assert "none of the hosts b:1 answers to" in capsys.readouterr().err
    assert main(["launch", "-n", "2", "nothing.py"]) == 2
    assert "SCRIPT 'nothing.py': no such file; pass the path of a script, or -m" in capsys.readouterr().err


def test_processes_and_what_they_have_started():
    shell = subprocess.Popen(["sh", "-c", "sleep 30 & sleep 30 & echo ready; wait"], stdout=subprocess.PIPE)
    try:
        assert shell.stdout.readline() == b"ready\n"
        assert len(launcher.descendants(shell.pid)) == 2
        assert shell.pid in launcher.descendants(os.getpid())
    finally:
        for pid in [*launcher.descendants(shell.pid), shell.pid]:
            os.kill(pid, 9)
        shell.communicate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "4"], "--workers 4: 2 processes have been started already; leave it out"),
        (["--max-restarts", "1"], "--max-restarts: this command has not started its processes itself"),
    ],
)
def test_options_of_a_command_that_srun_has_started(monkeypatch, capsys, options, message):
    for name in mpi._SIZES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    assert main(["train", "digits", *options]) == 2
    assert message in capsys.readouterr().err


@needs_mpi
@pytest.mark.nightly
def test_the_command_under_a_launcher_of_its_own(tmp_path):
    # as under srun -n 2 retrograd train: one run, in the folder that the first process chooses
    csv = tmp_path / "waves.csv"
    csv.write_text("\n".join(["height", *(f"{np.sin(0.3 * k):.5f}" for k in range(400))]))
    task = ["train", "series", "--csv", csv, "--column", "height", "--period", 21, "--epochs", 1]
    assert retrograd(*task, "--workers", 2, "--output", tmp_path / "workers").returncode == 0
    line = ["launch", "-n", 2, "-m", "retrograd", *task, "--output", tmp_path / "launched"]
    ended = retrograd(*line)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("checkpoint  ") == 1
    first, second = (load_checkpoint(tmp_path / name / "checkpoint.npz")["model"] for name in ("workers", "launched"))
    assert all(np.array_equal(array, second[name]) for name, array in first.items())
    again = retrograd(*line)
    assert again.returncode != 0 and again.stderr.count("holds the checkpoint of another run") == 1, again.stderr
    differ = tmp_path / "differ.py"
    differ.write_text(
        "import os, sys\nfrom retrograd.cli import main\n"
        "sys.exit(main(['train', 'digits', '--seed', os.environ['RANK']]))\n"
    )
    ended = retrograd("launch", "-n", 2, differ)
    assert ended.returncode != 0 and "rank 1 train digits --seed 1" in ended.stderr, ended.stderr


def test_the_environment_that_scripts_for_torchrun_read(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("RANK", "3"), ("SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    set_environment(RANK=7)
    assert [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")] == list("3812")
    assert os.environ["MASTER_ADDR"] == "localhost" and os.environ["MASTER_PORT"].isdigit()


def test_without_a_launcher_there_is_one_process():
    message = "rank=1 but no launcher has started this process, which has 0; leave it out, and set the number"
    with pytest.raises(ValueError, match=message):
        init_process_group("gloo", world_size=1, rank=1)


def test_processes_that_a_script_starts_are_none_of_mpi(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "a process")
    with pytest.raises(RuntimeError, match="started this process with multiprocessing.*use retrograd launch"):
        init_process_group()
    assert not is_initialized()


def test_what_the_launcher_does_not_say_comes_from_mpi(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("OMPI_", "PMI", "MPI_", "SLURM_"))]:
        monkeypatch.delenv(name)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")  # set, so that monkeypatch restores it afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_PROCID", "3")
    set_environment(RANK=7, LOCAL_WORLD_SIZE=2)
    assert [os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] == ["3", None, "2"]


STARTED = {  # variables set by srun and mpiexec -> the beginning of the message, and the suggested fix
    "srun": ({"SLURM_STEP_NUM_TASKS": "2"}, "srun --mpi=none has started 2", "--mpi=pmix to srun for Open MPI"),
    "pmi2": (
        {"SLURM_STEP_NUM_TASKS": "3", "SLURM_MPI_TYPE": "pmi2", "PMI_SIZE": "3", "PMI_RANK": "1"},
        "srun --mpi=pmi2 has started 3",
        "--mpi=pmi2 for MPICH",
    ),
    "mpiexec": ({"PMI_SIZE": "2", "PMI_RANK": "0"}, "mpiexec has started 2", "use the mpiexec of this one"),
}


@pytest.mark.parametrize("kind", STARTED)
def test_processes_that_their_launcher_has_not_connected(monkeypatch, kind):
    variables, message, advice = STARTED[kind]
    for name in (*mpi._SIZES, *mpi._RANKS, "SLURM_MPI_TYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    world = SimpleNamespace(Get_size=lambda: 1)
    library = SimpleNamespace(COMM_WORLD=world, get_vendor=lambda: ("Open MPI", (5, 0, 0)))
    monkeypatch.setattr(mpi, "load", lambda: library)
    monkeypatch.setattr("retrograd.distributed.world.set_environment", lambda: None)
    with pytest.raises(DistBackendError, match=rf"{message} processes, but each is alone.*Open MPI does not.*{advice}"):
        init_process_group()
    assert not is_initialized()


@needs_mpi
def test_srun_without_mpi_in_a_real_process():
    variables = {**os.environ, "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
    line = [sys.executable, str(PROGRAMS / "collectives.py")]
    ended = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and "srun --mpi=none has started 2 processes, but each is alone" in ended.stderr


def test_a_batch_script_is_not_started_by_srun(monkeypatch):
    for name in (*mpi._SIZES, *mpi._RANKS):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0")):
        monkeypatch.setenv(name, value)
    assert not mpi.is_launched()
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert not mpi.is_launched()
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert mpi.is_launched() and mpi.launched_size() == 4


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([{0, 1, 2, 3}] * 2, 2),
        ([{0, 1, 2, 3}] * 3, 1),
        ([set(range(6))] * 6, 1),
        ([{0, 1, 2, 3}, {4, 5, 6, 7}], 4),  # each process has its own cores
        ([{0, 1, 2, 3}, {2, 3, 4, 5}], 3),
        ([{0}] * 4, 1),
    ],
)
def test_workers_of_a_machine_share_its_cores(monkeypatch, workers, expected):
    def add_up(own, total):
        assert set(np.flatnonzero(own)) == workers[0]
        total[:] = sum(np.isin(np.arange(total.size), [*cores]) for cores in workers)

    given = []
    monkeypatch.delenv("RETROGRAD_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: workers[0], raising=False)
    monkeypatch.setattr(mpi, "set_num_threads", given.append)
    mpi.share_cores(SimpleNamespace(Allreduce=add_up))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    mpi.share_cores(SimpleNamespace(Allreduce=add_up))
    assert given == [expected]


def test_a_worker_without_mpi4py(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setattr(mpi, "load", mpi.load.__wrapped__)
    with pytest.raises(DistBackendError, match=r"by mpiexec or srun, and MPI cannot be loaded.*retrograd\[mpi\]"):
        init_process_group()
    assert not is_initialized()


def test_more_processes_than_samples(monkeypatch):
    monkeypatch.setattr(sharded_training, "world", lambda: (5, 0))
    data = TensorDataset(np.zeros((4, 2), np.float32))
    with pytest.raises(ValueError, match="more processes than samples, 5 and 4; start at most 4"):
        sharded_training.ShardedLoader(data, 2)
    monkeypatch.setattr(sharded_training, "world", lambda: (4, 0))
    assert len(sharded_training.ShardedLoader(data, 2)) == 2


@needs_mpi
@pytest.mark.nightly
def test_the_command_trains_to_the_same_bits_with_any_number(tmp_path):
    # its states are carried from batch to batch, shard by shard
    text = tmp_path / "text.txt"
    words = np.random.default_rng(0).choice(["gradient", "of", "the", "shard", "is", "a", "tree,\n"], 2500)
    text.write_text(" ".join(words), encoding="utf-8")
    task = ["train", "text", "--text", text, "--batch-size", 6, "--epochs", 1]
    arrays = []
    for workers in (1, 3):
        output = tmp_path / str(workers)
        ended = retrograd(*task, "--workers", workers, "--output", output)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("checkpoint  ") == 1  # only one process prints
        report = (output / "report.html").read_text(encoding="utf-8")
        assert "worker 0" in report and ("worker 2" in report) == (workers == 3)
        state = load_checkpoint(output / "checkpoint.npz")
        arrays.append([*state["model"].values()])
        assert np.abs(state["model"]["h"]).max() > 0.1
    assert all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))
    alone = retrograd(*task, "--resume", "--output", tmp_path / "1")
    assert alone.returncode == 1 and "is of a run with --workers" in alone.stderr
