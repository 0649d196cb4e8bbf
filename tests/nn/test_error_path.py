"""The module's path in error messages."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor


class Fails(nn.Module):
    """Raises a given exception."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: object) -> object:
        raise self.error

    def extra_repr(self) -> str:
        return "on purpose"


class Net(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity(), inner))
        self.loose = [inner]
        self.use = "features"

    def forward(self, x: object) -> object:
        if self.use == "features":
            return self.features(x)
        if self.use == "list":
            return nn.Sequential(self.loose[0])(x)
        if self.use == "direct":
            return self.features[1][1](x)
        raise ValueError("in the network itself")


def message(module: nn.Module, kind: type[BaseException] = ValueError) -> str:
    with pytest.raises(kind) as caught:
        module(None)
    assert caught.type is kind
    return str(caught.value)


def test_path_of_a_nested_module() -> None:
    assert message(Net(Fails(ValueError("no")))) == "in features.1.1 (Fails(on purpose)): no"


def test_path_when_containers_are_skipped() -> None:
    net = Net(Fails(ValueError("no")))
    net.use = "direct"
    assert message(net) == "in features.1.1 (Fails(on purpose)): no"


def test_module_called_alone_and_network_itself() -> None:
    assert message(Fails(ValueError("no"))) == "in Fails(on purpose): no"
    net = Net(nn.Identity())
    net.use = "itself"
    assert message(net) == "in Net: in the network itself"


def test_module_that_is_not_registered() -> None:
    net = Net(Fails(ValueError("no")))
    net.use = "list"
    assert message(net) == "in <Sequential>.0 (Fails(on purpose)): no"


def test_real_layer() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    start = r"^in 1 \(Linear\(in_features=4, out_features=2, bias=True\)\): "
    with pytest.raises(ValueError, match=start) as caught:
        net(Tensor(np.zeros((2, 3), np.float32)))
    assert str(caught.value).count("Linear(in_features") == 1


@pytest.mark.parametrize(
    ("kind", "given"), [(KeyError, ("k",)), (OSError, (2, "no")), (ValueError, (1, 2)), (StopIteration, ())]
)
def test_errors_whose_text_is_not_one_argument_get_a_note(kind: type[Exception], given: tuple[object, ...]) -> None:
    error = kind(*given)
    text, arguments = str(error), error.args
    assert message(Net(Fails(error)), type(error)) == text
    assert error.args == arguments
    assert error.__notes__ == ["in features.1.1 (Fails(on purpose))"]


def test_interrupt_passes_untouched() -> None:
    assert message(Net(Fails(KeyboardInterrupt("stop"))), KeyboardInterrupt) == "stop"


def test_a_new_error_raised_on_the_way_starts_its_own_path() -> None:
    class Translates(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: object) -> object:
            try:
                return self.inner(x)
            except ValueError as error:
                raise TypeError("translated") from error

    net = nn.Sequential(Translates(Fails(ValueError("no"))))
    with pytest.raises(TypeError, match=r"^in 0 \(Translates\): translated$") as caught:
        net(None)
    assert str(caught.value.__cause__) == "in Fails(on purpose): no"  # it came no further than inner


def test_an_error_that_is_caught_leaves_the_network_usable() -> None:
    class Tries(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: object) -> object:
            try:
                return self.inner(x)
            except ValueError:
                return "fallback"

    assert nn.Sequential(Tries(Fails(ValueError("no"))))(None) == "fallback"


def test_a_module_whose_repr_fails_does_not_hide_the_error() -> None:
    class Broken(Fails):
        def extra_repr(self) -> str:
            raise AttributeError("not set up yet")

    assert message(nn.Sequential(Broken(ValueError("no")))) == "in 0 (Broken): no"
