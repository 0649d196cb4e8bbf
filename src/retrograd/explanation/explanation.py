"""An explained gradient: the arrays of one run of an operator, the products of each entry, and guided stories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._files.atomic import write_atomically
from ..engine.tensor import Tensor
from ..kernel_set import active_kernels
from .html_page import HasPage
from .measurements import Arrays, Call, Curve, gradients, numbers, numerical, ulps
from .mutation_testing import Bug, Outcome, outcomes
from .products import Products
from .tracing import Algorithm, Run, backward_run, follow

if TYPE_CHECKING:
    from .source_map import Ran

__all__ = [
    "Array",
    "Case",
    "Entry",
    "Explanation",
    "LARGEST_FILE",
    "Picture",
    "Product",
    "Setting",
    "Step",
    "Story",
    "label",
    "fmt",
    "stories_as_dicts",
]


# ---- Stories --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """A small array next to the text: its title, its values and its role, as in ``Array``; and the sign before it."""

    title: str
    values: np.ndarray
    role: str
    sign: str = ""


@dataclass(frozen=True)
class Step:
    """A step of a story: its text, and the part of the page that it shows.

    text: names of entries are in backquotes
    view: the part of the page: "entries", "matrices", "time"
    name, at: the entry whose products are shown, at a flat index
    into: if given, the entry's uses in this array are shown instead of the products that add up to the entry
    product: the number of the selected product
    pictures: arrays that are multiplied elementwise or added
    """

    text: str
    view: str
    name: str
    at: int
    into: str = ""
    product: int | None = None
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Story:
    """A question and the steps that answer it."""

    question: str
    steps: tuple[Step, ...]


def label(name: str, at: int, shape: Sequence[int]) -> str:
    """Return an entry's name between backquotes: `gw[0, 1, 2]`."""
    return f"`{name}[{', '.join(str(int(i)) for i in np.unravel_index(at, tuple(shape)))}]`"


def fmt(value: float) -> str:
    """Format a number for a sentence, with three digits."""
    return f"{float(value):.3g}".replace("-", "−")


def stories_as_dicts(stories: Sequence[Story]) -> list[dict[str, Any]]:
    """Return the stories as plain data, for the page."""
    return [{"question": each.question, "steps": [_step(step) for step in each.steps]} for each in stories]


def _step(step: Step) -> dict[str, Any]:
    pictures = [
        {
            "name": each.title,
            "shape": list(each.values.shape),
            "values": numbers(each.values),
            "role": each.role,
            "sign": each.sign,
        }
        for each in step.pictures
    ]
    return {
        "text": step.text,
        "view": step.view,
        "entry": {"name": step.name, "at": int(step.at)},
        "into": step.into,
        "product": step.product,
        "pictures": pictures,
    }


# ---- Explained gradients --------------------------------------------------------------------------------------------

LARGEST_FILE = 600_000  # bytes of a page that includes other settings: enough for every change of one
Padding = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Setting:
    """A number or word that the reader of the page can change.

    default: the operator's own default where it differs from ``value``, otherwise None
    """

    name: str
    value: float | str
    choices: tuple[float | str, ...]
    about: str
    default: float | str | None = None


@dataclass(frozen=True)
class Array:
    """An array of the run.

    axes: a letter for each axis
    role: "input", "weight", "output", "upstream" (the gradient that backward gets), "gradient", or "inner"
    padding: (low, high), the zeros around the last axes that the operator reads
    view: the part of the page that shows it: "main", "matrices", "time"
    copies: (name, index) if each entry is a copy of an entry of another array; an index as in ``Products``
    """

    values: np.ndarray
    axes: str
    role: str
    about: str
    padding: Padding = ()
    view: str = "main"
    copies: tuple[str, np.ndarray] | None = None


