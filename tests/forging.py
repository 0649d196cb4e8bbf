"""Runs cases with damaged or inconsistent files, each generated from its seed, within time and memory bounds."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mutation import bounded
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import fork_rng

Random = np.random.Generator
Cases = Mapping[
    str, Callable[[Any, Random, Path], str]
]  # (valid files, random generator, an empty folder) -> the outcome


def outcome(call: Callable[[], Any], *errors: type[Exception]) -> tuple[str, Any]:
    """Return ("refused", None) if the call raises one of the documented errors, otherwise ("loaded", result)."""
    try:
        return "loaded", call()
    except errors as error:
        text = str(error)
        assert text and len(text) < 20_000
        return "refused", None


def cases_of(names: Mapping[str, Any]) -> Cases:
    """Return the ``case_...`` functions of a test file."""
    return {name.removeprefix("case_"): case for name, case in names.items() if name.startswith("case_")}


def run_cases(cases: Cases, name: str, seeds: range, honest: Any, folder: Path) -> Counter[str]:
    """Run one case per seed, and count the outcomes; a case depends on its seed only."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        random = np.random.default_rng(seed)
        here = folder / str(seed)
        here.mkdir()
        try:
            with use_kernels("textbook"), fork_rng(), bounded():
                counts[cases[name](honest, random, here)] += 1
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}")
            raise
    return counts


def run_fresh_cases(cases: Cases, number: int, honest: Any, folder: Path, say: Callable[[str], Any]) -> None:
    """Run at least ``number`` cases, equally many of each kind; the seed is random, or RETROGRAD_FORGED_SEED."""
    seed = int(os.environ.get("RETROGRAD_FORGED_SEED", secrets.randbits(40)))
    each = -(-number // len(cases))
    total: Counter[str] = Counter()
    for name in cases:
        (folder / name).mkdir()
        counts = run_cases(cases, name, range(seed, seed + each), honest, folder / name)
        say(f"{name}: {dict(counts)} from seed {seed}")
        total += counts
    assert total.total() >= number
