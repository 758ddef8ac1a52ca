from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from hasse.index import durable
from hasse.index.build import build
from hasse.index.catalog import mutations
from hasse.index.catalog.records import SegmentRecord
from hasse.index.segments.compaction import everything
from hasse.index.store import Index
from hasse.index.types import Ids, ImageRow, Points
from tests.index.samples import captions, changes, embeddings, images, model, small_index

POINTS = embeddings(np.random.default_rng(0), 40, 16)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    """What the disk was waited for, under the names of now: paths and their sizes then."""
    sizes: dict[Path, int] = {}
    fsync, move = os.fsync, durable.move

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        sizes[path] = os.fstat(descriptor).st_size

    def moved(source: Path, target: Path) -> None:
        move(source, target)
        for path in [path for path in sizes if path.is_relative_to(source)]:
            sizes[target / path.relative_to(source)] = sizes.pop(path)
        sizes.pop(target.parent, None)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(durable, "move", moved)
    return sizes


def test_change_is_on_the_disk_with_its_folders_before_it_is_visible(
    tmp_path: Path, held: dict[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    insert = mutations.insert_segments

    def inserted(connection: Connection, records: Sequence[SegmentRecord], at: int) -> None:
        for record in records:
            folder = tmp_path / "i" / "segments" / record.name
            assert {folder, folder.parent, *folder.iterdir()} <= held.keys()
            assert all(held[folder / name] == file.bytes for name, file in record.files.items())
            shown.append(record.kind)
        insert(connection, records, at)

    monkeypatch.setattr(mutations, "insert_segments", inserted)
    with small_index(tmp_path / "i") as index:
        index.add(images([50]), POINTS[:1], captions([500], [50]), POINTS[1:2])
        index.compact(everything)
    assert shown == ["image", "caption"] * 3


def test_index_that_is_made_has_on_the_disk_all_names_that_lead_to_it(
    tmp_path: Path, held: dict[Path, int]
) -> None:
    Index.create(tmp_path / "a" / "b" / "i", model(), threads=1).close()
    assert {tmp_path / place for place in ("", "a", "a/b", "a/b/i")} <= held.keys()


def test_staged_block_is_on_the_disk_before_the_next_is_asked_for(
    tmp_path: Path, held: dict[Path, int]
) -> None:
    staging = tmp_path / "i" / "staging"

    def blocks(done: Ids) -> Iterator[tuple[list[ImageRow], Points]]:
        for at in range(len(done), 6, 2):
            yield images([at, at + 1]), POINTS[at : at + 2]
            written = staging / f"{at // 2:012}.block"
            assert held[written] == written.stat().st_size
            assert {staging, staging / "build.json"} <= held.keys()

    build(
        tmp_path / "i",
        model(),
        changes(blocks, lambda done: [(captions(range(9), range(6)), POINTS[:9])]),
        source="sample",
        total=15,
        rows_per_segment=4,
        threads=1,
    ).close()


def test_small_file_is_on_the_disk_before_it_has_its_name_and_then_the_name(
    tmp_path: Path, held: dict[Path, int]
) -> None:
    for content in (b"first", b"the second"):
        durable.write_file(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
        assert held.keys() == {tmp_path, tmp_path / "file"}
        assert held[tmp_path / "file"] == len(content)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_link_to_a_folder_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for _ in range(2):
        durable.remove(tmp_path / "link")
        assert [path.name for path in tmp_path.rglob("*")] == ["folder", "file"]