@dataclass(frozen=True)
class Case:
    """An operator with given inputs: how to call it, and which products add up to which entries.

    call: the operator on Tensors, in the order of inputs
    inputs: their arrays, and their descriptions on the page: axes, role, about, padding
    output: axes and about of y
    inner: computes the intermediate arrays, from the arrays that are known so far
    sums: makes, from the arrays, the products that add up to each target
    formulas: the sum for each target, as text
    source: the call as Python
    program, imports: the call as runnable Python, if source is an abbreviation, and its imports besides F and rg
    step: of the numerical gradient; 1 is exact where the operator is linear in each input
    exact: whether the declared gradient is the derivative; a quantizer's is not
    curve: the curve to draw for an elementwise function
    algorithms: makes, from the arrays, the algorithms for y and the gradients that can be stepped through
    rules: for a function of several arrays whose gradients can be typed in, its own gradients as expressions, by input
    bugs: bugs to plant in its backward; if there are fewer than three, mutations of its source are added
    stories: makes guided stories from the arrays and their sums
    diagram: how a step of a recurrent layer is drawn, see operators/recurrent_cells.py
    """

    name: str
    call: Call
    inputs: dict[str, Array]
    output: tuple[str, str]
    sums: Callable[[Arrays], dict[str, list[Products]]]
    formulas: dict[str, str]
    source: str
    program: str = ""
    imports: str = ""
    inner: Callable[[Arrays], dict[str, Array]] = lambda arrays: {}
    step: float = 1e-6
    exact: bool = True
    curve: Curve | None = None
    algorithms: Callable[[Arrays], list[Algorithm]] = lambda arrays: []
    bugs: tuple[Bug, ...] = ()
    stories: Callable[[Arrays, Mapping[str, Sequence[Products]]], list[Story]] = lambda arrays, sums: []
    diagram: Mapping[str, Any] | None = None
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_rules(self) -> bool:
        """Whether another gradient can be typed in: if ``rules`` has one, or the function has a curve of one array."""
        return bool(self.rules) or (self.curve is not None and [*self.inputs] == ["x"])


class Product(NamedTuple):
    """One product of a sum: (array, index, value) of each factor, a constant factor, and the value of the product."""

    factors: tuple[tuple[str, tuple[int, ...] | None, float], ...]
    scale: float
    value: float


@dataclass(frozen=True)
class Entry:
    """An entry with the products that add up to it, their sum, and the numerical gradient."""

    name: str
    index: tuple[int, ...]
    value: float
    products: tuple[Product, ...]
    total: float
    numerical: float | None

    def __str__(self) -> str:
        lines = [f"{self.name}{list(self.index)} = {self.value:.7g}"]
        for product in self.products:
            factors = " * ".join(
                f"{name}{'[padding]' if at is None else list(at)} {value:.5g}" for name, at, value in product.factors
            )
            scale = f" * {product.scale:g}" if product.scale != 1 else ""
            lines.append(f"  {product.value:+.6g} = {factors}{scale}")
        lines.append(f"  sum {self.total:.7g}")
        if self.numerical is not None:
            lines.append(f"  numerical {self.numerical:.7g}, difference {abs(self.value - self.numerical):.2g}")
        return "\n".join(lines)


