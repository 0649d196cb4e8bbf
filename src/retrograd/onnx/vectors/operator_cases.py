"""Gradient test cases of tensor operators: products, pointwise, shapes, indexing, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Apart, Case, Fixed, Literal, Numbers, Shape, Uniform, case, whole

# ---- Matrix products, with and without broadcasting -----------------------------------------------------------------


def _gemm(name: str, *shapes: Shape, **attributes: Any) -> Case:
    return case(f"gemm_{name}", "Gemm", *shapes, **attributes)


def _matmul(name: str, a: Shape, b: Shape) -> Case:
    return case(f"matmul_{name}", "MatMul", a, b)


def _einsum(name: str, equation: str, *shapes: Shape) -> Case:
    return case(f"einsum_{name}", "Einsum", *shapes, equation=equation)


PRODUCTS = [
    _gemm("no_bias", (3, 4), (4, 2)),
    _gemm("alpha_and_beta", (3, 4), (4, 2), (3, 2), alpha=0.75, beta=-1.5),
    _gemm("transposed_a", (4, 3), (4, 2), (3, 2), transA=1),
    _gemm("transposed_b", (3, 4), (2, 4), (2,), transB=1),
    _gemm("both_transposed", (4, 3), (2, 4), (3, 2), transA=1, transB=1, alpha=2.0),
    _gemm("bias_row", (3, 4), (4, 2), (1, 2), beta=0.5),
    _gemm("bias_column", (3, 4), (4, 2), (3, 1)),
    _gemm("bias_scalar", (3, 4), (4, 2), (1,)),
    _matmul("2d", (3, 4), (4, 2)),
    _matmul("batches", (2, 3, 4), (2, 4, 2)),
    _matmul("broadcast", (2, 1, 3, 4), (3, 4, 2)),
    _matmul("broadcast_matrix", (2, 3, 2, 4), (4, 3)),
    _matmul("vector_matrix", (4,), (2, 4, 3)),
    _matmul("matrix_vector", (2, 3, 4), (4,)),
    _matmul("vectors", (5,), (5,)),
    _einsum("batched_product", "bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    _einsum("outer", "i,j->ij", (3,), (4,)),
    _einsum("diagonal", "ii->i", (4, 4)),
    _einsum("sum", "ijk->j", (2, 3, 4)),
    _einsum("ellipsis", "...ij,...jk->...ik", (2, 1, 3, 2), (1, 3, 2, 4)),
    _einsum("three_operands", "ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
]


# ---- Activations and pointwise operators, with no entry at a kink ---------------------------------------------------

_X = Apart((3, 2, 5))
_NEAR_ONE = Uniform((3, 4), -0.75, 0.75)
_POSITIVE = Uniform((3, 4), 0.5, 2.5)
_CONDITION = Literal(np.array([[True, False, True, False], [False, False, True, True], [True, True, False, True]]))

_ACTIVATIONS = [
    case("relu", "Relu", _X),
    case("leaky_relu", "LeakyRelu", _X, alpha=0.125),
    case("prelu", "PRelu", Apart((2, 3, 4)), (3, 1)),
    case("prelu_one_slope", "PRelu", _X, (1,)),
    case("elu", "Elu", _X, alpha=1.5),
    case("selu", "Selu", _X, alpha=1.75, gamma=1.125),
    case("gelu", "Gelu", _X),
    case("gelu_tanh", "Gelu", _X, approximate="tanh"),
    case("hard_sigmoid", "HardSigmoid", Uniform((3, 4), -3, 3), alpha=0.3125, beta=0.5),
    case("hard_swish", "HardSwish", Uniform((4, 6), -4, 4)),
    case("mish", "Mish", _X),
    case("sigmoid", "Sigmoid", _X),
    case("tanh", "Tanh", _X),
    case("softplus", "Softplus", _X),
    case("softsign", "Softsign", _X),
    case("swish", "Swish", _X, alpha=1.25, opset=24),
    case("thresholded_relu", "ThresholdedRelu", _X, alpha=0.71875),
    case("shrink", "Shrink", _X, lambd=0.53125, bias=0.25),
]
_FUNCTIONS = [
    case("abs", "Abs", _X),
    case("acos", "Acos", _NEAR_ONE),
    case("acosh", "Acosh", Uniform((3, 4), 1.25, 3.25)),
    case("asin", "Asin", _NEAR_ONE),
    case("asinh", "Asinh", _X),
    case("atan", "Atan", _X),
    case("atanh", "Atanh", _NEAR_ONE),
    case("cos", "Cos", _X),
    case("cosh", "Cosh", _X),
    case("erf", "Erf", _X),
    case("exp", "Exp", _X),
    case("log", "Log", _POSITIVE),
    case("neg", "Neg", _X),
    case("reciprocal", "Reciprocal", _POSITIVE),
    case("sin", "Sin", _X),
    case("sinh", "Sinh", _X),
    case("sqrt", "Sqrt", _POSITIVE),
    case("tan", "Tan", _NEAR_ONE),
]
_OF_SEVERAL = [
    case("add_broadcast", "Add", (2, 3, 4), (3, 1)),
    case("sub_broadcast", "Sub", (3, 1), (2, 1, 4)),
    case("mul_broadcast", "Mul", (2, 3, 4), (4,)),
    case("mul_scalar", "Mul", (2, 3), ()),
    case("div_broadcast", "Div", (2, 3, 4), Uniform((3, 1), 0.5, 2)),
    case("pow", "Pow", _POSITIVE, (4,)),
    case("max_of_three", "Max", Apart((3, 4)), (3, 4), (4,)),
    case("min_of_three", "Min", Apart((3, 4)), (3, 4), (4,)),
    case("sum_of_three", "Sum", (3, 4), (1, 4), (3, 1)),
    case("mean_of_three", "Mean", (3, 4), (4,), (3, 1)),
    case("where_broadcast", "Where", _CONDITION, (3, 4), (4,)),
    case("clip", "Clip", Apart((3, 4)), Literal(np.array(-0.8125)), Literal(np.array(0.6875))),
]
POINTWISE = [*_ACTIVATIONS, *_FUNCTIONS, *_OF_SEVERAL]


# ---- Resizing, padding, joining and moving entries ------------------------------------------------------------------


def _resize(name: str, x: Shape, sizes: list[int], **attributes: Any) -> Case:
    return case(f"resize_{name}", "Resize", x, None, None, whole(*sizes), **attributes)


def _pad(name: str, x: Shape, pads: list[int], mode: str) -> Case:
    return case(f"pad_{name}", "Pad", x, whole(*pads), mode=mode)


SHAPES = [
    _resize("linear_larger", (1, 2, 3, 4), [1, 2, 6, 7], mode="linear"),
    _resize("linear_smaller", (1, 1, 6, 7), [1, 1, 4, 3], mode="linear"),
    _resize(
        "linear_align_corners",
        (1, 1, 3, 4),
        [1, 1, 5, 7],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    _resize("linear_asymmetric", (1, 2, 4), [1, 2, 7], mode="linear", coordinate_transformation_mode="asymmetric"),
    _resize("linear_antialias", (1, 1, 7, 8), [1, 1, 3, 5], mode="linear", antialias=1, exclude_outside=1),
    _resize(
        "nearest_larger",
        (1, 2, 3, 2),
        [1, 2, 7, 5],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    _resize("nearest_smaller", (1, 1, 6, 7), [1, 1, 4, 3], mode="nearest"),
    _resize("cubic", (1, 1, 4, 4), [1, 1, 7, 6], mode="cubic", cubic_coeff_a=-0.75),
    _resize(
        "cubic_align_corners", (1, 1, 4, 5), [1, 1, 6, 3], mode="cubic", coordinate_transformation_mode="align_corners"
    ),
    case(
        "resize_linear_scales",
        "Resize",
        (1, 1, 4, 3),
        None,
        Literal(np.array([1, 1, 1.5, 2.5], np.float32)),
        mode="linear",
    ),
    case("pad_constant", "Pad", (2, 3), whole(1, 0, 0, 2), Fixed(Uniform(())), mode="constant"),
    _pad("reflect", (2, 4, 5), [0, 1, 3, 0, 2, 1], "reflect"),
    _pad("edge", (2, 3, 4), [0, 2, 1, 0, 0, 3], "edge"),
    _pad("wrap", (2, 3, 4), [0, 1, 2, 0, 2, 1], "wrap"),
    _pad("negative", (3, 4, 5), [0, -1, 1, 0, 2, -2], "constant"),
    case("concat", "Concat", (2, 2, 3), (2, 1, 3), (2, 3, 3), axis=1),
    case("split", "Split", (2, 6), whole(1, 3, 2), outputs=3, axis=1),
    case("slice_steps", "Slice", (4, 7), whole(3, 1), whole(-5, 6), whole(0, 1), whole(-1, 2)),
    case("expand", "Expand", (3, 1), whole(2, 3, 4)),
    case("tile", "Tile", (2, 3), whole(2, 3)),
    case("reshape", "Reshape", (2, 3, 4), whole(4, -1)),
    case("transpose", "Transpose", (2, 3, 4), perm=[2, 0, 1]),
    case("depth_to_space_dcr", "DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="DCR"),
    case("depth_to_space_crd", "DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("space_to_depth", "SpaceToDepth", (1, 2, 4, 6), blocksize=2),
    case("trilu_lower", "Trilu", (2, 4, 3), Literal(np.array(1, np.int64)), upper=0),
    case("cumsum", "CumSum", (3, 4), Literal(np.array(1, np.int64))),
    case("cumsum_exclusive_reverse", "CumSum", (3, 4), Literal(np.array(0, np.int64)), exclusive=1, reverse=1),
]


# ---- Reading and writing at indices, some of them repeated, and sampling at points ----------------------------------


def _indices(values: Any) -> Literal:
    return Literal(np.array(values, np.int64))


_TWICE = _indices([[0, 2, 0], [1, 1, -1]])
_DISTINCT = _indices([[0, 2, 1], [2, 0, 3]])


def _sampled(name: str, **attributes: Any) -> Case:
    """The points are inside the image and not at pixel centers, where the interpolation has kinks."""
    points = np.array([-0.8125, -0.4375, 0.1875, 0.5625, -0.1875, 0.8125])
    grid = np.stack([np.tile(points, (2, 1)), np.array([[0.3125] * 6, [-0.6875] * 6])], -1)[None]
    return case(f"grid_sample_{name}", "GridSample", (1, 2, 4, 5), Literal(grid), **attributes)


INDEXING = [
    case("gather_axis_0", "Gather", (4, 3), _indices([1, -1, 1, 0]), axis=0),
    case("gather_axis_1", "Gather", (2, 5, 2), _indices([[4, 0], [0, -2]]), axis=1),
    case("gather_elements", "GatherElements", (2, 3), _TWICE, axis=1),
    case("gather_nd", "GatherND", (2, 3, 4), _indices([[0, 1], [1, 2], [0, 1]])),
    case("gather_nd_batch_dims", "GatherND", (2, 3, 4), _indices([[2], [0]]), batch_dims=1),
    case("scatter_elements", "ScatterElements", (2, 4), _DISTINCT, (2, 3), axis=1),
    case("scatter_elements_add", "ScatterElements", (2, 4), _TWICE, (2, 3), axis=1, reduction="add"),
    case("scatter_elements_mul", "ScatterElements", (2, 4), _DISTINCT, (2, 3), axis=1, reduction="mul"),
    case("scatter_elements_max", "ScatterElements", Apart((2, 4)), _DISTINCT, (2, 3), axis=1, reduction="max"),
    case("scatter_nd", "ScatterND", (4, 3), _indices([[2], [0]]), (2, 3)),
    case("scatter_nd_add", "ScatterND", (4, 3), _indices([[2], [0], [2]]), (3, 3), reduction="add"),
    case("top_k", "TopK", Apart((3, 5)), whole(2), outputs=2, weighted=[0], axis=1),
    case("top_k_smallest", "TopK", Apart((5, 3)), whole(3), outputs=2, weighted=[0], axis=0, largest=0),
    _sampled("linear", mode="linear", padding_mode="zeros", align_corners=0),
    _sampled("linear_align_corners", mode="linear", padding_mode="border", align_corners=1),
    case(
        "grid_sample_grid",
        "GridSample",
        (1, 2, 3, 4),
        Uniform((1, 2, 2, 2), 0.0625, 0.1875),
        mode="linear",
        padding_mode="zeros",
        align_corners=1,
    ),
]


# ---- Reductions along axes, without ties among maxima and minima ----------------------------------------------------

_X_REDUCED = (2, 3, 4)
_POSITIVE_REDUCED = Uniform(_X_REDUCED, 0.5, 2)


def _both(operator: str, numbers: Numbers) -> list[Case]:
    """Make a case along two axes with keepdims, and one along one axis without."""
    name = "reduce_" + operator.removeprefix("Reduce").lower()
    return [
        case(f"{name}_keepdims", operator, numbers, whole(0, 2), keepdims=1),
        case(f"{name}_axis", operator, numbers, whole(1), keepdims=0),
    ]


REDUCTIONS = [
    *_both("ReduceSum", Uniform(_X_REDUCED)),
    *_both("ReduceMean", Uniform(_X_REDUCED)),
    *_both("ReduceMax", Apart(_X_REDUCED)),
    *_both("ReduceMin", Apart(_X_REDUCED)),
    *_both("ReduceProd", _POSITIVE_REDUCED),
    *_both("ReduceL1", Apart(_X_REDUCED)),
    *_both("ReduceL2", Uniform(_X_REDUCED)),
    *_both("ReduceLogSum", _POSITIVE_REDUCED),
    *_both("ReduceLogSumExp", Uniform(_X_REDUCED)),
    *_both("ReduceSumSquare", Uniform(_X_REDUCED)),
    case("reduce_sum_all", "ReduceSum", _X_REDUCED, keepdims=0),
    case("reduce_max_all", "ReduceMax", Apart(_X_REDUCED), keepdims=0),
]
