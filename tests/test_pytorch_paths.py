"""PyTorch's import paths and modules that scripts use but that have little effect here."""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import distributed, nn, optim
from retrograd.ops import inplace_functions as in_place_functions
from retrograd.ops.signatures import with_out
from retrograd.torch_api.earlier_paths import EARLIER
from retrograd.torch_api.imports import PATHS
from retrograd.torch_api.missing import pytorch_names
from retrograd.utils import data


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("nn.modules.conv", "Conv2d", nn.Conv2d),
        ("nn.modules.module", "Module", nn.Module),
        ("nn.modules.loss", "CrossEntropyLoss", nn.CrossEntropyLoss),
        ("nn.modules", "LSTM", nn.LSTM),
        ("nn.parameter", "Parameter", nn.Parameter),
        ("utils.data.dataloader", "DataLoader", data.DataLoader),
        ("utils.data.dataset", "Dataset", data.Dataset),
        ("utils.data.sampler", "SubsetRandomSampler", data.SubsetRandomSampler),
        ("optim.lr_scheduler", "_LRScheduler", optim.lr_scheduler.LRScheduler),
        ("optim.optimizer", "Optimizer", optim.Optimizer),
        ("optim.adam", "Adam", optim.Adam),
        ("multiprocessing", "cpu_count", multiprocessing.cpu_count),
        ("nn.parallel.distributed", "DistributedDataParallel", distributed.DistributedDataParallel),
        ("distributed.distributed_c10d", "ReduceOp", distributed.ReduceOp),
        ("distributed.algorithms", "Join", distributed.algorithms.join.Join),
        ("distributed.elastic.multiprocessing.errors", "record", distributed.elastic.record),
        ("random", "manual_seed", rg.manual_seed),
        ("version", "__version__", rg.__version__),
        ("version", "cuda", None),
        ("serialization", "load", rg.load),
        ("signal.windows", "hann", rg.signal.windows.hann),
        ("serialization", "save", rg.save),
        ("autograd.function", "Function", rg.autograd.Function),
        ("autograd.function", "once_differentiable", rg.autograd.once_differentiable),
        ("autograd.grad_mode", "no_grad", rg.no_grad),
        ("autograd.grad_mode", "enable_grad", rg.enable_grad),
        ("autograd.grad_mode", "set_grad_enabled", rg.set_grad_enabled),
        ("autograd.grad_mode", "inference_mode", rg.inference_mode),
        ("autograd.anomaly_mode", "detect_anomaly", rg.autograd.detect_anomaly),
        ("autograd.anomaly_mode", "set_detect_anomaly", rg.autograd.set_detect_anomaly),
        ("autograd.gradcheck", "gradcheck", rg.autograd.gradcheck),
        ("autograd.gradcheck", "gradgradcheck", rg.autograd.gradgradcheck),
        ("autograd.gradcheck", "GradcheckError", rg.autograd.GradcheckError),
    ],
)
def test_paths(path: str, name: str, expected: Any) -> None:
    assert getattr(importlib.import_module(f"retrograd.{path}"), name) == expected


def test_earlier_paths_lead_to_present_modules() -> None:
    package = Path(rg.__file__).parent
    present = {".".join(path.relative_to(package).with_suffix("").parts) for path in package.rglob("*.py")}
    assert not (EARLIER.keys() | PATHS.keys()) & present, "a module at such a path would never be imported"
    optional = ("interop", "onnx")  # need packages that may be missing
    for path, module in EARLIER.items():
        assert module in present or f"{module}.__init__" in present, path
        if not path.startswith(optional):
            assert importlib.import_module(f"retrograd.{path}") is importlib.import_module(f"retrograd.{module}")
    assert callable(rg.train.profile)  # not the module that used to be at this path
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'retrograd\.textbook\.nothing'"):
        importlib.import_module("retrograd.textbook.nothing")


def test_gradcheck_is_a_function_and_a_module() -> None:
    module = importlib.import_module("retrograd.autograd.gradcheck")
    assert module is sys.modules["retrograd.autograd.gradcheck"] and module is not rg.autograd.gradcheck
    assert rg.autograd.gradcheck(rg.sin, rg.ones(2, dtype=rg.float64, requires_grad=True))
    assert rg.autograd.function is sys.modules["retrograd.autograd.function"]
    with pytest.raises(ImportError, match="'retrograd.autograd.function' is not a package"):
        importlib.import_module("retrograd.autograd.function.functional")