@dataclass
class Explanation(HasPage):
    """One run of an operator, forward and backward, whose gradients are explained entry by entry.

    change: for an operator's example, returns the explanation with some settings changed
    """

    case: Case
    gy: np.ndarray
    settings: tuple[Setting, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    typed: str = ""
    change: Callable[[Mapping[str, Any]], Explanation] | None = field(default=None, repr=False)
    _results: dict[str, Arrays] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """Inputs, result, upstream gradient, gradients and intermediate arrays, by name."""
        case = self.case
        found = dict(case.inputs)
        computed = {name: array.values for name, array in case.inputs.items()}
        run = self.result(active_kernels())
        found["y"] = Array(run["y"], case.output[0], "output", case.output[1])
        found["gy"] = Array(self.gy, case.output[0], "upstream", "how much the loss grows with each entry of y")
        computed |= run | {"gy": self.gy}
        for name, array in case.inputs.items():
            if f"g{name}" in run:
                about = f"how much the loss grows with each entry of {name}"
                found[f"g{name}"] = Array(run[f"g{name}"], array.axes, "gradient", about)
        return found | case.inner(computed)

    def result(self, kernels: str) -> Arrays:
        """Return y and the gradients as computed by a kernel set: "compiled" or "textbook"."""
        if kernels not in self._results:
            inputs = {name: array.values for name, array in self.case.inputs.items()}
            self._results[kernels] = gradients(self.case.call, inputs, self.gy, kernels)
        return self._results[kernels]

    @cached_property
    def agreement(self) -> dict[str, float]:
        """The largest difference between the kernel sets in each array, in ulps of its largest entry.

        If a gradient is smaller than gy, for example because terms cancel, the unit is that of gy's largest entry.
        """
        compiled, textbook = self.result("compiled"), self.result("textbook")
        upstream = float(np.abs(self.gy).max(initial=0))
        return {name: ulps(compiled[name], textbook[name], 0.0 if name == "y" else upstream) for name in compiled}

    @cached_property
    def sums(self) -> dict[str, list[Products]]:
        """The products of each array that is a sum of products."""
        return self.case.sums({name: array.values for name, array in self.arrays.items()})

    @cached_property
    def stories(self) -> list[Story]:
        """Questions and step-by-step answers, with the numbers of this run."""
        return self.case.stories({name: array.values for name, array in self.arrays.items()}, self.sums)

    def numerical(self, name: str, entries: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Return central differences for an input's entries (default: all), for comparison with its gradient.

        name: the name of the gradient, "gx" for the input "x"
        """
        inputs = {each: array.values for each, array in self.case.inputs.items()}
        size = inputs[name[1:]].size
        which = np.arange(size) if entries is None else np.asarray(entries)
        return numerical(self.case.call, inputs, self.gy, name[1:], which, self.case.step)

    def entry(self, name: str, index: Sequence[int]) -> Entry:
        """Return an entry with its products: ``entry("gw", (0, 1, 2, 2))``.

        Raises:
            KeyError: there is no array of this name, or its entries are not sums of products here.
            IndexError: the index is outside the array.
        """
        if name not in self.sums:
            raise KeyError(f"entry: {name!r} is not one of the arrays that are sums: {', '.join(self.sums)}")
        array, values = self.arrays[name], {each: array.values for each, array in self.arrays.items()}
        index = tuple(index)
        shape = array.values.shape
        if len(index) != len(shape) or any(not 0 <= i < extent for i, extent in zip(index, shape, strict=True)):
            raise IndexError(f"entry: {name} has the shape {shape}, so there is no entry {index}")
        flat = int(np.ravel_multi_index(index, shape)) if shape else 0
        products = []
        for each in self.sums[name]:
            rows = each.of(flat)
            for row, value in zip(rows, each.values(rows, values), strict=True):
                factors = tuple(
                    _factor(factor, int(at), values[factor]) for factor, at in zip(each.factors, row, strict=True)
                )
                products.append(Product(factors, each.scale, float(value)))
        found = None
        if array.role == "gradient":
            found = float(self.numerical(name, [flat])[0])
        total = float(np.sum([product.value for product in products]))
        return Entry(name, index, float(array.values[index]), tuple(products), total, found)

    def runs(self) -> list[Run]:
        """The executed lines of the backward on the textbook kernels, and of other algorithms for the same arrays.

        A backward that only passes g on has none.
        """
        inputs = {name: array.values for name, array in self.case.inputs.items()}
        computed = {name: array.values for name, array in self.arrays.items()}
        backward = backward_run(self.case.name, self.case.call, inputs, self.gy)
        found = [backward, *map(follow, self.case.algorithms(computed))]
        return [run for run in found if run.trace.steps]

    def steps(self) -> dict[str, list[Ran]]:
        """The steps of this run on the active kernel set, by pass: "forward" and "backward"; see ``source_map.ran``."""
        from .source_map import ran

        arrays = {name: array.values.copy() for name, array in self.case.inputs.items()}
        tensors = [Tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays.values()]
        dtype = self.arrays["y"].values.dtype
        return ran(self.case.call, tensors, upstream=Tensor(self.gy.astype(dtype)), names=[*arrays])

    def outcomes(self) -> list[Outcome]:
        """Return the effect of each planted bug on these gradients, with gradcheck's report."""
        inputs = {name: array.values for name, array in self.case.inputs.items()}
        return outcomes(self.case.bugs, self.case.call, inputs, self.gy, self.case.exact)

    def to_dict(self, whole: bool = True) -> dict[str, Any]:
        """Return all data of the page as plain lists, dicts, numbers and strings.

        whole: include the executed lines and the outcomes of "Break it", which take longest
        """
        from .document import as_dict

        return as_dict(self, whole)

    def to_html(self, most: int = 0) -> str:
        """Return the page as the text of one HTML file.

        most: the size limit in bytes for including the operator's example with other settings; 0 includes none
        """
        from .html_page import page
        from .operator_page import others

        documents = [self.to_dict()]
        alone = page(documents)
        more = others(self, most - len(alone)) if most > len(alone) else None
        return page(documents, others=more) if more else alone

    def save(self, path: str | Path, most: int = LARGEST_FILE) -> None:
        """Write the page as one HTML file, which works from a disk without network or server.

        For an operator's example the file includes every change of one setting, and of two, up to a size of ``most``
        bytes. For your own arrays it includes only what was computed with them.

        Raises:
            OSError: the file could not be written.
        """
        write_atomically(Path(path), lambda file: file.write(self.to_html(most).encode()))


def _factor(name: str, at: int, values: np.ndarray) -> tuple[str, tuple[int, ...] | None, float]:
    if at < 0:
        return name, None, 0.0
    index = tuple(int(i) for i in np.unravel_index(at, values.shape)) if values.shape else ()
    return name, index, float(values[index])
