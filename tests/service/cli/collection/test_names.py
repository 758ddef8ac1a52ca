"""`--in` and `--near` by names of folders and places of the library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.text.sources import TextSource
from hasse.index.types import FolderRow, ImageRow, Metadata, ModelIdentity, PathRow
from hasse.service.cli.collection.names import resolve_names
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.settings import Settings

FILES = {1: "2018/Italy/a.jpg", 2: "2018/Italy/Rome/b.jpg", 3: "2020/Rome/c.jpg"}
VENICE: tuple[tuple[TextSource, str], ...] = (("place", "Venice, Veneto, Italy"),)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A library of three pictures in a followed folder; one was taken in Venice."""
    folder = tmp_path_factory.mktemp("made")
    model = ModelIdentity("tiny", "f" * 64, 4, "order")
    root = str(folder / "pictures")
    rows = [ImageRow(at, Path(path).name, f"{root}/{path}") for at, path in FILES.items()]
    with Index.create(folder / "index", model, threads=1) as index:
        index.change(
            Change(
                rows,
                np.ones((3, 4), np.float32),
                paths={row.id: [PathRow(row.id, row.path, root)] for row in rows},
                folders=[FolderRow(root, root, "../pictures", 1)],
                metadata={1: Metadata(VENICE, latitude=45.44, longitude=12.33)},
            )
        )
    return Settings(library=folder / "index")


@pytest.mark.parametrize("name", ["Italy", "italy", "2018/Italy", "2018/Italy/"])
def test_folder_of_the_library_is_found_by_its_name_and_told(
    settings: Settings, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolve_names(settings, {}, name) == {"path_prefix": "2018/Italy/"}
    assert "in 2018/Italy/, 2 pictures of the library" in capsys.readouterr().err


def test_folder_that_is_here_is_a_path(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Italy").mkdir()
    assert resolve_names(settings, {}, "Italy") == {"path_prefix": f"{tmp_path}/Italy/"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Rome", "several folders are called Rome: 2018/Italy/Rome/, 2020/Rome/"),
        ("taly", "there is no folder taly, here or in the library, which has 2018/, 2020/"),
    ],
)
def test_folder_that_no_or_several_folders_are_called_is_an_error(
    settings: Settings, name: str, words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        resolve_names(settings, {}, name)


@pytest.mark.parametrize("name", ["Venice", "venice", "Italy"])
def test_place_is_found_by_a_part_of_its_name_and_told(
    settings: Settings, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = resolve_names(settings, {"near": name, "k": 3}, None)
    assert fields == {"near": "45.4400,12.3300,10", "k": 3}
    assert "near Venice, Veneto, Italy" in capsys.readouterr().err


def test_place_that_no_picture_names_is_an_error_with_those_that_are_known(
    settings: Settings,
) -> None:
    with pytest.raises(CommandError, match="taken in Atlantis: known are Venice"):
        resolve_names(settings, {"near": "Atlantis"}, None)


@pytest.mark.parametrize("near", ["45.44,12.33,5", "45.44", None])
def test_coordinates_are_left_to_the_request(near: str | None) -> None:
    assert resolve_names(Settings(), {"near": near}, None) == {"near": near}