def test_context_and_instances_of_functions() -> None:
    from retrograd.autograd.function import FunctionCtx, InplaceFunction

    class Double(InplaceFunction):
        @staticmethod
        def forward(ctx: FunctionCtx, x: rg.Tensor) -> rg.Tensor:
            assert isinstance(ctx, FunctionCtx)
            return x * 2

        @staticmethod
        def backward(ctx: FunctionCtx, g: rg.Tensor) -> rg.Tensor:
            return g * 2

    with pytest.warns(DeprecationWarning, match="Double: a Function needs no instance"):
        double = Double(inplace=True)
    x = rg.ones(1, requires_grad=True)
    double.apply(x).backward(rg.tensor([5.0]))
    assert double.inplace and x.grad is not None and x.grad.item() == 10


def test_profiler() -> None:
    from retrograd.autograd import profiler

    with profiler.record_function("block") as block, profiler.profile(enabled=False, use_cuda=True) as off:
        assert block.name == "block" and not off.enabled
    assert profiler.record_function("f")(lambda x: x + 1)(2) == 3
    with profiler.emit_nvtx(enabled=False):
        pass
    with pytest.raises(RuntimeError, match=r"profiler.profile: .*write retrograd.train.profile.*pass enabled=False"):
        profiler.profile()
    with pytest.raises(RuntimeError, match="autograd.profiler.emit_nvtx: there is no GPU"):
        profiler.emit_nvtx()
    with pytest.raises(TypeError, match="record_function: name=3 must be a str"):
        profiler.record_function(3)
    with pytest.raises(AttributeError, match="has no attribute 'load_nvprof'"):
        profiler.load_nvprof  # noqa: B018


def test_base_classes_of_layers() -> None:
    for layer, module, base in (
        (nn.Conv1d(2, 3, 3), "conv", "_ConvNd"),
        (nn.ConvTranspose2d(2, 3, 3), "conv", "_ConvTransposeNd"),
        (nn.BatchNorm2d(3), "batchnorm", "_BatchNorm"),
        (nn.InstanceNorm1d(3), "instancenorm", "_InstanceNorm"),
        (nn.Dropout2d(), "dropout", "_DropoutNd"),
        (nn.MaxPool2d(2), "pooling", "_MaxPoolNd"),
        (nn.MSELoss(), "loss", "_Loss"),
    ):
        assert isinstance(layer, getattr(getattr(nn.modules, module), base))
        assert not isinstance(nn.Linear(1, 1), getattr(getattr(nn.modules, module), base))
    assert nn.modules.utils._pair(3) == (3, 3)
    with pytest.raises(AttributeError, match="has no"):
        nn.modules.conv.Conv7d  # noqa: B018


def test_there_is_no_gpu() -> None:
    assert not rg.cuda.is_available() and rg.cuda.device_count() == 0 and rg.cuda.memory_allocated() == 0
    assert not rg.backends.mps.is_available() and not rg.backends.cudnn.is_available()
    assert not rg.backends.cuda.is_built() and rg.backends.cudnn.version() is None
    assert rg.accelerator.current_accelerator() is None and not rg.accelerator.is_available()
    rg.cuda.empty_cache()
    rg.cuda.manual_seed_all(3)
    for call in (rg.cuda.synchronize, rg.cuda.get_device_name, rg.cuda.FloatTensor, rg.accelerator.synchronize):
        with pytest.raises(RuntimeError, match=r"there is no accelerator; there is one device, the CPU.*is_available"):
            call()
    with pytest.raises(RuntimeError, match=r"cuda.set_device: there is no accelerator"):
        rg.cuda.set_device(0)
    with pytest.raises(TypeError, match="seed='x' is str"):
        rg.cuda.manual_seed("x")  # type: ignore[arg-type]


