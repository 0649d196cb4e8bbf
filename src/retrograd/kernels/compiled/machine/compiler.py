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

import gc
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import codegen, compiler, compiler_machinery, lowering, transforms, typed_passes, untyped_passes
from numba.core import types as numba_types
from numba.core import typing as numba_typing
from numba.core.cgutils import alloca_once
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.interpreter import Interpreter, peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
from numba.core.ir_utils import build_definitions
from numba.core.registry import cpu_target
from numba.core.ssa import reconstruct_ssa
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import models, register_model

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
_PARTS = attrgetter("fndesc", "library")  # of Numba's result: the description of a function, and its code
# no fast-math assumptions: NaN and inf keep their meaning
OPTIONS = {"nopython": True, "boundscheck": False, "error_model": "numpy", "no_cpython_wrapper": True, "nogil": True}


class _Library(codegen.CPUCodeLibrary):  # type: ignore[misc]
    """The code of one function. (Numba links and optimizes it with what it calls, then each caller again, and loads
    the result; ``linked`` links once, and ``emit`` optimizes once.)"""

    def linked(self) -> llvm.ModuleRef:
        """This code and, each once, all functions that it calls."""
        found: dict[_Library, None] = {}
        waiting = [self]
        while waiting:
            for library in waiting.pop()._linking_libraries:
                if library not in found:
                    found[library] = None
                    waiting.append(library)
        for library in found:
            self._final_module.link_in(library._final_module, preserve=True)
        self._final_module.verify()
        return self._final_module

    def finalize(self) -> None:
        self._finalized = True

    def _optimize_functions(self, module: llvm.ModuleRef) -> None:
        pass


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    _library_class = _Library


class _Function(types.Function):  # type: ignore[misc]
    """A function whose types are looked up once: Numba tries every template at each call, and again to lower it."""

    def __init__(self, function: Any) -> None:
        super().__init__(function.templates)
        self._known: dict[tuple[Any, ...], Any] = {}

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        call = (*args, *kws.items())
        if call not in self._known:
            self._known[call] = super().get_call_type(context, args, kws)
        return self._known[call]


register_model(_Function)(models.OpaqueModel)


class _Typing(numba_typing.Context):  # type: ignore[misc]
    """Numba's typing context, with the types of functions cached."""

    _functions_known: dict[Any, _Function]

    def resolve_value_type(self, value: Any) -> Any:
        found = super().resolve_value_type(value)
        if type(found) is not types.Function:
            return found
        if found not in self._functions_known:
            self._functions_known[found] = _Function(found)
        return self._functions_known[found]


@cache
def _typing() -> Any:
    context = object.__new__(_Typing)
    context.__dict__ = cpu_target.typing_context.__dict__  # shared: types learned by either are known to both
    context._functions_known = {}
    return context


class _Target(CPUContext):  # type: ignore[misc]
    """Numba's target with our code generator."""

    _complete = False

    def load_additional_registries(self) -> None:
        """Load Numba's functions, once, and after that only new ones: it is called for each function."""
        if not _Target._complete:
            super().load_additional_registries()
            _Target._complete = True
        for registry in list(self._registries):
            self.install_registry(registry)

    def get_constant_generic(self, builder: ir.IRBuilder, ty: Any, val: Any) -> ir.Value:
        """A tuple is one constant (Numba's is an instruction for each of its elements)."""
        if not isinstance(ty, types.UniTuple) or not val:
            return super().get_constant_generic(builder, ty, val)
        elements = [self.get_constant_generic(builder, ty.dtype, each) for each in val]
        return ir.Constant(ir.ArrayType(elements[0].type, len(elements)), elements)


@cache
def _context() -> Any:
    context = object.__new__(_Target)
    numba = cpu_target.target_context.subtarget(_internal_codegen=_Codegen("retrograd"), typing_context=_typing())
    context.__dict__ = numba.__dict__
    return context


def helper(function: Callable[..., Any], body: Callable[..., Callable[..., Any]] | None = None) -> Callable[..., Any]:
    """Let kernels call ``function``; ``body`` returns the implementation for the argument types (default: itself).

    Numba's ``register_jitable`` makes a complete program of each such function, which is slower.
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
    """Let kernels call ``function`` under the name of another Python object, which may differ outside of kernels."""
    cpu_target.typing_context.refresh()  # include later registrations
    infer_global(name, cpu_target.typing_context.resolve_value_type(function))


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Numba's code generation without what debuggers and tracebacks need."""

    def alloca(self, name: str, type: Any) -> ir.Value:
        return alloca_once(self.builder, self.context.get_value_type(type), name=name)

    def emit_environment_object(self) -> None:
        pass


