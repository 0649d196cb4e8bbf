"""Module hooks: their order, their arguments, and the changes they may make."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, nn


class Affine(nn.Module):
    """x * factor + shift; a module whose forward is not the package's."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(np.array([factor]))

    def forward(self, x: Tensor, shift: Any = 0.0) -> Tensor:
        return x * self.factor + shift


class Pair(nn.Module):
    def forward(self, x: Tensor, y: Tensor, n: int = 1) -> tuple[Tensor, Tensor]:
        return x * y, y * float(n)


def leaf(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float64), requires_grad=True)


def numbers(items: Any) -> list[Any]:
    return [None if item is None else item.tolist() for item in items]


@pytest.mark.parametrize("kind", ["module of the user", "layer"])
def test_forward_hooks(kind: str) -> None:
    module, seen = (Affine(1.0) if kind == "module of the user" else nn.Identity()), []
    handles = [
        module.register_forward_pre_hook(lambda m, args: (args[0] + 1.0,)),
        module.register_forward_pre_hook(lambda m, args: args[0] * 10.0),  # no tuple: one argument
        module.register_forward_pre_hook(lambda m, args: seen.append((m is module, args[0].tolist()))),
        module.register_forward_hook(lambda m, args, y: seen.append((args[0].tolist(), y.tolist()))),
        module.register_forward_hook(lambda m, args, y: y + 0.5),
    ]
    assert module(leaf(1, 2)).tolist() == [20.5, 30.5]
    assert seen == [(True, [20, 30]), ([20, 30], [20, 30])]
    for handle in handles:
        handle.remove()
    assert module(leaf(1, 2)).tolist() == [1, 2] and len(seen) == 2


def test_prepend_and_removal() -> None:
    module, seen = nn.ReLU(), []
    module.register_forward_hook(lambda *a: seen.append(1))
    module.register_forward_hook(lambda *a: seen.append(2))
    with module.register_forward_hook(lambda *a: seen.append(0), prepend=True):
        module(leaf(1))
    module(leaf(1))
    assert seen == [0, 1, 2, 1, 2]


def test_with_kwargs() -> None:
    module, seen = Affine(2.0), []
    module.register_forward_pre_hook(lambda m, a, k: (a, {"shift": k["shift"] + 1}), with_kwargs=True)
    module.register_forward_hook(lambda m, a, k, y: seen.append((len(a), k)), with_kwargs=True)
    assert module(leaf(1), shift=4).tolist() == [7] and seen == [(1, {"shift": 5})]
    module.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple \(args, kwargs\)"):
        module(leaf(1), shift=4)


def test_always_call() -> None:
    module, seen = nn.Linear(2, 2), []
    module.register_forward_hook(lambda m, a, y: seen.append("plain"))
    module.register_forward_hook(lambda m, a, y: seen.append(y), always_call=True)
    with pytest.raises(ValueError, match=r"Linear\(in_features=2.*\): linear"):
        module(rg.ones(1, 3))
    assert seen == [None]

    def fail(m: Any, a: Any, y: Any) -> None:
        raise ZeroDivisionError("in the hook")

    module.register_forward_hook(fail, always_call=True)
    with pytest.raises(ValueError, match="linear"), pytest.warns(UserWarning, match="in the hook"):
        module(rg.ones(1, 3))


def test_full_backward_hooks() -> None:
    module, seen = Pair(), []
    module.register_full_backward_pre_hook(lambda m, g: seen.append(("pre", numbers(g))))
    module.register_full_backward_hook(lambda m, gi, go: seen.append(("full", numbers(gi), numbers(go))))
    x, y = leaf(2), leaf(3)
    a, _ = module(x, y, 7)
    (a * 5.0).backward()
    assert seen == [("pre", [[5], None]), ("full", [[15], [10], None], [[5], None])]
    assert (x.grad.tolist(), y.grad.tolist()) == ([15], [10])
    seen.clear()
    a, b = module(x.detach(), y, 7)
    (a + b).backward()
    assert seen == [("pre", [[1], [1]]), ("full", [None, [9], None], [[1], [1]])]


def test_backward_hooks_replace_gradients() -> None:
    module, x = Affine(3.0), leaf(2)
    module.register_full_backward_pre_hook(lambda m, g: g[0] * 10.0)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1.0,))
    module(x).backward()
    assert x.grad.tolist() == [31] and module.factor.grad.tolist() == [20]


def test_where_no_input_requires_a_gradient() -> None:
    module, seen = Affine(3.0), []
    handle = module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, numbers(go))))
    module(Tensor(np.array([2.0]))).backward()
    assert seen == [((None,), [[1]])] and module.factor.grad.tolist() == [2]
    handle.remove()
    module.register_full_backward_hook(lambda m, gi, go: go)
    with pytest.raises(RuntimeError, match="no input requires a gradient, so the hook must return None"):
        module(Tensor(np.array([2.0]))).backward()


def test_twice_differentiable() -> None:
    module, x = Affine(3.0), leaf(2)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * gi[0],))
    (g,) = rg.autograd.grad(module(x * x) * x, x, create_graph=True)  # h(3x)·2x + 3x², h(v) = v²: 18x³ + 3x²
    assert g.tolist() == [18 * 8 + 12]
    # d/dx 18x³ = 54x²; the way from 3x² goes through the module and its hook again: h(3)·2x
    assert rg.autograd.grad(g, x)[0].tolist() == [54 * 4 + 9 * 4]


def test_what_backward_hooks_refuse() -> None:
    module, x = nn.Identity(), leaf(2)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    y = module(x)
    with pytest.raises(RuntimeError, match="the hook returned 2 gradients, expected 1"):
        y.backward()
    with pytest.raises(RuntimeError, match="add_: x is a view that was made"):
        y.add_(1.0)
    with pytest.warns(UserWarning, match="got dict; gradients of other outputs bypass the hooks"):
        module({"x": x})
    for name in ("forward", "forward_pre", "full_backward", "full_backward_pre"):
        with pytest.raises(TypeError, match="hook must be a function, got int"):
            getattr(module, f"register_{name}_hook")(1)


def test_no_grad_runs_forward_hooks_only() -> None:
    module, seen = Affine(3.0), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append("backward"))
    module.register_forward_hook(lambda m, a, y: seen.append("forward"))
    with rg.no_grad():
        assert not module(leaf(2)).requires_grad
    assert seen == ["forward"]


def test_copies_share_no_hooks_later_and_state_is_untouched() -> None:
    module, seen = nn.Linear(1, 1), []
    module.register_forward_hook(lambda m, a, y: seen.append(m))
    other = copy.deepcopy(module)
    other.register_forward_hook(lambda m, a, y: seen.append("other"))
    other(rg.ones(1, 1))
    assert seen == [other, "other"] and list(module.state_dict()) == ["weight", "bias"]
    module(rg.ones(1, 1))
    assert seen[2:] == [module]


def test_the_module_path_of_an_error_in_a_hook() -> None:
    model = nn.Sequential(nn.Identity(), nn.ReLU())

    def fail(*_: Any) -> None:
        raise ValueError("no")

    model[1].register_forward_pre_hook(fail)
    with pytest.raises(ValueError, match=r"in 1 \(ReLU\(\)\): no"):
        model(leaf(1))
