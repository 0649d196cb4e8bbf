"""Time series: a column of a CSV file, and the bundled sunspot numbers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from .._files.untrusted import as_path
from .data_files import bundled, read_utf8

__all__ = ["Series", "SeriesError", "following", "load_sunspots", "read_series"]

_SHA256 = "04deaa1d47af0c4f22669c42a1cdafb882853200509f150fde69ea3a63901da5"
_DELIMITERS = ",;\t"
_LONGEST_LABEL = 40
_DATES = (
    "%Y-%m-%d", "%Y-%m", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d",
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y",
)  # fmt: skip
_COMPACT, _YEARS = ("%Y%m%d", "%Y%m"), range(1600, 2200)  # other digits are rather numbers


class SeriesError(ValueError):
    """A file does not contain a usable series; the message says why and names the line."""


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers at equal time intervals.

    values: float64 (N,), all finite.
    labels: the first column's entry for each value, such as its date; () if the values are in the first column.
    name: the name of the column.
    """

    values: np.ndarray
    labels: tuple[str, ...]
    name: str

    def label(self, index: int) -> str:
        """Return the label of the value at this position, or its number, counted from 1, if there are no labels."""
        return self.labels[index] if self.labels else f"{index + 1:,}"


def load_sunspots() -> Series:
    """Load the monthly mean sunspot numbers of Zurich, 1749 to 1980: 2,784 values (see files/ATTRIBUTION.txt).

    Raises:
        RuntimeError: the bundled data file is missing or damaged.

    >>> sunspots = load_sunspots()
    >>> sunspots.labels[0], float(sunspots.values[0]), len(sunspots.values)
    ('1749-01', 58.0, 2784)
    """
    return _parsed(bundled("sunspots", _SHA256), "sunspots", "sunspots.csv")


def read_series(path: str | Path, column: str) -> Series:
    """Read a column of a CSV file whose first line names the columns.

    path: UTF-8 text; columns are separated by commas, semicolons or tabs, whichever is most frequent in the first line.
    column: the column's name in the first line.

    Raises:
        SeriesError: the file cannot be read or is not text; there is no such column, or several; there are no values;
            a value is missing, not a number or not finite; or the dates in the first column begin with the newest. The
            message names the line.
    """
    path = as_path("read_series", "path", path)
    return _parsed(_text(path), column, str(path))


def columns_of(path: Path) -> str:
    """List the columns of a CSV file, for a message.

    Raises:
        SeriesError: the file cannot be read, is not text, or is empty.
    """
    _, header = _header(_lines(_text(path), str(path)), str(path))
    return _listed(header)


def _text(path: Path) -> str:
    text = read_utf8(path, SeriesError)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SeriesError(f"{path}, line {line}: there is a NUL character, so this is not a CSV file")
    return text


def _header(lines: Iterator[tuple[int, list[str]]], name: str) -> tuple[int, list[str]]:
    """Return the number of the first line, and the names of the columns in it."""
    number, header = next(lines, (1, []))
    header = [title.strip() for title in header]
    if not any(header):
        raise SeriesError(f"{name}: the file is empty; its first line must name the columns")
    return number, header


