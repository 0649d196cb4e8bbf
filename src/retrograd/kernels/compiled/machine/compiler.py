"""From a Python function to machine code: the form of a kernel's source, and how it becomes an object file.

A kernel is a serial function ``body(task, worker, ...)``; its annotations are its parameter record::

    def relu(task: int, worker: int, x: Array, y: Array, n: int): ...

``Array`` is a pointer to the elements of an array of the kernel's type, ``Table`` a pointer to int64, ``Words`` one to
int32, ``Bytes`` one to uint8 (for any memory), ``Truth`` one to booleans of a byte each, ``int`` an int64 and
``float`` a float64. The compiled entry point is
``void (int64 task, int64 worker, int64 *record)``; a slot of the record is an integer, the bits of a float, or the
address of the elements of an array. A body for any number of arrays lists its parameters in ``body.parameters``; a
tuple there is one parameter, a tuple of values.

This module imports Numba, so it is imported only to compile a kernel.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types as numba_types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import AbstractTemplate, infer_global

from .front_end import Compiled, compile_function, context, declare, refresh, typing_context
from .target import target_machine

_T = TypeVar("_T")
types: Any = numba_types  # its names are created at import
if TYPE_CHECKING:

    class _Pointer(Protocol[_T]):
        """What a body does with an array: it reads and writes elements by their number."""

        def __getitem__(self, index: int) -> _T: ...

        def __setitem__(self, index: int, value: _T) -> None: ...

    Array = _Pointer[float]
    Table = Words = Bytes = _Pointer[int]
    Truth = _Pointer[bool]
else:
    Array = "Array"
    Table = "Table"
    Words = "Words"
    Bytes = "Bytes"
    Truth = "Truth"
ELEMENT = {"f": types.float32, "d": types.float64}
DATA_OFFSET = object.__basicsize__  # of the data pointer in NumPy's array object: the first field after the header


def helper(function: Callable[..., Any], body: Callable[..., Callable[..., Any]] | None = None) -> Callable[..., Any]:
    """Let kernels call ``function``; ``body`` returns the implementation for the argument types (default: itself).

    Numba's ``register_jitable`` makes a complete program of each such function, which is slower.
    """
    results: dict[tuple[Any, ...], Compiled] = {}

    class _Call(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            arguments = tuple(types.unliteral(arg) for arg in args)
            if arguments not in results:
                results[arguments] = compile_function(body(*arguments) if body else function, arguments)
                declare(function, results[arguments])
            return results[arguments].signature

        def get_impl_key(self, signature: Any) -> Any:
            return function, signature.args

    infer_global(function, types.Function(_Call))
    return function


def rename(name: Callable[..., Any], function: Any) -> None:
    """Let kernels call ``function`` under the name of another Python object, which may differ outside of kernels."""
    typing_context().refresh()  # include later registrations
    infer_global(name, typing_context().resolve_value_type(function))


def _kinds(body: Callable[..., None]) -> list[str | tuple[str, ...]]:
    """The kinds of the parameters after ``task`` and ``worker``: one of those above."""
    made: tuple[str | tuple[str, ...], ...] = getattr(body, "parameters", ())
    # annotations are strings (from __future__ import annotations)
    return list(made) or [each.annotation for each in inspect.signature(body).parameters.values()][2:]


def parameters(body: Callable[..., None]) -> list[str]:
    """The kinds of the slots of a kernel's record."""
    return [kind for kinds in _kinds(body) for kind in ((kinds,) if isinstance(kinds, str) else kinds)]


@global_compiler_lock
def compile_kernel(body: Callable[..., None], dtype: str, symbol: str) -> bytes:
    """Object file that defines ``symbol``: ``body`` for the element type ``dtype`` ("f" or "d")."""
    argtypes = {
        "Array": types.CPointer(ELEMENT[dtype]),
        "Table": types.CPointer(types.int64),
        "Words": types.CPointer(types.int32),
        "Bytes": types.CPointer(types.uint8),
        "Truth": types.CPointer(types.uint8),
        "int": types.int64,
        "float": types.float64,
    }
    kinds = _kinds(body)
    arguments = [types.int64, types.int64]
    for kind in kinds:
        arguments.append(argtypes[kind] if isinstance(kind, str) else types.Tuple([argtypes[one] for one in kind]))
    refresh()
    description, _, code = compile_function(body, tuple(arguments), types.void, called_once=True)
    code.add_ir_module(_entry(description, kinds, symbol))
    return emit(code.linked(), symbol)


