"""Every explained operator: the products of each entry add up to it, and numerical gradients agree."""

from __future__ import annotations

import contextlib
import io
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from explanation.sample import sampled
from retrograd import lowbit, nn
from retrograd.explanation.explanation import Case, Explanation
from retrograd.explanation.operators import find, names, pointwise, quantizers
from retrograd.explanation.operators.function import of_function
from retrograd.explanation.operators.operator import Operator
from retrograd.explanation.operators.recurrent_cells import CELLS
from retrograd.explanation.products import Products
from retrograd.ops.pointwise import activation, arithmetic, comparison, exponential, piecewise, rounding, trigonometry
from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import Weights, recurrence

FAMILIES = (activation, comparison, arithmetic, piecewise, exponential, activation, rounding, exponential, trigonometry)
PRECISION = 1e-5  # of float32 sums in another order, beside the largest sum of sizes or 0.3: what is small may be a
# difference of larger numbers


def totals(products: list[Products], arrays: dict[str, np.ndarray], size: int) -> tuple[np.ndarray, float]:
    """Return the sums of all entries, and the largest sum of the products' magnitudes, by a loop over the rows."""
    found, sizes = np.zeros(size), np.zeros(size)
    for each in products:
        for target, *places in each.index.tolist():
            value = each.scale
            for name, place in zip(each.factors, places, strict=True):
                value *= 0.0 if place < 0 else float(arrays[name].flat[place])
            found[target] += value
            sizes[target] += abs(value)
    return found, sizes.max(initial=0)


def check(explanation: Explanation) -> None:
    """Check everything that the page shows of an explanation."""
    arrays = {name: array.values for name, array in explanation.arrays.items()}
    for name, array in explanation.arrays.items():
        assert len(array.axes) == array.values.ndim, name
    for name, products in explanation.sums.items():
        found, size = totals(products, arrays, arrays[name].size)
        np.testing.assert_allclose(found, arrays[name].ravel(), rtol=0, atol=PRECISION * max(size, 0.3), err_msg=name)
        assert explanation.case.formulas.get(name, name).startswith(name), name
    gradients = {f"g{name}" for name, array in explanation.case.inputs.items() if array.values.dtype.kind == "f"}
    assert gradients and gradients == {name for name, array in explanation.arrays.items() if array.role == "gradient"}
    assert gradients <= explanation.sums.keys()
    if explanation.case.exact:
        for name in gradients:
            largest = max(1.0, float(np.abs(arrays[name]).max(initial=0)))
            error = np.abs(explanation.numerical(name) - arrays[name].ravel()).max(initial=0)
            assert error < 2e-4 * largest, (name, error)
    assert max(explanation.agreement.values()) < 100
    document = explanation.to_dict(whole=False)
    json.dumps(document, allow_nan=False)
    assert all(setting["value"] in setting["choices"] for setting in document["settings"])
    assert all(
        factor in arrays for each in document["sums"].values() for one in each["products"] for factor in one["factors"]
    )


def drawn(operator: Operator, rng: np.random.Generator) -> Explanation:
    """Return the example with random settings, drawn until they are compatible."""
    for _ in range(50):
        given = {setting.name: setting.choices[rng.integers(len(setting.choices))] for setting in operator.settings}
        try:
            return operator.with_settings(given)
        except ValueError:
            continue
    raise AssertionError(f"{operator.name}: no settings go together")


def check_whole(name: str) -> None:
    """Check the example with the executed lines and the outcomes of "Break it"."""
    document = find(name).with_settings({}).to_dict()
    json.dumps(document, allow_nan=False)
    passed_on = name in ("add", "frac", "DeepShiftQ")  # the backward of these gives g, without a line of its own
    assert bool(document["traces"]) != passed_on and all(trace["steps"] for trace in document["traces"])
    for steps in document["steps"].values():
        assert all(each["places"] and "?" not in each["places"][0]["place"] for each in steps), steps


@pytest.mark.parametrize("name", sampled(start=1))
def test_the_example_of_each_operator(name: str) -> None:
    check(find(name).with_settings({}))


@pytest.mark.parametrize("name", ["lstm", "batch_norm", "cross_entropy", "relu", "exp", "Sign", "embedding", "frac"])
def test_whole_documents(name: str) -> None:
    check_whole(name)


