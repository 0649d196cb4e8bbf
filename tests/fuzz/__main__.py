"""Command line of the API fuzzer: ``python -m tests.fuzz --calls 20000 --seed 7``."""

from __future__ import annotations

import argparse
import sys
import time

from .run import FAULTS, report, run_drawn, warm


def main() -> int:
    """Draw calls, run them, print what is wrong; 1 if there was a hang, a crash or an internal error."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="how many calls to draw")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the draws; by default, the time")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that a call may take")
    parser.add_argument("--only", default="", help="regular expression for the functions to call, such as 'nn.init'")
    parser.add_argument("--no-peer", action="store_true", help="do not compare with PyTorch")
    options = parser.parse_args()
    if not options.no_peer:
        try:
            import torch  # noqa: F401  # once, not in each child
        except ImportError:
            print("PyTorch is not installed: results are not compared")
    warm()
    begun = time.perf_counter()
    counts = report(run_drawn(options.calls, options.seed, options.limit, options.only, not options.no_peer))
    print(f"seed {options.seed}: {counts} in {time.perf_counter() - begun:.0f} s")
    return int(any(counts.get(kind) for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
