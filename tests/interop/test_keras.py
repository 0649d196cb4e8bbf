"""Keras weights: the files in ``files`` were written by Keras 3.15, with an input and Keras's result."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.interop import KerasFileError, keras_weights, load_keras_weights

FILES = Path(__file__).parent / "files"


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4, eps=1e-3),
        nn.Conv2d(4, 8, 2, groups=4),
        nn.ConvTranspose2d(8, 3, 2, stride=2),
        nn.PReLU(3),
        nn.Conv2d(3, 2, 3, stride=2),
        nn.Flatten(),
        nn.Linear(8, 5),
        nn.LayerNorm(5, eps=1e-3),
        nn.Linear(5, 2),
    )


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.both = nn.LSTM(4, 3, bidirectional=True)
        self.middle = nn.GRU(6, 4)
        self.two = nn.LSTM(4, 3, num_layers=2)
        self.last = nn.RNN(3, 2)

    def forward(self, x: Any) -> Any:
        y = self.table(x).transpose(0, 1)
        for layer in (self.both, self.middle, self.two, self.last):
            y = layer(y)[0]
        return y.transpose(0, 1)


@pytest.mark.parametrize("ending", [".weights.h5", ".h5", ".keras"])
def test_outputs_are_those_of_keras(ending, tmp_path):
    path = FILES / f"keras_cnn{ending}"
    if ending == ".keras":
        path = tmp_path / "x.keras"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(FILES / "keras_cnn.weights.h5", "model.weights.h5")
            archive.writestr("config.json", "{}")
    given = np.load(FILES / "keras_cnn.npz")
    model = cnn().eval()
    assert load_keras_weights(model, path, flatten={"7": (2, 2, 2)}) == ([], [])
    found = model(rg.tensor(given["x"].transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(found.array, given["y"], rtol=2e-5, atol=2e-6)
    if ending == ".keras":
        return
    given = np.load(FILES / "keras_rnn.npz")
    recurrent = Sequence()
    assert load_keras_weights(recurrent, FILES / f"keras_rnn{ending}") == ([], [])
    np.testing.assert_allclose(recurrent(rg.tensor(given["x"])).array, given["y"], rtol=2e-5, atol=2e-6)


def test_by_name_and_in_part():
    """A GRU alone, found by the name of its attribute; then by names."""
    whole = Sequence()
    load_keras_weights(whole, FILES / "keras_rnn.weights.h5")
    part = nn.Module()
    part.gru = nn.GRU(6, 4)
    with pytest.raises(KerasFileError, match=r"not used from the file: \['bidirectional', 'embedding', 'lstm'"):
        load_keras_weights(part, FILES / "keras_rnn.weights.h5")
    missing, unexpected = load_keras_weights(part, FILES / "keras_rnn.weights.h5", strict=False)
    assert missing == [] and set(unexpected) == {"bidirectional", "embedding", "lstm", "lstm_1", "simple_rnn"}
    np.testing.assert_array_equal(part.gru.weight_hh_l0.array, whole.middle.weight_hh_l0.array)
    other = nn.Sequential(nn.LSTM(3, 3), nn.Linear(2, 2))
    missing, _ = load_keras_weights(other, FILES / "keras_rnn.weights.h5", False, {"0": "lstm_1"})
    np.testing.assert_array_equal(other[0].weight_ih_l0.array, whole.two.weight_ih_l1.array)
    assert missing == ["1.weight", "1.bias"]


def test_arrays_as_they_are():
    for name, key in (("keras_cnn.weights.h5", "conv2d/0"), ("keras_cnn.h5", "conv2d/kernel")):
        assert keras_weights(FILES / name)[key].shape == (3, 3, 2, 4)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (lambda: nn.Linear(3, 2), {"strict": False}, r"size mismatch for weight"),
        (lambda: nn.Sequential(*[nn.Linear(8, 5) for _ in range(3)]), {}, r"missing in the file: \['2.weight'"),
        (cnn, {"names": {"9": "none"}}, r"names has \['none'\]; the model has \['0', '1'"),
        (cnn, {"names": {"none": "dense"}}, r"names has \['none'\]"),
        (cnn, {"names": {"1": "dense"}}, r"1.: dense: it has 2 weights, BatchNorm2d needs 4"),
        (lambda: nn.Sequential(nn.BatchNorm2d(4, affine=False)), {}, r"it has 4 weights, BatchNorm2d needs 2"),
        (lambda: nn.Sequential(nn.Conv2d(2, 9, 3)), {"strict": False}, "size mismatch for 0.weight"),
    ],
)
def test_what_does_not_fit_changes_nothing(model, options, message):
    module = model()
    before = {key: value.array.copy() for key, value in module.state_dict().items()}
    with pytest.raises(KerasFileError, match=message):
        load_keras_weights(module, FILES / "keras_cnn.weights.h5", **options)
    assert all((value.array == before[key]).all() for key, value in module.state_dict().items())


def test_arguments(tmp_path, monkeypatch):
    path = FILES / "keras_cnn.weights.h5"
    with pytest.raises(TypeError, match="load_keras_weights: model is int, expected a Module"):
        load_keras_weights(3, path)
    with pytest.raises(TypeError, match="names must map paths of modules to names of layers"):
        load_keras_weights(cnn(), path, names={"0": 1})
    with pytest.raises(ValueError, match=r"flatten has \['x'\]; not all are paths of modules"):
        load_keras_weights(cnn(), path, flatten={"x": (1, 2, 3)})
    with pytest.raises(KerasFileError, match=r"none.h5 cannot be read: No such file"):
        keras_weights(tmp_path / "none.h5")
    (tmp_path / "x.h5").write_bytes(path.read_bytes()[:3000])
    with pytest.raises(KerasFileError, match=r"x.h5 is not a Keras HDF5 file: it was cut off or damaged"):
        keras_weights(tmp_path / "x.h5")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", bytes(10**6))
    (tmp_path / "x.keras").write_bytes(bomb.getvalue())
    with pytest.raises(KerasFileError, match=r"its weights unpack to 1,000,000 bytes"):
        keras_weights(tmp_path / "x.keras")
    monkeypatch.setitem(sys.modules, "pyfive", None)
    with pytest.raises(ImportError, match=r'pyfive is not installed: pip install "retrograd\[keras\]"'):
        keras_weights(path)
