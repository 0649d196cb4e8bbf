"""Pruning, as ``torch.nn.utils.prune``: elements of a parameter are set to 0 by a mask, and stay 0 in training.

A pruned parameter becomes ``<name>_orig``, still the same object, and the buffer ``<name>_mask``; the module computes
``<name>`` as their product at every use, without a hook.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...engine.arguments import kind_name
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...ops.argument_checks import as_real, require_tensor
from ...ops.creation import ones_like
from ...ops.index.selection import index_fill
from ...ops.random.sampling import rand
from ...ops.shape.join import cat
from ..arguments import as_module
from ..module import Module
from .parametrize import compute, parameter_named, stop_computing

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


@dataclass(frozen=True)
class _Masked:
    """Computes the product of a parameter and its mask."""

    name: str

    def __call__(self, module: Module) -> Tensor:
        found: Tensor = module.__dict__[f"{self.name}_orig"] * module.__dict__[f"{self.name}_mask"]
        return found


class BasePruningMethod:
    """A way to choose what is pruned: a subclass has a ``compute_mask``.

    PRUNING_TYPE: what a further pruning of the same parameter chooses among: "unstructured" the elements that are left,
    "structured" the channels of the axis ``dim`` that are not all 0, "global" everything.
    """

    PRUNING_TYPE: ClassVar[str] = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return default_mask, of the shape of t, with 0 in further places.

        Raises:
            NotImplementedError: a subclass has no method of its own.
        """
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask(t, default_mask)")

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune ``module.<name>`` by ``cls(*args, **kwargs)``, which looks at importance_scores or at the parameter.

        Raises:
            ValueError: the module has no such parameter, or importance_scores has another shape.
        """
        method = cls(*args, **kwargs)
        as_module(cls.__name__, "module", module)
        mask = _mask_of(module, name)
        parameter = parameter_named(cls.__name__, module, name if mask is None else f"{name}_orig")
        with no_grad():
            t = parameter.detach() if mask is None else parameter * mask
            scores = _scores(cls.__name__, importance_scores, t)
            found = method.compute_mask(scores, ones_like(t)) if mask is None else _combined(method, scores, mask)
            _require_shape(cls.__name__, "the mask", found, t)
            found = found.to(t.dtype).clone()
        if mask is None:
            delattr(module, name)
            module.register_parameter(f"{name}_orig", parameter)
            compute(module, name, _Masked(name))
        module.register_buffer(f"{name}_mask", found)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return t times the mask for it."""
        require_tensor(type(self).__name__, t, "t")
        scores = _scores(type(self).__name__, importance_scores, t.detach())
        with no_grad():
            mask = self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)
        return t * mask.to(t.dtype)


def _mask_of(module: Module, name: str) -> Tensor | None:
    computed = getattr(type(module), "_computed", None)
    is_masked = computed is not None and isinstance(computed.functions.get(name), _Masked)
    return module.__dict__[f"{name}_mask"] if is_masked else None


def _scores(caller: str, scores: Tensor | None, t: Tensor) -> Tensor:
    if scores is None:
        return t
    _require_shape(caller, "importance_scores", scores, t)
    return scores.detach()


def _require_shape(caller: str, what: str, value: Any, t: Tensor) -> None:
    if not isinstance(value, Tensor) or value.array.shape != t.array.shape:
        found = f"has shape {value.array.shape}" if isinstance(value, Tensor) else f"is {kind_name(value)}"
        raise ValueError(f"{caller}: {what} {found}, needs a Tensor of the parameter's shape {t.array.shape}")


