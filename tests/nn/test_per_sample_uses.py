"""Per-sample gradients: refused uses of parameters and refused layers, and the context of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from nn.test_per_sample_layers import Half, LoRA, Positive, Several, U, agree, close, indices, normal, weighted
from retrograd import Tensor, nn
from retrograd.nn.utils import per_sample_gradients
from retrograd.utils.checkpoint import checkpoint


def both(model: nn.Module, run: Callable[[], Tensor], match: str) -> None:
    """Check that both forms raise and set no gradients."""
    with pytest.raises(ValueError, match=match):
        per_sample_gradients(model, run)
    with pytest.raises(ValueError, match=match), per_sample_gradients(model):
        run().sum().backward()
    assert all(p.grad is None and getattr(p, "grad_sample", None) is None for p in model.parameters())
    assert not any(any(each._hooks.values()) for each in model.modules() if hasattr(each, "_hooks"))


def rows(y: Tensor) -> Tensor:
    return weighted(y, (0,))


def test_a_parameter_used_outside_its_layer() -> None:
    layer, x = nn.Linear(3, 3), normal(4, 3).float()
    outside = r"the parameter weight is used by .*, outside the forward of its layer, .*; use it in the forward of the "
    both(layer, lambda: rows(layer(x).double() + (x @ layer.weight).double()), outside + "module that owns it, or fre")
    both(layer, lambda: rows(layer(x).double()) + (layer.weight**2).sum().double(), outside)
    both(layer, lambda: rows(layer.forward(x).double()), r"the parameter weight is used by Linear")
    model = nn.Sequential(nn.Embedding(5, 3), nn.Tanh())
    ids = indices(4, 2)
    both(model, lambda: rows(nn.functional.linear(model(ids), model[0].weight).double()), r"the parameter 0\.weight is")
    layer.weight.requires_grad_(False)
    found = per_sample_gradients(layer, lambda: rows(layer(x).double() + (x @ layer.weight).double()))
    assert list(found) == ["bias"]
    bias = nn.Parameter(np.ones(1))
    holder = nn.Module()
    holder.bias = bias
    both(holder, lambda: bias * 2, r"the parameter bias is used by")
    with pytest.raises(ValueError, match=r"the parameter bias is itself differentiated, outside the forward"):
        per_sample_gradients(holder, lambda: bias)


def test_hooks_that_use_parameters() -> None:
    layer, x = nn.Linear(3, 2).double(), normal(4, 3)
    handle = layer.register_forward_hook(lambda m, a, y: y + m.bias)
    with pytest.raises(ValueError, match=r"the parameter bias is used by Add"):
        per_sample_gradients(layer, lambda: rows(layer(x)))
    handle.remove()
    # older code computes a weight in a hook before forward
    original = layer.weight
    del layer.weight
    layer.weight_orig = original
    handle = layer.register_forward_pre_hook(lambda m, a: object.__setattr__(m, "weight", m.weight_orig * 2))
    with pytest.raises(ValueError, match=r"the parameter weight_orig is used by "):
        per_sample_gradients(layer, lambda: rows(layer(x)))
    handle.remove()
    plain = nn.Linear(3, 2).double()
    for kind, options in (("forward", {"prepend": True}), ("forward_pre", {})):
        with per_sample_gradients(plain):
            handle = getattr(plain, f"register_{kind}_hook")(lambda *a: None, **options)
            with pytest.raises(ValueError, match=r"a hook was registered on the module .* register it before"):
                plain(x)
            handle.remove()
            plain.register_forward_hook(lambda m, a, y: y * 2).remove()
            rows(plain(x)).sum().backward()
    assert plain.weight.grad_sample is not None


def test_a_hook_on_a_parameter_runs_for_each_sample() -> None:
    layer, x = nn.Linear(3, 2).double(), normal(4, 3)
    alone = per_sample_gradients(layer, lambda: rows(layer(x)))["weight"].array
    for p in layer.parameters():
        p.register_hook(lambda g: g / (g * g).sum().sqrt())
    expected = alone / np.sqrt((alone**2).sum((1, 2), keepdims=True))
    for model in (layer, U.parametrize.register_parametrization(layer, "bias", Positive())):
        close(per_sample_gradients(model, lambda m=model: rows(m(x)))["weight"].array, expected, "")
        with per_sample_gradients(model):
            rows(model(x)).sum().backward()
        close(layer.weight.grad_sample.array, expected, "")
        model.zero_grad()
    with per_sample_gradients(layer, loss_reduction="mean"):
        rows(layer(x)).mean().backward()
    close(layer.weight.grad_sample.array, expected, "")


def test_a_tensor_that_a_layer_keeps() -> None:
    class Keeps(Half):
        def forward(self, x: Tensor) -> Any:
            self.kept = nn.Linear.forward(self, x)
            self.squares = x * x
            return self.kept * 0.5

    layer, x = Keeps(3, 2), normal(4, 3)
    layer.double()
    message = r"a Tensor that was computed in the forward of the module \(Keeps\(.*\) but not returned by it"
    both(layer, lambda: rows(layer(x)) + layer.kept.sum(1), message)
    agree(layer, x)
    x.requires_grad_(True)
    found = per_sample_gradients(layer, lambda: rows(layer(x)) + layer.squares.sum(1))  # of no parameter
    close(found["weight"].array.sum(0), per_sample_gradients(layer, lambda: rows(layer(x)))["weight"].array.sum(0), "")


def test_layers_that_mix_samples_or_cannot_repeat() -> None:
    class Centered(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y - y.mean(0)

    class Noisy(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + rg.rand(*x.shape).double())

    class Total(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).sum(0)

    class Counts(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) / len(x)

    class Stubborn(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) < 2:
                raise ValueError("two at least")
            return super().forward(x) * 2

    class WithDropout(Half):
        def __init__(self, *sizes: int) -> None:
            super().__init__(*sizes)
            self.drop = nn.Dropout(0.5)

    class WithNorm(Half):
        def __init__(self, *sizes: int) -> None:
            super().__init__(*sizes)
            self.norm = nn.BatchNorm1d(3, affine=False)

    class ByFrequency(Half):
        def __init__(self, *sizes: int) -> None:
            super().__init__(*sizes)
            self.table = nn.Embedding(3, 3, scale_grad_by_freq=True)

    x = normal(4, 3)
    for kind, match in (
        (Centered, r"Centered.* its output for sample 0 alone differs from row 0 .* the batch: its forward mixes the"),
        (Noisy, r"output for sample 0 alone differs from row 0 of its output for the batch"),
        (Counts, r"output for sample 0 alone differs from row 0 of its output for the batch"),
        (Stubborn, r"is run for each sample on its own, but it refused sample 0 alone: two at least"),
        (WithDropout, r"has no rule for its forward, so it is run for each sample on its own, but it draws random"),
        (WithNorm, r"it normalizes over the batch, which mixes the samples; call eval\(\) on it"),
        (ByFrequency, r"scale_grad_by_freq=True, which counts over the whole batch; set it to False"),
    ):
        layer = kind(3, 2).double()
        both(layer, lambda layer=layer: rows(layer(x)), match)
        agree(layer.eval(), x) if kind in (WithDropout, WithNorm) else None
    total = Total(3, 2).double()
    with pytest.raises(ValueError, match=r"output of the module \(Total.* has shape \(2,\), axis 0 must hold the 4 "):
        per_sample_gradients(total, lambda: total(x).sum() + x.sum(1))
    nested = Several(3, 2).double()
    with pytest.raises(ValueError, match=r"must be called with Tensors and return Tensors, alone or in tuples"):
        nested.forward = lambda x: [None]  # type: ignore[method-assign]
        per_sample_gradients(nested, lambda: nested(x))


def test_steps_first() -> None:
    class Model(nn.Module):
        def __init__(self, trained: bool = True) -> None:
            super().__init__()
            self.table, self.lstm = nn.Embedding(5, 2), nn.LSTM(2, 3).requires_grad_(trained)
            self.norm, self.slope, self.head = nn.LayerNorm(3), nn.PReLU(), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.slope(self.norm(self.lstm(self.table(x))[0])))

    agree(Model().double(), indices(5, 3), axis=1)
    agree(Model().double(), indices(2, 3), axis=1)
    match = r"where the samples could be on either of the first two axes; the model has layers with batch_first=False"
    square = Model().double()
    both(square, lambda: weighted(square(indices(3, 3)), (1,)), match)
    frozen = Model(trained=False).double()
    frozen.table.requires_grad_(False)
    found = per_sample_gradients(frozen, lambda: weighted(frozen(indices(5, 3)), (1,)))
    assert found["head.weight"].shape == (3, 2, 3)
    with pytest.raises(ValueError, match=match), per_sample_gradients(frozen):
        weighted(frozen(indices(5, 3)), (1,)).sum().backward()


def test_checkpoints_and_rules_around_changed_layers() -> None:
    model = nn.Sequential(Half(3, 3), nn.Tanh(), LoRA(3, 2), nn.Linear(2, 2)).double()
    x = normal(4, 3)
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    for _ in range(2):
        with per_sample_gradients(model):
            y = checkpoint(lambda x: model[2](model[1](checkpoint(model[0], x))), x)
            weighted(model[3](y), (0,)).sum().backward()
            for name, p in model.named_parameters():
                if p.requires_grad:
                    close(p.grad_sample.array.sum(0), p.grad.array, name)
            assert names == {name for name, p in model.named_parameters() if p.grad_sample is not None}
            model.zero_grad()
            rows(model(x)).sum().backward()  # and the layers are still watched
            assert all(p.grad_sample is not None for p in model.parameters() if p.requires_grad)
            model.zero_grad()
    model[0].backward_rule = doubled
    plain = per_sample_gradients(model, lambda: rows(model(x)))
    model[0].backward_rule = None
    for name, found in per_sample_gradients(model, lambda: rows(model(x))).items():
        close(plain[name].array, found.array * (2 if name.startswith("0") else 1), name)


def doubled(true: Any, g: Tensor) -> Any:
    return tuple(None if each is None else each * 2 for each in true(g))


def test_running_statistics_change_once() -> None:
    layer = U.spectral_norm(nn.Linear(3, 2)).double()
    norm = nn.Sequential(nn.InstanceNorm1d(2, affine=True, track_running_stats=True))
    norm.backward_rule = lambda true, g: true(g)
    norm.double()
    for model, x in ((layer, normal(4, 3)), (norm, normal(4, 2, 5))):
        before = {name: b.array.copy() for name, b in model.named_buffers()}
        rows(model(x))
        once = {name: b.array.copy() for name, b in model.named_buffers()}
        for name, b in model.named_buffers():
            b.array[...] = before[name]
        per_sample_gradients(model, lambda m=model, x=x: rows(m(x)))
        for name, b in model.named_buffers():
            np.testing.assert_array_equal(b.array, once[name])


def test_a_backward_inside_a_backward() -> None:
    """Manual checkpointing: the layer's forward and backward run within the backward of a Function."""
    layer, head = Half(3, 2).double(), nn.Linear(2, 2).double()

    class ByHand(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, one: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return layer(x).detach()

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            with rg.enable_grad():
                layer(x.detach()).backward(g)
            return None, None

    x, one = normal(4, 3), Tensor(np.ones(1), requires_grad=True)
    expected = per_sample_gradients(layer, lambda: rows(head(layer(x))))
    model = nn.Sequential(layer, head)
    with per_sample_gradients(model):
        rows(head(ByHand.apply(x, one))).sum().backward()
    for name, found in expected.items():
        close(getattr(layer, name).grad_sample.array, found.array, name)
    assert head.weight.grad_sample is not None


def test_a_failed_call_leaves_nothing_open() -> None:
    layer, x = nn.Sequential(Half(3, 2)).double(), normal(4, 3)
    with per_sample_gradients(layer):
        with pytest.raises(ValueError, match="linear"):
            layer(normal(4, 5))
        rows(layer(x)).sum().backward()
        close(layer[0].weight.grad_sample.array.sum(0), layer[0].weight.grad.array, "")


def test_layers_called_inside_others_that_do_not_own_them() -> None:
    """The inner layer shares one parameter with the outer one, which is run again for each sample."""

    class Outer(nn.Linear):
        def __init__(self, inner: nn.Linear) -> None:
            super().__init__(3, 3)
            self.call = inner.__call__
            self.bias = inner.bias

        def forward(self, x: Tensor) -> Tensor:
            return self.call(super().forward(x).tanh()) * 2

    inner = nn.Linear(3, 3)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outer, self.inner = Outer(inner), inner

        def forward(self, x: Tensor) -> Tensor:
            return self.outer(x) + self.inner(x)

    agree(Model().double(), normal(4, 3))


def test_an_activation_that_uses_a_parameter_of_its_layer() -> None:
    conv, x = nn.Conv1d(2, 3, 2).double(), normal(4, 2, 5)
    conv.activation = lambda y: y * conv.bias.reshape(3, 1)
    with pytest.raises(ValueError, match=r"the parameter bias is used by .*, a second time in one call of its layer"):
        per_sample_gradients(conv, lambda: rows(conv(x)))


def test_a_patched_class(monkeypatch: pytest.MonkeyPatch) -> None:
    before = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: before(self, x) * 3)
    agree(nn.Linear(3, 2).double(), normal(4, 3))