@pytest.mark.parametrize("name", sampled())
def test_programs_to_take_along(name: str) -> None:
    run_programs(find(name).with_settings({}), name)


@pytest.mark.parametrize(
    ("name", "given"),
    [*((name, {"initial_state": "True"}) for name in CELLS), ("batch_norm", {"training": "False"})],
)
def test_programs_of_other_settings(name: str, given: dict[str, Any]) -> None:
    explanation = find(name).with_settings(given)
    check(explanation)
    run_programs(explanation, name)


def run_programs(explanation: Explanation, name: str) -> None:
    """Check that the program computes the same gradients, and that the gradcheck of an exact operator passes."""
    document = explanation.to_dict(whole=False)
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(document["python"], found)
    for each, array in explanation.arrays.items():
        if array.role == "gradient":
            np.testing.assert_array_equal(found[each[1:]].grad.numpy(), array.values, each)
    if document["gradcheck"] is not None:
        assert explanation.case.exact
        exec(document["gradcheck"], found)
        found[f"test_the_gradient_of_{name}"]()


@pytest.mark.parametrize("name", sampled(start=2))
def test_other_settings(name: str) -> None:
    check(drawn(find(name), np.random.default_rng(zlib.crc32(name.encode()))))


@pytest.mark.nightly
@pytest.mark.parametrize("name", names())
def test_many_settings(name: str) -> None:
    check_whole(name)
    rng = np.random.default_rng(7)
    for _ in range(30):
        check(drawn(find(name), rng))


@pytest.mark.parametrize("name", ["conv2d", "lstm", "layer_norm", "avg_pool2d", "linear"])
@pytest.mark.parametrize("fault", ["lost", "moved", "scaled"])
def test_a_planted_fault_is_seen(name: str, fault: str) -> None:
    explanation = find(name).with_settings({})
    target = "gx"
    first = explanation.sums[target][0]
    values = first.values(first.index[:, 1:], {name: array.values for name, array in explanation.arrays.items()})
    row, index = int(np.abs(values).argmax()), first.index.copy()
    if fault == "lost":
        broken = replace(first, rows=lambda entry: np.delete(index, row, 0))
    elif fault == "moved":
        index[row, 0] = (index[row, 0] + 1) % explanation.arrays[target].values.size
        broken = replace(first, rows=lambda entry: index)
    else:
        broken = replace(first, scale=1.5)
    explanation.sums[target][0] = broken
    with pytest.raises(AssertionError):
        check(explanation)


def test_names() -> None:
    assert len(set(names())) == len(names()) > 90
    for name in names():
        assert find(name).name == name
    aliases = {
        "nn.Conv2d": "conv2d",
        "F.conv_transpose1d": "conv_transpose1d",
        "LSTM": "lstm",
        "attention": "scaled_dot_product_attention",
        "BatchNorm2d": "batch_norm",
        "nn.LayerNorm": "layer_norm",
        "ReLU": "relu",
        "LogSoftmax": "log_softmax",
        "CrossEntropyLoss": "cross_entropy",
        "RNN": "rnn_tanh",
        "MaxPool3d": "max_pool3d",
        "AdaptiveAvgPool2d": "adaptive_avg_pool2d",
        "lowbit.Sign": "Sign",
        "sign": "sign",
        "lsq": "LSQ",
        "max_pool": "max_pool2d",
        "RMSNorm": "rms_norm",
        "nn.MSELoss": "mse_loss",
        "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
        "Embedding": "embedding",
        "PReLU": "prelu",
        "LogSigmoid": "logsigmoid",
        "Linear": "linear",
        "GELU": "gelu",
    }
    assert {alias: find(alias).name for alias in aliases} == aliases
    with pytest.raises(ValueError, match=r"explain: there is no operator 'conv2' here; near: conv2d, conv"):
        find("conv2")
    with pytest.raises(ValueError, match="--list` prints all, such as conv2d, lstm, relu"):
        find("zzzz")
    with pytest.raises(ValueError, match="'dw' is not an operator; the page of conv2d explains it"):
        find("dw")


