from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow
from torch import Tensor

from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.features import pixel_store
from hasse.lab.features.pixel_store import PixelCache, cache_pixels
from hasse.lab.training.inputs import FeatureInput, ImageInput, PixelInput
from hasse.models.datasets import Dataset, DatasetError, Image
from hasse.models.files import write_atomically
from hasse.models.images.decoding import open_picture
from hasse.models.images.limits import PictureLimits
from hasse.models.images.preprocessing import Preprocessing
from tests.tiny import tiny_model
from tests.tiny_network import FEATURES

LOOKS = Preprocessing(resize=36, crop=32)


def collection(folder: Path, count: int = 9) -> Dataset:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    images = []
    for row in range(count):
        path = folder / f"{row}.png"
        Pillow.fromarray(rng.integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(path)
        images.append(Image(100 + row, path.name, path))
    return Dataset("noise", tuple(images))


def points_of(
    images: ImageInput,
    model: OrderEmbedding,
    rows: NDArray[np.int64],
    augment: np.random.Generator | None = None,
) -> Tensor:
    return images.points(model, images.read(rows, augment))


def test_each_picture_is_its_central_square_scaled(tmp_path: Path) -> None:
    path = tmp_path / "stripes.png"
    stripes = np.zeros((40, 80, 3), dtype=np.uint8)
    stripes[:, 20:60] = 255  # the central square
    Pillow.fromarray(stripes).save(path)
    cache = cache_pixels(Dataset("one", (Image(7, path.name, path),)), LOOKS, tmp_path / "px")
    assert cache.image_ids.tolist() == [7]
    assert cache.pixels.shape == (1, 36, 36, 3)
    inside = cache.pixels[0, :, 1:-1]  # smoothing reaches one pixel beyond the square
    assert inside.min() == 255


def test_cache_pixels_squeezes_the_whole_picture_into_a_square(tmp_path: Path) -> None:
    path = tmp_path / "halves.png"
    halves = np.zeros((40, 80, 3), dtype=np.uint8)
    halves[:, 40:] = 255
    Pillow.fromarray(halves).save(path)
    dataset = Dataset("one", (Image(7, path.name, path),))
    cache = cache_pixels(dataset, replace(LOOKS, framing="whole"), tmp_path / "px")
    assert cache.pixels[0, :, :16].max() == 0
    assert cache.pixels[0, :, 20:].min() == 255


def test_cache_pixels_again_decodes_nothing(tmp_path: Path) -> None:
    dataset = collection(tmp_path / "in")
    first = cache_pixels(dataset, LOOKS, tmp_path / "px")
    for image in dataset.images:
        image.path.unlink()
    second = cache_pixels(dataset, LOOKS, tmp_path / "px")
    np.testing.assert_array_equal(first.pixels, second.pixels)


def test_another_size_is_decoded_again(tmp_path: Path) -> None:
    dataset = collection(tmp_path / "in", 2)
    cache_pixels(dataset, LOOKS, tmp_path / "px")
    other = cache_pixels(dataset, Preprocessing(resize=20, crop=16), tmp_path / "px")
    assert other.pixels.shape == (2, 20, 20, 3)


def test_changed_pictures_are_decoded_again_and_missing_ones_stay(
    tmp_path: Path,
) -> None:
    dataset = collection(tmp_path / "in", 3)
    kept = np.array(cache_pixels(dataset, LOOKS, tmp_path / "px").pixels)
    dataset.images[0].path.unlink()
    np.testing.assert_array_equal(cache_pixels(dataset, LOOKS, tmp_path / "px").pixels, kept)
    Pillow.new("RGB", (50, 70)).save(dataset.images[0].path)
    changed = cache_pixels(dataset, LOOKS, tmp_path / "px").pixels
    assert changed[0].max() == 0
    np.testing.assert_array_equal(changed[1:], kept[1:])


def test_killed_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = collection(tmp_path / "in")
    straight = np.array(cache_pixels(dataset, LOOKS, tmp_path / "straight").pixels)
    opened: list[str] = []
    dies = True

    def watched(path: Path, limits: PictureLimits, at_least: int) -> Pillow.Image:
        if dies and len(opened) == 5:
            raise MemoryError
        opened.append(path.name)
        return open_picture(path, limits, at_least)

    monkeypatch.setattr(pixel_store, "open_picture", watched)
    with pytest.raises(MemoryError):
        cache_pixels(dataset, LOOKS, tmp_path / "px", workers=1, chunk=2)
    dies = False
    cache = cache_pixels(dataset, LOOKS, tmp_path / "px", workers=1, chunk=2)
    np.testing.assert_array_equal(cache.pixels, straight)
    assert opened.count("3.png") == 1  # finished before the kill, not decoded again
    assert opened.count("4.png") == 2


@pytest.mark.parametrize("name", [pixel_store.PIXELS, pixel_store.MANIFEST])
def test_damaged_cache_is_made_again(tmp_path: Path, name: str) -> None:
    dataset = collection(tmp_path / "in")
    expected = np.array(cache_pixels(dataset, LOOKS, tmp_path / "px").pixels)
    (tmp_path / "px" / name).write_bytes((tmp_path / "px" / name).read_bytes()[:50])
    np.testing.assert_array_equal(cache_pixels(dataset, LOOKS, tmp_path / "px").pixels, expected)


@pytest.mark.parametrize("asked", ["old", "new"])
def test_kill_before_the_manifest_leaves_no_wrong_picture(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = collection(tmp_path / "in")
    datasets = {"old": old, "new": replace(old, images=old.images[::-1])}
    expected = np.array(cache_pixels(datasets[asked], LOOKS, tmp_path / "whole").pixels)
    cache_pixels(old, LOOKS, tmp_path / "px")

    def dies(path: Path, content: bytes) -> None:
        if path.name == pixel_store.MANIFEST:
            raise KeyboardInterrupt
        write_atomically(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(pixel_store, "write_atomically", dies)
        with pytest.raises(KeyboardInterrupt):
            cache_pixels(datasets["new"], LOOKS, tmp_path / "px")
    cached = cache_pixels(datasets[asked], LOOKS, tmp_path / "px")
    np.testing.assert_array_equal(cached.pixels, expected)


def test_damaged_picture_is_left_out_with_one_line(tmp_path: Path) -> None:
    dataset = collection(tmp_path / "in", 3)
    path = dataset.images[1].path
    path.write_bytes(path.read_bytes()[:60])
    lines: list[str] = []
    cache = cache_pixels(dataset, LOOKS, tmp_path / "px", skipped=lines.append)
    assert cache.image_ids.tolist() == [100, 102]
    assert len(lines) == 1
    assert "image 101 (1.png)" in lines[0]


def test_no_readable_picture_is_an_error(tmp_path: Path) -> None:
    missing = Dataset("gone", (Image(1, "x.jpg", tmp_path / "x.jpg"),))
    with pytest.raises(DatasetError, match="no picture of the dataset 'gone'"):
        cache_pixels(missing, LOOKS, tmp_path / "px")


def test_cached_centre_crop_is_close_to_what_the_service_sees(tmp_path: Path) -> None:
    # Training reads the cache, the service decodes the file: one picture, nearly one point.
    path = tmp_path / "smooth.png"
    gradient = np.linspace(0, 255, 90 * 120 * 3).reshape(90, 120, 3).astype(np.uint8)
    Pillow.fromarray(gradient).save(path)
    cache = cache_pixels(Dataset("one", (Image(7, path.name, path),)), LOOKS, tmp_path / "px")
    model = tiny_model()
    with torch.inference_mode():
        trained_on = points_of(PixelInput(cache), model, np.array([0])).numpy()
    with Pillow.open(path) as picture:
        served = model.encode_images([picture])
    np.testing.assert_allclose(trained_on, served, atol=0.02)


def test_pixel_input_crops_and_mirrors_only_in_training(tmp_path: Path) -> None:
    cache = cache_pixels(collection(tmp_path / "in", 4), LOOKS, tmp_path / "px")
    rows, model = np.arange(4), tiny_model()
    images = PixelInput(cache)
    with torch.inference_mode():
        plain = points_of(images, model, rows)
        again = points_of(images, model, rows)
        varied = points_of(images, model, rows, np.random.default_rng(1))
        repeated = points_of(images, model, rows, np.random.default_rng(1))
    assert plain.equal(again)
    assert varied.equal(repeated)
    assert not plain.equal(varied)


def test_pixel_input_crops_anywhere_and_mirrors_half_the_time() -> None:
    side, spare = LOOKS.crop, LOOKS.resize - LOOKS.crop
    places = np.indices((LOOKS.resize, LOOKS.resize), dtype=np.uint8).transpose(1, 2, 0)
    pixels = np.concatenate([places, np.zeros_like(places[..., :1])], axis=2)[None]
    images = PixelInput(PixelCache(np.array([7]), pixels, LOOKS))
    rows = np.zeros(400, dtype=np.int64)
    cuts = images.read(rows, np.random.default_rng(0)).numpy().astype(int)
    top, left = cuts[:, 0, 0, 0], cuts[:, 0, [0, -1], 1].min(1)
    assert set(top) == set(left) == set(range(spare + 1))
    mirrored = cuts[:, 0, 0, 1] > cuts[:, 0, -1, 1]
    assert 150 < mirrored.sum() < 250
    for cut, first, other, turn in zip(cuts, top, left, mirrored, strict=True):
        across = other + np.arange(side)
        np.testing.assert_array_equal(cut[0, :, 1], across[::-1] if turn else across)
        np.testing.assert_array_equal(cut[:, 0, 0], first + np.arange(side))


def test_in_mixed_precision_the_network_rounds_and_the_points_are_of_float32() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 36, 36, 3), dtype=np.uint8)
    cache, model, rows = PixelCache(np.arange(2), pixels, LOOKS), tiny_model(), np.arange(2)
    with torch.inference_mode():
        exact, rough = (
            points_of(PixelInput(cache, bfloat16=rounds), model, rows) for rounds in (False, True)
        )
    assert rough.dtype == torch.float32
    assert not rough.equal(exact)
    torch.testing.assert_close(rough, exact, atol=0.02, rtol=0)
    torch.testing.assert_close(rough.norm(dim=1), torch.ones(2))


def test_features_are_projected_as_the_model_does() -> None:
    model = tiny_model()
    features = np.random.default_rng(0).random((5, FEATURES)).astype(np.float16)
    images = FeatureInput(np.arange(5), features)
    with torch.inference_mode():
        points = points_of(images, model, np.array([4, 1])).numpy()
    np.testing.assert_allclose(points, model.encode_features(features[[4, 1]]), atol=1e-6)


def test_feature_input_reads_any_view_in_training_and_the_picture_otherwise() -> None:
    model = tiny_model()
    views = np.random.default_rng(0).random((2, 3, FEATURES)).astype(np.float16)
    images = FeatureInput(np.arange(2), views[:, 0], views)
    rows = np.repeat([1], 60)
    with torch.inference_mode():
        plain = points_of(images, model, rows).numpy()
        varied = points_of(images, model, rows, np.random.default_rng(0)).numpy()
    expected = model.encode_features(views[1])
    np.testing.assert_allclose(plain, np.repeat(expected[:1], 60, axis=0), atol=1e-6)
    nearest = np.abs(varied[:, None] - expected[None]).max(2)  # (60, 3)
    assert nearest.min(1).max() < 1e-6
    assert set(nearest.argmin(1)) == {0, 1, 2}
