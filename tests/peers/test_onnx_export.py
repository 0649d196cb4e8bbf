"""Exported models in onnxruntime: it computes the model's results from the file."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from benchmarks.models import characters, mobilenet_v2, resnet18
from onnx_models import test_load, test_recurrent
from onnx_models.exported import CASES, export
from retrograd.cli import main
from retrograd.train.language_modeling import text_task

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")


def outputs(path: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, inputs)
    return found


@pytest.mark.parametrize("name", CASES)
def test_outputs(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _, inputs, expected = export(name, path)
    for ours, theirs in zip(expected, outputs(path, inputs), strict=True):
        assert theirs.dtype == ours.dtype
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 13, 14])
def test_old_opsets(opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _, inputs, (expected,) = export("convolutional", path, opset=opset)
    np.testing.assert_allclose(outputs(path, inputs)[0], expected, rtol=1e-4, atol=1e-5)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 3, 32, 32), each pixel of the digits four times along both axes, and labels."""
    images, labels = rg.data.load_digits()
    planes = images.reshape(-1, 1, 8, 8).astype(np.float32) / 16
    return planes.repeat(4, 2).repeat(4, 3).repeat(3, 1), labels


def text() -> tuple[np.ndarray, np.ndarray]:
    """Codes (512, 64), and the codes that follow."""
    codes = np.random.default_rng(0).integers(0, 6, (512, 65)).cumsum(1) % 103  # learnable: the next is close
    return codes[:, :-1], codes[:, 1:]


MODELS = {
    "resnet18": (lambda: resnet18(torch.nn, 10), digits),
    "mobilenet_v2": (lambda: mobilenet_v2(torch.nn, 10), digits),
    "lstm": (lambda: characters(torch.nn, batch_first=True), text),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_from_pytorch_through_an_epoch_to_onnxruntime(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    rg.manual_seed(0)
    make, data = MODELS[name]
    net, (x, wanted) = make().eval(), data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            (torch.from_numpy(x[:2]),),
            str(tmp_path / "theirs.onnx"),
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "N"}},
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
        )
    ours = rg.onnx.load(tmp_path / "theirs.onnx").eval()
    with torch.no_grad():
        np.testing.assert_allclose(ours(rg.tensor(x[:16])).detach().numpy(), net(torch.from_numpy(x[:16])), atol=1e-5)
    ours.train()
    optimizer = rg.optim.Adam(ours.parameters(), lr=1e-3)
    losses = []
    for rows in np.random.default_rng(0).permutation(len(x))[: len(x) // 64 * 64].reshape(-1, 64):
        scores = ours(rg.tensor(x[rows]))
        loss = rg.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), rg.tensor(wanted[rows].reshape(-1)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    rg.onnx.export(ours, rg.tensor(x[:2]), tmp_path / "ours.onnx", input_names=["x"])
    expected = ours.eval()(rg.tensor(x[:7])).detach().numpy()
    np.testing.assert_allclose(
        outputs(tmp_path / "ours.onnx", {"x": x[:7]})[0], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max()
    )


@pytest.mark.parametrize("seed", range(100, 130))
def test_recurrent_nodes(seed: int, tmp_path: Path) -> None:
    operator, options, arrays = test_recurrent.drawn(np.random.default_rng(seed))
    takes_zero = {"Affine", "ThresholdedRelu", "ScaledTanh"}  # without values for them, onnxruntime does
    if "activation_alpha" not in options and takes_zero & {*options.get("activations", ())}:
        options["activations"] = ["HardSigmoid"] * len(options["activations"])
    ours = test_recurrent.loaded(tmp_path, operator, options, arrays)(rg.tensor(arrays["X"]))
    for one, other in zip(ours, outputs(tmp_path / "net.onnx", {"X": arrays["X"]}), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-4, atol=1e-5, err_msg=f"{operator} {options}")


@pytest.mark.parametrize("extent", [5, 10, 14])
@pytest.mark.parametrize("scale", ["1/5", "1/2", "7/10", "3/2", "2"])
def test_nearest_pixels(extent: int, scale: str, tmp_path: Path) -> None:
    def saved(model: Any) -> Path:
        test_load.onnx.save(model, tmp_path / "net.onnx")
        return tmp_path / "net.onnx"

    for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
        ours = test_load.resized(saved, extent, "round_prefer_floor", mode, float(Fraction(scale)))
        x = np.arange(extent, dtype=np.float32).reshape(1, 1, extent)
        assert ours == outputs(tmp_path / "net.onnx", {"x": x})[0].reshape(-1).tolist()


# ---- retrograd export ----------------------------------------------------------------------------------------------


def metadata(path: Any) -> dict[str, str]:
    found: dict[str, str] = onnxruntime.InferenceSession(str(path)).get_modelmeta().custom_metadata_map
    return found


def test_the_run_of_an_image_network(tmp_path: Path) -> None:
    assert main(["train", "digits", "--epochs", "1", "--output", str(tmp_path / "run")]) == 0
    path = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "run"), str(path)]) == 0
    run = rg.load_run(tmp_path / "run")
    assert json.loads(metadata(path)["classes"]) == list(run.classes)
    assert metadata(path)["Image.NominalPixelRange"] == "Normalized_0_1"
    images = np.random.default_rng(0).integers(0, 256, (5, 1, 8, 8)).astype(np.uint8)
    (found,) = outputs(path, {"images": images.astype(np.float32) / 255})
    np.testing.assert_allclose(found, run.probabilities(images), rtol=1e-4, atol=1e-6)