def test_settings_that_do_not_fit() -> None:
    for name, given, message in (
        ("linear", {"depth": 3}, "explain: linear has no setting 'depth'; it has batch, inputs, outputs, values"),
        ("linear", {"batch": 99}, "explain: batch=99 must be one of 1, 2, 3, 4"),
        ("group_norm", {"num_groups": 4, "channels": 2}, "channels=2 must be a multiple of num_groups=4"),
        ("max_pool2d", {"kernel_size": 2, "padding": 2}, "padding=.* must be at most half of the kernel"),
    ):
        with pytest.raises(ValueError, match=message):
            find(name).with_settings(given)
    x = np.ones((2, 3), np.float32)
    for name, inputs, options, message in (
        ("linear", {"x": x, "w": x}, {"bias": 1}, "explain: linear with bias cannot be explained; known are: none"),
        ("linear", {"x": x, "w": x}, {"batch": 2}, "linear with batch cannot be explained"),  # of the example alone
        ("conv1d", {"x": x[None], "w": x[None]}, {"strides": 2}, "conv1d with strides cannot .* known are: stride,"),
        ("conv1d", {"x": x[None], "w": x[None]}, {"output_padding": 1}, "conv1d with output_padding cannot"),
        ("layer_norm", {"x": x}, {"shape": 3}, "layer_norm with shape cannot be .* known are: normalized_shape, eps"),
        ("lstm", {"x": x}, {"proj_size": 2}, "lstm with proj_size cannot be explained; known are: none"),
        ("cross_entropy", {"x": x, "t": x}, {}, "cross_entropy can be explained only for targets that are classes"),
        (
            "mse_loss",
            {"x": x, "t": x[0]},
            {},
            r"mse_loss can be explained only for equal shapes; the shapes are \(2, 3\) and",
        ),
        ("embedding", {"x": x, "w": x}, {}, "explain: embedding takes integer indices; x has the dtype float32"),
        (
            "scaled_dot_product_attention",
            {"q": x, "k": x[None], "v": x},
            {},
            "can be explained only for equal leading axes",
        ),
        (
            "scaled_dot_product_attention",
            {"q": x, "k": x, "v": x, "attn_mask": x},
            {},
            r"attn_mask has the shape \(2, 3\), which does not broadcast to the scores \(2, 2\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            find(name).case(inputs, options)


@pytest.mark.parametrize("mask", ["bool", "float"])
def test_attention_with_a_mask(mask: str) -> None:
    explanation = find("scaled_dot_product_attention").with_settings({"attn_mask": mask})
    check(explanation)
    values = {name: array.values for name, array in explanation.arrays.items()}
    if mask == "float":
        np.testing.assert_allclose(values["gattn_mask"], values["gs"].sum(0), rtol=1e-5, atol=1e-6)
    else:
        assert np.array_equal(values["p"] > 0, np.broadcast_to(values["attn_mask"], values["p"].shape))


def explained(name: str, inputs: dict[str, Any], **options: Any) -> Explanation:
    """Return the explanation of arrays passed by the user."""
    return of_case(find(name).case({key: np.asarray(value) for key, value in inputs.items()}, options))


def of_case(case: Case) -> Explanation:
    """With random upstream gradients."""
    y = case.call(*[rg.Tensor(array.values) for array in case.inputs.values()]).numpy()
    return Explanation(case, np.random.default_rng(3).standard_normal(y.shape).astype(y.dtype))


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.nightly)])
def test_the_users_own_arrays(dtype: str) -> None:
    x, w = normal(2, 3, 4, dtype=dtype), normal(5, 4, seed=1, dtype=dtype)
    check(explained("linear", {"x": x, "w": w}))
    check(explained("linear", {"x": x[0, 0], "w": w, "b": w[:, 0]}))
    check(explained("layer_norm", {"x": x, "w": x[0], "b": x[1]}, normalized_shape=(3, 4)))
    check(explained("layer_norm", {"x": x}, normalized_shape=4, eps=0.1))
    check(explained("layer_norm", {"x": x, "b": x[0, 0]}))
    check(explained("rms_norm", {"x": x}))
    check(explained("batch_norm", {"x": x}))
    check(explained("batch_norm", {"x": x, "w": x[0, :, 0]}))
    running = {"running_mean": x[0, :, 1], "running_var": x[0, :, 2] ** 2}
    check(explained("batch_norm", {"x": x, **running, "b": x[0, :, 0]}, training=False))
    check(explained("batch_norm", {"x": x, **running}, training=True))
    check(explained("batch_norm", {"x": x}, training=False))  # by its own statistics, as PyTorch
    check(explained("instance_norm", {"x": x, "b": x[0, :, 0]}))
    check(explained("group_norm", {"x": normal(2, 6, 2, 1, 2, dtype=dtype)}, num_groups=3))
    check(explained("softmax", {"x": x}, dim=1))
    check(explained("log_softmax", {"x": x}, dim=0))
    check(explained("cross_entropy", {"x": x, "t": [[0, 2, 1, 0], [2, 2, 1, 0]]}, reduction="none"))
    check(explained("cross_entropy", {"x": x[0, 0], "t": 2}))
    for options in ({}, {"is_causal": True}, {"scale": 0.3}):
        operands = {"q": x, "k": normal(2, 5, 4, seed=2, dtype=dtype), "v": normal(2, 5, 3, seed=3, dtype=dtype)}
        check(explained("scaled_dot_product_attention", operands, **options))
    seen = np.array([[True] * 5, [False] * 5, [True, False] * 2 + [True]])  # the second query sees nothing
    for mask in (seen, normal(5, seed=4, dtype=dtype), normal(2, 1, 5, seed=5, dtype=dtype)):
        check(explained("scaled_dot_product_attention", operands | {"attn_mask": mask}, scale=0.3))
    image = normal(1, 2, 5, 7, dtype=dtype)
    kernels = normal(4, 1, 2, 3, seed=6, dtype=dtype)
    for padding in ("same", "valid", "causal", ((1, 0), (0, 2))):
        check(explained("conv2d", {"x": image, "w": kernels}, padding=padding, groups=2, stride=(1, 2)))
    crossed = {"x": image, "w": kernels[:2]}
    check(explained("conv_transpose2d", crossed, stride=2, output_padding=(1, 0), padding=[0, 1]))
    check(explained("max_pool2d", {"x": image}, kernel_size=(2, 3), stride=(2, 1), padding=(0, 1), ceil_mode=True))
    check(explained("avg_pool2d", {"x": image[0]}, kernel_size=[3, 2], divisor_override=5, padding=1))
    check(explained("avg_pool2d", {"x": image}, kernel_size=3, stride=2, ceil_mode=True, count_include_pad=False))
    check(explained("adaptive_avg_pool2d", {"x": image}, output_size=(3, 4)))
    check(explained("adaptive_max_pool2d", {"x": image[0]}, output_size=2))
    weights = {"x": normal(3, 2, 4, dtype=dtype), "w_ih": normal(8, 4, dtype=dtype), "w_hh": normal(8, 2, dtype=dtype)}
    check(explained("lstm", weights))
    first = {"h0": normal(1, 2, 2, seed=4, dtype=dtype), "c0": normal(1, 2, 2, seed=5, dtype=dtype)}
    check(explained("lstm", weights | first))
    check(explained("lstm", weights | {"c0": first["c0"]}))
    check(explained("rnn_tanh", {"x": weights["x"], "w_ih": w[:2], "w_hh": w[2:4, :2], "h0": first["h0"]}))
    for name in ("mse_loss", "l1_loss", "binary_cross_entropy_with_logits"):
        check(explained(name, {"x": x, "t": abs(normal(2, 3, 4, seed=9, dtype=dtype))}, reduction="sum"))
    check(explained("embedding", {"x": [[0, 4, 4], [1, 0, 4]], "w": w}))
    check(explained("embedding", {"x": 3, "w": w}))
    check(explained("prelu", {"x": x, "w": w[:3, 0]}))
    check(explained("prelu", {"x": x, "w": w[0, 0]}))
    check(explained("prelu", {"x": x[0, 0], "w": w[0, :1]}))
    check(explained("PACT", {"x": x[0], "alpha": np.asarray(0.7, dtype)}, bits=3))


