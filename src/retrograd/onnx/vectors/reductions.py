"""Cases of reductions along axes. Maxima and minima have no ties."""

from __future__ import annotations

from .case import Case, Numbers, case
from .numbers import Apart, Uniform, whole

_X = (2, 3, 4)
_POSITIVE = Uniform(_X, 0.5, 2)


def _both(operator: str, numbers: Numbers) -> list[Case]:
    """Along two axes which the result keeps, and along one which it does not."""
    name = "reduce_" + operator.removeprefix("Reduce").lower()
    return [
        case(f"{name}_keepdims", operator, numbers, whole(0, 2), keepdims=1),
        case(f"{name}_axis", operator, numbers, whole(1), keepdims=0),
    ]


CASES = [
    *_both("ReduceSum", Uniform(_X)),
    *_both("ReduceMean", Uniform(_X)),
    *_both("ReduceMax", Apart(_X)),
    *_both("ReduceMin", Apart(_X)),
    *_both("ReduceProd", _POSITIVE),
    *_both("ReduceL1", Apart(_X)),
    *_both("ReduceL2", Uniform(_X)),
    *_both("ReduceLogSum", _POSITIVE),
    *_both("ReduceLogSumExp", Uniform(_X)),
    *_both("ReduceSumSquare", Uniform(_X)),
    case("reduce_sum_all", "ReduceSum", _X, keepdims=0),
    case("reduce_max_all", "ReduceMax", Apart(_X), keepdims=0),
]