def test_the_run_of_a_series(tmp_path: Path) -> None:
    series = tmp_path / "series.csv"
    values = 1e6 + 5 * np.sin(np.arange(90)) + np.arange(90) / 10
    series.write_text("x\n" + "".join(f"{value!r}\n" for value in values.tolist()))
    options = ("--csv", str(series), "--column", "x", "--epochs", "1", "--horizon", "3", "--period", "6")
    assert main(["train", "series", *options, "--output", str(tmp_path / "run")]) == 0
    path = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "run"), str(path), "--level", "0.8"]) == 0
    run = rg.load_run(tmp_path / "run")
    assert metadata(path) == {"column": "x", "window": "18", "horizon": "3", "period": "6", "level": "0.8"}
    expected = run.forecast(level=0.8)
    found = outputs(path, {"values": np.stack([run.values[-18:], run.values[:18]])})
    for ours, theirs in zip((expected.values, expected.lower, expected.upper), found, strict=True):
        np.testing.assert_allclose(theirs[0], ours, atol=1e-4)


def test_the_run_of_a_text_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most likely characters after a prompt, chosen one by one with the states of the last step."""
    small = partial(text_task, width=4, hidden=8)
    monkeypatch.setattr("retrograd.train.language_modeling.text_task", small)
    book, path = tmp_path / "book.txt", tmp_path / "model.onnx"
    book.write_text("to be or not to be, that is the question\n" * 250)
    assert main(["train", "text", "--text", str(book), "--epochs", "1", "--output", str(tmp_path / "run")]) == 0
    assert main(["export", str(tmp_path / "run"), str(path)]) == 0
    run = rg.load_run(tmp_path / "run")
    alphabet = metadata(path)["alphabet"]
    assert alphabet == run.alphabet
    codes = np.array([[alphabet.index(letter) for letter in "to be"]])
    h = c = np.zeros((2, 1, 8), np.float32)
    written = "to be"
    states = None
    for _ in range(12):
        scores, h, c = outputs(path, {"codes": codes, "h": h, "c": c})
        with rg.no_grad():
            ours, states = run.model.step(rg.tensor(codes.T), states)
        np.testing.assert_allclose(scores[0], ours.numpy(), rtol=1e-4, atol=1e-5)
        codes = scores[:, -1:].argmax(2)
        written += alphabet[codes[0, 0]]
    cold = run.write(12, temperature=1e-6, prompt="to be")
    assert written == cold
