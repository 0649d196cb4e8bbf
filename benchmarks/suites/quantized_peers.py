"""8-bit convolution and linear layers of other libraries, from codes to codes: PyTorch's engines, and onnxruntime."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from ..harness import Call

ENGINES = ("x86", "fbgemm")  # PyTorch's engine; on other CPUs it is qnnpack


class Steps(NamedTuple):
    """Scale and zero point of the inputs' codes, scale of the filters, and of the result; one zero point for both."""

    x: float
    zero_point: int
    w: float
    y: float


def calls(x: np.ndarray, w: np.ndarray, steps: Steps) -> dict[str, Call]:
    """Return the calls for x (N, Ci, *S) uint8, w (Co, Ci, *R) int8: convolution with padding 1, or a linear layer."""
    found = {}
    for engine in [one for one in ENGINES if one in torch.backends.quantized.supported_engines] or ["qnnpack"]:
        found[f"PyTorch {engine}"] = _torch(engine, x, w, steps)
    if (call := _onnxruntime(x, w, steps)) is not None:
        found["onnxruntime"] = call
    return found


def numbers(result: Any) -> np.ndarray:
    """Return the codes that a call returned."""
    if isinstance(result, torch.Tensor):
        return result.int_repr().numpy()
    return np.asarray(result.get_outputs()[0].numpy())


def _torch(engine: str, x: np.ndarray, w: np.ndarray, steps: Steps) -> Call:
    torch.backends.quantized.engine = engine
    outputs = len(w)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has deprecated quantized tensors
        quantized = torch._make_per_tensor_quantized_tensor(torch.tensor(x), steps.x, steps.zero_point)
        scales, zeros = torch.full((outputs,), steps.w), torch.zeros(outputs, dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(torch.tensor(w), scales, zeros, 0)
        if w.ndim > 2:
            quantized = quantized.contiguous(memory_format=torch.channels_last)
            packed = torch.ops.quantized.conv2d_prepack(weight, torch.zeros(outputs), [1, 1], [1, 1], [1, 1], 1)
            operator = torch.ops.quantized.conv2d
        else:
            packed = torch.ops.quantized.linear_prepack(weight, torch.zeros(outputs))
            operator = torch.ops.quantized.linear
    return lambda: operator(quantized, packed, steps.y, steps.zero_point)


def _onnxruntime(x: np.ndarray, w: np.ndarray, steps: Steps) -> Call | None:
    """Return onnxruntime's call, or None if it is not installed."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return None
    make, numbers = onnx.helper, onnx.numpy_helper
    outputs, convolution = len(w), w.ndim > 2
    constants = {
        "x_step": np.float32(steps.x),
        "x_zero": np.uint8(steps.zero_point),
        "w": w if convolution else w.T.copy(),
        "w_step": np.full(outputs, steps.w, np.float32),
        "w_zero": np.zeros(outputs, np.int8),
        "y_step": np.float32(steps.y),
        "y_zero": np.uint8(steps.zero_point),
    }
    operator, options = ("QLinearConv", {"pads": [1] * 4}) if convolution else ("QLinearMatMul", {})
    node = make.make_node(operator, ["x", *constants], ["y"], **options)
    shapes = {"x": x.shape, "y": (x.shape[0], outputs, *x.shape[2:])}
    first, last = (make.make_tensor_value_info(name, onnx.TensorProto.UINT8, shapes[name]) for name in shapes)
    tensors = [numbers.from_array(np.asarray(value), name) for name, value in constants.items()]
    model = make.make_model(
        make.make_graph([node], "one", [first], [last], tensors),
        opset_imports=[make.make_opsetid("", 17)],
        ir_version=8,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding

    return call