@global_compiler_lock
def compile_plain(body: Callable[..., Any], arguments: int, symbol: str, returns: bool = False) -> bytes:
    """As ``compile_kernel`` for a function of 64-bit integers (that may return one), called without a record."""
    refresh()
    result = types.int64 if returns else types.void
    description, _, code = compile_function(body, (types.int64,) * arguments, result, called_once=True)
    module = context().create_module(symbol)
    word = ir.IntType(64)
    signature = ir.FunctionType(word if returns else ir.VoidType(), [word] * arguments)
    entry = ir.Function(module, signature, symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    _call(builder, module, description, list(entry.args))
    code.add_ir_module(module)
    return emit(code.linked(), symbol)


def _call(builder: ir.IRBuilder, module: ir.Module, description: Any, values: list[ir.Value]) -> None:
    """Call the compiled body by Numba's calling convention and return."""
    calls = context().call_conv
    function_type = calls.get_function_type(description.restype, description.argtypes)
    callee = ir.Function(module, function_type, description.llvm_func_name)
    _, result = calls.call_function(builder, callee, description.restype, description.argtypes, values)
    if description.restype == types.void:
        builder.ret_void()
    else:
        builder.ret(result)


def _entry(description: Any, kinds: list[str | tuple[str, ...]], symbol: str) -> ir.Module:
    """``void symbol(task, worker, record)``: unpack the record and call the compiled body."""
    target = context()
    module = target.create_module(symbol)
    word = ir.IntType(64)
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [word, word, word.as_pointer()]), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    task, worker, record = entry.args
    slots = itertools.count()

    def unpacked(kind: str, argument: types.Type) -> ir.Value:
        value = builder.load(builder.gep(record, [word(next(slots))]))
        if kind == "int":
            return value
        if kind == "float":
            return builder.bitcast(value, ir.DoubleType())
        return builder.inttoptr(value, target.get_value_type(argument))

    values = [task, worker]
    for kind, argument in zip(kinds, description.argtypes[2:], strict=True):
        if isinstance(kind, str):
            values.append(unpacked(kind, argument))
        else:
            values.append(target.make_tuple(builder, argument, list(map(unpacked, kind, argument))))
    _call(builder, module, description, values)
    return module


# kernels that spend their time in micro-kernels or loops over whole vectors: all passes take twice as long and gain
# nothing, not by unrolling either
_DRIVERS = (
    "attention_",
    "batch_norm_clamp_",
    "convolution_borders_",
    "convolution_direct_",
    "convolution_fold_",
    "convolution_narrow_",
    "convolution_planar_",
    "convolution_rowwise_",
    "convolution_winograd_",
    "matmul_",
    "memory_packing_",
    "moments_",
    "pool_",
    "pooling_",
    "recurrent_",
    "thin_product_",
)


def emit(source: str | llvm.ModuleRef, symbol: str, is_simple: bool = False) -> bytes:
    """Object file of a module's IR, exporting only ``symbol``.

    is_simple: values are in registers and addresses outside of loops already, as in a micro-kernel.
    """
    module = llvm.parse_assembly(source) if isinstance(source, str) else source
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    machine = target_machine()
    is_short = isinstance(source, str) or symbol.startswith(_DRIVERS)
    options = llvm.create_pipeline_tuning_options(speed_level=1 if is_short else 2)
    options.loop_vectorization = False  # kernels are vector code already
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    if is_simple:
        passes.add_instruction_combine_pass()
    else:  # inline small functions first, since LLVM optimizes each before it is inlined
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    if not is_short:
        builder.getModulePassManager().run(module, builder)
    elif not is_simple:
        each = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                each.run(function, builder)
    code: bytes = machine.emit_object(module)
    return code
