"""A published model is downloaded whole and checked, and a download that stopped goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasse.models.published.hub import HubModel, download, look_up
from hasse.models.published.layout import PublishedModelError
from tests.fake_hub import REVISION, FakeHub, serving

REPOSITORY = "immich-app/tiny"
OFFLINE = "http://127.0.0.1:9"
LARGE = bytes(range(256)) * 40_000  # ten blocks of a download
FILES = {
    ".gitattributes": b"text",
    "README.md": b"read me",
    "config.json": b"{}",
    "textual/model.onnx": b"texts" * 1000,
    "textual/tokenizer.json": b"{ }",
    "textual/tokenizer_config.json": b"{  }",
    "visual/fp16/model.armnn": b"arm",
    "visual/model.onnx": LARGE,
    "visual/model.onnx_data": b"weights" * 1000,
    "visual/preprocess_cfg.json": b"{   }",
}
WANTED = [name for name in FILES if name not in {".gitattributes", "README.md"}]
WANTED.remove("visual/fp16/model.armnn")
PICTURES = "visual/model.onnx"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Run a hub that HF_ENDPOINT names."""
    monkeypatch.setenv("no_proxy", "*")
    with serving(FakeHub(dict(FILES)), REPOSITORY) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        yield running


def fetch(folder: Path) -> list[tuple[int, int]]:
    reports: list[tuple[int, int]] = []
    download(look_up(REPOSITORY), folder, lambda done, total: reports.append((done, total)))
    return reports


def failure(folder: Path) -> str:
    with pytest.raises(PublishedModelError) as caught:
        fetch(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_look_up_says_which_files_and_how_large_without_downloading(hub: FakeHub) -> None:
    model = look_up(REPOSITORY)
    assert isinstance(model, HubModel)
    assert [file.name for file in model.files] == WANTED
    assert model.size == sum(len(FILES[name]) for name in WANTED)
    assert (model.address, model.revision) == (f"{hub.address}/{REPOSITORY}", REVISION)
    assert hub.requested == []


def test_download_writes_all_files_and_reports_their_bytes(hub: FakeHub, tmp_path: Path) -> None:
    reports = fetch(tmp_path)
    assert files_in(tmp_path) == {name: FILES[name] for name in WANTED}
    total = sum(len(FILES[name]) for name in WANTED)
    assert reports[-1] == (total, total)
    assert reports == sorted(reports), "it never goes back"
    assert len(reports) > len(WANTED), "also within a large file"
    hub.requested.clear()
    fetch(tmp_path)
    assert hub.requested == [], "what is there is not downloaded again"


def test_download_cut_short_goes_on_where_it_stopped(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut[PICTURES] = 5_000_000
    assert "check the network and repeat the command" in failure(tmp_path)
    assert PICTURES not in files_in(tmp_path)
    hub.cut.clear()
    hub.requested.clear()
    fetch(tmp_path)
    ((name, start), *_) = hub.requested
    assert name == PICTURES
    assert 1 <= start <= 5_000_000
    assert files_in(tmp_path) == {name: FILES[name] for name in WANTED}


def test_download_from_a_hub_that_ignores_ranges_begins_anew(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut[PICTURES] = 5_000_000
    failure(tmp_path)
    hub.cut.clear()
    hub.ignores_ranges = True
    fetch(tmp_path)
    assert files_in(tmp_path) == {name: FILES[name] for name in WANTED}


@pytest.mark.parametrize("name", [PICTURES, "config.json"])
def test_download_of_altered_content_leaves_no_file(
    hub: FakeHub, tmp_path: Path, name: str
) -> None:
    hub.altered.add(name)
    message = failure(tmp_path)
    assert f"{name} is not what the hub states" in message
    assert "was deleted: repeat the command" in message
    assert not [path for path in files_in(tmp_path) if path.startswith(name)]
    hub.altered.clear()
    fetch(tmp_path)
    assert files_in(tmp_path) == {name: FILES[name] for name in WANTED}


def test_file_that_was_damaged_since_is_downloaded_again(hub: FakeHub, tmp_path: Path) -> None:
    fetch(tmp_path)
    (tmp_path / PICTURES).write_bytes(LARGE[:-1] + b"x")
    fetch(tmp_path)
    assert (tmp_path / PICTURES).read_bytes() == LARGE


def test_download_that_is_refused_says_what_to_do(hub: FakeHub, tmp_path: Path) -> None:
    hub.refused.add(PICTURES)
    message = failure(tmp_path)
    assert f"{PICTURES} cannot be downloaded (Client error '403" in message
    assert "name its folder, by 'hasse use FOLDER'" in message


def test_hub_that_cannot_be_reached_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", OFFLINE)
    message = failure(tmp_path)
    assert message.startswith(f"{OFFLINE}/{REPOSITORY} cannot be downloaded (")
    assert "check the network and repeat the command, or download the repository" in message


@pytest.mark.usefixtures("hub")
def test_repository_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(PublishedModelError, match="immich-app/other cannot be downloaded"):
        look_up("immich-app/other")


def test_repository_without_one_half_is_refused_before_the_download(hub: FakeHub) -> None:
    hub.files = {name: FILES[name] for name in FILES if name != "textual/model.onnx"}
    with pytest.raises(PublishedModelError, match=r"but no textual/model.onnx"):
        look_up(REPOSITORY)
    hub.files = {"model.safetensors": b"weights"}
    with pytest.raises(PublishedModelError, match="holds no ONNX graphs of"):
        look_up(REPOSITORY)


def test_look_up_without_the_hub_s_package_says_what_to_install() -> None:
    program = """
import sys
sys.modules["huggingface_hub"] = None
from hasse.models.published.hub import look_up
try:
    look_up("immich-app/tiny")
except Exception as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 'downloads need a package that is missing: pip install -e ".[clip]"' in result.stdout
