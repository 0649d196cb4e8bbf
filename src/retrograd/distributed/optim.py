"""ZeroRedundancyOptimizer: each process keeps the optimizer state of its part of the parameters.

Source: S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020 (stage 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.aliasing import mark_changed
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor
from ..ops.argument_checks import as_truth
from ..optim import LBFGS, Optimizer
from ..optim.optimizer import Params
from . import mpi
from .object_collectives import from_root
from .process_group import ProcessGroup, wait
from .world import member

__all__ = ["ZeroRedundancyOptimizer"]

_NAME = "ZeroRedundancyOptimizer"


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer of class ``optimizer_class`` whose state is partitioned among the processes.

    Each parameter belongs to one process, which keeps its state and computes its update. Then all processes get the new
    values. The weights are bitwise identical to those of the plain optimizer, and each of n processes stores about 1/n
    of the state. Parameters are assigned by size, the largest first, each to the process with the least so far.
    Gradients must be equal in all processes, as they are after a backward of DistributedDataParallel.

    params: as for the plain optimizer, the same in all processes.
    optimizer_class: an optimizer that updates each parameter from its own gradient and state.
    process_group: the processes that take part; None means all.
    parameters_as_bucket_view: accepted without effect.
    overlap_with_ddp: only False is supported.
    defaults: the options of ``optimizer_class``.

    ``param_groups`` has the parameters of all processes, and its options may be changed between steps. ``state`` has
    only the state of this process.

    Raises:
        TypeError: optimizer_class is not an optimizer class. ValueError: it is LBFGS, whose step depends on all
        parameters together, or overlap_with_ddp is set. The errors of its constructor.
        DistError: the processes have different parameters. RuntimeError: there is no process group.

    Source: torch.distributed.optim.ZeroRedundancyOptimizer.
    """

    optim: Optimizer
    defaults: dict[str, Any]

    def __init__(
        self,
        params: Params,
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        as_truth(_NAME, "parameters_as_bucket_view", parameters_as_bucket_view)
        if overlap_with_ddp is not False:
            raise ValueError(
                f"{_NAME}: overlap_with_ddp={overlap_with_ddp!r}: the step comes after backward, when all gradients "
                "are available; leave it out"
            )
        if not isinstance(optimizer_class, type) or not issubclass(optimizer_class, Optimizer):
            raise TypeError(f"{_NAME}: optimizer_class must be a class of optimizers, got {optimizer_class!r}")
        if issubclass(optimizer_class, (LBFGS, ZeroRedundancyOptimizer)):
            raise ValueError(
                f"{_NAME}: {optimizer_class.__name__} cannot be partitioned: its step depends on all parameters "
                "together; use it without ZeroRedundancyOptimizer, or use another optimizer"
            )
        self.process_group: ProcessGroup = member(process_group, _NAME)
        self.optim = optimizer_class(params, **defaults)  # replaced below by one for this process's parameters
        self.defaults, self._batches = self.optim.defaults, {}
        self._sizes = [0] * self.process_group.size()  # number of elements assigned to each process
        self._owners: dict[int, int] = {}  # id of a parameter -> the rank that owns it
        self._gathered: dict[int, Any] | None = None
        self.param_groups = [dict(group) for group in self.optim.param_groups]
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            own["params"] = self._assign(group["params"])
        self._agree()

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:  # type: ignore[override]
        """The optimizer state of this process's parameters."""
        return self.optim.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, as for the optimizer; all processes must call it.

        Raises:
            The errors of the optimizer. DistError: the processes add different parameters.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self.optim.add_param_group({**group, "params": self._assign(group["params"])})
        self._agree()

    def check_options(self, group: dict[str, Any]) -> None:
        self.optim.check_options(group)

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        """Update the parameters of this process and receive those of the others.

        closure: recomputes the loss (zero_grad, forward, backward); its result is returned. options: options of the
        optimizer's step.

        Raises:
            RuntimeError: a gradient does not fit. DistError: the processes disagree. DistNetworkError: one did not come
            in time. WorkerLostError: one has died.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._copy_options()
        self.optim.step(**options)
        self._gathered = None
        self._exchange()
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all processes in process `to`, a world rank. All processes must call it.

        Afterwards ``state_dict`` can be called in that process.

        Raises:
            ValueError: to is not in the group. The errors of ``step``.
        """
        group = self.process_group
        if isinstance(to, bool) or to not in group.ranks:
            raise ValueError(f"consolidate_state_dict: to={to!r} is not in the group, which has ranks {group.ranks}")
        receives = group.ranks[group.rank()] == to
        self._copy_options()
        numbers = self._indices()
        own = {str(numbers[id(parameter)]): dict(entries) for parameter, entries in self.optim.state.items()}
        found: dict[int, Any] = {}
        for rank in range(group.size()):  # one at a time, so that only process `to` ever stores more than its own part
            mine = own if rank == group.rank() else None
            part: dict[str, Any] = from_root(group, mine, rank, f"{_NAME}.consolidate_state_dict()")
            if receives:
                found.update((int(number), entries) for number, entries in part.items())
        self._gathered = dict(sorted(found.items())) if receives else None

    def state_dict(self) -> dict[str, Any]:
        """Return the state_dict that a plain ``optimizer_class`` would have.

        Only in the process passed to the last ``consolidate_state_dict``.

        Raises:
            RuntimeError: consolidate_state_dict was not called since the last step, or was called for another process.
        """
        if self._gathered is None:
            raise RuntimeError(
                f"{_NAME}.state_dict: the state is in pieces; call consolidate_state_dict(to=rank) in all processes "
                "after the last step, and state_dict in that one"
            )
        numbers = self._indices()
        groups = [
            {**group, "params": [numbers[id(parameter)] for parameter in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(self._gathered), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state_dict that was saved with any number of processes or by a plain optimizer.

        Each process keeps its part. All processes call it with the same state_dict.

        Raises:
            ValueError: state_dict does not fit; the message says where, and nothing changes.
        """
        saved = Optimizer.checked_groups(self, state_dict)
        own: set[Any] = set()
        groups = []
        for group, entries in zip(self.param_groups, saved, strict=True):
            mine = [self._is_own(parameter) for parameter in group["params"]]
            numbers = [number for number, yes in zip(entries["params"], mine, strict=True) if yes]
            groups.append({**entries, "params": numbers})
            own.update(numbers)
        every = {number for entries in saved for number in entries["params"]}
        state = {number: each for number, each in state_dict["state"].items() if number in own or number not in every}
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        for group, loaded in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update((name, value) for name, value in loaded.items() if name != "params")
        self._gathered = None

    # ---- Ownership of parameters ----------------------------------------------------------------------------------

    def _assign(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Assign each parameter, the largest first, to the process with the least so far; return this process's."""
        for parameter in sorted(parameters, key=lambda each: each.array.size, reverse=True):
            owner = int(np.argmin(self._sizes))
            self._owners[id(parameter)] = owner
            self._sizes[owner] += parameter.array.size
        return [parameter for parameter in parameters if self._is_own(parameter)]

    def _is_own(self, parameter: Tensor) -> bool:
        return self._owners[id(parameter)] == self.process_group.rank()

    def _indices(self) -> dict[int, int]:
        """Return id -> index of each parameter, counted through all groups."""
        return {id(each): number for number, each in enumerate(self._parameters())}

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _agree(self) -> None:
        """Check that all processes have assigned the same parameters."""
        sizes = [parameter.array.size for parameter in self._parameters()]
        self.process_group.agree(f"{_NAME}({len(sizes)} parameters, {sum(sizes)} numbers)")

    def _copy_options(self) -> None:
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            own.update((name, value) for name, value in group.items() if name != "params")

    # ---- Exchange of updated parameters ---------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Copy each process's parameters to the others."""
        group = self.process_group
        entered = group.agree(f"{_NAME}.step()")
        if group.comm is None:
            return
        parts: dict[tuple[int, np.dtype], list[Tensor]] = {}
        for parameter in self._parameters():
            if parameter.requires_grad or parameter.grad is not None:  # frozen after its backward, but updated
                parts.setdefault((self._owners[id(parameter)], parameter.array.dtype), []).append(parameter)
        changed: list[np.ndarray] = []
        for (owner, dtype), parameters in sorted(parts.items(), key=lambda part: (part[0][0], str(part[0][1]))):
            memory = np.empty(sum(each.array.size for each in parameters), dtype)
            ends = np.cumsum([each.array.size for each in parameters])[:-1]
            rows = zip(np.split(memory, ends), parameters, strict=True)
            pieces = [row.reshape(each.array.shape) for row, each in rows]
            if owner == group.rank():
                for piece, parameter in zip(pieces, parameters, strict=True):
                    piece[...] = parameter.array
            with mpi.errors(entered):
                request = group.comm.Ibcast(memory, owner)
            wait(group, [request], entered)
            if owner != group.rank():
                for piece, parameter in zip(pieces, parameters, strict=True):
                    parameter.array[...] = piece
                    changed.append(parameter.array)
        mark_changed(changed, f"{_NAME}.step")
