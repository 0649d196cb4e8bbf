"""Series from CSV files, and the sunspots in the package."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from retrograd.data import series
from retrograd.data.series import Series, SeriesError, following, load_sunspots, read_series, uneven_steps


def test_the_sunspots() -> None:
    sunspots = load_sunspots()
    assert (sunspots.values.shape, sunspots.values.dtype, sunspots.name) == ((2784,), np.float64, "sunspots")
    assert sunspots.labels[0] == "1749-01" and sunspots.labels[-1] == "1980-12" and len(set(sunspots.labels)) == 2784
    assert sunspots.values.min() == 0 and sunspots.values.max() == 253.8
    assert sunspots.values[sunspots.labels.index("1957-10")] == 253.8  # the highest month of the highest cycle
    assert 50 < sunspots.values.mean() < 51


def test_a_damaged_data_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "_SHA256", "0" * 64)
    with pytest.raises(RuntimeError, match=r"sunspots: the data file .*sunspots.csv.gz is damaged: its SHA-256 is"):
        load_sunspots()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_reads_a_column(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "file.csv"
    rows = [["when", " high ", "low"], ['"May 1st"', "1.5", "-2"], ["June", " 1e2", "3"], ["July", "7", "0"]]
    path.write_text("\ufeff" + "\r\n".join(separator.join(row) for row in rows) + "\r\n\r\n", encoding="utf-8")
    found = read_series(path, "high")
    assert found.values.tolist() == [1.5, 100, 7] and found.labels == ("May 1st", "June", "July")
    assert found.label(1) == "June" and found.name == "high"
    assert read_series(path, "low").values.tolist() == [-2, 3, 0]


def test_the_first_column_has_no_labels_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("value\n1\n2\n")
    found = read_series(path, "value")
    assert found.values.tolist() == [1, 2] and found.labels == () and found.label(1) == "2"


def test_dates_at_unequal_steps_are_named() -> None:
    def said(*labels: str) -> str:
        return uneven_steps(Series(np.zeros(len(labels)), labels, "x"))

    assert said("2020-01", "2020-02", "2020-03", "2020-04") == "" == said("a", "b", "d") == said()
    assert "2020-01-05 follows 2020-01-02; the net" in said("2020-01-01", "2020-01-02", "2020-01-05", "2020-01-06")
    twice = said("2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 02:00", "2020-01-01 03:00", "2020-01-01 09:00")
    assert "02:00 follows 2020-01-01 02:00, and so in 1 more places" in twice


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; its first line must name the columns"),
        (b"\n1\n", "the file is empty"),
        (b"a,b\n1,2\n", "line 1: there is no column 'x'; the columns are 'a', 'b'"),
        (b"x,b,x\n1,2,3\n", "line 1: there is more than one column 'x'"),
        (b"x\n1\n\n3\n", "line 3: column 'x' is empty; a series must not have gaps"),
        (b"a,x\n1,2\n2,\n3,4\n", "line 3: column 'x' is empty"),
        (b"a,x\n1,2\n\n3,4\n", "line 3: it has 1 columns, the first line has 2"),
        (b"a,x\n1,2\n2,3,4\n", "line 3: it has 3 columns, the first line has 2"),
        (b"a,x\n1,2\n2,n.a.\n", "line 3: column 'x' contains 'n.a.', which is not a number"),
        (b"2020-01-01,1\n2020-01-02,2\n", "'1'; these look like values, but the first line must name the columns"),
        (b"t,x\n2020-01-02,1\n2020-01-01,2\n", "begins with 2020-01-02 and ends with 2020-01-01; put the oldest val"),
        (b'a,x\n1,"1,002.5"\n', "contains '1,002.5', which is not a number; leave out the commas"),
        (b"a;x\n1;2,5\n", "line 2: column 'x' contains '2,5', which is not a number; use a decimal point"),
        (b"a,x\n\n", "there is no line after the first one, which names the columns"),
        (b"x\n1_000\n", "line 2: column 'x' contains '1_000', which is not a number"),
        (b"x\n1\nnan\n", "line 3: column 'x' contains 'nan'; values must be finite"),
        (b"x\n1\n1e999\n", "line 3: column 'x' contains '1e999'; values must be finite"),
        (b"x\n1\n\xff\n", "line 3: this is not UTF-8 text"),
        (b"x\n1\n2\0\n", "line 3: there is a NUL character"),
        (b'x\n1\n"2\n', "line 3: this is not a line of a CSV file"),
    ],
)
def test_what_is_no_series_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(SeriesError, match=re.escape(message)) as caught:
        read_series(path, "x")
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SeriesError, match=r"none.csv cannot be read: No such file"):
        read_series(tmp_path / "none.csv", "x")
    with pytest.raises(SeriesError, match="cannot be read: Is a directory"):
        read_series(tmp_path, "x")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("1980-10", "1980-11", "1980-12"), ("1981-01", "1981-02")),
        (("2024-01-31", "2024-02-01", "2024-02-02"), ("2024-02-03", "2024-02-04")),
        (("2024-01-15", "2024-04-15", "2024-07-15"), ("2024-10-15", "2025-01-15")),
        (("2024-02-28 22:00", "2024-02-28 23:00", "2024-02-29 00:00"), ("2024-02-29 01:00", "2024-02-29 02:00")),
        (("28.12.2024", "29.12.2024", "30.12.2024"), ("31.12.2024", "01.01.2025")),
        (("1990", "2000", "2010"), ("2020", "2030")),
        (("199710", "199711", "199712"), ("199801", "199802")),
        (("20240227", "20240228", "20240229"), ("20240301", "20240302")),
        (("20240131", "20240229", "20240331"), ()),  # month ends, not numbers
        (("007", "008", "009"), ("010", "011")),
        (("8", "9", "10"), ("11", "12")),
        (("100010", "100011", "100012"), ("100013", "100014")),  # years before 1600 are rather numbers
        (("01/02/2024", "02/02/2024", "03/02/2024"), ("04/02/2024", "05/02/2024")),  # same in both readings
        (("10/02/2024", "11/02/2024", "12/02/2024"), ()),  # daily, then 13/02; monthly, then 01/02/2025
        (("12/29/2024", "12/30/2024", "12/31/2024"), ("01/01/2025", "01/02/2025")),
        (("2024-01-05", "2024-01-08", "2024-01-09"), ()),  # working days
        (("2024-01-31", "2024-02-29", "2024-03-31"), ()),
        (("a", "b", "c"), ()),
        (("1", "1", "1"), ()),
        (("1", "2"), ()),
        ((), ()),
    ],
)
def test_labels_go_on(labels: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert following(labels, 2) == expected