def test_scripts_start_no_processes_that_train_together() -> None:
    def main(rank: int) -> None: ...

    for call in (rg.multiprocessing.spawn, rg.multiprocessing.start_processes):
        with pytest.raises(RuntimeError, match=r"call main\(rank, \.\.\.\) with .*, and start .* launch -n 4"):
            call(main, (1,), 4)

    @distributed.elastic.multiprocessing.errors.record
    def run(x: int) -> int:
        return x + 1

    assert run(2) == 3
    with pytest.raises(ValueError, match="record: error_handler=3: each process prints the traceback of its own error"):
        distributed.elastic.record(run, error_handler=3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from retrograd.distributed.fsdp import FullyShardedDataParallel", "no fsdp: a model is whole in each"),
        ("from retrograd.distributed.fsdp.wrap import wrap", "no fsdp: a model is whole in each process"),
        ("import retrograd.distributed.rpc as rpc; rpc.init_rpc('worker')", "no rpc: processes do not call each"),
        ("from retrograd.distributed.tensor.parallel import parallelize_module", "no tensor: a model is whole in each"),
        ("from retrograd.distributed.device_mesh import init_device_mesh", "no device_mesh: there are no meshes"),
        ("from retrograd.distributed.pipelining import pipeline", "no pipelining: a model is whole"),
    ],
)
def test_parts_of_distributed_that_are_not_here(line: str, message: str) -> None:
    with pytest.raises(ImportError, match=re.escape(f"retrograd.distributed has {message}")):
        exec(line)


def test_names_of_distributed_that_are_not_here() -> None:
    for name, message in (
        ("TCPStore", "MPI connects the processes, so there is no store"),
        ("init_device_mesh", r"there are no meshes of devices; call new_group\(ranks\)"),
        ("launch", "start the script with retrograd launch"),
        ("rpc", "processes do not call each other's functions"),
    ):
        assert not hasattr(distributed, name)
        with pytest.raises(AttributeError, match=f"retrograd.distributed has no {name}: {message}"):
            getattr(distributed, name)
    with pytest.raises(AttributeError, match="module 'retrograd.distributed' has no attribute 'nothing'"):
        distributed.nothing  # noqa: B018


def test_backends_are_one() -> None:
    assert distributed.get_default_backend_for_device("cpu") == "mpi"
    assert not distributed.is_ucc_available() and not distributed.is_xccl_available()
    assert distributed.is_backend_available("MPI") == distributed.is_mpi_available()
    assert not distributed.is_backend_available("nccl")


def test_flags_may_be_set() -> None:
    before = rg.backends.cudnn.benchmark
    rg.backends.cudnn.benchmark = True
    assert rg.backends.cudnn.benchmark
    rg.backends.cudnn.benchmark = before
    with rg.backends.cudnn.flags(enabled=True, deterministic=True):
        pass
    rg.backends.cuda.matmul.allow_tf32 = False
    rg.backends.cuda.enable_flash_sdp(False)
    assert rg.backends.cuda.math_sdp_enabled() and not rg.backends.cuda.flash_sdp_enabled()


def test_compiled_and_scripted_is_what_it_was() -> None:
    layer = nn.Linear(2, 3)
    assert rg.compile(layer, mode="max-autotune", disable=True) is layer
    assert isinstance(rg.compile(layer, mode="max-autotune", fullgraph=True), nn.Linear)
    assert rg.jit.script(layer) is layer and rg.jit.trace(layer, rg.ones(1, 2)) is layer
    assert rg.jit.freeze(layer) is rg.jit.optimize_for_inference(layer) is layer

    @rg.compile(dynamic=True)
    @rg.jit.script
    @rg.compiler.disable
    def double(x: rg.Tensor) -> rg.Tensor:
        return x * 2

    assert double(rg.ones(1)).item() == 2
    assert not rg.jit.is_scripting() and not rg.compiler.is_compiling()
    for call in (rg.compile, rg.jit.script, rg.jit.trace):
        with pytest.raises(TypeError, match="needs a module or a function"):
            call(3)
    with pytest.raises(RuntimeError, match="jit.load: code from a file is not run; build the model"):
        rg.jit.load("model.pt")
    with pytest.raises(RuntimeError, match="jit.save: a model is its Python code; save its weights"):
        rg.jit.save(layer, "model.pt")


