"""retrograd.interop.torch: operators, rules and layers of retrograd in PyTorch's graph."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from peers.compare import normal
from retrograd.interop.torch import Layer, from_torch, function, to_torch

F = rg.nn.functional


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.tensor(normal(*shape, seed=seed), requires_grad=True)


@rg.formula
def squareplus(x: Any, b: float) -> Any:
    return (x + (x * x + b).sqrt()) * 0.5


def doubled(true: Any, g: Any) -> Any:
    gx, gw = true(g)
    return gx * 2.0, gw * g.sum()


@function
def ruled(x: Any, w: Any) -> Any:
    with rg.override_backward(F.linear, doubled):
        return F.linear(x, w)


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "conv2d": (lambda *a: function(F.conv2d)(*a, stride=2, padding=1), [leaf(2, 2, 4, 4), leaf(3, 2, 3, 3), leaf(3)]),
    "conv1d causal": (lambda *a: function(F.conv1d)(*a, padding="causal"), [leaf(1, 2, 5), leaf(3, 2, 3)]),
    "formula": (lambda x: function(squareplus)(x, 4.0), [leaf(3, 2)]),
    "several results": (function(lambda x, y: (x * y, x.sin(), y)), [leaf(3), leaf(3, seed=1)]),
    "no tensor alone": (function(lambda x, pairs: x * pairs["w"][0]), [leaf(3), leaf(3, seed=1)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    run, inputs = FUNCTIONS[name]
    if name == "no tensor alone":
        whole, run = run, lambda x, w: whole(x, {"w": [w, None]})
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


def test_a_third_derivative() -> None:
    def derived(conv: Any) -> Any:
        x, w = leaf(1, 2, 4, 4), leaf(2, 2, 3, 3)
        total: Any = conv(x, w).pow(4).sum()
        for _ in range(2):
            total = sum(g.pow(2).sum() for g in torch.autograd.grad(total, (x, w), create_graph=True))
        return torch.autograd.grad(total, (x, w))

    for ours, theirs in zip(derived(function(F.conv2d)), derived(torch.nn.functional.conv2d), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_rule() -> None:
    """The rule of the call is the backward; its own derivative is that of what it computes."""
    x, w, g = leaf(4, 3), leaf(2, 3), leaf(4, 2, seed=1)
    gx, gw = torch.autograd.grad(ruled(x, w), (x, w), g, create_graph=True)
    torch.testing.assert_close(gx, 2.0 * g @ w)
    torch.testing.assert_close(gw, g.T @ x * g.sum())

    def gradients(x: Any, w: Any, g: Any) -> Any:
        return torch.autograd.grad(ruled(x, w), (x, w), g, create_graph=True)

    assert torch.autograd.gradcheck(gradients, (x, w, g))


def test_memory_is_shared() -> None:
    seen = []
    x = torch.randn(3)
    y = function(lambda a: (seen.append(a), a + 1)[1])(x)
    assert seen[0].array.ctypes.data == x.data_ptr()
    kept = rg.ones(3)
    assert function(lambda: kept)().data_ptr() == kept.data_ptr()
    assert y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    "view",
    [lambda a: a, lambda a: a.reshape(3, 2), lambda a: a.expand(2, 2, 3), lambda a: a[:, 1:], lambda a: a.flip(0)],
)
def test_a_view_of_an_argument_is_a_copy(view: Any) -> None:
    x = leaf(2, 3)
    before, y = x.detach().clone(), function(view)(x)
    y.sum().backward()
    y.detach().zero_()
    assert torch.equal(x.detach(), before)
    assert x.grad is not None


def test_memory_that_pytorch_cannot_show_is_copied() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    backwards = function(lambda a: rg.Tensor(a.array[::-1, ::-1]))
    assert torch.equal(backwards(x), x.flip(0, 1))
    free = np.arange(4.0)[::-1]
    assert torch.equal(function(lambda: rg.Tensor(free))(), torch.tensor(free.copy()))


def test_gradients_share_no_memory() -> None:
    """PyTorch keeps the first gradient and adds the others in place."""
    add = function(lambda a, b: a + b)
    p, q, g = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.ones(3)
    for _ in range(3):
        add(p, q).backward(g)
    assert [t.tolist() for t in (p.grad, q.grad, g)] == [[3.0] * 3, [3.0] * 3, [1.0] * 3]


def test_strides_and_broadcast_gradients() -> None:
    x, w = leaf(4, 5, 5, 2), leaf(3, 2, 3, 3)
    assert torch.autograd.gradcheck(lambda x, w: function(F.conv2d)(x.permute(0, 3, 1, 2), w).sum(), (x, w))


def test_arguments_and_results_of_other_kinds() -> None:
    x = leaf(2, 3)

    def run(d: Any, power: int, *, name: str, none: Any = None) -> Any:
        assert (name, none) == ("n", None)
        return {"y": d["x"] ** power, "rest": [d["x"].max(1), d["x"].argmax(), None, name]}

    y = function(run)({"x": x}, 2, name="n")
    values, indices = y["rest"][0]
    assert type(y["rest"][0]).__name__ == "Extremes" and y["rest"][2:] == [None, "n"]
    assert indices.dtype == torch.int64 and not indices.requires_grad and not y["rest"][1].requires_grad
    (y["y"].sum() + values.sum()).backward()
    expected = 2 * x.detach() + torch.nn.functional.one_hot(indices, 3)
    torch.testing.assert_close(x.grad, expected)


def test_integers_and_what_needs_no_gradient() -> None:
    weight, places = leaf(5, 3), torch.tensor([[1, 0], [4, 1]])
    embedded = function(F.embedding)(places, weight)
    embedded.sum().backward()
    assert weight.grad is not None and weight.grad[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0, 1.0]
    x, w = leaf(2, 3), torch.randn(4, 3, dtype=torch.float64)
    function(F.linear)(x, w).sum().backward()
    assert x.grad is not None and w.grad is None
    assert not function(F.linear)(x.detach(), w).requires_grad


def test_a_gradient_that_is_none() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    first, second = function(lambda a, b: (a * 2, b * 3))(x, y)
    assert torch.autograd.grad(first.sum(), (x, y), allow_unused=True, retain_graph=True)[1] is None
    second.sum().backward()
    assert x.grad is None and torch.equal(y.grad, torch.full((3,), 3.0, dtype=torch.float64))


def test_one_tensor_twice() -> None:
    x = leaf(3)
    function(lambda a, b: a * b)(x, x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    same, again = function(lambda a: (a * 2,) * 2)(x)
    assert same is again


def test_recording_is_pytorchs_flag() -> None:
    exp, x = function(rg.exp), leaf(3)
    with torch.no_grad():
        assert not exp(x).requires_grad
    with torch.inference_mode():
        assert exp(x).is_inference()
    with rg.no_grad():
        assert exp(x).requires_grad
    with rg.inference_mode():
        assert exp(x).requires_grad and rg.is_inference_mode_enabled()
    assert rg.is_grad_enabled()


def test_hooks() -> None:
    x, seen = leaf(3), []
    y = function(rg.exp)(x)
    y.register_hook(lambda g: seen.append(g) or g * 2)
    y.retain_grad()
    assert re.fullmatch("RetrogradCallBackward", y.grad_fn.name())
    y.sum().backward()
    assert len(seen) == 1
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())


def test_threads() -> None:
    x, w = leaf(1, 2, 6, 6), leaf(2, 2, 3, 3)
    conv = function(F.conv2d)
    y = conv(x, w).pow(2).sum()
    expected = torch.autograd.grad(y, (x, w), retain_graph=True)
    found: list[Any] = []

    def work() -> None:
        with rg.no_grad():  # ours is a flag of each thread, PyTorch's too
            found.append(torch.autograd.grad(y, (x, w), retain_graph=True))
            found.append(torch.autograd.grad(conv(x, w).pow(2).sum(), (x, w)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for gradients in found:
        assert all(torch.equal(a, b) for a, b in zip(gradients, expected, strict=True))


def test_checkpoint_of_pytorch() -> None:
    from torch.utils.checkpoint import checkpoint

    for reentrant in (True, False):
        x = leaf(3)
        checkpoint(lambda a: function(rg.exp)(a.sin()), x, use_reentrant=reentrant).sum().backward()
        torch.testing.assert_close(x.grad, (x.sin().exp() * x.cos()).detach())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # PyTorch asks for it itself
def test_the_compiler_of_pytorch() -> None:
    x, w = leaf(2, 3), leaf(4, 3)
    compiled = torch.compile(lambda x, w: function(F.linear)(x.sin(), w) * 2, backend="eager")
    y = compiled(x, w)
    torch.testing.assert_close(y, x.sin() @ w.T * 2)
    y.sum().backward()
    assert w.grad is not None


# ---- the second backward, changes in place -------------------------------------------------------------------


def test_backward_twice() -> None:
    x = leaf(3)
    y = function(rg.exp)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())
    with pytest.raises(RuntimeError, match="freed by an earlier backward; pass retain_graph=True"):
        y.backward()


def test_the_graph_is_freed_by_backward() -> None:
    freed: list[int] = []

    class Noted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            import weakref

            constant = np.ones(3)
            weakref.finalize(constant, freed.append, 1)
            ctx.save_for_backward(constant)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    y = function(Noted.apply)(leaf(3))
    y.sum().backward(retain_graph=True)
    assert not freed
    y.sum().backward()
    assert freed and y is not None


@pytest.mark.parametrize("name", ["sin", "sigmoid"])
def test_a_change_of_what_backward_needs(name: str) -> None:
    x = leaf(3) * 1
    y = function(getattr(rg, name))(x)
    (x if name == "sin" else y).mul_(2)
    with pytest.raises(RuntimeError, match=rf"{name}: a tensor that its backward needs, torch.float64 of shape \(3,\)"):
        y.sum().backward()


def test_a_change_of_what_backward_does_not_need() -> None:
    x = leaf(3)
    z = x * 1
    y = function(lambda a: a + 1)(z)
    z.mul_(2)
    y.relu_()
    y.sum().backward()
    torch.testing.assert_close(x.grad, (x.detach() + 1 > 0).double())


# ---- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        *(
            (torch.ones(2, dtype=kind), f"exp: argument 0 is {kind}, and retrograd computes in float32 and float64")
            for kind in (torch.float16, torch.bfloat16, torch.complex64, torch.uint16)
        ),
        (torch.ones(2, device="meta"), "exp: argument 0 is on the device meta and has no values"),
        (torch.eye(2).to_sparse(), r"layout torch.sparse_coo; use tensor.to_dense\(\)"),
    ],
    ids=str,
)
def test_tensors_that_are_refused(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        function(rg.exp)(tensor)
    if tensor.dtype == torch.float16:
        with pytest.raises(TypeError, match="linear: argument weight is torch.float16"):
            function(F.linear)(torch.ones(2), weight=tensor)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # PyTorch's own
def test_transforms_are_refused() -> None:
    exp, x = function(rg.exp), torch.ones(2, 2)
    for transformed in (torch.vmap(exp), torch.func.grad(lambda a: exp(a).sum())):
        with pytest.raises(TypeError, match=r"exp: argument 0 has no array, as within torch.vmap and torch.func.grad"):
            transformed(x)
    forward = torch.autograd.forward_ad
    with forward.dual_level(), pytest.raises(TypeError, match="exp: argument 0 carries a tangent"):
        exp(forward.make_dual(x, x))


def test_gradients_that_pytorch_would_not_see() -> None:
    hidden, x = rg.ones(3, dtype=rg.float64, requires_grad=True), leaf(3)
    times = function(lambda a: a * hidden)
    message = "the result depends on a retrograd Tensor that requires a gradient, which PyTorch would not see"
    with pytest.raises(RuntimeError, match=message):
        times(x.detach())
    with pytest.raises(RuntimeError, match=message):
        times(x).sum().backward()
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(times(x).sum(), x, create_graph=True)
    with torch.no_grad():
        assert not times(x).requires_grad
    assert hidden.grad is None


def test_errors_pass_through() -> None:
    with pytest.raises(ValueError, match="conv2d: input has 2 channels, weight expects 3"):
        function(F.conv2d)(torch.ones(1, 2, 3, 3), torch.ones(2, 3, 1, 1))

    class Broken(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ZeroDivisionError("no gradient today")

    with pytest.raises(ZeroDivisionError, match="no gradient today"):
        function(Broken.apply)(leaf(3)).sum().backward()
    sparse = function(lambda a: a.to_sparse())
    with pytest.raises(TypeError, match=r"the result is sparse, which .* given; use result.to_dense\(\)"):
        sparse(torch.eye(2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: function(rg.nn.Linear(2, 2)), TypeError, r"operator is a Linear, a Module; use Layer\(module\)"),
        (lambda: function(3), TypeError, "function: operator is int, expected a function of Tensors"),
        (lambda: Layer(torch.nn.Linear(2, 2)), TypeError, "Layer: module is Linear, expected a retrograd.nn.Module"),
        (lambda: Layer(rg.nn.LazyLinear(2)), ValueError, "Layer: LazyLinear.weight has no shape yet"),
        (lambda: from_torch(3), TypeError, "from_torch: tensor is int"),
        (lambda: from_torch(leaf(3)), RuntimeError, "from_torch: tensor requires grad"),
        (lambda: from_torch(torch.ones(2, dtype=torch.bfloat16)), TypeError, "from_torch: tensor is torch.bfloat16"),
        (lambda: to_torch(3), TypeError, "to_torch: tensor is int"),
        (lambda: to_torch(rg.ones(2, requires_grad=True)), RuntimeError, "requires grad"),
        (lambda: to_torch(rg.ones(1).expand(3)), ValueError, r"to_torch: .* read-only, .* tensor.clone\(\)"),
        (lambda: to_torch(rg.Tensor(np.ones(3)[::-1])), ValueError, "to_torch: .* read backwards"),
    ],
)
def test_arguments_that_are_refused(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("retrograd.interop.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="PyTorch is not installed: pip install torch"):
        import retrograd.interop.torch  # noqa: F401
