"""Batch norm, pooling, elementwise operators and softmax on (8, 64, 56, 56), forward and backward.

The backward of a plain sum only passes its gradient on, so the sum with a bias per channel is measured instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from ..harness import Rows
from .jobs import Job, Operator, rows_of

SHAPE = (8, 64, 56, 56)


def _jobs() -> list[Job]:
    channels = (SHAPE[1],)
    bias = (SHAPE[1], 1, 1)
    running, peer_running = _statistics(retrograd.tensor), _statistics(torch.tensor)
    # rows that train move theirs
    moving, peer_moving = _statistics(retrograd.tensor), _statistics(torch.tensor)
    jobs = [
        Job(
            "batch norm",
            "training",
            lambda x, w, b: functional.batch_norm(x, *moving, w, b, training=True),
            lambda x, w, b: peer.batch_norm(x, *peer_moving, w, b, training=True),
            (SHAPE, channels, channels),
            backward=False,
        ),
        Job(  # without running statistics: a retained graph must not contain arrays that later calls change
            "batch norm",
            "training",
            lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
            lambda x, w, b: peer.batch_norm(x, None, None, w, b, training=True),
            (SHAPE, channels, channels),
            forward=False,
        ),
        Job(
            "batch norm",
            "inference",
            lambda x, w, b: functional.batch_norm(x, *running, w, b, training=False),
            lambda x, w, b: peer.batch_norm(x, *peer_running, w, b, training=False),
            (SHAPE, channels, channels),
            backward=False,
        ),
    ]
    for name, kernel, stride, padding in (("2, stride 2", 2, 2, 0), ("3, stride 2, padding 1", 3, 2, 1)):
        for kind in ("max", "avg"):
            jobs.append(
                Job(
                    "pooling",
                    f"{kind} {name}",
                    _pool(functional, kind, kernel, stride, padding),
                    _pool(peer, kind, kernel, stride, padding),
                )
            )
    for name in ("relu", "exp", "sigmoid", "tanh"):
        jobs.append(Job("elementwise", name, getattr(retrograd, name), getattr(torch, name)))
    jobs += [
        Job("elementwise", "add", _add, _add, (SHAPE, SHAPE), backward=False),
        Job("elementwise", "add bias per channel", _add, _add, (SHAPE, bias)),
        Job("elementwise", "mul", _mul, _mul, (SHAPE, SHAPE)),
        Job("softmax", "dim 1", lambda x: functional.softmax(x, dim=1), lambda x: peer.softmax(x, dim=1)),
        Job("softmax", "log, dim 1", lambda x: functional.log_softmax(x, dim=1), lambda x: peer.log_softmax(x, dim=1)),
    ]
    return jobs


def _statistics(tensor: Any) -> list[Any]:
    return [tensor(np.zeros(SHAPE[1], np.float32)), tensor(np.ones(SHAPE[1], np.float32))]


def _add(x: Any, y: Any) -> Any:
    return x + y


def _mul(x: Any, y: Any) -> Any:
    return x * y


def _pool(library: Any, kind: str, kernel: int, stride: int, padding: int) -> Operator:
    pool = getattr(library, f"{kind}_pool2d")
    return lambda x: pool(x, kernel, stride, padding)


def rows(quick: bool, compile: bool) -> Rows:
    return rows_of(_jobs(), quick, compile)
