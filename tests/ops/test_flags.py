"""Boolean arguments: every public function and method rejects other values, for every bool parameter."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, autograd, linalg
from retrograd.autograd import functional as products
from retrograd.nn import functional, utils

MODULES: tuple[ModuleType | type, ...] = (rg, linalg, functional, utils, Tensor, autograd, products)


def _functions() -> dict[str, Callable[..., Any]]:
    """Return public functions by name; a method that is also a public function is omitted."""
    found: dict[str, Callable[..., Any]] = {}
    for module in MODULES:
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name, None)  # unsupported PyTorch names raise AttributeError
            if inspect.isfunction(value) and not name.startswith("_") and value not in found.values():
                found[f"{getattr(module, '__name__', '?').rpartition('.')[2]}.{name}"] = value
    return found


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restore the process-wide settings that the functions change."""
    yield
    rg.set_printoptions(profile="default")
    rg.use_deterministic_algorithms(False)


FUNCTIONS = _functions()
FILES = "retrograd.load", "retrograd.save"  # see tests/interop/test_pt.py
CASES = [
    (name, argument, "None" in parameter.annotation)
    for name, function in FUNCTIONS.items()
    for argument, parameter in inspect.signature(function).parameters.items()
    if parameter.annotation in ("bool", "bool | None") and name not in FILES
]


def x(*shape: int) -> Tensor:
    return rg.tensor(np.random.default_rng(0).random(shape, np.float32))


def leaf() -> Tensor:
    return rg.tensor(0.5, dtype=rg.float64, requires_grad=True)


