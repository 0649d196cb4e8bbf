"""SummaryWriter: its files are read back as the records and messages that TensorBoard reads."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef

import retrograd as rg
from retrograd import nn
from retrograd.utils.tensorboard import SummaryWriter


def events(folder: Path) -> list[Any]:
    """All events of a folder and those below it. A record: uint64 length, uint32 checksum, the event, a checksum."""
    found = []
    for path in sorted(folder.rglob("events.out.*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            (size,) = struct.unpack_from("<Q", content, place)
            found.append(Event.FromString(content[place + 12 : place + 12 + size]))
            place += size + 16
    return found


def values(folder: Path) -> dict[str, list[tuple[int, Any]]]:
    """{tag: [(step, value)]}."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for event in events(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value))
    return found


def test_scalars_and_text(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", rg.tensor(step / 2, requires_grad=True), step)
        writer.add_scalar("plain", 3, global_step=7, walltime=12.5)
        writer.add_scalars("both", {"a": rg.tensor(1.0), "b": 2.0}, 4)
        writer.add_text("note", "some **text**", 5)
        assert writer.get_logdir() == writer.log_dir == str(tmp_path)
        writer.flush()
    found = values(tmp_path)
    assert [(step, value.simple_value) for step, value in found["loss"]] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert found["plain"][0][1].simple_value == 3 and found["plain"][0][0] == 7
    assert sorted(value.simple_value for _, value in found["both"]) == [1, 2]
    assert found["note/text_summary"][0][1].tensor.string_val == [b"some **text**"]
    assert 12.5 in {event.wall_time for event in events(tmp_path)}


def test_distributions(tmp_path):
    x = rg.tensor([0.0, 1, 1, 2], requires_grad=True)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("x", x, 1)
        writer.add_histogram_raw("raw", 0, 2, 4, 4, 6, rg.tensor([1.0, 2]), [1, 3], 2)
        writer.add_pr_curve("pr", rg.tensor([0, 1, 1]), rg.tensor([0.1, 0.9, 0.4]), 3)
    found = values(tmp_path)
    histogram = found["x"][0][1].histo
    assert (histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares) == (0, 2, 4, 4, 6)
    assert list(found["raw"][0][1].histo.bucket) == [1, 3] and "pr" in found


def test_images(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (3, 4, 5)).astype(np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("bytes", rg.tensor(image), 1)
        writer.add_image("floats", rg.tensor((image / np.float32(255)).transpose(1, 2, 0)), 1, dataformats="HWC")
        writer.add_images("all", rg.tensor(np.stack([image, image]) / np.float32(255)), 2)
        writer.add_image_with_boxes("boxed", rg.tensor(image), rg.tensor([[0.0, 0, 2, 2]]), 3)
    found = values(tmp_path)
    for tag in ("bytes", "floats"):
        picture = Image.open(io.BytesIO(found[tag][0][1].image.encoded_image_string))
        np.testing.assert_array_equal(np.asarray(picture), image.transpose(1, 2, 0), tag)
    assert (found["all"][0][1].image.width, found["boxed"][0][1].image.height) == (10, 4)


def test_figures_and_embeddings(tmp_path):
    figure = Figure(figsize=(1, 1), dpi=50)
    FigureCanvasAgg(figure)
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_figure("figure", figure, 1, close=False)
        writer.add_embedding(rg.tensor(np.eye(3, dtype=np.float32)), ["a", "b", "c"], tag="points")
        writer.add_mesh("mesh", rg.zeros(1, 4, 3))
        writer.add_custom_scalars({"losses": {"both": ["Multiline", ["a", "b"]]}})
    found = values(tmp_path)
    assert found["figure"][0][1].image.width == 50
    assert any("mesh" in tag for tag in found)
    assert {"custom_scalars__config__"} <= found.keys()
    (points,) = tmp_path.rglob("tensors.tsv")
    np.testing.assert_array_equal(np.loadtxt(points), np.eye(3))


def test_options_of_a_run(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        options = {"lr": rg.tensor(0.5), "name": "x", "on": True}
        writer.add_hparams(options, {"accuracy": rg.tensor(0.25)}, run_name="run")
        with pytest.raises(ValueError, match="hparam_domain_discrete is not supported"):
            writer.add_hparams({}, {}, {"lr": [1]})
    assert values(tmp_path / "run")["accuracy"][0][1].simple_value == 0.25
    assert "_hparams_/session_start_info" in values(tmp_path / "run")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any, scale: Any = None) -> Any:
        return {"out": self.head(self.body(x)) * scale, "unused": 1}


def test_graph(tmp_path, capsys):
    net = Net()
    net.body.eval()
    x = rg.ones(5, 3)
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, (x, rg.tensor([2.0, 3.0])), verbose=True)
    assert "Parameter" in capsys.readouterr().out
    assert (net.training, net.body.training, net.head.training, x.requires_grad) == (True, False, True, False)
    (content,) = [event.graph_def for event in events(tmp_path) if event.graph_def]
    nodes = {node.name: node for node in GraphDef.FromString(content).node}
    parameters = {path.replace(".", "/") for path, _ in net.named_parameters()}
    assert {name for name, node in nodes.items() if node.op == "Parameter"} == parameters
    assert {name for name, node in nodes.items() if node.op == "Input"} == {"input_0", "input_1"}
    first, last = (
        next(node for node in nodes.values() if node.op == "Linear" and place in node.input)
        for place in ("body/0/weight", "head/weight")
    )
    assert first.name.startswith("body/0/Linear_") and "input_0" in first.input
    assert set(last.input) - {"head/weight", "head/bias"} <= nodes.keys()
    shape = last.attr["_output_shapes"].list.shape[0].dim
    assert [extent.size for extent in shape] == [5, 2]
    assert all(source in nodes for node in nodes.values() for source in node.input)


def test_what_is_refused(tmp_path, monkeypatch):
    frozen = nn.Embedding(3, 2).requires_grad_(False)
    with SummaryWriter(tmp_path) as writer:
        for call, error, message in (
            (lambda: writer.add_scalar("x", rg.ones(2)), ValueError, "scalar_value has 2 elements; use its mean"),
            (lambda: writer.add_scalar("x", 1, new_style=True), ValueError, "new_style=True is not supported"),
            (lambda: writer.add_scalar("x", 1, double_precision=True), ValueError, "double_precision=True is not supp"),
            (lambda: writer.add_image_with_boxes("x", 1, 1, rescale=2), ValueError, "rescale=2 is not supported"),
            (lambda: writer.add_graph(3, 1), TypeError, "add_graph: model is int, expected a Module"),
            (lambda: writer.add_graph(frozen), TypeError, "add_graph: input_to_model is missing"),
            (lambda: writer.add_graph(frozen, rg.tensor([1])), ValueError, "no result of the model takes a gradient"),
        ):
            with pytest.raises(error, match=message):
                call()
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r'tensorboardX is not installed: pip install "retrograd\[tensorboard\]"'):
        SummaryWriter(tmp_path)
