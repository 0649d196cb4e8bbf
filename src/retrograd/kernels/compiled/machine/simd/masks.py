"""Truth values lane by lane: more comparisons, and, or, not, and select."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import intrinsic, lower_builtin

from .codegen import as_vector
from .vector import I64, Mask, Vector


class _OfMasks(AbstractTemplate):  # type: ignore[misc]
    """``x & y`` and ``x | y`` of two masks."""

    def generic(self, args: Any, kws: Any) -> Any:
        return typing_signature(args[0], *args) if all(isinstance(arg, Mask) for arg in args) else None


infer_global(operator.and_)(type("_And", (_OfMasks,), {"key": operator.and_}))
infer_global(operator.or_)(type("_Or", (_OfMasks,), {"key": operator.or_}))
lower_builtin(operator.and_, Mask, Mask)(lambda context, builder, signature, args: builder.and_(*args))
lower_builtin(operator.or_, Mask, Mask)(lambda context, builder, signature, args: builder.or_(*args))


@intrinsic
def within(typing: Any, x: Any, count: Any) -> Any:
    """Lanes of an integer vector with ``0 <= x < count`` (one unsigned comparison)."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.icmp_unsigned("<", args[0], as_vector(context, builder, args[1], signature.args[1], x))

    return Mask(x.lanes)(x, count), generate


@intrinsic
def exceeds(typing: Any, x: Any, y: Any) -> Any:
    """Lanes where ``x`` is above ``y``, or NaN while ``y`` is not: where it replaces a running maximum ``y``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        a, b = args
        return builder.and_(builder.fcmp_unordered(">", a, b), builder.fcmp_ordered("ord", b, b))

    return Mask(x.lanes)(x, x), generate


@intrinsic
def both(typing: Any, x: Any, y: Any) -> Any:
    """Lanes where both masks are set."""
    return x(x, x), lambda context, builder, signature, args: builder.and_(*args)


@intrinsic
def either(typing: Any, x: Any, y: Any) -> Any:
    """Lanes where at least one of the masks is set."""
    return x(x, x), lambda context, builder, signature, args: builder.or_(*args)


@intrinsic
def opposite(typing: Any, x: Any) -> Any:
    """Lanes where the mask is not set."""
    return x(x), lambda context, builder, signature, args: builder.not_(args[0])


@intrinsic
def bits_of_mask(typing: Any, x: Any) -> Any:
    """The lanes of a mask as the low bits of an int64, lane 0 the lowest."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.zext(builder.bitcast(args[0], ir.IntType(args[0].type.count)), I64)

    return types.int64(x), generate


@intrinsic
def select(typing: Any, mask: Any, x: Any, y: Any) -> Any:
    """``x`` in the lanes where ``mask`` is set, ``y`` elsewhere; one of them may be a scalar."""
    result = x if isinstance(x, Vector) else y

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        values = [as_vector(context, builder, args[i], signature.args[i], result) for i in (1, 2)]
        return builder.select(args[0], *values)

    return result(mask, types.unliteral(x), types.unliteral(y)), generate