def gradient_at(name: str, cell: Any, arrays: dict[str, np.ndarray], t: int, state: str) -> np.ndarray:
    """Return the numerical gradient of a state after step t, by running the later steps from changed states."""
    x, gy, y = (arrays[each].astype(np.float64) for each in ("x", "gy", "y"))
    weights = Weights(*[rg.Tensor(arrays[each].astype(np.float64)) for each in ("w_ih", "w_hh", "b_ih", "b_hh")])
    spec = recurrence(name, name, x.shape[2], y.shape[2])

    def loss(change: np.ndarray) -> float:
        h, c = y[t], arrays["c"][t] if "c" in cell.states else None
        if state == "gc":
            c = c + change
            h = arrays["o"][t] * np.tanh(c)
        else:
            h = h + change
        total = (gy[t] * h).sum()
        if t + 1 < len(x):
            states = [None if each is None else rg.Tensor(each[None]) for each in (h, c)]
            total += (gy[t + 1 :] * recurrent_layer(rg.Tensor(x[t + 1 :]), *states, (weights,), spec)[0].numpy()).sum()
        return float(total)

    found = np.zeros(y.shape[1:])
    for entry in np.ndindex(found.shape):
        change = np.zeros_like(found)
        change[entry] = 1e-6
        found[entry] = (loss(change) - loss(-change)) / 2e-6
    return found


