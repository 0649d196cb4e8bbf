"""TensorBoard's SummaryWriter through tensorboardX, and the recorded graph as a GraphDef.

Source: tensorflow/core/framework/graph.proto and node_def.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np

from ..engine.arguments import kind_name
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor
from ..nn.module import Module
from .graph.walk import Operator, Walk, walk

__all__ = ["SummaryWriter", "graph_def"]


# ---- The recorded graph of a model's call as a TensorFlow graph, which TensorBoard draws ----------------------------

_MOST = 100_000  # operators


def graph_def(model: Module, inputs: Any) -> Any:
    """Return a GraphDef of what model(*inputs) records: one node for each operator, parameter and input.

    Raises:
        ValueError: nothing in the call takes a gradient.
    """
    args = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    names = {id(parameter): path for path, parameter in model.named_parameters()}
    given = []
    for number, value in enumerate(args):
        if isinstance(value, Tensor) and value.array.dtype.kind == "f":
            value = Tensor(value.array, requires_grad=True)  # so that the input is in the graph
            names[id(value)] = f"input_{number}"
        given.append(value)
    with _evaluating(model), enable_grad():
        result = _first(model(*given))
    if result is None:
        raise ValueError(
            "add_graph: no result of the model takes a gradient, so no graph is recorded; unfreeze a "
            "parameter, or pass a floating-point input"
        )
    return _converted(walk(result, names, _MOST))


@contextmanager
def _evaluating(model: Module) -> Iterator[None]:
    """Switch to eval mode during the context; then restore the mode of each module."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _first(result: Any) -> Tensor | None:
    """Return the first Tensor with a history in a result."""
    if isinstance(result, Tensor):
        return None if result.is_leaf else result
    items = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    return next((found for found in map(_first, items) if found is not None), None)


def _converted(found: Walk) -> Any:
    from tensorboardX.proto import attr_value_pb2, graph_pb2, node_def_pb2, tensor_shape_pb2, versions_pb2

    def node(name: str, kind: str, sources: list[str], shape: tuple[int, ...], dtype: str) -> Any:
        extents = [tensor_shape_pb2.TensorShapeProto.Dim(size=extent) for extent in shape]
        shapes = attr_value_pb2.AttrValue.ListValue(shape=[tensor_shape_pb2.TensorShapeProto(dim=extents)])
        attributes = {
            "_output_shapes": attr_value_pb2.AttrValue(list=shapes),
            "dtype": attr_value_pb2.AttrValue(s=dtype.encode()),
        }
        return node_def_pb2.NodeDef(name=name, op=kind, input=sources, attr=attributes)

    nodes = []
    for leaf in found.leaves:
        kind = "Parameter" if not leaf.name.startswith("input_") else "Input"
        nodes.append(node(_scoped(leaf.name), kind, [], leaf.shape, leaf.dtype))
    called = [_called(operator, found) for operator in found.operators]
    first = found.operators[0].number if found.operators else 1
    for name, operator in zip(called, found.operators, strict=True):
        sources = []
        for source in operator.sources:
            if source.leaf is not None:
                sources.append(_scoped(found.leaves[source.leaf].name))
            elif source.operator >= first:
                sources.append(called[source.operator - first])
        output = operator.outputs[0]
        nodes.append(node(name, operator.name, sources, output.shape, output.dtype))
    return graph_pb2.GraphDef(node=nodes, versions=versions_pb2.VersionDef(producer=22))


def _called(operator: Operator, found: Walk) -> str:
    """Return the name of an operator's node, in the scope of the module whose parameters it uses."""
    leaves = (found.leaves[source.leaf].name for source in operator.sources if source.leaf is not None)
    modules = {name.rpartition(".")[0] for name in leaves if not name.startswith("input_")}
    module = modules.pop() if len(modules) == 1 else operator.module
    return _scoped(f"{module}.{operator.name}_{operator.number}".lstrip("."))


def _scoped(path: str) -> str:
    return path.replace(".", "/").replace(" ", "_")


# ---- SummaryWriter with PyTorch's interface, through tensorboardX ---------------------------------------------------

_MISSING = 'tensorboardX is not installed: pip install "retrograd[tensorboard]"'


