"""Where the files of hits lie, and searches over a folder or a range of dates."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hasse
from hasse.index.catalog.selection import Selection
from hasse.index.search.query import Query
from hasse.index.store import Index
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.cli.shell import hasse as command
from tests.service.client import Client
from tests.service.collection import picture, png
from tests.tiny import tiny_checkpoint

FILES = ("holiday/a.png", "holiday 2/b.png", "Holiday/c.png", "d.png", "far/e%_.png")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A followed folder of five pictures, and a copy of one of them, beside its index."""
    folder = tmp_path_factory.mktemp("paths")
    for at, name in enumerate(FILES):
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(at).save(path)
        path.with_suffix(".txt").write_text(f"a dog {at}")
        day = 86_400 * at
        os.utime(path, (day, day))
    shutil.copy2(folder / "pictures" / FILES[0], folder / "pictures" / "z.png")
    model = tiny_checkpoint(folder / "model")
    done = command(
        "add",
        folder / "pictures",
        "--library",
        folder / "index",
        "--model",
        model,
        "--device",
        "cpu",
    )
    assert done.status == 0, done.err
    return folder


@pytest.fixture(scope="module")
def served(followed: Path) -> Iterator[Client]:
    with Client(create_app(Settings(library=followed / "index", device="cpu"))) as client:
        yield client


def found(client: Client, **options: Any) -> set[str]:
    """Return the paths that searches for images and for captions agree on, in every mode."""
    seen = []
    for mode in ("certified", "exact", "fast"):
        asked = {"k": 100, "mode": mode, **options}
        images = client.post("/search/images", json={"caption": "a dog", **asked}).json()
        form = {name: str(value) for name, value in asked.items()}
        captions = client.post(
            "/search/captions", data=form, files={"image": ("a.png", png(1))}
        ).json()
        assert images["certified"]
        assert captions["certified"]
        seen += [{hit["path"] for hit in answer["hits"]} for answer in (images, captions)]
        assert images["searched"] == len(images["hits"])
    assert all(one == seen[0] for one in seen)
    return seen[0]


def test_hits_over_http_have_paths_relative_to_the_followed_folder(served: Client) -> None:
    assert found(served) == set(FILES)
    answer = served.post("/search/images", json={"caption": "a dog"}).json()
    (copied,) = [hit for hit in answer["hits"] if hit["path"] == FILES[0]]
    assert copied["paths"] == [FILES[0], "z.png"]
    record = served.get(f"/images/{copied['image_id']}").json()
    assert (record["path"], record["paths"]) == (FILES[0], [FILES[0], "z.png"])


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("holiday/", [0]),
        ("holiday", [0, 1]),
        ("Holiday/", [2]),
        ("z", [0]),
        ("far/e%_", [4]),
        ("%", []),
        ("/", []),
        ("../", []),
        ("", range(5)),
    ],
)
def test_path_prefix_selects_images_with_such_a_path(
    served: Client, prefix: str, names: list[int]
) -> None:
    assert found(served, path_prefix=prefix) == {FILES[at] for at in names}


def test_dates_select_pictures_by_when_they_were_taken(served: Client) -> None:
    assert found(served, taken_before="1970-01-03T00:00:00Z") == set(FILES[:2])
    assert found(served, taken_from="1970-01-04T00:00:00Z") == set(FILES[3:])
    between = {"taken_from": "1970-01-02T00:00:00Z", "taken_before": "1970-01-03T00:00:00Z"}
    assert found(served, **between) == {FILES[1]}
    assert found(served, **between, path_prefix="holiday/") == set()


def test_open_index_shows_and_takes_absolute_paths(followed: Path) -> None:
    with hasse.open_index(followed / "index", device="cpu") as index:

        def paths(prefix: str) -> list[str]:
            hits = index.search_images("a dog", path_prefix=prefix).hits
            return sorted(path for hit in hits for path in hit.paths)

        pictures = followed / "pictures"
        assert paths(f"{pictures}/holiday/") == [f"{pictures}/{FILES[0]}", f"{pictures}/z.png"]
        assert len(paths(f"{followed}/")) == 6
        assert len(paths("/")) == 6
        assert len(paths(str(pictures)[:-3])) == 6
        assert paths(f"{followed}/index/") == []
        assert paths(f"{pictures}s") == []
        assert paths("holiday/") == paths(f"{pictures}/holiday/"), "as services show it"
        (hit,) = index.search_images("a dog", path_prefix=f"{pictures}/z").hits
        assert index.image(hit.image_id).paths == hit.paths


def test_selection_by_path_sees_files_that_moved(followed: Path, tmp_path: Path) -> None:
    shutil.copytree(followed, tmp_path / "copy")
    index_folder, pictures = tmp_path / "copy" / "index", tmp_path / "copy" / "pictures"
    with Index.open(index_folder) as index:
        query = Query("image", 10, selection=Selection(path_prefix="holiday/"))
        point = [0.1] * index.model.dimension
        assert len(index.search(query, point).ids) == 1
        (pictures / "d.png").rename(pictures / "holiday" / "d.png")
        done = command("sync", "--library", index_folder, "--device", "cpu")
        assert "1 moved" in done.out + done.err
        index.refresh()
        assert len(index.search(query, point).ids) == 2


@pytest.mark.parametrize("name", ["pictures", "/pictures"])
def test_absolute_prefix_finds_files_however_the_catalog_has_them(
    name: str, tmp_path: Path
) -> None:
    from hasse.index.types import ImageRow, ModelIdentity

    model = ModelIdentity("m", "f", 4, "order")
    with Index.create(tmp_path / "index", model) as index:
        stored = f"{tmp_path}{name}/a.png" if name.startswith("/") else f"{name}/a.png"
        index.add([ImageRow(1, "a.png", stored)], [[0.5] * 4])
        place = os.path.normpath(index.folder / stored)

        def count(prefix: str) -> int:
            chosen = Selection(path_prefix=prefix, absolute_paths=True)
            return len(index.search(Query("image", 5, selection=chosen), [0.1] * 4).ids)

        for end in range(1, len(place) + 1):
            assert count(place[:end]) == 1, place[:end]
        for other in (f"{place}x", f"{Path(place).parent}/b", f"{tmp_path}/x", "pictures", "../"):
            assert count(other) == 0, other
