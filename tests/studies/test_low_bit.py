"""The study of low-bit networks on the digits: all variants learn, and packed models predict the same classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import retrograd
from retrograd import studies
from retrograd.data import Digits
from retrograd.kernel_set import use_kernels
from retrograd.studies.low_bit import KINDS, lenet
from retrograd.studies.study import study_page


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[studies.Study, Path]:
    folder = tmp_path_factory.mktemp("low_bit")
    return studies.low_bit("digits", studies.Recipe(epochs=1, lr=4e-3), folder=folder), folder


@pytest.mark.nightly
def test_every_kind_learns() -> None:
    study = studies.low_bit("digits", studies.Recipe(epochs=6, lr=4e-3))
    whole = study.figures["float"]["accuracy"]
    assert whole > 0.95
    for name, figures in study.figures.items():
        assert figures["accuracy"] > whole - (0.08 if name in ("BNN", "XNOR-Net") else 0.03), name
        assert figures["disagreements"] == 0 and figures["packed_accuracy"] == figures["accuracy"], name


def test_every_kind_packs(run: tuple[studies.Study, Path]) -> None:
    study, folder = run
    assert [*study.figures] == [*KINDS, "int8"]
    whole = study.figures["float"]
    for name, figures in study.figures.items():
        if name == "int8":  # rounded between layers: a network that has hardly learnt may have a close call
            assert figures["disagreements"] <= 3
        else:
            assert figures["disagreements"] == 0 and figures["packed_accuracy"] == figures["accuracy"], name
        assert figures["bytes"] == (folder / f"{name.lower()}.safetensors").stat().st_size
        assert figures["seconds"] > 0
    shares = {name: figures["bytes"] / whole["bytes"] for name, figures in study.figures.items()}
    assert max(shares["BNN"], shares["XNOR-Net"]) < 1 / 9  # the first and the last layer are a large part of this net
    assert max(shares["DeepShift-Q"], shares["DeepShift-PS"]) < 1 / 5
    assert shares["int8"] < 1 / 3.5


def test_a_file_answers_on_both_kernel_sets(run: tuple[studies.Study, Path]) -> None:
    _, folder = run
    images = retrograd.Tensor(np.stack([Digits(train=False)[n][0].numpy() for n in range(40)]))
    for name in ("bnn", "xnor-net", "deepshift-q", "deepshift-ps", "int8"):
        packed = retrograd.load_packed(folder / f"{name}.safetensors")
        answers = packed(images).numpy().argmax(1)
        with use_kernels("textbook"):
            np.testing.assert_array_equal(packed(images).numpy().argmax(1), answers)
        assert packed.classes == tuple("0123456789")


def test_the_page(run: tuple[studies.Study, Path]) -> None:
    study, _ = run
    page = study_page(study)
    for words in ("One LeNet in few bits", "XNOR-Net", "Elhoushi", "1/", "<svg", "512 training images"):
        assert words in page
    table, *remarks = str(study).split("\n\n")
    assert table.count("\n") == 6 and len(remarks) == 5
    for name, text in zip([*KINDS, "int8"][1:], remarks, strict=True):
        speed = study.figures["float"]["seconds"] / study.figures[name]["seconds"]
        assert text.startswith(f"{name} is {speed:.2f} times as fast as float.")


@pytest.mark.parametrize("size", [8, 28])
def test_the_networks_take_images(size: int) -> None:
    for kind in KINDS.values():
        assert lenet(kind, size)(retrograd.rand(2, 1, size, size)).shape == (2, 10)
