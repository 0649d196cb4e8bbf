"""Image folders: one folder per class, with PNG and JPEG files, read with Pillow.

Whatever a folder contains, nothing crashes and nothing is skipped silently. Unusable files are listed with the reason,
and an unusable folder raises an ImageFolderError that says what to do.
"""

from __future__ import annotations

import errno
import os
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from .._files.state import reason
from .._files.terminal import display_name
from .._files.untrusted import as_path, open_untrusted
from .dataset import Dataset
from .image_transform import pillow

__all__ = ["ImageError", "ImageFolder", "ImageFolderError", "LoadedImages", "images_in", "load_images", "read_image"]

_FORMATS = ("PNG", "JPEG")
_MAX_PIXELS = 50_000_000  # a small file can declare a huge image to exhaust memory
_MAX_BYTES = 512 * 1024**2  # an uncompressed image of that many pixels, with alpha and 16 bits per channel
_DEEPEST = 100  # levels of nested folders
_NAMED = 5  # most files named in a message
_warnings_lock = Lock()


class ImageFolderError(RuntimeError):
    """A folder cannot be used as image class folders; the message says why and what to do."""


class ImageError(RuntimeError):
    """A file cannot be used as an image; the message says why, without the file's name."""


class ImageFolder(Dataset):
    """A dataset of images in class folders. Sample i is (image, label), read from disk on access.

    root: a folder with one folder per class; images in nested folders belong to the class too.
    transform: applied to the image, uint8 (H, W, channels); see retrograd.data.transforms.
    target_transform: applied to the label, an int.
    channels: 3 for color, 1 for grayscale.

    ``classes`` lists the folder names in order, ``class_to_idx`` maps them to labels, ``samples`` lists pairs (path,
    label), and ``skipped`` lists pairs (path, reason) of files that are not PNG or JPEG images.

    Raises:
        ImageFolderError: the folder cannot be used; the message says why.
        ImportError: Pillow is not installed.
        ValueError: channels is neither 1 nor 3.
    """

    channels: int
    root: Path
    classes: tuple[str, ...]
    skipped: list[tuple[Path, str]]
    transform: Callable[[Any], Any] | None
    target_transform: Callable[[Any], Any] | None

    def __init__(
        self,
        root: str | Path,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        channels: int = 3,
    ) -> None:
        _check_channels(channels)
        self.root, self.channels = as_path("ImageFolder", "root", root), channels
        self.transform, self.target_transform = transform, target_transform
        scan = _scan(self.root)
        self.classes, self.skipped = scan.classes, list(scan.skipped)
        self.class_to_idx: dict[str, int] = {name: label for label, name in enumerate(self.classes)}
        self.samples: list[tuple[Path, int]] = []
        for path, label in scan.files:
            try:
                with _opened(path):
                    self.samples.append((path, label))
            except ImageError as error:
                self.skipped.append((path, str(error)))
        self.targets: list[int] = [label for _, label in self.samples]
        _check_classes(self.root, self.classes, self.targets, self.skipped, least=1)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        try:
            image: Any = read_image(path, self.channels)
        except ImageError as error:
            raise ImageFolderError(f"{display_name(path)} {error}; remove it, or repair it") from error
        target: Any = label
        return (
            image if self.transform is None else self.transform(image),
            target if self.target_transform is None else self.target_transform(target),
        )

    def __len__(self) -> int:
        return len(self.samples)


@dataclass
class LoadedImages:
    """The images of a folder in memory: uint8 (N, channels, size, size), labels int64 (N,), and the class names.

    skipped: (path, reason) of each unused file.
    """

    images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    skipped: list[tuple[Path, str]]

    def why_skipped(self) -> str:
        """Describe the skipped files in one line, counted by reason; "" if there are none."""
        return summarize(self.skipped)


