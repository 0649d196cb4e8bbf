"""einops on Tensors agrees with einops on arrays, whichever library is imported first."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import retrograd as rg

einops = pytest.importorskip("einops")

X = np.random.default_rng(0).normal(size=(2, 3, 4, 6))
PATTERNS: list[tuple[str, tuple[Any, ...], dict[str, int]]] = [
    ("rearrange", ("b c h w -> b (c h w)",), {}),
    ("rearrange", ("b c (h p) (w q) -> b (h w) (p q c)",), {"p": 2, "q": 3}),
    ("rearrange", ("b ... -> ... b 1",), {}),
    ("reduce", ("b c (h p) w -> b c h", "max"), {"p": 2}),
    ("reduce", ("b c h w -> c", "min"), {}),
    ("reduce", ("b c h w -> b 1 1 w", "mean"), {}),
    ("reduce", ("b c h w -> h", "sum"), {}),
    ("reduce", ("b c h w -> b", "prod"), {}),
    ("repeat", ("b c h w -> b (n c) h w k",), {"n": 2, "k": 3}),
]


@pytest.mark.parametrize(("function", "arguments", "axes"), PATTERNS)
def test_functions(function: str, arguments: tuple[Any, ...], axes: dict[str, int]) -> None:
    run = getattr(einops, function)
    x = rg.tensor(X).requires_grad_()
    y = run(x, *arguments, **axes)
    assert isinstance(y, rg.Tensor)
    np.testing.assert_allclose(y.array, run(X, *arguments, **axes), rtol=1e-13)
    assert rg.autograd.gradcheck(lambda x: run(x, *arguments, **axes), [x])


def test_the_other_functions() -> None:
    a, b = rg.tensor(X), rg.tensor(X[:, :1])
    packed, shapes = einops.pack([a, b], "b * h w")
    assert packed.shape == (2, 4, 4, 6)
    first, second = einops.unpack(packed, shapes, "b * h w")
    np.testing.assert_array_equal(first.array, X)
    np.testing.assert_array_equal(second.array, X[:, :1])
    product = einops.einsum(a, a, "b c h w, b d h w -> b c d")
    np.testing.assert_allclose(product.array, np.einsum("bchw,bdhw->bcd", X, X), rtol=1e-12)
    assert einops.parse_shape(a, "b c h _") == {"b": 2, "c": 3, "h": 4}
    with pytest.raises(einops.EinopsError, match="can't divide axis"):
        einops.rearrange(a, "b (c k) h w -> b c k h w", k=2)


def test_layers() -> None:
    from retrograd.interop.einops import EinMix, Rearrange, Reduce

    model = rg.nn.Sequential(
        Rearrange("b c h w -> b h (w c)"),
        EinMix("b h (w c) -> b h (o w)", weight_shape="c o", bias_shape="o", c=3, o=5, w=6),
        Reduce("b h d -> b d", "mean"),
    )
    x = rg.tensor(X.astype(np.float32)).requires_grad_()
    y = model(x)
    weight, bias = (p.array for p in model.parameters())
    expected = np.einsum("bchw,co->bow", X, weight) / 4 + bias.reshape(1, 5, 1)
    np.testing.assert_allclose(y.array, expected.reshape(2, 30), rtol=1e-4, atol=1e-5)
    y.sum().backward()
    assert x.grad is not None and list(model.state_dict()) == ["1.weight", "1.bias"]
    assert repr(model[0]) == "Rearrange('b c h w -> b h (w c)')"


@pytest.mark.parametrize("order", ["retrograd, einops", "einops, retrograd"])
def test_either_may_come_first(order: str) -> None:
    code = f"import {order}; print(einops.rearrange(retrograd.zeros(2, 3), 'a b -> b a').shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["retrograd.Size([3,", "2])"], done.stderr
