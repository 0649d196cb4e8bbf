"""retrograd.graph: the recorded graph of a result, forward and backward, as a picture and as a table."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from textwrap import wrap

from ..._files.atomic import write_atomically
from ..._files.terminal import aligned, bytes_text, display_name
from ...engine.arguments import kind_name
from ...engine.tensor import Tensor
from ...nn.module import Module
from ...ops.signatures import advised
from .drawing import draw, listed
from .walk import Leaf, Operator, Walk, walk

__all__ = ["Graph", "graph"]

_INSET, _FIXED = " " * 6, "\xa0"


class Graph:
    """A recorded graph: a picture in a notebook; ``print()`` shows a table in the order of forward.

    operators, leaves: the data from which the picture is drawn. memory: bytes that the saved arrays keep alive besides
    the leaves; shared memory counts once. left_out: the number of operators, the oldest ones, that were left out.
    """

    left_out: int
    memory: int

    def __init__(self, found: Walk) -> None:
        self._found = found
        self.operators: tuple[Operator, ...] = found.operators
        self.leaves: tuple[Leaf, ...] = found.leaves
        self.memory, self.left_out = found.memory, found.left_out

    @cached_property
    def svg(self) -> str:
        """The picture as an SVG string, which follows light and dark mode."""
        return draw(self._found, "Forward and backward", self._summary())

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to a file that browsers and editors can show.

        Raises:
            ValueError: the name does not end in .svg.
            OSError: the file could not be written; an existing one is unchanged.
        """
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise ValueError(f"graph.save: path={str(path)!r} must end in .svg, the only form of the picture")
        write_atomically(path, lambda file: file.write(f"{self.svg}\n".encode()))

    def _summary(self) -> list[str]:
        count, numbers = len(self.operators), sum(leaf.numel for leaf in self.leaves)
        leaves = f"{len(self.leaves):,} {'leaf' if len(self.leaves) == 1 else 'leaves'} of {numbers:,} numbers"
        kept = f"{bytes_text(self.memory)} kept for backward"
        lines = [f"{count:,} operator{'s' * (count != 1)}, {leaves}, {kept}"]
        if any(operator.state == "freed" for operator in self.operators):
            lines.append(
                "A backward has freed the saved arrays: draw the graph before it, or call backward(retain_graph=True)."
            )
        if self.left_out:
            lines.append(
                f"The oldest {self.left_out:,} of {count + self.left_out:,} operators are left out; pass "
                f"max_nodes={count + self.left_out} for all."
            )
        return lines

    def __str__(self) -> str:
        rows = [("", "operator", "output", "from", "‖g‖"), *map(self._row, self.operators)]
        head, *table = aligned(rows, left=4)
        lines = [*self._summary(), "", head]
        for operator, line in zip(self.operators, table, strict=True):
            lines += [line, *self._kept(operator)]
        leaves = [("leaf", "", "‖g‖")]
        for leaf in self.leaves:
            norm = "takes none" if leaf.grad_req == "null" else _norm(leaf.norm)
            leaves.append((display_name(leaf.name), f"{leaf.shape} {leaf.dtype}", norm))
        return "\n".join([*lines, "", *aligned(leaves, left=2)])

    __repr__ = __str__

    def _row(self, operator: Operator) -> tuple[str, ...]:
        sources = [
            self.leaves[source.leaf].name
            if source.leaf is not None
            else f"{source.operator}" + (f"[{source.output}]" if source.output else "")
            for source in operator.sources
        ]
        return (
            str(operator.number),
            display_name(" ".join(filter(None, (operator.name, operator.module)))),
            ", ".join(f"{output.shape} {output.dtype}" for output in operator.outputs),
            display_name(listed(sources)),
            ", ".join(filter(None, (_norm(output.norm) for output in operator.outputs))),
        )

    def _kept(self, operator: Operator) -> list[str]:
        """Return the lines below an operator: the rule that replaces its backward, and the arrays that it keeps."""
        lines = [] if operator.rule is None else [f"rule: {display_name(operator.rule)}"]
        # no line break within the description of one array
        kept = [
            f"{display_name(saved.name)} {saved.shape} {bytes_text(saved.nbytes)}".replace(" ", _FIXED)
            for saved in operator.saved
        ]
        if kept:
            lines.append(f"{'recomputes' if operator.state == 'recomputed' else 'keeps'} {', '.join(kept)}")
        if operator.state == "freed":
            lines.append("has freed what it kept")
        broken = [part for line in lines for part in wrap(line, 110, initial_indent=_INSET, subsequent_indent=_INSET)]
        return [part.replace(_FIXED, " ") for part in broken]


def _norm(norm: float | None) -> str:
    return "" if norm is None else f"{norm:.3g}"


@advised
def graph(y: Tensor, model: Module | None = None, max_nodes: int = 200) -> Graph:
    """Return the recorded graph of y: how y was computed, and how its gradient flows back.

    Each operator has a card. Its upper half has the results with shape and dtype; its lower half has the backward and
    the arrays that the backward keeps. Next to it are the leaves that it uses, to which a backward delivers gradients.
    Blue arrows carry values down, orange arrows gradients up. Norms ‖g‖ are those of gradients stored in leaves and
    retained by results (``retain_grad``). A rule that replaces a backward is named on the card. Only norms are
    computed, and nothing is changed or kept alive.

    A notebook shows the picture; ``graph(y).save("graph.svg")`` writes it, and ``print(graph(y))`` lists the operators.

    Args:
        y: a result of recorded operations.
        model: names the parameters, and the modules that operators belong to.
        max_nodes: the number of operators to show; if there are more, the oldest are left out.

    Raises:
        TypeError: y is not a Tensor, or model is not a Module.
        ValueError: y has no history, or max_nodes is not a positive int.

    >>> import retrograd
    >>> layer = retrograd.nn.Linear(3, 2)
    >>> print(retrograd.graph(layer(retrograd.ones(4, 3)).sum(), layer))
    2 operators, 2 leaves of 8 numbers, 48 B kept for backward
    <BLANKLINE>
       operator  output          from          ‖g‖
    1  Linear    (4, 2) float32  weight, bias
          keeps constant (4, 3) 48 B
    2  Sum       () float32      1
    <BLANKLINE>
    leaf                    ‖g‖
    weight  (2, 3) float32
    bias    (2,) float32
    """
    if not isinstance(y, Tensor):
        raise TypeError(f"graph: y is {kind_name(y)}, expected a Tensor; of several results, pass one")
    if model is not None and not isinstance(model, Module):
        raise TypeError(f"graph: model is {kind_name(model)}, expected a Module or None")
    if isinstance(max_nodes, bool) or not isinstance(max_nodes, int) or max_nodes < 1:
        raise ValueError(f"graph: max_nodes={max_nodes!r} must be a positive int")
    if y.grad_fn is None:
        why = (
            "it is a leaf; pass what was computed from it"
            if y.requires_grad
            else "it was computed without recording, or from tensors that require no gradient"
        )
        raise ValueError(f"graph: y has no history: {why}")
    names = {} if model is None else {id(tensor): name for name, tensor in model.named_parameters()}
    return Graph(walk(y, names, max_nodes))
