"""Missing PyTorch names: the AttributeError says what to write instead and refers to the documentation page."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import retrograd as rg
from retrograd.nn import functional
from retrograd.torch_api import missing
from retrograd.torch_api.missing import ASSIGNED, MODULES, OTHER_LIBRARIES, OTHER_PAGE, PAGE, REASONS, pytorch_names

OURS: dict[str, Any] = {
    "torch.Tensor": rg.Tensor,
    "torch.nn.Module": rg.nn.Module,
    **{
        namespace: importlib.import_module(namespace.replace("torch", "retrograd", 1))
        for namespace in pytorch_names()
        if namespace not in ("torch.Tensor", "torch.nn.Module")
    },
}
MISSING = {
    namespace: [name for name in names if not hasattr(OURS[namespace], name)]
    for namespace, names in pytorch_names().items()
}


def _message(owner: object, name: str) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (rg, "dropout", "retrograd has no dropout: it is retrograd.nn.functional.dropout"),
        (rg, "view_as_real", "retrograd has no view_as_real: there are no complex numbers; retrograd.fft represents"),
        (rg, "vmap", "retrograd has no vmap: write the batch axis into your operations"),
        (rg.linalg, "eig", "retrograd.linalg has no eig: there are no complex numbers; for symmetric matrices write"),
        (rg.special, "airy_ai", "retrograd.special has no airy_ai: this PyTorch name is not available"),
        (rg.zeros(2), "hardshrink", "Tensor has no hardshrink: it is retrograd.nn.functional.hardshrink"),
        (rg.nn.Linear(2, 2), "register_backward_hook", "Linear has no register_backward_hook: write register_full_"),
        (rg.nn, "quantized", "retrograd.nn has no quantized: layers with quantized weights and activations"),
        (functional, "scaled_mm", "retrograd.nn.functional has no scaled_mm: this PyTorch name is not available"),
        (rg.optim, "Muon", "retrograd.optim has no Muon: this PyTorch name is not available"),
        (rg.utils.data, "default_convert", "retrograd.utils.data has no default_convert: write default_collate"),
    ],
)
def test_message(owner: object, name: str, message: str) -> None:
    assert not hasattr(owner, name)
    assert _message(owner, name).startswith(message)
    assert _message(owner, name).endswith(f"; see {PAGE}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from retrograd import vmap", "retrograd has no vmap: write the batch axis into your operations"),
        ("from retrograd.func import vmap", "retrograd has no func: functions of gradients are in"),
        ("import retrograd.ao.quantization as q", "retrograd has no ao: layers with quantized weights"),
        ("import retrograd.nn.qat", "retrograd.nn has no qat: layers with quantized weights"),
        ("from retrograd.utils.benchmark import Timer", "retrograd.utils has no benchmark: write retrograd.train"),
        ("from retrograd.linalg import eig", "retrograd.linalg has no eig: there are no complex numbers"),
        ("from retrograd.utils.data import default_convert", "retrograd.utils.data has no default_convert: write"),
        ("from retrograd.nn import Conv2D", "module 'retrograd.nn' has no attribute 'Conv2D'; did you mean 'Conv2d'?"),
    ],
)
def test_imports_of_missing_names(line: str, message: str) -> None:
    with pytest.raises(ImportError, match=re.escape(message)) as caught:
        exec(line)
    assert "did you mean" in message or str(caught.value).endswith(f"; see {PAGE}")


def test_imports_of_other_names() -> None:
    with pytest.raises(ImportError, match="cannot import name 'xyzzy' from 'retrograd.nn'"):
        exec("from retrograd.nn import xyzzy")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'retrograd\.nn\.xyzzy'") as caught:
        exec("import retrograd.nn.xyzzy")
    assert caught.value.name == "retrograd.nn.xyzzy"
    assert importlib.util.find_spec("retrograd.nn.xyzzy") is None


@pytest.mark.parametrize("namespace", OTHER_LIBRARIES)
def test_names_of_mxnet_say_what_to_write(namespace: str) -> None:
    for name in OTHER_LIBRARIES[namespace]:
        assert not hasattr(OURS[namespace], name)
        message = _message(OURS[namespace], name)
        assert message.startswith(f"{OURS[namespace].__name__} has no {name}: ")
        assert message.endswith(f"; see {OTHER_PAGE}")
    assert "write x.requires_grad_()" in _message(rg.zeros(2), "attach_grad")


@pytest.mark.parametrize("namespace", MISSING)
def test_every_name_that_is_missing_says_so(namespace: str) -> None:
    for name in MISSING[namespace]:
        message = _message(OURS[namespace], name)
        assert f" has no {name}: " in message and message.endswith(f"; see {PAGE}")


def test_reasons_are_for_names_of_pytorch_that_are_missing() -> None:
    more = {space: (*OTHER_LIBRARIES.get(space, ()), *ASSIGNED.get(space, ())) for space in MISSING}
    known = {space: (*names, *more[space]) for space, names in MISSING.items()}
    stale = [f"{space}.{name}" for space, names in REASONS.items() for name in names if name not in known[space]]
    assert stale == [], "they are here now, or no names of PyTorch"


def test_every_reason_is_given() -> None:
    """Every reason text is used for at least one name."""
    texts = {
        value
        for name, value in vars(missing).items()
        if name.startswith("_") and name.isupper() and name not in ("_FUNCTIONS", "_PACKAGE", "_SYNONYMS", "_TABLE")
    }
    given = [reason for names in REASONS.values() for reason in names.values()]
    assert texts and [text for text in texts if not any(text in reason for reason in given)] == []
    assert all(REASONS.values()), "a namespace without reasons"


def test_what_reasons_recommend_is_there() -> None:
    tables = (*REASONS.values(), *MODULES.values())
    words = [word for names in tables for reason in names.values() for word in reason.split()]
    for word in {word.rstrip(",;)").partition("(")[0] for word in words if word.startswith("retrograd.")}:
        found: Any = rg
        for part in word.split(".")[1:]:
            found = getattr(found, part)


@pytest.mark.parametrize(("reference", "content"), [(PAGE, "<!-- coverage -->"), (OTHER_PAGE, "| MXNet |")])
def test_the_page_is_there(reference: str, content: str) -> None:
    title = reference.split('"')[1]
    pages = (Path(__file__).parents[1] / "docs").rglob("*.md")
    (page,) = (text for text in (page.read_text(encoding="utf-8") for page in pages) if text.startswith(f"# {title}\n"))
    assert content in page


def test_grad_req_of_a_module_is_refused() -> None:
    layer = rg.nn.Linear(2, 2)
    with pytest.raises(AttributeError, match="every parameter has its own; write for p in model.parameters()"):
        layer.grad_req = "add"


def test_a_second_base_class_may_have_a_missing_name() -> None:
    class Mixin:
        limit = 3

        def update(self) -> int:
            return self.limit

        @property
        def hybridize(self) -> int:
            return self.limit + 1

    class Both(rg.nn.Linear, Mixin): ...

    layer = Both(2, 2)
    assert (layer.update(), layer.hybridize) == (3, 4)
    assert {"update", "hybridize"} <= {*dir(layer)}
    assert "flush_gradients" not in dir(layer)


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (rg, "ternsor", "module 'retrograd' has no attribute 'ternsor'; did you mean 'tensor'?"),
        (rg.nn, "Liner", "module 'retrograd.nn' has no attribute 'Liner'; did you mean 'Linear'?"),
        (functional, "cuda", "module 'retrograd.nn.functional' has no attribute 'cuda'"),
        (rg.zeros(2), "shap", "'Tensor' object has no attribute 'shap'"),
        (rg.nn.Linear(2, 2), "weigth", "'Linear' object has no attribute 'weigth'"),
    ],
)
def test_other_names_have_the_ordinary_error(owner: object, name: str, message: str) -> None:
    assert _message(owner, name) == message


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("rg.zeross", "module 'retrograd' has no attribute 'zeross'; did you mean 'zeros'?"),
        ("rg.nn.Liner", "module 'retrograd.nn' has no attribute 'Liner'; did you mean 'Linear'?"),
        ("rg.zeros(2).shap", "'Tensor' object has no attribute 'shap'. Did you mean: 'shape'?"),
        ("rg.zeros(2).xp", "'Tensor' object has no attribute 'xp'"),  # missing names are not suggested
        ("rg.complex", f"retrograd has no complex: there are no complex numbers; see {PAGE}"),
    ],
)
def test_what_python_proposes(code: str, last: str) -> None:
    program = f"import retrograd as rg\n{code}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    line = run.stderr.splitlines()[-1]
    if "Did you mean" in line and "Did you mean" not in last:
        assert "xpu" not in line
    else:
        assert line == f"AttributeError: {last}"


def test_attributes_that_are_there_cost_what_they_did() -> None:
    """A ``__getattr__`` in a class makes every access slower."""
    for cls in (rg.Tensor, rg.nn.Module):
        assert not any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in cls.__mro__[:-1])


def test_own_names_go_first() -> None:
    class Net(rg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ipu = "cpu"
            self.mtia = rg.nn.Linear(2, 2)
            self.register_buffer("xpu", rg.zeros(2))

        def compile(self) -> str:
            return "own"

    net = copy.deepcopy(Net())
    assert net.ipu == "cpu" and net.compile() == "own" and net.xpu.shape == (2,)
    assert list(net.state_dict()) == ["xpu", "mtia.weight", "mtia.bias"]
    assert {"ipu", "compile", "mtia", "xpu"} <= set(dir(net)) and "dump_patches" not in dir(net)
    del net.ipu
    assert not hasattr(net, "ipu")

    class Placed(rg.Tensor):
        xpu = "here"

    assert Placed([1.0]).xpu == "here" and "xpu" in dir(Placed([1.0]))


@pytest.mark.parametrize("name", ASSIGNED["torch.Tensor"])
def test_what_has_an_effect_in_pytorch_is_not_set_in_vain(name: str) -> None:
    x = rg.zeros(2)
    with pytest.raises(AttributeError, match=f"Tensor has no {name}: .*; see the page"):
        setattr(x, name, 1)
    assert not hasattr(x, name) and vars(x) == {}
    x.xpu = 3  # a user's attribute in PyTorch as well
    assert x.xpu == 3 and "xpu" in dir(x)


def test_what_is_not_here_is_not_listed() -> None:
    x = rg.zeros(2)
    assert set(dir(x)) >= {"array", "exp", "backward", "data"} and not set(dir(x)) & set(MISSING["torch.Tensor"])
    assert not set(dir(rg.nn.Linear(2, 2))) & set(MISSING["torch.nn.Module"])
    assert dir(x) == sorted(dir(x)) and pickle.loads(pickle.dumps(x)).shape == (2,)
