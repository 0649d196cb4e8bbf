"""Cases of the suite "errors": every product, convolution, recurrent layer, reduction and normalization."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

import retrograd

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """``job(library, *tensors)`` on arrays of these shapes; names are PyTorch's, so it serves both libraries."""

    group: str
    name: str
    job: Callable[..., Any]
    shapes: Sequence[Shape]
    gradients: bool = True
    kinds: Sequence[str] = ("normal", "ReLU")
    made: dict[int, Callable[[np.random.Generator, Shape], np.ndarray]] = field(default_factory=dict)  # of an input
    names: Sequence[str] = ("input", "weight", "bias")
    judged: bool = True  # Winograd's transforms lose some digits of accuracy for speed


def _functional(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    return lambda library, *tensors: getattr(library.nn.functional, name)(*tensors, *arguments, **options)


def _function(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    return lambda library, *tensors: getattr(library, name)(*tensors, *arguments, **options)


def cases() -> Iterator[Case]:
    for family in FAMILIES.values():
        yield from family()


def _products() -> Iterator[Case]:
    for k in (64, 256, 512, 1024, 4096, 20_000, 100_000, 1_000_000):
        n = 32 if k <= 100_000 else 16
        yield Case("linear", f"{k} inputs", _functional("linear"), [(n, k), (n, k), (n,)], gradients=k <= 4096)
    for batch in (1000, 20_000, 200_000, 1_000_000):
        yield Case("linear", f"batch of {batch}", _functional("linear"), [(batch, 24), (20, 24), (20,)])
    for k in (64, 768, 4096, 65_536):
        yield Case("matmul", f"(48, {k}) @ ({k}, 40)", _function("matmul"), [(48, k), (k, 40)], gradients=False)
    yield Case("matmul", "(512, 512) @ (512, 512)", _function("matmul"), [(512, 512), (512, 512)])
    yield Case("matmul", "(2048, 2048) @ (2048, 256)", _function("matmul"), [(2048, 2048), (2048, 256)])
    transposed = lambda library, a, b: library.matmul(a.t(), b)  # noqa: E731
    yield Case("matmul", "transposed (20000, 40) and (20000, 48)", transposed, [(20_000, 40), (20_000, 48)])
    yield Case("matmul", "(64, 65536) @ (65536)", _function("matmul"), [(64, 65_536), (65_536,)])
    yield Case("matmul", "dot of 1000000", _function("dot"), [(1_000_000,), (1_000_000,)], gradients=False)
    yield Case("bmm", "(8, 24, 4096) @ (8, 4096, 40)", _function("bmm"), [(8, 24, 4096), (8, 4096, 40)])
    yield Case("bmm", "(4, 2048, 24) @ (4, 24, 40)", _function("bmm"), [(4, 2048, 24), (4, 24, 40)])


def _convolutions() -> Iterator[Case]:
    conv2d = _functional("conv2d", padding=1)

    def exact(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
        def job(library: Any, *tensors: Any) -> Any:
            more = {"algorithm": "exact"} if library is retrograd else {}
            return getattr(library.nn.functional, name)(*tensors, *arguments, **options, **more)

        return job

    for n, channels, extent, out in ((8, 64, 56, 64), (2, 128, 28, 128), (2, 256, 14, 64), (8, 512, 7, 64)):
        shapes = [(n, channels, extent, extent), (out, channels, 3, 3), (out,)]
        yield Case("convolution", f"3×3 exact, {shapes[0]} → {out}", exact("conv2d", padding=1), shapes)
    for n, channels, extent, out in ((8, 64, 56, 64), (8, 512, 7, 64)):
        shapes = [(n, channels, extent, extent), (out, channels, 3, 3), (out,)]
        yield Case("convolution", f"3×3 automatic, {shapes[0]} → {out}", conv2d, shapes, judged=False)
    shapes = [(2, 128, 56, 56), (64, 128, 3, 3)]
    yield Case("convolution", f"3×3 stride 2, {shapes[0]} → 64", _functional("conv2d", None, 2, 1), shapes)
    yield Case(
        "convolution",
        "7×7 stride 2, (4, 3, 224, 224) → 64",
        _functional("conv2d", None, 2, 3),
        [(4, 3, 224, 224), (64, 3, 7, 7)],
    )
    for n, channels, extent, out in (
        (8, 64, 56, 256),
        (2, 512, 28, 128),
        (1, 2048, 14, 64),
        (1, 2048, 7, 512),
        (2, 20_000, 5, 16),
    ):
        shapes = [(n, channels, extent, extent), (out, channels, 1, 1), (out,)]
        yield Case("convolution", f"pointwise, {shapes[0]} → {out}", _functional("conv2d"), shapes)
    grouped = _functional("conv2d", None, 1, 1, 1, 8)
    yield Case("convolution", "3×3 in 8 groups, (2, 512, 28, 28)", grouped, [(2, 512, 28, 28), (512, 64, 3, 3)])
    yield Case("convolution", "3×3 in 8 groups, (8, 64, 56, 56)", grouped, [(8, 64, 56, 56), (64, 8, 3, 3)])
    for n, channels, extent, kernel in ((8, 32, 112, 3), (2, 32, 56, 31), (8, 128, 28, 3)):
        job = _functional("conv2d", None, 1, kernel // 2, 1, channels)
        shapes = [(n, channels, extent, extent), (channels, 1, kernel, kernel)]
        yield Case("convolution", f"depthwise {kernel}×{kernel}, {shapes[0]}", job, shapes)
    few = [(8, 3, 224, 224), (3, 3, 3, 3)]
    yield Case("convolution", "3×3 few channels, (8, 3, 224, 224) → 3", _functional("conv2d", None, 1, 1), few)
    few = [(2, 256, 28, 28), (3, 256, 9, 9)]
    yield Case("convolution", "9×9 few outputs, (2, 256, 28, 28) → 3", _functional("conv2d", None, 1, 4), few)
    few = [(16, 1, 256, 256), (8, 1, 5, 5)]
    yield Case("convolution", "5×5 one channel, (16, 1, 256, 256) → 8", _functional("conv2d", None, 1, 2), few)
    shapes = [(2, 512, 14, 14), (512, 32, 4, 4)]
    yield Case(
        "convolution",
        "transposed 4×4 stride 2, (2, 512, 14, 14) → 32",
        _functional("conv_transpose2d", None, 2, 1),
        shapes,
    )
    shapes = [(2, 1024, 14, 14), (1024, 32, 2, 2)]
    yield Case(
        "convolution",
        "transposed 2×2 stride 2, (2, 1024, 14, 14) → 32",
        _functional("conv_transpose2d", None, 2),
        shapes,
    )
    yield Case(
        "convolution", "1-D, (16, 64, 1000) → 64, k9", _functional("conv1d", None, 1, 4), [(16, 64, 1000), (64, 64, 9)]
    )
    yield Case(
        "convolution", "1-D, (1, 2, 200000) → 3, k9", _functional("conv1d", None, 1, 4), [(1, 2, 200_000), (3, 2, 9)]
    )
    yield Case(
        "convolution",
        "1-D, (1, 24, 100000) → 24, k3",
        _functional("conv1d", None, 1, 1),
        [(1, 24, 100_000), (24, 24, 3)],
    )
    yield Case(
        "convolution",
        "1-D, (1, 32, 4000) → 32, k255",
        _functional("conv1d", None, 1, 127),
        [(1, 32, 4000), (32, 32, 255)],
    )
    for shapes in ([(2, 16, 16, 32, 32), (32, 16, 3, 3, 3)], [(1, 256, 8, 8, 8), (32, 256, 3, 3, 3)]):
        name = f"{shapes[0]} → 32"
        yield Case("convolution", f"3-D exact, {name}", exact("conv3d", None, 1, 1), shapes)
        yield Case("convolution", f"3-D automatic, {name}", _functional("conv3d", None, 1, 1), shapes, judged=False)


def _recurrent() -> Iterator[Case]:
    def layer(mode: str) -> Callable[..., Any]:
        def job(library: Any, x: Any, *weights: Any) -> Any:
            net = getattr(library.nn, mode)(x.shape[2], weights[1].shape[1])
            if x.dtype == library.float64:
                net = net.double()
            for name, weight in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), weights, strict=True):
                delattr(net, name)
                setattr(net, name, weight)
            return net(x)[0]

        return job

    names = ("input", "W_ih", "W_hh", "b_ih", "b_hh")
    for mode, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, n, inputs, hidden in (
            (50, 16, 64, 64),
            (10, 16, 4096, 32),
            (10, 16, 256, 256),
            (5, 8, 1024, 1024),
            (2000, 8, 24, 16),
        ):
            spread = 1 / sqrt(hidden)

            def weight(random: np.random.Generator, shape: Shape, spread: float = spread) -> np.ndarray:
                return random.uniform(-spread, spread, shape).astype(np.float32)

            shapes = [(steps, n, inputs), (gates * hidden, inputs), (gates * hidden, hidden)]
            shapes += [(gates * hidden,)] * 2
            name = f"{mode} ({steps}, {n}, {inputs}, {hidden})"
            yield Case(
                "recurrent", name, layer(mode), shapes, True, ["normal"], dict.fromkeys(range(1, 5), weight), names
            )


def _reductions() -> Iterator[Case]:
    def positive(random: np.random.Generator, shape: Shape) -> np.ndarray:
        return np.abs(random.standard_normal(shape, dtype=np.float32))

    def near_one(random: np.random.Generator, shape: Shape) -> np.ndarray:
        return (1 + random.standard_normal(shape) / 1000).astype(np.float32)

    for shape, dim in (
        ((64, 1000), 1),
        ((64, 100_000), 1),
        ((16, 1_000_000), 1),
        ((100_000, 64), 0),
        ((1_000_000, 16), 0),
        ((30, 3000, 50), 1),
    ):
        for name in ("sum", "mean", "var", "std", "norm", "logsumexp", "cumsum", "nansum"):
            job = _function(name, None, dim) if name == "norm" else _function(name, dim)
            if name == "norm":
                job = lambda library, x, dim=dim: library.norm(x, 2, dim)  # noqa: E731
            yield Case(
                "reduction",
                f"{name} of {shape} over {dim}",
                job,
                [shape],
                gradients=name in ("var", "norm", "logsumexp", "cumsum"),
            )
        yield Case(
            "reduction",
            f"prod of {shape} over {dim}",
            _function("prod", dim),
            [shape],
            False,
            ["near 1"],
            {0: near_one},
        )
        yield Case(
            "reduction",
            f"cumprod of {shape} over {dim}",
            _function("cumprod", dim),
            [shape],
            False,
            ["near 1"],
            {0: near_one},
        )
    yield Case(
        "reduction", "sum of (16, 3, 100, 100) over 0, 2, 3", lambda library, x: x.sum((0, 2, 3)), [(16, 3, 100, 100)]
    )
    yield Case(
        "reduction", "var of (16, 3, 100, 100) over 0, 2, 3", lambda library, x: x.var((0, 2, 3)), [(16, 3, 100, 100)]
    )
    yield Case("reduction", "sum of (300, 300, 30)", _function("sum"), [(300, 300, 30)], gradients=False)
    expand = lambda library, x, b: x * b  # noqa: E731
    yield Case("reduction", "gradient of a bias, (20000, 40) * (40)", expand, [(20_000, 40), (40,)])
    yield Case(
        "reduction", "gradient of a scale, (16, 3, 100, 100) * (3, 1, 1)", expand, [(16, 3, 100, 100), (3, 1, 1)]
    )


def _normalizations() -> Iterator[Case]:
    F = "batch_norm"
    batch = lambda library, x, w, b: library.nn.functional.batch_norm(x, None, None, w, b, True)  # noqa: E731
    for shape in ((8, 64, 56, 56), (64, 16, 8, 8), (100_000, 24), (16, 8, 200, 200), (4096, 64)):
        yield Case(F.replace("_", " "), f"{shape}", batch, [shape, shape[1:2], shape[1:2]])
    for shape in ((512, 768), (20_000, 24), (32, 16_384), (8, 200_000)):
        layer = lambda library, x, w, b, n=shape[-1]: library.nn.functional.layer_norm(x, (n,), w, b)  # noqa: E731
        yield Case("layer norm", f"{shape}", layer, [shape, shape[1:], shape[1:]])
        rms = lambda library, x, w, n=shape[-1]: library.nn.functional.rms_norm(x, (n,), w, 1e-5)  # noqa: E731
        yield Case("rms norm", f"{shape}", rms, [shape, shape[1:]])
    for shape in ((8, 64, 56, 56), (2, 32, 200, 200), (64, 64, 7, 7)):
        yield Case(
            "group norm",
            f"{shape}",
            lambda library, x, w, b: library.nn.functional.group_norm(x, 8, w, b),
            [shape, shape[1:2], shape[1:2]],
        )
        yield Case(
            "instance norm",
            f"{shape}",
            lambda library, x, w, b: library.nn.functional.instance_norm(x, None, None, w, b),
            [shape, shape[1:2], shape[1:2]],
        )


def _others() -> Iterator[Case]:
    def classes(count: int) -> Callable[..., np.ndarray]:
        return lambda random, shape: random.integers(0, count, shape)

    for shape in ((64, 1000), (32, 50_000), (16, 1_000_000)):
        yield Case("softmax", f"softmax of {shape}", _functional("softmax", -1), [shape])
        yield Case("softmax", f"log_softmax of {shape}", _functional("log_softmax", -1), [shape])
    for shape in ((512, 1000), (100_000, 10), (32, 50_000)):
        yield Case(
            "loss",
            f"cross_entropy {shape}",
            _functional("cross_entropy"),
            [shape, shape[:1]],
            made={1: classes(shape[1])},
        )
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        yield Case("loss", f"{name} (1000, 1000)", _functional(name), [(1000, 1000), (1000, 1000)])
    yield Case(
        "loss",
        "kl_div (1000, 1000)",
        _functional("kl_div", reduction="sum"),
        [(1000, 1000), (1000, 1000)],
        kinds=["normal"],
        made={1: lambda random, shape: random.random(shape, dtype=np.float32)},
        gradients=False,
    )
    yield Case(
        "loss",
        "cosine_similarity (64, 100000)",
        _functional("cosine_similarity", 1),
        [(64, 100_000), (64, 100_000)],
        gradients=False,
    )
    for shape in ((2, 4, 1024, 64), (1, 2, 4096, 32), (1, 2, 256, 512)):
        yield Case("attention", f"{shape}", _functional("scaled_dot_product_attention"), [shape] * 3)
    yield Case(
        "attention",
        "causal (2, 4, 1024, 64)",
        _functional("scaled_dot_product_attention", is_causal=True),
        [(2, 4, 1024, 64)] * 3,
    )
    table = lambda library, w, i: library.nn.functional.embedding(i, w)  # noqa: E731
    for count in (1000, 100_000, 1_000_000):
        yield Case("embedding", f"{count} of 16 rows", table, [(16, 32), (count,)], made={1: classes(16)})
    for count in (100_000,):
        add = lambda library, x, i, source: x.index_add(0, i, source)  # noqa: E731
        yield Case(
            "embedding",
            f"index_add of {count} to 16",
            add,
            [(16, 32), (count,), (count, 32)],
            made={1: classes(16)},
            gradients=False,
        )
        scatter = lambda library, x, i, source: x.scatter_add(0, i, source)  # noqa: E731
        yield Case(
            "embedding",
            f"scatter_add of {count} to 16",
            scatter,
            [(16, 32), (count, 32), (count, 32)],
            made={1: classes(16)},
            gradients=False,
        )
        gather = lambda library, x, i: x.gather(0, i)  # noqa: E731
        yield Case("embedding", f"gather of {count} of 16", gather, [(16, 32), (count, 32)], made={1: classes(16)})
        bag = lambda library, w, i: library.nn.functional.embedding_bag(i, w, mode="sum")  # noqa: E731
        yield Case("embedding", "embedding_bag (64, 5000)", bag, [(1000, 32), (64, 5000)], made={1: classes(1000)})

    def clipped(library: Any, x: Any) -> Any:
        weight = library.nn.Parameter(library.zeros_like(x))
        weight.grad = x.detach()
        return library.nn.utils.clip_grad_norm_([weight], 1.0)

    yield Case("optimizer", "clip_grad_norm_ of 1000000", clipped, [(1_000_000,)], gradients=False)
    yield Case(
        "pooling", "avg_pool2d of (4, 16, 200, 200), 200×200", _functional("avg_pool2d", 200), [(4, 16, 200, 200)]
    )
    yield Case(
        "pooling",
        "adaptive_avg_pool2d of (4, 16, 200, 200)",
        _functional("adaptive_avg_pool2d", 1),
        [(4, 16, 200, 200)],
    )
    yield Case(
        "pooling",
        "interpolate of (2, 8, 20, 20) to 400",
        _functional("interpolate", size=400, mode="bilinear"),
        [(2, 8, 20, 20)],
    )
    yield Case(
        "distance",
        "cdist of (64, 20000) and (48, 20000)",
        _function("cdist"),
        [(64, 20_000), (48, 20_000)],
        kinds=["normal"],
    )
    yield Case(
        "distance",
        "bilinear (64, 200) and (64, 200) to 16",
        _functional("bilinear"),
        [(64, 200), (64, 200), (16, 200, 200)],
    )
    yield Case(
        "distance",
        "einsum bik,bjk->ij",
        lambda library, a, b: library.einsum("bik,bjk->ij", a, b),
        [(40, 24, 500), (40, 20, 500)],
    )


FAMILIES = {
    "products": _products,
    "convolutions": _convolutions,
    "recurrent": _recurrent,
    "reductions": _reductions,
    "normalizations": _normalizations,
    "others": _others,
}
