"""States of random generators: an inconsistent state is rejected before NumPy uses it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from retrograd.ops.random.random import set_state_of

BITS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]


@pytest.mark.parametrize("bits", BITS)
def test_a_state_is_taken_over(bits: Any) -> None:
    one, other = bits(1), bits(2)
    np.random.Generator(one).integers(10, size=7, dtype=np.int32)  # leaves half a 64-bit number in the buffer
    set_state_of(other, one.state)
    assert other.random_raw(700).tolist() == one.random_raw(700).tolist()


@pytest.mark.parametrize(
    ("bits", "path", "value", "message"),
    [
        (np.random.PCG64, (), [1], r"state is \[1\]; it must be a dict"),
        (np.random.PCG64, (), {}, r"state has the entries \[\], expected"),
        (np.random.PCG64, ("bit_generator",), "MT19937", "it must be 'PCG64'"),
        (
            np.random.PCG64,
            ("state", "inc"),
            2,
            "is 2; it must be odd, or the numbers repeat",
        ),  # with 0, they repeat forever
        (np.random.PCG64, ("state", "state"), 2**128, r"\['state'\] is 3402.* an integer from 0 to"),
        (np.random.PCG64, ("has_uint32",), 2, r"\['has_uint32'\] is 2; it must be an integer from 0 to 1"),
        (np.random.PCG64, ("uinteger",), -1, r"\['uinteger'\] is -1"),
        (np.random.MT19937, ("state", "pos"), 625, r"\['pos'\] is 625; it must be an integer from 0 to 624"),
        (np.random.MT19937, ("state", "pos"), -1, r"\['pos'\] is -1"),
        (np.random.MT19937, ("state", "key"), np.zeros(624, np.uint32), "is all zeros, which generates only zeros"),
        (np.random.MT19937, ("state", "key"), np.ones(624), "it must be an array of uint32, shape .624"),
        (np.random.MT19937, ("state", "key"), np.full(624, 2**40), "it must be an array of uint32"),
        (np.random.Philox, ("buffer_pos",), -(10**6), r"\['buffer_pos'\] is -1000000"),
        (np.random.Philox, ("buffer_pos",), 5, r"\['buffer_pos'\] is 5; it must be an integer from 0 to 4"),
        (np.random.SFC64, ("state", "state"), np.zeros(3, np.uint64), "it must be an array of uint64, shape .4"),
    ],
)
def test_a_state_that_lies_is_refused(bits: Any, path: tuple[str, ...], value: Any, message: str) -> None:
    generator = bits(1)
    before = str(generator.state)
    lie: Any = copy.deepcopy(generator.state)
    holder = lie
    for key in path[:-1]:
        holder = holder[key]
    if path:
        holder[path[-1]] = value
    else:
        lie = value
    with pytest.raises(ValueError, match=message):
        set_state_of(generator, lie)
    assert str(generator.state) == before
