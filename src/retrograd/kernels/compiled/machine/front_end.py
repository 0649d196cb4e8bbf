"""From Python bytecode to LLVM IR: Numba's passes, without what kernels do not need.

Kernels have no reference counts, exceptions, closures, lists, parallel loops or debuggers. Numba's passes for those
take most of its time, and more of LLVM's: its functions return a status besides their value, for instance.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import codegen, compiler, ir_utils, lowering, transforms, typeinfer
from numba.core import ir as numba_ir
from numba.core import types as numba_types
from numba.core import typing as numba_typing
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.callconv import CPUCallConv, Status, create_error_model
from numba.core.cgutils import alloca_once
from numba.core.cpu import CPUContext
from numba.core.errors import TypingError
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.imputils import builtin_registry
from numba.core.interpreter import Interpreter, peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
from numba.core.registry import cpu_target
from numba.core.ssa import reconstruct_ssa
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import PreLowerStripPhis
from numba.core.typing import mathdecl, templates
from numba.core.typing.templates import AbstractTemplate
from numba.core.utils import OPERATORS_TO_BUILTINS
from numba.cpython.builtins import do_minmax
from numba.extending import models, register_model

types: Any = numba_types  # its names are created at import
# no fast-math assumptions: NaN and inf keep their meaning
OPTIONS = {"nopython": True, "boundscheck": False, "error_model": "numpy", "no_cpython_wrapper": True, "nogil": True}


class Library(codegen.CPUCodeLibrary):  # type: ignore[misc]
    """The code of one function. (Numba links and optimizes it with what it calls, then each caller again, and loads
    the result; ``linked`` links once, and the caller optimizes once.)"""

    def __init__(self, generator: Any, name: str) -> None:
        codegen.CodeLibrary.__init__(self, generator, name)
        self._linking_libraries: list[Library] = []
        self._final_module: Any = None

    def add_ir_module(self, module: ir.Module) -> None:
        """Add the functions of a module."""
        parsed = llvm.parse_assembly(str(module))
        if self._final_module is None:
            self._final_module = parsed
        else:
            self._final_module.link_in(parsed)

    def linked(self) -> llvm.ModuleRef:
        """This code and, each once, all functions that it calls."""
        found: dict[Library, None] = {}
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

    def add_linking_library(self, library: Any) -> None:
        """Note that this code calls that of another function."""
        if type(library) is not Library:
            self._get_module_for_linking()
        self._linking_libraries.append(library)

    def _get_module_for_linking(self) -> Any:
        raise TypeError("a kernel calls a function that Numba would compile, with other calling conventions")

    def finalize(self) -> None:
        self._finalized = True


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    _library_class = Library


# ---- Types -----------------------------------------------------------------------------------------------------------


class _Function(types.Function):  # type: ignore[misc]
    """A function whose types are looked up once: Numba tries every template at each call, and again to lower it."""

    def __init__(self, function: Any) -> None:
        super().__init__([_declared_here(each) for each in function.templates])
        self._known: dict[tuple[Any, ...], Any] = {}

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        call = (*args, *kws.items())
        if call not in self._known:
            self._known[call] = super().get_call_type(context, args, kws)
        return self._known[call]


def _declared_here(template: type) -> type:
    """The template of an intrinsic, without Numba's search for its own target, which imports all of its functions."""
    if not issubclass(template, templates._IntrinsicTemplate):
        return template
    return type(template.__name__, (template,), {"_get_target_registry": lambda self, reason: builtin_registry})


register_model(_Function)(models.OpaqueModel)


