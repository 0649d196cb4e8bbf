"""Lane-wise arithmetic, comparisons, masks, conversions, and denormal handling."""

from __future__ import annotations

import operator
from collections.abc import Callable
from platform import machine
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import intrinsic, lower_builtin

from .vector import I32, I64, Mask, Vector, as_vector, declare, integer_of, larger, llvm_vector, smaller, suffix

# ---- Arithmetic lane by lane ----------------------------------------------------------------------------------------

# a*b+c may be fused; nothing else is relaxed, so that NaN, inf and every bit are preserved
CONTRACT = ("contract",)


def _operator(symbol: Callable[..., Any], emit: Callable[..., ir.Value], mask: bool) -> None:
    """``symbol`` for two vectors, and for a vector and a scalar on either side. (An ``overload`` compiles slower.)"""

    @infer_global(symbol)
    class _Typing(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            vectors = [arg for arg in args if isinstance(arg, Vector)]
            if len(args) != 2 or not vectors:
                return None
            if not all(arg == vectors[0] or isinstance(arg, types.Number) for arg in args):
                return None
            result = Mask(vectors[0].lanes) if mask else vectors[0]
            return typing_signature(result, *[types.unliteral(arg) for arg in args])

    def lower(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = next(arg for arg in signature.args if isinstance(arg, Vector))
        x, y = (as_vector(context, builder, *pair, vector) for pair in zip(args, signature.args, strict=True))
        return emit(builder, x, y, isinstance(vector.dtype, types.Float))

    for pair in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(symbol, *pair)(lower)


def _arithmetic(float_op: str, int_op: str) -> Callable[..., ir.Value]:
    def emit(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, is_float: bool) -> ir.Value:
        return getattr(builder, float_op)(x, y, flags=CONTRACT) if is_float else getattr(builder, int_op)(x, y)

    return emit


def _comparison(symbol: str) -> Callable[..., ir.Value]:
    def emit(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, is_float: bool) -> ir.Value:
        if not is_float:
            return builder.icmp_signed(symbol, x, y)
        # != is the one comparison that NaN satisfies
        return builder.fcmp_unordered(symbol, x, y) if symbol == "!=" else builder.fcmp_ordered(symbol, x, y)

    return emit


def _bitwise(op: str) -> Callable[..., ir.Value]:
    return lambda builder, x, y, is_float: getattr(builder, op)(x, y)


_operator(operator.and_, _bitwise("and_"), mask=False)  # of integers
_operator(operator.xor, _bitwise("xor"), mask=False)
_operator(operator.add, _arithmetic("fadd", "add"), mask=False)
_operator(operator.sub, _arithmetic("fsub", "sub"), mask=False)
_operator(operator.mul, _arithmetic("fmul", "mul"), mask=False)
_operator(operator.truediv, _arithmetic("fdiv", "sdiv"), mask=False)
for _symbol, _name in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _operator(_symbol, _comparison(_name), mask=True)


@infer_global(operator.neg)
class _NegateTyping(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        return typing_signature(args[0], args[0]) if isinstance(args[0], Vector) else None


@lower_builtin(operator.neg, Vector)
def _negate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
    return builder.fneg(args[0]) if isinstance(signature.return_type.dtype, types.Float) else builder.neg(args[0])


def _product_and_sum(instruction: str, x: Any, y: Any, z: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = args[0].type
        values = [as_vector(context, builder, *pair, x) for pair in zip(args, signature.args, strict=True)]
        return builder.call(declare(builder, f"llvm.{instruction}.{suffix(vector)}", vector, [vector] * 3), values)

    return x(x, types.unliteral(y), types.unliteral(z)), generate


@intrinsic
def fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """``x*y + z``, rounded once; ``y`` and ``z`` may be scalars."""
    return _product_and_sum("fma", x, y, z)


@intrinsic
def multiply_add(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """``x*y + z``, rounded once where the processor has an instruction for it, else twice."""
    return _product_and_sum("fmuladd", x, y, z)


@intrinsic
def quotient(typing: Any, x: Any, y: Any) -> Any:
    """``x / y`` within one unit in the last place, for y from 2^-100 to 2^100 and x not larger.

    AVX-512 estimates 1 / y to 14 bits, which one Newton step doubles: a fifth of the time of a division.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        x, y = args
        vector = x.type
        if vector.count != 16 or x_type.dtype != types.float32:
            return builder.fdiv(x, y)
        lanes = ir.IntType(16)
        estimate = declare(builder, "llvm.x86.avx512.rcp14.ps.512", vector, [vector, vector, lanes])
        inverse = builder.call(estimate, [y, ir.Constant(vector, None), ir.Constant(lanes, -1)])
        fused = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
        near = builder.fmul(x, inverse)
        rest = builder.call(fused, [builder.fneg(near), y, x])
        return builder.call(fused, [rest, inverse, near])

    x_type = x
    return x(x, x), generate


@intrinsic
def copy_sign(typing: Any, x: Any, y: Any) -> Any:
    """``x`` with the sign of ``y``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = args[0].type
        return builder.call(declare(builder, f"llvm.copysign.{suffix(vector)}", vector, [vector] * 2), args)

    return x(x, x), generate


def _unary(name: str) -> Any:
    @intrinsic
    def apply(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vector = args[0].type
            return builder.call(declare(builder, f"llvm.{name}.{suffix(vector)}", vector, [vector]), args)

        return x(x), generate

    return apply


sqrt: Final = _unary("sqrt")
absolute: Final = _unary("fabs")
floor: Final = _unary("floor")
ceil: Final = _unary("ceil")
truncate: Final = _unary("trunc")  # towards 0
nearest: Final = _unary("rint")  # to the nearest integer, halves to the even one


def by_lane(name: str) -> Any:
    """The C library's function ``name`` of doubles, called once for each lane: exact everywhere, and slow."""

    @intrinsic
    def one(typing: Any, x: Any) -> Any:
        return x(x), lambda context, builder, signature, args: _by_lane(builder, name, args)

    @intrinsic
    def two(typing: Any, x: Any, y: Any) -> Any:
        return x(x, x), lambda context, builder, signature, args: _by_lane(builder, name, args)

    return two if name in ("fmod", "pow") else one


def _by_lane(builder: ir.IRBuilder, name: str, args: Any) -> ir.Value:
    vector, double = args[0].type, ir.DoubleType()
    result = ir.Constant(vector, ir.Undefined)
    function = declare(builder, name, double, [double] * len(args))
    for lane in range(vector.count):
        numbers = [builder.extract_element(arg, I32(lane)) for arg in args]
        if vector.element != double:
            numbers = [builder.fpext(number, double) for number in numbers]
        number = builder.call(function, numbers)
        if vector.element != double:
            number = builder.fptrunc(number, vector.element)
        result = builder.insert_element(result, number, I32(lane))
    return result


@intrinsic
def maximum(typing: Any, x: Any, y: Any) -> Any:
    """The larger one in each lane; NaN wins."""
    return x(x, x), lambda context, builder, signature, args: larger(builder, *args)


@intrinsic
def minimum(typing: Any, x: Any, y: Any) -> Any:
    """The smaller one in each lane; NaN wins."""
    return x(x, x), lambda context, builder, signature, args: smaller(builder, *args)


# ---- Truth values lane by lane: more comparisons, and, or, not, and select ------------------------------------------


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


# ---- Conversions of lanes -------------------------------------------------------------------------------------------


def _float_of(x: Vector) -> Vector:
    return Vector(types.float32 if x.dtype == types.int32 else types.float64, x.lanes)


def _conversion(method: str, result_of: Callable[[Vector], Vector]) -> Any:
    @intrinsic
    def apply(typing: Any, x: Any) -> Any:
        result = result_of(x)
        generate = lambda context, builder, signature, args: getattr(builder, method)(args[0], llvm_vector(result))  # noqa: E731
        return result(x), generate

    return apply


bits_of: Final = _conversion("bitcast", integer_of)  # same bits
float_from_bits: Final = _conversion("bitcast", _float_of)  # same bits
widen: Final = _conversion("sext", lambda x: Vector(types.int64, x.lanes))  # 64 bits per lane, maybe several registers


@intrinsic
def double(typing: Any, x: Any) -> Any:
    """The same numbers in float64, maybe in several registers."""
    result = Vector(types.float64, x.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return args[0] if x == result else builder.fpext(args[0], llvm_vector(result))

    return result(x), generate


@intrinsic
def fenced(typing: Any, x: Any) -> Any:
    """x, no instruction; arithmetic before and after it is not contracted."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = args[0].type
        return builder.call(declare(builder, f"llvm.arithmetic.fence.{suffix(kind)}", kind, [kind]), args)

    return x(x), generate


@intrinsic
def rounded(typing: Any, x: Any, like: Any) -> Any:
    """Numbers in float64 as elements of the array or vector ``like``."""
    result = Vector(like.dtype, x.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return args[0] if x == result else builder.fptrunc(args[0], llvm_vector(result))

    return result(x, like), generate


@intrinsic
def shift_left(typing: Any, x: Any, count: Any) -> Any:
    """``x << count`` of an integer vector."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.shl(args[0], as_vector(context, builder, args[1], signature.args[1], x))

    return x(x, count), generate


@intrinsic
def shift_right(typing: Any, x: Any, count: Any) -> Any:
    """``x >> count`` of an integer vector, the sign kept."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.ashr(args[0], as_vector(context, builder, args[1], signature.args[1], x))

    return x(x, count), generate


# ---- Denormal numbers -----------------------------------------------------------------------------------------------

_X86, _ARM = machine() in ("x86_64", "AMD64"), machine() in ("aarch64", "arm64")
_FLUSH = 0x8040 if _X86 else 1 << 24  # results and operands: in MXCSR of SSE and AVX, or FZ in FPCR of ARM
_BYTE = ir.IntType(8).as_pointer()


def _read(builder: ir.IRBuilder) -> ir.Value:
    """The control word of floating-point arithmetic."""
    if _ARM:
        return builder.trunc(builder.call(declare(builder, "llvm.aarch64.get.fpcr", I64, []), []), I32)
    word = builder.alloca(I32)
    _with_word(builder, "st", word)
    return builder.load(word)


def _write(builder: ir.IRBuilder, value: ir.Value) -> None:
    if _ARM:
        builder.call(declare(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), [I64]), [builder.zext(value, I64)])
        return
    word = builder.alloca(I32)
    builder.store(value, word)
    _with_word(builder, "ld", word)


def _with_word(builder: ir.IRBuilder, name: str, word: ir.Value) -> None:
    function = declare(builder, f"llvm.x86.sse.{name}mxcsr", ir.VoidType(), [_BYTE])
    builder.call(function, [builder.bitcast(word, _BYTE)])


@intrinsic
def without_denormals(typing: Any) -> Any:
    """Treat denormals as 0 in this thread; returns the state that ``with_denormals_as`` restores. Does nothing except
    on x86 and 64-bit ARM."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if not (_X86 or _ARM):
            return I32(0)
        before = _read(builder)
        _write(builder, builder.or_(before, I32(_FLUSH)))
        return before

    return types.int32(), generate


@intrinsic
def with_denormals_as(typing: Any, before: Any) -> Any:
    """Restore the state ``before``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if _X86 or _ARM:
            _write(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.int32), generate