def _parsed(text: str, column: str, name: str) -> Series:
    lines = _lines(text, name)
    number, header = _header(lines, name)
    if header.count(column) != 1:
        fault = f"no column {column!r}" if column not in header else f"more than one column {column!r}"
        hint = (
            "; these look like values, but the first line must name the columns" if any(map(_is_number, header)) else ""
        )
        raise SeriesError(f"{name}, line {number}: there is {fault}; the columns are {_listed(header)}{hint}")
    place = header.index(column)
    values: list[float] = []
    labels: list[str] = []
    for number, cells in lines:
        if len(cells) != len(header):
            raise SeriesError(f"{name}, line {number}: it has {len(cells)} columns, the first line has {len(header)}")
        values.append(_value(cells[place].strip(), f"{name}, line {number}: column {column!r}"))
        labels.append(cells[0].strip()[:_LONGEST_LABEL])
    if not values:
        raise SeriesError(f"{name}: there is no line after the first one, which names the columns")
    ends = _dates([labels[0], labels[-1]]) if place else []
    if ends and ends[0] > ends[1]:
        raise SeriesError(f"{name}: it begins with {labels[0]} and ends with {labels[-1]}; put the oldest value first")
    return Series(np.array(values, np.float64), tuple(labels) if place else (), column)


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) for every line up to the last one that is not empty."""
    first = text.partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text.rstrip(), newline=""), delimiter=max(_DELIMITERS, key=first.count), strict=True
    )
    try:
        for cells in reader:
            yield reader.line_num, cells or [""]
    except csv.Error as error:
        raise SeriesError(f"{name}, line {reader.line_num}: this is not a line of a CSV file: {error}") from None


def _listed(titles: list[str]) -> str:
    return ", ".join(repr(title[:_LONGEST_LABEL]) for title in titles[:20]) + " ..." * (len(titles) > 20)


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        float(cell)
        return True
    return False


def _value(cell: str, where: str) -> float:
    if not cell:
        raise SeriesError(f"{where} is empty; a series must not have gaps: fill it in, or start the file after it")
    try:
        value = float(cell.replace("_", "no"))  # Python reads 1_000 as a number; CSV does not
    except ValueError:
        remedy = (
            "; leave out the commas" if "," in cell and "." in cell else "; use a decimal point" if "," in cell else ""
        )
        raise SeriesError(f"{where} contains {cell[:_LONGEST_LABEL]!r}, which is not a number{remedy}") from None
    if not math.isfinite(value):
        raise SeriesError(f"{where} contains {cell[:_LONGEST_LABEL]!r}; values must be finite")
    return value


def uneven_steps(series: Series) -> str:
    """Describe where the dates of a series are not at equal steps; empty if they are, or if the labels are no dates.

    Steps may differ by half, as those of months do.
    """
    dates = _dates(series.labels)
    steps = np.diff(np.array(dates, "datetime64[s]")).astype(np.int64)
    usual = np.median(steps) if len(steps) else 0
    places = np.flatnonzero(np.abs(steps - usual) > usual / 2)
    if not len(places):
        return ""
    first = places[0]
    more = f", and so in {len(places) - 1:,} more places" if len(places) > 1 else ""
    return (
        f"the dates are not at equal steps: {series.labels[first + 1]} follows {series.labels[first]}{more}; the "
        "network takes all steps as equal, so fill the gaps in, or start the file after them"
    )


def _dates(labels: Sequence[str]) -> list[datetime]:
    """Return labels as dates; none if they are not dates, or if day and month could be confused."""
    for form in _DATES[:-2]:
        with suppress(ValueError):
            return [datetime.strptime(label, form) for label in labels]
    return []


# ---- Labels after the end of a series -------------------------------------------------------------------------------


def following(labels: Sequence[str], count: int) -> tuple[str, ...]:
    """Continue labels at equal steps: whole numbers, or dates; () if they are neither, or the steps differ.

    labels: the last labels of a series, at least three. Digits alone, such as 198012 or 19801231, are dates if all of
        them are days or months of the years 1600 to 2199. With slashes, either the day or the month may come first;
        the result is () if both are possible and differ.

    >>> following(["1980-10", "1980-11", "1980-12"], 2)
    ('1981-01', '1981-02')
    """
    if len(labels) < 3:
        return ()
    digits = all(label.isdecimal() and label.isascii() for label in labels)
    read = {form: dates for form in (_COMPACT if digits else _DATES) if (dates := _exactly(labels, form))}
    if digits and not any(all(date.year in _YEARS for date in dates) for dates in read.values()):
        return _numbers_after(labels, count)
    found = set()
    for form, dates in read.items():
        with suppress(ValueError, OverflowError):
            found.add(tuple(date.strftime(form) for date in _dates_after(dates, count)))
    return found.pop() if len(found) == 1 else ()


def _exactly(labels: Sequence[str], form: str) -> list[datetime]:
    """Return labels as dates; none unless every label is written in exactly this form."""
    with suppress(ValueError):
        dates = [datetime.strptime(label, form) for label in labels]
        if [date.strftime(form) for date in dates] == list(labels):
            return dates
    return []


def _numbers_after(labels: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the numbers after these, with as many leading zeros; () if the steps differ."""
    width = len(labels[-1]) if any(label[0] == "0" and len(label) > 1 for label in labels) else 0
    numbers = [int(label) for label in labels]
    step = _equal([b - a for a, b in zip(numbers, numbers[1:], strict=False)])
    if step is None:
        return ()
    return tuple(str(numbers[-1] + step * (place + 1)).zfill(width) for place in range(count))


def _equal(steps: list[Any]) -> Any:
    """Return the step if all are the same; otherwise, or if it is zero, None."""
    return steps[0] if steps[0] and all(step == steps[0] for step in steps) else None


def _dates_after(dates: list[datetime], count: int) -> list[datetime]:
    """Return the dates after these, at the same step: a number of months, or a length of time.

    Raises:
        ValueError: the steps differ, or a month lacks the day.
    """
    last = dates[-1]
    months = [12 * date.year + date.month - 1 for date in dates]
    step = _equal([b - a for a, b in zip(months, months[1:], strict=False)])
    if step is not None and all(date.replace(year=last.year, month=last.month) == last for date in dates):
        ends = [months[-1] + step * (place + 1) for place in range(count)]
        return [last.replace(year=end // 12, month=end % 12 + 1) for end in ends]
    length = _equal([b - a for a, b in zip(dates, dates[1:], strict=False)])
    if length is None:
        raise ValueError("the steps differ")
    return [last + length * (place + 1) for place in range(count)]
