"""The reducer in a world of one process."""

import numpy as np
import pytest

from retrograd.distributed.process_group import ProcessGroup
from retrograd.distributed.reducer import Channel, Reducer

SHAPES = [(4, 3, 5, 2), (), (7,), (6, 3), (2, 3, 3)]


def laid_out(array, order):
    """Return a copy of the array whose axes have this order in memory."""
    return np.array(array.transpose(order), order="C").transpose(np.argsort(order))


@pytest.mark.parametrize("shards", [1, 3])
def test_sums_lie_in_memory_as_the_parameters_do(shards):
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(shape)) for shape in SHAPES]
    parameters = [laid_out(np.zeros(shape), order) for shape, order in zip(SHAPES, orders, strict=True)]
    reducer = Reducer(Channel(ProcessGroup(None, [0], 9.0), "gradients"), parameters, shards, 200)
    kept = []
    for step in range(2):
        gradients = [[rng.standard_normal(shape) for shape in SHAPES] for _ in range(shards)]
        reducer.start(0.5, step)
        for shard in range(shards):
            for position in reversed(range(len(SHAPES))):
                # in the parameter's memory order, or in another one
                order = orders[position] if shard else np.arange(len(SHAPES[position]))
                reducer.add(shard, position, laid_out(gradients[shard][position], order))
            reducer.advance()
            reducer.end(shard)
        for position, found in enumerate(reducer.finish()):
            expected = gradients[0][position]
            if shards == 3:  # the tree: the first two, then the third
                expected = (expected + gradients[1][position]) + gradients[2][position]
            assert found.strides == parameters[position].strides
            kept.append((found, 0.5 * expected))
    for found, expected in kept:  # the results of the first step have not changed
        np.testing.assert_array_equal(found, expected)


def test_a_gradient_that_somebody_else_holds_is_copied():
    reducer = Reducer(Channel(ProcessGroup(None, [0], 9.0), "gradients"), [np.zeros(3)], 2, 200)
    workspace = np.arange(3.0)
    reducer.start(1.0, 0)
    for shard in range(2):
        reducer.add(shard, 0, workspace, owned=False)
        workspace += 10  # like a backward that reuses its memory
    np.testing.assert_array_equal(reducer.finish()[0], [10, 12, 14])