def _train(amp: bool) -> Any:
    rg.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    scaler = rg.GradScaler(enabled=amp)
    for _ in range(3):
        optimizer.zero_grad()
        with rg.autocast("cuda", dtype=rg.float32, enabled=amp):
            loss = model(rg.ones(2, 3)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    return model.weight.array


def test_mixed_precision_does_nothing_and_says_so() -> None:
    with pytest.warns(UserWarning) as caught:
        mixed = _train(True)
    texts = {str(warning.message).split(",")[0] for warning in caught}
    assert texts == {"autocast: there is no device 'cuda'", "GradScaler: there is no device 'cuda'"}
    assert (mixed == _train(False)).all()
    with pytest.raises(RuntimeError, match="autocast: on the CPU it would compute in bfloat16.*or pass enabled=False"):
        rg.amp.autocast("cpu")
    with pytest.warns(UserWarning, match="losses are not scaled"):
        rg.cuda.amp.GradScaler()
    with pytest.warns(UserWarning, match="type of its operands"):
        rg.cuda.amp.autocast()(len)
    assert rg.amp.custom_fwd(len, device_type="cuda") is len
    assert rg.cuda.amp.custom_bwd()(len) is len


def test_scaled_losses() -> None:
    """The same numbers as without a scaler; a step is left out where gradients are not finite."""
    factors = [1.0, 2.0, np.inf, 3.0, np.nan, 0.5, 1.0]
    found = []
    for scaler in (rg.GradScaler("cpu", init_scale=8.0, growth_interval=2), rg.GradScaler("cpu", enabled=False)):
        x, scales = nn.Parameter(rg.tensor([1.0, 2.0])), []
        opt = optim.SGD([x], 0.1, momentum=0.9)
        for place, factor in enumerate(factors):
            if not scaler.is_enabled() and not np.isfinite(factor):
                continue
            opt.zero_grad()
            scaler.scale([(x * x * factor).sum()])[0].backward()
            if place % 2:
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_([x], 0.5)
            scaler.step(opt)
            scaler.update()
            scales.append(scaler.get_scale())
        found.append((x.array, scales))
    (scaled, scales), (plain, ones) = found
    np.testing.assert_array_equal(scaled, plain)
    assert scales == [8, 16, 8, 8, 4, 4, 8] and {*ones} == {1.0}


def test_wrong_uses_of_a_scaler() -> None:
    scaler, x = rg.amp.GradScaler("cpu", init_scale=4), nn.Parameter(rg.ones(2))
    opt = optim.SGD([x], 0.1)
    with pytest.raises(RuntimeError, match=r"update: call step\(\) or unscale_\(\) before"):
        scaler.update()
    scaler.scale(x.sum()).backward()
    with pytest.raises(RuntimeError, match="step: a closure is not supported"):
        scaler.step(opt, lambda: x.sum())
    scaler.unscale_(opt)
    with pytest.raises(RuntimeError, match="the gradients are unscaled already"):
        scaler.unscale_(opt)
    scaler.step(opt)
    with pytest.raises(RuntimeError, match="there was a step since the last update"):
        scaler.step(opt)
    scaler.update(2.0)
    other = rg.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 2 and other.state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match=r"the keys are \[\], expected \['scale', .*not enabled has none"):
        other.load_state_dict({})
    with pytest.raises(TypeError, match="scale: outputs is float, needs a Tensor"):
        scaler.scale(1.0)
    with pytest.raises(ValueError, match="growth_factor=1 must be above 1"):
        rg.amp.GradScaler("cpu", growth_factor=1)
    with pytest.raises(ValueError, match="backoff_factor=1 must be below 1"):
        rg.amp.GradScaler("cpu", backoff_factor=1)


def test_without_a_launcher_there_is_no_process_group() -> None:
    assert rg.distributed.is_available() and not rg.distributed.is_initialized()
    for call in (rg.distributed.get_rank, rg.distributed.barrier):
        with pytest.raises(RuntimeError, match=r"there is no process group; call distributed.init_process_group\(\)"):
            call()
    with pytest.raises(ValueError, match="backend='nccl': processes communicate by MPI, on CPUs; pass 'mpi'"):
        rg.distributed.init_process_group("nccl")


def test_an_except_clause_may_name_the_gpu() -> None:
    with pytest.raises(rg.cuda.OutOfMemoryError):
        raise rg.cuda.OutOfMemoryError("a GPU's")
    assert issubclass(rg.cuda.OutOfMemoryError, RuntimeError)


