"""The import rules between packages: the imports of every file are parsed and compared with the table below.

Imports go in one direction. The command line, train, explanation and interop import nn, optim and data. These import
ops, and ops imports the engine. Both use the kernel sets through kernel_set only. Every package may import specs.
kernels/compiled and kernels/textbook never import each other.

The files of the engine also import each other in one direction, including imports inside functions. Methods of Tensor
that need later files are attached by engine/methods.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from retrograd.engine.methods import METHODS

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "src" / "retrograd"

_LAYERS = {"nn", "optim", "data"}
_OPERATORS = {"ops", "engine", "kernel_set", "arrays", "specs"}
_PATHS = {"torch_api.imports", "torch_api.missing"}
_TOOLS = {"train", "explanation", "interop"}

# package -> the other packages that its files may import, and the third-party packages
PACKAGES: dict[str, tuple[set[str], set[str]]] = {
    "specs": (set(), {"numpy"}),  # parameters of operations other than arrays
    "arrays": ({"specs"}, {"numpy"}),  # allocation, the arena, views, values that the host reads
    "_files": (set(), {"numpy"}),  # reading and writing files, checking saved states, text for a terminal
    # PyTorch's and earlier import paths, and error messages for missing names
    "torch_api.earlier_paths": (set(), set()),
    "torch_api.imports": ({"torch_api.earlier_paths"}, set()),
    "torch_api.missing": ({"torch_api.imports"}, set()),
    "torch_api.elastic": (set(), set()),  # a part of distributed under PyTorch's path
    # modules that exist because scripts for PyTorch import them
    "utils": (_LAYERS | {"engine", "ops", "explanation"} | _PATHS, {"numpy"}),  # PyTorch's path to data and checkpoint
    "torch_api": (_LAYERS | _OPERATORS | {"autograd", "explanation", "interop"} | _PATHS, {"numpy"}),
    "onnx": (_OPERATORS | _PATHS | {"nn", "data", "lowbit", "_files"}, {"numpy", "onnx"}),
    "formulas": (set(), {"numpy"}),  # the text of pointwise operators and optimizers' updates
    "kernels": ({"kernels.compiled", "kernels.interface", "kernels.textbook"}, set()),
    "kernels.interface": ({"specs", "formulas"}, {"numpy"}),
    "kernels.compiled": ({"specs", "formulas"}, {"numpy", "numba", "llvmlite"}),
    "kernels.textbook": ({"specs", "formulas"}, {"numpy"}),
    "kernel_set": ({"specs"}, set()),
    "engine": ({"kernel_set", "arrays"}, {"numpy"}),
    "ops": ({"engine", "kernel_set", "arrays", "specs", "_files", "formulas"} | _PATHS, {"numpy"}),
    "nn": (_OPERATORS | _PATHS | {"formulas", "_files"}, {"numpy"}),
    "optim": (_OPERATORS | _PATHS | {"_files", "formulas"}, {"numpy"}),
    "rules": (_OPERATORS | {"nn", "formulas"}, {"numpy"}),
    "lowbit": (_OPERATORS | {"nn", "formulas"}, {"numpy"}),
    "data": (_OPERATORS | {"_files"}, {"numpy", "PIL"}),
    "distributions": ({"engine", "kernel_set", "arrays", "ops"} | _PATHS, {"numpy"}),
    "autograd": ({"ops", "engine"} | _PATHS, {"numpy"}),
    "studies": (_LAYERS | _OPERATORS | {"train", "rules", "lowbit", "interop", "_files"}, {"numpy"}),
    "train": (_LAYERS | _OPERATORS | {"_files", "explanation"}, {"numpy", "matplotlib", "tqdm"}),
    "explanation": (
        _LAYERS | _OPERATORS | {"_files", "formulas", "lowbit", "rules"},
        {"numpy", "tensorboardX", "anyio", "starlette", "uvicorn"},
    ),
    "interop": (
        _LAYERS | _OPERATORS | {"_files", "lowbit"},
        {"numpy", "pyfive", "safetensors", "einops", "sklearn", "torch"},
    ),
    "distributed": (_LAYERS | _OPERATORS | _PATHS | {"interop", "_files", "torch_api.elastic"}, {"numpy", "mpi4py"}),
    "testing": (_LAYERS | _OPERATORS | {"autograd"}, {"numpy"}),
    "cli": (_TOOLS | {"studies", "distributed", "onnx", "_files"} | _LAYERS | _OPERATORS, {"numpy"}),
    "__main__": ({"cli"}, set()),
    "__init__": (
        _TOOLS
        | _LAYERS
        | _OPERATORS
        | _PATHS
        | {"lowbit", "rules", "autograd", "distributions", "testing", "distributed", "onnx", "torch_api", "utils"},
        {"numpy"},
    ),
}

# file -> what it may import, as the only file of its package
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    # which kernels write into an argument, and the arrays among arguments and results
    "engine/steps.py": ("kernels.interface", "specs.array_spec"),
    "engine/memory_planning.py": ("specs.array_spec",),
    "engine/freezing.py": ("specs.array_spec",),
    "engine/batch_norm_fusion.py": ("specs.array_spec", "formulas.optimizers"),
    "engine/chains.py": (
        "formulas.ACTIVATIONS",
        "formulas.POINTWISE",
        "formulas.form",
        "formulas.stored",
    ),  # whose formulas become one
    "engine/fusion.py": ("formulas.optimizers",),  # which in-place formula is a ReLU
    "kernel_set.py": ("kernels.interface", "kernels.compiled", "kernels.textbook"),  # the only way to the kernel sets
    # what a set would do, without doing it
    "ops/convolution/plan.py": ("kernels.compiled.convolution.algorithm", "kernels.textbook.algorithms"),
    "__init__.py": ("kernels.compiled.machine.launch",),  # set_num_threads and get_num_threads
    # the source that the page steps through
    "explanation/operators/convolution.py": ("kernels.textbook.convolution", "kernels.textbook.algorithms"),
    "explanation/source_map.py": ("kernels",),  # where the source of kernels is
    # the kernels of formulas, one of which the page mutates
    "explanation/mutation_testing.py": ("kernels.textbook.loss", "kernels.textbook.pointwise"),
    "cli/__init__.py": ("__version__",),
    "torch_api/version.py": ("__version__",),
    "onnx/exporting/export.py": ("__version__",),  # the producer version in the file
    "cli/machine.py": ("kernels",),  # warmup and info: the compile cache, the CPU
    "cli/output.py": ("kernels.compiled.machine.launch",),  # the number of threads
    "distributed/mpi.py": ("kernels.compiled.machine.launch",),  # the threads of each worker
    "nn/conv_recurrent.py": ("formulas.gates",),  # it composes its cells of operators itself
    "optim/swa_utils.py": ("nn.module", "nn.normalization"),  # an average of a Module is a Module
    "testing/operator.py": ("kernels.compiled.machine.launch",),  # the same bits with 1 and 2 threads
    "interop/sklearn/estimators.py": ("train",),  # fit
    # the report describes the machine
    "train/environment.py": ("kernels.compiled.machine.launch", "kernels.compiled.machine.target", "__version__"),
}


# (file, what it imports when called): features of a higher package that are accessible from a lower one
ON_CALL = {
    ("autograd/__init__.py", "explanation.backward_source.backward_source"),  # our path to it, on first use
    ("data/sampler.py", "distributed.world.world"),  # how many processes there are
    ("engine/operator.py", "explanation.operators.names"),  # operator.page
    ("engine/operator.py", "onnx.exporting.converters.registry.written_for"),  # operator.onnx
    ("engine/operator.py", "explanation.backward_source.gradient_of"),  # operator.mathematics, as text
    ("engine/operator.py", "explanation.source_map.stops_of"),  # operator.textbook
    ("engine/operator.py", "explanation.source_map.textbook_of"),
    ("engine/backward_rules.py", "rules"),  # the predefined rules, when one is requested by name
    ("engine/tensor.py", "explanation.notebook.as_html"),  # what a notebook shows
    ("engine/tensor.py", "ops.device.array_on_device"),  # Tensor(..., device=)
    ("lowbit/pack.py", "interop.packed.save_packed"),  # packed.save(path)
    ("nn/__init__.py", "distributed.SyncBatchNorm"),  # PyTorch's path to it
    ("nn/module.py", "lowbit.pack.pack"),  # module.pack()
    ("nn/parallel.py", "distributed.DistributedDataParallel"),  # PyTorch's path to it
}


def imported(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) of every import in a file of ``package``, at any level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            for alias in node.names:
                yield node.lineno, ".".join([*start, *filter(None, [node.module]), alias.name])
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = getattr(node.args[0], "value", None)
            if called in ("import_module", "__import__") and isinstance(name, str):
                level = len(name) - len(name.lstrip("."))
                start = package[: len(package) - level + 1] if level else []
                yield node.lineno, ".".join([*start, name.lstrip(".")])


def _package(path: Sequence[str]) -> str:
    """Return the package of a module below retrograd: its first folder or file, or a subpackage with its own rule."""
    two = ".".join(path[:2])
    return two if two in PACKAGES else path[0]


def violations(root: Path) -> list[str]:
    """Return one line per forbidden import."""
    found = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        file = inside.as_posix()
        package = _package(inside.with_suffix("").parts)
        if package not in PACKAGES:
            found.append(f"{file}: there is no rule for the package {package!r}")
            continue
        packages, outside = PACKAGES[package]
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for line, name in imported(tree, [root.name, *inside.parent.parts]):
            first, _, rest = name.partition(".")
            if first == root.name:
                target = _package(rest.split("."))
                if target not in PACKAGES:
                    target = "__init__"  # retrograd itself, or a name that its __init__ defines
                excepted = any(f"{rest}.".startswith(f"{allowed}.") for allowed in EXCEPTIONS.get(file, ()))
                if target not in (*packages, package) and not excepted and (file, rest) not in ON_CALL:
                    found.append(f"{file}:{line}: {package} imports {target} ({name})")
            elif first not in sys.stdlib_module_names and first not in outside:
                found.append(f"{file}:{line}: {package} imports {first} from outside")
    return found


def test_packages() -> None:
    assert violations(PACKAGE) == []


def test_every_package_has_a_rule() -> None:
    """Every file of retrograd belongs to a package in the table."""
    there = {_package(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    assert there <= set(PACKAGES)
    assert {"specs", "kernels.compiled", "kernels.textbook", "engine", "ops", "nn", "optim", "data"} <= there


def _drawn(text: str) -> tuple[set[str], set[str]]:
    """Return the folders of the tree in CONTRIBUTING.md, and its entries below src/retrograd."""
    tree = text.partition("## The packages\n\n```\n")[2].partition("```")[0]
    inside = {name for line in tree.splitlines() if line.startswith(" ") for name in _NAME.findall(line)}
    return {line.split()[0] for line in tree.splitlines() if line[:1].strip()}, inside


_NAME = re.compile(r"(?:^|; ) *(\w+(?:\.py|/))  ")  # of a package; its description follows two spaces


def test_the_tree_of_contributing_is_the_tree() -> None:
    root = TESTS.parent
    folders, packages = _drawn((root / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    there = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    there = {name if name.endswith(".py") else f"{name}/" for name in there}
    assert packages == there - {"__init__.py", "__main__.py"}
    assert folders == {"src/retrograd/", "tests/", "benchmarks/", "docs/"}
    assert all((root / folder).is_dir() for folder in folders)


def test_names_inside_descriptions_are_no_entries_of_the_tree() -> None:
    tree = "src/retrograd/\n  geometry.py   windows, see ops/\n  nn/  layers; cli/  commands\n"
    text = f"## The packages\n\n```\n{tree}```\n"
    assert _drawn(text) == ({"src/retrograd/"}, {"geometry.py", "nn/", "cli/"})


def test_the_rule_has_no_cycle() -> None:
    """No package imports itself through others, even counting the exceptions."""
    reach = {package: set(packages) for package, (packages, _) in PACKAGES.items()}
    for file, names in EXCEPTIONS.items():
        reach[_package(file.removesuffix(".py").split("/"))] |= {_package(name.split(".")) for name in names} & set(
            PACKAGES
        )
    for _ in PACKAGES:
        for package in reach:
            reach[package] |= {further for other in reach[package] for further in reach[other]}
    assert [package for package in reach if package in reach[package]] == []
    assert "ops" not in reach["engine"]
    for apart in ("kernels.compiled", "kernels.textbook"):
        assert reach[apart] <= {"specs", "formulas", "kernels.interface"}


class _Running(ast.NodeTransformer):
    """Removes code for type checkers only."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if ast.unparse(node.test).split(".")[-1] == "TYPE_CHECKING":
            return node.orelse
        return self.generic_visit(node)