class SummaryWriter:
    """Writes logs for TensorBoard; same interface as PyTorch's class, and accepts our Tensors wherever it takes values.

    log_dir: the folder; by default runs/DATE_TIME_HOST followed by ``comment``.
    purge_step: TensorBoard hides what an interrupted run wrote for this step and later ones.
    max_queue, flush_secs: how many events are buffered, and for how many seconds at most.

    ``with SummaryWriter() as writer:`` closes it.

    Raises:
        ImportError: tensorboardX is not installed.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        place = None if log_dir is None else str(log_dir)
        self._writer = _package().SummaryWriter(place, comment, purge_step, max_queue, flush_secs, filename_suffix)
        self.log_dir: str = str(self._writer.logdir)

    def get_logdir(self) -> str:
        """Return the folder of the files."""
        return self.log_dir

    def _send(self, method: str, *args: Any, **kwargs: Any) -> None:
        plain = {name: _plain(value) for name, value in kwargs.items()}
        getattr(self._writer, method)(*[_plain(value) for value in args], **plain)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number, as a point of a curve.

        Raises:
            ValueError: scalar_value has several elements, or an option is True that tensorboardX does not have.
        """
        for name, value in (("new_style", new_style), ("double_precision", double_precision)):
            if value is not False:
                raise ValueError(f"add_scalar: {name}={value!r} is not supported; leave it out")
        if np.size(_plain(scalar_value)) != 1:
            raise ValueError(f"add_scalar: scalar_value has {np.size(_plain(scalar_value))} elements; use its mean()")
        self._send("add_scalar", tag, scalar_value, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers {tag: value}, as curves in one diagram."""
        self._send("add_scalars", main_tag, tag_scalar_dict, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write the distribution of values, a Tensor or array."""
        self._send("add_histogram", tag, values, global_step, bins, walltime, max_bins)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a precomputed distribution."""
        self._send(
            "add_histogram_raw",
            tag,
            min,
            max,
            num,
            sum,
            sum_squares,
            bucket_limits,
            bucket_counts,
            global_step,
            walltime,
        )

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image of uint8, or of floats from 0 to 1, whose axes dataformats names."""
        self._send("add_image", tag, img_tensor, global_step, walltime, dataformats)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write images side by side."""
        self._send("add_images", tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Write an image with boxes (N, 4), xmin, ymin, xmax, ymax.

        Raises:
            ValueError: rescale is not 1.
        """
        if rescale != 1:
            raise ValueError(f"add_image_with_boxes: rescale={rescale!r} is not supported; scale the image first")
        self._send("add_image_with_boxes", tag, img_tensor, box_tensor, global_step, walltime, dataformats, labels)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a Matplotlib figure, or a list of them."""
        self._send("add_figure", tag, figure, global_step, close, walltime)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Write videos (N, T, C, H, W); needs moviepy."""
        self._send("add_video", tag, vid_tensor, global_step, fps, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound (1, L) of values from -1 to 1; needs soundfile."""
        self._send("add_audio", tag, snd_tensor, global_step, sample_rate, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write Markdown text."""
        self._send("add_text", tag, text_string, global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Write points (N, D) for the projector, each with a label and an image."""
        self._send("add_embedding", mat, metadata, label_img, global_step, tag, metadata_header)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a precision-recall curve, from labels 0 and 1 and predicted probabilities."""
        self._send("add_pr_curve", tag, labels, predictions, global_step, num_thresholds, weights, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Any = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write points or triangles in space: vertices (N, V, 3), colors (N, V, 3), faces (N, F, 3)."""
        self._send("add_mesh", tag, vertices, colors, faces, config_dict, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Group curves into charts: {category: {chart: ["Multiline" or "Margin", tags]}}."""
        self._send("add_custom_scalars", layout)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write a run's hyperparameters and metrics, for the page that compares runs.

        Raises:
            ValueError: hparam_domain_discrete is not None, which tensorboardX does not have.
        """
        if hparam_domain_discrete is not None:
            raise ValueError("add_hparams: hparam_domain_discrete is not supported; leave it out")
        numbers = {name: np.asarray(value).item() for name, value in _plain(metric_dict).items()}
        plain = {
            name: value.item() if isinstance(value, (np.ndarray, np.generic)) and np.size(value) == 1 else value
            for name, value in _plain(hparam_dict).items()
        }
        self._send("add_hparams", plain, numbers, run_name, global_step)

    def add_graph(
        self, model: Module, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Write the graph recorded by a call of the model: operators in scopes of their modules, parameters, inputs.

        input_to_model: its argument, or a tuple of them. The call is made in eval mode.
        verbose: print the nodes. use_strict_trace: PyTorch's option; the graph here is always recorded, never traced.

        Raises:
            TypeError: model is not a Module, or input_to_model is missing.
            ValueError: nothing in the call takes a gradient.
        """
        if not isinstance(model, Module):
            raise TypeError(f"add_graph: model is {kind_name(model)}, expected a Module")
        if input_to_model is None:
            raise TypeError("add_graph: input_to_model is missing: the graph is recorded when the model is called")
        graph = graph_def(model, input_to_model)
        if verbose:
            print(graph)
        event = _package().proto.event_pb2.Event(graph_def=graph.SerializeToString())
        self._writer.file_writer.add_event(event)

    def flush(self) -> None:
        """Write all buffered events to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Write all buffered events to the disk, and close the files."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(value: Any) -> Any:
    """Return the value with arrays in place of Tensors, also in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return value.array
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return {key: _plain(item) for key, item in value.items()} if type(value) is dict else value


def _package() -> ModuleType:
    try:
        import tensorboardX
    except ImportError:
        raise ImportError(_MISSING) from None
    return tensorboardX
