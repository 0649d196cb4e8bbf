"""The command ``retrograd``: in this process where possible, in a separate one where it is killed."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import retrograd
from retrograd.cli import _parser, main
from retrograd.kernel_set import active_kernels
from retrograd.train import load_checkpoint
from retrograd.train.lock import RunLock

TEXTBOOK = ("--kernels", "textbook")
QUICK = (*TEXTBOOK, "--epochs", "2", "--batch-size", "256")  # 2 epochs of 6 steps


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def without_report(patch):
    """Runs in this process write no report, which takes longer than the run."""
    patch.setattr("retrograd.train.report.write_report", lambda trainer, shares: "none")


@pytest.fixture
def no_report(monkeypatch):
    without_report(monkeypatch)


def train(*arguments: str) -> int:
    return main(["train", "digits", *arguments])


def weights(folder: Path | str) -> dict[str, bytes]:
    state = load_checkpoint(Path(folder) / "checkpoint.npz")
    assert state["epoch"] == state["settings"]["epochs"]
    return {name: array.tobytes() for name, array in state["model"].items()}


def spawn(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "retrograd", "train", "digits", *arguments]
    source = str(Path(retrograd.__file__).parents[1])
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source}
    )


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory):
    """An uninterrupted run, without its report."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        without_report(patch)
        assert train(*QUICK, "--output", str(folder)) == 0
    return folder


@pytest.fixture(scope="module")
def whole(whole_folder):
    return weights(whole_folder)


