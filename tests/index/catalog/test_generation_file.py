from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog.generation_file import GENERATION
from hasse.index.errors import DamagedIndexError
from hasse.index.store import Index
from hasse.index.verify import verify
from tests.index.samples import embeddings, images, small_index

POINTS = embeddings(np.random.default_rng(0), 9, 16)
REFUSED = r"mixes a backup of generation 1 with a newer log, of generation 3: .*remove the whole"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """The folder of a killed writer, with its log, that a backup was copied over."""
    small_index(tmp_path / "i").close()
    shutil.copytree(tmp_path / "i", tmp_path / "backup")
    with Index.open(tmp_path / "i") as index:
        for id_ in (50, 51):
            index.add(images([id_]), POINTS[:1])
        shutil.copytree(tmp_path / "i", tmp_path / "killed")
    assert (tmp_path / "killed" / "catalog.db-wal").stat().st_size
    return shutil.copytree(tmp_path / "backup", tmp_path / "killed", dirs_exist_ok=True)


def test_backup_copied_over_a_newer_log_is_refused_each_time(mixed: Path) -> None:
    for _ in range(2):
        with pytest.raises(DamagedIndexError, match=REFUSED):
            Index.open(mixed)
        with pytest.raises(DamagedIndexError, match=REFUSED):
            verify(mixed)


def test_backup_copied_in_place_of_the_folder_is_opened(mixed: Path) -> None:
    shutil.rmtree(mixed)
    shutil.copytree(mixed.parent / "backup", mixed)
    with Index.open(mixed) as index:
        assert index.generation == 1
        assert index.add(images([50]), POINTS[:1]) == 2


def test_writer_refuses_a_catalog_that_became_newer_than_its_file(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index:
        older = (tmp_path / "i" / GENERATION).read_bytes()
        index.add(images([50]), POINTS[:1])
        (tmp_path / "i" / GENERATION).write_bytes(older)
        with pytest.raises(DamagedIndexError, match="generation 1 with a newer log"):
            index.add(images([51]), POINTS[:1])
        assert index.generation == 2


def test_index_of_an_older_version_has_no_file_and_gets_one(tmp_path: Path) -> None:
    small_index(tmp_path / "i").close()
    (tmp_path / "i" / GENERATION).unlink()
    with Index.open(tmp_path / "i") as index:
        index.add(images([50]), POINTS[:1])
    assert int((tmp_path / "i" / GENERATION).read_bytes()) == 2
