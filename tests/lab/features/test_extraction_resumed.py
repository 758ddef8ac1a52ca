"""An extraction that is stopped, killed or repeated does what is left, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.features import extraction
from hasse.lab.features.extraction import ExtractionOptions, ExtractionStopped, extract
from hasse.lab.features.feature_store import Appender, FeatureStore
from hasse.models.datasets import save
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureLimits
from tests.lab.features.noise import SMALL, content, overwrite, pictures, refusal
from tests.tiny_network import FEATURES


def test_views_are_kept_beside_and_an_interruption_changes_none_of_them(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 5)
    plain = extract(dataset, backbone, SMALL, tmp_path / "plain")
    store = extract(
        dataset, backbone, SMALL, tmp_path / "whole", options=ExtractionOptions(views=3)
    )
    assert store.views().shape == (5, 4, FEATURES)
    np.testing.assert_allclose(store.views()[:, 0], plain.views()[:, 0], rtol=2e-3, atol=2e-7)
    draw = np.random.default_rng(dataset.images[2].id)
    picture = open_picture(dataset.images[2].path)
    with torch.inference_mode():
        for view in store.views()[2, 1:]:
            expected = backbone(torch.from_numpy(SMALL.random_view(picture, draw)[None]))[0]
            torch.testing.assert_close(
                torch.from_numpy(view.astype(np.float32)), expected, rtol=2e-3, atol=2e-7
            )
    extract(
        replace(dataset, images=dataset.images[:2]),
        backbone,
        SMALL,
        tmp_path / "f",
        options=ExtractionOptions(views=3),
    )
    extract(dataset, backbone, SMALL, tmp_path / "f", options=ExtractionOptions(views=3))
    np.testing.assert_allclose(
        FeatureStore.open(tmp_path / "f").views(), store.views(), rtol=2e-3, atol=2e-7
    )
    assert "the number of views was 3 and is now 0" in refusal(
        dataset, backbone, SMALL, tmp_path / "f"
    )


def test_finished_run_is_not_done_again(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 5)
    extract(dataset, backbone, SMALL, tmp_path / "f")
    before = content(tmp_path / "f")
    for image in dataset.images:
        image.path.unlink()
    extract(dataset, backbone, SMALL, tmp_path / "f")
    assert content(tmp_path / "f") == before


def test_progress_counts_what_was_there_before(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 6)
    part = replace(dataset, images=dataset.images[:4])
    extract(part, backbone, SMALL, tmp_path / "f")
    seen: list[tuple[int, int]] = []
    extract(
        dataset,
        backbone,
        SMALL,
        tmp_path / "f",
        options=ExtractionOptions(batch_size=1),
        progress=lambda *n: seen.append(n),
    )
    assert seen == [(5, 6), (6, 6)]


def test_dataset_that_grew_gets_the_new_ones_appended(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 6)
    first = extract(replace(dataset, images=dataset.images[2:4]), backbone, SMALL, tmp_path / "f")
    kept = np.array(first.views()[:, 0])
    store = extract(dataset, backbone, SMALL, tmp_path / "f")
    assert store.image_ids.tolist() == [dataset.images[at].id for at in (2, 3, 0, 1, 4, 5)]
    np.testing.assert_array_equal(store.views()[:, 0][:2], kept)


def test_pictures_that_changed_are_read_again_and_no_others(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pictures(tmp_path / "p", 6)
    ids = [image.id for image in dataset.images]
    kept = np.array(extract(dataset, backbone, SMALL, tmp_path / "f").views()[:, 0])
    for at in (1, 4):
        overwrite(dataset.images[at], 100 + at)
    read: list[str] = []

    def watched(path: Path, limits: PictureLimits, at_least: int) -> Pillow.Image:
        read.append(path.name)
        return open_picture(path, limits, at_least)

    told: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "open_picture", watched)
        store = extract(
            dataset,
            backbone,
            SMALL,
            tmp_path / "f",
            options=ExtractionOptions(workers=1),
            changed=told.append,
        )
    assert read == ["001.png", "004.png"]
    assert told == ["pictures that changed since their features were made: 2, read again"]
    assert len(store) == 6
    expected = extract(dataset, backbone, SMALL, tmp_path / "anew")
    # Of a network that has learned nothing features are near 1e-5, at the end of float16.
    np.testing.assert_allclose(store.select(ids), expected.select(ids), rtol=2e-3, atol=2e-7)
    np.testing.assert_array_equal(store.select([ids[0]])[0], kept[0].astype(np.float32))
    assert np.abs(store.select([ids[1]])[0] - kept[1]).max() > 2e-6

    before = content(tmp_path / "f")
    extract(dataset, backbone, SMALL, tmp_path / "f", changed=told.append)
    assert content(tmp_path / "f") == before
    assert len(told) == 1


def test_picture_of_the_same_size_but_a_later_time_is_read_again(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 2)
    extract(dataset, backbone, SMALL, tmp_path / "f")
    path = dataset.images[0].path
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + 5))
    seen: list[tuple[int, int]] = []
    extract(dataset, backbone, SMALL, tmp_path / "f", progress=lambda *n: seen.append(n))
    assert seen == [(2, 2)]


def test_old_features_stay_where_a_changed_picture_cannot_be_read(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 4)
    ids = [image.id for image in dataset.images]
    kept = extract(dataset, backbone, SMALL, tmp_path / "f").select(ids)
    overwrite(dataset.images[0], 100)
    overwrite(dataset.images[1], 101)
    dataset.images[2].path.write_text("not a picture")
    dataset.images[3].path.unlink()
    with pytest.raises(ExtractionStopped, match="2 of 4 pictures are done"):
        extract(
            dataset,
            backbone,
            SMALL,
            tmp_path / "f",
            options=ExtractionOptions(batch_size=1),
            stop=lambda: True,
        )
    store = FeatureStore.open(tmp_path / "f")
    np.testing.assert_array_equal(store.select(ids[1:]), kept[1:])
    assert np.abs(store.select(ids[:1]) - kept[:1]).max() > 2e-6
    told: list[str] = []
    store = extract(dataset, backbone, SMALL, tmp_path / "f", skipped=told.append)
    np.testing.assert_array_equal(store.select(ids[2:]), kept[2:])
    assert np.abs(store.select([ids[1]]) - kept[1]).max() > 2e-6
    assert [line.split(":")[0] for line in told] == [f"image {ids[2]} (002.png)"]


@pytest.mark.parametrize("crops", [1, 10])
def test_interrupted_run_ends_in_the_same_bytes(
    crops: int, backbone: Backbone, tmp_path: Path
) -> None:
    how, size = replace(SMALL, crops=crops), 2 * crops
    dataset = pictures(tmp_path / "p", 20)
    dataset.images[2].path.write_text("not a picture")
    extract(dataset, backbone, how, tmp_path / "whole", options=ExtractionOptions(batch_size=size))
    for batches in (1, 2, 3):
        stop = iter([*[False] * (batches - 1), True]).__next__
        with pytest.raises(ExtractionStopped, match="of 20 pictures are done and kept"):
            extract(
                dataset,
                backbone,
                how,
                tmp_path / "f",
                options=ExtractionOptions(batch_size=size),
                stop=stop,
            )
    extract(dataset, backbone, how, tmp_path / "f", options=ExtractionOptions(batch_size=size))
    assert content(tmp_path / "f") == content(tmp_path / "whole")


def test_pictures_that_were_skipped_are_tried_again_after_all_others(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the batches of the others are those of a run without interruption."""
    dataset = pictures(tmp_path / "p", 4)
    dataset.images[1].path.write_text("not a picture")
    with pytest.raises(ExtractionStopped, match="2 of 4 pictures"):
        extract(
            dataset,
            backbone,
            SMALL,
            tmp_path / "f",
            options=ExtractionOptions(batch_size=2),
            stop=lambda: True,
        )
    read: list[str] = []

    def watched(path: Path, limits: PictureLimits, at_least: int) -> Pillow.Image:
        read.append(path.name)
        return open_picture(path, limits, at_least)

    monkeypatch.setattr(extraction, "open_picture", watched)
    extract(dataset, backbone, SMALL, tmp_path / "f", options=ExtractionOptions(workers=1))
    assert read == ["002.png", "003.png", "001.png"]