@pytest.fixture
def finished(tmp_path, whole_folder):
    """A copy of the uninterrupted run, in the folder ``run``."""
    shutil.copytree(whole_folder, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_ends_with_a_checkpoint_a_report_and_exit_code_0(capsys, whole):
    before = active_kernels()
    assert train(*QUICK) == 0
    out, err = capsys.readouterr()
    assert re.search(r"held-out accuracy \d\d\.\d\d% \(\d+ of 355\) after 2 epochs", out)
    assert "runs/digits/checkpoint.npz" in out and "runs/digits/report.html" in out
    assert "training on 1,442 images, 355 held out; seed 0, textbook kernels" in err and "epoch 2/2" in err
    assert err.endswith("writing the report: curves, times and gradients of 10 layers\n")
    assert sorted(os.listdir("runs/digits")) == ["checkpoint.npz", "explain.html", "report.html"]
    assert weights("runs/digits") == whole and active_kernels() == before


def test_no_run_overwrites_another(capsys, finished, monkeypatch):
    finished.rename("old")
    os.makedirs("runs")
    os.rename("old", "runs/digits")
    before = Path("runs/digits/checkpoint.npz").read_bytes()
    with monkeypatch.context() as patch:
        without_report(patch)
        assert train(*QUICK, "--epochs", "1", "--seed", "1") == 0
    assert sorted(os.listdir("runs")) == ["digits", "digits-2"]
    assert train(*QUICK, "--output", "runs/digits") == 2
    assert "holds the checkpoint of another run; continue it with --resume" in capsys.readouterr().err
    assert Path("runs/digits/checkpoint.npz").read_bytes() == before
    assert train("--resume") == 0  # the latest, which is finished: only the report is written
    _, err = capsys.readouterr()
    assert "digits-2/checkpoint.npz holds a finished run" in err and os.path.exists("runs/digits-2/report.html")


@pytest.mark.usefixtures("no_report")
def test_two_runs_do_not_share_a_folder(capsys):
    endless = (*TEXTBOOK, "--epochs", "100000")
    first = spawn(*endless, "--output", "run")
    try:
        while not os.path.exists("run/checkpoint.npz"):
            assert first.poll() is None
            time.sleep(0.02)
        for arguments in ((), ("--resume",)):
            assert train(*endless, "--output", "run", *arguments) == 1
            assert f"another run is training in run, process {first.pid} on " in capsys.readouterr().err
    finally:
        first.kill()
        first.communicate()
    shutil.rmtree("run")
    with RunLock("runs/digits"):  # a run that has just started
        assert train(*QUICK, "--epochs", "1") == 0
        assert os.listdir("runs/digits-2") == ["checkpoint.npz"]
    assert os.listdir("runs") == ["digits-2"]


@pytest.mark.usefixtures("no_report")
def test_a_resumed_run_keeps_its_settings(capsys, finished):
    assert train("--resume", "--output", "run", "--lr", "0.5") == 2
    assert "--lr 0.5 differs from the checkpoint's 0.003" in capsys.readouterr().err
    assert train("--resume", "--output", "run", "--threads", "1") == 2
    assert "--threads is for the compiled kernels" in capsys.readouterr().err
    assert train("--resume", "--output", "run", "--batch-size", "256") == 0


@pytest.mark.usefixtures("no_report")
@pytest.mark.usefixtures("no_report")
def test_a_run_that_is_extended(capsys, finished):
    constant = (*QUICK, "--schedule", "constant")
    assert train(*constant, "--epochs", "3", "--output", "long") == 0
    assert train(*constant, "--output", "short") == 0
    capsys.readouterr()
    assert train("--resume", "--output", "short", "--epochs", "3") == 0
    words = "training on after step 12 of short/checkpoint.npz, to epoch 3 instead of 2, from a learning rate of 0.003"
    assert words in capsys.readouterr().err
    assert weights("short") == weights("long")
    assert train("--resume", "--output", "run", "--epochs", "4") == 0  # a cosine: the rates of a run of 4 epochs
    assert "to epoch 4 instead of 2, from a learning rate of 0.0015\n" in capsys.readouterr().err
    history = load_checkpoint("run/checkpoint.npz")["history"]
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    steps = [5, 11, 17, 23]  # the last of each epoch
    rates = [0.0015 * (1 + np.cos(np.pi * step / total)) for step, total in zip(steps, (12, 12, 24, 24), strict=True)]
    assert [record["lr"] for record in history] == pytest.approx(rates)
    assert train("--resume", "--output", "run", "--epochs", "3") == 2
    assert "--epochs 3 is fewer than the 4 of the run to resume; pass more to extend it" in capsys.readouterr().err
    assert train("--resume", "--output", "run", "--schedule", "constant") == 2
    assert "--schedule constant differs from the checkpoint's cosine" in capsys.readouterr().err


def test_an_extended_run_that_is_killed_stays_extended(capsys, finished):
    process = spawn("--resume", "--output", "run", "--epochs", "100000")
    path = Path("run/checkpoint.npz")
    while load_checkpoint(path)["settings"]["epochs"] == 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert train("--resume", "--output", "run", "--epochs", "50000") == 2
    assert "--epochs 50000 is fewer than the 100000 of the run to resume" in capsys.readouterr().err


def test_nothing_to_resume(capsys):
    assert train("--resume") == 2 and "there is no run in" in capsys.readouterr().err
    assert train("--resume", "--output", "here") == 2
    assert "here holds no checkpoint to resume; leave out --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epochs", "0"), "retrograd: --epochs 0 must be at least 1\n"),
        (("--batch-size", "0"), "retrograd: --batch-size 0 must be at least 1\n"),
        (("--lr", "-1"), "--lr -1 must be greater than 0"),
        (("--lr", "nan"), "--lr nan"),
        (("--seed", "-3"), "--seed -3"),
        (("--checkpoint-every", "0"), "--checkpoint-every 0"),
        (("--threads", "0"), "--threads 0 must be from 1 to 1024"),
        ((*TEXTBOOK, "--threads", "2"), "--threads is for the compiled kernels"),
    ],
)
def test_wrong_arguments_end_in_one_line(capsys, arguments, message):
    assert train(*arguments) == 2
    out, err = capsys.readouterr()
    assert message in err and err.startswith("retrograd: ") and err.count("\n") == 1 and not out
    assert not os.path.exists("runs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "COMMAND is missing; see retrograd --help"),
        (("nothing",), "COMMAND 'nothing' must be train, predict, export, "),
        (("train",), "pass one TASK (digits, mnist5k, text or series), or --images DIR"),
        (("train", "digit"), "TASK 'digit' must be digits, mnist5k, text or series"),
        (("train", "digits", "7"), "retrograd train has no argument 7; see retrograd train --help"),
        (("train", "digits", "--kernels", "cuda"), "--kernels 'cuda' must be compiled or textbook"),
        (("train", "digits", "--channels", "2"), "--channels 2 must be 1 or 3"),
        (("train", "digits", "--epochs", "x"), "--epochs 'x' must be a whole number; see retrograd train --help"),
        (("train", "digits", "--lr", "x"), "--lr 'x' must be a number; see retrograd train --help"),
        (("train", "digits", "--epochs"), "--epochs needs a value; see retrograd train --help"),
        (("train", "digits", "--epochz=3"), "retrograd train has no option --epochz=3; did you mean --epochs?"),
        (("train", "digits", "--ch", "3"), "could be --"),
        (("predict",), "RUN is missing; see retrograd predict --help"),
        (("predict", "run", "--csv", "--json"), "--csv and --json exclude each other; leave one out"),
        (("predict", "run", "--mean", "a"), "--mean: 'a' must be numbers separated by commas"),
    ],
)
def test_wrong_options_are_answered_in_one_line(capsys, arguments, message):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith("retrograd: ") and message in err and err.count("\n") == 1 and not out


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_report")
def test_a_full_disk_ends_in_one_line_and_keeps_the_checkpoint(capsys, monkeypatch, whole):
    fsync, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 6:  # two per checkpoint: the file and its folder
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert train(*QUICK, "--output", "run", "--checkpoint-every", "1") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "checkpoint run/checkpoint.npz was not written, the earlier one is unchanged: no space is left" in last
    assert os.listdir("run") == ["checkpoint.npz"]
    assert train("--resume", "--output", "run") == 0 and weights("run") == whole


