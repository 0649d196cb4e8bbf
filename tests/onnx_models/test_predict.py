"""``retrograd predict model.onnx image.png``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
Image = pytest.importorskip("PIL.Image")
from onnx import helper, numpy_helper  # noqa: E402

from onnx_models.test_load import model_of, weights  # noqa: E402
from retrograd.cli import main  # noqa: E402


def save(path: Path, softmax: bool, shape=("N", 1, 8, 8), channels: int = 1) -> np.ndarray:
    """A model with the mean of each column of pixels as scores; returns its weights."""
    (kernel,) = weights(w=(4, channels, 8, 8))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"], axis=1) if softmax else helper.make_node("Identity", ["b"], ["y"]),
    ]
    onnx.save(model_of(nodes, [kernel], {"x": list(shape)}, {"y": ["N", "K"]}), path)
    return numpy_helper.to_array(kernel)


@pytest.fixture
def picture(tmp_path: Path) -> tuple[Path, np.ndarray]:
    pixels = np.random.default_rng(3).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    return tmp_path / "image.png", pixels


@pytest.mark.parametrize("softmax", [False, True])
def test_probabilities(softmax: bool, picture, tmp_path: Path, capsys) -> None:
    path, pixels = picture
    kernel = save(tmp_path / "model.onnx", softmax)
    assert main(["predict", str(tmp_path / "model.onnx"), str(path), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    scores = (kernel[:, 0] * (pixels / 255)).sum((1, 2))
    expected = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    assert answer["class"] == str(expected.argmax())
    found = [answer["probabilities"][str(k)] for k in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_models_that_do_not_classify_images(picture, tmp_path: Path, capsys) -> None:
    path, _ = picture
    model = tmp_path / "model.onnx"
    for shape, message in (
        (("N", 2, 8, 8), "needs one of [N, channels, height, width] with 1 or 3 channels"),
        (("N", 64), "does not classify images: its inputs have the shapes"),
        (("N", 1, 8, 9), "takes images of 8 x 9"),
    ):
        save(model, False, shape, channels=1)
        assert main(["predict", str(model), str(path)]) == 1
        assert message in capsys.readouterr().err
    model.write_bytes(b"no model")
    assert main(["predict", str(model), str(path)]) == 1
    assert "is not a valid ONNX model" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "none.onnx"), str(path)]) == 1
    assert "none.onnx" in capsys.readouterr().err


def test_pixels_as_the_model_was_trained(picture, tmp_path: Path, capsys) -> None:
    path, pixels = picture
    model = tmp_path / "model.onnx"
    kernel = save(model, False)
    (tmp_path / "classes.txt").write_text("cat\ndog\nbird\nfish\n")

    def found(*options: str) -> dict[str, float]:
        assert main(["predict", str(model), str(path), "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)[0]["probabilities"]

    def expected(x: np.ndarray) -> np.ndarray:
        scores = (kernel[:, 0] * x).sum((1, 2))
        return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()

    named = found("--mean", "0.4", "--std", "2", "--classes", str(tmp_path / "classes.txt"))
    wanted = expected((pixels / 255 - 0.4) / 2)
    np.testing.assert_allclose([named[name] for name in ("cat", "dog", "bird", "fish")], wanted, rtol=1e-4, atol=1e-6)

    proto = onnx.load(model)
    for name, x in {"Normalized_1_1": pixels / 127.5 - 1, "NominalRange_0_255": pixels / 1.0}.items():
        helper.set_model_props(proto, {"Image.NominalPixelRange": name})
        onnx.save(proto, model)
        given = found()
        np.testing.assert_allclose([given[str(k)] for k in range(4)], expected(x), rtol=1e-3, atol=1e-5)
    helper.set_model_props(proto, {"Image.NominalPixelRange": "NominalRange_16_235"})
    onnx.save(proto, model)
    assert main(["predict", str(model), str(path)]) == 1
    assert "pixels of the range 'NominalRange_16_235'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mean", "1,2"), "--mean 1,2 must be one number, or 1, one per channel"),
        (("--std", "0"), "--std 0 must be greater than 0"),
        (("--std", "a"), "'a' must be numbers separated by commas"),
        (("--classes", "none.txt"), "--classes none.txt cannot be read"),
    ],
)
def test_options_that_do_not_fit(options, message: str, picture, tmp_path: Path, capsys) -> None:
    save(tmp_path / "model.onnx", False)
    assert main(["predict", str(tmp_path / "model.onnx"), str(picture[0]), *options]) == 2
    assert message in capsys.readouterr().err


def test_options_of_onnx_for_other_models(picture, tmp_path: Path, capsys) -> None:
    assert main(["predict", str(tmp_path), str(picture[0]), "--mean", "0"]) == 2
    assert "--mean is for an ONNX model" in capsys.readouterr().err
