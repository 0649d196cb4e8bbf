"""SIMD values for Numba: a machine vector is a value, so that a kernel reads like arithmetic.

``load(p, i)`` takes as many elements from ``p[i]`` on as one register holds; ``+ - * /``, comparisons, ``select``,
``fma`` and the functions below work lane by lane; scalars are broadcast. The width follows the CPU
(``target.vector_bytes``) and the element type follows the pointer, so one text serves float32 and float64 on any CPU.
This module imports Numba: only code that is about to compile a kernel imports it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_cast
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from .target import vector_bytes

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_ELEMENT = {types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int32: I32, types.int64: I64}
_BITS = {types.float32: 32, types.float64: 64, types.int32: 32, types.int64: 64}
# a*b+c may become one fused operation; nothing else may be reordered, so that NaN, inf and every bit stay put
CONTRACT = ("contract",)


class Vector(types.Type):  # type: ignore[misc]
    """A register full of ``dtype``."""

    def __init__(self, dtype: types.Type, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype} x {lanes})")

    @property
    def key(self) -> tuple[types.Type, int]:
        return self.dtype, self.lanes


class Mask(types.Type):  # type: ignore[misc]
    """One truth value per lane."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


def llvm_vector(vector: Vector) -> ir.VectorType:
    return ir.VectorType(_ELEMENT[vector.dtype], vector.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, llvm_vector(vector))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, mask: Mask) -> None:
        super().__init__(manager, mask, ir.VectorType(I1, mask.lanes))


def vector_of(element: types.Type) -> Vector:
    """The vector type of one register of ``element``."""
    return Vector(element, vector_bytes() * 8 // _BITS[element])


def declare(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    """An LLVM function of the module, declared at most once."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def suffix(vector: ir.VectorType) -> str:
    """How LLVM spells a vector type in the name of an intrinsic: v16f32."""
    element = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64"}[str(vector.element)]
    return f"v{vector.count}{element}"


def splat(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    """A vector that holds ``scalar`` in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count))


def first_lanes(builder: ir.IRBuilder, count: ir.Value, lanes: int) -> ir.Value:
    """A mask of the first ``count`` lanes (an i64; a count outside 0..lanes saturates)."""
    wide = ir.VectorType(I64, lanes)
    return builder.icmp_signed("<", ir.Constant(wide, list(range(lanes))), splat(builder, count, wide))


def masked_load(builder: ir.IRBuilder, pointer: ir.Value, mask: ir.Value, other: ir.Value) -> ir.Value:
    """Lanes of memory where ``mask`` is set, of ``other`` elsewhere; masked lanes are not touched."""
    vector = other.type
    name = f"llvm.masked.load.{suffix(vector)}.p0"
    function = declare(builder, name, vector, [vector.as_pointer(), I32, mask.type, vector])
    return builder.call(function, [pointer, I32(vector_align(vector)), mask, other])


def masked_store(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, mask: ir.Value) -> None:
    """Write the lanes where ``mask`` is set."""
    vector = value.type
    name = f"llvm.masked.store.{suffix(vector)}.p0"
    function = declare(builder, name, ir.VoidType(), [vector, vector.as_pointer(), I32, mask.type])
    builder.call(function, [value, pointer, I32(vector_align(vector)), mask])


def vector_align(vector: ir.VectorType) -> int:
    """Arrays are aligned to their elements, no further."""
    return 8 if str(vector.element) in ("double", "i64") else 4


def _address(
    context: Any, builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, vector: ir.VectorType
) -> ir.Value:
    return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())


# ---------------------------------------------------------------------------------------------------- memory


@intrinsic
def lanes(typing: Any, pointer: Any) -> Any:
    """Elements of ``pointer``'s type in one register (a constant when compiled)."""
    count = vector_of(pointer.dtype).lanes
    return types.int64(pointer), lambda context, builder, signature, args: I64(count)


