"""One trial: so many rows of one kind, every contender, one after the other in turns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.search import oracle, processes, rivals
from benchmarks.search.clock import CLOCKS, Clock, ClockName, Reader
from benchmarks.search.contenders import Contender, Hasse, recall
from benchmarks.search.growth import Growth
from benchmarks.search.processes import Building, Serving
from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import Ids, Kind, Mode, Points

BURST = 4  # calls in a row: one after another's turn finds the caches cold
LONG = 0.3  # seconds; longer calls are made one at a time, which fills the caches by itself
FEWEST_TURNS, MOST_TURNS = 3, 40
READ_BYTES = 512 << 20  # of memory, to measure how fast it is read

Check = Callable[[Contender, slice, Ids], None]
MODES: tuple[Mode, ...] = ("exact", "certified", "fast")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds for each query."""

    median: float
    p95: float
    mean: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Summarise samples."""
        return cls(
            float(np.median(seconds)),
            float(np.percentile(seconds, 95)),
            float(np.mean(seconds)),
            len(seconds),
        )


def take_turns(
    contenders: Sequence[Contender],
    queries: Points,
    batch: int,
    seconds: float,
    reader: Reader,
    clock: Clock,
    check: Check,
) -> tuple[dict[str, Timing], Timing]:
    """Time every contender on batches of queries, about `seconds` each, and reading beside them.

    A slow contender sits out some turns. `check` is shown all answers, outside the clock.
    Returns seconds for each query by contender, and seconds for each reading of the memory.
    """
    starts = range(0, len(queries) - batch + 1, batch)
    spent: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    plans = {c.name: _turns(c, queries[:batch], seconds, clock) for c in contenders}
    total, reads = max(turns for turns, _ in plans.values()), [0.0]
    for turn in range(total):
        for contender in contenders:
            own, burst = plans[contender.name]
            if turn * own // total == (turn - 1) * own // total:
                continue
            for call in range(burst):
                at = starts[(turn * burst + call) % len(starts)]
                part = slice(at, at + batch)
                began = clock()
                ids = contender.ask(queries[part])
                spent[contender.name].append((clock() - began) / batch)
                check(contender, part, ids)
        began = clock()
        reader.read()
        reads.append(clock() - began)
    return {name: Timing.of(s) for name, s in spent.items()}, Timing.of(reads[1:])


def _turns(contender: Contender, queries: Points, seconds: float, clock: Clock) -> tuple[int, int]:
    """Return how many turns a contender takes, and how many calls it makes in each."""
    took = 0.0
    for _ in range(2):  # the first call warms up, unless it is long
        if took < LONG:
            began = clock()
            contender.ask(queries)
            took = clock() - began
    burst = BURST if took < LONG else 1
    return min(max(FEWEST_TURNS, int(seconds / (burst * took))), MOST_TURNS), burst


@dataclass(frozen=True, slots=True)
class Settings:
    """What all trials of a run have in common.

    `beside` names the other engines that take part: flat, panorama, hnsw, codes.
    `seconds`: time for each contender, for single queries and for each size of batches. `clock` is
    "wall", or "processor" where others keep the cores busy: with one thread, both say the same on a
    machine at rest.
    """

    k: int = 10
    batches: tuple[int, ...] = (32, 256)
    threads: int = 1
    beside: tuple[str, ...] = ("flat", "panorama", "hnsw", "codes")
    queries: int = 128
    checked: int = 8
    seconds: float = 4.0
    clock: ClockName = "wall"
    seed: int = 0

    @property
    def seconds_now(self) -> Clock:
        """The clock that contenders are measured by."""
        return CLOCKS[self.clock]


@dataclass(frozen=True, slots=True)
class Row:
    """What one contender showed; `batched` by the size of the batch."""

    contender: str
    question: str
    setting: str
    build_seconds: float
    single: Timing
    batched: dict[int, Timing]
    bytes_per_query: float
    bandwidth_share: float
    recall: float
    rescored: float  # share of the rows whose violation was computed; NaN where that says nothing


@dataclass(slots=True)
class Trial:
    """What one size of one kind showed."""

    kind: Kind
    rows: int
    dimension: int
    plans: dict[str, str]
    checked: int
    compared: int
    uncertified: int
    tenth: float
    bandwidth: float
    building: Building
    serving: Serving
    table: list[Row] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)


def run(
    kind: Kind,
    rows: int,
    real: Points,
    asking: Points,
    folder: Path,
    settings: Settings,
    tell: Callable[[str], None],
) -> Trial:
    """Build an index of `rows` rows in `folder`, measure everyone, and return what was seen.

    Raises:
        WrongAnswerError: an answer that should be exact was not.
    """
    draw = np.random.default_rng(settings.seed)
    wanted = max(settings.queries, *settings.batches)
    queries = asking[draw.choice(len(asking), wanted, replace=len(asking) < wanted)]
    growth, k, clock = Growth(real, settings.seed), settings.k, settings.seconds_now
    tell("building the index")
    building = processes.alone(
        processes.build,
        folder,
        real,
        rows,
        kind,
        settings.seed,
        settings.threads,
        settings.clock,
    )
    with ExitStack() as stack:
        index = stack.enter_context(Index.open(folder, verify="sizes", threads=settings.threads))
        tell("comparing answers")
        answers = {mode: _answers(index, kind, queries, k, mode) for mode in MODES}
        oracle.same("certified", answers["certified"], answers["exact"])
        some = slice(settings.checked)  # the certified answers are the same
        oracle.check(answers["exact"][some], queries[some], growth.blocks(rows), kind)
        truth = np.stack([answer.ids for answer in answers["exact"]])
        contenders: list[Contender] = [Hasse(index, kind, k, mode) for mode in MODES]
        others, absent = _others(
            growth, rows, kind, queries[: settings.queries], truth, settings, tell
        )
        contenders += others
        reader = Reader(READ_BYTES, settings.threads)
        stack.callback(reader.close)

        def check(contender: Contender, part: slice, ids: Ids) -> None:
            if contender.name in {"hasse exact", "hasse certified"}:
                oracle.equal(contender.name, ids, truth[part])

        tell("single queries")
        single, read = take_turns(contenders, queries, 1, settings.seconds, reader, clock, check)
        batched: dict[int, dict[str, Timing]] = {}
        for size in settings.batches:
            tell(f"batches of {size}")
            batched[size], _ = take_turns(
                contenders, queries, size, settings.seconds, reader, clock, check
            )
        bandwidth = reader.bytes / read.median
        trial = Trial(
            kind,
            rows,
            int(real.shape[1]),
            plans={mode: _plans(answers[mode]) for mode in MODES},
            checked=settings.checked,
            compared=len(queries),
            uncertified=sum(not answer.certified for answer in answers["certified"]),
            tenth=float(np.mean([answer.violations[-1] for answer in answers["exact"]])),
            bandwidth=bandwidth,
            building=building,
            serving=processes.alone(processes.serve, folder, queries, kind, k, settings.threads),
            absent=absent,
        )
        for contender in contenders:
            read_bytes = contender.bytes_per_query(queries)
            mode = contender.name.removeprefix("hasse ")
            trial.table.append(
                Row(
                    contender.name,
                    contender.question,
                    contender.setting,
                    building.seconds if mode in MODES else contender.build_seconds,
                    single[contender.name],
                    {size: each[contender.name] for size, each in batched.items()},
                    read_bytes,
                    read_bytes / single[contender.name].median / bandwidth,
                    recall(contender.ask(queries), truth),
                    _rescored(answers[mode], rows) if mode in MODES else math.nan,
                )
            )
    return trial


def _answers(index: Index, kind: Kind, queries: Points, k: int, mode: Mode) -> list[Answer]:
    return [index.search(Query(kind, k, mode), query) for query in queries]


def _rescored(answers: Sequence[Answer], rows: int) -> float:
    return float(np.mean([answer.rescored for answer in answers])) / rows


def _plans(answers: Sequence[Answer]) -> str:
    counts = Counter(answer.plan for answer in answers)
    if len(counts) == 1:
        return answers[0].plan
    return " or ".join(f"{plan} ({count})" for plan, count in counts.most_common())


def _others(
    growth: Growth,
    rows: int,
    kind: Kind,
    queries: Points,
    truth: Ids,
    settings: Settings,
    tell: Callable[[str], None],
) -> rivals.Rivals:
    """Build the contenders that are not ours, as far as the memory allows; say who is absent."""
    dimension, beside = growth.real.shape[1], settings.beside
    # Points in FAISS, and rotated, and a quarter of a byte for each coordinate.
    needed = rows * dimension * (4 * (1 + ("panorama" in beside)) + ("codes" in beside) / 4)
    if needed > 0.8 * _available():
        return rivals.Rivals([], {"all others": f"they need {needed / 1e9:.0f} GB of memory"})
    return rivals.build(
        growth.blocks(rows),
        (rows, dimension),
        kind,
        settings.k,
        beside,
        queries,
        truth[: len(queries)],
        settings.threads,
        settings.seconds_now,
        tell,
    )


def _available() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/meminfo does not tell MemAvailable: run this on Linux")
