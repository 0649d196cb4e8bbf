"""Why the names of PyTorch that are asked for most are not here, and what to write instead."""

from __future__ import annotations

_ONE_DEVICE = "there is one device, the CPU, and every tensor is on it; leave it out"
_NO_GPU = "it does not run on a GPU; there is one device, the CPU"
_DTYPES = "element types are float32, float64, int64 and bool"
_LOWBIT = "layers with quantised weights and activations, and converting a model to them, are in retrograd.lowbit"
_NO_AUTOCAST = "everything is computed in the type of its operands; leave it out"
_NOTHING_TO_COMPILE = "there is nothing to compile, kernels are compiled when they are first used; leave it out"
_NO_SCRIPT = "a model is its Python code; save its weights by retrograd.interop.save_safetensors"
_STRIDED = "all tensors are dense"
_NO_COMPLEX = "there are no complex numbers"
_ONE_PROCESS = "training runs in one process, on as many threads as retrograd.set_num_threads says"
_SHARED = "a model belongs to one process; a DataLoader starts its worker processes by itself"
_LAYOUT = "a tensor is a NumPy array in any order of its axes"
_SAME_BITS = "the same program gives the same bits always, with any number of threads; leave it out"
_FROM_TENSOR = "write retrograd.{} with dtype=x.dtype"
_STATE_HOOKS = "change what state_dict() returns, or what load_state_dict is given"


def _of_type(name: str) -> str:
    return f"{_DTYPES}; write retrograd.{name}"


