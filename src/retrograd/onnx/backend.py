"""Implementation of ONNX's backend interface, used by ``onnx.backend.test``.

Source: https://onnx.ai/onnx/repo-docs/ImplementingAnOnnxBackend.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..engine.grad_mode import no_grad
from .files import checked, onnx
from .graph import Graph
from .node import Value, array_of

__all__ = ["RetrogradBackend", "RetrogradRep", "prepare", "run_model", "run_node", "supports_device"]

onnx()
from onnx.backend.base import Backend, BackendRep, namedtupledict  # noqa: E402


class RetrogradRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Any) -> None:
        self.graph: Graph = Graph(model).eval()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs as arrays."""
        given = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        with no_grad():
            outputs = self.graph(*given)
        several = outputs if len(self.graph.output_names) > 1 else (outputs,)
        return namedtupledict("Outputs", self.graph.output_names)(*[_plain(value) for value in several])


class RetrogradBackend(Backend):
    """The backend that runs models and nodes on the CPU."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> RetrogradRep:
        """Prepare a model to run.

        Raises:
            OnnxError: the model is invalid or uses something unsupported. ValueError: the device is not the CPU.
        """
        if not cls.supports_device(device):
            raise ValueError(f"backend.prepare: device={device!r}: there is one device, the CPU")
        return RetrogradRep(checked(model))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Return the outputs of a single node; ``opset_version=None`` means the newest."""
        helper = onnx().helper
        arrays = [np.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        version = kwargs.get("opset_version") or onnx().defs.onnx_opset_version()
        opsets = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(helper.make_graph([node], "node", given, outputs), opset_imports=opsets)
        return RetrogradRep(model).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == "CPU"


def _plain(value: Value) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value is None else array_of(value)


prepare: Final = RetrogradBackend.prepare
run_model: Final = RetrogradBackend.run_model
run_node: Final = RetrogradBackend.run_node
supports_device: Final = RetrogradBackend.supports_device
