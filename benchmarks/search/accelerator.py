"""How fast is a search on a GPU, beside what the card can copy and beside plain torch?

    python -m benchmarks.search.accelerator --points data/points --rows 1000000

Points are those of a trained model that `benchmarks.search` keeps, grown to the number of
rows as there. A scan for one query reads each float16 coordinate once, so the floor of its time is
their bytes over the bandwidth of a copy of a gigabyte on the same card (counting what it reads and
what it writes). A scan for many is bound by the three float32 operations of each pair of
coordinates. An answer is the scan, the choice of rows, and their exact violations, which the CPU
computes from the points on disk; it is the clock's time, of one call after the other.

Plain torch is the definition, in blocks that fit the card: broadcast, clamp, square, sum, topk, of
float32 points that are there already. The first answers are compared with an exact scan on the CPU,
bit for bit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.report import parser_of, table
from benchmarks.search import oracle, source
from benchmarks.search.clock import wait
from benchmarks.search.growth import Growth
from hasse.index.kernels.threads import Workers
from hasse.index.kernels.triton_scan import smallest_of_tiles
from hasse.index.search.gpu_scan import Accelerator
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import search
from hasse.index.segments.segment import Segment, SegmentWriter
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import Kind, ModelIdentity, Points

K = 10
CHECKED = 4  # queries whose answers are compared with the CPU's
COPIED = 1 << 30  # bytes
_ROWS, _QUERIES = 4096, 32  # that plain torch compares at a time: half a gigabyte
_SECONDS = 1.0  # for each measurement


def grown(folder: Path, points: source.Source, kind: Kind, rows: int) -> Segment:
    """Write a segment of so many rows, and open it."""
    writer = SegmentWriter(folder, kind, points.dimension, "order")
    for start, block in Growth(points.stored(kind)).blocks(rows):
        writer.append(np.arange(start, start + len(block)), block)
    return Segment.open(folder, writer.seal())


def milliseconds(work: Callable[[], object], device: str) -> float:
    """Return how long some work takes: the median of as many calls as a second has."""
    seconds: list[float] = []
    work()
    while sum(seconds) < _SECONDS or len(seconds) < 3:
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def bandwidth(device: str) -> float:
    """Return the bytes that a copy on the device moves in a second, read and written."""
    there = torch.randint(0, 100, (COPIED,), device=device, dtype=torch.uint8)
    back = torch.empty_like(there)
    return 2 * COPIED / milliseconds(lambda: back.copy_(there), device) * 1000


def plain(points: Tensor, queries: Tensor, kind: Kind) -> Tensor:
    """Return the k best rows by the definition: (R, N), (B, N) -> (B, k)."""
    scores = torch.empty(len(queries), len(points), device=points.device)
    for row in range(0, len(points), _ROWS):
        stored = points[None, row : row + _ROWS]
        for at in range(0, len(queries), _QUERIES):
            part = queries[at : at + _QUERIES, None]
            gap = part - stored if kind == "image" else stored - part
            scores[at : at + _QUERIES, row : row + _ROWS] = gap.clamp(min=0).pow(2).sum(2)
    return scores.topk(K, largest=False).indices


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--points", type=Path, required=True, help="real ones, as kept there")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=256, help="asked together")
    parser.add_argument("--kind", choices=("image", "caption"), default="image")
    parser.add_argument("--work", type=Path, help="a folder for the segment")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    kind: Kind = options.kind
    device: str = options.device

    real = source.load(options.points)
    asking = real.asking(kind)
    queries: Points = asking[np.arange(options.queries) % len(asking)]
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        segment = grown(Path(folder) / "segment", real, kind, options.rows)
        model = ModelIdentity(real.name, "0" * 64, real.dimension, "order", "")
        now = Snapshot(1, model, (LiveSegment.all_live(segment),))
        accelerator, workers = Accelerator(device), Workers()
        accelerator.keep([segment])
        resident = accelerator.resident(segment)
        if resident is None:
            parser.error(f"{options.rows:,} rows are too few, or too many, for the device")

        def answers(asked: Points) -> list[Answer]:
            return search(now, asked, Query(kind, K), workers, accelerator)

        here = search(now, queries[:CHECKED], Query(kind, K, "exact"), workers)
        oracle.same("on the device", answers(queries)[:CHECKED], here)

        copied = bandwidth(device)
        one, many = (torch.from_numpy(part.copy()).to(device) for part in (queries[:1], queries))
        scan_of_one, scan_of_many = (
            milliseconds(
                lambda part=part: smallest_of_tiles(  # type: ignore[misc]  # bound at once
                    resident.columns, part, None, resident.rows, resident.orientation
                ),
                device,
            )
            for part in (one, many)
        )
        answer_to_one = milliseconds(lambda: answers(queries[:1]), device)
        answer_to_many = milliseconds(lambda: answers(queries), device)
        points = resident.columns[: real.dimension, : resident.rows].T.float().contiguous()
        torch_of_one = milliseconds(lambda: plain(points, one, kind), device)
        torch_of_many = milliseconds(lambda: plain(points, many, kind), device)

    read = resident.columns.nbytes / scan_of_one * 1000
    pairs = 3 * len(queries) * resident.columns.numel() / scan_of_many * 1000
    name = torch.cuda.get_device_name(device) if torch.cuda.is_available() else "cpu"
    print(
        f"{options.rows:,} {kind}s of '{real.name}', N = {real.dimension}, k = {K}, on {name} "
        f"(copies {copied / 1e12:.2f} TB/s), torch {torch.__version__}\n"
    )
    rows = [
        (name, f"{one_took:.2f}", f"{many_took:.1f}")
        for name, one_took, many_took in (
            ("scan", scan_of_one, scan_of_many),
            ("answer", answer_to_one, answer_to_many),
            ("plain torch", torch_of_one, torch_of_many),
        )
    ]
    print(table(("", "one query, ms", f"{len(queries)} queries, ms"), rows))
    print(
        f"\nThe scan for one reads at {read / copied:.0%} of the copy's bandwidth; that for "
        f"{len(queries)} does {pairs / 1e12:.1f} T operations a second. Answers take plain torch "
        f"{torch_of_one / answer_to_one:.1f} and {torch_of_many / answer_to_many:.1f} times as "
        f"long; the first {CHECKED} are the CPU's, bit for bit."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