def _combined(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Tensor:
    """A mask that also has the zeros which the method chooses among what is left."""
    part: Any = ...
    if method.PRUNING_TYPE == "unstructured":
        part = mask == 1
    elif method.PRUNING_TYPE == "structured":
        dim = _axis(type(method).__name__, t, method.dim)  # type: ignore[attr-defined]
        left = mask.sum([axis for axis in range(t.dim()) if axis != dim]) != 0
        part = (*[slice(None)] * dim, left)
    elif method.PRUNING_TYPE != "global":
        raise ValueError(
            f"{type(method).__name__}: PRUNING_TYPE={method.PRUNING_TYPE!r} must be 'unstructured', 'structured' or "
            "'global'"
        )
    found = mask.clone()
    found[part] = method.compute_mask(t[part], mask[part]).to(mask.dtype)
    return found


# ---- Methods ---------------------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing: the parameter gets a mask of ones."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask of 0 and 1."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        require_tensor("CustomFromMask", mask, "mask")
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _require_shape("CustomFromMask", "mask", self.mask, default_mask)
        return default_mask * self.mask.to(default_mask.dtype)


class _Amount(BasePruningMethod):
    """Methods that prune a number of elements or channels: an int, or a float, which is a share of them."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, bool) and hasattr(amount, "__index__"):
            self.amount: float = amount.__index__()
            is_valid = self.amount >= 0
        else:
            self.amount = as_real(type(self).__name__, "amount", amount)
            is_valid = 0 <= self.amount <= 1
        if not is_valid:
            raise ValueError(
                f"{type(self).__name__}: amount={amount!r} must be a share from 0 to 1, or an int of at least 0"
            )

    def count(self, size: int) -> int:
        """The number to prune of so many."""
        if not isinstance(self.amount, int):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(f"{type(self).__name__}: amount={self.amount} is more than the {size} that are left")
        return self.amount


class RandomUnstructured(_Amount):
    """Prunes elements at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_smallest(default_mask, rand(t.numel()), self.count(t.numel()))


class L1Unstructured(_Amount):
    """Prunes the elements with the smallest absolute values."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_smallest(default_mask, t.abs().reshape(-1), self.count(t.numel()))


class RandomStructured(_Amount):
    """Prunes channels, the indices along the axis ``dim``, at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        dim = _axis(type(self).__name__, t, self.dim)
        return _without_channels(default_mask, rand(t.shape[dim]), self.count(t.shape[dim]), dim)


class LnStructured(_Amount):
    """Prunes the channels along the axis ``dim`` with the smallest norms of order n."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        dim = _axis(type(self).__name__, t, self.dim)
        norms: Tensor = t.norm(self.n, [axis for axis in range(t.dim()) if axis != dim])
        return _without_channels(default_mask, norms, self.count(t.shape[dim]), dim)


def _axis(caller: str, t: Tensor, dim: int) -> int:
    if t.dim() < 2:
        raise ValueError(f"{caller}: a parameter of shape {t.array.shape} has no channels; it needs two axes or more")
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"{caller}: dim={dim} is out of range for a parameter of shape {t.array.shape}")
    return dim % t.dim()


def _without_smallest(mask: Tensor, scores: Tensor, count: int) -> Tensor:
    found = mask.reshape(-1).clone()
    return index_fill(found, 0, scores.topk(count, largest=False)[1], 0).reshape(mask.shape)


def _without_channels(mask: Tensor, scores: Tensor, count: int, dim: int) -> Tensor:
    return index_fill(mask, dim, scores.topk(count, largest=False)[1], 0)


# ---- Functions -------------------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give ``module.<name>`` a mask of ones: the names of a pruned module, without pruning anything.

    Raises: as ``l1_unstructured``.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements at random; see ``l1_unstructured``.

    Raises: as ``l1_unstructured``.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of ``module.<name>`` with the smallest absolute values; returns module.

    The parameter is ``module.<name>_orig`` from then on, ``module.<name>_mask`` has 0 where it is pruned, and their
    product is ``module.<name>``. Pruning again prunes among the elements that are left.

    amount: how many elements; a float is a share of them. importance_scores: compared in place of the parameter.

    Raises:
        ValueError: the module has no such parameter, or amount is not from 0 to 1 or an int of at most what is left.

    >>> import retrograd as rg
    >>> layer = rg.nn.Linear(4, 2)
    >>> rg.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.25) is layer
    True
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (2, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels, the indices along the axis ``dim``, at random; see ``l1_unstructured``.

    Raises: as ``l1_unstructured``; ValueError too for a parameter with less than two axes.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels along the axis ``dim`` with the smallest norms of order n; see ``l1_unstructured``.

    Raises: as ``random_structured``.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune where ``mask``, of the parameter's shape, is 0; see ``l1_unstructured``.

    Raises:
        ValueError: the module has no such parameter, or the mask has another shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters, pairs of a module and a name, as if they were one: amount is that of all elements.

    Raises:
        TypeError: pruning_method does not choose single elements, or parameters is no list of pairs.
        ValueError: as ``l1_unstructured``; parameters is empty.
    """
    pairs = [*parameters]
    if not pairs:
        raise ValueError("global_unstructured: parameters is empty")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}, not unstructured")
    given = importance_scores or {}
    tensors, masks, scores = [], [], []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"global_unstructured: parameters holds {kind_name(pair)}, needs pairs (module, name)")
        module, name = as_module("global_unstructured", "module", pair[0]), pair[1]
        mask = _mask_of(module, name)
        if mask is None:
            parameter_named("global_unstructured", module, name)
        tensors.append(getattr(module, name).detach())
        masks.append(ones_like(tensors[-1]) if mask is None else mask)
        scores.append(_scores("global_unstructured", given.get((module, name)), tensors[-1]))
    with no_grad():
        flat = [cat([each.reshape(-1) for each in some]) for some in (scores, masks)]
        found = _combined(method, *flat)
    start = 0
    for (module, name), tensor in zip(pairs, tensors, strict=True):
        size = math.prod(tensor.array.shape)
        custom_from_mask(module, name, found[start : start + size].reshape(tensor.shape))
        start += size


def remove(module: Module, name: str) -> Module:
    """Make the pruned ``module.<name>`` a plain parameter again, the same object as before, with 0 where it was pruned.

    Raises:
        ValueError: it is not pruned.
    """
    mask = _mask_of(as_module("remove", "module", module), name)
    if mask is None:
        raise ValueError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    parameter = module.__dict__[f"{name}_orig"]
    with no_grad():
        parameter.data = parameter * mask
    stop_computing(module, name)
    delattr(module, f"{name}_orig")
    delattr(module, f"{name}_mask")
    module.register_parameter(name, parameter)
    return module


def is_pruned(module: Module) -> bool:
    """Return whether a parameter of the module, or of one inside it, is pruned."""
    return any(
        isinstance(function, _Masked)
        for each in as_module("is_pruned", "module", module).modules()
        if (computed := getattr(type(each), "_computed", None)) is not None
        for function in computed.functions.values()
    )
