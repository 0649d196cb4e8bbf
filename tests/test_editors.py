"""Operators in editors: completions and definitions from Jedi and from Pyright's language server."""

from __future__ import annotations

import ast
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retrograd
from retrograd.ops.methods import METHODS

SOURCE = Path(retrograd.__file__).parents[1]
PROGRAM = """\
import retrograd as rg
from retrograd.nn import functional as F

F.conv2d
F.relu
F.cross_entropy
rg.exp
rg.Tensor.sigmoid
F.max_pool2d
rg.nn.Linear
rg.zeros(2).sigmoid
rg.zeros(2).sum()
F.conv2d(
"""
# (line, column) in the program -> the file that defines it, the line there, words of the signature and of the docstring
DEFINED = {
    (3, 4): ("nn/functional/convolution.py", "def conv2d(", "weight: Tensor", "Convolution over two axes"),
    (4, 4): ("ops/pointwise/piecewise.py", "def relu(", "inplace: bool", "max(input, 0)"),
    (5, 4): ("ops/loss/classification.py", "def cross_entropy(", "label_smoothing: float", "The cross-entropy"),
    (6, 4): ("ops/pointwise/exponential.py", "def exp(", "input: Tensor", "e**input"),
    (8, 4): ("nn/functional/pooling.py", "def max_pool2d(", "kernel_size: Extent", "The largest element"),
}
# (line, column) in the program, behind a dot -> the names that an editor lists there
LISTED = {
    (9, 6): {name for name in retrograd.nn.__all__ if not name.startswith("_")},
    (10, 12): {name for name in METHODS if not name.startswith("_")} | {"shape", "grad", "numpy", "item", "detach"},
}


def _line(file: str, number: int) -> str:
    return (SOURCE / "retrograd" / file).read_text(encoding="utf-8").splitlines()[number]


@pytest.mark.parametrize("place", DEFINED)
def test_jedi(place: tuple[int, int], tmp_path: Path) -> None:
    jedi = pytest.importorskip("jedi", reason="the extra 'lint' is not installed")
    project = jedi.Project(tmp_path, added_sys_path=[str(SOURCE)])
    script = jedi.Script(PROGRAM, path=tmp_path / "program.py", project=project)
    file, text, signature, documentation = DEFINED[place]
    (found,) = script.goto(place[0] + 1, place[1], follow_imports=True)
    assert found.module_path == SOURCE / "retrograd" / file and _line(file, found.line - 1).startswith(text)
    assert signature in found.get_signatures()[0].to_string() and documentation in found.docstring()


@pytest.mark.parametrize("place", LISTED)
def test_jedi_lists(place: tuple[int, int], tmp_path: Path) -> None:
    jedi = pytest.importorskip("jedi", reason="the extra 'lint' is not installed")
    project = jedi.Project(tmp_path, added_sys_path=[str(SOURCE)])
    found = jedi.Script(PROGRAM, path=tmp_path / "program.py", project=project).complete(place[0] + 1, place[1])
    assert not LISTED[place] - {each.name for each in found}


class Server:
    """Pyright's language server with one open file."""

    def __init__(self, folder: Path) -> None:
        command = shutil.which("basedpyright-langserver", path=str(Path(sys.executable).parent))
        if command is None:
            pytest.skip("the extra 'lint' is not installed")
        (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE)]}))
        self.uri = (folder / "program.py").as_uri()
        self.process = subprocess.Popen([command, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._count = 0
        self.ask(
            "initialize",
            processId=None,
            rootUri=folder.as_uri(),
            capabilities={},
            workspaceFolders=[{"uri": folder.as_uri(), "name": "folder"}],
        )
        self._send("initialized", {})
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": PROGRAM}
        self._send("textDocument/didOpen", {"textDocument": document})

    def ask(self, method: str, **given: Any) -> Any:
        """Send a request and return its result."""
        self._count += 1
        self._send(method, given, self._count)
        while True:
            message = self._receive()
            if "method" in message and "id" in message:  # the server asks for settings; there are none
                items = message.get("params", {}).get("items", [])
                self._write({"id": message["id"], "result": [None] * len(items)})
            elif message.get("id") == self._count:
                assert "error" not in message, message
                return message["result"]

    def at(self, method: str, place: tuple[int, int]) -> Any:
        """Return the result of a request for a position in the file."""
        position = {"line": place[0], "character": place[1]}
        return self.ask(f"textDocument/{method}", textDocument={"uri": self.uri}, position=position)

    def _send(self, method: str, given: Any, number: int | None = None) -> None:
        self._write({"method": method, "params": given} | ({} if number is None else {"id": number}))

    def _write(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _receive(self) -> Any:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(length))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("editor"))
    with started.process:  # closes its pipes at the end
        yield started
        started.process.kill()


@pytest.mark.parametrize("place", DEFINED)
def test_pyright(server: Server, place: tuple[int, int]) -> None:
    file, text, signature, documentation = DEFINED[place]
    (found,) = server.at("definition", place)
    assert found["uri"] == (SOURCE / "retrograd" / file).as_uri()
    assert _line(file, found["range"]["start"]["line"]).startswith(text)
    shown = server.at("hover", place)["contents"]["value"]
    assert signature in shown and documentation in shown


@pytest.mark.parametrize("place", LISTED)
def test_pyright_lists(server: Server, place: tuple[int, int]) -> None:
    found = server.at("completion", place)
    assert not LISTED[place] - {each["label"] for each in found["items"]}


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ((11, 16), ("dim: Dim", "keepdim: bool", "dtype: DTypeLike", "-> Tensor")),
        ((12, 9), ("input: Tensor", "padding_mode: str", "-> Tensor")),
    ],
)
def test_pyright_shows_the_signature_of_a_call(server: Server, place: tuple[int, int], parts: tuple[str, ...]) -> None:
    shown = server.at("signatureHelp", place)["signatures"][0]["label"]
    assert all(part in shown for part in parts) and "Any" not in shown and "unknown" not in shown


def test_checkers_see_every_name_of_the_installed_package() -> None:
    """There, names that ``import *`` or ``x as x`` brings are public, unless Pyright reads an ``__all__``."""
    tree = ast.parse((SOURCE / "retrograd" / "__init__.py").read_text(encoding="utf-8"))
    lines = [
        each
        for part in tree.body
        for each in (part.body if ast.unparse(part).startswith("if TYPE_CHECKING") else [part])
    ]
    imports = [line for line in lines if isinstance(line, ast.ImportFrom)]
    public = {name.name for line in imports for name in line.names if name.name == name.asname}
    for line in imports:
        if line.names[0].name == "*":
            public |= {*importlib.import_module(f".{line.module}", "retrograd").__all__}
    assigned = {ast.unparse(target) for line in lines if isinstance(line, ast.Assign) for target in line.targets}
    assert "__all__" not in assigned and {*retrograd.__all__} <= public | assigned


def test_one_step_from_an_operator_to_its_passes() -> None:
    """The decorator above ``def conv2d`` names the Function, which defines forward and backward together."""
    operator = retrograd.nn.functional.conv2d.operator
    (function,) = operator.functions
    text = Path(sys.modules[operator.function.__module__].__file__ or "").read_text(encoding="utf-8")
    above = text.partition("\ndef conv2d(")[0].splitlines()[-1]
    assert above.startswith(f"@operator(records={function.__name__}") and {"forward", "backward"} <= {*vars(function)}
