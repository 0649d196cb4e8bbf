"""Module traversal, `state_dict` and `load_state_dict`."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np

from ..arrays import any_true, broadcast_to, empty, from_host, is_array
from ..engine.aliasing import mark_changed
from ..engine.arguments import as_callable, kind_name
from ..engine.hooks import HookDict, RemovableHandle
from ..engine.tensor import Tensor
from ..kernel_set import exact, kernels
from ..ops.argument_checks import as_truth
from .parameter import NO_SHAPE, is_lazy

if TYPE_CHECKING:
    from .module import Module

__all__ = ["IncompatibleKeys", "HasStateDict", "Tree", "checked_arrays", "fill", "undo_of_fill", "walk"]


# ---- Traversal, with loops because modules may be nested deeper than Python's recursion limit -----------------------


def walk(
    root: Module, children: Callable[[Module], Iterable[tuple[str, Module]]], prefix: str = ""
) -> Iterator[tuple[str, Module, bool]]:
    """Yield (path, module, False) on entering root and its ``children``, (path, module, True) on leaving them.

    Raises:
        RecursionError: a module contains itself.
    """
    yield prefix, root, False
    ancestors = {id(root)}
    stack = [(prefix, root, iter(children(root)))]
    while stack:
        path, module, rest = stack[-1]
        entry = next(rest, None)
        if entry is None:
            yield path, module, True
            stack.pop()
            ancestors.remove(id(module))
            continue
        name, child = entry
        path = f"{path}.{name}" if path else name
        if id(child) in ancestors:
            raise _cycle(path, child)
        yield path, child, False
        ancestors.add(id(child))
        stack.append((path, child, iter(children(child))))


def _cycle(path: str, module: Module) -> RecursionError:
    return RecursionError(f"{type(module).__name__}: the module at {path!r} contains itself; remove it from there")


class Tree:
    """The methods of Module that traverse, copy and print the modules below it."""

    if TYPE_CHECKING:
        _child_names: dict[str, None]

        def _arguments(self) -> str: ...

    def _members(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, child) for every direct child; one with two names appears twice."""
        return ((name, child) for name in self._child_names if (child := self.__dict__[name]) is not None)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, child) for every direct child, each module once."""
        seen: set[int] = set()
        for name, child in self._members():
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (path, module) for this module (its path is "") and all below it, parents first."""
        seen = set() if memo is None else memo
        root = cast("Module", self)
        if root in seen:
            return
        if remove_duplicate:
            seen.add(root)
        yield prefix, root
        stack = [(prefix, self.__dict__, iter(self._child_names))]
        while stack:  # walk(), inlined for speed: parameters() in every training step runs this
            prefix, members, names = stack[-1]
            for name in names:
                child = members[name]
                if child is None or child in seen:
                    continue
                path = f"{prefix}.{name}" if prefix else name
                if remove_duplicate:
                    seen.add(child)
                elif any(child.__dict__ is ancestor for _, ancestor, _ in stack):
                    raise _cycle(path, child)
                yield path, child
                if child._child_names:
                    stack.append((path, child.__dict__, iter(child._child_names)))
                    break
            else:
                stack.pop()

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call fn on every module below this one and then on this one."""
        as_callable("apply", "fn", fn)
        given: Any = fn
        if isinstance(given, type) and issubclass(given, Tree):
            raise TypeError(f"apply: fn is the class {given.__name__}, needs a function of a module")
        root = cast("Module", self)

        def within(module: Module) -> Iterator[tuple[str, Module]]:
            own = module is root or type(module).apply is Tree.apply  # an overridden apply is called instead
            return module.named_children() if own else iter(())

        for _, module, leaving in walk(root, within):
            if leaving:
                if module is root or type(module).apply is Tree.apply:
                    fn(module)
                else:
                    module.apply(fn)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the module, innermost modules first, so that copying a module finds its children in memo."""
        root = cast("Module", self)
        seen = {id(self)}

        def unseen(module: Module) -> Iterator[tuple[str, Module]]:
            for name, child in module._members():
                if id(child) not in seen and id(child) not in memo:
                    seen.add(id(child))
                    yield name, child

        for _, module, leaving in walk(root, unseen):
            if not leaving or id(module) in memo:
                continue
            if module is root or type(module).__deepcopy__ is Tree.__deepcopy__:
                copy._reconstruct(module, memo, *module.__reduce_ex__(4))  # type: ignore[attr-defined]  # stores it in memo
            else:
                copy.deepcopy(module, memo)
        return memo[id(self)]

    # ------------------------------------------------------------------ text
    def extra_repr(self) -> str:
        """Return the module's own arguments for its repr; layers override this."""
        return ""

    def describe(self) -> str:
        """Return one line for messages: ``Conv2d(16, 32, kernel_size=(3, 3), stride=(1, 1))``, without children."""
        arguments = self._arguments()
        if "\n" in arguments or (self._child_names and not arguments):
            return type(self).__name__
        return f"{type(self).__name__}({arguments})"

    def _entries(self, number: Callable[[Any], int]) -> list[tuple[str, Any]]:
        """Return (label, child) for every entry of the repr; children with equal reprs have equal numbers."""
        return [(f"({name}): ", self.__dict__[name]) for name in self._child_names]

    def __repr__(self) -> str:
        numbers = _numbered(cast("Module", self))

        def number(child: Any) -> int:
            return numbers[id(child)]

        lines: list[str] = []
        pending: list[tuple[int, str, Any]] = [(0, "", self)]
        while pending:
            depth, label, module = pending.pop()
            margin = "  " * depth
            if not _has_tree_repr(module) and module is not self:
                text = label + ("" if module is _END else repr(module))
                lines.append(margin + text.replace("\n", "\n" + margin))
                continue
            arguments = module._arguments()
            entries = module._entries(number)
            start = f"{margin}{label}{type(module).__name__}("
            if not entries and "\n" not in arguments:
                lines.append(f"{start}{arguments})")
                continue
            lines += [start, *(f"{margin}  {line}" for line in arguments.splitlines())]
            pending.append((depth, ")", _END))
            pending += [(depth + 1, *entry) for entry in reversed(entries)]
        return "\n".join(lines)


