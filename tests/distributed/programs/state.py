"""A state to save: large tensors that are split, small ones, odd ones, plain values, and per-process values."""

import numpy as np

import retrograd as rg


def make_state(seed, rank=0, size=1):
    rng = np.random.default_rng(seed)

    def drawn(*shape, dtype=np.float32):
        return rg.tensor(np.asarray(rng.standard_normal(shape) * 9).astype(dtype))

    state = {
        "model": {
            "large.weight": drawn(701, 599),
            "conv/weight": drawn(6, 3, 5, 5).permute(0, 2, 3, 1),
            "bias": drawn(7, dtype=np.float64),
            "steps": drawn(dtype=np.int64),
            "empty": drawn(0, 4),
            "flags": drawn(3, 5, dtype=np.bool_),
            "half": drawn(1, 400_000, dtype=np.float16),
        },
        "optimizer": {
            "state": {0: {"step": 3 + seed, "exp_avg": drawn(701, 599)}, 1: {}},
            "param_groups": [{"lr": 0.1 * seed, "betas": (0.9, 0.999), "params": [0, 1], "maximize": False}],
        },
        "words": ["é", None, seed, float("inf"), (drawn(2), "x")],
    }
    own = {f"of rank {k}": rng.standard_normal((300_000,)).astype(np.float32) for k in range(size)}
    state["parts"] = {name: rg.tensor(own[name]) for name in own if name == f"of rank {rank}"}
    return state


def assert_equal(found, expected, place="state"):
    assert type(found) is type(expected) or isinstance(found, rg.Tensor), place
    if isinstance(expected, rg.Tensor):
        a, b = found.numpy(), expected.numpy()
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), place
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key, value in expected.items():
            assert_equal(found[key], value, f"{place}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), place
        for k, value in enumerate(expected):
            assert_equal(found[k], value, f"{place}[{k}]")
    else:
        assert found == expected, place