@intrinsic
def load(typing: Any, pointer: Any, index: Any) -> Any:
    """The register of elements that starts at ``pointer[index]``."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        value = builder.load(_address(context, builder, args[0], args[1], vector))
        value.align = vector_align(vector)
        return value

    return result(pointer, types.int64), generate


@intrinsic
def store(typing: Any, pointer: Any, index: Any, value: Any) -> Any:
    """Write a register to ``pointer[index]`` and the elements behind it."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        instruction = builder.store(args[2], _address(context, builder, args[0], args[1], args[2].type))
        instruction.align = vector_align(args[2].type)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value), generate


@intrinsic
def load_first(typing: Any, pointer: Any, index: Any, count: Any) -> Any:
    """As ``load``, but only the first ``count`` lanes; the others are 0 and their memory is not touched."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        mask = first_lanes(builder, args[2], vector.count)
        return masked_load(
            builder, _address(context, builder, args[0], args[1], vector), mask, ir.Constant(vector, None)
        )

    return result(pointer, types.int64, types.int64), generate


@intrinsic
def load_first_or(typing: Any, pointer: Any, index: Any, count: Any, other: Any) -> Any:
    """As ``load_first``, but the lanes that are not loaded hold ``other``."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        mask = first_lanes(builder, args[2], vector.count)
        rest = splat(builder, context.cast(builder, args[3], signature.args[3], result.dtype), vector)
        return masked_load(builder, _address(context, builder, args[0], args[1], vector), mask, rest)

    return result(pointer, types.int64, types.int64, types.unliteral(other)), generate


@intrinsic
def store_first(typing: Any, pointer: Any, index: Any, value: Any, count: Any) -> Any:
    """As ``store``, but only the first ``count`` lanes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        mask = first_lanes(builder, args[3], args[2].type.count)
        masked_store(builder, args[2], _address(context, builder, args[0], args[1], args[2].type), mask)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value, types.int64), generate


@intrinsic
def store_integers(typing: Any, pointer: Any, index: Any, value: Any, count: Any) -> Any:
    """As ``store_first`` of an integer vector to int64 elements, whatever its own width."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(I64, args[2].type.count)
        integers = args[2] if args[2].type == wide else builder.sext(args[2], wide)
        mask = first_lanes(builder, args[3], wide.count)
        masked_store(builder, integers, _address(context, builder, args[0], args[1], wide), mask)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value, types.int64), generate


@intrinsic
def load_integers(typing: Any, pointer: Any, index: Any, count: Any, other: Any, like: Any) -> Any:
    """As ``load_first_or`` of int64 elements, cut to the width of ``like``'s elements: one for each of its lanes."""
    result = _integer_of(like)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(I64, result.lanes)
        mask, rest = first_lanes(builder, args[2], wide.count), splat(builder, args[3], wide)
        value = masked_load(builder, _address(context, builder, args[0], args[1], wide), mask, rest)
        return builder.trunc(value, llvm_vector(result))

    return result(pointer, types.int64, types.int64, types.int64, like), generate


