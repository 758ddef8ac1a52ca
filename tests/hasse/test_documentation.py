"""A real server answers the examples of docs/python.md, as they are written, and the client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hasse
from tests.service.collection import make_collection, picture, png
from tests.service.runtime.test_server import serving

PAGE = (Path(__file__).parents[2] / "docs/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.+?)^```", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation")
    make_collection(folder / "made")
    (folder / "made" / "index").rename(folder / "library")
    picture(60).save(folder / "photo.jpg")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder / "library", open_writes=True) as server:
        yield server.url


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_of_the_page_runs(
    folder: Path, url: str, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HASSE_LIBRARY", str(folder / "library"))
    exec(compile(example.replace("http://127.0.0.1:8000", url), "docs/python.md", "exec"), {})  # noqa: S102


def test_client_of_a_real_server_is_answered(url: str, tmp_path: Path) -> None:
    picture = tmp_path / "beach.png"
    picture.write_bytes(png(60))
    with hasse.Client(url) as client:
        assert client.ready().status == "ready"
        added = client.add_image(picture, ["a dog in the park"])
        assert (added.file_name, added.created) == ("beach.png", True)
        assert added.image_id in {hit.image_id for hit in client.search_images("a", k=50).hits}
        assert client.picture(added.image_id) == png(60)
        assert len(client.search_captions(picture, k=7).hits) == 7
        assert len(client.search_images_together(["a dog"] * 32)) == 32
        client.remove_image(added.image_id)
        with pytest.raises(hasse.NotFoundError):
            client.image(added.image_id)


def test_reference_has_the_first_sentence_of_each_name() -> None:
    reference = (Path(__file__).parents[2] / "docs/api.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", reference, re.M))
    summaries = {
        name: (getattr(hasse, name).__doc__ or "").strip().split("\n")[0] for name in hasse.__all__
    }
    assert rows == summaries


def test_page_names_what_the_package_exports() -> None:
    for name in hasse.__all__:
        if name not in ("ClientError", "LocalIndex", "Model", "Options"):
            assert f"`{name}" in PAGE, name
    for name in dir(hasse.LocalIndex):
        if not name.startswith("_") and name not in ("close", "make"):
            assert f"`{name}`" in PAGE, name
