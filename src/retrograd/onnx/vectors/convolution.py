"""Cases of convolution and transposed convolution."""

from __future__ import annotations

from typing import Any

from .case import Case, case
from .numbers import Shape, Uniform, whole


def _conv(name: str, x: Shape, w: Shape, *, bias: bool = True, **attributes: Any) -> Case:
    return case(f"conv_{name}", "Conv", x, w, *([(w[0],)] if bias else []), **attributes)


def _transposed(name: str, x: Shape, w: Shape, *, bias: bool = True, **attributes: Any) -> Case:
    channels = w[1] * attributes.get("group", 1)
    return case(f"conv_transpose_{name}", "ConvTranspose", x, w, *([(channels,)] if bias else []), **attributes)


def _deformed(name: str, x: Shape, w: Shape, outputs: Shape, *, mask: bool = False, **attributes: Any) -> Case:
    """Offsets leave each point strictly between two pixels, where the interpolation has a derivative."""
    points = w[2] * w[3] * attributes.get("offset_group", 1)
    more = [Uniform((x[0], points, *outputs), 0.25, 1.25)] if mask else []
    offset = Uniform((x[0], 2 * points, *outputs), 0.125, 0.875)
    return case(f"deform_conv_{name}", "DeformConv", x, w, offset, (w[0],), *more, **attributes)


