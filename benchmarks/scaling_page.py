"""``python -m benchmarks.scaling_page``: writes docs/contributing/scaling.md and its picture from results.json.

No number on the page is typed by hand: each is measured (results.json), assumed (below), or computed from these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

from retrograd import nn
from retrograd._files.atomic import write_atomically
from retrograd.distributed.data_parallel import BUCKET_BYTES
from retrograd.distributed.gradient_bucket import make_buckets

from .models import WORKLOADS
from .scaling import Collective, Link, Load, all_to_all, efficiency, halving
from .suites import distributed as suite

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "contributing" / "scaling.md"
PICTURE = HERE.parent / "docs" / "static" / "scaling.svg"

NETWORKS = ("LeNet", "mnist5k", "characters", "VGG-11")
MACHINES = tuple(2**power for power in range(10))
SHOWN = (8, 64, 512)
# assumed: the latency of an MPI message over TCP, and the fraction of the bandwidth that is payload
PAYLOAD = 0.94
LINKS = (
    Link("10 Gbit/s", 30e-6, 8 / (PAYLOAD * 10e9)),
    Link("100 Gbit/s", 10e-6, 8 / (PAYLOAD * 100e9)),
)
HERE_LINK = Link("one machine", 0.0, 0.0)  # copies in memory count as work of the cores
LATE = 0.02  # assumed: the mean delay of a worker, as a fraction of its step
BACKWARD = 2 / 3  # assumed: the fraction of a step
SHARDS = 8 // suite.SIZE  # shards per worker in the measurements


@dataclass(frozen=True)
class Method:
    """A method of adding gradients."""

    name: str
    collective: Collective
    tree: bool
    color: str
    style: str


METHODS = (
    Method("the same bits", halving, True, "#d9480f", "-"),
    Method("the same bits, all to all", all_to_all, True, "#d9480f", ":"),
    Method("reproducible=False", halving, False, "#57606a", "-"),
)


class Measured:
    """The rows of results.json that the prediction uses.

    Raises:
        LookupError: a row is missing.
    """

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        self._rows = {(row["group"], row["name"]): row for row in content["results"]}

    def _figure(self, group: str, name: str) -> float:
        row = self._rows.get((group, name))
        if row is None:
            raise LookupError(f"results.json has no row {group}: {name}; make bench ARGS='--only distributed --keep'")
        return float(row["ours"])

    def throughput(self, network: str, label: str) -> float | None:
        """Return the efficiency of two processes, from samples a second; None if it has not been measured."""
        rows = [self._rows.get((suite.THROUGHPUT, suite.row_name(network, each))) for each in (label, suite.ONE)]
        if rows[0] is None or rows[1] is None:
            return None
        return float(rows[0]["ours"]) / (suite.SIZE * float(rows[1]["ours"]))

    def work(self, network: str, label: str) -> float:
        """Return the CPU seconds of a step."""
        return self._figure(suite.WORK, suite.row_name(network, label))

    def by_work(self, network: str, label: str) -> float:
        """Return the efficiency of two processes that never wait: the work of one for a step, divided by theirs."""
        return self.work(network, suite.ONE) / self.work(network, label)

    def busy(self) -> float:
        """Return the number of other processes that used the cores."""
        return self._figure(suite.MACHINE, suite.LOAD)

    def exchange(self, label: str) -> float:
        """Return the CPU seconds of the exchange of one bucket between two processes on one machine."""
        return self._figure(suite.MACHINE, suite.exchange_row(label))

    def adding(self) -> float:
        """Return the seconds to add a byte."""
        return self._figure(suite.MACHINE, suite.ADDITION) / (4 * suite.MESSAGES["4 MB"])

    def load(self, network: str, tree: bool) -> tuple[Load, float]:
        """Return a worker's load in a step, and the seconds of a step of one process alone."""
        alone = self.work(network, suite.ONE)
        computing = self.work(network, suite.WHOLE) / suite.SIZE if tree else alone
        call, long = (self.exchange(label) for label in suite.MESSAGES)
        adding, size = self.adding(), 4 * suite.MESSAGES["4 MB"]
        copying = max(0.0, (long - call) / size - adding / 2)  # two workers add half of the bytes each
        forward, backward = (1 - BACKWARD) * computing, BACKWARD * computing
        return Load(forward, backward, bucket_sizes(network), call, copying, adding), alone


