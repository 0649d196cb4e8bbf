"""The digits that come with the package."""

import gzip
from importlib import resources

import numpy as np
import pytest

from retrograd.data import Digits, load_digits
from retrograd.data import digits as module
from retrograd.data.data_files import unpacked


def test_all_images_and_labels():
    images, labels = load_digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8 and images.max() == 16
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]  # the first line of the file


def test_the_split_is_fixed_disjoint_and_keeps_proportions():
    train, held_out = Digits(train=True), Digits(train=False)
    assert (len(train), len(held_out)) == (1442, 355)
    _, labels = load_digits()
    chosen = module.held_out(labels)
    for digit in range(10):
        of_digit = chosen[labels == digit]
        assert of_digit[4::5].all() and of_digit.sum() == len(of_digit) // 5
    image, label = held_out[0]
    assert image.shape == (1, 8, 8) and image.dtype == np.float32 and label.dtype == np.int64
    both = np.concatenate([train.tensors[0].array, held_out.tensors[0].array])
    assert both.min() == 0 and both.max() == 1 and len(both) == 1797


def test_a_damaged_file_is_noticed():
    packed = (resources.files("retrograd.data") / "files" / "digits.csv.gz").read_bytes()
    with pytest.raises(RuntimeError, match="somewhere is damaged.*install retrograd again"):
        unpacked(packed[:-1], module._DIGITS_SHA256, "somewhere is damaged", "install retrograd again")
    with pytest.raises(RuntimeError, match="SHA-256"):
        unpacked(gzip.compress(b"1,2\n"), module._DIGITS_SHA256, "", "")


def test_callers_cannot_change_the_data_for_each_other():
    images, _ = load_digits()
    images[:] = 0
    Digits().tensors[0].array[:] = 0
    assert load_digits()[0].max() == 16 and Digits().tensors[0].array.max() == 1


def test_the_source_is_credited_beside_the_file():
    text = (resources.files("retrograd.data") / "files" / "ATTRIBUTION.txt").read_text(encoding="utf-8")
    assert "CC BY 4.0" in text and "Alpaydin" in text and "Kaynak" in text and module._DIGITS_SHA256 in text
