"""Series of numbers: a column of a CSV file, and the sunspots that come with the package."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from .utf8 import read_utf8

__all__ = ["Series", "SeriesError", "load_sunspots", "read_series"]

_SHA256 = "04deaa1d47af0c4f22669c42a1cdafb882853200509f150fde69ea3a63901da5"
_DELIMITERS = ",;\t"
_LONGEST_LABEL = 40


class SeriesError(ValueError):
    """A file holds no series that can be used; the message says why, with the line."""


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers at equal distances in time.

    values: float64 (N,), all finite.
    labels: what stands in the first column beside each value, such as its date; () where the values are that column.
    name: of the column.
    """

    values: np.ndarray
    labels: tuple[str, ...]
    name: str

    def label(self, index: int) -> str:
        """What the value at this position is called: its label, else its number, counted from 1."""
        return self.labels[index] if self.labels else f"{index + 1:,}"


def load_sunspots() -> Series:
    """The monthly mean sunspot numbers of Zurich, 1749 to 1980: 2,784 values (files/ATTRIBUTION.txt says whose).

    Raises:
        RuntimeError: the data file of the package is missing or damaged.

    >>> sunspots = load_sunspots()
    >>> sunspots.labels[0], float(sunspots.values[0]), len(sunspots.values)
    ('1749-01', 58.0, 2784)
    """
    file = resources.files(__package__) / "files" / "sunspots.csv.gz"
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise RuntimeError(
            f"sunspots: the data file {file} cannot be read ({error}); install retrograd again"
        ) from None
    found = hashlib.sha256(packed).hexdigest()
    if found != _SHA256:
        raise RuntimeError(
            f"sunspots: the data file {file} is damaged: its SHA-256 is {found}, expected {_SHA256}; "
            "install retrograd again"
        )
    return _parsed(gzip.decompress(packed).decode("ascii"), "sunspots", "sunspots.csv")


def read_series(path: str | Path, column: str) -> Series:
    """The column of this name in a CSV file whose first line names the columns.

    path: UTF-8 text; columns are separated by commas, semicolons or tabs, whichever the first line has most of.
    column: its name, as in the first line.

    Raises:
        SeriesError: the file cannot be read or is no text; there is no such column, or two; there is no value, or one
            is missing, no number or not finite; says in which line.
    """
    path = Path(path)
    text = read_utf8(path, SeriesError)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SeriesError(f"{path}, line {line}: there is a NUL character, so this is no CSV file")
    return _parsed(text, column, str(path))


def _parsed(text: str, column: str, name: str) -> Series:
    lines = _lines(text, name)
    number, header = next(lines, (1, []))
    header = [title.strip() for title in header]
    if not any(header):
        raise SeriesError(f"{name}: the file is empty; its first line must name the columns")
    if header.count(column) != 1:
        what = f"no column {column!r}" if column not in header else f"more than one column {column!r}"
        raise SeriesError(f"{name}, line {number}: there is {what}; the columns are {_listed(header)}")
    place = header.index(column)
    values: list[float] = []
    labels: list[str] = []
    for number, cells in lines:
        if len(cells) != len(header):
            raise SeriesError(
                f"{name}, line {number}: it has {len(cells)} columns, the first line has {len(header)}"
            )
        values.append(_value(cells[place].strip(), f"{name}, line {number}: column {column!r}"))
        labels.append(cells[0].strip()[:_LONGEST_LABEL])
    if not values:
        raise SeriesError(f"{name}: there is no line behind the first one, which names the columns")
    return Series(np.array(values, np.float64), tuple(labels) if place else (), column)


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the line, cells) of every line up to the last one that is not empty."""
    first = text.partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text.rstrip(), newline=""), delimiter=max(_DELIMITERS, key=first.count), strict=True
    )
    try:
        for cells in reader:
            yield reader.line_num, cells or [""]
    except csv.Error as error:
        raise SeriesError(f"{name}, line {reader.line_num}: this is no line of a CSV file: {error}") from None


def _listed(titles: list[str]) -> str:
    return ", ".join(repr(title[:_LONGEST_LABEL]) for title in titles[:20]) + " ..." * (len(titles) > 20)


def _value(cell: str, where: str) -> float:
    if not cell:
        raise SeriesError(f"{where} is empty; a series has no gaps: fill it in, or begin the file after it")
    try:
        value = float(cell.replace("_", "no"))  # Python reads 1_000 as a number, nobody else does
    except ValueError:
        remedy = "; decimals stand behind a point" if "," in cell else ""
        raise SeriesError(f"{where} holds {cell[:_LONGEST_LABEL]!r}, which is no number{remedy}") from None
    if not math.isfinite(value):
        raise SeriesError(f"{where} holds {cell[:_LONGEST_LABEL]!r}; values must be finite")
    return value
