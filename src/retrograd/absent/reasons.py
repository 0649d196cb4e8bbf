"""Why the names of PyTorch that are asked for most are not here, and what to write instead."""

from __future__ import annotations

_ONE_DEVICE = "there is one device, the CPU, and every tensor is on it; leave it out"
_NO_GPU = "it does not run on a GPU; there is one device, the CPU"
_LOWBIT = "layers with quantised weights and activations, and converting a model to them, are in retrograd.lowbit"
_NOTHING_TO_COMPILE = "there is nothing to compile, kernels are compiled when they are first used; leave it out"
_NO_SCRIPT = "a model is its Python code; save its weights by retrograd.interop.save_safetensors"
_STRIDED = "a Tensor is dense; sparse matrices are made by retrograd.sparse_coo_tensor"
_NO_COMPLEX = "there are no complex numbers"
_PAIRS = _NO_COMPLEX + "; retrograd.fft holds them as real tensors whose last axis is (real part, imaginary part)"
_EIGENVALUES = _NO_COMPLEX + "; of symmetric matrices write retrograd.linalg.eigh"


REASONS: dict[str, dict[str, str]] = {
    "torch": {
        "export": _NO_SCRIPT,
        "fx": "a graph is recorded when operators run; open it by y.grad_fn and retrograd.backward_source(y)",
        "mps": _NO_GPU,
        "xpu": _NO_GPU,
        "complex": _NO_COMPLEX,
        **dict.fromkeys(("view_as_real", "view_as_complex", "polar"), _PAIRS),
        "sparse_csr_tensor": _STRIDED,
        "vmap": "write the axis of the batch into your operations; gradients of each sample come from "
        "retrograd.per_sample_gradients",
        "func": "functions of gradients are in retrograd.autograd.functional",
        "profiler": "write retrograd.train.profile(model, x)",
        "quantization": _LOWBIT,
        "ao": _LOWBIT,
        "rnn_tanh": "write retrograd.nn.RNN",
        "rnn_relu": 'write retrograd.nn.RNN(..., nonlinearity="relu")',
        "lstm": "write retrograd.nn.LSTM",
        "gru": "write retrograd.nn.GRU",
    },
    "torch.Tensor": {
        "as_in_context": _ONE_DEVICE,
        "asnumpy": "it is a name of MXNet; write x.numpy()",
        "asscalar": "it is a name of MXNet; write x.item()",
        "attach_grad": "it is a name of MXNet; write x.requires_grad_()",
        "xpu": _ONE_DEVICE,
        "cfloat": _NO_COMPLEX,
        "cdouble": _NO_COMPLEX,
        "grad_dtype": "a gradient has the dtype of its tensor",
        "imag": _NO_COMPLEX,
        "to_dense": _STRIDED,
    },
    "torch.nn.Module": {
        "collect_params": "it is a name of MXNet; write model.parameters() or model.named_parameters()",
        "hybridize": _NOTHING_TO_COMPILE,
        "xpu": _ONE_DEVICE,
        "compile": _NOTHING_TO_COMPILE,
        "register_backward_hook": "write register_full_backward_hook",
    },
    "torch.linalg": dict.fromkeys(("eig", "eigvals"), _EIGENVALUES),
    "torch.nn": {
        "NLLLoss2d": "write retrograd.nn.NLLLoss",
        "Container": "write retrograd.nn.Module",
        "quantized": _LOWBIT,
    },
    "torch.utils.data": {
        "default_convert": "write default_collate",
    },
}
