from __future__ import annotations

from pathlib import Path

import pytest

from hasse.service.writing.folders.scan import FileStamp, ScanOptions, scan
from tests.service.collection import png


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("x/dog.png", "cat.png", "sun.png", "b\udcff.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(png())
    return tmp_path


def test_single_pictures_are_seen_like_those_of_a_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x/dog.txt").write_text("A  dog runs.\n\nAn animal.\n")
    (root / "cat.txt").touch()
    (root / "sun.txt").write_text("A\0sun.\nThe sun.\n")
    (root / "bird.png").symlink_to(root / "x/dog.png")
    monkeypatch.chdir(root)
    names = ["sun.png", "x/../sun.png", "b\udcff.png", "cat.png", "x/dog.png"]
    names.append("bird.png")  # keeps its own name, and has no captions beside it
    found = scan([Path(name) for name in names])
    assert {file.path: file.captions for file in found.files.values()} == {
        f"{root}/sun.png": {"": ["The sun."]},
        f"{root}/cat.png": {},
        f"{root}/x/dog.png": {"": ["A dog runs.", "An animal."]},
        f"{root}/bird.png": {"": []},
    }
    assert found.skipped.by_reason == {
        "file name with broken characters": 1,
        "captions that cannot be read": 1,
        "caption with broken characters": 1,
    }
    assert "sun.txt, line 1: caption with broken characters: skipped" in found.skipped.lines


def test_folder_gives_names_below_it_and_captions_of_a_table(root: Path) -> None:
    table = root / "captions.csv"
    table.write_text("file_name,caption,split\nx/dog.png,a  dog,val\nnone.png,a cat,\n")
    found = scan([root], ScanOptions(table))
    dog = found.files[f"{root}/x/dog.png"]
    assert (dog.name, dog.folder, dog.split) == ("x/dog.png", root, "val")
    assert dog.captions == {"": [], str(table): ["a dog"]}
    assert found.named_folders == {root: root.stat().st_dev}
    assert found.skipped.by_reason == {"file name with broken characters": 1, "file not found": 1}


def test_stamp_is_not_trusted_while_a_file_may_be_written_again() -> None:
    stamp = FileStamp(1, 10**9, 5 * 10**9)
    assert not stamp.settled(6.5)
    assert stamp.settled(7.5)
