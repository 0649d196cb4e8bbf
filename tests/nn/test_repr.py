"""The repr of modules equals PyTorch's."""

from __future__ import annotations

from retrograd import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.25), nn.Linear(4, 4)])
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(128, 10, bias=False))
        self.empty = nn.ModuleList()

    def extra_repr(self) -> str:
        return "digits, 10 classes"


GOLDEN = """\
Net(
  digits, 10 classes
  (features): Sequential(
    (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    (1): BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    (2): ReLU()
    (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
  )
  (blocks): ModuleList(
    (0-1): 2 x Linear(in_features=4, out_features=4, bias=True)
    (2): Dropout(p=0.25, inplace=False)
    (3): Linear(in_features=4, out_features=4, bias=True)
  )
  (head): Sequential(
    (0): Flatten(start_dim=1, end_dim=-1)
    (1): Linear(in_features=128, out_features=10, bias=False)
  )
  (empty): ModuleList()
)"""


def test_nested() -> None:
    assert repr(Net()) == GOLDEN


def test_layers() -> None:
    assert repr(nn.Conv1d(4, 6, 3, stride=2, dilation=2, groups=2, bias=False)) == (
        "Conv1d(4, 6, kernel_size=(3,), stride=(2,), dilation=(2,), groups=2, bias=False)"
    )
    assert repr(nn.Conv1d(1, 1, 3, padding="same")) == ("Conv1d(1, 1, kernel_size=(3,), stride=(1,), padding=same)")
    assert repr(nn.ConvTranspose3d(1, 2, 3, stride=2, output_padding=1)) == (
        "ConvTranspose3d(1, 2, kernel_size=(3, 3, 3), stride=(2, 2, 2), output_padding=(1, 1, 1))"
    )
    assert repr(nn.AvgPool2d((2, 3), padding=1)) == ("AvgPool2d(kernel_size=(2, 3), stride=(2, 3), padding=1)")
    assert repr(nn.BatchNorm1d(3, momentum=None, affine=False)) == (
        "BatchNorm1d(3, eps=1e-05, momentum=None, affine=False, bias=False, track_running_stats=True)"
    )
    assert repr(nn.Softmax(dim=1)) == "Softmax(dim=1)"
    assert repr(nn.CrossEntropyLoss()) == "CrossEntropyLoss()"
    assert repr(nn.Module()) == "Module()"


def test_children_that_are_none_are_shown() -> None:
    net = nn.Module()
    net.register_module("later", None)
    assert repr(net) == "Module(\n  (later): None\n)"