def needs(folder: Path) -> dict[str, set[str]]:
    """Return, for each file of a package without subpackages, the files of the package that it imports at run time."""
    package = folder.parent.name, folder.name
    found = {}
    for path in folder.glob("*.py"):
        tree = _Running().visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        names = [name.split(".") for _, name in imported(tree, [*package])]
        found[path.stem] = {name[2] for name in names if (*name[:2],) == package and len(name) > 2}
    return {file: others & set(found) for file, others in found.items()}


def import_cycles(folder: Path) -> list[str]:
    """Return the files of a package that are part of an import cycle."""
    reach = needs(folder)
    for _ in reach:
        for file, others in reach.items():
            reach[file] = others.union(*[reach[other] for other in others])
    return sorted(file for file, others in reach.items() if file in others)


def test_the_engine_has_no_import_cycle() -> None:
    assert import_cycles(PACKAGE / "engine") == []


def test_methods_of_the_engine_are_the_one_exception() -> None:
    """Only methods.py attaches methods to Tensor, no file imports it, and few of its methods are private."""
    assert [file for file, others in needs(PACKAGE / "engine").items() if "methods" in others] == ["__init__"]
    assert [name for name in METHODS if name.startswith("_")] == ["_as_intermediate", "_as_saved", "_rebase"]
    attaching = [path.stem for path in (PACKAGE / "engine").glob("*.py") if "setattr(Tensor" in path.read_text("utf-8")]
    assert attaching == ["methods"]


