from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from retrograd import manual_seed, nn, optim
from retrograd.autograd import gradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn.utils import (
    parametrizations,
    parametrize,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def norm_of_slices(w: np.ndarray, dim: int | None) -> np.ndarray:
    if dim is None:
        return np.sqrt((w * w).sum())
    return np.sqrt((w * w).sum(tuple(a for a in range(w.ndim) if a != dim), keepdims=True))


@pytest.mark.pairwise
@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize(("make", "names"), [(weight_norm, ("weight_g", "weight_v")),
                                             (parametrizations.weight_norm, ("parametrizations.weight.original0",
                                                                             "parametrizations.weight.original1"))])
def test_weight_norm(make: Any, names: tuple[str, str], dim: int | None) -> None:
    layer = nn.Conv2d(3, 4, 2, dtype=np.float64)
    x, before = numbers(2, 3, 4, 4), layer.weight.array.copy()
    y = layer(Tensor(x)).array
    assert make(layer, dim=dim) is layer
    assert list(layer.state_dict()) == ["bias", *names]
    members = dict(layer.named_parameters())
    g, v = members[names[0]], members[names[1]]
    np.testing.assert_allclose(g.array, norm_of_slices(before, dim))
    np.testing.assert_array_equal(v.array, before)
    np.testing.assert_allclose(layer(Tensor(x)).array, y)  # nothing has changed yet
    v.array *= 3.0
    np.testing.assert_allclose(layer(Tensor(x)).array, y)  # the length of v does not matter
    g.array *= 2.0
    np.testing.assert_allclose(layer.weight.array, 2 * before)

    def forward(length: Tensor, direction: Tensor) -> Tensor:
        changed = copy.deepcopy(layer)
        for name, value in zip(names, (length, direction), strict=True):
            path, _, last = name.rpartition(".")
            dict(changed.named_modules())[path].__dict__[last] = value
        return changed(Tensor(x))

    assert gradcheck(forward, [Tensor(g.array, requires_grad=True), Tensor(v.array, requires_grad=True)])


def test_a_layer_with_weight_norm_trains_and_loads() -> None:
    first, second = weight_norm(nn.Linear(3, 2)), weight_norm(nn.Linear(3, 2))
    x = Tensor(numbers(4, 3).astype(np.float32))
    optimizer = optim.SGD(first.parameters(), lr=0.1)
    before = first.weight.array.copy()
    (first(x) * first(x)).sum().backward()
    assert first.weight_g.grad is not None and first.weight_v.grad is not None
    optimizer.step()
    assert not np.allclose(first.weight.array, before)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second(x).array, first(x).array)
    assert repr(first) == "Linear(in_features=3, out_features=2, bias=True)" and isinstance(first, nn.Linear)


def test_remove_weight_norm() -> None:
    layer = weight_norm(nn.Linear(3, 2))
    layer.weight_g.array[...] = 2.0
    weight, other = layer.weight.array, copy.deepcopy(layer)
    assert remove_weight_norm(layer) is layer and type(layer) is nn.Linear
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(layer.weight.array, weight)
    np.testing.assert_array_equal(other.weight.array, weight)  # a copy goes on as it was
    with pytest.raises(ValueError, match="remove_weight_norm: Linear has no weight norm of 'weight'"):
        remove_weight_norm(layer)


@pytest.mark.parametrize(
    ("layer", "dim"), [(nn.Linear(5, 4), 0), (nn.Conv2d(3, 4, 2), 0), (nn.ConvTranspose2d(3, 4, 2), 1)]
)
def test_spectral_norm(layer: Any, dim: int) -> None:
    manual_seed(1)
    layer = copy.deepcopy(layer).double()
    weight = layer.weight.array.copy()
    parametrizations.spectral_norm(layer)
    key = "parametrizations.weight."
    assert list(layer.state_dict()) == ["bias", key + "original", key + "0._u", key + "0._v"]
    assert [name for name, _ in layer.named_parameters()] == ["bias", key + "original"]
    sigma = np.linalg.svd(np.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1), compute_uv=False)[0]
    for _ in range(300):  # each use in training is a step of the power method
        found = layer.weight
    np.testing.assert_allclose(found.array, weight / sigma, rtol=1e-6)
    layer.eval()
    state = {name: tensor.array.copy() for name, tensor in layer.state_dict().items()}
    np.testing.assert_array_equal(layer.weight.array, layer.weight.array)
    for name, tensor in layer.state_dict().items():
        np.testing.assert_array_equal(tensor.array, state[name])  # eval mode moves nothing

    def computed(original: Tensor) -> Tensor:
        u, v = state[key + "0._u"], state[key + "0._v"]
        changed = copy.deepcopy(layer)
        changed.parametrizations.weight.__dict__["original"] = original
        assert np.array_equal(changed.parametrizations.weight.__dict__["0"]._u.array, u) and v.size
        return changed.weight

    assert gradcheck(computed, [Tensor(weight, requires_grad=True)])


