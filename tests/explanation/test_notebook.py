"""Notebook display of a Tensor: the text, and the pixels of the picture."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import retrograd as rg
from retrograd import nn


def lines(tensor: rg.Tensor) -> list[str]:
    """Return the lines of text, after a check that the HTML is well-formed and neither runs nor fetches anything."""
    html = tensor._repr_html_()
    assert "script" not in html and not re.search("(src|href)=.(?!data:image/png;base64,)", html)
    page = ElementTree.fromstring(re.sub("(<img[^>]*)>", r"\1/>", html))
    return ["".join(div.itertext()) for div in page.iter("div") if div.find("div") is None]


def pixels(tensor: rg.Tensor) -> np.ndarray:
    found = re.search('base64,([^"]*)"', tensor._repr_html_())
    assert found is not None
    picture = Image.open(io.BytesIO(base64.b64decode(found[1])))
    picture.verify()
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(found[1]))))


def test_text():
    assert lines(rg.tensor(3.5)) == ["Tensor () float32", "1 element, 4 B", "value 3.5"]
    assert lines(rg.zeros(0, 3)) == ["Tensor (0, 3) float32", "0 elements, 0 B"]
    x = rg.Tensor(np.array([1.0, np.nan, 3.0, -np.inf, np.nan] * 2))
    assert lines(x) == ["Tensor (10,) float64", "10 elements, 80 B", "from 1 to 3, mean 2", "4 NaN, 2 infinite"]
    assert lines(rg.tensor([True, False, True]))[2:] == ["values True, False, True", "2 True, 1 False"]
    assert lines(rg.tensor([1, 2**62]))[2:] == [f"values 1, {2**62}", f"from 1 to {2**62}, mean 2.306e+18"]
    assert lines(rg.tensor([np.nan, np.nan]))[2:] == ["values nan, nan", "2 NaN"]
    weight = nn.Parameter(np.float32([[1, 2]]))
    assert lines(weight)[0] == "Parameter (1, 2) float32" and lines(weight)[-1] == "requires_grad=True"
    assert lines(weight * 2)[-1].startswith("grad_fn=<ScaleBackward")
    assert lines(nn.LazyLinear(2).weight) == ["UninitializedParameter not initialized"]
    assert lines(rg.Tensor(np.arange(3, dtype=np.uint8)))[0] == "Tensor (3,) uint8"


def test_huge_ones_are_sampled():
    x = rg.Tensor(np.broadcast_to(np.float32(2), (2**20, 2**20)))
    text = lines(x)
    assert text[1:3] == ["1,099,511,627,776 elements, 4096.0 GiB", "from 2 to 2, mean 2"]
    assert text[3:] == ["of a sample of 524,288 elements"]
    assert len(x._repr_html_()) < 5000


def test_a_map():
    x = np.array([[-2.0, 0, 1], [np.nan, 2, -1]])
    found = pixels(rg.Tensor(x)).tolist()
    assert found[0][0] == [29, 78, 216] and found[0][1] == [255, 255, 255] and found[1][1] == [214, 90, 12]
    assert found[1][0] == [217, 0, 201] and found[0][2] == [234, 172, 134] and np.shape(found) == (2, 3, 3)
    found = pixels(rg.tensor([[1, 2], [3, 5]])).tolist()
    assert (found[0][0], found[1][1]) == ([255, 255, 255], [12, 45, 107])
    assert pixels(rg.tensor([True, False])).tolist() == [[[12, 45, 107], [255, 255, 255]]]
    assert pixels(rg.ones(500, 300)).shape[0] <= 192 and pixels(rg.ones(500, 300)).shape[1] <= 192


def test_images_and_tiles():
    image = np.random.default_rng(0).integers(0, 256, (3, 5, 7)).astype(np.uint8)
    np.testing.assert_array_equal(pixels(rg.Tensor(image)), image.transpose(1, 2, 0))
    np.testing.assert_array_equal(pixels(rg.Tensor(image / np.float32(255))), image.transpose(1, 2, 0))
    tiles = pixels(rg.Tensor(np.stack([image, image])))
    place = np.argwhere((tiles == 128).all(2))  # the line between them
    assert len(place) in (5, 7) and tiles.size == 2 * image.size + 3 * len(place)
    assert pixels(rg.Tensor(np.arange(36.0).reshape(4, 3, 3))).shape == (7, 7, 3)
    assert pixels(rg.Tensor(np.zeros((2, 40, 3, 3)))).size


def points(tensor: rg.Tensor) -> list[list[tuple[float, float]]]:
    found = re.findall('points="([^"]*)"', tensor._repr_html_())
    return [[tuple(map(float, point.split(","))) for point in piece.split()] for piece in found]


def test_a_line():
    ((first, middle, last),) = points(rg.tensor([0.0, 2.0, 1.0]))
    assert first == (2, 46) and middle == (96, 2) and last == (190, 24)
    assert [len(piece) for piece in points(rg.tensor([1.0, 2, np.nan, 3, np.nan]))] == [2, 2]
    assert "dasharray" in rg.tensor([-1.0, 1.0])._repr_html_() and not points(rg.tensor([np.nan, np.nan]))
    many = np.zeros(100_001)
    many[54_321] = 7  # one peak among many values is not lost
    (piece,) = points(rg.Tensor(many))
    assert len(piece) < 500 and min(y for _, y in piece) == 2
    assert all(0 <= y <= 48 for piece in points(rg.tensor([1.0, np.inf, 2.0])) for _, y in piece)


def test_nothing_of_it_is_imported_before_it_is_used():
    code = "import sys, retrograd; assert not [m for m in sys.modules if m.startswith('retrograd.explanation')]"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 0), (3, 1, 1), (1, 1, 5, 5), (2, 3, 4, 5, 6), (9, 1)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "float16"])
def test_any_shape(shape, dtype):
    values = np.random.default_rng(0).standard_normal(shape) * 3
    with np.errstate(all="ignore"):
        assert lines(rg.Tensor(values.astype(dtype)))[0] == f"Tensor {shape} {dtype}"