@pytest.mark.parametrize(
    "back", ["from .tensor import Tensor\n", "def f():\n    from . import tensor\n", "import retrograd.engine.tensor\n"]
)
def test_a_planted_import_cycle_is_caught(tmp_path: Path, back: str) -> None:
    folder = tmp_path / "retrograd" / "engine"
    folder.mkdir(parents=True)
    (folder / "tensor.py").write_text("def f():\n    from .node import Node\n")
    (folder / "node.py").write_text("from .line import describe_place\n")
    (folder / "line.py").write_text("if TYPE_CHECKING:\n    from .tensor import Tensor\n")
    assert import_cycles(folder) == []
    (folder / "line.py").write_text(back)
    assert import_cycles(folder) == ["line", "node", "tensor"]


def test_the_oracle_shares_nothing() -> None:
    """tests/naive*.py import NumPy and the standard library, nothing from retrograd or from the other tests."""
    for path in TESTS.glob("naive*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {name.split(".")[0] for _, name in imported(tree, [])}
        assert names - set(sys.stdlib_module_names) == {"numpy"}, path


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("engine/tensor.py", "from ..kernels import conv\n", "engine/tensor.py:1: engine imports kernels"),
        ("engine/tensor.py", "import retrograd.kernels.textbook.matmul\n", "engine imports kernels.textbook"),
        ("engine/tensor.py", "def f():\n    from ..ops import add\n", "engine/tensor.py:2: engine imports ops"),
        ("kernels/compiled/matmul.py", "from ...engine.tensor import Tensor\n", "kernels.compiled imports engine"),
        ("kernels/compiled/pooling/pool_jit.py", "from ...textbook import conv\n", "compiled imports kernels.textbook"),
        ("kernels/compiled/matmul.py", "import scipy\n", "kernels.compiled imports scipy from outside"),
        ("kernels/textbook/matmul.py", "from .. import compiled\n", "kernels.textbook imports kernels.compiled"),
        ("kernels/textbook/matmul.py", "import numba\n", "kernels.textbook imports numba from outside"),
        ("ops/matmul.py", "from ..kernels.compiled.matmul import matmul\n", "ops imports kernels.compiled"),
        ("ops/matmul.py", "import numba.core\n", "ops imports numba from outside"),
        ("ops/matmul.py", "import importlib as i\ni.import_module('retrograd.kernels.textbook')\n", "kernels.textbook"),
        ("ops/matmul.py", "import_module('..kernels.matmul', __package__)\n", "ops imports kernels"),
        ("ops/matmul.py", "__import__('retrograd.nn')\n", "ops imports nn"),
        ("ops/deep/matmul.py", "import math\nfrom ...nn import Linear\n", "py:2: ops imports nn"),
        ("nn/linear.py", "from retrograd.kernels import matmul\n", "nn imports kernels"),
        ("nn/linear.py", "from ..train.trainer import Trainer\n", "nn imports train"),
        ("nn/linear.py", "import retrograd\n", "nn imports __init__"),
        ("nn/linear.py", "from .. import tensor\n", "nn imports __init__ (retrograd.tensor)"),
        ("nn/linear.py", "from ..optim import SGD\n", "nn imports optim"),
        ("specs/geometry.py", "import numba\n", "specs imports numba from outside"),
        ("specs/geometry.py", "from ..ops import conv\n", "specs imports ops"),
        ("train/environment.py", "from ..kernels import conv\n", "train imports kernels"),
        ("train/report.py", "if TYPE_CHECKING:\n    from ..kernels import conv\n", "train imports kernels"),
        ("optim/sgd.py", "import torch\n", "optim imports torch from outside"),
        ("games/chess.py", "", "no rule for the package 'games'"),
    ],
)
def test_a_planted_violation_is_caught(tmp_path: Path, file: str, text: str, expected: str) -> None:
    path = tmp_path / "retrograd" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (found,) = violations(tmp_path / "retrograd")
    assert expected in found


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    package = tmp_path / "retrograd"
    files = {
        "kernel_set.py": "from .kernels.interface import KERNELS\nfrom .kernels.textbook import conv\n",
        "ops/conv.py": "import numpy as np\nfrom ..engine.tensor import Tensor\nfrom ..kernel_set import kernels\n",
        "kernels/compiled/conv.py": "import numba\nimport numpy\nfrom ...specs import geometry\nfrom . import launch\n",
        "nn/conv.py": "import math\nfrom ..ops.conv import conv\nfrom .module import Module\n",
        "train/trainer.py": "from ..nn import Module\nfrom ..data import DataLoader\nimport tqdm\n",
        "__init__.py": "from . import nn\nfrom .kernels.compiled.machine.launch import set_num_threads\n",
    }
    for file, text in files.items():
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text(text)
    assert violations(package) == []