@cache
def bucket_sizes(network: str) -> tuple[int, ...]:
    """Return the bytes of a network's gradient buckets, and of its changed batch norm statistics."""
    net = WORKLOADS[network].make(nn)
    found: list[int] = []
    for tensors in (net.parameters(), net.buffers()):
        arrays = [tensor.array for tensor in tensors if tensor.array.dtype.kind == "f"]
        shapes, dtypes = [array.shape for array in arrays], [array.dtype for array in arrays]
        found += [
            bucket.size * bucket.dtype.itemsize for bucket in make_buckets(shapes, dtypes, range(1), 1, BUCKET_BYTES)
        ]
    return tuple(found)


@cache
def curve(measured: Measured, network: str, method: Method, link: Link, late: float = LATE) -> dict[int, float]:
    """Return the efficiency by number of machines."""
    load, alone = measured.load(network, method.tree)
    return {count: efficiency(load, alone, method.collective, link, count, late) for count in MACHINES}


def write() -> None:
    """Write the page and its picture from the results in this folder."""
    measured = Measured(HERE / "results.json")
    write_atomically(PAGE, lambda file: file.write(page(measured).encode()))
    picture = _picture(measured)
    write_atomically(PICTURE, lambda file: file.write(picture))


# ---- the page --------------------------------------------------------------------------------------------------------


def page(measured: Measured) -> str:
    """Return the text of docs/contributing/scaling.md."""
    rows, reached = [], {}
    for network in NETWORKS:
        for link in LINKS:
            for method in METHODS:
                found = curve(measured, network, method, link)
                reached[network, link.name, method.name] = _half(found)
                shown = [f"{100 * found[count]:.0f} %" for count in SHOWN]
                rows.append([network, link.name, method.name, *shown, _at_least(_half(found))])
    head = ["network", "Ethernet", "gradients added by", *(f"{count} machines" for count in SHOWN), "half up to"]
    sizes = [_sizes(measured, network) for network in NETWORKS]
    two = [_two(measured, network) for network in NETWORKS]
    assumed = [["mean delay of a worker", f"{100 * LATE:g} % of its step, exponentially distributed"]]
    assumed += [["backward", f"{100 * BACKWARD:.0f} % of a step; its buckets are complete at equal intervals"]]
    for link in LINKS:
        cost = f"{link.latency * 1e6:.0f} µs, and {link.per_byte * 1e9:.3f} ns a byte ({100 * PAYLOAD:g} % are payload)"
        assumed.append([f"a message, {link.name}", cost])
    return "\n".join(
        [
            _HEAD,
            _table(head, rows),
            "",
            "![Predicted efficiency over the number of machines, for each network and Ethernet, with the two processes "
            "that were measured](../static/scaling.svg)",
            "",
            *_findings(reached),
            "",
            "## Inputs of the model",
            "",
            "Measured on one machine, with the processes of `make bench` (section `distributed`):",
            "",
            _table(["network", "samples a worker", "buckets (MB)", "step alone", "in shards"], sizes),
            "",
            *_machine(measured),
            "",
            "Assumed:",
            "",
            _table(["what", "value"], assumed),
            "",
            "The two processes that were measured share one machine: their messages are copies in memory. The model "
            "predicts this efficiency for them, without a link and without late workers. The other columns were "
            "measured: by the work of a core for a step, where waiting does not count, and by the throughput:",
            "",
            _table(["network", "gradients added by", "model", "work", "throughput"], sum(two, [])),
            "",
            _FOOT,
        ]
    )


_HEAD = """<!-- written by python -m benchmarks.scaling_page -->
# How far it scales: a prediction

**Predicted, not measured**: no cluster was available. Two processes on one machine were measured, and the model behind
the prediction is checked against them below. Each machine has one worker of one thread and the same batch, however many
machines there are. At an efficiency of 100 %, n machines are n times as fast as one machine without any exchange; "half
up to" is the largest number of machines with an efficiency of at least one half.
"""

_FOOT = f"""## The model

A message of n bytes takes a latency and a time for each byte (R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of
Collective Communication Operations in MPICH", 2005). With p workers, a bucket of n bytes takes

| algorithm | latencies | bytes on the link |
|---|---|---|
| halving and doubling (Rabenseifner) | 2 log₂ p | 2 n (p − 1) / p |
| all to all, then a ring | 2 (p − 1) | 2 n (p − 1) / p |
| ring | 2 (p − 1) | 2 n (p − 1) / p |

Buckets are sent while the backward continues, and the link carries one message at a time. So the step is simulated
event by event, in `benchmarks/scaling.py`. The price of the same bits is that each worker computes its batch in
{SHARDS} shards, so there are {SHARDS} times as many shards as machines. The exchange costs nothing more: if
neighbors exchange first, halving adds exactly the sums of the fixed tree. This requires that the number of workers is a
power of 2 and that each has one whole subtree. Otherwise the parts are exchanged all to all, in p − 1 rounds.
"""