def load_images(
    root: str | Path, size: int, channels: int, classes: Sequence[str] | None = None, least: int = 1
) -> LoadedImages:
    """Read every image in a folder of class folders, cropped to the central square and resized to ``size`` pixels.

    classes: the expected class folders; None accepts any, at least two.
    least: minimum number of images of each class.

    Raises:
        ImageFolderError: the folder cannot be used; the message says why.
        ImportError: Pillow is not installed.
        ValueError: channels is neither 1 nor 3, or size is not positive.
    """
    root = Path(root)
    _check_channels(channels)
    if size < 1:
        raise ValueError(f"load_images: size={size} must be positive")
    pillow("reading images")
    scan = _scan(root)
    if classes is not None and scan.classes != tuple(classes):
        raise ImageFolderError(
            f"{display_name(root)} has the class folders {_listed(scan.classes)}, expected {_listed(classes)}"
        )

    def read(path: Path) -> np.ndarray | ImageError:
        try:
            return read_image(path, channels, size)
        except ImageError as error:
            return error

    images, labels, skipped = [], [], list(scan.skipped)
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:  # Pillow decodes without the GIL
        for (path, label), image in zip(scan.files, threads.map(read, [path for path, _ in scan.files]), strict=True):
            if isinstance(image, ImageError):
                skipped.append((path, str(image)))
            else:
                images.append(np.moveaxis(image, -1, 0))
                labels.append(label)
    _check_classes(root, scan.classes, labels, skipped, least)
    return LoadedImages(np.stack(images), np.array(labels, np.int64), scan.classes, skipped)


def read_image(path: str | Path | bytes, channels: int, size: int | None = None) -> np.ndarray:
    """Read a PNG or JPEG file as uint8 (H, W, channels), upright, whatever mode it is stored in.

    Transparent pixels become white, 16-bit pixels are scaled to 8 bits, CMYK and palettes are converted.

    path: the file, or its content as bytes.
    channels: 3 for color, 1 for grayscale.
    size: crop to the central square and resize to this size; None keeps the original size.

    Raises:
        ImageError: the file cannot be read, is not a PNG or JPEG image, is truncated, or is too large.
        ImportError: Pillow is not installed.
        ValueError: channels is neither 1 nor 3.
    """
    _check_channels(channels)
    package = pillow("reading images")
    with _opened(path if isinstance(path, bytes) else Path(path)) as image:
        try:
            image.load()
            plain = _eight_bit(package, _upright(package, image)).convert("RGB" if channels == 3 else "L")
            if size is not None:
                plain = package.ImageOps.fit(plain, (size, size), package.Image.Resampling.BILINEAR)
            array = np.array(plain)
        except Exception as error:  # whatever Pillow raises for an untrusted file
            raise ImageError(f"is damaged or cut off ({reason(error)})") from error
    return array.reshape(*array.shape[:2], channels)


def read_planes(path: str | Path | bytes, channels: int, size: int, invert: bool = False) -> np.ndarray:
    """Read an image as uint8 (channels, size, size), with dark and bright swapped if ``invert``; see ``read_image``."""
    planes = np.moveaxis(read_image(path, channels, size), -1, 0)
    return 255 - planes if invert else planes


def images_in(folder: Path) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Return the PNG and JPEG files of a folder and its subfolders, and pairs (path, reason) of all other files."""
    skipped: list[tuple[Path, str]] = []
    found = []
    for path in _files(folder, skipped, set()):
        try:
            with _opened(path):
                found.append(path)
        except ImageError as error:
            skipped.append((path, str(error)))
    return found, skipped


@contextmanager
def _opened(path: Path | bytes) -> Iterator[Any]:
    """Open an image and check its size, without reading its pixels."""
    package = pillow("reading images")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(BytesIO(path) if isinstance(path, bytes) else open_untrusted(path, _MAX_BYTES))
            with _quiet():
                image = stack.enter_context(package.Image.open(file, formats=_FORMATS))
        except IsADirectoryError:
            raise ImageError("is a folder") from None
        except OSError as error:
            if isinstance(error, package.UnidentifiedImageError):
                raise ImageError("is not a PNG or JPEG image") from None
            if error.errno is None:  # raised by Pillow, not by the system
                raise ImageError(f"is damaged or cut off ({reason(error)})") from error
            if error.errno == errno.EINVAL:
                raise ImageError("is not a file") from None
            raise ImageError(f"cannot be read ({error.strerror})") from error
        except package.Image.DecompressionBombError as error:
            raise ImageError(f"is too large, more than {_MAX_PIXELS:,} pixels") from error
        except Exception as error:  # whatever Pillow raises for an untrusted file
            raise ImageError(f"is damaged ({reason(error)})") from error
        if image.width * image.height > _MAX_PIXELS:
            raise ImageError(f"is too large: {image.width:,} x {image.height:,} pixels, more than {_MAX_PIXELS:,}")
        yield image


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Pillow's warnings about odd metadata and size. All threads share Python's warning filters."""
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _upright(package: Any, image: Any) -> Any:
    """Rotate an image as its EXIF data says; unchanged if that is damaged."""
    with _quiet(), suppress(Exception):
        return package.ImageOps.exif_transpose(image)
    return image


