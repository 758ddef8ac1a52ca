"""Features are computed once, kept through kills and full disks, and never of the wrong thing."""

from __future__ import annotations

import copy
import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from models.datasets import Dataset, Image, save
from models.encoders.backbone import Backbone, build_backbone
from models.encoders.backbone_weights import BackboneError
from models.encoders.regions import REGIONS, pool_regions
from models.files import FolderLockedError
from models.images import feature_store, prefetch
from models.images.decoding import open_picture
from models.images.feature_store import Appender, Maker, appending
from models.images.features import ExtractionStopped, FeaturesError, FeatureStore, extract
from models.images.limits import PictureLimits
from models.images.preprocessing import Preprocessing

SMALL = Preprocessing(resize=36, crop=32)


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    torch.manual_seed(0)
    return build_backbone("shufflenet_v2_x0_5").eval()


def pictures(folder: Path, count: int, first_id: int = 1) -> Dataset:
    """Draw that many pictures, all different, with ids that are in no order."""
    folder.mkdir(parents=True, exist_ok=True)
    images = []
    for at in range(count):
        path = folder / f"{at:03d}.png"
        pixels = np.random.default_rng(at).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Pillow.fromarray(pixels).save(path)
        images.append(Image(first_id + at * 7 % 101, path.name, path, "train"))
    return Dataset("noise", tuple(images))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refusal(*args: object, **options: object) -> str:
    with pytest.raises(FeaturesError) as caught:
        extract(*args, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("crops", [1, 10])
def test_features_are_the_networks_averaged_over_crops(
    crops: int, backbone: Backbone, tmp_path: Path
) -> None:
    how = replace(SMALL, crops=crops)
    dataset = pictures(tmp_path / "p", 7)
    store = extract(dataset, backbone, how, tmp_path / "f", batch_size=8, workers=1)
    assert store.image_ids.tolist() == [image.id for image in dataset.images]
    assert store.views()[:, 0].shape == (7, 1024)
    with torch.inference_mode():
        for image, row in zip(dataset.images, store.views()[:, 0], strict=True):
            expected = backbone(how.apply(open_picture(image.path))).mean(0)
            torch.testing.assert_close(
                torch.from_numpy(row.astype(np.float32)), expected, rtol=2e-3, atol=2e-7
            )
    assert (store.maker.weights, store.maker.preprocessing) == (backbone.fingerprint(), how)


def test_views_are_kept_beside_and_an_interruption_changes_none_of_them(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 5)
    plain = extract(dataset, backbone, SMALL, tmp_path / "plain")
    store = extract(dataset, backbone, SMALL, tmp_path / "whole", views=3)
    assert store.views().shape == (5, 4, 1024)
    np.testing.assert_allclose(store.views()[:, 0], plain.views()[:, 0], rtol=2e-3, atol=2e-7)
    draw = np.random.default_rng(dataset.images[2].id)
    picture = open_picture(dataset.images[2].path)
    with torch.inference_mode():
        for view in store.views()[2, 1:]:
            expected = backbone(SMALL.random_view(picture, draw)[None])[0]
            torch.testing.assert_close(
                torch.from_numpy(view.astype(np.float32)), expected, rtol=2e-3, atol=2e-7
            )
    extract(replace(dataset, images=dataset.images[:2]), backbone, SMALL, tmp_path / "f", views=3)
    extract(dataset, backbone, SMALL, tmp_path / "f", views=3)
    np.testing.assert_allclose(
        FeatureStore.open(tmp_path / "f").views(), store.views(), rtol=2e-3, atol=2e-7
    )
    assert "the number of views was 3 and is now 0" in refusal(
        dataset, backbone, SMALL, tmp_path / "f"
    )


def test_features_of_regions_are_those_of_the_networks_grid(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = build_backbone("mobilenet_v2").eval()
    dataset, looks = pictures(tmp_path / "p", 3), Preprocessing(resize=100, crop=96)
    whole = extract(dataset, network, looks, tmp_path / "whole", views=1)
    store = extract(dataset, network, looks, tmp_path / "f", views=1, regions=True)
    assert not network.grid, "the network that was given stays as it was"
    assert store.views(regions=True).shape == (3, 2, REGIONS, 1280)
    np.testing.assert_allclose(store.views(), whole.views(), rtol=4e-3, atol=2e-4)
    ids = [image.id for image in dataset.images[:2]]
    seeing = copy.deepcopy(network).keep_grid()
    with torch.inference_mode():
        for image, seen in zip(dataset.images, store.select(ids, regions=True), strict=False):
            expected = pool_regions(seeing(looks.apply(open_picture(image.path))))[0]
            torch.testing.assert_close(torch.from_numpy(seen), expected, rtol=4e-3, atol=2e-4)
    np.testing.assert_array_equal(store.select(ids), store.select(ids, regions=True)[:, 0])
    with pytest.raises(FeaturesError, match="are of whole pictures"):
        whole.select(ids, regions=True)
    assert "whether regions have features (--regions) was True and is now False" in refusal(
        dataset, network, looks, tmp_path / "f", views=1
    )


def test_a_network_without_a_grid_has_no_features_of_regions(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 1)
    with pytest.raises(BackboneError, match="so it has no regions"):
        extract(dataset, backbone, SMALL, tmp_path / "f", regions=True)
    assert not (tmp_path / "f").exists()


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


def test_a_finished_run_is_not_done_again(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pictures(tmp_path / "p", 5)
    extract(dataset, backbone, SMALL, tmp_path / "f")
    before = content(tmp_path / "f")
    monkeypatch.setattr(prefetch, "open_picture", None)
    extract(dataset, backbone, SMALL, tmp_path / "f")
    assert content(tmp_path / "f") == before


def test_progress_counts_what_was_there_before(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 6)
    part = replace(dataset, images=dataset.images[:4])
    extract(part, backbone, SMALL, tmp_path / "f")
    seen: list[tuple[int, int]] = []
    extract(
        dataset, backbone, SMALL, tmp_path / "f", batch_size=1, progress=lambda *n: seen.append(n)
    )
    assert seen == [(5, 6), (6, 6)]


def test_a_dataset_that_grew_gets_the_new_ones_appended(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 6)
    first = extract(replace(dataset, images=dataset.images[2:4]), backbone, SMALL, tmp_path / "f")
    kept = np.array(first.views()[:, 0])
    store = extract(dataset, backbone, SMALL, tmp_path / "f")
    assert store.image_ids.tolist() == [dataset.images[at].id for at in (2, 3, 0, 1, 4, 5)]
    np.testing.assert_array_equal(store.views()[:, 0][:2], kept)


def overwrite(image: Image, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (60, 50, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(image.path)


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
        patch.setattr(prefetch, "open_picture", watched)
        store = extract(dataset, backbone, SMALL, tmp_path / "f", workers=1, changed=told.append)
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


def test_a_picture_of_the_same_size_but_a_later_time_is_read_again(
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
        extract(dataset, backbone, SMALL, tmp_path / "f", batch_size=1, stop=lambda: True)
    store = FeatureStore.open(tmp_path / "f")
    np.testing.assert_array_equal(store.select(ids[1:]), kept[1:])
    assert np.abs(store.select(ids[:1]) - kept[:1]).max() > 2e-6
    told: list[str] = []
    store = extract(dataset, backbone, SMALL, tmp_path / "f", skipped=told.append)
    np.testing.assert_array_equal(store.select(ids[2:]), kept[2:])
    assert np.abs(store.select([ids[1]]) - kept[1]).max() > 2e-6
    assert [line.split(":")[0] for line in told] == [f"image {ids[2]} (002.png)"]


def test_damaged_pictures_are_left_out_told_and_tried_again(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 5)
    damaged, missing = dataset.images[1], dataset.images[3]
    whole = damaged.path.read_bytes()
    damaged.path.write_bytes(whole[:300])
    missing.path.unlink()
    told: list[str] = []
    store = extract(dataset, backbone, SMALL, tmp_path / "f", batch_size=2, skipped=told.append)
    assert len(store) == 3
    assert list(store.skipped.values()) == told
    assert told[0].startswith(f"image {damaged.id} (001.png): damaged or cut short")
    assert told[1] == f"image {missing.id} (003.png): file not found: skipped"
    damaged.path.write_bytes(whole)
    store = extract(dataset, backbone, SMALL, tmp_path / "f")
    assert store.image_ids.tolist()[-1] == damaged.id
    assert list(store.skipped) == [missing.id]


def test_nothing_readable_is_an_error(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 1)
    dataset.images[0].path.unlink()
    assert "no picture of 'noise' could be read" in refusal(
        dataset, backbone, SMALL, tmp_path / "f"
    )


@pytest.mark.parametrize("crops", [1, 10])
def test_an_interrupted_run_ends_in_the_same_bytes(
    crops: int, backbone: Backbone, tmp_path: Path
) -> None:
    how, size = replace(SMALL, crops=crops), 2 * crops
    dataset = pictures(tmp_path / "p", 20)
    dataset.images[2].path.write_text("not a picture")
    extract(dataset, backbone, how, tmp_path / "whole", batch_size=size)
    for batches in (1, 2, 3):
        stop = iter([*[False] * (batches - 1), True]).__next__
        with pytest.raises(ExtractionStopped, match="of 20 pictures are done and kept"):
            extract(dataset, backbone, how, tmp_path / "f", batch_size=size, stop=stop)
    extract(dataset, backbone, how, tmp_path / "f", batch_size=size)
    assert content(tmp_path / "f") == content(tmp_path / "whole")


def test_pictures_that_were_skipped_are_tried_again_after_all_others(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the batches of the others are those of a run without interruption."""
    dataset = pictures(tmp_path / "p", 4)
    dataset.images[1].path.write_text("not a picture")
    with pytest.raises(ExtractionStopped, match="2 of 4 pictures"):
        extract(dataset, backbone, SMALL, tmp_path / "f", batch_size=2, stop=lambda: True)
    read: list[str] = []

    def watched(path: Path, limits: PictureLimits, at_least: int) -> Pillow.Image:
        read.append(path.name)
        return open_picture(path, limits, at_least)

    monkeypatch.setattr(prefetch, "open_picture", watched)
    extract(dataset, backbone, SMALL, tmp_path / "f", workers=1)
    assert read == ["002.png", "003.png", "001.png"]


def test_ctrl_c_keeps_what_the_network_has_done(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 8)

    def interrupt(done: int, total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(dataset, backbone, SMALL, tmp_path / "f", batch_size=2, progress=interrupt)
    assert len(FeatureStore.open(tmp_path / "f")) == 4


# Children are forked before torch has threads of its own, so that only one program has to start.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from models.images import features
from models.encoders.backbone import build_backbone
from models.datasets import load
from models.images.preprocessing import Preprocessing

dataset, out, whole = load(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
backbone = build_backbone("shufflenet_v2_x0_5").eval()

def run(folder, tell):
    features.extract(
        dataset, backbone, Preprocessing(resize=36, crop=32), folder, batch_size=2, workers=1,
        commit_images=1, progress=lambda done, total: os.write(tell, bytes([done])),
    )

def forked(folder, kill_after=None):
    listen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        run(folder, tell)
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
kills = 0
for seed in range(6):
    finished, status = forked(out, random.Random(seed).uniform(0, 0.02))
    kills += status == -signal.SIGKILL
    assert status in {0, -signal.SIGKILL}
    if finished:
        assert len(features.FeatureStore.open(out)) >= finished
assert forked(out) == (0, 0)
print(kills)
"""


@pytest.mark.slow
def test_a_kill_at_any_instant_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    save(pictures(tmp_path / "p", 60), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, *map(str, (tmp_path, tmp_path / "f", tmp_path / "whole"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    assert content(tmp_path / "f") == content(tmp_path / "whole")


def test_rows_beyond_the_count_of_the_manifest_are_overwritten(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 4)
    extract(dataset, backbone, SMALL, tmp_path / "whole", batch_size=2)
    extract(replace(dataset, images=dataset.images[:2]), backbone, SMALL, tmp_path / "f")
    for name in (feature_store.FEATURES, feature_store.IMAGES, feature_store.STAMPS):
        with (tmp_path / "f" / name).open("ab") as file:
            file.write(b"\xff" * 777)
    assert len(FeatureStore.open(tmp_path / "f")) == 2
    extract(dataset, backbone, SMALL, tmp_path / "f", batch_size=2)
    assert content(tmp_path / "f") == content(tmp_path / "whole")


def test_another_network_weights_preprocessing_or_dataset_is_refused_and_named(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 3)
    out = tmp_path / "f"
    extract(dataset, backbone, SMALL, out)
    before = content(out)
    assert "the network was shufflenet_v2_x0_5 and is now shufflenet_v2_x1_0" in refusal(
        dataset, build_backbone("shufflenet_v2_x1_0"), SMALL, out
    )
    assert "its weights (fingerprint) was" in refusal(
        dataset, build_backbone("shufflenet_v2_x0_5"), SMALL, out
    )
    assert "the preprocessing was" in refusal(dataset, backbone, replace(SMALL, crop=30), out)
    renamed = replace(dataset.images[0], file_name="other.png")
    assert "is not other.png" in refusal(
        replace(dataset, images=(renamed, *dataset.images[1:])), backbone, SMALL, out
    )
    assert "shares no image with 'noise'" in refusal(
        pictures(tmp_path / "q", 3, first_id=900), backbone, SMALL, out
    )
    assert content(out) == before


def test_features_that_are_not_finite_are_refused_with_the_image(
    backbone: Backbone, tmp_path: Path
) -> None:
    broken = build_backbone("shufflenet_v2_x0_5")
    dataset = pictures(tmp_path / "p", 2)
    with torch.no_grad():
        broken.get_parameter("network.conv5.1.bias").fill_(1e6)
    assert f"gives image {dataset.images[0].id} (000.png) features that are beyond" in refusal(
        dataset, broken, SMALL, tmp_path / "large"
    )
    with torch.no_grad():
        broken.get_parameter("network.conv5.1.bias").fill_(torch.nan)
    assert "features that are not numbers" in refusal(dataset, broken, SMALL, tmp_path / "nan")


def test_a_full_disk_keeps_what_is_there_and_says_so(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pictures(tmp_path / "p", 6)
    extract(replace(dataset, images=dataset.images[:2]), backbone, SMALL, tmp_path / "f")
    for failing in ("_append", "write_atomically"):
        with monkeypatch.context() as patch:

            def full(*_: object) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(feature_store, failing, full)
            assert "No space left on device" in refusal(dataset, backbone, SMALL, tmp_path / "f")
        assert len(FeatureStore.open(tmp_path / "f")) == 2
    assert len(extract(dataset, backbone, SMALL, tmp_path / "f")) == 6


def test_extract_names_the_remedy_for_full_memory_and_for_a_wrong_size(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pictures(tmp_path / "p", 2)
    with pytest.raises(BackboneError, match=r"cannot take pictures of 8 x 8 pixels"):
        extract(dataset, build_backbone("squeezenet1_1"), replace(SMALL, crop=8), tmp_path / "f")
    monkeypatch.setattr(Backbone, "require_side", lambda *_: None)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Backbone, "forward", full)
    assert "lower --batch-size" in refusal(dataset, backbone, SMALL, tmp_path / "f")


def appended(folder: Path, count: int) -> None:
    """Append that many rows, of three images by turns, each with its number for features."""
    images = [Image(row % 3, f"{row % 3}.png", Path(f"{row % 3}.png")) for row in range(count)]
    with appending(folder, Maker("network", "weights", 1, SMALL)) as writer:
        writer.add(images, [1] * count, np.arange(count, dtype=np.float16)[:, None, None])
        writer.commit()


def test_the_last_row_of_an_image_counts(tmp_path: Path) -> None:
    appended(tmp_path, 300)
    store = FeatureStore.open(tmp_path)
    assert store.select([2, 0, 1]).tolist() == [[299], [297], [298]]
    assert len(store) == 3


def test_a_store_without_rows_is_refused(tmp_path: Path) -> None:
    with appending(tmp_path, Maker("network", "weights", 1, SMALL)) as writer:
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
        batch_size=1,
        progress=passing,
        commit_images=images,
        commit_seconds=seconds,
        clock=lambda: now,
    )
    assert durable == [3, 6, 7]


def test_batch_size_bounds_the_crops_of_a_batch(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    forward = Backbone.forward

    def watched(network: Backbone, crops: torch.Tensor) -> torch.Tensor:
        taken.append(len(crops))
        return forward(network, crops)

    monkeypatch.setattr(Backbone, "forward", watched)
    dataset, how = pictures(tmp_path / "p", 5), replace(SMALL, crops=10)
    for size, batches in ((24, [24, 24, 12]), (20, [12] * 5), (8, [8, 4] * 5)):
        taken.clear()
        extract(dataset, backbone, how, tmp_path / f"{size}", views=2, batch_size=size)
        assert [count for count in taken if count > 1] == batches


def test_a_stop_after_the_last_picture_is_ignored(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 2)
    assert len(extract(dataset, backbone, SMALL, tmp_path / "f", stop=lambda: True)) == 2


def test_a_picture_that_changes_while_it_is_read_is_read_again(
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
        patch.setattr(prefetch, "open_picture", changing)
        extract(dataset, backbone, SMALL, tmp_path / "f")
    told: list[str] = []
    extract(dataset, backbone, SMALL, tmp_path / "f", changed=told.append)
    assert told == ["pictures that changed since their features were made: 1, read again"]


def test_a_second_commit_writes_nothing_again(backbone: Backbone, tmp_path: Path) -> None:
    dataset, folder = pictures(tmp_path / "p", 3), tmp_path / "f"
    extract(dataset, backbone, SMALL, folder)
    store = FeatureStore.open(folder)
    with appending(folder, store.maker) as writer:
        writer.add(dataset.images[:1], [1], store.rows[:1])
        writer.commit()
        writer.commit()
        assert writer.rows == 4


def test_a_second_writer_is_refused(backbone: Backbone, tmp_path: Path) -> None:
    dataset = pictures(tmp_path / "p", 2)
    maker = extract(dataset, backbone, SMALL, tmp_path / "f").maker
    with appending(tmp_path / "f", maker), pytest.raises(FolderLockedError):
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