def _findings(reached: dict[tuple[str, str, str], int]) -> Iterator[str]:
    tree_method, all_to_all_method, plain = METHODS
    for link in LINKS:
        parts = []
        for network in NETWORKS:
            tree, other = (_at_least(reached[network, link.name, method.name]) for method in (tree_method, plain))
            parts.append(f"{network} {tree} (reproducible=False: {other})")
        yield f"- Largest number of machines with an efficiency of at least one half, {link.name}: {', '.join(parts)}."
    cases = [key[:2] for key in reached if key[2] == tree_method.name]
    shorter = [case for case in cases if reached[(*case, all_to_all_method.name)] < reached[(*case, tree_method.name)]]
    yield (
        f"- All to all, for numbers of machines that are not a power of 2, ends earlier in {len(shorter)} of "
        f"{len(cases)} cases, because of its p − 1 rounds."
    )


def _half(found: dict[int, float]) -> int:
    """Return the largest number of machines up to which the efficiency is at least one half; 0 if it never is."""
    last = 0
    for count, value in found.items():
        if value < 0.5:
            break
        last = count
    return last


def _at_least(count: int) -> str:
    return f"{count} or more" if count == MACHINES[-1] else str(count)


def _sizes(measured: Measured, network: str) -> list[str]:
    load, alone = measured.load(network, tree=True)
    buckets = ", ".join(f"{size / 1e6:.2g}" for size in load.buckets)
    seconds = (alone, load.forward + load.backward)
    return [network, str(WORKLOADS[network].samples), buckets, *(f"{1e3 * each:.3g} ms" for each in seconds)]


def _machine(measured: Measured) -> Iterator[str]:
    figures = [f"{1e6 * measured.exchange(label):.0f} µs for {label}" for label in suite.MESSAGES]
    yield f"- a bucket between two processes: {', '.join(figures)}"
    yield f"- an addition: {1 / measured.adding() / 1e9:.1f} GB/s"
    if measured.busy() > 0.5:
        yield (
            f"\n**The machine was busy** (about {measured.busy():.0f} other processes wanted its cores). The times of "
            "work depend on it little; the throughput of two processes is to be measured on an idle machine."
        )


def _two(measured: Measured, network: str) -> list[list[str]]:
    rows = []
    for method, label in ((METHODS[0], suite.TREE), (METHODS[-1], suite.PLAIN)):
        model = curve(measured, network, method, HERE_LINK, 0.0)[2]
        rate = measured.throughput(network, label)
        values = [model, measured.by_work(network, label), rate]
        cells = ["not measured yet" if value is None else f"{100 * value:.0f} %" for value in values]
        rows.append([network, method.name, *cells])
    return rows


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ---- the picture -----------------------------------------------------------------------------------------------------


def _picture(measured: Measured) -> bytes:
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    options = {"svg.hashsalt": "scaling", "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context({**options, "axes.spines.top": False, "axes.spines.right": False}):
        size = (3.2 * len(NETWORKS), 2.9 * len(LINKS))
        figure, axes = plt.subplots(len(LINKS), len(NETWORKS), figsize=size, sharey=True, layout="constrained")
        for row, link in enumerate(LINKS):
            for column, network in enumerate(NETWORKS):
                ax = axes[row, column]
                for method in METHODS:
                    found, text = curve(measured, network, method, link), f"{method.name}, predicted"
                    ax.plot(list(found), list(found.values()), method.style, color=method.color, label=text)
                for method, label, mark in ((METHODS[0], suite.TREE, "o"), (METHODS[-1], suite.PLAIN, "s")):
                    rate = measured.throughput(network, label)
                    for what, value in (("work", measured.by_work(network, label)), ("throughput", rate)):
                        if value is not None:
                            text, face = f"{method.name}, {what} measured", "none" if what == "work" else method.color
                            ax.plot([2], [value], mark, color=method.color, markerfacecolor=face, label=text)
                ax.set(xscale="log", ylim=(0, 1.1), title=f"{network}, {link.name}")
                ax.set_xticks(MACHINES[::3], labels=[str(count) for count in MACHINES[::3]])
                ax.minorticks_off()
        figure.supxlabel("machines")
        figure.supylabel("efficiency")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        stream = BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        plt.close(figure)
    return stream.getvalue()


if __name__ == "__main__":
    write()
    print(f"written to {PAGE} and {PICTURE}")
