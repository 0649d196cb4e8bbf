from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import manual_seed, nn, no_grad, optim
from retrograd.autograd import gradcheck, gradgradcheck
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
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (weight_norm, ("weight_g", "weight_v")),
        (parametrizations.weight_norm, ("parametrizations.weight.original0", "parametrizations.weight.original1")),
    ],
)
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
    with pytest.raises(ValueError, match="Linear has no parameter 'w'; it has weight, bias"):
        parametrize.register_parametrization(layer, "w", Double())
    with pytest.raises(ValueError, match=r"'weight' is float32 of shape \(2, 3\), its parametrization gives"):
        parametrize.register_parametrization(layer, "weight", Shorter())
    with pytest.raises(ValueError, match="has no parametrization"):
        parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)  # nothing was lost
    with pytest.raises(ValueError, match="weight_norm: Linear has no parameter 'w'"):
        weight_norm(layer, "w")
    for compute in weight_norm, spectral_norm, parametrizations.weight_norm, parametrizations.spectral_norm:
        with pytest.raises(ValueError, match=r"Linear has no parameter \[\]"):
            compute(layer, [])  # type: ignore[arg-type]
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
    with pytest.raises(ValueError, match="'weight' has a parametrization already, and a further .*_WeightNorm:"):
        parametrizations.weight_norm(layer)
    with pytest.raises(ValueError, match=r"'weight' is float32 of shape \(2, 3\), its parametrization gives"):
        parametrize.register_parametrization(layer, "weight", Shorter())
    with pytest.raises(TypeError, match="register_parametrization: unsafe"):
        parametrize.register_parametrization(layer, "weight", Half(), unsafe=1)  # type: ignore[arg-type]
    assert len(layer.parametrizations.weight) == 1
    with pytest.raises(ValueError, match="has 2 originals; use leave_parametrized=True"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


# ---- checkpoints and pickles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"), [(weight_norm, parametrizations.weight_norm), (spectral_norm, parametrizations.spectral_norm)]
)
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
    with pytest.raises(RuntimeError, match="Unexpected key"):
        second.load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(3, 5), (2, 3)),
        (nn.Linear(5, 3), (2, 5)),
        (nn.Conv2d(2, 3, 2), (2, 2, 4, 4)),
        (nn.ConvTranspose1d(3, 4, 2), (2, 3, 4)),
    ],
)
def test_a_spectral_norm_from_before_it_saved_v(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """A state from before PyTorch 1.0 has the normalized weight instead of weight_v."""
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


# ---------------------------------------------------------------- orthogonal

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 3, 4), (2, 2, 3, 3), (1, 1), (1, 3), (3, 1)]
MAPS = ["matrix_exp", "cayley", "householder"]


class Holder(nn.Module):
    def __init__(self, weight: np.ndarray) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.copy())


def assert_orthonormal(w: np.ndarray, tolerance: float = 1e-13) -> None:
    tall = w if w.shape[-2] >= w.shape[-1] else w.swapaxes(-1, -2)
    one = np.broadcast_to(np.eye(tall.shape[-1]), (*w.shape[:-2], tall.shape[-1], tall.shape[-1]))
    np.testing.assert_allclose(tall.swapaxes(-1, -2) @ tall, one, atol=tolerance)


def naive_map(x: np.ndarray, kind: str) -> np.ndarray:
    """Map one matrix: the exponential as a series, the Cayley map with an inverse, reflections one by one."""
    if x.shape[0] < x.shape[1]:
        return naive_map(x.T, kind).T
    (m, n), q = x.shape, np.eye(len(x))
    if kind == "householder":
        for k in range(n):
            v = np.concatenate((np.zeros(k), [1.0], x[k + 1 :, k]))
            q = q @ (np.eye(m) - 2 * np.outer(v, v) / (v @ v))
        return q[:, :n] * np.sign(np.diagonal(x))
    lower = np.zeros((m, m))
    lower[:, :n] = np.tril(x)
    a = lower - lower.T
    if kind == "cayley":
        return ((np.eye(m) + a / 2) @ np.linalg.inv(np.eye(m) - a / 2))[:, :n]
    term = q
    for k in range(1, 60):
        term = term @ a / k
        q = q + term
    return q[:, :n]


