"""The gradients of a trained network on held-out samples, beside its report."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ..explanation.model import ModelExplanation
from ..kernel_set import use_kernels

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["EXPLANATION", "explained", "links"]

EXPLANATION = "explain.html"


def explained(trainer: Trainer) -> ModelExplanation | None:
    """The layers of the network as they ran in eval mode on a few held-out samples; None for a task without any."""
    task, model = trainer.task, trainer.model
    samples = min(task.explained, len(task.held_out))
    if not samples:
        return None
    training = model.training
    model.eval()
    try:
        with use_kernels(trainer.settings.kernels):
            return ModelExplanation(model, task.held_out.take(range(samples)), task.loss)
    finally:
        model.train(training)


def links(explanation: ModelExplanation) -> dict[str, str]:
    """For each layer that can be taken apart, its place in the page beside the report."""
    paths = [each["path"] for each in explanation.to_dict()["layers"] if not each["why_not"]]
    return {path: f"{EXPLANATION}#{urlencode({'layer': path})}" for path in paths}