def test_spectral_norm_of_a_vector() -> None:
    layer = nn.LayerNorm(3)
    layer.weight.array[...] = [3.0, 0.0, 4.0]
    parametrizations.spectral_norm(layer)
    np.testing.assert_allclose(layer.weight.array, [0.6, 0.0, 0.8])


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2.0


class Half(Double):
    def right_inverse(self, x: Tensor) -> Tensor:
        return x * 0.5


def test_register_parametrization() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.array.copy()
    parametrize.register_parametrization(layer, "weight", Half())
    parametrize.register_parametrization(layer, "bias", Double())
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert type(layer).__name__ == "ParametrizedLinear"
    np.testing.assert_array_equal(layer.weight.array, before)
    np.testing.assert_array_equal(layer.parametrizations.weight.original.array, before / 2)
    layer(Tensor(numbers(4, 3).astype(np.float32))).sum().backward()
    np.testing.assert_allclose(layer.parametrizations.bias.original.grad.array, 8.0)
    parametrize.remove_parametrizations(layer, "weight")
    assert not parametrize.is_parametrized(layer, "weight") and parametrize.is_parametrized(layer, "bias")
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert type(layer) is nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]
    assert isinstance(layer.weight, nn.Parameter) and not parametrize.is_parametrized(layer)
    np.testing.assert_array_equal(layer.weight.array, before)


def test_messages() -> None:
    class Shorter(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:1]

    layer = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="Linear has no parameter 'w'"):
        parametrize.register_parametrization(layer, "w", Double())
    with pytest.raises(ValueError, match=r"'weight' is float32 of shape \(2, 3\), its parametrization gives"):
        parametrize.register_parametrization(layer, "weight", Shorter())
    with pytest.raises(ValueError, match="has no parametrization"):
        parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)  # nothing was lost
    with pytest.raises(ValueError, match="weight_norm: Linear has no parameter 'w'"):
        weight_norm(layer, "w")
    with pytest.raises(IndexError, match="weight_norm: dim=2 is out of range"):
        weight_norm(layer, dim=2)
    with pytest.raises(ValueError, match="spectral_norm: Linear has no parameter 'w'"):
        parametrizations.spectral_norm(layer, "w")
    with pytest.raises(IndexError, match="spectral_norm: dim=2 is out of range"):
        parametrizations.spectral_norm(layer, dim=2)
    with pytest.raises(ValueError, match="n_power_iterations=0 must be an int of at least 1"):
        parametrizations.spectral_norm(layer, n_power_iterations=0)
    assert isinstance(layer.weight, nn.Parameter)
    parametrizations.weight_norm(layer)
    with pytest.raises(ValueError, match="already has a parametrization"):
        parametrizations.weight_norm(layer)
    with pytest.raises(ValueError, match="has 2 originals; use leave_parametrized=True"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


# ---- checkpoints and pickles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(weight_norm, parametrizations.weight_norm),
                                          (spectral_norm, parametrizations.spectral_norm)])  # fmt: skip