class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc]
    lowering_class = _Lower


class _Interpreter(Interpreter):  # type: ignore[misc]
    """Numba's reader of bytecode, without the steps for ``with`` and for calls with a dictionary."""

    def post_process(self, peepholes: list[Any], func_ir: Any) -> Any:
        needless = peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
        return super().post_process([each for each in peepholes if each not in needless], func_ir)


class _Read(untyped_passes.TranslateByteCode):  # type: ignore[misc]
    def run_pass(self, state: Any) -> bool:
        state["func_ir"] = _Interpreter(state["func_id"]).interpret(state["bc"])
        return True


class _Assignments(compiler_machinery.FunctionPass):  # type: ignore[misc]
    """A variable for each assignment. (Numba's passes also find the lifetimes of variables, several times.)"""

    _name = "assignments"

    def __init__(self) -> None:
        pass

    def run_pass(self, state: Any) -> bool:
        function = state.func_ir
        function.blocks = transforms.canonicalize_cfg(function.blocks)
        reconstruct_ssa(function)
        function._definitions = build_definitions(function.blocks)
        return True


class _Joined(typed_passes.PreLowerStripPhis):  # type: ignore[misc]
    """Variables in place of phi nodes."""

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


for _pass in _Read, _Assignments, _Joined, _Lowering:
    compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)(_pass)


class _Compiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's passes except those for closures, literals, array expressions, parallel loops and the ends of lifetimes,
    which kernels lack."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler_machinery.PassManager("retrograd")
        for one in (
            _Read,
            untyped_passes.FixupArgs,
            _Assignments,
            typed_passes.NopythonTypeInference,
            _Joined,
            typed_passes.NoPythonSupportedFeatureValidation,
            _Lowering,
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
    flags.nrt = False  # no reference counts
    flags.enable_pyobject = False
    return flags


def _kinds(body: Callable[..., None]) -> list[str | tuple[str, ...]]:
    """The kinds of the parameters after ``task`` and ``worker``: one of those above."""
    made: tuple[str | tuple[str, ...], ...] = getattr(body, "parameters", ())
    # annotations are strings (from __future__ import annotations)
    return list(made) or [each.annotation for each in inspect.signature(body).parameters.values()][2:]


def parameters(body: Callable[..., None]) -> list[str]:
    """The kinds of the slots of a kernel's record."""
    return [kind for kinds in _kinds(body) for kind in ((kinds,) if isinstance(kinds, str) else kinds)]


@contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage less often: Numba makes many long-lived objects, and collections take a tenth of the time."""
    before = gc.get_threshold()
    if before[0]:  # 0: the user has switched it off
        gc.set_threshold(max(before[0], 20_000), max(before[1], 20), *before[2:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@global_compiler_lock
@_few_collections()
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
    context, result = _context(), _compile(body, tuple(arguments), types.void)
    description, code = _PARTS(result)
    code.add_ir_module(_entry(context, description, kinds, symbol))
    return emit(code.linked(), symbol)


@global_compiler_lock
@_few_collections()
def compile_plain(body: Callable[..., Any], arguments: int, symbol: str, returns: bool = False) -> bytes:
    """As ``compile_kernel`` for a function of 64-bit integers (that may return one), called without a record."""
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
    return emit(code.linked(), symbol)


def _call(context: Any, builder: ir.IRBuilder, module: ir.Module, description: Any, values: list[ir.Value]) -> None:
    """Call the compiled body by Numba's calling convention and return."""
    function_type = context.call_conv.get_function_type(description.restype, description.argtypes)
    callee = ir.Function(module, function_type, description.llvm_func_name)
    _, result = context.call_conv.call_function(builder, callee, description.restype, description.argtypes, values)
    if description.restype == types.void:
        builder.ret_void()
    else:
        builder.ret(result)


def _entry(context: Any, description: Any, kinds: list[str | tuple[str, ...]], symbol: str) -> ir.Module:
    """``void symbol(task, worker, record)``: unpack the record and call the compiled body."""
    module = context.create_module(symbol)
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
        return builder.inttoptr(value, context.get_value_type(argument))

    values = [task, worker]
    for kind, argument in zip(kinds, description.argtypes[2:], strict=True):
        if isinstance(kind, str):
            values.append(unpacked(kind, argument))
        else:
            values.append(context.make_tuple(builder, argument, list(map(unpacked, kind, argument))))
    _call(context, builder, module, description, values)
    return module


def emit(source: str | llvm.ModuleRef, symbol: str) -> bytes:
    """Object file of a module's IR, exporting only ``symbol``."""
    module = llvm.parse_assembly(source) if isinstance(source, str) else source
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