def _extreme(symbol: Callable[..., Any]) -> _Function:
    """``min`` or ``max`` of numbers. (Numba makes a complete program of each, for tuples of numbers.)"""

    class Extreme(AbstractTemplate):  # type: ignore[misc]
        key = symbol

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            if kws or len(args) < 2 or not all(isinstance(each, types.Number) for each in args):
                return None
            return numba_typing.signature(self.context.unify_types(*args), *args)

        def get_impl_key(self, signature: Any) -> Any:
            return Extreme

    def code(target: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return do_minmax(target, builder, [*signature.args], [*args], symbol)

    code.signature = (types.VarArg(types.Any),)  # type: ignore[attr-defined]
    context()._defns[Extreme].append(code, code.signature)  # type: ignore[attr-defined]
    return _Function(types.Function(Extreme))


def _cast_to_int() -> _Function:
    """``int`` of a number."""

    class Cast(AbstractTemplate):  # type: ignore[misc]
        key = int

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            if kws or len(args) != 1 or not isinstance(args[0], (types.Number, types.Boolean)):
                return None
            given = types.unliteral(args[0])
            return numba_typing.signature(given if isinstance(given, types.Integer) else types.int64, given)

        def get_impl_key(self, signature: Any) -> Any:
            return Cast

    def code(target: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return target.cast(builder, args[0], signature.args[0], signature.return_type)

    code.signature = (types.Any,)  # type: ignore[attr-defined]
    context()._defns[Cast].append(code, code.signature)  # type: ignore[attr-defined]
    return _Function(types.Function(Cast))


@cache
def _own() -> dict[Any, _Function]:
    """The functions that replace Numba's, which are complete programs."""
    return {min: _extreme(operator.lt), max: _extreme(operator.gt), int: _cast_to_int()}


class _Declarations(templates.RegistryLoader):  # type: ignore[misc]
    """What Numba and we have declared, without attributes: the first one makes Numba import SciPy, for 0.2 s."""

    def new_registrations(self, name: str) -> Iterator[Any]:
        for each in super().new_registrations(name):
            if not (isinstance(each, type) and issubclass(each, templates._OverloadAttributeTemplate)):
                yield each


class _Typing(numba_typing.Context):  # type: ignore[misc]
    """Numba's typing context for scalars, with the types of functions cached."""

    def init(self) -> None:
        self._functions_known: dict[Any, _Function] = {}
        self._values_known: dict[int, tuple[Any, _Function]] = {}  # by id; that of an object that lives
        self._registries[templates.builtin_registry] = _Declarations(templates.builtin_registry)

    def _insert_global(self, value: Any, kind: Any) -> None:
        self._values_known.clear()  # a function may have more implementations now
        super()._insert_global(value, kind)

    def load_additional_registries(self) -> None:
        self.install_registry(mathdecl.registry)

    def _load_builtins(self) -> None:
        self.install_registry(templates.builtin_registry)

    def resolve_value_type(self, value: Any) -> Any:
        if value is min or value is max or value is int:
            return _own()[value]
        if id(value) in self._values_known:
            return self._values_known[id(value)][1]
        try:
            found = super().resolve_value_type(value)
        except ValueError:  # it was made since the last refresh
            self.refresh()
            found = super().resolve_value_type(value)
        if type(found) is not types.Function:
            return found
        if found not in self._functions_known:
            self._functions_known[found] = _Function(found)
        self._values_known[id(value)] = value, self._functions_known[found]
        return self._functions_known[found]


@cache
def typing_context() -> Any:
    """The types of functions that kernels call."""
    return _Typing()


class _Inferer(typeinfer.TypeInferer):  # type: ignore[misc]
    """Numba's type inference. A constraint runs again only if a type that it reads has changed, not until none has."""

    def __init__(self, function: Any) -> None:
        super().__init__(typing_context(), function, None)
        self._changed: set[str] = set()

    def add_type(self, var: str, tp: Any, loc: Any, unless_locked: bool = False) -> None:
        variable = self.typevars[var]
        before = variable.type
        super().add_type(var, tp, loc, unless_locked)
        if variable.type != before:
            self._changed.add(var)

    def copy_type(self, src_var: str, dest_var: str, loc: Any) -> None:
        found = self.typevars[src_var].type
        if found is not None:
            variable = self.typevars[dest_var]
            before = variable.type
            if variable.add_type(found, loc=loc) != before:
                self._changed.add(dest_var)

    def propagate(self, raise_errors: bool = True) -> None:
        constraints = self.constraints.constraints
        readers: dict[str, list[int]] = defaultdict(list)
        for at, constraint in enumerate(constraints):
            for name in {*_names(vars(constraint).values())}:
                readers[name].append(at)
        failed: set[int] = set()
        pending = {*range(len(constraints))}
        while pending:
            for at in sorted(pending):
                pending.discard(at)
                self._changed.clear()
                try:
                    self._run(constraints[at])
                    failed.discard(at)
                except TypingError:  # a type may not be known yet
                    failed.add(at)
                for name in self._changed:
                    pending.update(readers[name])
        for at in sorted(failed):
            constraints[at](self)  # with a message that says where

    def _run(self, constraint: Any) -> None:
        kind = type(constraint)
        if kind is typeinfer.Propagate:
            self.copy_type(constraint.src, constraint.dst, constraint.loc)
            self.refine_map[constraint.dst] = constraint
        elif kind is typeinfer.CallConstraint:
            constraint.resolve(self, self.typevars, self.typevars[constraint.func].getone())
        elif kind is typeinfer.IntrinsicCallConstraint:
            function = constraint.func
            if function in OPERATORS_TO_BUILTINS:
                function = self.resolve_value_type(None, function)
            constraint.resolve(self, self.typevars, fnty=function)
        else:
            constraint(self)


def _names(values: Iterable[Any]) -> Iterable[str]:
    """The names of variables among the attributes of a constraint."""
    for value in values:
        if isinstance(value, numba_ir.Var):
            yield value.name
        elif isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _names(value)
        elif isinstance(value, dict):
            yield from _names(value.values())
        elif isinstance(value, typeinfer.CallConstraint):
            yield from _names(vars(value).values())


# ---- Code ------------------------------------------------------------------------------------------------------------


class _Calls(CPUCallConv):  # type: ignore[misc]
    """A function returns its value, since there are no exceptions."""

    def get_function_type(self, restype: Any, argtypes: Any) -> ir.FunctionType:
        arguments = self._get_arg_packer(argtypes).argument_types
        return ir.FunctionType(self.get_return_type(restype).pointee, [*arguments])

    def get_arguments(self, func: ir.Function) -> Any:
        return func.args

    def decorate_function(self, fn: ir.Function, args: Any, fe_argtypes: Any, noalias: bool = False) -> None:
        pass

    def return_value(self, builder: ir.IRBuilder, retval: ir.Value) -> None:
        builder.ret(retval)

    def return_native_none(self, builder: ir.IRBuilder) -> None:
        self._stop(builder)

    def return_user_exc(self, builder: ir.IRBuilder, *args: Any, **kwargs: Any) -> None:
        self._stop(builder)

    def return_status_propagate(self, builder: ir.IRBuilder, status: Any) -> None:
        self._stop(builder)

    def _stop(self, builder: ir.IRBuilder) -> None:
        """Return nothing, where Numba would raise an exception: for a ``range`` with a step of 0."""
        builder.ret(ir.Constant(builder.function.function_type.return_type, None))

    def call_function(
        self, builder: ir.IRBuilder, callee: ir.Function, resty: Any, argtys: Any, args: Any, attrs: Any = None
    ) -> tuple[Any, ir.Value]:
        arguments = self._get_arg_packer(argtys).as_arguments(builder, args)
        value = builder.call(callee, [*arguments])
        return _FINE, self.context.get_returned_value(builder, resty, value)


_YES, _NO = ir.IntType(1)(1), ir.IntType(1)(0)
_FINE = Status(
    code=ir.IntType(32)(0),
    is_ok=_YES,
    is_none=_NO,
    is_error=_NO,
    is_stop_iteration=_NO,
    is_python_exc=_NO,
    is_user_exc=_NO,
    excinfoptr=None,
)


class _Target(CPUContext):  # type: ignore[misc]
    """Numba's target with our code generator."""

    _complete = False

    @property
    def call_conv(self) -> _Calls:
        return _Calls(self)

    def load_additional_registries(self) -> None:
        """Take up new functions: it is called for each function. Of Numba's, only those of scalars are imported: the
        others take 0.2 s, since they import SciPy."""
        if not _Target._complete:
            from numba.cpython import builtins, iterators, mathimpl, numbers, rangeobj, tupleobj

            _ = builtins, iterators, numbers, rangeobj, tupleobj  # their import declares functions
            self.install_registry(mathimpl.registry)
            _Target._complete = True
        for registry in list(self._registries):
            self.install_registry(registry)

    def post_lowering(self, module: ir.Module, library: Library) -> None:
        pass  # Numba adds its reference counts

    def call_internal(self, builder: ir.IRBuilder, fndesc: Any, sig: Any, args: Any) -> ir.Value:
        return self.call_internal_no_propagate(builder, fndesc, sig, args)[1]

    def get_constant_generic(self, builder: ir.IRBuilder, ty: Any, val: Any) -> ir.Value:
        """A tuple is one constant (Numba's is an instruction for each of its elements)."""
        if not isinstance(ty, (types.UniTuple, types.NamedUniTuple)) or not val:
            return super().get_constant_generic(builder, ty, val)
        elements = [self.get_constant_generic(builder, ty.dtype, each) for each in val]
        return ir.Constant(ir.ArrayType(elements[0].type, len(elements)), elements)


@cache
def context() -> Any:
    """The target of all functions."""
    found = object.__new__(_Target)
    options = {"_internal_codegen": _Codegen("retrograd"), "typing_context": typing_context()}
    found.__dict__ = cpu_target.target_context.subtarget(**options).__dict__
    found.error_model = create_error_model(OPTIONS["error_model"], found)
    return found


@cache
def _flags() -> Any:
    flags = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, OPTIONS)
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.no_compile = True
    flags.nrt = False  # no reference counts
    flags.enable_pyobject = False
    return flags


_SMALL = 250  # instructions of a function that is inlined before anything is optimized


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Numba's code generation without what debuggers and tracebacks need."""

    def alloca(self, name: str, type: Any) -> ir.Value:
        return alloca_once(self.builder, self.context.get_value_type(type), name=name)

    is_inlined = False

    def emit_environment_object(self) -> None:
        pass

    def post_lower(self) -> None:
        if self.is_inlined or sum([len(block.instructions) for block in self.function.blocks]) < _SMALL:
            self.function.attributes.add("alwaysinline")

    def lower_block(self, block: Any) -> None:
        for instruction in block.body:
            self.loc = instruction.loc
            if type(instruction) is numba_ir.Assign:
                name = instruction.target.name
                self.storevar(self.lower_assign(self.fndesc.typemap[name], instruction), name)
            else:
                self.lower_inst(instruction)

    def storevar(self, value: ir.Value, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


# ---- The passes ------------------------------------------------------------------------------------------------------


class _Interpreter(Interpreter):  # type: ignore[misc]
    """Numba's reader of bytecode, without the steps for ``with`` and for calls with a dictionary."""

    def post_process(self, peepholes: list[Any], func_ir: Any) -> Any:
        needless = peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
        return super().post_process([each for each in peepholes if each not in needless], func_ir)


class Compiled(NamedTuple):
    """A function: Numba's description of it, its types, and its code."""

    description: Any
    signature: Any
    code: Library


def compile_function(
    body: Callable[..., Any], arguments: tuple[Any, ...], result: Any = None, called_once: bool = False
) -> Compiled:
    """Compile a Python function for these types of its arguments; None: its result has the type that it returns."""
    target = context()
    identity = FunctionIdentity.from_function(body)
    with ConfigStack().enter(_flags()):
        function = _Interpreter(identity).interpret(ByteCode(identity))
        _simplify(function)
        try:
            found, returned, calls = _inferred(function, arguments, result)
            several = not _has_one_type_each(function, found, calls)
        except Exception:  # of Numba, or of the function that chooses an implementation for the types
            several = True
        if several:  # a variable has several types, one after the other
            function.blocks = transforms.canonicalize_cfg(function.blocks)
            reconstruct_ssa(function)
            function._definitions = ir_utils.build_definitions(function.blocks)
            found, returned, calls = _inferred(function, arguments, result)
            function = PreLowerStripPhis()._strip_phi_nodes(function)
            function._definitions = ir_utils.build_definitions(function.blocks)
        description = PythonFunctionDescriptor.from_specialized_function(
            function, found, returned, calls, mangler=_symbol, inline=False, noalias=False, abi_tags=()
        )
        code = target.codegen().create_library(identity.func_qualname)
        with target.push_code_library(code):
            lower = _Lower(target, code, description, function)
            lower.is_inlined = called_once
            lower.lower()
        code.finalize()
    return Compiled(description, numba_typing.signature(returned, *arguments), code)


def _simplify(function: Any) -> None:
    """Replace fields of constant records by numbers, and constant indices by static ones."""
    known: dict[str, Any] = {}  # the values of temporaries
    for block in function.blocks.values():
        for at, statement in enumerate(block.body):
            if type(statement) is not numba_ir.Assign or len(function._definitions[statement.target.name]) != 1:
                continue
            value, name, loc = statement.value, statement.target.name, statement.loc
            kind = type(value)
            if kind in (numba_ir.Global, numba_ir.FreeVar, numba_ir.Const):
                if name.startswith("$"):
                    known[name] = value.value
            elif kind is numba_ir.Expr and value.op == "getattr" and isinstance(known.get(value.value.name), tuple):
                field = getattr(known[value.value.name], value.attr)
                known[name] = field
                if type(field) is int:
                    found = numba_ir.Const(field, loc, use_literal_type=False)
                    block.body[at] = numba_ir.Assign(found, statement.target, loc)
            elif kind is numba_ir.Expr and value.op == "getitem" and type(known.get(value.index.name)) is int:
                found = numba_ir.Expr.static_getitem(value.value, known[value.index.name], value.index, loc)
                block.body[at] = numba_ir.Assign(found, statement.target, loc)
    function._definitions = ir_utils.build_definitions(function.blocks)


def _has_one_type_each(function: Any, found: Any, calls: Any) -> bool:
    """Whether all values that are assigned to a variable have its type."""

    def kind(value: Any) -> Any:
        if isinstance(value, numba_ir.Var):
            return types.unliteral(found[value.name])
        if isinstance(value, numba_ir.Arg):
            return found[f"arg.{value.name}"]
        if isinstance(value, numba_ir.Const):
            return {int: types.int64, float: types.float64, bool: types.boolean}.get(type(value.value))
        call = calls.get(value)
        return None if call is None else types.unliteral(call.return_type)

    several = ((found[name], values) for name, values in function._definitions.items() if len(values) > 1)
    return all(kind(value) == wanted for wanted, values in several for value in values)


def _inferred(function: Any, arguments: tuple[Any, ...], result: Any) -> tuple[Any, Any, Any]:
    """The types of variables, of the result, and of calls."""
    inferer = _Inferer(function)
    for index, (name, kind) in enumerate(zip(function.arg_names, arguments, strict=True)):
        inferer.seed_argument(name, index, kind)
    if result is not None:
        inferer.seed_return(result)
    inferer.build_constraint()
    inferer.propagate()
    types_found: tuple[Any, Any, Any] = inferer.unify()
    return types_found


_numbers = itertools.count()


def _symbol(name: str, types: Any, *, abi_tags: Any = (), uid: int | None = None) -> str:
    """A short unique name; Numba's consist of the types of all arguments."""
    return f"{name.rpartition('.')[2]}.{next(_numbers)}"


_imported = 0


def refresh() -> None:
    """Take note of the functions that modules imported since then have declared."""
    global _imported
    if _imported != len(sys.modules):
        context().refresh()
        _imported = len(sys.modules)


def declare(function: Callable[..., Any], compiled: Compiled) -> None:
    """Let the code of other functions call this one."""
    description, signature, code = compiled

    def call(target: Any, builder: ir.IRBuilder, given: Any, args: Any) -> ir.Value:
        callee = target.declare_function(builder.module, description)
        return target.call_conv.call_function(builder, callee, signature.return_type, description.argtypes, args)[1]

    call.signature = description.argtypes  # type: ignore[attr-defined]
    call.libs = (code,)  # type: ignore[attr-defined]
    context()._defns[function, signature.args].append(call, description.argtypes)
