"""report.html: complete and self-contained, and its errors never stop the training."""

import dataclasses
import errno
import os
import re
import struct
import subprocess
import sys
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from retrograd.train.html_page import PicturesMissing, curves, diverging, gray, png_uri
from retrograd.train.report import ReportError, report_page, write_report
from train.small import SMALL, bits, small_task


class Page(HTMLParser):
    """Checks that tags are balanced, and collects the page's text and attributes."""

    void = ("meta", "img", "br", "path", "use", "line")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack, self.links, self.ids, self.classes = [], [], [], []
        self.text = ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [attributes[name] for name in ("src", "href", "xlink:href") if name in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.classes += (attributes.get("class") or "").split()
        if tag not in self.void:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.stack.pop()

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def trainer(make_trainer):
    trainer = make_trainer(settings=dataclasses.replace(SMALL, epochs=2))
    trainer.run()
    return trainer


def test_the_page_is_complete_and_loads_nothing(trainer):
    before = bits(trainer)
    path = write_report(trainer)
    assert path.name == "report.html" and bits(trainer) == before
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.links and all(link.startswith(("data:image/png", "#", "explain.html#layer=")) for link in page.links)
    assert not re.search(r"url\((?!#)|@import|<script|<link", text)
    assert set(re.findall(r"https?://[\w./-]*", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert len(page.ids) == len(set(page.ids)) and {link[1:] for link in page.links if link[0] == "#"} <= set(page.ids)
    for word in ("Confusion matrix", "filters", "wrong", "Time per layer", "Settings", "NumPy", "Conv2d", "Accuracy"):
        assert word in page.text
    assert "Small & quick" in page.text and "made <up>" in page.text  # escaped, not lost
    assert "$" not in page.text and "prefers-color-scheme: dark" in text


def test_the_numbers_are_those_of_the_run(trainer):
    task = trainer.task
    page = Page(report_page(trainer))
    answers, labels = trainer.scores().argmax(1), task.held_out.tensors[1].array
    wrong = int((answers != labels).sum())
    assert f"{(answers == labels).mean():.2%}" in page.text and f"{wrong} of 12 held-out" in page.text
    assert page.text.count("says ") == wrong and page.classes.count("hit") + page.classes.count("miss") <= 4
    assert f"{trainer.history[-1]['held_out_accuracy']:.2%}" in page.text


def test_a_run_without_mistakes_or_convolution(make_trainer):
    from retrograd import nn

    task = small_task()
    task.model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    trainer = make_trainer(task=task)
    trainer.run()
    task.held_out.tensors[1].array[:] = trainer.scores().argmax(1)
    page = Page(report_page(trainer))
    assert "all 12 held-out images are right" in page.text and "no convolution over images" in page.text


def test_a_run_that_overfits_says_so_in_its_report(trainer):
    assert "overfits" not in report_page(trainer)
    trainer.history[-1] |= {"accuracy": 1.0, "held_out_accuracy": 0.0}
    page = Page(report_page(trainer))
    assert "Overfitting" in page.text and "Try more images than 20 or fewer --epochs." in page.text
    assert "Try more images than 20" in trainer.task.result(trainer)


def test_without_matplotlib_the_message_says_what_to_install(trainer, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PicturesMissing, match=re.escape('pip install "retrograd[train]"')):
        write_report(trainer)
    assert os.listdir(trainer.output) == ["checkpoint.npz"]


def test_kernels_of_the_report_are_compiled_only_if_it_follows(make_trainer, monkeypatch):
    begun, said = [], []
    for module in ("trainer", "report"):
        monkeypatch.setattr(f"retrograd.train.{module}.begin_compiling", lambda *kernels: begun.append(kernels))
    task = small_task()
    task.report_kernels = (("softmax.softmax",), ())
    trainer = make_trainer(task=task)
    trainer.run()
    assert begun == [(task.kernels,)]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        patch.setattr(trainer.progress, "say", said.append)
        with pytest.raises(PicturesMissing):
            write_report(trainer)
    assert len(begun) == 1 and not said
    trainer.run(report=True)
    assert begun[1:] == [(task.kernels,), task.report_kernels]


def test_matplotlib_is_quiet_without_a_home_folder(tmp_path):
    """Its cache folder cannot be created there; the message about it, and those about fonts, are not shown."""
    (tmp_path / "file").touch()
    missing = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(tmp_path / "file" / "home"))
    environment = {key: value for key, value in os.environ.items() if key != "MPLCONFIGDIR"} | missing
    code = """
import logging
from retrograd.train.html_page import curves
print(curves("loss", {"loss": [2.0, 1.0]})[:4], logging.getLogger("matplotlib").level)
"""
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("<svg 0\n", "")


def test_a_full_disk_keeps_the_earlier_report(trainer, monkeypatch):
    path = write_report(trainer)
    before = path.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReportError, match=r"html was not written, the earlier one is unchanged: no space"):
        write_report(trainer)
    assert path.read_bytes() == before
    assert sorted(os.listdir(trainer.output)) == ["checkpoint.npz", "explain.html", "report.html"]


def test_curves_are_svg_in_the_colors_of_the_page():
    svg = curves("Loss & more", {"one": [3.0, 2.0, 1.5], "two": [2.5, 2.0, 1.0]}, percent=True)
    ElementTree.fromstring(svg.replace("xlink:href", "href"))
    assert "var(--first)" in svg and "var(--second)" in svg and "var(--ink)" in svg and "DejaVu" not in svg
    assert not re.search(r"#0[1-5]0[1-5]0[1-5]", svg) and 'width="' not in svg.split(">")[0]
    assert svg == curves("Loss & more", {"one": [3.0, 2.0, 1.5], "two": [2.5, 2.0, 1.0]}, percent=True)


def decoded(uri: str, channels: int) -> np.ndarray:
    content = b64decode(uri.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    start = content.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", content[start - 8 : start - 4])
    assert struct.unpack(">I", content[start + length : start + length + 4])[0] == zlib.crc32(
        content[start - 4 : start + length]
    )
    lines = np.frombuffer(zlib.decompress(content[start : start + length]), np.uint8).reshape(height, -1)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:].reshape(height, width, channels)


def test_pixels_survive_the_png():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (decoded(png_uri(pixels), 1)[..., 0] == pixels).all()
    colors = np.random.default_rng(0).integers(0, 256, (3, 2, 4)).astype(np.uint8)
    assert (decoded(png_uri(colors), 4) == colors).all()


def test_pictures_of_images_and_filters():
    assert gray(np.array([[[0.0, 1.0], [0.5, 0.25]]])).tolist() == [[255, 0], [128, 191]]
    assert gray(np.ones((3, 1, 1))).tolist() == [[255]]
    assert diverging(np.array([[1.0, -0.5, 0.0]]), 1.0)[0, :, 3].tolist() == [255, 128, 0]
    assert diverging(np.zeros((1, 1)), 0.0)[0, 0, 3] == 0