def test_no_samples() -> None:
    layers = nn.Linear(3, 4), Half(3, 4), nn.Conv1d(3, 4, 1), nn.GroupNorm(1, 3), nn.BatchNorm1d(3).eval(), nn.PReLU()
    for layer in layers:
        x = normal(0, 3) if isinstance(layer, nn.Linear) else normal(0, 3, 5)
        axes = tuple(range(1, x.ndim))
        found = per_sample_gradients(layer.double(), lambda layer=layer, x=x, axes=axes: layer(x).sum(axes))
        for name, rows_of in found.items():
            assert rows_of.shape == (0, *getattr(layer, name).shape)


@pytest.mark.parametrize("fast", [True, False])
def test_which_layers_run_again(fast: bool) -> None:
    """A subclass with its own constructor keeps the rule; one with its own forward runs once more for each sample."""
    runs = []

    class Counted(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)

        def extra_repr(self) -> str:
            return "counted"

    class Forward(Counted):
        def forward(self, x: Tensor) -> Tensor:
            runs.append(x.shape)
            return super().forward(x)

    layer, x = (Counted() if fast else Forward()).double(), normal(4, 3)
    if fast:
        layer.register_forward_hook(lambda m, a, y: runs.append(a[0].shape))
    agree(layer, x)
    runs.clear()
    per_sample_gradients(layer, lambda: rows(layer(x)))
    assert runs == ([(4, 3)] if fast else [(4, 3)] + [(1, 3)] * 4)


def test_a_weight_that_a_hook_computes_is_refused() -> None:
    """As in pruning, a pre-hook computes the weight for each call, so the computation is outside of forward."""
    layer = nn.Linear(3, 4)
    original = layer.weight
    del layer.weight
    layer.register_parameter("weight_orig", original)

    def compute(layer: Any, args: Any) -> None:
        layer.__dict__["weight"] = layer.weight_orig * (layer.weight_orig > 0)

    layer.register_forward_pre_hook(compute)
    model = nn.Sequential(layer)
    message = r"the parameter 0\.weight_orig is used by Mul, .*, outside the forward of its layer"
    with rg.per_sample_gradients(model), pytest.raises(ValueError, match=message):
        model(rg.ones(5, 3)).sum().backward()
    assert original.grad is None