@pytest.mark.parametrize("name", CELLS)
def test_gradients_of_the_states(name: str) -> None:
    """gh and gc of every step are derivatives of the loss, and the kept share is the product of the gates."""
    explanation = find(name).with_settings({"batch": 2, "units": 3})
    arrays = {key: array.values for key, array in explanation.arrays.items()}
    for t in range(len(arrays["y"])):
        for state in ("gh", "gc") if name == "lstm" else ("gh",):
            expected = gradient_at(name, CELLS[name], arrays, t, state)
            np.testing.assert_allclose(arrays[state][t], expected, atol=1e-5, err_msg=f"{state} {t}")
    gate = {"lstm": "f", "gru": "z"}.get(name)
    if gate:
        assert np.all(arrays["kept"][-1] == 1)
        np.testing.assert_allclose(arrays["kept"][0], arrays[gate][1:].prod(0))
        entry = explanation.entry("kept", (0, 1, 2))
        (product,) = entry.products
        assert [factor[:2] for factor in product.factors] == [(gate, (t, 1, 2)) for t in (1, 2, 3)]
    time = [key for key, array in explanation.arrays.items() if array.view == "time"]
    assert time == [*CELLS[name].about]
    np.testing.assert_allclose(arrays["h"], arrays["y"], atol=1e-6)
    assert explanation.entry("y", (1, 1, 2)).products[0].factors[0][:2] == ("h", (1, 1, 2))


def test_two_ways_into_the_cell_state() -> None:
    explanation = find("lstm").with_settings({})
    entry = explanation.entry("gc", (1, 0, 1))
    through_output, through_state = ([name for name, _, _ in product.factors] for product in entry.products)
    assert through_output == ["gh", "o", "slope_c"] and through_state == ["gc", "f"]
    assert [at for _, at, _ in entry.products[1].factors] == [(2, 0, 1), (2, 0, 1)]
    assert explanation.case.formulas["gc"] == (
        "gc[t, n, h] = gh[t, n, h] · o[t, n, h] · slope_c[t, n, h] + gc[t + 1, n, h] · f[t + 1, n, h]"
    )
    assert len(explanation.entry("gc", (3, 0, 1)).products) == 1  # nothing comes after the last step


def test_states_before_the_first_step() -> None:
    explanation = find("lstm").with_settings({"initial_state": "True"})
    formulas = explanation.case.formulas
    assert formulas["c"] == (
        "c[t, n, h] = f[t, n, h] · c[t − 1, n, h] + i[t, n, h] · g[t, n, h]\nc[0, n, h] += f[0, n, h] · c0[0, n, h]"
    )
    assert formulas["gc0"] == "gc0[0, n, h] = gc[0, n, h] · f[0, n, h]"
    assert formulas["gw_hh"].splitlines()[4] == "gw_hh[i, h, j] += Σ ga_i[0, n, h] · h0[0, n, j]   over n"
    assert explanation.case.source == "nn.LSTM(2, 2)(x, (h0, c0))[0]"
    assert find("gru").with_settings({"initial_state": "True"}).case.source == "nn.GRU(2, 2)(x, h0)[0]"


def test_every_quantizer_is_there() -> None:
    kinds = {
        name
        for name in lowbit.__all__
        if isinstance(kind := getattr(lowbit, name), type)
        and issubclass(kind, lowbit.Quantizer)
        and kind is not lowbit.Quantizer
    }
    assert kinds and kinds <= set(names())
    assert not any(find(name).with_settings({}).case.exact for name in kinds)


