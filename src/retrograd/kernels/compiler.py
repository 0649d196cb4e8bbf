"""From a Python function to machine code: what a kernel's text may say, and how it becomes an object file.

A kernel is a serial function ``body(task, worker, ...)``; its annotations are its parameter record::

    def relu(task: int, worker: int, x: Array, y: Array, n: int): ...

``Array`` is a pointer to the elements of an array of the kernel's type, ``Table`` a pointer to int64, ``Truth`` one to
truth values of one byte, ``int`` an int64 and ``float`` a float64. The compiled entry point is
``void (int64 task, int64 worker, int64 *record)``; one slot of the record is the integer itself, the bits of a float,
or the address of the elements of an array.

This module imports Numba: only code that is about to compile a kernel imports it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import codegen, compiler, compiler_machinery, typed_passes, untyped_passes
from numba.core import types as numba_types
from numba.core import typing as numba_typing
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.typing.templates import AbstractTemplate, infer_global

from .target import target_machine

types: Any = numba_types  # its names are made when it is imported
Array = "Array"
Table = "Table"
Truth = "Truth"
ELEMENT = {"f": types.float32, "d": types.float64}
DATA_OFFSET = object.__basicsize__  # of the data pointer in NumPy's array object: the first field behind the header
_PARTS = attrgetter("fndesc", "library")  # of what Numba gives back: the description of a function, and its code
# no value is assumed away: NaN and inf mean what they mean everywhere
OPTIONS = {"nopython": True, "boundscheck": False, "error_model": "numpy", "no_cpython_wrapper": True, "nogil": True}


class _Library(codegen.CPUCodeLibrary):  # type: ignore[misc]
    """Code as Numba wrote it. (Numba optimises each function, each caller again, and runs the result; ``emit`` does
    the one optimisation.)"""

    def _optimize_functions(self, module: llvm.ModuleRef) -> None:
        pass

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_specific(self) -> None:
        pass


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    _library_class = _Library

    def _add_module(self, module: llvm.ModuleRef) -> None:
        pass


@cache
def _context() -> Any:
    """Numba's target, with our way to make code."""
    return cpu_target.target_context.subtarget(_internal_codegen=_Codegen("retrograd"))