REASONS: dict[str, dict[str, str]] = {
    "torch": {
        "compile": _NOTHING_TO_COMPILE,
        "compiler": _NOTHING_TO_COMPILE,
        "jit": _NO_SCRIPT,
        "export": _NO_SCRIPT,
        "onnx": _NO_SCRIPT,
        "fx": "a graph is recorded when operators run; open it by y.grad_fn and retrograd.backward_source(y)",
        "save": "write the weights by retrograd.interop.save_safetensors(model, path), or let retrograd.train.fit keep "
        "checkpoints",
        "load": "read weights by retrograd.interop.load_model(model, path), those of any safetensors file by "
        "load_safetensors(path)",
        "hub": "read downloaded weights by retrograd.interop.load_model(model, path)",
        "cuda": _NO_GPU,
        "mps": _NO_GPU,
        "xpu": _NO_GPU,
        "accelerator": _NO_GPU,
        "backends": _NO_GPU + "; retrograd.use_kernels chooses between compiled and plain kernels",
        "get_device": _ONE_DEVICE,
        "amp": _NO_AUTOCAST,
        "autocast": _NO_AUTOCAST,
        "GradScaler": _NO_AUTOCAST,
        "complex": _NO_COMPLEX,
        "real": _NO_COMPLEX,
        "imag": _NO_COMPLEX,
        "sparse": _STRIDED,
        "sparse_coo_tensor": _STRIDED,
        "sparse_csr_tensor": _STRIDED,
        "as_strided": "write an index, x[1::2], or x.unfold for windows",
        "vmap": "write the axis of the batch into your operations; gradients of each sample come from "
        "retrograd.per_sample_gradients",
        "func": "functions of gradients are in retrograd.autograd.functional",
        "distributed": _ONE_PROCESS,
        "multiprocessing": _SHARED,
        "distributions": "numbers are drawn by retrograd.randn, rand, bernoulli, multinomial and their like",
        "profiler": "write retrograd.train.profile(model, x)",
        "quantization": _LOWBIT,
        "ao": _LOWBIT,
        "random": "write retrograd.manual_seed, get_rng_state and set_rng_state",
        "version": "write retrograd.__version__",
        "inverse": "write numpy.linalg.inv of x.numpy(), which has no gradient",
        "det": "write numpy.linalg.det of x.numpy(), which has no gradient",
        "svd": "write numpy.linalg.svd of x.numpy(), which has no gradient",
        "qr": "write numpy.linalg.qr of x.numpy(), which has no gradient",
        "cholesky": "write numpy.linalg.cholesky of x.numpy(), which has no gradient",
        "rnn_tanh": "write retrograd.nn.RNN",
        "rnn_relu": 'write retrograd.nn.RNN(..., nonlinearity="relu")',
        "lstm": "write retrograd.nn.LSTM",
        "gru": "write retrograd.nn.GRU",
    },
    "torch.Tensor": {
        "xpu": _ONE_DEVICE,
        "cfloat": _NO_COMPLEX,
        "cdouble": _NO_COMPLEX,
        "real": _NO_COMPLEX,
        "imag": _NO_COMPLEX,
        "conj": _NO_COMPLEX,
        "H": _NO_COMPLEX + "; write x.T",
        "mH": _NO_COMPLEX + "; write x.mT",
        "new": "write retrograd.tensor",
        "new_tensor": _FROM_TENSOR.format("tensor"),
        "new_zeros": _FROM_TENSOR.format("zeros"),
        "new_ones": _FROM_TENSOR.format("ones"),
        "new_full": _FROM_TENSOR.format("full"),
        "new_empty": _FROM_TENSOR.format("empty"),
        "nelement": "write x.numel()",
        "ndimension": "write x.ndim",
        "element_size": "write x.dtype.itemsize",
        "itemsize": "write x.dtype.itemsize",
        "nbytes": "write x.array.nbytes",
        "stride": "write x.array.strides, which are in bytes",
        "data_ptr": "write x.array.ctypes.data",
        "storage": "write x.array, the NumPy array that it holds",
        "untyped_storage": "write x.array, the NumPy array that it holds",
        "as_strided": "write an index, x[1::2], or x.unfold for windows",
        "resize_": "make a new tensor; x.reshape keeps the elements",
        "set_": "write x.data = other",
        "share_memory_": _SHARED,
        "is_shared": _SHARED,
        "to_sparse": _STRIDED,
        "to_dense": _STRIDED,
        "map_": "write a Function of your own, see retrograd.autograd.Function",
        "apply_": "write a Function of your own, see retrograd.autograd.Function",
        "squeeze_": "write x = x.squeeze(...)",
        "unsqueeze_": "write x = x.unsqueeze(...)",
        "t_": "write x = x.t()",
        "transpose_": "write x = x.transpose(...)",
    },
    "torch.nn.Module": {
        "xpu": _ONE_DEVICE,
        "compile": _NOTHING_TO_COMPILE,
        "share_memory": _SHARED,
        "register_backward_hook": "write register_full_backward_hook",
        "get_extra_state": "write register_buffer for what the state shall keep",
        "set_extra_state": "write register_buffer for what the state shall keep",
        "register_state_dict_pre_hook": _STATE_HOOKS,
        "register_state_dict_post_hook": _STATE_HOOKS,
        "register_load_state_dict_pre_hook": _STATE_HOOKS,
        "register_load_state_dict_post_hook": _STATE_HOOKS,
    },
    "torch.nn": {
        "DataParallel": _ONE_PROCESS,
        "SyncBatchNorm": _ONE_PROCESS,
        "parallel": _ONE_PROCESS,
        "Transformer": "build it of retrograd.nn.MultiheadAttention, LayerNorm and Linear",
        "TransformerEncoder": "build it of retrograd.nn.MultiheadAttention, LayerNorm and Linear",
        "TransformerEncoderLayer": "build it of retrograd.nn.MultiheadAttention, LayerNorm and Linear",
        "TransformerDecoder": "build it of retrograd.nn.MultiheadAttention, LayerNorm and Linear",
        "TransformerDecoderLayer": "build it of retrograd.nn.MultiheadAttention, LayerNorm and Linear",
        "Buffer": "write self.register_buffer(name, tensor)",
        "NLLLoss2d": "write retrograd.nn.NLLLoss",
        "Container": "write retrograd.nn.Module",
        "modules": "all layers are in retrograd.nn, _single, _pair and _triple in retrograd.nn.utils.tuples",
        "quantized": _LOWBIT,
    },
    "torch.nn.functional": {
        "multi_head_attention_forward": "write retrograd.nn.functional.scaled_dot_product_attention, or "
        "retrograd.nn.MultiheadAttention",
        "upsample_bilinear": 'write interpolate(..., mode="bilinear", align_corners=True)',
        "upsample_nearest": "write interpolate",
    },
    "torch.nn.utils": {
        "clip_grad_norm": "write clip_grad_norm_",
        "spectral_norm": "write retrograd.nn.utils.parametrize.register_parametrization with a module of your own",
    },
    "torch.utils.data": {
        "DistributedSampler": _ONE_PROCESS,
        "default_convert": "write default_collate",
    },
}
