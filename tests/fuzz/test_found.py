"""Calls that the fuzzer found: each is refused with a message that names the function and the argument."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg

from .values import namespace_of

BIG = "10**400"
REFUSED = [
    # arguments that are no Tensor, no Module, no generator, no function
    ("rg.nn.init.kaiming_normal_(1.0)", TypeError, "tensor must be a Tensor, got float"),
    ("rg.nn.init.xavier_uniform_('x')", TypeError, "tensor must be a Tensor, got str"),
    (
        "rg.nn.init.normal_(T((1,)), generator=0.5)",
        TypeError,
        "normal_: generator is float, needs a retrograd.Generator",
    ),
    ("rg.nn.init.uniform_(T((1,)), generator=1)", TypeError, "uniform_: generator is int, needs a retrograd.Generator"),
    ("rg.nn.init.orthogonal_(T((1, 1)), 0, 2)", TypeError, "orthogonal_: generator is int"),
    ("rg.nn.init.trunc_normal_(T((2,)), generator=(2, 3))", TypeError, "trunc_normal_: generator is tuple"),
    ("rg.nn.init.sparse_(T((2, 2)), 0.5, generator=3)", TypeError, "normal_: generator is int"),
    ("rg.data.random_split([1, 2], [1, 1], generator=3)", TypeError, "random_split: generator is int"),
    ("rg.nn.utils.fuse_conv_bn_eval([[3]], nan)", TypeError, "fuse_conv_bn_eval: conv is list, needs a Module"),
    (
        "rg.nn.utils.fuse_linear_bn_eval(rg.nn.Linear(2, 2), 1)",
        TypeError,
        "fuse_linear_bn_eval: bn is int, needs a Module",
    ),
    (
        "rg.nn.utils.fuse_linear_bn_eval(rg.nn.Linear(2, 2), rg.nn.ReLU())",
        TypeError,
        "fuse_linear_bn_eval: bn is ReLU, needs a batch norm such as nn.BatchNorm2d",
    ),
    ("rg.nn.utils.spectral_norm((0,))", TypeError, "spectral_norm: module is tuple, needs a Module"),
    ("rg.nn.utils.remove_spectral_norm('linear')", TypeError, "remove_spectral_norm: module is str, needs a Module"),
    ("rg.nn.utils.weight_norm((1,))", TypeError, "weight_norm: module is tuple, needs a Module"),
    ("rg.nn.utils.remove_weight_norm((3,))", TypeError, "remove_weight_norm: module is tuple, needs a Module"),
    (
        "rg.nn.utils.parametrizations.spectral_norm(None)",
        TypeError,
        "spectral_norm: module is NoneType, needs a Module",
    ),
    ("rg.nn.utils.parametrizations.weight_norm(3)", TypeError, "weight_norm: module is int, needs a Module"),
    ("rg.nn.LazyInstanceNorm3d()(2)", TypeError, "LazyInstanceNorm3d: input is int, needs a Tensor"),
    ("rg.nn.LazyLinear(2)('x')", TypeError, "LazyLinear: input is str, needs a Tensor"),
    *(
        (f"rg.{name}_like(2{more})", TypeError, f"{name}_like: input is int, needs a Tensor")
        for name, more in (
            *(("zeros", ""), ("ones", ""), ("empty", ""), ("full", ", 1")),
            *(("rand", ""), ("randn", ""), ("randint", ", 3")),
        )
    ),
    ("rg.autograd.functional.hvp(inf, T((1,)))", TypeError, "hvp: func is float, needs a function or a module"),
    ("rg.autograd.functional.jacobian(3, T((1,)))", TypeError, "jacobian: func is int, needs a function"),
    ("rg.autograd.functional.hessian(rg.int32, T((1,)))", TypeError, "hessian: func is Int32DType, needs a function"),
    ("T((2,)).map_(T((2,)), 3)", TypeError, "map_: callable is int, needs a function"),
    ("rg.rules.guided(rg.float32, T((1,)))", TypeError, "guided: g is Float32DType, needs a Tensor"),
    (
        "rg.nn.ModuleDict([0])",
        TypeError,
        "ModuleDict: modules is list, needs a dict of modules or a list of (name, module)",
    ),
    ("rg.data.BatchSampler(-65, 2, False)", TypeError, "BatchSampler: sampler is int, needs a sampler"),
    ("rg.data.random_split(1, [3])", TypeError, "random_split: dataset is int, needs a dataset with a length"),
    ("rg.data.Subset(3, [0])", TypeError, "Subset: dataset is int, needs a dataset with a length"),
    ("rg.frombuffer('x', dtype=rg.int32)", TypeError, "frombuffer: buffer is str, needs bytes"),
    ("rg.set_printoptions(profile=['floor'])", ValueError, "set_printoptions: profile=['floor']; choose default"),
    (
        "rg.set_printoptions(precision='x')",
        ValueError,
        "set_printoptions: precision='x' must be at least 0",
    ),
    # numbers
    (
        f"rg.nn.functional.softshrink(T((5,)), lambd={BIG})",
        ValueError,
        "softshrink: lambd=<int of 1329 bits> is larger",
    ),
    (
        f"rg.nn.RMSNorm([2], {BIG})",
        ValueError,
        "RMSNorm: eps=<int of 1329 bits> is larger than any floating-point number",
    ),
    ("rg.nn.InstanceNorm3d(3, '0.001')", TypeError, "InstanceNorm3d: eps='0.001' is str, needs a number"),
    ("rg.nn.functional.elu(T((1,)), rg.int64)", TypeError, "elu: alpha=dtype('int64') is Int64DType, needs a number"),
    ("rg.nn.functional.celu(T((1,)), 'x')", TypeError, "celu: alpha='x' is str, needs a number"),
    ("rg.nn.functional.threshold(T((1,)), 'x', 1)", TypeError, "threshold: threshold='x' is str, needs a number"),
    ("rg.nn.functional.hardtanh(T((1,)), 'x')", TypeError, "hardtanh: min_val='x' is str, needs a number"),
    ("rg.nn.LeakyReLU([])(T(()))", TypeError, "leaky_relu: negative_slope=[] is list, needs a number"),
    ("rg.nn.Softplus((1,))(T((5,)))", TypeError, "softplus: beta=(1,) is tuple, needs a number"),
    (
        "rg.nn.Hardshrink(A((4,), 'float64'))(T((1,)))",
        TypeError,
        "hardshrink: lambd is float64 of shape (4,), needs a number or one element; use lambd.item()",
    ),
    (
        "rg.triplet_margin_loss(T((5, 5)), T((5, 5)), T((5, 5)), margin=None)",
        TypeError,
        "triplet_margin_loss: margin=None is",
    ),
    (
        "rg.nn.functional.huber_loss(T((2,)), T((2,)), delta='x')",
        TypeError,
        "huber_loss: delta='x' is str, needs a number",
    ),
    ("rg.nn.functional.dropout(T((2,)), '0')", TypeError, "dropout: p='0' is str, needs a number"),
    ("rg.nn.init.xavier_normal_(T((3, 4)), None)", TypeError, "xavier_normal_: gain=None is NoneType, needs a number"),
    ("rg.nn.init.constant_(T((3,)), 'x')", TypeError, "constant_: val='x' is str, needs a number"),
    ("rg.nn.init.calculate_gain(3)", TypeError, "calculate_gain: nonlinearity is int, needs a str such as 'relu'"),
    ("rg.nn.init.trunc_normal_(T((3, 3)), -inf, a=0.5)", ValueError, "trunc_normal_: mean=-inf must be finite"),
    ("rg.nn.init.trunc_normal_(T((3, 3)), nan)", ValueError, "trunc_normal_: mean=nan must be finite"),
    ("rg.nn.init.trunc_normal_(T((3, 3)), std=inf)", ValueError, "trunc_normal_: std=inf must be above 0 and finite"),
    ("rg.nn.init.uniform_(T((3, 3)), -inf)", ValueError, "uniform_: a=-inf must be at most b=1.0, both finite"),
    ("rg.range(0, inf)", ValueError, "range: from start=0 to end=inf by step=1 is too long for any memory"),
    # counts and sizes
    ("rg.randperm('0')", TypeError, "randperm: n='0' must be an int, not str"),
    ("rg.narrow(T((5, 5)), 0, 0, '0')", TypeError, "narrow: length='0' must be an int, not str"),
    (
        "rg.nn.functional.one_hot(T((1,), 'int64', kind='zeros'), (0,))",
        TypeError,
        "one_hot: num_classes=(0,) must be an int",
    ),
    (
        "T((1,)).unsafe_chunk(np.array(['a'], object))",
        TypeError,
        "chunk: chunks=<ndarray of shape (1,)> must be an int",
    ),
    (
        "rg.split_with_sizes(T((1,)), (np.float32(3),))",
        TypeError,
        f"split_sizes[0]={np.float32(3)!r} must be an int, not float32",
    ),
    ("rg.split_with_sizes(T((3, 4)), 3)", TypeError, "split_with_sizes: split_sizes=3 is int, needs a list of ints"),
    (
        "rg.nn.PixelShuffle((2,))(T((4, 5, 4)))",
        TypeError,
        "pixel_shuffle: upscale_factor=(2,) must be an int, not tuple",
    ),
    ("rg.nn.PixelUnshuffle((2,))(T((4, 4, 4)))", TypeError, "pixel_unshuffle: downscale_factor=(2,) must be an int"),
    ("rg.nn.PReLU(-9223372036854775809)", ValueError, "PReLU: num_parameters=-9223372036854775809 must be at least 1"),
    (
        "T((1,)).new_empty((-9223372036854775808,))",
        ValueError,
        "empty: size=(-9223372036854775808,) has a negative extent",
    ),
    ("rg.zeros(2**70)", ValueError, "zeros: size=(1180591620717411303424,) is too large for any memory"),
    (
        "rg.empty_strided((5, 5), (2, 10**30))",
        ValueError,
        "empty_strided: stride[1]=1000000000000000000000000000000 must be",
    ),
    (
        "rg.empty_strided((5, 5), (2, 2**61))",
        ValueError,
        "empty_strided: size=(5, 5) and stride=(2, 2305843009213693952) exceed",
    ),
    (
        "rg.nn.ZeroPad2d((1, 2, 2**64, 4))(T((1, 1, 1)))",
        ValueError,
        "pad: pad=18446744073709551616 must be below 2**60",
    ),
    ("rg.nn.functional.softmax(T((2,)), _stacklevel=-3)", ValueError, "softmax: _stacklevel=-3 must be at least 0"),
    (
        "rg.frombuffer(b'abc', dtype=rg.int32)",
        ValueError,
        "frombuffer: buffer has 3 bytes, of which offset=0 are skipped",
    ),
    ("rg.frombuffer(b'', dtype=rg.int32)", ValueError, "frombuffer: buffer is empty; pass at least one byte"),
    (
        "rg.data.transforms.CutMix(num_classes=2**31)",
        ValueError,
        "CutMix: num_classes=2147483648 must be at most 16777216",
    ),
    (
        "rg.data.transforms.CenterCrop(None)",
        ValueError,
        "CenterCrop: size=None must be a positive int or (height, width)",
    ),
    ("rg.data.Subset((), [0, (2, 2, 2)])", TypeError, "Subset: indices[1]=(2, 2, 2) must be an int, not tuple"),
    (
        "rg.nn.utils.rnn.pack_padded_sequence(T((5, 3, 2)), [3, [1]])",
        TypeError,
        "lengths[1]=[1] must be an int, not list",
    ),
    (
        "rg.nn.CTCLoss()(T((50, 3, 7)), T((75,), 'int64', kind='ones'), (50, 50, 50), ((30,), 25, 2))",
        TypeError,
        "ctc_loss: target_lengths[0]=(30,) must be an int, not tuple",
    ),
    (
        "rg.nn.utils.rnn.invert_permutation(T((1,)))",
        TypeError,
        "invert_permutation: permutation is float32, needs an int64",
    ),
    (
        "rg.nn.utils.rnn.invert_permutation(T((2,), 'int64', kind='zeros'))",
        ValueError,
        "invert_permutation: permutation of shape (2,) must hold each of 0 to N - 1 once",
    ),
    # keywords and numbers of arguments
    ("rg.max_pool2d(T((2, 3, 6)))", TypeError, "max_pool2d() missing a required argument: 'kernel_size'"),
    ("rg.max_pool2d(T((2, 3, 6)), 2, dilatiox=2)", TypeError, "'dilatiox'; did you mean 'dilation'?"),
    ("rg.conv2d(T((6, 6)), axes=2)", TypeError, "conv2d() got an unexpected keyword argument 'axes'"),
    (
        "rg.conv2d(T((1, 1, 3, 3)), T((1, 1, 3, 3)), pad=1)",
        TypeError,
        "conv2d() got an unexpected keyword argument 'pad'; did",
    ),
    (
        "rg.conv_transpose2d(T((1,)), strides=2)",
        TypeError,
        "conv_transpose2d() got an unexpected keyword argument 'strides'",
    ),
    (
        "rg.conv_transpose1d(T((1,)), T((1,)), None, -64, stride=2)",
        TypeError,
        "conv_transpose1d() got multiple values for",
    ),
    (
        "rg.nn.functional.adaptive_max_pool2d(T((4,)), 2, True, 3)",
        TypeError,
        "adaptive_max_pool2d() takes 2 to 3 positional",
    ),
    (
        "rg.nn.Conv2d(1, 2, 3, dilate=1)",
        TypeError,
        "Conv2d() got an unexpected keyword argument 'dilate'; did you mean 'dilation'",
    ),
    ("rg.nn.Conv2d(1, 2, 3, layout='NHWC')", TypeError, "'layout'; channels come before positions here: (N, C, H, W)"),
    (
        "rg.nn.MaxPool2d(2, layout='NHWC')",
        TypeError,
        "MaxPool2d() got an unexpected keyword argument 'layout'; channels come",
    ),
    (
        "rg.nn.Linear(3, 2, use_bias=False)",
        TypeError,
        "Linear() got an unexpected keyword argument 'use_bias'; did you mean 'bias'",
    ),
    ("rg.nn.LeakyReLU(slope=1)", TypeError, "LeakyReLU() got an unexpected keyword argument 'slope'"),
    ("T((1,)).absolute_(names=0.0)", TypeError, "absolute_() got an unexpected keyword argument 'names'"),
    ("T((3,)).cumprod_()", TypeError, "cumprod_() missing a required argument: 'dim'"),
    ("T((3,), 'uint8').__imul__()", TypeError, "missing a required argument: 'other'"),
    ("T((3, 3)).transpose_(0)", TypeError, "transpose_() missing a required argument: 'dim1'"),
    (
        "rg.nn.TransformerDecoder(3, 2**31)",
        ValueError,
        "TransformerDecoder: num_layers=2147483648 must be at most 65536",
    ),
    ("rg.nn.TransformerEncoder(3, 2)", TypeError, "TransformerEncoder: encoder_layer is int, needs a Module"),
    ("rg.data.transforms.Normalize(2, -10**400)", ValueError, "Normalize: std=<int of 1329 bits> is larger"),
    ("T((4,)).allclose(T((4,)), rtol='x')", TypeError, "isclose: rtol='x' is str, needs a number"),
    ("rg.searchsorted(T((3,), kind='zeros'), 3.0, sorter=rg.int64)", TypeError, "searchsorted: sorter is Int64DType"),
    ("rg.optim.swa_utils.update_bn([], 0)", TypeError, "update_bn: model is int, needs a Module"),
    ("T((3,)).round(decimals='x')", TypeError, "round: decimals='x' must be an int"),
    ("T((3,)).round(decimals=2**62)", ValueError, "round: decimals=4611686018427387904 must be at most 308"),
    ("rg.fft.fftfreq(1, T((2,)))", TypeError, "fftfreq: d is float32 of shape (2,), needs a number"),
    ("T((3,)).histogram(2, weight=3)", TypeError, "histogram: weight is int, needs a Tensor"),
    ("rg.data.WeightedRandomSampler(10**400, 2)", TypeError, "WeightedRandomSampler: weights is int, needs a list"),
    ("rg.zero_(-0.0)", TypeError, "zero_: input is float, needs a Tensor"),
    ("T((3,)).reshape_as({})", TypeError, "reshape_as: other is dict, needs a Tensor"),
    ("T((3,)).expand_as([3])", TypeError, "expand_as: other is list, needs a Tensor"),
    ("T((3,)).is_set_to(7)", TypeError, "is_set_to: tensor is int, needs a Tensor"),
    ("rg.take_along_dim(T((4,)), 0)", TypeError, "take_along_dim: indices is int, needs an int64 Tensor"),
    (
        "rg.tensor_split(T((4,)), T((2, 2), 'int64'))",
        ValueError,
        "tensor_split: indices_or_sections has the shape (2, 2)",
    ),
    ("rg.distributions.Dirichlet(0.5)", TypeError, "Dirichlet: concentration is float, needs a Tensor"),
    ("rg.distributions.Independent('x', 1)", TypeError, "Independent: base_distribution is str, needs a Distribution"),
    ("rg.distributions.ComposeTransform([3])", TypeError, "ComposeTransform: parts is int, needs a Transform"),
    (
        "rg.distributions.IndependentTransform(3, 2)",
        TypeError,
        "IndependentTransform: base_transform is int, needs a Trans",
    ),
    ("rg.nn.utils.parametrize.is_parametrized(3)", TypeError, "is_parametrized: module is int, needs a Module"),
    ("rg.nn.Softmax2d()('0')", TypeError, "Softmax2d: input is str, needs a Tensor"),
    ("rg.nn.EmbeddingBag(4, 3, _weight=(None,))", TypeError, "EmbeddingBag: _weight is tuple, needs a Tensor"),
    (
        "rg.nn.AdaptiveAvgPool1d(10**400)(T((2, 2, 5)))",
        ValueError,
        "output_size=<int of 1329 bits> must be below 2**60",
    ),
    (
        "rg.interop.rnn_to_mxnet('relu', 'lstm')",
        TypeError,
        "rnn_to_mxnet: state is str, needs a dict of arrays by name",
    ),
    ("rg.interop.load_safetensors(3)", TypeError, "load_safetensors: path is int, needs a str or a Path"),
    ("rg.lowbit.Packed(3, 4)", TypeError, "Packed: form is int, weights is int; needs a low-bit layer and a dict"),
    ("rg.lowbit.PackedNorm(2, 3, 1)", TypeError, "PackedNorm: scale is int, needs an array"),
    (
        "rg.lowbit.PackedMaxPool(1, 1, 1, 1, 3, 'x')",
        TypeError,
        "PackedMaxPool: turned is int, needs an array (C,) of bool",
    ),
    (
        "rg.optim.SGD(3, 0.1)",
        TypeError,
        "SGD: params is int, needs a list of tensors or of groups; pass model.parameters()",
    ),
    ("rg.optim.Optimizer([T((2,))], 'x')", TypeError, "Optimizer: defaults is str, needs a dict of options"),
    ("rg.data.ChainDataset(0)", TypeError, "ChainDataset: datasets is int, needs a list of datasets"),
    ("rg.data.ConcatDataset([1])", TypeError, "ConcatDataset: datasets[0] is int, needs a dataset with a length"),
    ("rg.data.transforms.Compose(3)", TypeError, "Compose: transforms is int, needs a list of functions of an image"),
    ("rg.data.transforms.Compose([3])", TypeError, "Compose: transforms[0] is int, needs a function"),
    (
        "rg.data.transforms.Resize(3, 'relu')",
        ValueError,
        "Resize: interpolation='relu' is unknown; choose one of nearest",
    ),
    (
        "rg.utils.checkpoint.checkpoint(3, T((2,)))",
        TypeError,
        "checkpoint: function is int, needs a function or a module",
    ),
    ("rg.autograd.grad(2, [T((3,))])", TypeError, "grad: outputs is int, needs Tensors"),
    ("rg.nn.utils.clip_grad_norm_(3, 1)", TypeError, "clip_grad_norm_: parameters is int, needs Tensors"),
    ("rg.nn.BatchNorm2d(4, momentum='x')", TypeError, "BatchNorm2d: momentum='x' is str, needs a number"),
    (
        "rg.linalg.multi_dot(len)",
        TypeError,
        "multi_dot: tensors is builtin_function_or_method, needs a list of matrices",
    ),
    ("T((4, 4), 'float16').inverse()", TypeError, "is float16, needs float32 or float64; convert it with"),
    ("rg.data.random_split((1, 2), nan)", ValueError, "random_split: lengths=[nan] must be finite and must not be neg"),
    ("T((1,)).size(rg.float32)", TypeError, "size: dim=dtype('float32') must be an int, not Float32DType"),
    ("rg.rrelu_(T((2,)), upper=(2,), training=True)", TypeError, "rrelu: upper=(2,) is tuple, needs a number"),
    (f"rg.rrelu_(T((1,)), 0.5, {BIG}, True)", ValueError, "rrelu: upper=<int of 1329 bits> is larger than any"),
    ("rg.kaiser_window(2, beta=rg.int64)", TypeError, "kaiser_window: beta=dtype('int64') is Int64DType"),
    (f"T((1, 1)).nanquantile(-{BIG})", ValueError, "nanquantile: q=<int of 1329 bits> is larger than any"),
    ("rg.lstm_cell(T((1,)), 0, T((1,)), T((1,)))", TypeError, "lstm_cell: hx must be a pair"),
    (
        "rg.optim.lr_scheduler.CyclicLR(rg.optim.SGD([rg.nn.Parameter(T((3,)))], 0.1), 0.1, 0.5, scale_fn=0.5)",
        TypeError,
        "CyclicLR: scale_fn is float, needs a function",
    ),
    ("rg.nn.Dropout2d(p={})", TypeError, "Dropout2d: p={} is dict, needs a number"),
    ("rg.data.read_series(3, 'x')", TypeError, "read_series: path is int, needs a str or a Path"),
    ("rg.data.ImageFolder(3)", TypeError, "ImageFolder: root is int, needs a str or a Path"),
    ("T((3, 3)).__contains__(T((4, 4, 4)))", ValueError, "in: shapes (3, 3) and (4, 4, 4) do not broadcast"),
    ("rg.optim.swa_utils.update_bn(3, rg.nn.BatchNorm2d(4))", TypeError, "update_bn: loader is int, needs a Data"),
    ("rg.select(T((2, 3)), 1, 1.5)", TypeError, "select: index=1.5 must be an int, not float"),
    ("rg.distributions.PowerTransform(2.0, A((4,)))", ValueError, "PowerTransform: cache_size=array("),
    ("rg.linalg.tensorsolve(T((2, 3)), T((2, 3)), dims=3)", TypeError, "tensorsolve: dims is int, needs a tuple"),
    (f"rg.linalg.vector_norm(T((1,)), -{BIG})", ValueError, "norm: ord=<int of 1329 bits> is larger than any"),
    ("rg.full_like(T((2,)), [])", TypeError, "full_like: fill_value=[] is list, needs a number"),
    ("rg.nn.functional.softmin(True, dtype=rg.float32)", TypeError, "softmin: input is bool, needs a Tensor"),
    (
        "T((3,)).log_normal_(mean=T((2, 1)))",
        TypeError,
        "log_normal_: mean is float32 of shape (2, 1), needs a number or one element",
    ),
    ("T((3,)).normal_(1, 'x')", TypeError, "normal_: std='x' is str, needs a number"),
    ("T((3,)).uniform_([])", TypeError, "uniform_: from_=[] is list, needs a number"),
    ("T((3,)).cauchy_(0, {})", TypeError, "cauchy_: sigma={} is dict, needs a number"),
    ("T((3,)).exponential_(None)", TypeError, "exponential_: lambd=None is NoneType, needs a number"),
    (f"rg.nn.utils.clip_grad_norm_([], {BIG})", ValueError, "clip_grad_norm_: max_norm=<int of 1329 bits> is larger"),
    (f"rg.nn.utils.clip_grad_norm_([], 1, {BIG})", ValueError, "clip_grad_norm_: norm_type=<int of 1329 bits> is"),
    ("rg.nn.functional.interpolate(T((1, 1, 3)), 4, mode=[3])", ValueError, "interpolate: mode=[3] must be one of"),
    ("rg.from_dlpack(np.array(['a'], object))", BufferError, "from_dlpack: the array cannot be shared: DLPack"),
    ("rg.distributions.TransformedDistribution(True, ())", TypeError, "base_distribution is bool, needs a Dist"),
    ("rg.histc(T((3,)), 3, 0, 1e308)", ValueError, "histc: the range from min=0.0 to max=1e+308 must be finite"),
]
ACCEPTED = [
    (f"T((33,)).__contains__({BIG})", False),
    ("rg.nn.functional.elu(T((2,), kind='ones'), T((), kind='ones')).tolist()", [1.0, 1.0]),
    ("repr(T((0, 2, 2), grad=True).cholesky_inverse().grad_fn)", "<SolveBackward>"),
]


INFINITE = [  # warnings are errors in tests
    "T((3,)) < 1e308",
    "rg.full((2,), 1e308)",
    "rg.full_like(T((2,)), 1e308)",
    "rg.nn.init.constant_(T((2,)), 1e308)",
    "T((3,)).fill_(1e308)",
    "T((3,)) / 1e308",
    "rg.where(T((3,)) > 0, T((3,)), 1e308)",
    "rg.tensor([1e308])",
    "rg.tensor([1e308], dtype=rg.float64).float()",
    "T((3,)).copy_(rg.tensor([1e308], dtype=rg.float64))",
    "T((3,)).new_full((2,), 1e308)",
    "rg.linspace(0, 1e308, 3)",
    "rg.logspace(0, 300, 3)",
    "rg.arange(0, 1e308, 5e307)",
    "T((3,)) == 1e308",
    "rg.isclose(T((3,)), T((3,)), atol=1e308)",
    "T((3,)) % 1e308",
    "rg.fmod(T((3,)), 1e308)",
    "T((3,)).normal_(1e308, 1.0)",
    "T((3,)).uniform_(0, 1e308)",
    "rg.nn.functional.pad(T((3,)), (1, 1), value=1e308)",
    "rg.full((3, 3), inf).det()",
    "rg.full((3, 3), nan).slogdet()",
    "rg.full((2, 2), 1e38).logdet()",
    "rg.linalg.cond(rg.full((2, 2), inf), 1)",
    "rg.linalg.lu_factor_ex(rg.zeros(40, 40), pivot=False)",
    "rg.linalg.lu_factor_ex(T((3, 40, 40), kind='ints'), pivot=False)",
    "rg.nn.functional.cross_entropy(T((0,)), T((0,)), label_smoothing=0.5)",
]


@pytest.mark.parametrize("code", INFINITE)
def test_overflow_is_no_warning(code: str) -> None:
    """Numbers that are too large for float32 become infinite, as in PyTorch."""
    _run(code)


def _run(code: str) -> object:
    return eval(code, namespace_of(rg, lambda x: x.requires_grad_(), []))


@pytest.mark.filterwarnings("ignore:range is deprecated", "ignore:trunc_normal_")
@pytest.mark.parametrize(("code", "error", "message"), REFUSED, ids=[code for code, _, _ in REFUSED])
def test_refused(code: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        _run(code)
    assert message in str(caught.value)


@pytest.mark.parametrize(("code", "result"), ACCEPTED, ids=[code for code, _ in ACCEPTED])
def test_accepted(code: str, result: object) -> None:
    assert _run(code) == result