class _Typing(numba_typing.Context):  # type: ignore[misc]
    """Numba's typing that asks only once what an operator does with numbers; it would try all of NumPy's each time."""

    _of_numbers: dict[tuple[Any, ...], Any]

    def resolve_function_type(self, function: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        operator = getattr(getattr(function, "typing_key", None), "__module__", None) == "_operator"
        if not operator or kws or not all(isinstance(arg, (types.Number, types.Boolean)) for arg in args):
            return super().resolve_function_type(function, args, kws)
        question = function, args
        if question not in self._of_numbers:
            self._of_numbers[question] = super().resolve_function_type(function, args, kws)
        return self._of_numbers[question]


@cache
def _typing() -> Any:
    context = object.__new__(_Typing)
    context.__dict__ = cpu_target.typing_context.__dict__  # what either learns, both know
    context._of_numbers = {}
    return context


def helper(function: Callable[..., Any], body: Callable[..., Callable[..., Any]] | None = None) -> Callable[..., Any]:
    """Let kernels call ``function``; ``body`` finds its text for the types of the arguments (the default: its own).

    Numba's ``register_jitable`` makes a complete program of each such function, which takes longer.
    """
    results: dict[tuple[Any, ...], Any] = {}

    class _Call(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            arguments = tuple(types.unliteral(arg) for arg in args)
            if arguments not in results:
                result = _compile(body(*arguments) if body else function, arguments, None)
                description, code = _PARTS(result)
                _context().insert_user_function((function, arguments), description, [code])
                results[arguments] = result
            return results[arguments].signature

        def get_impl_key(self, signature: Any) -> Any:
            return function, signature.args

    infer_global(function, types.Function(_Call))
    return function


def rename(name: Callable[..., Any], function: Any) -> None:
    """Let kernels call ``function`` by another Python object, which may mean something else outside of kernels."""
    cpu_target.typing_context.refresh()  # what was registered since
    infer_global(name, cpu_target.typing_context.resolve_value_type(function))


class _Compiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's passes without those for closures, literals, array expressions and parallel loops: no kernel has any."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler_machinery.PassManager("retrograd")
        for one in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.NoPythonSupportedFeatureValidation,
            typed_passes.IRLegalization,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


def _compile(body: Callable[..., Any], arguments: tuple[Any, ...], result: Any) -> Any:
    return compiler.compile_extra(
        _typing(), _context(), body, arguments, result, _flags(), {}, pipeline_class=_Compiler
    )


def _flags() -> Any:
    flags = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, OPTIONS)
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.no_compile = True
    flags.enable_pyobject = False
    return flags


def parameters(body: Callable[..., None]) -> list[str]:
    """The annotations behind ``task`` and ``worker``: "Array", "Table", "Truth", "int" or "float" each."""
    # the annotations are texts (from __future__ import annotations)
    return [parameter.annotation for parameter in inspect.signature(body).parameters.values()][2:]


@global_compiler_lock
def compile_kernel(body: Callable[..., None], dtype: str, symbol: str) -> bytes:
    """Object file that defines ``symbol``: ``body`` for the element type ``dtype`` ("f" or "d")."""
    kinds = parameters(body)
    argtypes = {
        "Array": types.CPointer(ELEMENT[dtype]),
        "Table": types.CPointer(types.int64),
        "Truth": types.CPointer(types.uint8),
        "int": types.int64,
        "float": types.float64,
    }
    arguments = (types.int64, types.int64, *(argtypes[kind] for kind in kinds))
    context, result = _context(), _compile(body, arguments, types.void)
    description, code = _PARTS(result)
    code.add_ir_module(_entry(context, description, kinds, symbol))
    code.finalize()
    return emit(str(code.get_llvm_str()), symbol)


@global_compiler_lock
def compile_plain(body: Callable[..., Any], arguments: int, symbol: str, returns: bool = False) -> bytes:
    """As ``compile_kernel`` for a function of 64-bit integers (that returns one) which is called without a record."""
    context = _context()
    result = _compile(body, (types.int64,) * arguments, types.int64 if returns else types.void)
    description, code = _PARTS(result)
    module = context.create_module(symbol)
    word = ir.IntType(64)
    signature = ir.FunctionType(word if returns else ir.VoidType(), [word] * arguments)
    entry = ir.Function(module, signature, symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    _call(context, builder, module, description, list(entry.args))
    code.add_ir_module(module)
    code.finalize()
    return emit(str(code.get_llvm_str()), symbol)


def _call(context: Any, builder: ir.IRBuilder, module: ir.Module, description: Any, values: list[ir.Value]) -> None:
    """Call the compiled body by Numba's calling convention and return."""
    function_type = context.call_conv.get_function_type(description.restype, description.argtypes)
    callee = ir.Function(module, function_type, description.llvm_func_name)
    _, result = context.call_conv.call_function(builder, callee, description.restype, description.argtypes, values)
    if description.restype == types.void:
        builder.ret_void()
    else:
        builder.ret(result)


def _entry(context: Any, description: Any, kinds: list[str], symbol: str) -> ir.Module:
    """``void symbol(task, worker, record)``: unpack the record and call the compiled body."""
    module = context.create_module(symbol)
    word = ir.IntType(64)
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [word, word, word.as_pointer()]), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    task, worker, record = entry.args
    values = [task, worker]
    for slot, kind in enumerate(kinds):
        value = builder.load(builder.gep(record, [word(slot)]))
        if kind in ("Array", "Table", "Truth"):
            value = builder.inttoptr(value, context.get_value_type(description.argtypes[2 + slot]))
        elif kind == "float":
            value = builder.bitcast(value, ir.DoubleType())
        values.append(value)
    _call(context, builder, module, description, values)
    return module


def emit(text: str, symbol: str) -> bytes:
    """Object file of a module's text in which only ``symbol`` is visible."""
    module = llvm.parse_assembly(text)
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    machine = target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # kernels are vector code already
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    code: bytes = machine.emit_object(module)
    return code
