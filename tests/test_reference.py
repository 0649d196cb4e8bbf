"""The reference: docstrings as reStructuredText, without a build of the pages."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

import retrograd as rg

EXTENSIONS = Path(__file__).resolve().parents[1] / "docs/_ext"


def extension(name: str) -> ModuleType:
    before = sys.path.copy()
    sys.path[:0] = [str(EXTENSIONS)]  # like conf.py
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = before


docstrings = extension("docstrings")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Return ``x`` and `y`.", ["Return ``x`` and ``y``."]),
        ("a * b of **kwargs, name_ and |x|", [r"a \* b of \*\*kwargs, name\_ and \|x\|"]),
        ("A. Vaswani et al., 2017.", [r"\A. Vaswani et al., 2017."]),
        ("one\ntwo", ["one two"]),
        ("The end.\ny = x + b\nz = y -> x", ["| The end.", "| y = x + b", "| z = y -> x"]),
        ("x: the input,\n    more of it\ny: a number", ["Args:", "    x: the input, more of it", "    y: a number"]),
        (
            "The sizes:\n\n    y = 2 * x",
            ["The sizes:", "", ".. code-block:: text", "   :class: formula", "", "   y = 2 * x"],
        ),
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