_END = object()  # the line after the last entry


def _has_tree_repr(module: Any) -> bool:
    return isinstance(module, Tree) and type(module).__repr__ is Tree.__repr__


def _numbered(root: Module) -> dict[int, int]:
    """Return {id: number} for each module and for None; modules with equal reprs have the same number."""
    number_of: dict[Any, int] = {}
    numbers = {id(None): -1}

    def within(module: Module) -> Iterator[tuple[str, Module]]:
        return module._members() if module is root or _has_tree_repr(module) else iter(())

    for _, module, leaving in walk(root, within):
        if leaving and id(module) not in numbers:
            if module is root or _has_tree_repr(module):
                below = tuple((name, numbers[id(module.__dict__[name])]) for name in module._child_names)
                key: Any = type(module).__name__, module._arguments(), below
            else:
                key = repr(module)
            numbers[id(module)] = number_of.setdefault(key, len(number_of))
    return numbers


# ---- Checking and copying the values of load_state_dict, from which lazy layers infer their sizes -------------------

_COUNTS = ("num_batches_tracked", "n_averaged")  # buffers that divide a mean
Shapes = dict[str, tuple[int, ...]]


def checked_arrays(
    module: Module, own: Mapping[str, Tensor], state_dict: Mapping[str, Any], assign: bool
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the arrays for the keys in own and state_dict, and error messages for those that do not fit."""
    arrays: dict[str, np.ndarray] = {}
    problems: list[str] = []
    for key in (key for key in own if key in state_dict):
        value, target = state_dict[key], own[key]
        if is_lazy(value):
            if not is_lazy(target):
                problems.append(f"{key}: {NO_SHAPE}")
            continue  # both are still uninitialized
        array = value.array if isinstance(value, Tensor) else value
        if is_lazy(target) and is_array(array):  # any shape is fine
            place = broadcast_to(empty((), target.dtype), array.shape)
        else:
            place = empty(0, target.dtype) if is_lazy(target) else target.array
        problem = _misfit(key, array, place, assign)
        if problem:
            problems.append(problem)
        arrays[key] = array
    if not problems:
        for path, shapes in _lazy_shapes(own, arrays).items():
            owner = module.get_submodule(path)  # a user's own module may lack the method
            problem = owner.misfit_of_shapes(shapes) if hasattr(owner, "misfit_of_shapes") else None
            if problem:
                problems.append(f"size mismatch for {path}{'.' if path else ''}{problem}")
    return arrays, problems


def fill(module: Module, own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray], assign: bool) -> None:
    """Copy (or assign) the arrays, which must fit, into their Tensors."""
    for path, shapes in _lazy_shapes(own, arrays).items():
        owner = module.get_submodule(path)
        if hasattr(owner, "learn_from_shapes"):
            owner.learn_from_shapes(shapes)
    for key, array in arrays.items():
        target: Any = own[key]
        if is_lazy(target):
            target.materialize(array.shape)
        if assign:
            target.array, target.grad = array, None
        else:
            kernels.assign(target.array, array)  # a float64 beyond float32's range becomes infinite


def undo_of_fill(own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """Return a function that undoes ``fill``; lazy parameters keep the shapes that they were given."""
    targets: list[Any] = [own[key] for key in arrays if not is_lazy(own[key])]
    before = [(target, target.array, kernels.duplicate(target.array), target.grad) for target in targets]

    def put_back() -> None:
        for target, array, values, gradient in before:
            kernels.copy(array, values)
            target.array, target.grad = array, gradient

    return put_back


def _lazy_shapes(own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray]) -> dict[str, Shapes]:
    """Return the paths of the modules that infer their sizes from these arrays, with the shapes."""
    found: dict[str, Shapes] = {}
    for key, array in arrays.items():
        if is_lazy(own[key]):
            path, _, name = key.rpartition(".")
            found.setdefault(path, {})[name] = array.shape
    return found


def _misfit(key: str, array: Any, target: np.ndarray, assign: bool) -> str | None:
    """Return the reason why array cannot be copied into target, or (assign) replace it; None if it can."""
    if not (is_array(array) or isinstance(array, np.generic)):
        return f'"{key}": expected a Tensor or an array, got {kind_name(array)}.'
    if array.shape != target.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {array.shape} from checkpoint, "
            f"the shape in current model is {target.shape}."
        )
    if not np.can_cast(array.dtype, target.dtype, casting="same_kind"):
        return f"dtype mismatch for {key}: {array.dtype} in checkpoint cannot be copied to {target.dtype}."
    is_count = key.rpartition(".")[2] in _COUNTS and array.dtype.kind in "iu"
    if is_count and any_true(exact("lt")(array, from_host(0, array.dtype)), "whether a count is negative"):
        return f"{key}: {array} is not a count; it must be at least 0."
    fresh = is_array(array) and array.flags.writeable
    if assign and not (fresh and array.dtype.kind == target.dtype.kind):
        return f"{key}: assign=True needs a writable array of kind {target.dtype}, got {array.dtype}; leave assign out."
    return None


# ---- state_dict and load_state_dict, and their hooks ----------------------------------------------------------------

_EXTRA = "_extra_state"  # the key of the result of get_extra_state
_KINDS = ("save_pre", "save", "load_pre", "load_post")


class IncompatibleKeys(NamedTuple):
    """The keys that load_state_dict(strict=False) ignored."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class HasStateDict:
    """The methods of Module that save and load its state, as in PyTorch."""

    _state_hooks: dict[str, HookDict]
    _version = 1  # of the state's layout; a class that changes the layout increments it and reads older versions

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return {path: tensor} of parameters and persistent buffers, in logical shapes, sharing their memory.

        The dict's attribute ``_metadata`` has {"version": ...} of each module by its path, as in PyTorch.

        keep_vars: return the parameters themselves instead of detached tensors.
        """
        result: dict[str, Any] = _new_state({}) if destination is None else destination
        versions: dict[str, dict[str, Any]] = {}
        root = cast("Module", self)

        def within(module: Module) -> Iterator[tuple[str, Module]]:
            own = (
                module is root or type(module).state_dict is HasStateDict.state_dict
            )  # an overridden one is called instead
            return module._members() if own else iter(())

        for path, module, leaving in walk(root, within):
            start = f"{prefix}{path}." if path else prefix
            if module is not root and type(module).state_dict is not HasStateDict.state_dict:
                if leaving:
                    module.state_dict(destination=result, prefix=start, keep_vars=keep_vars)
            elif leaving:
                for hook, public in _hooks(module, "save"):
                    replaced = hook(module, result, start, versions[start])
                    if replaced is not None and public:
                        raise RuntimeError("state_dict post-hook must return None; change the dict that it is given")
                    result = result if replaced is None else replaced
            else:
                versions[start] = {"version": module._version}
                if hasattr(result, "_metadata"):
                    result._metadata[start[:-1]] = versions[start]
                for (hook,) in _hooks(module, "save_pre"):
                    hook(module, start, keep_vars)
                module._save_to_state_dict(result, start, keep_vars)
        return result

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Store the members of this module, but not of its children, in ``destination``."""
        for name, tensor in _own_members(self):
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not HasStateDict.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the values of state_dict (Tensors or arrays) into the parameters and buffers.

        Everything is checked before the first value is written: a failed call changes nothing. The existing memory,
        with its order and dtype, is kept. strict=False ignores missing and unexpected keys and returns them; values of
        a wrong shape or kind are still refused. assign=True uses the memory and dtype of the values instead of copying,
        and drops gradients; parameters stay the same objects. Lazy layers infer their sizes.

        ``_load_from_state_dict`` and hooks get the version of a module's state from ``state_dict._metadata``.

        A hook of ``register_load_state_dict_post_hook`` may remove keys from the missing and unexpected ones, so with
        such a hook these are an error only after it has run. If they are, or if a hook or ``set_extra_state`` fails,
        parameters and buffers get their old values back.

        Raises:
            TypeError: state_dict is not a mapping.
            RuntimeError: keys are missing or unexpected (strict), or values do not fit; the message lists all of them.
        """
        if not isinstance(state_dict, Mapping):
            path = isinstance(state_dict, (str, os.PathLike))
            hint = "; read the file first: load_state_dict(retrograd.load(path))" if path else ""
            hint = f"; pass {type(state_dict).__name__}.state_dict()" if isinstance(state_dict, Tree) else hint
            raise TypeError(f"load_state_dict: state_dict must be a dict of tensors, got {kind_name(state_dict)}{hint}")
        strict, assign = as_truth("load_state_dict", "strict", strict), as_truth("load_state_dict", "assign", assign)
        root = cast("Module", self)
        versions = getattr(state_dict, "_metadata", None)
        versions = versions if isinstance(versions, Mapping) else {}
        state: dict[str, Any] = _new_state(versions)  # a copy: hooks may change it
        state.update(state_dict)
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        own: dict[str, Tensor] = {}
        extra: dict[str, Module] = {}
        after = []
        for path, module, leaving in walk(root, lambda module: module._members()):
            start = f"{path}." if path else ""
            if leaving:
                after += [(module, hook) for (hook,) in _hooks(module, "load_post")]
                continue
            found_version = versions.get(path, {})
            local = dict(found_version) if isinstance(found_version, Mapping) else {}
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(state, start, local, strict, missing, unexpected, errors)
            own |= {start + name: tensor for name, tensor in _own_members(module)}
            if type(module).set_extra_state is not HasStateDict.set_extra_state:
                extra[start + _EXTRA] = module
        named = set(missing)
        missing += [key for key in (*own, *extra) if key not in state and key not in named]
        unexpected += [key for key in state if key not in own and key not in extra]
        arrays, misfits = checked_arrays(root, own, state, assign)
        found = IncompatibleKeys(missing, unexpected)
        self._refuse([] if after else _absent(found, strict), [*errors, *misfits])
        put_back = undo_of_fill(own, arrays) if extra or after else None
        fill(root, own, arrays, assign)
        mark_changed([own[key].array for key in arrays], "load_state_dict")
        try:
            for key, module in extra.items():
                if key in state:
                    module.set_extra_state(state[key])
            for module, hook in after:
                if hook(module, found) is not None:
                    raise RuntimeError(
                        "a hook of register_load_state_dict_post_hook must return None; change its argument"
                    )
            self._refuse(_absent(found, strict), [])
        except BaseException:
            if put_back is not None:
                put_back()
            raise
        return found

    def _refuse(self, absent: list[str], misfits: list[str]) -> None:
        if absent:
            absent = [*absent, "(strict=False ignores missing and unexpected keys.)"]
        if absent or misfits:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}, nothing was changed:"
                + "".join(f"\n\t{problem}" for problem in (*absent, *misfits))
            )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Run this module's hooks before a state is loaded; an override may change ``state_dict``."""
        for hook, with_module in _hooks(self, "load_pre"):
            first = (self,) if with_module else ()
            hook(*first, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    # ---- hooks and extra state ------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before state_dict() reads this module.

        Raises:
            TypeError: hook is not callable.
        """
        return _register(self, "save_pre", "register_state_dict_pre_hook", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata) after state_dict() has read this module.

        It runs after the modules below this one have been read. The hook may change the dict and local_metadata,
        {"version": ...}; it must return None.

        Raises:
            TypeError: hook is not callable.
        """
        return _register(self, "save", "register_state_dict_post_hook", hook, True)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like ``register_state_dict_post_hook``, but a result replaces the dict."""
        return _register(self, "save", "_register_state_dict_hook", hook, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs).

        It runs before this module is loaded, and may change the dict, which is a copy, and add to the lists.
        local_metadata has the "version" that saved the state, unless the dict came without versions.

        Raises:
            TypeError: hook is not callable.
        """
        return _register(self, "load_pre", "register_load_state_dict_pre_hook", hook, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """Like ``register_load_state_dict_pre_hook``, but without the module unless ``with_module``."""
        return _register(self, "load_pre", "_register_load_state_dict_pre_hook", hook, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call hook(module, incompatible_keys) after the values are written, innermost modules first.

        It may change the two lists, missing_keys and unexpected_keys, and must return None.

        Raises:
            TypeError: hook is not callable.
        """
        return _register(self, "load_post", "register_load_state_dict_post_hook", hook)

    def get_extra_state(self) -> Any:
        """Return the state other than tensors, for "_extra_state" in state_dict(); for a subclass to override."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; override get_extra_state and set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that ``get_extra_state`` returned; for a subclass to override."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; override get_extra_state and set_extra_state")


def _new_state(versions: Mapping[str, Any]) -> dict[str, Any]:
    """Return an empty state with the versions of the modules in its ``_metadata``, as in PyTorch."""
    state: Any = OrderedDict()
    state._metadata = OrderedDict(versions)
    return state


def _own_members(module: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) for the parameters and persistent buffers of one module."""
    persistent = (name for name, saved in module._buffer_names.items() if saved)
    for name in (*module._parameter_names, *persistent):
        if module.__dict__[name] is not None:
            yield name, module.__dict__[name]


def _register(module: Any, kind: str, name: str, hook: Callable[..., Any], *options: bool) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"{name}: hook must be a function, got {kind_name(hook)}")
    hooks = module.__dict__.setdefault("_state_hooks", {each: HookDict() for each in _KINDS})
    return RemovableHandle(hooks[kind], (hook, *options))


def _hooks(module: Any, kind: str) -> list[tuple[Any, ...]]:
    hooks = module.__dict__.get("_state_hooks")
    return list(hooks[kind].values()) if hooks else []


def _absent(found: IncompatibleKeys, strict: bool) -> list[str]:
    """Return the error messages for missing and unexpected keys; none unless strict."""
    kinds = (("Missing", found.missing_keys), ("Unexpected", found.unexpected_keys)) if strict else ()
    return [f"{kind} key(s) in state_dict: {_quoted(keys)}." for kind, keys in kinds if keys]


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