def test_a_checkpoint_of_the_older_form(old: Any, new: Any) -> None:
    first, second = (nn.Sequential(nn.Linear(2, 3), form(nn.Conv2d(3, 4, 2))) for form in (old, new))
    for parameter in first.parameters():
        parameter.array[...] = numbers(*parameter.shape)
    x = Tensor(numbers(2, 3, 4, 4).astype(np.float32))
    state = first.state_dict()
    assert second.load_state_dict(state) == ([], []) and list(state) == list(first.state_dict())
    assert np.array_equal(first.eval()[1](x).array, second.eval()[1](x).array)
    assert second.load_state_dict(second.state_dict()) == ([], [])  # the newer names are taken, too
    del state["1.weight_v"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"1.parametrizations.weight.original'):
        second.load_state_dict(state)
    parametrize.remove_parametrizations(second[1], "weight")
    with pytest.raises(RuntimeError, match='Unexpected key'):
        second.load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(3, 5), (2, 3)), (nn.Linear(5, 3), (2, 5)), (nn.Conv2d(2, 3, 2), (2, 2, 4, 4)),
        (nn.ConvTranspose1d(3, 4, 2), (2, 3, 4)),
    ],
)  # fmt: skip
def test_a_spectral_norm_from_before_it_saved_v(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """Such a state has the normalized weight in place of weight_v."""
    first = nn.Sequential(spectral_norm(copy.deepcopy(layer), n_power_iterations=3))
    x = Tensor(numbers(*shape).astype(np.float32))
    first(x)
    first.eval()
    state = dict(first.state_dict())
    v = state.pop("0.weight_v").array
    older = {**state, "0.weight": first[0].weight.detach()}
    for second in (nn.Sequential(spectral_norm(copy.deepcopy(layer))), copy.deepcopy(first)):
        second[0].weight_v.array[...] = 0
        assert second.load_state_dict(older) == ([], []) and "0.weight" in older
        np.testing.assert_allclose(second.eval()(x).array, first(x).array, rtol=1e-4, atol=1e-6)
        if isinstance(layer, nn.Linear) and layer.out_features > layer.in_features:  # then v is unique
            np.testing.assert_allclose(second[0].weight_v.array, v, rtol=1e-4, atol=1e-5)
        for part, message in (("0.weight", "Missing key.*0.weight_v"), ("0.weight_u", 'Unexpected key.*"0.weight"')):
            with pytest.raises(RuntimeError, match=message):
                second.load_state_dict({key: value for key, value in older.items() if key != part})
        with pytest.raises(RuntimeError, match="0.weight_u"):
            second.load_state_dict({**older, "0.weight_u": Tensor(np.ones(7, np.float32))})


@pytest.mark.parametrize("clone", [lambda net: pickle.loads(pickle.dumps(net)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("form", [weight_norm, spectral_norm])
def test_the_older_form_can_be_pickled(form: Any, clone: Any) -> None:
    layer = form(form(nn.Bilinear(3, 2, 4)), "bias") if form is weight_norm else form(nn.ConvTranspose1d(3, 4, 2))
    net = nn.Sequential(layer).eval()
    x = (Tensor(numbers(5, 3).astype(np.float32)), Tensor(numbers(5, 2).astype(np.float32)))
    x = x if form is weight_norm else (Tensor(numbers(5, 3, 4).astype(np.float32)),)
    again = clone(net[0])
    assert isinstance(again, type(layer).__mro__[1]) and list(again.state_dict()) == list(layer.state_dict())
    assert np.array_equal(again(*x).array, layer(*x).array)
    g = next(again.parameters())
    if clone is not copy.copy:
        g.array[...] *= 2
        assert not np.array_equal(again(*x).array, layer(*x).array)
    remove = remove_weight_norm if form is weight_norm else remove_spectral_norm
    if clone is not copy.copy:
        remove(again)
        assert "weight" in dict(again.named_parameters())


def test_the_newer_form_is_copied_but_not_pickled() -> None:
    layer = parametrizations.weight_norm(weight_norm(nn.Bilinear(3, 2, 4), "bias"))
    with pytest.raises(RuntimeError, match=r"ParametrizedBilinear cannot be pickled: .*pickle its state_dict\(\)"):
        pickle.dumps(nn.Sequential(layer))
    for other in (copy.deepcopy(layer), copy.copy(layer), copy.deepcopy(nn.Sequential(layer))[0]):
        assert type(other) is type(layer) and np.array_equal(other.weight.array, layer.weight.array)
    parametrize.remove_parametrizations(layer, "weight")
    assert np.array_equal(pickle.loads(pickle.dumps(layer)).weight.array, layer.weight.array)