CASES = [
    _conv("1d", (2, 3, 11), (4, 3, 3)),
    _conv("1d_even_kernel", (2, 2, 10), (3, 2, 4), pads=[1, 2]),
    _conv("1d_strides", (2, 2, 12), (3, 2, 3), strides=[2], pads=[1, 1]),
    _conv("1d_dilation", (1, 2, 13), (2, 2, 3), dilations=[3], pads=[2, 2]),
    _conv("1d_groups", (2, 4, 9), (6, 2, 3), group=2),
    _conv("1d_depthwise", (2, 3, 9), (6, 1, 5), group=3, pads=[2, 2]),
    _conv("1d_no_bias", (2, 3, 7), (2, 3, 2), bias=False),
    _conv("2d_odd_sizes", (2, 3, 7, 5), (4, 3, 3, 3), pads=[1, 1, 1, 1]),
    _conv("2d_even_kernel", (1, 2, 6, 7), (3, 2, 2, 4), pads=[0, 1, 1, 2]),
    _conv("2d_strides", (2, 2, 9, 8), (3, 2, 3, 2), strides=[2, 3]),
    _conv("2d_strides_that_skip_pixels", (1, 2, 8, 9), (2, 2, 2, 2), strides=[3, 4]),
    _conv("2d_dilation", (1, 2, 9, 8), (3, 2, 3, 3), dilations=[2, 3], pads=[1, 2, 1, 2]),
    _conv("2d_strides_and_dilation", (1, 2, 10, 11), (2, 2, 3, 3), strides=[2, 2], dilations=[2, 3], pads=[2, 1, 0, 3]),
    _conv("2d_groups", (2, 6, 5, 6), (4, 3, 3, 3), group=2, pads=[1, 1, 1, 1]),
    _conv("2d_depthwise", (2, 4, 6, 5), (4, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    _conv("2d_depthwise_multiplier", (1, 3, 7, 6), (6, 1, 3, 2), group=3, strides=[2, 1], pads=[1, 0, 1, 1]),
    _conv("2d_asymmetric_padding", (1, 2, 5, 6), (3, 2, 3, 3), pads=[0, 2, 1, 0]),
    _conv("2d_no_bias", (2, 2, 6, 5), (3, 2, 3, 3), bias=False),
    _conv("2d_one_pixel_kernel", (2, 3, 5, 4), (4, 3, 1, 1)),
    _conv("2d_one_pixel_kernel_strides", (2, 3, 5, 6), (4, 3, 1, 1), strides=[2, 3]),
    _conv("2d_kernel_of_the_whole_image", (2, 2, 4, 5), (3, 2, 4, 5)),
    _conv("2d_same_upper", (1, 2, 7, 6), (2, 2, 4, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    _conv("2d_same_lower", (1, 2, 7, 6), (2, 2, 4, 2), auto_pad="SAME_LOWER", strides=[2, 1]),
    _conv("3d", (1, 2, 5, 4, 6), (3, 2, 3, 2, 3), pads=[1, 0, 1, 1, 1, 1]),
    _conv("3d_strides", (1, 2, 6, 5, 5), (2, 2, 3, 3, 2), strides=[2, 1, 2], pads=[1, 1, 0, 0, 1, 1]),
    _conv("3d_dilation", (1, 1, 6, 5, 7), (2, 1, 2, 2, 3), dilations=[3, 2, 2]),
    _conv("3d_groups", (1, 4, 4, 3, 4), (4, 2, 2, 2, 3), group=2, bias=False),
    _conv("3d_depthwise", (1, 2, 4, 4, 3), (2, 1, 3, 2, 2), group=2),
    _transposed("1d", (2, 3, 6), (3, 2, 3)),
    _transposed("1d_strides", (2, 2, 5), (2, 3, 4), strides=[3], pads=[1, 0]),
    _transposed("1d_output_padding", (1, 2, 5), (2, 2, 3), strides=[2], output_padding=[1]),
    _transposed("2d", (2, 3, 4, 5), (3, 2, 3, 3)),
    _transposed("2d_even_kernel", (1, 2, 4, 3), (2, 3, 2, 4), strides=[2, 2], pads=[0, 1, 0, 1]),
    _transposed("2d_strides", (1, 2, 3, 4), (2, 2, 3, 2), strides=[2, 3]),
    _transposed("2d_strides_wider_than_kernel", (1, 2, 3, 3), (2, 2, 2, 2), strides=[3, 4]),
    _transposed(
        "2d_output_padding", (1, 2, 4, 3), (2, 3, 3, 3), strides=[2, 3], pads=[1, 1, 1, 1], output_padding=[1, 2]
    ),
    _transposed("2d_output_shape", (1, 2, 3, 3), (2, 2, 3, 3), strides=[3, 2], output_shape=[8, 6]),
    _transposed("2d_groups", (2, 4, 4, 3), (4, 2, 3, 3), group=2, strides=[2, 1]),
    _transposed("2d_depthwise", (1, 3, 4, 4), (3, 1, 3, 3), group=3, strides=[2, 2], pads=[1, 1, 1, 1]),
    _transposed("2d_dilation", (1, 2, 4, 5), (2, 2, 2, 3), dilations=[2, 2]),
    _transposed(
        "2d_strides_and_dilation", (1, 2, 3, 4), (2, 2, 3, 3), strides=[2, 3], dilations=[2, 2], pads=[1, 2, 1, 2]
    ),
    _transposed("2d_asymmetric_padding", (1, 2, 4, 5), (2, 3, 3, 3), pads=[0, 2, 1, 0]),
    _transposed("2d_no_bias", (2, 2, 3, 4), (2, 3, 3, 2), bias=False),
    _transposed("3d", (1, 2, 3, 2, 3), (2, 2, 2, 3, 2)),
    _transposed("3d_strides", (1, 2, 2, 3, 2), (2, 1, 3, 2, 3), strides=[2, 2, 3], output_padding=[1, 0, 2]),
    _transposed("3d_groups", (1, 4, 2, 2, 3), (4, 1, 2, 3, 2), group=2, bias=False),
    _deformed("2d", (1, 2, 5, 6), (2, 2, 3, 3), (3, 4)),
    _deformed(
        "2d_mask_and_groups",
        (1, 4, 5, 5),
        (4, 2, 2, 2),
        (3, 3),
        mask=True,
        group=2,
        offset_group=2,
        strides=[2, 2],
        pads=[1, 1, 0, 0],
        dilations=[1, 1],
    ),
    case("col2im", "Col2Im", (1, 12, 8), whole(4, 5), whole(2, 3), strides=[2, 1], pads=[0, 1, 0, 0], dilations=[1, 1]),
]