def test_every_function_of_one_number_is_there() -> None:
    aliases = {
        "absolute": "abs",
        "sgn": "sign",
        "fix": "trunc",
        "arccos": "acos",
        "arccosh": "acosh",
        "arcsin": "asin",
        "arcsinh": "asinh",
        "arctan": "atan",
        "arctanh": "atanh",
        "negative": "neg",
        "positive": "",
    }
    known, seen = set(names()), set()
    for family in FAMILIES:
        for name in family.__all__:
            x = rg.Tensor(np.full((2, 3), 0.5), requires_grad=True)
            try:
                y = getattr(family, name)(x * 1 if name.endswith("_") else x)
            except (TypeError, ValueError):  # it takes another operand, or numbers
                continue
            if isinstance(y, rg.Tensor) and y.requires_grad:
                assert aliases.get(name, name.removesuffix("_")) in known | {""}, name
                seen.add(name)
    assert len(seen) > 60 and {"pow", "clamp", "threshold"} <= known


@pytest.mark.parametrize("name", sampled([*pointwise.OPERATORS, *quantizers.OPERATORS], start=4))
def test_curves(name: str) -> None:
    """Where a gradient is the derivative, both curves coincide; all curves have the points of x."""
    explanation = find(name).with_settings({})
    curves = explanation.to_dict(whole=False)["curves"]
    found = {line["kind"]: np.array(line["values"], float) for line in curves["lines"]}
    assert list(found) == ["function", "derivative", "declared"] and {len(each) for each in found.values()} == {240}
    assert np.all(np.diff(curves["x"]) > 0) and curves["lines"][0]["name"] == name
    size = np.abs(found["declared"]).max()
    apart = np.abs(found["derivative"] - found["declared"])
    assert apart.max() < 1e-5 * max(size, 1) if explanation.case.exact else apart.max() > 0.1 * size > 0


def test_the_backward_in_words() -> None:
    for name, given, words in (
        ("silu", {}, "the derivative of y at x; the backward is g s (1 + x (1 - s)) with s = sigmoid(x)"),
        ("sign", {"rule": "clipped"}, "the backward is g where -limit <= x <= limit, 0 elsewhere"),
        ("Sign", {"gradient": "identity"}, "the declared slope, in place of the derivative"),
        ("PACT", {}, "the declared slope, in place of the derivative, which is 0 nearly everywhere"),
    ):
        slope = next(each for key, each in find(name).with_settings(given).arrays.items() if key.startswith("slope"))
        assert words in slope.about, name


def test_curves_of_a_sign() -> None:
    curves = find("Sign").with_settings({}).to_dict(whole=False)["curves"]
    x = np.array(curves["x"])
    function, derivative, declared = (line["values"] for line in curves["lines"])
    np.testing.assert_array_equal(function, np.where(x < 0, -1, 1))
    assert not any(derivative)
    np.testing.assert_array_equal(declared, abs(x) <= 1)
    other = find("sign").with_settings({"rule": "clipped"})
    curves = other.to_dict(whole=False)["curves"]
    assert not other.case.exact
    np.testing.assert_array_equal(curves["lines"][2]["values"], np.abs(curves["x"]) <= 1)
    assert other.case.source == "rg.override_backward(rg.sign, 'clipped')(lambda x: rg.sign(x))(x)"


