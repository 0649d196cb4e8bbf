"""Mistakes of a beginner's first hour: each message names the argument, the value, the rule and the way out.

The message of a call that does not fit its signature names the class or the function that was called, and the argument
that was probably meant.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import lowbit, nn, optim
from retrograd.data import DataLoader, TensorDataset, random_split, transforms
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.optim import lr_scheduler
from retrograd.train import fit

Case = tuple[Callable[[], Any], type[Exception], str]


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def sgd(**options: Any) -> optim.SGD:
    return optim.SGD(net().parameters(), lr=0.1, **options)


def x() -> rg.Tensor:
    return rg.ones(5, 4)


X, Y = np.ones((5, 4), np.float32), np.array([0, 1, 2, 0, 1])
CLASSES = rg.tensor([0, 1, 2, 0, 1])
SCORES = rg.zeros(5, 3)

# ---- unknown and missing arguments -----------------------------------------------------------------------------------

ARGUMENTS: list[Case] = [
    (lambda: nn.Conv2d(3, 8, 3, strides=2), TypeError, r"Conv2d\(\) got .*'strides'; did you mean 'stride'\?"),
    (lambda: nn.Conv2d(3, 8, 3, no_bias=True), TypeError, "'no_bias'; write bias=False for no_bias=True$"),
    (lambda: nn.Conv2d(3, 8, 3, name="a"), TypeError, "'name'; leave it out; a layer has the name of the attribute"),
    (lambda: nn.Conv2d(8, 3), TypeError, "'kernel_size'; it takes in_channels, out_channels, kernel_size$"),
    (lambda: nn.LSTM(4, n_out=8), TypeError, r"LSTM\(\) got .*'n_out'; did you mean 'hidden_size'\?"),
    (lambda: nn.LSTM(4, state_size=8), TypeError, "'state_size'; did you mean 'hidden_size'"),
    (lambda: nn.LSTM(4, 8, layout="NTC"), TypeError, r"'layout'; sequences are \(T, N, features\).* batch_first=True"),
    (
        lambda: nn.LSTM(8, input_size=4),
        TypeError,
        "values for argument 'input_size'; the order is input_size, hidden",
    ),
    (lambda: F.unfold(x(), kernel=3), TypeError, r"unfold\(\) got .*'kernel'; did you mean 'kernel_size'\?"),
    (lambda: F.fold(x(), 3, 3, pad=1), TypeError, r"fold\(\) got .*'pad'; did you mean 'padding'\?"),
    (lambda: F.conv2d(data=x(), weight=x()), TypeError, r"conv2d\(\) got .*'data'; did you mean 'input'\?"),
    (lambda: F.rnn(x(), x(), x(), num_hidden=3), TypeError, r"rnn\(\) got .*; did you mean 'state_size'\?"),
    (lambda: optim.SGD([x()], lr=1, wd=0.1), TypeError, r"SGD\(\) got .*; did you mean 'weight_decay'\?"),
    (lambda: nn.Dropout(rate=0.5), TypeError, r"Dropout\(\) got .*'rate'; did you mean 'p'\?"),
    (lambda: nn.LSTM(4, 8, layers=2), TypeError, r"LSTM\(\) got .*; did you mean 'num_layers'\?"),
    (lambda: nn.LeakyReLU(alpha=0.2), TypeError, r"LeakyReLU\(\) got .*; did you mean 'negative_slope'\?"),
    (lambda: nn.Linear(4, 8, activation="relu"), TypeError, "write it as a layer of its own"),
    (lambda: nn.TransformerEncoderLayer(8, 2, ff_dim=16), TypeError, "did you mean 'dim_feedforward'"),
    (lambda: F.conv2d(x(), x(), strides=2), TypeError, r"conv2d\(\) got .*; did you mean 'stride'\?"),
    (lambda: sgd(momentom=0.9), TypeError, r"SGD\(\) got .*'momentom'; did you mean 'momentum'\?"),
    (lambda: optim.SGD([x()], learning_rate=1), TypeError, r"SGD\(\) got .*; did you mean 'lr'\?"),
    (lambda: optim.Adam([x()], beta1=0.9), TypeError, r"Adam\(\) got .*; did you mean 'betas'\?"),
    (lambda: optim.AdamW([x()], l2=0.1), TypeError, r"AdamW\(\) got .*; did you mean 'weight_decay'\?"),
    (lambda: optim.LBFGS([x()], max_iters=3), TypeError, r"LBFGS\(\) got .*; did you mean 'max_iter'\?"),
    (lambda: optim.SGD(lr=0.1), TypeError, r"^SGD\(\) missing a required argument: 'params'"),
    (lambda: lr_scheduler.StepLR(sgd(), step=3), TypeError, r"StepLR\(\) got .*; did you mean 'step_size'\?"),
    (lambda: lr_scheduler.StepLR(sgd(), 3, factor=1), TypeError, r"StepLR\(\) got .*; did you mean 'gamma'\?"),
    (lambda: lr_scheduler.StepLR(sgd()), TypeError, r"^StepLR\(\) missing a required argument: 'step_size'"),
    (lambda: lr_scheduler.ReduceLROnPlateau(sgd(), patiente=3), TypeError, "did you mean 'patience'"),
    (lambda: optim.swa_utils.AveragedModel(net(), avg=1), TypeError, "did you mean 'avg_fn'"),
    (lambda: DataLoader(x(), batchsize=2), TypeError, r"DataLoader\(\) got .*; did you mean 'batch_size'\?"),
    (lambda: DataLoader(x(), workers=2), TypeError, r"DataLoader\(\) got .*; did you mean 'num_workers'\?"),
    (lambda: transforms.Resize((4, 4), mode="nearest"), TypeError, r"Resize\(\) .*'interpolation'\?"),
    (lambda: transforms.Normalize(mean=[0.5]), TypeError, r"^Normalize\(\) missing a required argument: 'std'"),
    (lambda: transforms.ColorJitter(brightnes=1), TypeError, "did you mean 'brightness'"),
    (lambda: rg.data.Digits(download=True), TypeError, r"^Digits\(\) got an unexpected keyword argument 'download'"),
    (lambda: random_split([1, 2], sizes=[1, 1]), TypeError, r"^random_split\(\) got .*'sizes'"),
    (lambda: fit(net(), X, Y, epoch=3), TypeError, r"fit\(\) got .*; did you mean 'epochs'\?"),
    (lambda: fit(net(), X, Y, validation_split=0.2), TypeError, r"fit\(\) got .*; did you mean 'held_out'\?"),
    (lambda: fit(net(), X, Y, lr=0.1), TypeError, "the learning rate belongs to the optimizer"),
    (lambda: fit(net()), TypeError, r"^fit\(\) missing a required argument: 'data'"),
    (lambda: rg.train.EarlyStopping(patient=3), TypeError, r"EarlyStopping\(\) .*'patience'\?"),
    (lambda: rg.save({}), TypeError, r"^save\(\) missing a required argument: 'f'"),
    (lambda: rg.load("x", device="cpu"), TypeError, r"^load\(\) got an unexpected keyword argument 'device'"),
    (lambda: rg.onnx.export(net(), x(), "x", input_name=["a"]), TypeError, "did you mean 'input_names'"),
    (lambda: nn.utils.clip_grad_norm_([x()]), TypeError, r"^clip_grad_norm_\(\) missing a required .*'max_norm'"),
    (lambda: F.cross_entropy(SCORES), TypeError, r"^cross_entropy\(\) missing a required argument: 'target'"),
    (lambda: lowbit.DeepShiftQ(bit=4), TypeError, r"DeepShiftQ\(\) got .*; did you mean 'bits'\?"),
    (lambda: rg.rules.Noise(stdev=1.0), TypeError, r"Noise\(\) got .*; did you mean 'std'\?"),
    (lambda: rg.distributions.Normal(0.0, 1.0, sigma=1), TypeError, r"^Normal\(\) got .*'sigma'"),
]

# ---- a class, a method or a function instead of what it returns ------------------------------------------------------

UNCALLED: list[Case] = [
    (lambda: optim.SGD(net().parameters, lr=0.1), TypeError, r"is the method parameters \(call it: parameters\(\)\)"),
    (lambda: optim.SGD(net(), lr=0.1), TypeError, r"SGD: params is Sequential, .* pass model.parameters\(\)"),
    (lambda: optim.SGD(nn.Linear, lr=0.1), TypeError, r"SGD: params is the class Linear \(make an instance"),
    (lambda: optim.SGD([net()], lr=0.1), TypeError, r"params\[0\] must be .*Sequential; pass model.parameters\(\)"),
    (lambda: optim.SGD(net().state_dict(), lr=0.1), TypeError, r"got str; pass model.parameters\(\)"),
    (lambda: optim.SGD([X], lr=0.1), TypeError, r"got ndarray; make it one: nn.Parameter\("),
    (lambda: optim.SGD([net().parameters()] * 2, lr=0.1), TypeError, r"one list: \[\*a.parameters\(\), \*b.para"),
    (lambda: optim.SGD([], lr=0.1), ValueError, "params is empty; .* use nn.ModuleList"),
    (lambda: sgd().step(SCORES.sum()), TypeError, r"SGD.step: closure is Tensor, needs a function .* write step\(\)"),
    (lambda: lr_scheduler.StepLR(optim.SGD, 10), TypeError, r"the class SGD \(make an instance: SGD\(...\)\)"),
    (lambda: nn.Sequential(nn.ReLU), TypeError, r"the class ReLU \(make an instance: ReLU\(...\)\) is not a M"),
    (lambda: nn.Sequential([nn.ReLU()]), TypeError, r"got a list, needs modules; unpack it: Sequential\(\*modules\)"),
    (lambda: nn.Sequential(F.relu), TypeError, r"the function relu is not a Module; use the layer, such as nn.ReLU"),
    (lambda: nn.Sequential(nn.ReLU(), None), TypeError, "Sequential: None is not a Module but NoneType"),
    (lambda: nn.ReLU(x()), TypeError, r"ReLU\(...\) creates a layer; call .*: ReLU\(...\)\(input\)"),
    (lambda: nn.Linear(x(), 3), TypeError, r"Linear\(...\) creates a layer; call .*: Linear\(...\)\(input, target\)"),
    (lambda: nn.MSELoss(SCORES, SCORES), TypeError, r"call the layer with tensors: MSELoss\(...\)\(input, target\)"),
    (lambda: nn.CrossEntropyLoss(SCORES, CLASSES), TypeError, r": CrossEntropyLoss\(...\)\(input, target\)"),
    (lambda: net().apply(nn.Linear), TypeError, "apply: fn is the class Linear, needs a function of a module"),
    (lambda: net().apply("relu"), TypeError, "apply: fn is str, needs a function"),
    (
        lambda: net().apply(nn.init.xavier_uniform_),
        TypeError,
        "must be a Tensor, got Linear; pass a parameter, such as",
    ),
    (lambda: nn.utils.clip_grad_norm_(net(), 1.0), TypeError, r"is Sequential, .*; pass model.parameters\(\)$"),
    (lambda: nn.utils.clip_grad_norm_([nn.Linear(4, 3)], 1.0), TypeError, r"is Linear, .*; pass model.parameters\(\)$"),
    (lambda: nn.utils.clip_grad_norm_(net().parameters, 1.0), TypeError, r"call it: parameters\(\)"),
    (lambda: DataLoader(TensorDataset, 2), TypeError, "DataLoader: dataset is the class TensorDataset"),
    (lambda: DataLoader(x(), CLASSES, 2), TypeError, r"batch_size is Tensor; .*DataLoader\(TensorDataset\(x, y\)"),
    (lambda: transforms.Compose([transforms.ToTensor]), TypeError, r"transforms\[0\] is the class ToTensor \(make"),
    (lambda: fit(nn.Linear, X, Y), TypeError, "fit: model is the class Linear"),
    (lambda: fit(X, Y, net()), TypeError, r"fit: model is ndarray, .* the model comes first: fit\(model, x, targets\)"),
    (lambda: fit(net(), X), TypeError, r"got ndarray; targets are missing: fit\(model, x, targets\)"),
    (lambda: fit(net(), X, Y, loss=nn.MSELoss), TypeError, r"fit: loss is the class MSELoss \(make an instance"),
    (lambda: fit(net(), X, Y, loss="mse"), TypeError, r"fit: loss is str, needs a function .*nn.MSELoss\(\)"),
    (lambda: fit(net(), X, Y, optimizer="adam"), TypeError, "fit: optimizer is str, needs an optimizer, such as"),
    (lambda: fit(net(), X, Y, optimizer=optim.Adam), TypeError, "fit: optimizer is the class Adam"),
    (lambda: fit(net(), X, Y, optimizer=sgd()), ValueError, "optimizer has none of the model's parameters"),
    (lambda: fit(net(), X, Y, callbacks=print), TypeError, "fit: callbacks is .*, needs a list of callbacks"),
    (lambda: fit(net(), X, Y, callbacks=[5]), TypeError, r"fit: callbacks\[0\] is int, needs a Callback"),
    (lambda: fit(net(), DataLoader(TensorDataset(x()))), TypeError, r"is a list of 1, needs \(x, target\)"),
    (lambda: fit(net(), DataLoader(x())), TypeError, r"is one Tensor, needs \(x, target\)"),
    (lambda: rg.save("model.pt", net()), TypeError, r"save: f is Sequential; save\(obj, f\): the object comes first"),
    (lambda: rg.explain(net(), x()), TypeError, r"Sequential needs a batch and a loss: explain\(model, \(x, target\)"),
    (lambda: rg.explain(nn.Conv2d), TypeError, "explain: operator is the class Conv2d; pass an operator's name"),
    (lambda: rg.onnx.export(nn.Linear, x(), "x"), TypeError, "onnx.export: model is the class Linear"),
    (lambda: lowbit.Linear(4, 8, weight=lowbit.XNOR), TypeError, r"make an instance: lowbit.XNOR\(\)"),
    (lambda: lowbit.convert(nn.Linear, weight=lowbit.XNOR()), TypeError, "convert: model is the class Linear"),
]

# ---- wrong values ----------------------------------------------------------------------------------------------------

VALUES: list[Case] = [
    (lambda: F.cross_entropy(SCORES, CLASSES.float()), ValueError, r"for class indices pass target.long\(\)"),
    (lambda: F.nll_loss(SCORES, CLASSES.float()), TypeError, r"class indices must be int64: pass target.long\(\)"),
    (lambda: F.cross_entropy(SCORES, F.one_hot(CLASSES, 3)), ValueError, r"target.argmax\(1\), or target.float\(\)"),
    (lambda: F.cross_entropy(SCORES, CLASSES[:, None]), ValueError, r"pass target.squeeze\(1\)"),
    (lambda: F.cross_entropy(SCORES, CLASSES + 1), IndexError, r"= 3 is not a class: .*start at 1, pass target - 1"),
    (lambda: F.cross_entropy(SCORES, CLASSES - 1), IndexError, r"= -1 is not a class: [^;]*;[^;]*\)$"),
    (lambda: F.cross_entropy(SCORES, Y), TypeError, r"target is ndarray, .* make one with retrograd.tensor\(target\)"),
    (lambda: F.cross_entropy(CLASSES, SCORES), TypeError, r"output of the model comes first: cross_entropy\(output"),
    (
        lambda: F.cross_entropy(SCORES.argmax(1), CLASSES),
        TypeError,
        "the scores .* not the classes that argmax chooses",
    ),
    (lambda: F.cross_entropy(None, CLASSES), TypeError, "input is NoneType, .* forward, that lacks a return"),
    (lambda: nn.Linear(4, 3)([x(), x()]), TypeError, "input is list, .* join them with retrograd.stack"),
    (lambda: nn.Linear(4, 3)((x(), x())), TypeError, r"take one, such as input\[0\], the output of a recurrent layer"),
    (lambda: F.linear(x(), nn.Linear(4, 3)), TypeError, "weight is Linear, .* such as weight.weight"),
    (lambda: nn.Conv2d(3, 8, 3)(rg.zeros(1, 3, 8, 8, dtype=rg.uint8)), TypeError, r"images .* with .float\(\) / 255"),
    (lambda: nn.BatchNorm2d(8)(rg.zeros(2, 3, 4, 4)), ValueError, r"a layer for it has num_features=3"),
    (lambda: nn.BatchNorm2d(8)(rg.zeros(2, 8)), ValueError, r"shape \(2, 8\), needs 4 axes: batch, channels"),
    (lambda: rg.cat(x(), x()), TypeError, r"put them into a list: cat\(\[a, b\]\)"),
    (lambda: rg.stack([x(), X]), TypeError, r"tensors\[1\] is ndarray, .* make one with retrograd.tensor"),
    (lambda: rg.tensor([[1, 2], [3]]), TypeError, "its nested lists have different lengths; pad them to one length"),
    (lambda: rg.tensor("abc"), TypeError, "data is str, needs numbers, or lists or an array of numbers"),
    (lambda: rg.tensor(["a", "b"]), TypeError, "data is list of text, needs numbers"),
    (lambda: rg.tensor(None), TypeError, "data is NoneType, needs numbers"),
    (lambda: x().to("gpu"), TypeError, "dtype='gpu' .* nor is it a device: the only one is 'cpu'"),
    (lambda: rg.device("gpu"), RuntimeError, "type='gpu' is not a device; the only one here is 'cpu'"),
    (lambda: DataLoader(x(), batch_size="2"), ValueError, "DataLoader: batch_size='2' must be a positive int"),
    (lambda: fit(net(), X, Y, batch_size=0), ValueError, "DataLoader: batch_size=0 must be a positive int"),
    (lambda: nn.Linear(784, 10)(rg.zeros(2, 1, 28, 28)), ValueError, r"flatten it first, with input.flatten\(1\) or"),
    (lambda: nn.Linear(5, 10)(rg.zeros(2, 2, 3, 3)), ValueError, r"nn.Flatten\(\) before the layer makes 18 features"),
    (lambda: nn.Linear(5, 10)(x()), ValueError, "a layer for this input has in_features=4"),
    (lambda: nn.Conv2d(1, 8, 3)(rg.zeros(2, 9, 9)), ValueError, r"add the one of channels: x.unsqueeze\(1\)"),
    (lambda: nn.Conv2d(1, 8, 3)(rg.zeros(2, 3, 9, 9)), ValueError, "A layer for this input has in_channels=3"),
    (
        lambda: setattr(nn.Linear(4, 3), "weight", X),
        TypeError,
        r"ndarray as parameter .* wrap it: nn.Parameter\(value\)",
    ),
    (lambda: net().load_state_dict("model.pt"), TypeError, r"got str; read the file first: .*retrograd.load\(path\)"),
    (lambda: net().load_state_dict(net()), TypeError, r"got Sequential; pass Sequential.state_dict\(\)"),
    (lambda: net().load_state_dict(net().state_dict(), strict="no"), TypeError, "strict='no' must be True or False"),
    (lambda: rg.poisson(rg.full((1,), 1e30)), ValueError, "poisson: a rate is too large: counts must fit int64"),
    (lambda: nn.NLLLoss(weight=[1, 2]), TypeError, r"NLLLoss: weight is list, .*retrograd.tensor\(weight\)"),
    (lambda: nn.Conv2d(3, 8, 3, padding=-1), ValueError, "Conv2d: padding=-1 must be at least 0"),
    (lambda: nn.MaxPool2d(3, padding=-1), ValueError, "MaxPool2d: padding=-1 must be at least 0"),
    (lambda: x().index_select(0, [0, 1]), TypeError, r"index is list, .* make one with retrograd.tensor\(index\)"),
    (lambda: lr_scheduler.StepLR(10, sgd()), TypeError, "StepLR: optimizer must be an Optimizer .*, got int"),
    (lambda: DataLoader(x(), collate_fn=5), TypeError, "DataLoader: collate_fn is int, needs a function"),
    (lambda: DataLoader("images/"), TypeError, r"dataset is str, .* retrograd.data.ImageFolder\(path\)"),
    (
        lambda: list(DataLoader(TensorDataset(x()), sampler=[0, 9])),
        IndexError,
        "TensorDataset: index 9 is out of range for 5",
    ),
    (lambda: fit(net(), X, Y, augment=5), TypeError, "fit: augment is int, needs a function"),
    (lambda: fit(net(), X, Y, progress="yes"), TypeError, "fit: progress='yes' must be True or False"),
    (lambda: fit(net(), X, Y, callbacks=rg.train.EarlyStopping()), TypeError, r"even of one: \[callback\]"),
    (lambda: fit(net(), X.tolist(), Y.tolist()), TypeError, r"data is list; .* numpy.array\(values\) for lists"),
    (lambda: rg.train.EarlyStopping(5), TypeError, "EarlyStopping: monitor=5 must be the name of a figure, such as"),
    (lambda: rg.train.save_checkpoint({"a": 1}, "x.npz"), TypeError, "save_checkpoint: path is dict, needs a str or"),
    (lambda: rg.interop.save_safetensors("x", net()), TypeError, r"comes first: save_safetensors\(model, path\)"),
    (
        lambda: rg.onnx.export(net(), x(), "x", dynamic_axes=["input"]),
        TypeError,
        r"dynamic_axes=\['input'\] must be like",
    ),
    (lambda: net().load_state_dict(), TypeError, r"^Module.load_state_dict\(\) missing 1 required"),
    (lambda: rg.backward_source(SCORES.sum().backward), TypeError, r"got the method backward \(call it"),
    (lambda: optim.Adam([{"param": x()}]), TypeError, 'a param group must be a dict with "params", got {'),
]

# ---- names of other libraries, and misspelled ones -------------------------------------------------------------------

NAMES: list[Case] = [
    (lambda: nn.Conv2D, AttributeError, "'retrograd.nn' has no attribute 'Conv2D'; did you mean 'Conv2d'?"),
    (lambda: nn.Dense, AttributeError, "did you mean 'Linear'?"),
    (lambda: nn.Convolution, AttributeError, "did you mean 'Conv2d'?"),
    (lambda: F.Convolution, AttributeError, "did you mean 'conv2d'?"),
    (lambda: F.unpack_patch2col, AttributeError, "did you mean 'unfold'?"),
    (lambda: rg.Parameter, AttributeError, "did you mean 'retrograd.nn.Parameter'?"),
    (lambda: rg.init, AttributeError, "did you mean 'retrograd.nn.init'?"),
    (lambda: nn.SGD, AttributeError, "did you mean 'retrograd.optim.SGD'?"),
    (lambda: rg.col2im, AttributeError, "did you mean 'retrograd.nn.functional.fold'?"),
    (lambda: nn.relu, AttributeError, "did you mean 'ReLU'?"),
    (lambda: optim.Sgd, AttributeError, "did you mean 'SGD'?"),
    (lambda: rg.concatenat, AttributeError, "did you mean 'concatenate'?"),
    (lambda: F.cross_entropy_loss, AttributeError, "did you mean 'cross_entropy'?"),
    (lambda: nn.Xyzzy, AttributeError, "has no attribute 'Xyzzy'$"),
]


@pytest.mark.parametrize(("call", "error", "message"), [*ARGUMENTS, *UNCALLED, *VALUES, *NAMES])
def test_message(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "__init__" not in str(caught.value) and " at 0x" not in str(caught.value)


def test_a_class_of_the_user_is_named() -> None:
    class Slow(lr_scheduler.StepLR):
        pass

    class Own(lr_scheduler.StepLR):
        def __init__(self, optimizer: Any) -> None:
            super().__init__(optimizer, step=3)

    with pytest.raises(TypeError, match=r"^Slow\(\) got .*'step'; did you mean 'step_size'\?"):
        Slow(sgd(), step=3)
    with pytest.raises(TypeError, match=r"^StepLR\(\) got .*'step'; did you mean 'step_size'\?"):
        Own(sgd())


def test_constructors_of_modules_and_tensors_are_not_wrapped() -> None:
    """They would take longer; layers have their own check."""
    for cls in (nn.Module, rg.Tensor, nn.Parameter, rg.data.Dataset):
        assert not hasattr(cls.__init__, "__wrapped__")


def test_a_type_error_inside_a_call_is_not_replaced() -> None:
    """Only calls that do not fit the signature get the other message."""

    def loss(output: Any, target: Any) -> Any:
        return output + OrderedDict()

    with pytest.raises(TypeError, match="add: other is OrderedDict"):
        fit(net(), X, Y, loss=loss, progress=False)