@pytest.mark.pairwise
@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orthogonal(shape: tuple[int, ...], kind: str, trivial: bool) -> None:
    manual_seed(0)
    start = numbers(*shape)
    module = parametrizations.orthogonal(Holder(start), "weight", kind, use_trivialization=trivial)
    original = module.parametrizations.weight.original
    w = module.weight.array
    assert w.shape == shape and original.array.shape == shape
    assert_orthonormal(w)
    if trivial or kind == "householder":  # the Q of W = Q R: QT W is a triangle with a positive diagonal
        tall = (lambda t: t) if shape[-2] >= shape[-1] else (lambda t: t.swapaxes(-1, -2))
        r = tall(w).swapaxes(-1, -2) @ tall(start)
        np.testing.assert_allclose(r, np.triu(r), atol=1e-13)
        assert (np.diagonal(r, axis1=-2, axis2=-1) > 0).all()
    if trivial:
        assert_orthonormal(module.parametrizations.weight[0].base.array)
    original.array[...] += 0.5 * numbers(*shape, seed=1) * (1 - np.eye(*shape[-2:]))
    w = module.weight.array
    assert_orthonormal(w)
    base = module.parametrizations.weight[0].base.array if trivial else np.eye(max(shape[-2:]))
    base = np.broadcast_to(base, (*shape[:-2], *base.shape[-2:]))
    for place in np.ndindex(shape[:-2]):
        q = naive_map(original.array[place], kind)
        wanted = base[place] @ q if shape[-2] >= shape[-1] else q @ base[place].T
        np.testing.assert_allclose(w[place], wanted, atol=1e-13)

    layer = module.parametrizations.weight[0]
    x = Tensor(original.array.copy(), requires_grad=True)
    assert gradcheck(layer, [x]) and gradgradcheck(layer, [x])


@pytest.mark.parametrize("trivial", [True, False])
def test_an_orthogonal_weight_stays(trivial: bool) -> None:
    for shape in ((4, 4), (5, 3), (3, 5)):
        w = np.linalg.qr(numbers(5, 5))[0][: shape[0], : shape[1]]
        w = w if shape != (4, 4) else np.linalg.qr(numbers(4, 4))[0]
        module = parametrizations.orthogonal(Holder(w), orthogonal_map="householder", use_trivialization=trivial)
        np.testing.assert_allclose(module.weight.array, w, atol=1e-14)
        other = np.linalg.qr(numbers(5, 5, seed=3))[0][: shape[0], : shape[1]] if shape != (4, 4) else -w
        module.weight = Tensor(other)  # as right_inverse has it
        np.testing.assert_allclose(module.weight.array, other, atol=1e-14)
        assert list(module.state_dict()) == ["parametrizations.weight.original"] + trivial * [
            "parametrizations.weight.0.base"
        ]
    one = parametrizations.orthogonal(Holder(np.eye(4, 3)), use_trivialization=trivial)  # no reflection is needed
    np.testing.assert_allclose(one.weight.array, np.eye(4, 3), atol=1e-15)


@pytest.mark.parametrize("kind", [None, *MAPS])
def test_an_orthogonal_layer_trains_and_loads(kind: str | None) -> None:
    manual_seed(1)
    first, second = (parametrizations.orthogonal(nn.Linear(5, 3), orthogonal_map=kind) for _ in range(2))
    assert first.parametrizations.weight[0].orthogonal_map == (kind or "householder")
    assert parametrizations.orthogonal(nn.Linear(3, 3)).parametrizations.weight[0].orthogonal_map == "matrix_exp"
    x = Tensor(numbers(4, 5).astype(np.float32))
    optimizer = optim.SGD(first.parameters(), lr=0.1, weight_decay=0.1)  # which moves the diagonal, not its signs
    before = first.weight.array.copy()
    for _ in range(3):
        optimizer.zero_grad()
        (first(x) - 1).square().sum().backward()
        optimizer.step()
    assert first.weight.dtype == np.float32 and not np.allclose(first.weight.array, before, atol=1e-3)
    assert_orthonormal(first.weight.array, 1e-5)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second(x).array, first(x).array)
    np.testing.assert_array_equal(copy.deepcopy(first)(x).array, first(x).array)
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pickle.dumps(first)
    w = first.weight.array.copy()
    parametrize.remove_parametrizations(first, "weight")
    np.testing.assert_array_equal(first.weight.array, w)