def _eight_bit(package: Any, image: Any) -> Any:
    """Convert an image to 8 bits per channel, on a white background if it is transparent."""
    if image.mode.startswith("I"):  # 16 bits; Pillow's own conversion would clip, not scale
        return package.Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = package.Image.new("RGBA", image.size, "white")
        return package.Image.alpha_composite(white, image).convert("RGB")
    return image


# ---- Class folders --------------------------------------------------------------------------------------------------


@dataclass
class _Scan:
    classes: tuple[str, ...]
    files: list[tuple[Path, int]]
    skipped: list[tuple[Path, str]]


def _scan(root: Path) -> _Scan:
    """List the files in the class folders of ``root``, in a fixed order, without opening them."""
    try:
        entries = sorted(root.iterdir(), key=_order)
    except FileNotFoundError:
        raise ImageFolderError(f"{display_name(root)}: there is no such folder") from None
    except NotADirectoryError:
        raise ImageFolderError(f"{display_name(root)} is a file, expected a folder with one folder per class") from None
    except OSError as error:
        raise ImageFolderError(f"{display_name(root)} cannot be read: {error.strerror or error}") from error
    visible = [path for path in entries if not path.name.startswith(".")]
    folders = [path for path in visible if path.is_dir()]
    skipped = [(path, "is in no class folder") for path in visible if not path.is_dir()]
    if len(folders) < 2:
        only = f"only {display_name(folders[0].name)!r}" if folders else "none"
        loose = f" (and {len(skipped)} files outside of folders)" if skipped else ""
        raise ImageFolderError(
            f"{display_name(root)} must have at least two class folders, one per class with its images in it; it has "
            f"{only}{loose}"
        )
    names = tuple(display_name(folder.name) for folder in folders)
    first: dict[str, str] = {}
    for name in names:
        key = unicodedata.normalize("NFC", name).casefold()
        if key in first:
            raise ImageFolderError(
                f"{display_name(root)}: the class folders {first[key]!r} and {name!r} have names that differ only in "
                "case or in their Unicode spelling; rename one, or merge them"
            )
        first[key] = name
    files = []
    for label, folder in enumerate(folders):
        files += [(path, label) for path in _files(folder, skipped, {root.resolve()})]
    return _Scan(names, files, skipped)


def _files(folder: Path, skipped: list[tuple[Path, str]], above: set[Path]) -> Iterator[Path]:
    """Yield all files in a folder and its subfolders. A link to a folder that contains the link is skipped."""
    try:
        real = folder.resolve()
        if real in above:
            skipped.append((folder, "is a link to a folder that contains it"))
            return
        entries = sorted(folder.iterdir(), key=_order)
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        skipped.append((folder, f"cannot be read ({getattr(error, 'strerror', None) or error})"))
        return
    if len(above) > _DEEPEST:
        skipped.append((folder, f"is more than {_DEEPEST} folders deep"))
        return
    for path in entries:
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files(path, skipped, {*above, real})
        else:
            yield path


def _order(path: Path) -> bytes:
    return os.fsencode(path.name)


def _check_classes(
    root: Path, classes: Sequence[str], labels: Sequence[int], skipped: list[tuple[Path, str]], least: int
) -> None:
    counts = Counter(labels)
    few = [f"{name!r} ({counts[label]})" for label, name in enumerate(classes) if counts[label] < least]
    if few:
        why = f". Not used: {summarize(skipped)}" if skipped else ""
        some = ", ".join(few[:_NAMED]) + (f" and {len(few) - _NAMED} more" if len(few) > _NAMED else "")
        raise ImageFolderError(
            f"{display_name(root)}: each class needs at least {least} image{'s' if least > 1 else ''} (PNG or JPEG); "
            f"too few in {some}: put images there, or remove the folder{why}"
        )


def _check_channels(channels: int) -> None:
    if channels not in (1, 3):
        raise ValueError(f"channels={channels!r} must be 3 (color) or 1 (grayscale)")


def summarize(skipped: Sequence[tuple[Path, str]]) -> str:
    """Describe the skipped files in one line: counted by reason, with the first ones named."""
    by_reason: dict[str, list[Path]] = {}
    for path, why in skipped:
        by_reason.setdefault(why, []).append(path)
    parts = []
    for why, paths in by_reason.items():
        names = ", ".join(display_name(Path(path.parent.name, path.name)) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        if len(paths) > 1:
            why = why.replace("is ", "are ", 1).replace("a PNG or JPEG image", "PNG or JPEG images")
        parts.append(f"{names}{more} {why}")
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
