"""Features on disk: durable as far as they are counted, and refused where files disagree."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.features import feature_store
from hasse.lab.features.extraction import ExtractionOptions, extract
from hasse.lab.features.feature_store import FeaturesError, FeatureStore, Maker, open_appender
from hasse.models.datasets import Image
from hasse.models.files import FolderLockedError
from tests.lab.features.noise import SMALL, content, pictures


def test_features_are_selected_by_id_in_the_order_asked_for(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 6)
    store = extract(dataset, backbone, SMALL, tmp_path / "f")
    ids = [dataset.images[at].id for at in (4, 0, 4)]
    chosen = FeatureStore.open(tmp_path / "f").select(ids)
    assert chosen.dtype == np.float32
    np.testing.assert_array_equal(chosen, store.views()[:, 0][[4, 0, 4]].astype(np.float32))
    with pytest.raises(FeaturesError, match=r"without features .*: 1, the first has the id 1000"):
        store.select([ids[0], 1000])
    spoiled = np.memmap(tmp_path / "f" / "features.f16", dtype=np.float16, mode="r+")
    spoiled[-1] = np.nan
    spoiled.flush()
    assert len(store.select(ids)) == 3
    last = dataset.images[-1].id
    with pytest.raises(FeaturesError, match=f"not finite numbers: 1, the first has the id {last};"):
        store.select([ids[0], last])


def test_rows_beyond_the_count_of_the_manifest_are_overwritten(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 4)
    extract(dataset, backbone, SMALL, tmp_path / "whole", options=ExtractionOptions(batch_size=2))
    extract(replace(dataset, images=dataset.images[:2]), backbone, SMALL, tmp_path / "f")
    for name in (feature_store.FEATURES, feature_store.IMAGES, feature_store.STAMPS):
        with (tmp_path / "f" / name).open("ab") as file:
            file.write(b"\xff" * 777)
    assert len(FeatureStore.open(tmp_path / "f")) == 2
    extract(dataset, backbone, SMALL, tmp_path / "f", options=ExtractionOptions(batch_size=2))
    assert content(tmp_path / "f") == content(tmp_path / "whole")


def appended(folder: Path, count: int) -> None:
    """Append that many rows, of three images by turns, each with its number for features."""
    images = [Image(row % 3, f"{row % 3}.png", Path(f"{row % 3}.png")) for row in range(count)]
    with open_appender(folder, Maker("network", "weights", 1, SMALL)) as writer:
        writer.add(images, [1] * count, np.arange(count, dtype=np.float16)[:, None, None])
        writer.commit()


def test_last_row_of_an_image_counts(tmp_path: Path) -> None:
    appended(tmp_path, 300)
    store = FeatureStore.open(tmp_path)
    assert store.select([2, 0, 1]).tolist() == [[299], [297], [298]]
    assert len(store) == 3


def test_store_without_rows_is_refused(tmp_path: Path) -> None:
    with open_appender(tmp_path, Maker("network", "weights", 1, SMALL)) as writer:
        writer.commit()
    with pytest.raises(FeaturesError, match="are of no image yet: make them again"):
        FeatureStore.open(tmp_path)


def test_rows_reach_the_disk_before_the_manifest_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        reached.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    appended(tmp_path, 3)
    rows = [feature_store.FEATURES, feature_store.IMAGES, feature_store.STAMPS]
    assert reached == [*rows, f"{feature_store.MANIFEST}.partial", tmp_path.name]


def test_second_commit_writes_nothing_again(backbone: Backbone, tmp_path: Path) -> None:
    dataset, folder = pictures(tmp_path / "p", 3), tmp_path / "f"
    extract(dataset, backbone, SMALL, folder)
    store = FeatureStore.open(folder)
    with open_appender(folder, store.maker) as writer:
        writer.add(dataset.images[:1], [1], store.rows[:1])
        writer.commit()
        writer.commit()
        assert writer.rows == 4


def test_second_writer_is_refused(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 2)
    maker = extract(dataset, backbone, SMALL, tmp_path / "f").maker
    with open_appender(tmp_path / "f", maker), pytest.raises(FolderLockedError):
        extract(dataset, backbone, SMALL, tmp_path / "f")


def test_files_that_do_not_agree_are_refused_by_name(backbone: Backbone, tmp_path: Path) -> None:
    out = tmp_path / "f"
    with pytest.raises(FeaturesError, match=r"there are no features in .* make them with"):
        FeatureStore.open(out)
    extract(pictures(tmp_path / "p", 3), backbone, SMALL, out)
    for name in (feature_store.FEATURES, feature_store.IMAGES, feature_store.STAMPS):
        whole = (out / name).read_bytes()
        (out / name).write_bytes(whole[:-1])
        with pytest.raises(FeaturesError, match=f"{name} is missing or shorter"):
            FeatureStore.open(out)
        (out / name).write_bytes(whole)
    for broken in ("", "{}", "[]", '{"format": 9}', '{"format": 2, "maker": {}, "rows": 1}'):
        (out / feature_store.MANIFEST).write_text(broken)
        with pytest.raises(FeaturesError, match=r"delete .* and make the features again"):
            FeatureStore.open(out)