class Twice(rg.autograd.Function):
    """2 x, with the gradient 3 g."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
        return g * 3


@rg.formula
def swish(x, beta: float = 1.0):
    return x * rg.sigmoid(beta * x)


@rg.formula
def slanted(x, y):
    return x * y + y


def users(*args: Any, **options: Any) -> Explanation:
    return of_case(of_function(*args, **options))


def test_functions_of_the_user() -> None:
    x, w = normal(2, 3), normal(3, 4, seed=1)
    wrong = users(Twice.apply, [x], "twice", exact=False)
    check(wrong)
    np.testing.assert_array_equal(wrong.arrays["slope"].values, np.full((2, 3), 3))
    np.testing.assert_allclose(wrong.numerical("gx"), 2 * wrong.gy.ravel(), rtol=1e-5)
    assert [line["values"][0] for line in wrong.to_dict(whole=False)["curves"]["lines"][1:]] == [pytest.approx(2), 3]
    check(users(swish, {"x": x}))
    two = users(slanted, [x, x[0]])
    check(two)
    assert list(two.case.inputs) == ["x", "x2"]  # y is the result
    product = users(lambda x, w: x @ w, {"x": rg.Tensor(x), "w": w}, "product")
    check(product)
    assert product.case.curve is None and product.arrays["J_w"].values.shape == (8, 12)
    assert len(product.entry("gw", (1, 2)).products) == 2
    check(users(lambda x: (x * x).sum(), [x]))
    check(users(lambda x, index: x[index], {"x": x, "index": np.array([1, 0, 1])}))
    check(users(lambda a, b: a * 2, {"a": x, "b": w}))  # b is not used
    for call in (lambda x: x.reshape(2, 3) * 2, lambda x: x * rg.tensor(w[:2, :3])):  # of this shape only
        assert users(call, [x]).case.curve is None
    assert users(swish, [np.full((2,), np.inf, np.float32)]).case.curve is None

    def guided(x: rg.Tensor) -> rg.Tensor:
        with rg.override_backward(nn.functional.relu, lambda g, x: g * 0.5):
            return nn.functional.relu(x)

    guide = Explanation(of_function(guided, [x], exact=False), normal(2, 3, seed=5))
    check(guide)
    assert guide.numerical("gx").any()  # without a warning that no call was recorded
    assert guide.case.source == "guided(x)" and np.all(guide.arrays["slope"].values == 0.5)


def test_functions_that_cannot_be_explained() -> None:
    x = normal(2, 3)
    for call, inputs, error, message in (
        (3, [x], TypeError, "explain: 3 cannot be called; give a function of Tensors"),
        (abs, [], ValueError, "explain: inputs is empty; give at least one array"),
        (abs, [np.array(["a"])], TypeError, "explain: x.* is <U1, needs an array of numbers"),
        (lambda x: (x, x), [x], TypeError, "returns tuple, needs one Tensor; choose one with a lambda"),
        (lambda x: x > 0, [x], ValueError, "has no gradient to any input; give floating-point arrays"),
        (lambda x: x, [np.ones(5000, np.float32)], ValueError, "has 5000 results for up to 5000 entries"),
        (lambda x: x[:600], [np.ones(2000, np.float32)], ValueError, "600 results for up to 2000 entries"),
    ):
        with pytest.raises(error, match=message):
            of_function(call, inputs)


@pytest.mark.parametrize("name", sampled(start=3))
def test_the_rows_of_one_entry_are_those_among_all(name: str) -> None:
    explanation = drawn(find(name), np.random.default_rng(11))
    for target, products in explanation.sums.items():
        size = explanation.arrays[target].values.size
        for each in products:
            for entry in {0, size // 2, size - 1}:
                expected = each.index[each.index[:, 0] == entry, 1:]
                assert sorted(each.of(entry).tolist()) == sorted(expected.tolist()), (target, entry)


def test_entries_of_real_sizes() -> None:
    """The rows of one entry are computed without those of all others, which are too many."""
    x, w = normal(32, 1024), normal(1024, 1024, seed=1)
    entry = explained("linear", {"x": x, "w": w}).entry("gw", (1000, 17))
    assert len(entry.products) == 32 and entry.total == pytest.approx(entry.value, abs=1e-3)
    image = normal(2, 16, 56, 56)
    pooled = explained("avg_pool2d", {"x": image}, kernel_size=3, stride=1)
    assert len(pooled.entry("gx", (1, 15, 20, 20)).products) == 9
    assert len(pooled.entry("gx", (1, 15, 0, 55)).products) == 1


@pytest.mark.parametrize(
    "name",
    [
        "softmax",
        "log_softmax",
        "cross_entropy",
        "scaled_dot_product_attention",
        "batch_norm",
        "instance_norm",
        "group_norm",
        "layer_norm",
        "rms_norm",
        "rnn_tanh",
        "rnn_relu",
        "lstm",
        "gru",
        *(f"{kind}{n}d" for kind in ("max_pool", "avg_pool") for n in (1, 2, 3)),
    ],
)
def test_common_mistakes(name: str) -> None:
    """Each bug makes a gradient wrong, and gradcheck finds it; afterwards the kernels are restored."""
    explanation = find(name).with_settings({"stride": 1} if "pool" in name else {})
    outcomes = explanation.outcomes()
    assert len({each.fault.name for each in outcomes}) == len(outcomes) > 0
    for each in outcomes:
        assert each.wrong and not each.error, each.fault.name
        assert "gradcheck" in each.report and each.diagnosis, each.fault.name
    check(explanation)
