"""An index in shards, all in this process, answers as one that is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hasse.index.catalog.selection import Selection
from hasse.index.errors import BadShardsError, ChecksumError, ShardUnreachableError
from hasse.index.search.query import Answer, Query
from hasse.index.segments.compaction import everything
from hasse.index.shards import plan_shards, read_plan, shard_sizes
from hasse.index.store import Index
from hasse.index.types import KINDS, MODES, CaptionRow, ImageRow
from hasse.service.cluster.deployment import Layout, RayShards, Replica
from hasse.service.cluster.index import ClusterIndex
from hasse.service.cluster.shard import SearchBatch, Shard
from hasse.service.telemetry.traces import Traces
from tests.index.samples import embeddings, model
from tests.postgresql import new_database, place_catalog

DIMENSION = 16
COUNT = 2
TEXTS = ["a dog", "A dog.", "a cat", "a  cat", "snow", "Snow."]  # in pairs that read the same


class InProcess:
    """Shards without Ray. `down` do not answer."""

    def __init__(self, folder: Path, copies: Path | None = None) -> None:
        self.shards = [Shard(folder, at, COUNT, 1, copies) for at in range(COUNT)]
        self.down: set[int] = set()

    def gather(self, method: str, each: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        return [self._ask(at, method, args) for at, args in enumerate(each)]

    def _ask(self, at: int, method: str, args: tuple[Any, ...] | None) -> Any:
        if args is None:
            return None
        return (
            ConnectionError("gone") if at in self.down else getattr(self.shards[at], method)(*args)
        )

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


def filled(folder: Path) -> Index:
    """Make an index of several segments whose captions partly read the same."""
    drawn = np.random.default_rng(3)
    index = Index.create(folder, model(DIMENSION))
    for block in range(4):
        ids = range(100 * block + 1, 100 * block + 31)
        rows = [ImageRow(n, f"{n}.jpg", f"p/{n}.jpg", None, None, "val") for n in ids]
        captions = [CaptionRow(n, n, TEXTS[n % len(TEXTS)]) for n in ids]
        points = embeddings(np.random.default_rng(9), len(TEXTS) // 2, DIMENSION)
        same = np.stack([points[n % len(TEXTS) // 2] for n in ids])
        index.add(rows, embeddings(drawn, 30, DIMENSION), captions, same)
    return index


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with new_database() as url:
        yield place_catalog(tmp_path / "index", url)


@pytest.fixture
def whole(folder: Path) -> Iterator[Index]:
    with filled(folder) as index:
        plan_shards(folder, index.catalog, COUNT)
        index.refresh()
        yield index


@pytest.fixture
def shards(whole: Index) -> Iterator[InProcess]:
    made = InProcess(whole.folder)
    yield made
    made.close()


def facts(answer: Answer) -> tuple[Any, ...]:
    parts = None if answer.parts is None else answer.parts.tolist()
    found = (answer.ids.tolist(), answer.violations.tolist(), parts)
    return (*found, answer.certified, answer.generation, dict(answer.same))


def answers(index: Index) -> list[object]:
    """What an index answers to searches of each kind, alone, in a batch and by parts."""
    points = embeddings(np.random.default_rng(5), 3, DIMENSION)
    found: list[object] = []
    for kind in KINDS:
        for selection in (None, Selection(image_ids=(1, 2, 105, 204)), Selection(split="val")):
            for mode in MODES:
                query = Query(kind, 7, mode, selection=selection)
                found += [facts(one) for one in index.search_batch(query, points)]
            found.append(facts(index.search_jointly(Query(kind, 5, selection=selection), points)))
    query = Query("caption", 2, selection=Selection(distinct_texts=True))
    found += [facts(one) for one in index.search_batch(query, points)]
    found.append(facts(index.search(Query("image", 4, relation="alike"), points[0])))
    found.append({id_: point.tolist() for id_, point in index.points("image", [3, 303]).items()})
    return found


def test_shards_answer_as_the_whole_index_does_through_changes_of_any_front_end(
    whole: Index, shards: InProcess
) -> None:
    with ClusterIndex(whole.folder, shards, COUNT) as first:
        assert answers(first) == answers(whole)
        first.remove([1, 105])
        whole.refresh()
        assert answers(first) == answers(whole)
        whole.add([ImageRow(1, "new.jpg", "new.jpg")], np.zeros((1, DIMENSION), np.float32))
        with ClusterIndex(whole.folder, shards, COUNT) as second:
            assert answers(first) == answers(second) == answers(whole)
            whole.compact(everything)
            assert answers(second) == answers(whole)
            plan_shards(whole.folder, whole.catalog, 1)
            whole.refresh()
            assert answers(first) == answers(whole)
            info = second.info()
            assert (info.images, info.captions) == (119, 118)


def test_shard_answers_for_an_older_generation_than_its_newest(
    whole: Index, shards: InProcess
) -> None:
    with ClusterIndex(whole.folder, shards, COUNT) as index:
        query, point = Query("image", 200), np.zeros(DIMENSION, np.float32)
        before = index.search(query, point)
        old = index._snapshot()
        index.remove([2])
        assert len(index.search(query, point).ids) == len(before.ids) - 1
        for shard in shards.shards:
            del shard._snapshots[old.generation]
        index._reader.snapshot = old
        found = index._gather("search", old, (SearchBatch(query, point[None]),))
        assert sum(len(one[0].ids) for one in found) == len(before.ids)


def test_search_without_a_shard_is_refused_or_not_certified(
    whole: Index, shards: InProcess
) -> None:
    query, point = Query("image", 200), np.zeros(DIMENSION, np.float32)
    shards.down = {1}
    with (
        ClusterIndex(whole.folder, shards, COUNT) as index,
        pytest.raises(ShardUnreachableError, match="hasse cluster status"),
    ):
        index.search(query, point)
    with ClusterIndex(whole.folder, shards, COUNT, partial=True) as index:
        answer = index.search(query, point)
        assert not answer.certified
        assert 0 < answer.searched == len(answer.ids) < 120
        shards.down = set()
        assert index.search(query, point).certified


def test_search_of_a_part_is_refused_while_the_collection_changes_under_every_attempt(
    whole: Index, shards: InProcess
) -> None:
    class Changing(InProcess):
        def gather(self, method: str, each: Sequence[tuple[Any, ...] | None]) -> list[Any]:
            whole.remove([next(ids)])
            return shards.gather(method, each)

    ids = iter(range(1, 31))
    with ClusterIndex(whole.folder, Changing.__new__(Changing), COUNT) as index:
        query, point = Query("image", 5, selection=Selection(split="val")), np.zeros(DIMENSION)
        with pytest.raises(ShardUnreachableError, match="repeat the search"):
            index.search(query, point)
        assert index.search(Query("image", 5), point).certified


def test_plan_balances_rows_and_refuses_what_cannot_be(whole: Index, tmp_path: Path) -> None:
    plan = plan_shards(whole.folder, whole.catalog, COUNT)
    state = whole.catalog.state()
    assert [size.rows["image"] for size in shard_sizes(plan, state.segments)] == [60, 60]
    with pytest.raises(BadShardsError, match="plan at most 4"):
        plan_shards(whole.folder, whole.catalog, 5)
    with filled(tmp_path / "sqlite") as other, pytest.raises(BadShardsError, match=r"catalog\.url"):
        plan_shards(other.folder, other.catalog, 2)
    with pytest.raises(BadShardsError, match="hasse cluster plan"):
        ClusterIndex(whole.folder, InProcess.__new__(InProcess), 3)


def test_copies_of_segments_that_were_merged_away_are_removed(whole: Index, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    InProcess(whole.folder, copies).close()
    before = {path.name for path in copies.iterdir()}
    whole.compact(everything)
    plan_shards(whole.folder, whole.catalog, 1)
    Shard(whole.folder, 0, 1, 1, copies).close()
    after = {path.name for path in copies.iterdir()}
    assert after == {path.name for path in (whole.folder / "segments").iterdir()}
    assert not after & before


def test_copies_are_resumed_and_made_anew_where_they_changed(whole: Index, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    first = InProcess(whole.folder, copies)
    first.close()
    (points,) = list(copies.glob("image-*/points.npy"))[:1]
    written = points.read_bytes()
    points.unlink()
    points.with_name("points.npy.partial").write_bytes(written[:100])
    (other,) = list(copies.glob("caption-*/points.npy"))[:1]
    other.write_bytes(b"\0" * other.stat().st_size)
    again = InProcess(whole.folder, copies)
    assert points.read_bytes() == written
    with ClusterIndex(whole.folder, again, COUNT) as index:
        assert answers(index) == answers(whole)
    again.close()
    points.unlink()
    source = whole.folder / "segments" / points.parent.name / points.name
    source.write_bytes(b"\0" * len(written))
    plan = read_plan(whole.catalog, COUNT)
    assert plan is not None
    with pytest.raises(ChecksumError, match="differs from the checksum"):
        Shard(whole.folder, plan.shard_of(points.parent.name), COUNT, 1, copies)


class OneProcess:
    """What `RayShards` uses of Ray, without it: replicas are called where they are."""

    def __init__(self, replicas: dict[str, Replica]) -> None:
        self.serve = SimpleNamespace(get_app_handle=lambda name: _Handle(replicas[name]))


class _Handle:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any, **named: Any) -> Any:
            result = asyncio.run(getattr(self._replica, method)(*arguments, **named))
            return SimpleNamespace(result=lambda timeout_s: result)

        return SimpleNamespace(remote=remote)


def test_search_of_a_shard_is_a_part_of_the_trace_of_its_front_end(whole: Index) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    layout, traces = Layout(whole.folder, COUNT), Traces(provider)
    replicas = {
        layout.application(at): Replica(str(whole.folder), at, COUNT, 1, None)
        for at in range(COUNT)
    }
    for replica in replicas.values():
        replica.traces = traces
    shards = RayShards(OneProcess(replicas), layout, 60)
    with ClusterIndex(whole.folder, shards, COUNT) as index:
        point = np.zeros(DIMENSION, np.float32)
        assert len(index.search(Query("image", 3), point).ids) == 3
        assert not spans.get_finished_spans()
        with traces.part({}, "front end"):
            index.search(Query("image", 3), point)
    for replica in replicas.values():
        replica._shard.close()
    found = {span.name: span for span in spans.get_finished_spans()}
    asked = [span for span in spans.get_finished_spans() if span.name == "shard search"]
    assert [(span.attributes or {})["hasse.shard"] for span in asked] == [0, 1]
    for span in asked:
        assert span.parent is not None
        assert span.parent.span_id == found["shards"].context.span_id
        assert span.context.trace_id == found["front end"].context.trace_id
