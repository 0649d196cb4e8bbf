"""Loading of a run's network and held-out samples, to inspect its gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .._files.state import reason, same, text
from ..data.series import Series
from ..engine.tensor import Tensor
from ..nn.module import Module
from .checkpoint import CheckpointError, load_checkpoint
from .forecasting import SeriesOptions, series_task
from .image_classification import ImageOptions, digits_task, images_task, mnist5k_task
from .inference import SeriesRun
from .networks import saved_network
from .task import Settings, Task

__all__ = ["HeldOut", "held_out"]


class HeldOut(NamedTuple):
    """A network in eval mode, a batch of (inputs, targets), and the loss of its task."""

    model: Module
    batch: tuple[Tensor, ...]
    loss: Callable[[Tensor, Tensor], Tensor]


def held_out(path: Path, samples: int, images: Path | None = None, held_out_images: Path | None = None) -> HeldOut:
    """Load the network of a run and its first held-out samples.

    path: the checkpoint, or the folder of the run.
    samples: the maximum number of samples.
    images: for an image run, the folder of its images; held_out_images: the folder of those held out, if it had one.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or its samples cannot be found, or the images are
            not those of the run; the message says what can be opened.
        TrainingError, ImageFolderError, RuntimeError, ImportError: its data cannot be used.
    """
    from .trainer import CHECKPOINT

    path = path / CHECKPOINT if path.is_dir() else path
    state = load_checkpoint(path)
    try:
        name = text("task", state["task"])
        if name == "text":
            raise CheckpointError(
                f"{path} is a run on text, whose samples depend on the previous ones; only runs on images and on a "
                "series can be opened; for any other network, call retrograd.explain(model, batch, loss)"
            )
        task = _task(name, path, state, images, held_out_images)
        model = saved_network(state, "series" if name == "series" else "images").eval()
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be opened: {reason(error)}") from error
    batch = task.held_out.take(range(min(samples, len(task.held_out))))
    return HeldOut(model, batch, task.loss)


def _task(name: str, path: Path, state: dict[str, Any], images: Path | None, held_out_images: Path | None) -> Task:
    if name != "images" and (images or held_out_images):
        raise CheckpointError(f"{path} is a run of the task {name}, which has its own data; leave --images out")
    if name == "digits":
        return digits_task()
    if name == "mnist5k":
        return mnist5k_task()
    options = state["options"]
    if name == "series":
        chosen = SeriesOptions(**{each: options[each] for each in ("column", "period", "horizon")})
        run = SeriesRun(path, state)
        return series_task(path, chosen, Series(run.values, (), run.column))
    if name != "images":
        raise ValueError(f"there is no task {name!r}")
    if images is None:
        raise CheckpointError(f"{path} does not contain its images; name their folder with --images DIR")
    names = ("size", "channels", "held_out", "flip", "regularize")
    kind = ImageOptions(**{each: {"regularize": "light", **options}[each] for each in names})
    task, _ = images_task(images, held_out_images, kind, Settings.from_dict(state["settings"]).seed)
    if list(task.classes) != list(state["classes"]):
        raise CheckpointError(f"{path} has other classes than the folders in {images}: {', '.join(state['classes'])}")
    if not same(task.options["sha256"], options["sha256"]):
        raise CheckpointError(
            f"the images in {images} are not those of {path}, so those held out would differ; name the folder that it "
            "was trained on, and with --held-out-images the one that it was tested on, if it had one"
        )
    return task
