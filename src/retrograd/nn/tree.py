"""Traversals of a model: loops, since modules may be nested deeper than Python's recursion limit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from .module import Module

__all__ = ["Tree", "walk"]


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
        """(name, child) for every direct child; one with two names appears twice."""
        return ((name, child) for name in self._child_names if (child := self.__dict__[name]) is not None)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, child) for every direct child, each module once."""
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
        """(path, module) for this module (its path is "") and all below it, parents first."""
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
        root = cast("Module", self)

        def within(module: Module) -> Iterator[tuple[str, Module]]:
            own = module is root or type(module).apply is Tree.apply  # an overridden apply is called instead
            return module.named_children() if own else iter(())

        for _, module, left in walk(root, within):
            if left:
                if module is root or type(module).apply is Tree.apply:
                    fn(module)
                else:
                    module.apply(fn)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy, innermost modules first, so that copying a module finds its children in memo."""
        root = cast("Module", self)
        seen = {id(self)}

        def unseen(module: Module) -> Iterator[tuple[str, Module]]:
            for name, child in module._members():
                if id(child) not in seen and id(child) not in memo:
                    seen.add(id(child))
                    yield name, child

        for _, module, left in walk(root, unseen):
            if not left or id(module) in memo:
                continue
            if module is root or type(module).__deepcopy__ is Tree.__deepcopy__:
                copy._reconstruct(module, memo, *module.__reduce_ex__(4))  # type: ignore[attr-defined]  # stores it in memo
            else:
                copy.deepcopy(module, memo)
        return memo[id(self)]

    # ------------------------------------------------------------------ text
    def extra_repr(self) -> str:
        """The module's own arguments in its repr; a layer overrides this."""
        return ""

    def describe(self) -> str:
        """One line for messages: ``Conv2d(16, 32, kernel_size=(3, 3), stride=(1, 1))``, without children."""
        arguments = self._arguments()
        if "\n" in arguments or (self._child_names and not arguments):
            return type(self).__name__
        return f"{type(self).__name__}({arguments})"

    def _entries(self, number: Callable[[Any], int]) -> list[tuple[str, Any]]:
        """(label, child) for every entry of the repr; children with equal reprs have equal numbers."""
        return [(f"({name}): ", self.__dict__[name]) for name in self._child_names]

    def __repr__(self) -> str:
        numbers = _numbered(cast("Module", self))

        def number(child: Any) -> int:
            return numbers[id(child)]

        lines: list[str] = []
        waiting: list[tuple[int, str, Any]] = [(0, "", self)]
        while waiting:
            depth, label, module = waiting.pop()
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
            waiting.append((depth, ")", _END))
            waiting += [(depth + 1, *entry) for entry in reversed(entries)]
        return "\n".join(lines)


_END = object()  # the line after the last entry


def _has_tree_repr(module: Any) -> bool:
    return isinstance(module, Tree) and type(module).__repr__ is Tree.__repr__


def _numbered(root: Module) -> dict[int, int]:
    """{id: number} for each module and for None; modules with equal reprs have the same number."""
    number_of: dict[Any, int] = {}
    numbers = {id(None): -1}

    def within(module: Module) -> Iterator[tuple[str, Module]]:
        return module._members() if module is root or _has_tree_repr(module) else iter(())

    for _, module, left in walk(root, within):
        if left and id(module) not in numbers:
            if module is root or _has_tree_repr(module):
                below = tuple((name, numbers[id(module.__dict__[name])]) for name in module._child_names)
                key: Any = type(module).__name__, module._arguments(), below
            else:
                key = repr(module)
            numbers[id(module)] = number_of.setdefault(key, len(number_of))
    return numbers
