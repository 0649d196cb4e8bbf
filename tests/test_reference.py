"""The reference: docstrings as reStructuredText, without a build of the pages."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import FunctionType

import pytest

import retrograd as rg
from docs_extensions import DOCS, extension

docstrings, public_names, reference = (extension(name) for name in ("docstrings", "public_names", "reference"))
formulas = extension("formulas")
built_pages, pictures, results = (extension(name) for name in ("built_pages", "imports_picture", "results"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Return ``x`` and `y`.", ["Return ``x`` and ``y``."]),
        ("take **kwargs, name_ and |x|", [r"take \*\*kwargs, name\_ and \|x\|"]),
        ("so y = x / 2, ``z``", ["so :formula:`y = x / 2`, ``z``"]),
        ("A. Vaswani et al., 2017.", [r"\A. Vaswani et al., 2017."]),
        ("one\ntwo", ["one two"]),
        ("The end.\ny = x + b\nz = y -> x", ["| The end.", "| :formula:`y = x + b`", "| :formula:`z = y` -> x"]),
        ("x: the input,\n    more of it\ny: a number", ["Args:", "    x: the input, more of it", "    y: a number"]),
        ("The sizes:\n\n    y = 2 * x", ["The sizes:", "", "   | :formula:`y = 2 * x`"]),
        ("So:\n\n    y = [a] b c;", ["So:", "", ".. code-block:: text", "   :class: formula", "", "   y = [a] b c;"]),
        (">>> 1 + 1\n2", [".. code-block:: pycon", "", "   >>> 1 + 1", "   2"]),
        ("Raises:\n    TypeError: x\n        is None.", ["Raises:", "    TypeError: x is None."]),
        (
            'x: a word:\n    "same"   all of it\n    "full"   more',
            ["Args:", "    x: a word:", "", '        - ``"same"``: all of it', '        - ``"full"``: more'],
        ),
        ("Source: a book.", ["**Source:** a book."]),
    ],
)
def test_docstrings_become_restructured_text(text: str, lines: list[str]) -> None:
    found = docstrings.restructured(text, {"x", "y"})
    squeezed = [line for before, line in zip(["", *found], found, strict=False) if line or before]
    assert "\n".join(squeezed).strip() == "\n".join(lines)


def test_signatures_show_annotations_as_they_are_written() -> None:
    arguments, result = docstrings.signature_of(rg.softmax)
    assert (arguments, result) == ("(input: Tensor, dim: int, dtype: DTypeLike = None)", "Tensor")
    arguments, _ = docstrings.signature_of(rg.train.fit)
    assert "loss: Callable[..., Tensor] = cross_entropy, " in arguments
    assert docstrings.signature_of(rg.nn.Module.train)[0].startswith("(mode: bool = True")


def test_every_public_name_has_one_entry() -> None:
    """Under one name, on one page; its other names are listed there."""
    described = [name for names in reference.covered().values() for name in names]
    missing = sorted(set(public_names.entries()) - set(described))
    assert not missing, (
        f"no page of docs/reference covers {missing}: name their module in a <!-- reference: ... --> line"
    )
    assert len(described) == len(set(described))
    named = {name for first, others in public_names.entries().items() for name in (first, *others)}
    assert named == set(public_names.public())
    for page in (rg, rg.nn, rg.optim, rg.data, rg.train, rg.rules, rg.lowbit, rg.distributed, rg.testing):
        assert {f"{page.__name__}.{name}" for name in page.__all__ if callable(getattr(page, name))} - named == set()
    assert {"retrograd.optim.Adam", "retrograd.data.DataLoader", "retrograd.train.fit"} <= set(described)


def test_public_functions_and_classes_are_pickled_by_their_names() -> None:
    for name, thing in public_names.public().items():
        if isinstance(thing, (FunctionType, type)):
            assert pickle.loads(pickle.dumps(thing)) is thing, name


def test_a_name_without_an_entry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {**public_names.entries(), "retrograd.planted.thing": []}
    monkeypatch.setattr(public_names, "entries", lambda: entries)
    reference.covered.cache_clear()
    with pytest.raises(AssertionError, match=r"retrograd\.planted\.thing"):
        test_every_public_name_has_one_entry()
    monkeypatch.undo()
    reference.covered.cache_clear()


def test_an_object_is_described_under_its_plainest_name() -> None:
    entries = public_names.entries()
    assert "retrograd.nn.functional.relu" in entries["retrograd.relu"]
    assert entries["retrograd.nn.functional.conv2d"] == ["retrograd.conv2d"]
    assert "retrograd.Tensor.abs_" in entries["retrograd.abs"]
    assert "retrograd.half" in entries["retrograd.float16"]


def test_a_page_gets_the_entries_of_its_modules() -> None:
    text = reference.completed("# Rules\n\n<!-- reference: retrograd.rules -->\n")
    assert ".. autoclass:: retrograd.rules.Clipped\n" in text and "<!--" not in text
    assert ".. autofunction:: retrograd.rules.identity\n" in text
    loss = reference.completed("<!-- reference: retrograd.nn: loss -->")
    assert "retrograd.nn.MSELoss" in loss and "retrograd.nn.Conv2d" not in loss


def test_the_page_of_environment_variables_has_those_of_the_source() -> None:
    sources = Path(rg.__file__).parent.rglob("*.py")
    used = {name for path in sources for name in re.findall(r"RETROGRAD_[A-Z_]+", path.read_text(encoding="utf-8"))}
    page = (DOCS / "reference/environment.md").read_text(encoding="utf-8")
    assert used == set(re.findall(r"^\| `(RETROGRAD_[A-Z_]+)` \|", page, re.MULTILINE)) and len(used) > 4


def test_known_limits_are_the_rows_in_which_another_library_is_better() -> None:
    row = results.Result("group", "fast", 1, "s", 1e-3, {"PyTorch": 2e-3}, "PyTorch", 2.0)
    slow = replace(row, name="slow", theirs={"onnxruntime": 0.5e-3}, best="onnxruntime", ratio=0.5)
    text = results.behind([row, slow, replace(slow, name="elsewhere", level="avx2")])
    assert "\n1 of 2 rows, worst first.\n" in text and "elsewhere" not in text and "fast" not in text
    assert "| group | slow | 1 | 1 ms | 500 µs, onnxruntime | 0.50 |" in text
    measured = results.quoted((DOCS / "reference/known_limits.md").read_text(encoding="utf-8"))
    assert "## Time\n" in measured and "<!--" not in measured


def test_the_picture_of_the_packages_shows_what_they_import() -> None:
    graph = pictures.imports()
    assert {"engine", "nn"} <= set(graph) and "ops" in graph["nn"] and "kernels.compiled" in graph["kernel_set"]
    assert "nn" not in graph["ops"] and "_files" not in pictures.reduced(graph)["cli"]
    layers, arrows = pictures.chains({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert [layer[0] for layer in layers if len(layer) == 1] == ["a", "c"] and ["a", "a>c>1", "c"] in arrows
    text = pictures.svg()
    assert "<title>engine imports kernel_set</title>" in text and text.count("<rect") == len(graph)


def test_packages_that_import_each_other_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="import each other: a -> b -> a"):
        pictures.reduced({"a": {"b"}, "b": {"a"}})


def test_the_modules_do_not_need_sphinx() -> None:
    """Tests use them where Sphinx is not installed."""
    program = "import sys; sys.modules['sphinx'] = None; from docs_extensions import extension; extension('pages')"
    folder = Path(__file__).parent
    assert subprocess.run([sys.executable, "-c", program], cwd=folder, check=False).returncode == 0


def test_links_that_lead_nowhere_and_files_of_other_machines_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#here">b</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="#here"></a><img src="a.html">')
    assert built_pages.faults(tmp_path) == []
    (tmp_path / "b.html").write_text('<a href="c.html"></a><script src="https://x.org/x.js"></script>')
    (tmp_path / "x.css").write_text("@import '//x.org/x.css';")
    assert built_pages.faults(tmp_path) == [
        "a.html: b.html#here leads to no anchor",
        "b.html: c.html leads to no file",
        "b.html loads https://x.org/x.js",
        "x.css loads //x.org/x.css",
    ]
    assert built_pages.unlisted({*public_names.public()} - {"retrograd.optim.Adam"}) == ["retrograd.optim.Adam"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y = x / (1 + |x|)", "<mi>y</mi><mo>=</mo><mfrac><mi>x</mi><mrow>"),
        (
            "g y / x**2",
            "<mfrac><mrow><mi>g</mi><mspace width='0.17em'/><mi>y</mi></mrow><msup><mi>x</mi><mn>2</mn></msup>",
        ),
        ("sqrt(v) * W_ih", "<msqrt><mi>v</mi></msqrt><mo>⋅</mo><msub><mi>W</mi><mi>ih</mi></msub>"),
    ],
)
def test_formulas_become_mathml(text: str, found: str) -> None:
    assert found in formulas.mathml(text)


def test_what_is_no_formula_is_left_alone() -> None:
    assert formulas.mathml("x (N, C") is None and formulas.mathml("a b.") is None
    text = "y = x where x > 0, log-probabilities, low - high and a number (see f(x)); lr=0.1 exp(x)"
    assert [text[start:end] for start, end in formulas.spans(text)] == ["y = x", "x > 0", "exp(x)"]
    assert formulas.clauses("g y / x, 0 elsewhere") == ["g y / x", ", ", "0", " elsewhere", ""]
    assert formulas.clauses("g, shared among the elements") is None


def test_the_table_of_gradients_has_links_and_formulas() -> None:
    text = extension("gradient_table").typeset()
    (row,) = re.findall(r"^\| {py:obj}`softmax <retrograd.softmax>` \| Softmax, .*$", text, re.MULTILINE)
    assert "| x: <math><mrow><mi>y</mi>" in row and text.count("{py:obj}") > 300
