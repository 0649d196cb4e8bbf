"""Generated parts of layers: constructors from declared options, docstrings from those of functions."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pytest

from retrograd import Tensor, nn

LAYERS = [layer for layer in map(vars(nn).get, nn.__all__) if inspect.isclass(layer)]


def test_docstrings_are_complete() -> None:
    for layer in LAYERS:
        text = inspect.cleandoc(layer.__doc__ or "")
        assert len(text) > 30 and not re.search(r"\{[a-z]", text) and not text.startswith("Raises"), layer


def test_axes_in_words() -> None:
    assert "over one axis" in nn.Conv1d.__doc__ and "(N, Ci, D, H, W)" in nn.Conv3d.__doc__
    assert "max_pool2d" in nn.MaxPool2d.__doc__ and nn.functional.max_pool3d.__doc__.count("three axes") == 1
    assert nn.grad.conv1d_input.__name__ == nn.grad.conv1d_input.__qualname__ == "conv1d_input"
    assert "name" not in inspect.signature(nn.grad.conv1d_input).parameters


def test_constructors_take_what_is_declared() -> None:
    signature = inspect.signature(nn.CrossEntropyLoss)
    assert list(signature.parameters) == [
        *("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")  # PyTorch's order
    ]
    signature = inspect.signature(nn.TripletMarginWithDistanceLoss)
    assert {p.kind.name for p in signature.parameters.values()} == {"KEYWORD_ONLY"}
    assert str(inspect.signature(nn.Threshold)).startswith("(threshold: 'float', value: 'float', inplace: 'bool' = F")
    assert "weight" in dict(nn.BCELoss(Tensor(np.ones(2))).named_buffers())
    assert not hasattr(nn.ELU, "alpha") and nn.ELU(2.0).alpha == 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.ReLU(inplce=True), r"^ReLU\(\) got an unexpected keyword .* 'inplce'; did you mean 'inplace'\?"),
        (lambda: nn.MaxPool2d(), r"^MaxPool2d\(\) missing a required argument: 'kernel_size'"),
        (lambda: nn.MSELoss("sum"), r"MSELoss: size_average='sum' must be True or False"),
        (lambda: nn.MSELoss(None, None, "sum", 1), r"^MSELoss\(\) takes 0 to 3 positional arguments, got 4"),
        (lambda: nn.MSELoss(None, reduce=None, size_average=True), r"multiple values for argument 'size_average'"),
        (
            lambda: nn.functional.l1_loss(1, 2, None, None, "sum", None, 1),
            "l1_loss: too many arguments, or one given twice",
        ),
        (lambda: nn.ConvGRU2d(1, 2, 3, reset_after=2), "^ConvGRU2d: reset_after=2 must be True or False, not int"),
        (lambda: nn.functional.conv2d(1), r"^conv2d\(\) missing a required argument: 'weight'"),
    ],
)
def test_wrong_arguments(make: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()  # type: ignore[operator]


def test_a_user_s_subclass_is_left_alone() -> None:
    class Scaled(nn.LeakyReLU):
        """Mine."""

        scale: float = 2.0

        def _set_up(self) -> None:
            raise AssertionError("a method of the user's")

    layer = Scaled(0.5)
    assert inspect.signature(Scaled) == inspect.signature(nn.LeakyReLU)
    assert Scaled.__doc__ == "Mine." and repr(layer) == "Scaled(negative_slope=0.5)" and layer.scale == 2.0


def test_copies() -> None:
    for layer in (nn.ConvLSTM1d(1, 2, 3, peephole=True), nn.HuberLoss("sum", 2.0), nn.LazyConv2d(2, 3)):
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert repr(other) == repr(layer) and type(other) is type(layer)
    for function in (nn.functional.conv3d, nn.grad.conv_transpose2d_bias):
        assert pickle.loads(pickle.dumps(function)) is function
