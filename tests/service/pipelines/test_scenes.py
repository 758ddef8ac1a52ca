"""The collection on disk: reproducible, addressable and of the promised shape."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from hasse.models.datasets import DatasetError, load
from hasse.scenes import Scene, Statement, holds
from hasse.service.pipelines.scenes import generate


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "images").iterdir())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scenes")
    generate(made, train=40, val=5, test=6, seed=1, size=64, workers=1)
    return made


@pytest.mark.slow
def test_same_seed_draws_the_same_bytes_in_any_number_of_processes(
    folder: Path, tmp_path: Path
) -> None:
    generate(tmp_path, train=40, val=5, test=6, seed=1, size=64, workers=2)
    assert contents(tmp_path) == contents(folder)
    assert (tmp_path / "dataset.json").read_bytes() == (folder / "dataset.json").read_bytes()


def test_smaller_collection_is_a_part_of_a_larger_one(folder: Path, tmp_path: Path) -> None:
    generate(tmp_path, train=7, val=0, test=3, seed=1, size=64, workers=1)
    assert contents(tmp_path).items() <= contents(folder).items()
    larger = {image.id: image for image in load(folder).images}
    for image in load(tmp_path).images:
        assert image.captions == larger[image.id].captions


def test_another_seed_or_split_draws_other_pictures(folder: Path, tmp_path: Path) -> None:
    generate(tmp_path, train=6, val=0, test=0, seed=2, size=64, workers=1)
    pictures = list(contents(folder).values())
    assert len(set(pictures)) == len(pictures)
    assert set(contents(tmp_path).values()).isdisjoint(pictures)


def test_dataset_has_coco_ids_splits_meanings_and_true_captions(folder: Path) -> None:
    dataset = load(folder)
    assert dataset.splits() == {"train": 40, "val": 5, "test": 6}
    assert len({image.id for image in dataset.images}) == 51
    assert len({caption.id for caption in dataset.captions}) == 5 * 51
    assert dataset.split("test").images[0].file_name == "scenes_test_000002000001.jpg"
    for image in dataset.images:
        assert image.meaning is not None
        scene = Scene.from_json(image.meaning)
        for caption in image.captions:
            assert caption.meaning is not None
            statement = Statement.from_json(caption.meaning)
            assert statement.text == caption.text
            assert holds(statement, scene)
        with Image.open(image.path) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "RGB", (64, 64))


def test_running_again_into_the_same_folder_completes_it(folder: Path, tmp_path: Path) -> None:
    generate(tmp_path, train=10, val=0, test=0, seed=1, size=64, workers=1)
    (tmp_path / "images" / "scenes_train_000000000004.jpg").unlink()
    (tmp_path / "images" / "scenes_train_000000000005.jpg").write_bytes(b"cut off")
    generate(tmp_path, train=40, val=5, test=6, seed=1, size=64, workers=1)
    assert contents(tmp_path) == contents(folder)


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def listen(done: int, total: int) -> None:
        told.append((done, total))

    generate(tmp_path, train=40, val=0, test=1, size=32, workers=1, progress=listen)
    assert told == sorted(told)
    assert told[-1] == (41, 41)


@pytest.mark.parametrize(
    ("train", "size", "workers", "words"),
    [(0, 64, 1, "at least 1"), (-1, 64, 1, "train -1"), (1, 8, 1, "not 8"), (1, 64, 0, "not 0")],
)
def test_impossible_collections_are_refused_with_the_remedy(
    tmp_path: Path, train: int, size: int, workers: int, words: str
) -> None:
    with pytest.raises(DatasetError, match=words):
        generate(tmp_path, train=train, val=0, test=0, size=size, workers=workers)
    assert not list(tmp_path.iterdir())