def buffer(count: int) -> Any:
    """A function: ``function(p)`` is memory for ``count`` elements of ``p``'s type, until the kernel returns."""

    @intrinsic
    def allocate(typing: Any, pointer: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            return cgutils.alloca_once(builder, _ELEMENT[pointer.dtype], size=count)

        return pointer(pointer), generate

    return allocate


@intrinsic
def offset(typing: Any, pointer: Any, index: Any) -> Any:
    """The pointer to ``pointer[index]``."""
    return pointer(pointer, types.int64), lambda context, builder, signature, args: builder.gep(args[0], [args[1]])


@intrinsic
def until_aligned(typing: Any, pointer: Any, index: Any) -> Any:
    """How many elements lie between ``pointer[index]`` and the next address that is a multiple of a register's size."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        place = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        rest = builder.and_(builder.neg(place), I64(vector_bytes() - 1))
        return builder.udiv(rest, I64(_BITS[pointer.dtype] // 8))

    return types.int64(pointer, types.int64), generate


@intrinsic
def address(typing: Any, pointer: Any) -> Any:
    """A pointer as an integer."""
    return types.int64(pointer), lambda context, builder, signature, args: builder.ptrtoint(args[0], I64)


@intrinsic
def pointer_like(typing: Any, pointer: Any, address: Any) -> Any:
    """An integer address as a pointer of ``pointer``'s type."""
    generate = lambda context, builder, signature, args: builder.inttoptr(args[1], args[0].type)  # noqa: E731
    return pointer(pointer, types.int64), generate


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for the cache line at an integer address. Any address will do: a wrong one costs nothing but time."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        byte = ir.IntType(8).as_pointer()
        function = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, I32, I32, I32])
        builder.call(function, [builder.inttoptr(args[0], byte), I32(0), I32(2), I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def ahead(typing: Any, pointer: Any, index: Any) -> Any:
    """Ask for the cache line 4 KiB behind ``pointer[index]``: the CPU itself does not look beyond the page it reads."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        byte = ir.IntType(8).as_pointer()
        function = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, I32, I32, I32])
        place = builder.gep(args[0], [builder.add(args[1], I64(4096 * 8 // _BITS[pointer.dtype]))])
        builder.call(function, [builder.bitcast(place, byte), I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(pointer, types.int64), generate


# ---------------------------------------------------------------------------------------------- making values


@intrinsic
def full(typing: Any, pointer: Any, value: Any) -> Any:
    """A register of ``pointer``'s type with ``value`` in every lane."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        scalar = context.cast(builder, args[1], signature.args[1], result.dtype)
        return splat(builder, scalar, llvm_vector(result))

    return result(pointer, value), generate


@intrinsic
def counting(typing: Any, pointer: Any) -> Any:
    """The register 0, 1, 2, ... of ``pointer``'s type."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return ir.Constant(llvm_vector(result), list(range(result.lanes)))

    return result(pointer), generate


@intrinsic
def full_like(typing: Any, like: Any, value: Any) -> Any:
    """A vector of ``like``'s type with ``value`` in every lane."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        scalar = context.cast(builder, args[1], signature.args[1], like.dtype)
        return splat(builder, scalar, llvm_vector(like))

    return like(like, value), generate


# ------------------------------------------------------------------------------------------------- arithmetic


def _as_vector(context: Any, builder: ir.IRBuilder, value: ir.Value, source: types.Type, target: Vector) -> ir.Value:
    """A scalar in every lane; a vector as it is."""
    if source == target:
        return value
    return splat(builder, context.cast(builder, value, source, target.dtype), llvm_vector(target))


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
        x, y = (_as_vector(context, builder, *pair, vector) for pair in zip(args, signature.args, strict=True))
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


@intrinsic
def within(typing: Any, x: Any, count: Any) -> Any:
    """Lanes of an integer vector with ``0 <= x < count`` (one unsigned comparison)."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        scalar = context.cast(builder, args[1], signature.args[1], x.dtype)
        return builder.icmp_unsigned("<", args[0], splat(builder, scalar, args[0].type))

    return Mask(x.lanes)(x, count), generate


@intrinsic
def transpose(typing: Any, source: Any, source_step: Any, target: Any, target_step: Any) -> Any:
    """``target[j*target_step + i] = source[i*source_step + j]`` for i, j below the lanes; steps in elements."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        count = vector.count
        rows = []
        for i in range(count):
            place = _address(context, builder, args[0], builder.mul(args[1], I64(i)), vector)
            rows.append(builder.load(place))
            rows[-1].align = vector_align(vector)
        columns = _transposed(builder, rows)
        for i in range(count):
            place = _address(context, builder, args[2], builder.mul(args[3], I64(i)), vector)
            builder.store(columns[i], place).align = vector_align(vector)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate


@intrinsic
def transpose_first(
    typing: Any, source: Any, source_step: Any, target: Any, target_step: Any, rows: Any, columns: Any
) -> Any:
    """``transpose`` of the first ``rows`` and ``columns`` of source alone; nothing else is read or written."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        count = vector.count

        def parts(extent: ir.Value, across: ir.Value) -> list[ir.Value]:
            """Mask of every row: the first ``across`` lanes where the row is below ``extent``."""
            nothing = I64(0)
            below = [builder.icmp_signed("<", I64(i), extent) for i in range(count)]
            return [first_lanes(builder, builder.select(b, across, nothing), count) for b in below]

        read, written = parts(args[4], args[5]), parts(args[5], args[4])
        zero = ir.Constant(vector, None)
        values = []
        for i in range(count):
            place = _address(context, builder, args[0], builder.mul(args[1], I64(i)), vector)
            values.append(masked_load(builder, place, read[i], zero))
        for i, value in enumerate(_transposed(builder, values)):
            masked_store(builder, value, _address(context, builder, args[2], builder.mul(args[3], I64(i)), vector), written[i])
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64, types.int64), generate


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors: ever smaller off-diagonal blocks are swapped between two rows."""
    rows, count = list(rows), len(rows)
    width = count // 2
    while width:
        low = [k if not k & width else k - width + count for k in range(count)]
        high = [k + width if not k & width else k + count for k in range(count)]
        masks = [ir.Constant(ir.VectorType(I32, count), order) for order in (low, high)]
        for i in range(count):
            if not i & width:
                a, b = rows[i], rows[i + width]
                rows[i] = builder.shuffle_vector(a, b, masks[0])
                rows[i + width] = builder.shuffle_vector(a, b, masks[1])
        width //= 2
    return rows


@infer_global(operator.neg)
class _NegateTyping(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        return typing_signature(args[0], args[0]) if isinstance(args[0], Vector) else None


@lower_builtin(operator.neg, Vector)
def _negate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
    return builder.fneg(args[0]) if isinstance(signature.return_type.dtype, types.Float) else builder.neg(args[0])


@intrinsic
def select(typing: Any, mask: Any, x: Any, y: Any) -> Any:
    """``x`` in the lanes where ``mask`` is set, ``y`` elsewhere; one of them may be a scalar."""
    result = x if isinstance(x, Vector) else y

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        values = [_as_vector(context, builder, args[i], signature.args[i], result) for i in (1, 2)]
        return builder.select(args[0], *values)

    return result(mask, types.unliteral(x), types.unliteral(y)), generate


@intrinsic
def both(typing: Any, x: Any, y: Any) -> Any:
    """Lanes where both masks are set."""
    return x(x, x), lambda context, builder, signature, args: builder.and_(*args)


@intrinsic
def either(typing: Any, x: Any, y: Any) -> Any:
    """Lanes where at least one of the masks is set."""
    return x(x, x), lambda context, builder, signature, args: builder.or_(*args)


@intrinsic
def fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """``x*y + z``, rounded once; ``y`` and ``z`` may be scalars."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = args[0].type
        values = [_as_vector(context, builder, *pair, x) for pair in zip(args, signature.args, strict=True)]
        return builder.call(declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3), values)

    return x(x, types.unliteral(y), types.unliteral(z)), generate


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


sqrt = _unary("sqrt")
absolute = _unary("fabs")
round_even = _unary("roundeven")


@intrinsic
def maximum(typing: Any, x: Any, y: Any) -> Any:
    """The larger one of each lane; NaN wins."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        a, b = args
        # unordered: a is taken when it is NaN; b when it is NaN, because a >= NaN is false
        take_a = builder.or_(builder.fcmp_ordered(">=", a, b), builder.fcmp_unordered("uno", a, a))
        return builder.select(take_a, a, b)

    return x(x, x), generate


@intrinsic
def exceeds(typing: Any, x: Any, y: Any) -> Any:
    """Lanes where ``x`` is above ``y``, or NaN while ``y`` is not: what a running maximum ``y`` is replaced by."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        a, b = args
        return builder.and_(builder.fcmp_unordered(">", a, b), builder.fcmp_ordered("ord", b, b))

    return Mask(x.lanes)(x, x), generate


# ------------------------------------------------------------------------------------------------ across lanes


def _tree(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Any:
    @intrinsic
    def reduce(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            value, count = args[0], args[0].type.count
            while count > 1:  # halves onto each other: a fixed order
                count //= 2
                low = ir.Constant(ir.VectorType(I32, count), list(range(count)))
                high = ir.Constant(ir.VectorType(I32, count), list(range(count, 2 * count)))
                undefined = ir.Constant(value.type, ir.Undefined)
                value = combine(
                    builder,
                    builder.shuffle_vector(value, undefined, low),
                    builder.shuffle_vector(value, undefined, high),
                )
            return builder.extract_element(value, I32(0))

        return x.dtype(x), generate

    return reduce


def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    take_a = builder.or_(builder.fcmp_ordered(">=", a, b), builder.fcmp_unordered("uno", a, a))
    return builder.select(take_a, a, b)


total = _tree(lambda builder, a, b: builder.fadd(a, b))
largest = _tree(_larger)


@intrinsic
def any_lane(typing: Any, mask: Any) -> Any:
    """Whether a lane of ``mask`` is set."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        word = builder.bitcast(args[0], ir.IntType(args[0].type.count))
        return builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    return types.boolean(mask), generate


@intrinsic
def all_lanes(typing: Any, mask: Any) -> Any:
    """Whether every lane of ``mask`` is set."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        word = builder.bitcast(args[0], ir.IntType(args[0].type.count))
        return builder.icmp_unsigned("==", word, ir.Constant(word.type, -1))

    return types.boolean(mask), generate


# ---------------------------------------------------------------------------- the bits of a floating-point number


def _integer_of(x: Vector) -> Vector:
    return Vector(types.int32 if x.dtype == types.float32 else types.int64, x.lanes)


def _float_of(x: Vector) -> Vector:
    return Vector(types.float32 if x.dtype == types.int32 else types.float64, x.lanes)


def _conversion(method: str, result_of: Callable[[Vector], Vector]) -> Any:
    @intrinsic
    def apply(typing: Any, x: Any) -> Any:
        result = result_of(x)
        generate = lambda context, builder, signature, args: getattr(builder, method)(args[0], llvm_vector(result))  # noqa: E731
        return result(x), generate

    return apply


to_integer = _conversion("fptosi", _integer_of)  # value; must be in range
to_float = _conversion("sitofp", _float_of)  # value
bits_of = _conversion("bitcast", _integer_of)  # same bits
float_from_bits = _conversion("bitcast", _float_of)  # same bits
widen = _conversion("sext", lambda x: Vector(types.int64, x.lanes))  # 64 bits in each lane, maybe several registers


@intrinsic
def shift_left(typing: Any, x: Any, count: Any) -> Any:
    """``x << count`` of an integer vector."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        scalar = context.cast(builder, args[1], signature.args[1], x.dtype)
        return builder.shl(args[0], splat(builder, scalar, args[0].type))

    return x(x, count), generate


@intrinsic
def shift_right(typing: Any, x: Any, count: Any) -> Any:
    """``x >> count`` of an integer vector, the sign kept."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        scalar = context.cast(builder, args[1], signature.args[1], x.dtype)
        return builder.ashr(args[0], splat(builder, scalar, args[0].type))

    return x(x, count), generate


@lower_cast(Vector, Vector)
def _same_vector(context: Any, builder: ir.IRBuilder, source: Any, target: Any, value: ir.Value) -> ir.Value:
    return value
