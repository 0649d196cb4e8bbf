"""Image folders: every image mode, and folders with unusual or unusable contents."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.drawn import draw_folder
from retrograd._files import untrusted as outside
from retrograd._files.terminal import display_name
from retrograd.data import DataLoader, ImageFolder, ImageFolderError
from retrograd.data.images import ImageError, load_images, read_image, summarize
from retrograd.data.transforms import Compose, RandomHorizontalFlip, Resize, ToTensor


@pytest.fixture
def folder(tmp_path):
    return draw_folder(tmp_path / "pictures")


def refused(folder: Path, message: str) -> None:
    with pytest.raises(ImageFolderError, match=message):
        load_images(folder, 16, 3)


# ---- single images -------------------------------------------------------------------------------------------------


def saved(path: Path, image: Image.Image, **options) -> Path:
    image.save(path, **options)
    return path


def test_modes(tmp_path):
    """Every mode that PNG and JPEG can have, from values written by hand."""
    path = tmp_path / "x.png"
    rgb = np.array([[[255, 0, 0], [0, 0, 255]], [[10, 20, 30], [0, 0, 0]]], np.uint8)
    gray = np.array([[0, 85], [170, 255]], np.uint8)
    assert np.array_equal(read_image(saved(path, Image.fromarray(rgb)), 3), rgb)
    assert np.array_equal(read_image(saved(path, Image.fromarray(gray)), 1), gray[..., None])
    assert np.array_equal(read_image(path, 3), np.repeat(gray[..., None], 3, 2))
    # 0.299 R + 0.587 G + 0.114 B
    assert abs(read_image(saved(path, Image.fromarray(rgb)), 1)[..., 0].astype(int) - [[76, 29], [18, 0]]).max() <= 1
    sixteen = (gray.astype(np.uint16) * 257)[:, ::-1]
    assert np.array_equal(read_image(saved(path, Image.fromarray(sixteen)), 1)[..., 0], gray[:, ::-1])
    clear = np.dstack([rgb, np.array([[255, 0], [128, 255]], np.uint8)])  # opaque, see-through, half
    found = read_image(saved(path, Image.fromarray(clear)), 3).astype(int)
    assert found[0, 0].tolist() == [255, 0, 0] and found[0, 1].tolist() == [255] * 3
    assert abs(found[1, 0] - [132, 137, 142]).max() <= 2
    palette = Image.fromarray(rgb).quantize(4)
    assert abs(read_image(saved(path, palette), 3).astype(int) - rgb).max() <= 8
    hole = Image.fromarray(gray).convert("P")
    assert read_image(saved(path, hole, transparency=85), 1)[0, 1, 0] == 255
    bits = Image.fromarray(gray).convert("1", dither=Image.Dither.NONE)
    assert read_image(saved(path, bits), 1)[..., 0].tolist() == [[0, 0], [255, 255]]
    assert read_image(saved(path, Image.fromarray(clear[..., 2:]).convert("LA")), 1).shape == (2, 2, 1)
    inks = Image.fromarray(np.full((8, 8, 4), [0, 255, 255, 0], np.uint8), mode="CMYK")
    red = read_image(saved(tmp_path / "x.jpg", inks, quality=100), 3)[0, 0].astype(int)
    assert red[0] > 200 and red[1] < 60 and red[2] < 60


def test_the_camera_s_note_is_followed(tmp_path):
    image = np.zeros((4, 8, 3), np.uint8)
    image[:, :2] = 255  # bright on the left
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees, clockwise
    found = read_image(saved(tmp_path / "x.png", Image.fromarray(image), exif=exif), 1)
    assert found.shape == (8, 4, 1) and found[:2].min() == 255 and found[2:].max() == 0


@pytest.mark.parametrize(("height", "width"), [(40, 20), (20, 40), (3, 5), (16, 16)])
def test_the_middle_square_is_resized(tmp_path, height, width):
    image = np.zeros((height, width), np.uint8)
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    image[top : top + side, left : left + side] = 200
    found = read_image(saved(tmp_path / "x.png", Image.fromarray(image)), 1, 16)
    assert found.shape == (16, 16, 1) and found[3:-3, 3:-3].min() >= 195


def test_a_thread_of_an_image_does_not_become_a_giant(tmp_path):
    path = saved(tmp_path / "x.png", Image.fromarray(np.full((1, 30000), 200, np.uint8)))
    assert (read_image(path, 1, 256) == 200).all()


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its data does not have."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 100)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a PNG or JPEG image"),
        (b"just text", "is not a PNG or JPEG image"),
        (b"GIF89a" + bytes(40), "is not a PNG or JPEG image"),
        (b"\x89PNG\r\n\x1a\n", "is not a PNG or JPEG image|is damaged"),
        (bomb(100, 100), "is damaged or cut off"),
        (bomb(8000, 8000), "is too large: 8,000 x 8,000 pixels, more than 50,000,000"),
        (bomb(10000, 10000), "is too large"),
        (bomb(60000, 60000), "is too large"),
        (bomb(0, 10), "is "),
    ],
)
def test_files_that_are_no_usable_images(tmp_path, content, message):
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(ImageError, match=message):
        read_image(tmp_path / "x.png", 3, 16)


@pytest.mark.parametrize("kind", ["png", "jpg"])
@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.nightly)])
def test_cut_and_changed_images_never_crash(tmp_path, kind, count):
    folder = draw_folder(tmp_path, 2)
    content = next((folder / "disc").glob(f"*.{kind}")).read_bytes()
    random = np.random.default_rng(count)
    path, whole = tmp_path / f"x.{kind}", 0
    for turn in range(count):
        data = bytearray(content)
        if turn % 3 == 0:
            del data[int(random.integers(len(data))) :]
        else:
            for spot in random.integers(0, len(data), int(random.integers(1, 6))):
                data[spot] = int(random.integers(256))
        path.write_bytes(data)
        try:
            assert read_image(path, 3, 16).shape == (16, 16, 3)
            whole += 1
        except ImageError as error:
            assert str(error).startswith("is ")
    assert whole < count


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("pipe", "is not a file"), (".", "is a folder"), ("none", "cannot be read .No such file")):
        with pytest.raises(ImageError, match=message):
            read_image(tmp_path / name, 3)
    with pytest.raises(ValueError, match="channels=2 must be 3"):
        read_image(tmp_path, 2)


# ---- folders -------------------------------------------------------------------------------------------------------


def test_a_folder_is_loaded_in_a_fixed_order(folder):
    found = load_images(folder, 16, 3)
    assert found.images.shape == (16, 3, 16, 16) and found.images.dtype == np.uint8
    assert found.classes == ("disc", "square") and found.labels.tolist() == [0] * 8 + [1] * 8
    assert found.skipped == [] and found.why_skipped() == ""
    expected = [read_image(path, 3, 16) for name in found.classes for path in sorted((folder / name).iterdir())]
    assert np.array_equal(found.images, np.moveaxis(np.stack(expected), -1, 1))
    assert load_images(folder, 16, 1).images.shape == (16, 1, 16, 16)
    with pytest.raises(ValueError, match="size=0 must be positive"):
        load_images(folder, 0, 3)


def test_folders_that_cannot_be_used(tmp_path, folder):
    refused(tmp_path / "none", "none: there is no such folder")
    refused(folder / "disc" / "000.png", "is a file, expected a folder with one folder per class")
    refused(folder / "disc", r"must have at least two class folders.* it has none \(and 8 files outside of folders\)")
    (tmp_path / "one" / "cat").mkdir(parents=True)
    refused(tmp_path / "one", "it has only 'cat'")
    (folder / "empty").mkdir()
    refused(folder, r"each class needs at least 1 image \(PNG or JPEG\); too few in 'empty' \(0\): put images there,")
    (folder / "empty" / "a.txt").write_text("no image")
    refused(folder, r"'empty' \(0\).*Not used: empty/a.txt is not a PNG or JPEG image")
    with pytest.raises(ImageFolderError, match="at least 9 images"):
        load_images(draw_folder(tmp_path / "few"), 16, 3, least=9)
    with pytest.raises(ImageFolderError, match="has the class folders disc, square, expected cat, dog"):
        load_images(tmp_path / "few", 16, 3, classes=("cat", "dog"))


@pytest.mark.parametrize("names", [("Cat", "cat"), ("STRASSE", "straße"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_differ_only_in_case(tmp_path, names):
    draw_folder(tmp_path, 1, names)
    if len(list(tmp_path.iterdir())) == 1:
        pytest.skip("this file system takes the two names for one")
    refused(tmp_path, "have names that differ only in case or in their Unicode spelling")


def test_what_is_skipped_is_listed_and_counted(folder, tmp_path):
    disc = folder / "disc"
    (disc / "cut.png").write_bytes((disc / "000.png").read_bytes()[:300])
    (disc / "notes.txt").write_text("text")
    for number in range(7):
        (disc / f"t{number}.gif").write_bytes(b"GIF89a")
    (disc / "bomb.png").write_bytes(bomb(60000, 60000))
    os.mkfifo(disc / "pipe.png")
    (disc / "gone.png").symlink_to("nowhere.png")
    (disc / "loop").symlink_to(folder)
    (disc / "circle").symlink_to("circle")
    (disc / ".DS_Store").write_text("hidden")
    (folder / "readme.txt").write_text("text")
    (disc / "deeper" / "still").mkdir(parents=True)
    (disc / "000.png").rename(disc / "deeper" / "still" / "moved.png")
    bad = os.fsdecode(b"bad\xff\n.png")
    (disc / bad).write_bytes(b"")
    found = load_images(folder, 16, 3)
    assert found.labels.tolist() == [0] * 8 + [1] * 8  # the one in the folder within counts
    reasons = {display_name(path.name): reason for path, reason in found.skipped}
    assert reasons.pop("cut.png").startswith("is damaged or cut off")
    assert reasons.pop("bomb.png").startswith("is too large")
    assert reasons.pop("loop") == "is a link to a folder that contains it"
    assert reasons.pop("pipe.png") == "is not a file" and reasons.pop("readme.txt") == "is in no class folder"
    assert all(reasons.pop(name).startswith("cannot be read (") for name in ("gone.png", "circle"))
    assert set(reasons.values()) == {"is not a PNG or JPEG image"} and len(reasons) == 9
    line = found.why_skipped()
    assert "disc/t2.gif and 4 more are not PNG or JPEG images" in line and "\n" not in line and ".DS_Store" not in line
    line.encode("utf-8")
    assert r"bad\xff\x0a.png" in {display_name(path.name) for path, _ in found.skipped}


def test_files_and_folders_that_may_not_be_read(folder, monkeypatch):
    """Root may read everything, so PermissionError is simulated."""
    locked = folder / "square" / "locked"
    locked.mkdir()
    iterdir, opened = Path.iterdir, outside.open_untrusted

    def deny(path, *arguments):
        if Path(path).name in ("locked", "000.png"):
            raise PermissionError(13, "Permission denied", str(path))
        return (opened if arguments else iterdir)(path, *arguments)

    monkeypatch.setattr(Path, "iterdir", deny)
    monkeypatch.setattr("retrograd.data.images.open_untrusted", deny)
    found = load_images(folder, 16, 3)
    assert summarize(found.skipped).count("cannot be read (Permission denied)") == 1 and len(found.skipped) == 3
    monkeypatch.setattr(Path, "iterdir", lambda path: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    refused(folder, "cannot be read: Permission denied")


def test_without_pillow(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'reading images needs Pillow.*pip install "retrograd\[images\]"'):
        load_images(folder, 16, 3)


# ---- ImageFolder -----------------------------------------------------------------------------------------------------


def test_image_folder_reads_when_asked(folder):
    (folder / "disc" / "notes.txt").write_text("text")
    data = ImageFolder(folder)
    assert len(data) == 16 and data.classes == ("disc", "square") and data.class_to_idx == {"disc": 0, "square": 1}
    assert [path.name for path, _ in data.skipped] == ["notes.txt"] and data.targets == [0] * 8 + [1] * 8
    image, label = data[9]
    assert image.shape == (24, 24, 3) and image.dtype == np.uint8 and label == 1
    (folder / "disc" / "000.png").write_bytes(b"")
    with pytest.raises(ImageFolderError, match="000.png is not a PNG or JPEG image; remove it, or repair it"):
        data[0]
    for path in (folder / "square").iterdir():
        path.write_bytes(b"")
    with pytest.raises(ImageFolderError, match=r"'square' \(0\)"):
        ImageFolder(folder)


def test_image_folder_with_transforms_gives_the_same_from_workers(folder):
    steps = Compose([Resize(16), RandomHorizontalFlip(), ToTensor()])
    data = ImageFolder(folder, steps, channels=1, target_transform=float)
    found = [
        [(images.numpy(), labels.tolist()) for images, labels in DataLoader(data, 5, True, num_workers=workers, seed=1)]
        for workers in (0, 2)
    ]
    assert found[0][0][0].shape == (5, 1, 16, 16)
    for (images, labels), (others, theirs) in zip(*found, strict=True):
        assert np.array_equal(images, others) and labels == theirs
