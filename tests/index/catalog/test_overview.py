"""Numbers of pictures by folder and month."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hasse.index.catalog import mutations, overview
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.overview import Overview, read_overview
from hasse.index.types import CaptionRow, FolderRow, ImageRow, Metadata
from tests.index.samples import model


def instant(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type, misc]


def test_overview_counts_by_folder_month_camera_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = ["a/b", "a/b", "a", ""]
    times = [instant(2026, 1, 31), instant(2026, 1, 1), instant(1969, 12, 31), None]
    rows = [
        ImageRow(
            at, f"{at}.jpg", "/".join(filter(None, ["/root", folder, f"{at}.jpg"])), taken=time
        )
        for at, (folder, time) in enumerate(zip(folders, times, strict=True))
    ]
    catalog = Catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    mutations.create_catalog(catalog, model())
    with catalog.writing() as connection:
        mutations.raise_generation(connection, model())
        mutations.insert_images(connection, rows)
        mutations.remember_folders(connection, [FolderRow("/root", "/root", "../root", 1)])
        near = (("place", "Schlachtensee, Berlin, Germany"), ("keyword", "swans"))
        places = [(52.44, 13.21), (52.43, 13.22), (-33.9, 18.4)]
        metadata = {
            at: Metadata(near if at else (), f"camera {at % 2}", None, *place)  # type: ignore[arg-type]
            for at, place in enumerate(places)
        }
        mutations.replace_metadata(connection, metadata)
        captions = [CaptionRow(1, 0, "a"), CaptionRow(2, 0, "b"), CaptionRow(3, 1, "c", "a model")]
        mutations.insert_captions(connection, captions)
        mutations.replace_texts(connection, "added keyword", {0: ["Anna", "swans"]})
    found = read_overview(catalog, tmp_path)
    monkeypatch.setattr(overview, "MAX_ROWS", 3)
    assert read_overview(catalog, tmp_path) == Overview()
    catalog.close()
    assert found.folders == {"a/": 3, "a/b/": 2}
    assert found.months == {"1969-12": 1, "2026-01": 2}
    assert found.years == [("2026", 2), ("1969", 1)]
    assert list(found.cameras.items()) == [("camera 0", 2), ("camera 1", 1)]
    assert [(one.name, one.images) for one in found.places][1:] == [(near[0][1], 1)]
    assert list(found.keywords.items()) == [("swans", 3), ("Anna", 1)]
    assert found.places[0].latitude == pytest.approx(52.435)
    assert found.captioned == 1


def test_overview_begins_below_a_single_folder() -> None:
    folders = {"all/": 9, "all/2024/": 4, "all/2024/may/": 1, "all/2025/": 5}
    assert Overview(folders).outermost == [("all/2024/", 4), ("all/2025/", 5)]
    assert Overview({"all/": 9}).outermost == [("all/", 9)]
    assert Overview({"a/": 1, "b/": 1, "b/c/": 1}).outermost == [("a/", 1), ("b/", 1)]
    assert Overview().outermost == []