PLACES = rg.tensor([0, 1])
ROWS = {"input": x(2, 3)}
PAIR = {"input": x(3, 4), "target": x(3, 4)}
UNIT = {**dict.fromkeys(("A", "B", "L", "b", "input"), rg.eye(2)), "upper": True}
SQUARE = (
    "cholesky",
    "cholesky_ex",
    "cholesky_inverse",
    "cholesky_solve",
    "inv_ex",
    "matrix_rank",
    "pinv",
    "solve",
    "solve_ex",
    "solve_triangular",
    "triangular_solve",
)
LIKE = ("ones", "zeros", "empty", "full", "rand", "randn", "randint")
GIVEN: dict[str, dict[str, Any]] = {
    **{name: {"size": (2,)} for name in ("ones", "zeros", "empty", "rand", "randn")},
    **{f"{name}_like": {"input": x(2), "fill_value": 1.0, "low": 0, "high": 3} for name in LIKE},
    **{name: {"start": 0, "end": 1, "steps": 3} for name in ("linspace", "logspace")},
    **{f"{kind}_pool{n}d": {"input": x(1, 2, *(4,) * n)} for kind in ("avg", "max", "lp") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": {"input": x(1, 2, *(4,) * n), "output_size": 2} for n in (1, 2, 3)},
    **{f"dropout{n}d": {"input": x(1, 2, *(4,) * n)} for n in (1, 2, 3)},
    **{name: {"input": x(3), "other": x(3)} for name in ("isclose", "allclose")},
    **dict.fromkeys(SQUARE, UNIT),
    **dict.fromkeys(("kl_div", "poisson_nll_loss"), PAIR),
    **{
        name: {"anchor": x(2, 3), "positive": x(2, 3), "negative": x(2, 3)}
        for name in ("triplet_margin_loss", "triplet_margin_with_distance_loss")
    },
    **{
        name: {"func": lambda x: x * x, "inputs": leaf(), "v": rg.tensor(1.0, dtype=rg.float64)}
        for name in ("gradcheck", "gradgradcheck", *products.__all__)
    },
    "multi_head_attention_forward": {
        **dict.fromkeys(("query", "key", "value"), x(1, 1, 2)),
        "embed_dim_to_check": 2,
        "num_heads": 1,
        "in_proj_weight": x(6, 2),
        "in_proj_bias": None,
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": False,
        "dropout_p": 0.0,
        "out_proj_weight": x(2, 2),
        "out_proj_bias": None,
    },
    **dict.fromkeys(("arange", "randperm", "range"), {"start": 2, "n": 2}),
    **dict.fromkeys(
        ("new_empty_strided", "new_full", "empty_strided"), {"size": (2,), "stride": (1,), "fill_value": 1.0}
    ),
    **{name: {"target": PLACES} for name in ("nll_loss", "multi_margin_loss")},
    "multilabel_margin_loss": {"target": rg.tensor([[0, 1, -1]] * 2)},
    "cosine_embedding_loss": {"target": rg.ones(2)},
    "fill_diagonal": {"fill_value": 1.0},
    "frombuffer": {"buffer": b"1234", "dtype": np.float32},
    "scalar_tensor": {"s": 1.0},
    "use_deterministic_algorithms": {"mode": True},
    "sparse_coo_tensor": {"indices": rg.tensor([[0], [1]]), "values": x(1)},
    "compile": {"model": rg.nn.ReLU()},
    "asarray": {"obj": np.ones(1)},
    "affine_grid": {"theta": x(1, 2, 3), "size": (1, 1, 2, 2)},
    "backward": {"self": leaf(), "tensors": leaf()},
    "batch_norm": {"input": x(2, 3), "running_mean": x(3), "running_var": x(3)},
    "bucketize": {"input": 0.5, "boundaries": x(1)},
    **{
        name: {"parameters": [], "max_norm": 1.0, "clip_value": 1.0, "total_norm": 1.0}
        for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grads_with_norm_")
    },
    "conv_plan": {"input_shape": (1, 1, 4), "weight_shape": (1, 1, 2)},
    "ctc_loss": {
        "log_probs": x(3, 1, 2),
        "targets": rg.tensor([[1]]),
        "input_lengths": [3],
        "target_lengths": [1],
    },
    "embedding": {"input": PLACES, "weight": x(3, 2)},
    "embedding_bag": {"input": PLACES, "weight": x(3, 2), "offsets": rg.tensor([0])},
    "eye": {"n": 2},
    "fuse_conv_bn_eval": {"conv": rg.nn.Conv1d(1, 1, 1).eval(), "bn": rg.nn.BatchNorm1d(1).eval()},
    "fuse_conv_bn_weights": {
        "conv_w": x(1, 1, 1),
        **dict.fromkeys(("conv_b", "bn_rm", "bn_rv", "bn_w", "bn_b"), x(1)),
        "bn_eps": 1e-5,
    },
    "full": {"size": 2, "fill_value": 1.0},
    "gather": {"dim": 0, "index": rg.tensor([[0, 0, 1]])},
    "gaussian_nll_loss": {**PAIR, "var": 1.0},
    "grid_sample": {"input": x(1, 1, 2, 2), "grid": x(1, 2, 2, 2)},
    "grad": {"outputs": (root := leaf()), "inputs": root},
    "gumbel_softmax": {"logits": x(3)},
    "index_put": {"indices": (PLACES,), "values": x(2, 3)},
    "instance_norm": {"input": x(1, 2, 3), "running_mean": x(2), "running_var": x(2)},
    "interpolate": {"input": x(1, 1, 2, 2), "scale_factor": 2.0, "mode": "bilinear"},
    "logsumexp": {"dim": 0},
    "combinations": {"input": x(3)},
    "histogram": {"input": x(3), "bins": 2},
    "histogramdd": {"input": x(3, 2), "bins": 2},
    "fractional_max_pool2d": {"input": x(1, 3, 3), "kernel_size": 1, "output_size": 2},
    "fractional_max_pool3d": {"input": x(1, 3, 3, 3), "kernel_size": 1, "output_size": 2},
    "ldl_factor": {"A": x(2, 2)},
    "ldl_factor_ex": {"A": x(2, 2)},
    "ldl_solve": {"LD": x(2, 2), "pivots": rg.tensor([1, 2]), "B": x(2, 2)},
    "lu_solve": {"LU": x(2, 2), "pivots": rg.tensor([1, 2]), "B": x(2, 2)},
    "lu_unpack": {"LU_data": x(2, 2), "LU_pivots": rg.tensor([1, 2])},
    "ormqr": {"input": x(2, 2), "tau": x(2), "other": x(2, 2)},
    "istft": {"input": x(1, 2, 2), "n_fft": 1, "hop_length": 1},
    "stft": {"input": x(9), "n_fft": 4, "center": False},
    "index_reduce": {"dim": 0, "index": PLACES, "source": x(2, 3), "reduce": "mean"},
    "nanquantile": {"q": 0.5},
    "put": {"index": PLACES, "source": x(2)},
    "multinomial": {"input": x(3), "num_samples": 1},
    "normal": {"size": (2,), "mean": 0.0, "std": 1.0},
    "pairwise_distance": {"x1": x(2, 3), "x2": x(2, 3)},
    "quantile": {"q": 0.5},
    "randint": {"low": 0, "high": 3, "size": (2,)},
    "rnn": {"data": x(2, 1, 3), "parameters": x(14), "state": x(1, 1, 2), "mode": "rnn_tanh", "state_size": 2},
    "scaled_dot_product_attention": {"query": x(1, 2, 3), "key": x(1, 2, 3), "value": x(1, 2, 3)},
    "scatter_reduce": {"dim": 0, "index": rg.tensor([[0, 0, 1]]), "src": x(2, 3), "reduce": "sum"},
    "searchsorted": {"sorted_sequence": x(1), "input": 0.5},
    "tensor": {"data": [1.0]},
    "vander": {"x": x(3)},
    "threshold": {"threshold": 0.0, "value": 0.0},
    "upsample": {"input": x(1, 1, 2, 2), "scale_factor": 2.0, "mode": "bilinear"},
}
ATTENTION = "multi_head_attention_forward"
NUMBERS = {"window_length": 3, "k": 1, "kernel_size": 2, "norm_type": 2.0, "dim": 0, "p": 0.5}


# PyTorch's operators refuse 0 and 1; its functions written in Python accept them
NUMBERS_TOO = {
    "inplace",
    "size_average",
    "reduce",
    "return_indices",
    "hard",
    "antialias",
    "recompute_scale_factor",
    "get_infos",
    "sci_mode",
    "error_if_nonfinite",
    "foreach",
    "transpose",
    "retain_graph",
    "create_graph",
    "only_inputs",
    "allow_unused",
    "is_grads_batched",
    "materialize_grads",
    "raise_exception",
    "check_layouts",
    "sharp",
    "strict",
    "vectorize",
    "fullgraph",
    "dynamic",
    "disable",
    "need_weights",
    "average_attn_weights",
    "add_zero_attn",
    "use_separate_proj_weight",
}
AMONG = {  # parameters for which some functions accept them
    "full": ("gaussian_nll_loss",),
    "swap": ("triplet_margin_with_distance_loss",),
    "is_causal": (ATTENTION,),
    "training": (ATTENTION,),
    "align_corners": ("interpolate",),
}
BUT = {("ormqr", "transpose"), ("triangular_solve", "transpose"), ("lp_pool", "inplace"), ("rnn", "training")}


def _takes_numbers(name: str, argument: str) -> bool:
    function = FUNCTIONS[name].__name__
    return (argument in NUMBERS_TOO and (function, argument) not in BUT) or function in AMONG.get(argument, ())


def arguments_of(name: str) -> dict[str, Any]:
    """Return the other arguments that the function needs, so that only the flag is wrong."""
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    given = GIVEN.get(function.__name__.rstrip("_"), GIVEN.get(function.__name__, {}))
    given = {label: value for label, value in given.items() if label in parameters}
    for label, parameter in parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and label not in given and not variadic:
            given[label] = NUMBERS[label] if label in NUMBERS else x(2, 3)
    return given


def _run(function: Callable[..., Any], given: dict[str, Any]) -> None:
    with function(**given) if function is rg.fork_rng else nullcontext():
        if function is not rg.fork_rng:
            function(**given)


@pytest.mark.filterwarnings("ignore:size_average and reduce", "ignore:range is deprec", "ignore:only_inputs argument")
@pytest.mark.filterwarnings("ignore:kl_div", "ignore:.*clip_grad_norm:FutureWarning")
def test_no_truth_value() -> None:
    for name, argument, optional in CASES:
        function, given = FUNCTIONS[name], arguments_of(name)
        own = f"{function.__name__.rstrip('_')}_?: "
        own = f"({own}|Tensor: )" if argument == "requires_grad" else own
        numbers = (0, 1) if not _takes_numbers(name, argument) else ()
        for value in ("False", 2, -1, 1.0, *numbers, *(() if optional else (None,))):
            with pytest.raises(TypeError, match=rf"^{own}{argument}={value!r} must be True or False, not"):
                _run(function, {**given, argument: value})
        _run(function, {**given, argument: np.False_})


@pytest.mark.filterwarnings("ignore")
def test_numbers_that_are_truth_values() -> None:
    """0 and 1 act like False and True, errors included."""
    many = 0
    for name, argument, _ in CASES:
        if _takes_numbers(name, argument):
            many += 1
            for number in (0, 1):
                found = []
                for value in (bool(number), number, np.bool_(number)):
                    rg.manual_seed(0)
                    found.append(_outcome(FUNCTIONS[name], {**copy.deepcopy(arguments_of(name)), argument: value}))
                assert found[0] == found[1] == found[2], (name, argument, found)
    assert many > 60


def _outcome(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Return the result as text, or the error."""
    try:
        found = function(**given)
    except (ValueError, RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}".replace("=1 ", "=True ").replace("=np.True_ ", "=True ")
    return "called" if callable(found) or type(found).__module__.startswith("retrograd.testing") else repr(found)


def test_there_are_many() -> None:
    assert len(CASES) > 140
