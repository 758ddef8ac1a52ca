"""Features are what the network gives for a picture, or a sentence that says why not."""

from __future__ import annotations

import copy
import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.pooling import pool_regions
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features import feature_store
from hasse.lab.features.extraction import ExtractionOptions, extract
from hasse.lab.features.feature_store import FeaturesError, FeatureStore
from hasse.models.encoders.regions import REGIONS
from hasse.models.errors import BackboneError
from hasse.models.images.decoding import open_picture
from hasse.models.images.preprocessing import Preprocessing
from tests.lab.features.noise import SMALL, content, pictures, refusal
from tests.tiny import TINY, TINY_DROPPING
from tests.tiny_network import FEATURES


@pytest.mark.parametrize("crops", [1, 10])
def test_features_are_the_networks_averaged_over_crops(
    crops: int, backbone: Backbone, tmp_path: Path
) -> None:
    how = replace(SMALL, crops=crops)
    dataset = pictures(tmp_path / "p", 7)
    store = extract(
        dataset, backbone, how, tmp_path / "f", options=ExtractionOptions(batch_size=8, workers=1)
    )
    assert store.image_ids.tolist() == [image.id for image in dataset.images]
    assert store.views()[:, 0].shape == (7, FEATURES)
    with torch.inference_mode():
        for image, row in zip(dataset.images, store.views()[:, 0], strict=True):
            expected = backbone(torch.from_numpy(how.apply(open_picture(image.path)))).mean(0)
            torch.testing.assert_close(
                torch.from_numpy(row.astype(np.float32)), expected, rtol=2e-3, atol=2e-7
            )
    assert (store.maker.weights, store.maker.preprocessing) == (backbone.fingerprint(), how)


def test_features_of_regions_are_those_of_the_networks_grid(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = build_backbone("torchvision/mobilenet_v2").eval()
    dataset, looks = pictures(tmp_path / "p", 3), Preprocessing(resize=100, crop=96)
    whole = extract(dataset, network, looks, tmp_path / "whole", options=ExtractionOptions(views=1))
    store = extract(
        dataset, network, looks, tmp_path / "f", options=ExtractionOptions(views=1, regions=True)
    )
    assert not network.grid, "the network that was given stays as it was"
    assert store.views(regions=True).shape == (3, 2, REGIONS, 1280)
    np.testing.assert_allclose(store.views(), whole.views(), rtol=4e-3, atol=2e-4)
    ids = [image.id for image in dataset.images[:2]]
    seeing = copy.deepcopy(network).keep_grid()
    with torch.inference_mode():
        for image, seen in zip(dataset.images, store.select(ids, regions=True), strict=False):
            pixels = torch.from_numpy(looks.apply(open_picture(image.path)))
            expected = pool_regions(seeing(pixels))[0]
            torch.testing.assert_close(torch.from_numpy(seen), expected, rtol=4e-3, atol=2e-4)
    np.testing.assert_array_equal(store.select(ids), store.select(ids, regions=True)[:, 0])
    with pytest.raises(FeaturesError, match="are of whole pictures"):
        whole.select(ids, regions=True)
    assert "whether regions have features (--regions) was True and is now False" in refusal(
        dataset, network, looks, tmp_path / "f", options=ExtractionOptions(views=1)
    )


def test_network_without_a_grid_has_no_features_of_regions(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 1)
    with pytest.raises(BackboneError, match="so it has no regions"):
        extract(dataset, backbone, SMALL, tmp_path / "f", options=ExtractionOptions(regions=True))
    assert not (tmp_path / "f").exists()


def test_damaged_pictures_are_left_out_told_and_tried_again(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 5)
    damaged, missing = dataset.images[1], dataset.images[3]
    whole = damaged.path.read_bytes()
    damaged.path.write_bytes(whole[:300])
    missing.path.unlink()
    told: list[str] = []
    store = extract(
        dataset,
        backbone,
        SMALL,
        tmp_path / "f",
        options=ExtractionOptions(batch_size=2),
        skipped=told.append,
    )
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


def test_another_network_weights_preprocessing_or_dataset_is_refused_and_named(
    backbone: Backbone, tmp_path: Path
) -> None:
    dataset = pictures(tmp_path / "p", 3)
    out = tmp_path / "f"
    extract(dataset, backbone, SMALL, out)
    before = content(out)
    assert f"the network was {TINY} and is now {TINY_DROPPING}" in refusal(
        dataset, build_backbone(TINY_DROPPING), SMALL, out
    )
    assert "its weights (fingerprint) was" in refusal(dataset, build_backbone(TINY), SMALL, out)
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
    broken = build_backbone(TINY)
    dataset = pictures(tmp_path / "p", 2)
    with torch.no_grad():
        broken.get_parameter("network.features.4.bias").fill_(1e6)
    assert f"gives image {dataset.images[0].id} (000.png) features that are beyond" in refusal(
        dataset, broken, SMALL, tmp_path / "large"
    )
    with torch.no_grad():
        broken.get_parameter("network.features.4.bias").fill_(torch.nan)
    assert "features that are not numbers" in refusal(dataset, broken, SMALL, tmp_path / "nan")


def test_full_disk_keeps_what_is_there_and_says_so(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = pictures(tmp_path / "p", 6)
    extract(replace(dataset, images=dataset.images[:2]), backbone, SMALL, tmp_path / "f")
    for failing in ("write_at", "write_atomically"):
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
        extract(
            dataset,
            build_backbone("torchvision/squeezenet1_1"),
            replace(SMALL, crop=8),
            tmp_path / "f",
        )
    monkeypatch.setattr(Backbone, "require_side", lambda *_: None)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Backbone, "forward", full)
    assert "lower --batch-size" in refusal(dataset, backbone, SMALL, tmp_path / "f")


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
        extract(
            dataset,
            backbone,
            how,
            tmp_path / f"{size}",
            options=ExtractionOptions(views=2, batch_size=size),
        )
        assert [count for count in taken if count > 1] == batches
