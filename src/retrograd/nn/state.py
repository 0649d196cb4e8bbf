"""The state of a module: state_dict, load_state_dict, and the user's functions that run around them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..engine.aliasing import mark
from ..engine.hooks import HookDict, RemovableHandle
from ..engine.tensor import Tensor
from .loading import fill, fitting, kept
from .tree import walk

if TYPE_CHECKING:
    from .module import Module

__all__ = ["IncompatibleKeys", "Stated"]

_EXTRA = "_extra_state"  # the key of what get_extra_state returns
_KINDS = ("save_pre", "save", "load_pre", "load_post")


class IncompatibleKeys(NamedTuple):
    """The keys that load_state_dict(strict=False) ignored."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Stated:
    """The methods of Module that give and take its state, as in PyTorch."""

    _state_hooks: dict[str, HookDict]
    _version = 1  # of the layout of the state; a class that changes it counts on, and reads the older ones

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """{path: tensor} of parameters and persistent buffers, in logical shapes, sharing their memory.

        The dict's attribute ``_metadata`` has {"version": ...} of each module by its path, as in PyTorch.

        keep_vars: return the parameters themselves instead of detached tensors.
        """
        result: dict[str, Any] = _new_state({}) if destination is None else destination
        versions: dict[str, dict[str, Any]] = {}
        root = cast("Module", self)

        def within(module: Module) -> Iterator[tuple[str, Module]]:
            own = module is root or type(module).state_dict is Stated.state_dict  # an overridden one is called instead
            return module._members() if own else iter(())

        for path, module, left in walk(root, within):
            start = f"{prefix}{path}." if path else prefix
            if module is not root and type(module).state_dict is not Stated.state_dict:
                if left:
                    module.state_dict(destination=result, prefix=start, keep_vars=keep_vars)
            elif left:
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
        """Put the members of this module alone into ``destination``."""
        for name, tensor in _own_members(self):
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Stated.get_extra_state:
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

        With a hook of ``register_load_state_dict_post_hook``, which may take keys off those that are missing or
        unexpected, these are an error only after it ran. If that, a hook or ``set_extra_state`` fails, parameters and
        buffers get their old values back.

        Raises:
            TypeError: state_dict is not a mapping.
            RuntimeError: keys are missing or unexpected (strict), or values do not fit; the message lists all of them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: state_dict must be a dict of tensors, got {type(state_dict).__name__}")
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
        for path, module, left in walk(root, lambda module: module._members()):
            start = f"{path}." if path else ""
            if left:
                after += [(module, hook) for (hook,) in _hooks(module, "load_post")]
                continue
            found_version = versions.get(path, {})
            local = dict(found_version) if isinstance(found_version, Mapping) else {}
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(state, start, local, strict, missing, unexpected, errors)
            own |= {start + name: tensor for name, tensor in _own_members(module)}
            if type(module).set_extra_state is not Stated.set_extra_state:
                extra[start + _EXTRA] = module
        named = set(missing)
        missing += [key for key in (*own, *extra) if key not in state and key not in named]
        unexpected += [key for key in state if key not in own and key not in extra]
        arrays, misfits = fitting(root, own, state, assign)
        found = IncompatibleKeys(missing, unexpected)
        self._refuse([] if after else _absent(found, strict), [*errors, *misfits])
        put_back = kept(own, arrays) if extra or after else None
        fill(root, own, arrays, assign)
        mark([own[key].array for key in arrays], "load_state_dict")
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
        """Run the hooks of this module before a state is loaded; one that overrides this may change ``state_dict``."""
        for hook, with_module in _hooks(self, "load_pre"):
            first = (self,) if with_module else ()
            hook(*first, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    # ---- the user's functions ------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before state_dict() reads this module.

        Raises:
            TypeError: hook is not callable.
        """
        return _register(self, "save_pre", "register_state_dict_pre_hook", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata) after state_dict() has read this module.

        That is after the modules below it, too. It may change the dict, and local_metadata, {"version": ...}; it must
        return None.

        Raises:
            TypeError: hook is not callable.
        """
        return _register(self, "save", "register_state_dict_post_hook", hook, True)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As ``register_state_dict_post_hook``; a result replaces the dict."""
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
        """As ``register_load_state_dict_pre_hook``; without the module unless ``with_module``."""
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
        """Take what ``get_extra_state`` returned; for a subclass to override."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; override get_extra_state and set_extra_state")


def _new_state(versions: Mapping[str, Any]) -> dict[str, Any]:
    """An empty state with the versions of the modules in its ``_metadata``, as PyTorch has them."""
    state: Any = OrderedDict()
    state._metadata = OrderedDict(versions)
    return state


def _own_members(module: Any) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of the parameters and persistent buffers of one module."""
    persistent = (name for name, saved in module._buffer_names.items() if saved)
    for name in (*module._parameter_names, *persistent):
        if module.__dict__[name] is not None:
            yield name, module.__dict__[name]


def _register(module: Any, kind: str, name: str, hook: Callable[..., Any], *options: bool) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"{name}: hook must be a function, got {type(hook).__name__}")
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
