"""retrograd.graph finds everything that was recorded and draws it as well-formed SVG."""

from __future__ import annotations

import gc
import weakref
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.utils.checkpoint import checkpoint

SVG = "{http://www.w3.org/2000/svg}"


class Net(nn.Module):
    """A convolution, then a residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.block = nn.Linear(5, 5, bias=False)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        h = self.conv(x)
        return h + self.block(h).tanh()


def recorded() -> tuple[Net, rg.Tensor, rg.Tensor]:
    rg.manual_seed(3)
    net = Net()
    hidden = net(rg.randn(2, 1, 7, 7))
    return net, hidden, (hidden * hidden).mean()


def parsed(graph: Any) -> ElementTree.Element:
    return ElementTree.fromstring(graph.svg)


def groups(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [element for element in root.iter(f"{SVG}g") if element.get("class") == kind]


def paths(group: ElementTree.Element, kind: str) -> int:
    return sum(element.get("class") == kind for element in group.iter(f"{SVG}path"))


def words(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def links(root: ElementTree.Element) -> list[tuple[str | None, str | None]]:
    return sorted((link.get("data-from"), link.get("data-to")) for link in groups(root, "rg-link"))


def test_the_walk_finds_what_was_recorded() -> None:
    net, _, y = recorded()
    graph = rg.graph(y, net)
    assert [operator.name for operator in graph.operators] == ["Conv", "Linear", "Tanh", "Add", "Mul", "Mean"]
    assert [operator.number for operator in graph.operators] == [1, 2, 3, 4, 5, 6]
    assert [operator.module for operator in graph.operators[:3]] == ["conv", "block", ""]
    assert [leaf.name for leaf in graph.leaves] == ["conv.weight", "conv.bias", "block.weight"]
    assert [leaf.shape for leaf in graph.leaves] == [(3, 1, 3, 3), (3,), (5, 5)]
    conv, linear, _, add, product, mean = graph.operators
    assert [(s.name, s.operator, s.leaf) for s in conv.sources] == [("w", 0, 0), ("b", 0, 1)]
    assert [(s.name, s.operator, s.leaf) for s in linear.sources] == [("x", 1, None), ("w", 0, 2)]
    assert [s.operator for s in add.sources] == [1, 3] and [s.operator for s in product.sources] == [4, 4]
    assert [(o.shape, o.dtype, o.norm) for o in mean.outputs] == [((), "float32", None)]
    assert conv.outputs[0].shape == (2, 3, 5, 5)
    assert all(operator.place.startswith("test_graph.py:") for operator in graph.operators if operator.saved)


def test_saved_arrays_have_their_role_shape_and_bytes() -> None:
    net, _, y = recorded()
    graph = rg.graph(y, net)
    saved = {operator.name: [(s.name, s.shape, s.nbytes) for s in operator.saved] for operator in graph.operators}
    assert saved["Conv"] == [("constant", (2, 1, 7, 7), 392)]  # the weight is for the gradient of the images alone
    assert saved["Linear"] == [("x", (2, 3, 5, 5), 600), ("weight", (5, 5), 100)]
    assert saved["Tanh"] == [("output", (2, 3, 5, 5), 600)]
    assert saved["Add"] == saved["Mean"] == []
    # the input, the convolution's result, that of tanh, and the sum, which is saved twice: each once, no parameter
    assert graph.memory == 392 + 3 * 600


def test_norms_of_leaves_and_of_results_that_retain_one() -> None:
    net, hidden, y = recorded()
    hidden.retain_grad()
    assert all(leaf.norm is None for leaf in rg.graph(y, net).leaves)
    y.backward(retain_graph=True)
    graph = rg.graph(y, net)
    for leaf, parameter in zip(graph.leaves, (net.conv.weight, net.conv.bias, net.block.weight), strict=True):
        assert leaf.norm == pytest.approx(np.sqrt((parameter.grad.array.astype(np.float64) ** 2).sum()), rel=1e-12)
    by_hand = 2 * hidden.array.astype(np.float64) / hidden.array.size  # of the mean of squares
    expected = np.sqrt((by_hand**2).sum())
    assert graph.operators[3].outputs[0].norm == pytest.approx(expected, rel=1e-6)
    texts = words(parsed(graph))
    assert f"‖g‖ {graph.leaves[0].norm:.3g}" in texts and f"‖g‖ {expected:.3g}" in texts
    assert f"{graph.leaves[2].norm:.3g}" in str(graph)
    net.conv.bias.grad.array[1] = np.nan
    (bad,) = [t for t in parsed(rg.graph(y, net)).iter(f"{SVG}text") if t.get("class") == "rg-bad"]
    assert bad.text == "‖g‖ nan"


def test_the_picture_has_a_card_for_each_operator_and_a_pair_of_arrows_for_each_link() -> None:
    net, _, y = recorded()
    root = parsed(rg.graph(y, net))
    assert [card.get("data-number") for card in groups(root, "rg-operator")] == ["1", "2", "3", "4", "5", "6"]
    assert len(groups(root, "rg-parameter")) == 3
    expected = [("1", "2"), ("1", "4"), ("2", "3"), ("3", "4"), ("4", "5"), ("4", "5"), ("5", "6"), ("6", "result")]
    expected += [("block.weight", "2"), ("conv.bias", "1"), ("conv.weight", "1")]
    assert links(root) == sorted(expected)
    for link in groups(root, "rg-link"):
        assert paths(link, "rg-forward") == paths(link, "rg-backward") == 1
    texts = words(root)
    for text in ("2 × 3 × 5 × 5", "ConvBackward", "keeps 392 B", "weight", "in conv", "600 B", "result", "scalar"):
        assert text in texts


def test_nothing_lies_outside_and_no_cards_overlap() -> None:
    cell, h, states = nn.LSTMCell(3, 4), None, []
    for _ in range(9):
        h = cell(rg.randn(2, 3), h)
        states.append(h[0])
    root = parsed(rg.graph(rg.stack(states).sum(), cell))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    body = next(element for element in root if element.get("transform"))
    left, top = map(float, body.get("transform", "")[10:-1].split())
    rectangles = []
    for group in body.iter(f"{SVG}g"):
        for rect in group.findall(f"{SVG}rect"):
            if rect.get("class") in ("rg-card", "rg-leaf"):
                x, y = map(float, group.get("transform", "")[10:-1].split())
                rectangles.append((x, y, x + float(rect.get("width", 0)), y + float(rect.get("height", 0))))
    assert len(rectangles) == len(groups(root, "rg-operator")) + len(groups(root, "rg-parameter")) + 1
    for number, (x0, y0, x1, y1) in enumerate(rectangles):
        assert x0 + left >= 0 and y0 + top >= 0 and x1 + left <= width and y1 + top <= height
        for a0, b0, a1, b1 in rectangles[:number]:
            assert x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0


def test_a_rule_is_named_on_its_card_only() -> None:
    net, _, y = recorded()
    assert "rule" not in words(parsed(rg.graph(y, net)))
    rg.register_backward_rule("straight & <through>", lambda true, g: true(g))
    with rg.override_backward(rg.mul, "straight & <through>"):
        net, _, y = recorded()
    graph = rg.graph(y, net)
    assert [operator.rule for operator in graph.operators] == [None] * 4 + ["straight & <through>", None]
    (card,) = [card for card in groups(parsed(graph), "rg-operator") if "rule: straight & <through>" in words(card)]
    assert card.get("data-number") == "5"
    assert sum(e.get("class") == "rg-rule" for e in parsed(graph).iter(f"{SVG}rect")) == 1
    assert "      rule: straight & <through>\n" in str(graph)


def test_a_freed_graph_says_so() -> None:
    net, _, y = recorded()
    y.backward()
    graph = rg.graph(y, net)
    states = [operator.state for operator in graph.operators]
    assert states == ["freed", "freed", "freed", "kept", "freed", "kept"] and graph.memory == 0
    assert "retain_graph=True" in str(graph) and str(graph).count("has freed what it kept") == 4
    assert words(parsed(graph)).count("has freed what it kept") == 4


def test_what_is_recomputed_is_named_and_takes_no_memory() -> None:
    block = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    y = checkpoint(block, rg.randn(5, 3, requires_grad=True)).sum()
    graph = rg.graph(y, block)
    assert [operator.state for operator in graph.operators] == ["recomputed", "recomputed", "kept"]
    assert [(s.name, s.shape) for s in graph.operators[0].saved] == [("x", (5, 3)), ("weight", (4, 3))]
    assert graph.memory == 0 and "recomputes x (5, 3) 60 B" in str(graph)


def test_a_leaf_that_takes_no_gradient_has_no_arrow_back() -> None:
    x, w = rg.randn(3, requires_grad=True), rg.randn(3, requires_grad=True)
    y = (x * w).sum()
    w.grad_req = "null"
    pairs = {link.get("data-from"): paths(link, "rg-backward") for link in groups(parsed(rg.graph(y)), "rg-link")}
    assert pairs == {"tensor 1": 1, "tensor 2": 0, "1": 1, "2": 1}
    assert "takes none" in str(rg.graph(y))


def test_names_of_users_are_escaped() -> None:
    module = nn.Module()
    name = '<script>&"\x07\ud800漢'
    module.register_parameter(name, nn.Parameter(rg.randn(3)))
    function = type("A<b>", (rg.autograd.Function,), {})
    function.forward = staticmethod(lambda ctx, x: rg.Tensor(x.array * 2))  # type: ignore[attr-defined]
    function.backward = staticmethod(lambda ctx, g: g * 2)  # type: ignore[attr-defined]
    y = function.apply(next(iter(module.parameters()))).sum()
    graph = rg.graph(y, module)
    root = parsed(graph)
    shown = '<script>&"\\x07\\ud800漢'
    assert {shown, "A<b>", "A<b>Backward"} <= set(words(root))
    assert (shown, "1") in links(root) and "<script" not in graph.svg and "\x07" not in str(graph)
    long = nn.Module()
    long.register_parameter("w" * 500, nn.Parameter(rg.randn(3)))
    root = parsed(rg.graph(next(iter(long.parameters())).sum(), long))
    assert max(map(len, words(root))) < 100 and float(root.get("width", 0)) < 1200


def test_of_many_operators_the_oldest_are_left_out() -> None:
    x = rg.randn(3, requires_grad=True)
    y = x
    for _ in range(30):
        y = y * 1.5
    graph = rg.graph(y, max_nodes=4)
    assert [operator.number for operator in graph.operators] == [27, 28, 29, 30] and graph.left_out == 26
    root = parsed(graph)
    assert len(groups(root, "rg-operator")) == 4 and "not drawn: from 26" in words(root)
    assert "The oldest 26 of 30 operators are left out; pass max_nodes=30 for all." in str(graph)
    assert len(rg.graph(y).operators) == 30


def test_a_long_chain_becomes_columns_and_costs_no_recursion() -> None:
    y = rg.randn(3, requires_grad=True)
    for _ in range(5000):
        y = y * 1.01
    graph = rg.graph(y)
    root = parsed(graph)
    assert len(groups(root, "rg-operator")) == 200 and graph.left_out == 4800
    assert 0.8 < float(root.get("width", 0)) / float(root.get("height", 0)) < 2.5


def test_links_that_would_be_a_tangle_are_named_at_both_ends() -> None:
    x = rg.randn(3, requires_grad=True)
    parts = [x * float(number) for number in range(20)]
    root = parsed(rg.graph(rg.stack(parts).sum()))
    drawn = [pair for pair in links(root) if pair[1] == "21"]
    texts = words(root)
    assert any(text.startswith("from 1, 2, 3, 4 … ") for text in texts)
    assert texts.count("also to 21") == 20 - len(drawn) > 0
    # a leaf is described once, and named beside the other cards
    assert texts.count("tensor 1") == 20 and sum(r.get("stroke-dasharray") is not None for r in root.iter()) == 19


def test_functions_of_users_of_both_kinds() -> None:
    class Joined(rg.autograd.Function):
        @staticmethod
        def forward(first: Any, factor: float) -> Any:
            return first * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0], np.zeros((2, 3)), output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, None

    class Many(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *parts: Any) -> Any:
            return parts[0] + 1.0, parts[1] + 1.0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads

    x = rg.randn(4, requires_grad=True)
    first, second = Many.apply(x, Joined.apply(x, 2.0))
    graph = rg.graph((first * second).sum())
    joined, many = graph.operators[:2]
    assert [source.name for source in joined.sources] == ["first"]
    assert [(s.name, s.nbytes) for s in joined.saved] == [("first", 16), ("array", 48), ("output", 16)]
    assert [(s.name, s.operator) for s in many.sources] == [("parts[0]", 0), ("parts[1]", 1)]
    assert [source.output for source in graph.operators[2].sources] == [0, 1] and "2, 2[1]" in str(graph)
    (gradient,) = rg.autograd.grad(first.sum() * second.sum(), x, create_graph=True)
    assert len(parsed(rg.graph(gradient))) and rg.graph(gradient).operators  # the graph of a backward, too


def test_it_keeps_nothing_alive_and_changes_nothing() -> None:
    net, hidden, y = recorded()
    node = weakref.ref(hidden.grad_fn)
    graph = rg.graph(y, net)
    first = graph.svg
    y.backward()  # the graph was not used up
    assert net.conv.weight.grad is not None
    del y, hidden
    gc.collect()
    assert node() is None and graph.svg is first and graph._repr_svg_() == first


def test_save(tmp_path: Path) -> None:
    graph = rg.graph(recorded()[2])
    graph.save(tmp_path / "new" / "graph.svg")
    assert ElementTree.parse(tmp_path / "new" / "graph.svg").getroot().tag == f"{SVG}svg"
    with pytest.raises(ValueError, match=r"graph\.save: path='.*graph\.png' must end in \.svg"):
        graph.save(str(tmp_path / "graph.png"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (lambda: (np.ones(3),), TypeError, "y is ndarray, expected a Tensor"),
        (lambda: ((rg.ones(3), rg.ones(3)),), TypeError, "y is tuple, .* of several results, pass one"),
        (lambda: (rg.ones(3),), ValueError, "y has no history: it was computed without recording"),
        (lambda: (rg.ones(3, requires_grad=True),), ValueError, "y has no history: it is a leaf"),
        (lambda: (recorded()[2], "model"), TypeError, "model is str, expected a Module or None"),
        (lambda: (recorded()[2], None, 0), ValueError, "max_nodes=0 must be a positive int"),
        (lambda: (recorded()[2], None, True), ValueError, "max_nodes=True must be a positive int"),
    ],
)
def test_errors(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"graph: {message}"):
        rg.graph(*arguments())