def test_ctrl_c_keeps_what_the_network_has_done(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 8)

    def interrupt(done: int, total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(
            dataset,
            backbone,
            SMALL,
            tmp_path / "f",
            options=ExtractionOptions(batch_size=2),
            progress=interrupt,
        )
    assert len(FeatureStore.open(tmp_path / "f")) == 4


# Children are forked before torch has threads of its own, so that only one program has to start.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import torch
import tests.tiny_network
from hasse.lab.features import extraction
from hasse.lab.features.feature_store import FeatureStore
from hasse.lab.encoders.registry import build_backbone
from hasse.models.datasets import load
from hasse.models.images.preprocessing import Preprocessing
from tests.tiny import TINY

dataset, out, whole = load(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
backbone = build_backbone(TINY).eval()

def run(folder, tell, last):
    def progress(done, total):
        os.write(tell, bytes([done]))
        if done >= last:
            signal.pause()  # to be killed, however late that comes

    extraction.extract(
        dataset, backbone, Preprocessing(resize=36, crop=32), folder,
        extraction.ExtractionOptions(batch_size=2, workers=1), commit_images=1, progress=progress,
    )

def forked(folder, kill_after=None, last=1000):
    listen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        run(folder, tell, last)
        os._exit(0)
    os.close(tell)
    finished = 0
    if kill_after is not None:
        finished = os.read(listen, 1)[0] - 2  # the batch before the one just told is committed
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(listen)
    return finished, os.waitstatus_to_exitcode(status)

assert forked(whole) == (0, 0)
for seed in range(6):
    finished, status = forked(out, random.Random(seed).uniform(0, 0.02), last=10 * (seed + 1))
    assert status == -signal.SIGKILL
    if finished:
        assert len(FeatureStore.open(out)) >= finished
assert forked(out) == (0, 0)
"""


@pytest.mark.slow
def test_kill_at_any_instant_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    save(pictures(tmp_path / "p", 60), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, *map(str, (tmp_path, tmp_path / "f", tmp_path / "whole"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "f") == content(tmp_path / "whole")


@pytest.mark.parametrize(("images", "seconds"), [(3, 1e9), (1000, 25.0)])
def test_extract_commits_after_so_many_images_or_seconds(
    images: int,
    seconds: float,
    backbone: Backbone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, durable, commit = 1000.0, [], Appender.commit

    def passing(done: int, total: int) -> None:
        nonlocal now
        now += 10

    def watched(writer: Appender) -> None:
        commit(writer)
        durable.append(writer.rows)

    monkeypatch.setattr(Appender, "commit", watched)
    dataset = pictures(tmp_path / "p", 7)
    extract(
        dataset,
        backbone,
        SMALL,
        tmp_path / "f",
        options=ExtractionOptions(batch_size=1),
        progress=passing,
        commit_images=images,
        commit_seconds=seconds,
        clock=lambda: now,
    )
    assert durable == [3, 6, 7]


def test_stop_after_the_last_picture_is_ignored(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 2)
    assert len(extract(dataset, backbone, SMALL, tmp_path / "f", stop=lambda: True)) == 2


def test_picture_that_changes_while_it_is_read_is_read_again(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pictures(tmp_path / "p", 2)

    def changing(path: Path, limits: PictureLimits, at_least: int) -> Pillow.Image:
        picture = open_picture(path, limits, at_least)
        picture.load()
        if path == dataset.images[1].path:
            overwrite(dataset.images[1], 100)
        return picture

    with monkeypatch.context() as patch:
        patch.setattr(extraction, "open_picture", changing)
        extract(dataset, backbone, SMALL, tmp_path / "f")
    told: list[str] = []
    extract(dataset, backbone, SMALL, tmp_path / "f", changed=told.append)
    assert told == ["pictures that changed since their features were made: 1, read again"]
