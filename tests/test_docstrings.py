"""Public functions and classes have docstrings that match their parameters and errors."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retrograd

MODULES = (
    "retrograd",
    "retrograd.autograd",
    "retrograd.autograd.functional",
    "retrograd.data",
    "retrograd.data.transforms",
    "retrograd.distributed",
    "retrograd.distributed.algorithms.ddp_comm_hooks",
    "retrograd.distributed.checkpoint",
    "retrograd.distributed.optim",
    "retrograd.distributions",
    "retrograd.fft",
    "retrograd.specs.geometry",
    "retrograd.interop",
    "retrograd.interop.sklearn",
    "retrograd.linalg",
    "retrograd.nn",
    "retrograd.nn.functional",
    "retrograd.nn.init",
    "retrograd.nn.utils",
    "retrograd.nn.utils.parametrizations",
    "retrograd.nn.utils.parametrize",
    "retrograd.nn.utils.prune",
    "retrograd.nn.utils.rnn",
    "retrograd.onnx.vectors",
    "retrograd.ops",
    "retrograd.optim",
    "retrograd.rules",
    "retrograd.signal.windows",
    "retrograd.special",
    "retrograd.testing",
    "retrograd.kernels.textbook.algorithms",
    "retrograd.utils.checkpoint",
    "retrograd.utils.data",
)

# "name: meaning", in an "Args:" section or at the start of a line
_ENTRY = re.compile(r"^( *)([a-z_]\w*(?:, [a-z_]\w*)*): \S")


def _public() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            thing = getattr(module, name)
            ours = getattr(thing, "__module__", "").startswith("retrograd")
            if ours and id(thing) not in seen and (inspect.isfunction(thing) or inspect.isclass(thing)):
                seen.add(id(thing))
                yield f"{thing.__module__}.{thing.__qualname__}", thing


PUBLIC: dict[str, dict[str, Any]] = {}  # by file
for _name, _thing in _public():
    PUBLIC.setdefault(_thing.__module__, {})[_name] = _thing


@pytest.mark.parametrize("file", PUBLIC)
def test_docstrings(file: str) -> None:
    for name, thing in PUBLIC[file].items():
        text = inspect.getdoc(thing) if inspect.isfunction(thing) else thing.__doc__
        assert text and text.strip(), f"{name} has no docstring"


@pytest.mark.parametrize("file", PUBLIC)
def test_listed_parameters_exist(file: str) -> None:
    for name, thing in PUBLIC[file].items():
        listed = set(_listed(inspect.cleandoc(thing.__doc__ or "")))
        wrong = sorted(listed - (known := _parameters(thing)))
        assert not wrong, f"{name}: the docstring lists {wrong}, the parameters are {sorted(known)}"


def _listed(text: str) -> Iterator[str]:
    """Yield the names that a docstring explains as "name: meaning"; in "Args:" only at the lowest indentation."""
    heading, indent = "", 0
    for line in text.splitlines():
        if line.endswith(":") and line[:-1].istitle() and not line.startswith(" "):
            heading, indent = line[:-1], -1
        elif line and not line.startswith(" "):
            heading, indent = "", 0
        match = _ENTRY.match(line)
        if match and heading in ("", "Args"):
            indent = len(match[1]) if indent < 0 else indent
            if len(match[1]) == indent:
                yield from match[2].split(", ")


def _parameters(thing: Any) -> set[str]:
    own = not (inspect.isclass(thing) and issubclass(thing, Exception))  # an exception takes what Exception takes
    names = set(inspect.signature(thing).parameters if own else ())
    return (
        names
        | set(getattr(thing, "__dataclass_fields__", ()))
        | {name for name in vars(thing) if inspect.isclass(thing)}
    )


def test_every_module_can_be_imported() -> None:
    for module in pkgutil.walk_packages(retrograd.__path__, "retrograd."):
        if not module.name.startswith("retrograd.interop.torch"):  # these need PyTorch and are imported in tests/peers
            importlib.import_module(module.name)


ROOT = Path(retrograd.__path__[0])
WITH_EXAMPLES = sorted(path.relative_to(ROOT.parent) for path in ROOT.rglob("*.py") if ">>>" in path.read_text("utf-8"))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples(path: Path) -> None:
    """Every interactive example in a docstring produces the output shown."""
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    for test in doctest.DocTestFinder().find(importlib.import_module(name)):
        runner.run(test, out=report.append)
    assert runner.tries and runner.failures == 0, "".join(report)


@pytest.mark.parametrize("file", PUBLIC)
def test_errors_raised_are_listed(file: str) -> None:
    """A function whose body raises lists the error types under "Raises:"."""
    for name, thing in PUBLIC[file].items():
        if inspect.isfunction(thing):
            thing = inspect.unwrap(thing)
            section = inspect.cleandoc(thing.__doc__ or "").partition("Raises:")[2]
            missing = sorted(error for error in _raised(thing) if not re.search(rf"\b{error}\b", section))
            assert not missing, f'{name} raises {missing}, which its docstring does not say under "Raises:"'


def _raised(function: Any) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc.func for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)}