def test_functions_that_pytorch_has_twice() -> None:
    assert rg.conv2d is nn.functional.conv2d and rg.layer_norm is nn.functional.layer_norm
    x = rg.tensor([-1.0, 2.0])
    assert rg.relu_(x) is x and x.tolist() == [0.0, 2.0]
    for name in rg._FROM_FUNCTIONAL:
        function = getattr(nn.functional, name)
        assert getattr(rg, name) in (function, with_out(function, name))
    in_place = {name for name in pytorch_names()["torch"] if name.endswith("_") and hasattr(rg.Tensor, name)}
    assert in_place == set(in_place_functions.__all__) and "relu_" in in_place
    for name in in_place:
        assert getattr(rg, name) is getattr(rg.Tensor, name)
    for name in ("conv2d", "relu_", "celu_"):
        assert name in dir(rg)


def test_editors_and_type_checkers_know_what_is_imported_later() -> None:
    """The names that __getattr__ imports lazily are also imported under TYPE_CHECKING, from the same modules."""
    tree = ast.parse(Path(rg.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    known = {alias.asname or alias.name: f".{node.module or ''}" for node in imports for alias in node.names}
    known["multiprocessing"] = known.pop("processes")  # assigned, as only "x as x" is public
    paths = {path: f".{module.rpartition('.')[0]}" for path, module in PATHS.items() if "." not in path}
    del paths["signal"]  # is imported eagerly
    assert known == dict.fromkeys(rg._SUBPACKAGES, ".") | rg._LAZY_NAMES | paths
    assert set(known) <= set(rg.__all__)


@pytest.mark.nightly
def test_mypy_knows_every_public_name(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    asked = [f"reveal_type(rg.{name})" for name in rg.__all__]
    asked += [f"reveal_type(rg.nn.functional.{name})" for name in nn.functional.__all__]
    program = tmp_path / "program.py"
    program.write_text("\n".join(["import retrograd as rg", *asked]), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]).stdout
    revealed = [line for line in found.splitlines() if "Revealed type is" in line]
    assert "Success" in found and len(revealed) == len(asked), found
    assert [line for line in revealed if line.endswith('"Any"')] == []


def test_no_tensor_is_on_a_gpu() -> None:
    """Scripts test this with ``if isinstance(x.data, torch.cuda.FloatTensor)``."""
    assert not isinstance(rg.zeros(2), (rg.cuda.FloatTensor, rg.cuda.LongTensor))
    with pytest.raises(RuntimeError, match=r"cuda.LongTensor: there is no accelerator"):
        rg.cuda.LongTensor([1])


def test_path_of_the_writer() -> None:
    from retrograd.utils.tensorboard import SummaryWriter
    from retrograd.utils.tensorboard.writer import SummaryWriter as Same

    assert Same is SummaryWriter


@pytest.mark.parametrize("name", ["download_url_to_file", "load", "load_state_dict_from_url"])
def test_hub_downloads_nothing(name: str) -> None:
    from retrograd import hub

    with pytest.raises(RuntimeError, match=rf"^hub\.{name}: nothing is downloaded, .*; .*yourself"):
        getattr(hub, name)("https://example.com/weights.pt", "weights.pt")


def test_list_of_safe_globals() -> None:
    from retrograd import serialization

    serialization.clear_safe_globals()
    serialization.add_safe_globals([nn.Linear, (nn.Conv2d, "net.Conv")])
    with serialization.safe_globals([nn.Linear, len]):
        assert serialization.get_safe_globals() == [nn.Linear, (nn.Conv2d, "net.Conv"), len]
    assert serialization.get_safe_globals() == [nn.Linear, (nn.Conv2d, "net.Conv")]
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    with pytest.raises(TypeError, match="add_safe_globals: str is not a class, a function, or a pair"):
        serialization.add_safe_globals([len, "len"])
    assert serialization.get_safe_globals() == []


def test_safe_globals_open_nothing(tmp_path: Any) -> None:
    """No code in a file is executed, even for classes on the list."""
    path = tmp_path / "object.pt"
    content = pickle.dumps(_Loud(), 2)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("object/data.pkl", content)
        archive.writestr("object/version", "3")
    with rg.serialization.safe_globals([_Loud, print]), pytest.raises(ValueError, match="restoring it would run code"):
        rg.load(path)


class _Loud:
    def __reduce__(self) -> Any:
        return _raise, ()


def _raise() -> None:
    raise AssertionError("something in the file was executed")