@pytest.mark.parametrize("fault", ["cut", "edit", "text"])
def test_a_damaged_checkpoint_ends_in_one_line(capsys, finished, fault):
    path = Path("run/checkpoint.npz")
    content = path.read_bytes()
    if fault == "edit":
        with np.load(path) as file:
            entries = {name: file[name] for name in file.files}
        entries["model/0.weight"] = entries["model/0.weight"] + 1
        np.savez(path, **entries)
    else:
        path.write_bytes(content[:-100] if fault == "cut" else b"not a checkpoint")
    damaged = path.read_bytes()
    capsys.readouterr()
    assert train("--resume", "--output", "run") == 1
    out, err = capsys.readouterr()
    messages = {"cut": "cut off or damaged", "edit": "was changed after it was written", "text": "is not a checkpoint"}
    assert messages[fault] in err and err.count("\n") == 1 and not out and path.read_bytes() == damaged


def test_a_learning_rate_that_blows_up_ends_in_one_message(capsys):
    assert train(*QUICK, "--lr", "1e30", "--output", "run") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"(the loss is (nan|inf) at epoch 1, step \d|holds NaN or infinity)", last)
    assert "still holds the last checkpoint" in last and load_checkpoint("run/checkpoint.npz")["steps"] == 0


def test_without_matplotlib_training_still_finishes(capsys, monkeypatch, finished):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        assert train("--resume", "--output", "run") == 0
    out, err = capsys.readouterr()
    assert 'pip install "retrograd[train]"' in err and "--resume --output run writes it" in err
    assert "writing the report" not in err
    assert os.listdir("run") == ["checkpoint.npz"] and "held-out accuracy" in out
    assert train("--resume", "--output", "run") == 0 and os.path.exists("run/report.html")


def test_an_output_that_cannot_be_a_folder(capsys):
    Path("file").write_text("")
    Path("link").symlink_to("nowhere")
    os.makedirs("folder/run.lock")
    for output, message in (
        ("file", "file is a file, not a folder; choose another folder"),
        ("file/below", "file is a file, not a folder; choose another folder"),
        ("link", "link is a symbolic link, which a run does not follow; remove it, or choose another folder"),
        ("folder", "folder/run.lock is a folder, and a run needs a file there; remove it, or choose another folder"),
    ):
        assert train(*QUICK, "--output", output) == 1
        assert message in capsys.readouterr().err.splitlines()[-1]


def wait_for_checkpoint(path: Path, process: subprocess.Popen) -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.005)


def test_kill_9_at_any_moment_loses_nothing(whole):
    chance = random.Random(int.from_bytes(os.urandom(4), "big"))
    path, kills = Path("run/checkpoint.npz"), 0
    process = spawn(*QUICK, "--output", "run", "--checkpoint-every", "1")
    wait_for_checkpoint(path, process)
    while kills < 2:
        time.sleep(chance.uniform(0.0, 0.15) if kills == 0 else chance.uniform(0.3, 1.5))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        state = load_checkpoint(path)  # whole at every moment
        if state["steps"] == 12:
            break
        process = spawn("--resume", "--output", "run", "--checkpoint-every", "1")
    else:
        process.communicate()
    done = spawn("--resume", "--output", "run")
    out, err = done.communicate()
    assert done.returncode == 0 and "report.html" in out, err
    assert kills and weights("run") == whole


@pytest.mark.usefixtures("no_report")
def test_ctrl_c_stops_after_a_step_and_says_how_to_go_on(whole):
    process = spawn(*QUICK, "--output", "a run")
    wait_for_checkpoint(Path("a run/checkpoint.npz"), process)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130 and "Traceback" not in err, err
    assert "stopping after this step" in err
    assert re.search(r"stopped after step \d+ of 12; a run/checkpoint.npz holds everything to resume", err)
    assert "Continue with: retrograd train digits --resume --output 'a run'" in err
    assert train("--resume", "--output", "a run") == 0 and weights("a run") == whole


def test_ctrl_c_while_the_report_is_made(capsys, monkeypatch, finished):
    def interrupt(trainer, shares):
        raise KeyboardInterrupt

    monkeypatch.setattr("retrograd.train.report.write_report", interrupt)
    assert train("--resume", "--output", "run") == 130
    assert "interrupted; run/checkpoint.npz holds the last checkpoint. Continue with: " in capsys.readouterr().err


# ---- the other commands --------------------------------------------------------------------------------------------


def test_info(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for name in ("retrograd", "Python", "NumPy", "Numba", "CPU features", "Threads", "Cache folder", "Cache size"):
        assert re.search(rf"^{name}\s+\S", out, re.MULTILINE), name


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"retrograd {retrograd.__version__}\n"


def test_the_reference_shows_the_help_of_every_command():
    """Its blocks are run and compared by test_docs.py."""
    page = (Path(__file__).parents[1] / "docs/reference/command_line.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ retrograd (\w+) --help$", page, re.MULTILINE)
    assert shown == [name for name in _parser()[1].choices if name != "info"]  # which has no options


def test_help_loads_neither_compiler_nor_layers():
    source = str(Path(retrograd.__file__).parents[1])
    script = (
        "import sys; from retrograd.cli import main\n"
        "try: main(['train', 'digits', '--help'])\n"
        "except SystemExit: pass\n"
        "bad = {'numba', 'llvmlite', 'matplotlib', 'tqdm', 'retrograd.nn', 'retrograd.train'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    environment = {**os.environ, "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, stdout=subprocess.DEVNULL)