def test_messages_of_orthogonal() -> None:
    orthogonal = parametrizations.orthogonal
    for call, kind, message in (
        (lambda: orthogonal(3), TypeError, "orthogonal: module is int, needs a Module"),  # type: ignore[arg-type]
        (lambda: orthogonal(nn.Linear(2, 2), "w"), ValueError, "orthogonal: Linear has no parameter 'w'"),
        (lambda: orthogonal(nn.Linear(2, 2), 3), ValueError, "Linear has no parameter 3"),  # type: ignore[arg-type]
        (lambda: orthogonal(nn.Linear(2, 2), "bias"), ValueError, r"orthogonal: 'bias' has shape \(2,\); it must be a"),
        (
            lambda: orthogonal(nn.Linear(2, 2), orthogonal_map="exp"),
            ValueError,
            "orthogonal_map='exp' must be one of 'matrix_exp', 'cayley', 'householder'",
        ),
        (lambda: orthogonal(nn.Linear(2, 2), use_trivialization=3), TypeError, "use_trivialization"),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind, match=message):
            call()
    layer = orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="assigned to the map 'cayley' without use_trivialization, .*take"):
        layer.weight = Tensor(np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match=r"orthogonal: the weight has shape \(2, 2\), it cannot be set to \(3, 2\)"):
        orthogonal(nn.Linear(2, 2)).weight = Tensor(np.ones((3, 2), np.float32))


# ---------------------------------------------------------------- assignments


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Halved(Doubled):
    def right_inverse(self, x: Tensor) -> Tensor:
        return x / 2 if x.array.ndim == 2 else x.sum()


def test_assigned_values_go_through_right_inverse() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Halved())
    original, value = layer.parametrizations.weight.original, Tensor(numbers(2, 3).astype(np.float32))
    layer.weight = value
    assert layer.parametrizations.weight.original is original and original.requires_grad
    np.testing.assert_array_equal(original.array, value.array / 2)
    np.testing.assert_array_equal(layer.weight.array, value.array)
    assert len(layer.parametrizations.weight) == 1 and [*layer.parametrizations.weight] == [
        layer.parametrizations.weight[0]
    ]
    with pytest.raises(ValueError, match=r"right_inverse of Halved gives tensors of \(shape, dtype\) .*the originals"):
        layer.weight = Tensor(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="right_inverse: value is float, needs a Tensor"):
        layer.weight = 3.0
    normed = parametrizations.weight_norm(nn.Linear(3, 2))
    normed.weight = value
    np.testing.assert_allclose(normed.weight.array, value.array, rtol=1e-6)
    plain = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Doubled())
    with pytest.raises(RuntimeError, match="Doubled has no right_inverse, so the tensor .*write that method"):
        plain.weight = value
    with pytest.raises(AttributeError, match="Linear: weight is computed from other parameters and cannot be assigned"):
        weight_norm(nn.Linear(3, 2)).weight = value


@pytest.mark.parametrize("wrap", [spectral_norm, parametrizations.spectral_norm])
def test_a_backward_that_needs_the_vectors_from_before_a_power_iteration_is_refused(wrap: Any) -> None:
    layer = wrap(nn.Linear(3, 2))
    u = layer.weight_u if wrap is spectral_norm else layer.parametrizations.weight[0]._u
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    loss = (x * u).sum()
    layer(Tensor(np.ones((1, 3), np.float32)))
    with pytest.raises(RuntimeError, match="changed by spectral_norm"):
        loss.backward()


# ---------------------------------------------------------------- several parametrizations of one parameter; caching


