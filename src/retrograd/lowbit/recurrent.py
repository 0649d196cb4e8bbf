"""RNN, LSTM, GRU and their cells with quantized weights."""

from __future__ import annotations

from typing import Any

from .. import nn
from ..specs.recurrence import Weights
from .base import LowBit, with_quantizers
from .quantizer import Quantizer

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

_MATRICES = ("w_ih", "w_hh", "w_hr")  # the quantized weights; biases, peepholes and gains stay float


class _Recurrent(LowBit):
    """``nn.{name}`` with quantized weights; the float weights stay the parameters.

    weight: the quantizer of weight_ih, weight_hh and weight_hr, each quantized separately; None leaves them float.
        A filter is a row: the weights of one unit of one gate. Weights are quantized once per call of the layer.

    Raises:
        TypeError: weight is not a weight quantizer.
        And as nn.{name}.
    """

    def __init__(self, *args: Any, weight: Quantizer | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._quantize(weight, None)

    def _weight_names(self) -> list[str]:
        names: Any = self._names
        flat = [names] if isinstance(names, Weights) else [own for directions in names for own in directions]
        matrices = [getattr(own, field) for own in flat for field in _MATRICES]
        return [name for name in matrices if name is not None]

    def _weights(self, names: Weights) -> Weights:
        return Weights(*[None if name is None else self.quantized(name) for name in names])


def _layer(cls: Any) -> Any:
    cls.__doc__ = (_Recurrent.__doc__ or "").format(name=cls.__name__)
    return with_quantizers(cls)


# fmt: off
@_layer
class RNN(_Recurrent, nn.RNN): ...
@_layer
class LSTM(_Recurrent, nn.LSTM): ...
@_layer
class GRU(_Recurrent, nn.GRU): ...
@_layer
class RNNCell(_Recurrent, nn.RNNCell): ...
@_layer
class LSTMCell(_Recurrent, nn.LSTMCell): ...
@_layer
class GRUCell(_Recurrent, nn.GRUCell): ...
# fmt: on
