"""How fast is exact search by order violation, and beside what?

    python -m benchmarks.search --points data/points --model MODEL --dataset DATASET
    python -m benchmarks.search --points data/points --rows 10000 120000 --threads 2

The first run encodes a dataset with a trained model into --points; later runs read them. The real
points are grown to every size (see `benchmarks.search.growth`), indexed, and searched in both
directions, with other engines taking turns in the same run. Every `certified` answer is compared
with the `exact` one, and some with numpy. Writes search.md to --out.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

ROWS = (10_000, 30_000, 120_000, 1_000_000, 10_000_000)
BESIDE = ("flat", "panorama", "hnsw", "codes")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--points", type=Path, required=True, help="a folder of encoded points")
    parser.add_argument("--model", type=Path, help="a checkpoint, to encode with")
    parser.add_argument("--dataset", type=Path, help="made by 'hasse lab data import'")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="sizes to measure")
    parser.add_argument(
        "--beside",
        nargs="+",
        choices=BESIDE,
        default=BESIDE,
        help="which other engines to build and measure",
    )
    parser.add_argument("--threads", type=int, default=1, help="for every contender alike")
    parser.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="processor: only the seconds that the one thread ran, for a machine others keep busy",
    )
    parser.add_argument(
        "--batches", type=int, nargs="+", default=(32, 256), help="numbers of queries at a time"
    )
    parser.add_argument("--queries", type=int, default=128, help="different queries")
    parser.add_argument("--checked", type=int, default=8, help="queries compared with numpy")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each contender and size")
    parser.add_argument(
        "--out", type=Path, default=Path("data/bench"), help="for the results and scratch"
    )
    options = parser.parse_args(arguments)
    if options.clock == "processor" and options.threads > 1:
        parser.error("--clock processor adds up all threads: use it with --threads 1")
    # Libraries read these when they are imported, so everything else is imported afterwards.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    if kernels := _kernels():
        os.environ.setdefault("OPENBLAS_CORETYPE", kernels)
    from benchmarks.search.run import run

    given = sys.argv[1:] if arguments is None else arguments
    return run(options, f"python -m benchmarks.search {shlex.join(given)}".rstrip())


def _kernels() -> str | None:
    """Return what OpenBLAS calls the best kernels that this processor can run.

    FAISS comes with an OpenBLAS of 2021. Processors that this does not know get its slowest
    kernels, four times slower than those for AVX-512.
    """
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    ways = {"avx512bw": "SkylakeX", "avx2": "Haswell"}
    return next((kernels for flag, kernels in ways.items() if flag in flags), None)


if __name__ == "__main__":
    sys.exit(main())