class Softened(nn.Module):
    """tanh, which has an inverse."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        return x.tanh()

    def right_inverse(self, x: Tensor) -> Tensor:
        return x.atanh()


def test_a_further_parametrization_gets_the_value_of_those_before() -> None:
    layer = nn.Linear(3, 2)
    start = layer.weight.array.copy()
    parametrize.register_parametrization(layer, "weight", Half())
    parametrize.register_parametrization(layer, "weight", Softened())
    computed = layer.parametrizations.weight
    assert len(computed) == 2 and [type(each) for each in computed] == [Half, Softened]
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    np.testing.assert_array_equal(computed.original.array, start / 2)
    np.testing.assert_allclose(layer.weight.array, np.tanh(start), rtol=1e-6)
    g = numbers(2, 3, seed=1).astype(np.float32)
    layer.weight.backward(Tensor(g))
    np.testing.assert_allclose(computed.original.grad.array, g * (1 - np.tanh(start) ** 2) * 2, rtol=1e-5, atol=1e-6)
    value = np.tanh(numbers(2, 3, seed=2)).astype(np.float32)
    layer.weight = Tensor(value)
    np.testing.assert_allclose(computed.original.array, np.arctanh(value) / 2, rtol=1e-4)
    np.testing.assert_allclose(layer.weight.array, value, rtol=1e-4)
    parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_allclose(layer.weight.array, value, rtol=1e-4)
    assert type(layer) is nn.Linear


def test_normalizations_follow_each_other() -> None:
    layer = parametrizations.spectral_norm(parametrizations.weight_norm(nn.Linear(4, 3))).eval()
    assert abs(np.linalg.svd(layer.weight.array)[1][0] - 1) < 1e-3
    twice = parametrizations.orthogonal(parametrizations.orthogonal(nn.Linear(3, 3)))
    assert_orthonormal(twice.weight.array, 1e-6)


def test_the_right_inverse_of_a_further_parametrization_gives_one_tensor() -> None:
    class Split(Double):
        def right_inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    class Cut(Double):
        def right_inverse(self, x: Tensor) -> Tensor:
            return x[:1]

    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Double())
    with pytest.raises(ValueError, match="has a right_inverse, which gives tuple, needs one Tensor"):
        parametrize.register_parametrization(layer, "weight", Split())
    with pytest.raises(
        ValueError, match=r"a right_inverse, which gives float32 of shape \(1, 3\); they must be equal$"
    ):
        parametrize.register_parametrization(layer, "weight", Cut())
    assert len(layer.parametrizations.weight) == 1


def test_an_unsafe_parametrization_may_change_the_shape_and_is_not_called() -> None:
    class First(nn.Module):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            First.calls += 1
            return x[:1].double()

    layer = nn.Linear(3, 2, bias=False)
    with pytest.raises(ValueError, match="gives float64 .*or pass unsafe=True"):
        parametrize.register_parametrization(layer, "weight", First())
    before = First.calls
    parametrize.register_parametrization(layer, "weight", First(), unsafe=True)
    assert First.calls == before
    assert layer.weight.shape == (1, 3) and layer.weight.dtype == np.float64
    parametrize.register_parametrization(layer, "weight", Double(), unsafe=True)
    np.testing.assert_array_equal(layer.weight.array, 2 * layer.parametrizations.weight.original.array[:1])


def test_cached_values_are_computed_once_and_never_stale() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Softened())
    x, original = Tensor(numbers(4, 3).astype(np.float32)), layer.parametrizations.weight.original
    with parametrize.cached():
        start = Softened.calls
        first = layer.weight
        with parametrize.cached():
            (layer(x) + layer(x)).sum().backward()
        assert layer.weight is first and Softened.calls == start + 1
        slope = 1 - np.tanh(original.array.astype(float)) ** 2
        np.testing.assert_allclose(original.grad.array, 2 * slope * x.array.sum(0), rtol=1e-4)
        with no_grad():
            assert not layer.weight.requires_grad
            original.mul_(0.5)
        np.testing.assert_allclose(layer.weight.array, np.tanh(original.array), rtol=1e-6)
        layer.parametrizations.weight.original = nn.Parameter(Tensor(np.ones((2, 3), np.float32)))
        np.testing.assert_allclose(layer.weight.array, np.tanh(1), rtol=1e-6)
    start = Softened.calls
    assert layer.weight is not layer.weight and Softened.calls == start + 2


class Scaled(nn.Module):
    """Has a parameter, a buffer and another formula in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(Tensor(np.full(1, 2.0, np.float32)))
        self.register_buffer("uses", Tensor(np.zeros(1, np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        with no_grad():
            self.uses.add_(1.0)
        return x * self.scale if self.training else x


def test_cached_values_depend_on_the_parametrizations() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Scaled())
    computed = layer.parametrizations.weight
    start, uses = computed.original.array.copy(), computed[0].uses
    with parametrize.cached():
        before = uses.item()
        assert layer.weight is layer.weight and uses.item() == before + 1  # its own change is none
        with no_grad():
            computed[0].scale.mul_(2.0)
        np.testing.assert_array_equal(layer.weight.array, 4 * start)
        layer.eval()
        np.testing.assert_array_equal(layer.weight.array, start)
        parametrize.register_parametrization(layer, "weight", Half(), unsafe=True)
        np.testing.assert_array_equal(layer.weight.array, 2 * start)
        computed[0].uses.add_(1.0)
        before = uses.item()
        assert layer.weight is layer.weight and uses.item() == before + 1


def test_a_compiled_layer_within_cached_sees_new_values() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Softened())
    fast, x = retrograd.compile(layer), Tensor(numbers(4, 3).astype(np.float32))
    with parametrize.cached(), no_grad():
        for _ in range(5):
            np.testing.assert_allclose(fast(x).array, layer(x).array, rtol=1e-6)
            layer.parametrizations.weight.original.add_(0.1)
