"""Weights of encoders are downloaded once, checked, and never half written."""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from hasse.lab.encoders.libraries import downloads, open_clip
from hasse.lab.encoders.libraries.downloads import (
    EncoderFiles,
    download_file,
    download_repository,
)
from hasse.lab.encoders.libraries.torchvision import published_url
from hasse.lab.encoders.registry import SENTENCE_ENCODER, download_weights
from hasse.models.errors import BackboneError

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = f"net-{SHA256[:8]}.pth"
OFFLINE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which downloads are kept."""
    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "encoders"


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server, and give its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def file_server(content: bytes, length: int | None = None) -> Iterator[str]:
    """Answer each request with `content`, promised to have `length` bytes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) if length is None else length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        yield address


@contextmanager
def hub(
    files: Mapping[str, bytes], sha256: str = SHA256, broken: set[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Imitate the Hugging Face hub; give its address, and the files that were requested.

    Files in `broken` are refused. `sha256` is published for the weights.
    """
    requested: list[str] = []
    breaking = set() if broken is None else broken

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(files[self.path.rsplit("/", 1)[1]])

        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[1]
            if self.path.startswith("/api/"):
                self.answer(
                    json.dumps({"id": "st/mini", "sha": "1" * 40, "siblings": rows}).encode()
                )
                return
            requested.append(name)
            self.answer(files[name], 403 if name in breaking else 200)

        def answer(self, content: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Repo-Commit", "1" * 40)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    rows: list[dict[str, object]] = [
        {"rfilename": name, "size": len(files[name])} for name in files
    ]
    for row in rows:
        if str(row["rfilename"]).endswith(".safetensors"):
            row["lfs"] = {"sha256": sha256, "size": row["size"], "pointerSize": 100}
    with serving(Handler) as address:
        yield address, requested


FILES = {
    "README.md": b"read me",
    "tokenizer.json": b"{}",
    "model.safetensors": CONTENT,
    "config.json": b"{ }",
}


def test_download_file_fetches_once_names_it_and_shows_progress(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    with file_server(CONTENT) as address:
        path = download_file(f"{address}/{NAME}", f"library/{NAME}", lines.append)
    assert path == kept / "library" / NAME
    assert path.read_bytes() == CONTENT
    assert lines == [f"downloading {address}/{NAME} to {path}"]
    assert "100%" in capsys.readouterr().err
    assert download_file(f"{OFFLINE}/{NAME}", f"library/{NAME}", lines.append) == path
    assert len(lines) == 1


@pytest.mark.parametrize("content", [b"other", CONTENT[:300]])
def test_download_file_with_other_content_leaves_no_file(kept: Path, content: bytes) -> None:
    with (
        file_server(content, len(CONTENT)) as address,
        pytest.raises(BackboneError, match=r"invalid hash value .*: repeat the command"),
    ):
        download_file(f"{address}/{NAME}", f"library/{NAME}")
    assert not list((kept / "library").iterdir())


def test_download_file_offline_says_where_to_put_the_file(kept: Path) -> None:
    with pytest.raises(BackboneError) as caught:
        download_file(f"{OFFLINE}/{NAME}", f"library/{NAME}")
    assert f"{OFFLINE}/{NAME}" in str(caught.value)
    assert f"elsewhere and put it at {kept / 'library' / NAME}" in str(caught.value)


def test_download_file_from_a_server_that_never_answers_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(downloads, "_TIMEOUT", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(BackboneError, match="timed out"),
    ):
        download_file(f"http://127.0.0.1:{silent.getsockname()[1]}/{NAME}", NAME)
    assert socket.getdefaulttimeout() is None


def test_download_without_a_folder_to_write_to_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HASSE_HOME", str(tmp_path / "file"))
    with pytest.raises(BackboneError, match="or download the file elsewhere and put it at"):
        download_file(f"{OFFLINE}/{NAME}", NAME)


def test_repository_is_downloaded_once_with_its_weights_last(kept: Path) -> None:
    lines: list[str] = []
    with hub(FILES) as (address, requested):
        folder = download_repository("st/mini", SENTENCE_ENCODER, lines.append, hub=address)
    assert folder == kept / "st" / "mini"
    assert requested == ["config.json", "tokenizer.json", "model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == CONTENT
    weights = folder / "model.safetensors"
    assert lines[-1] == (f"downloading {address}/st/mini/model.safetensors, 0.0 MB to {weights}")
    assert download_repository("st/mini", SENTENCE_ENCODER, hub=OFFLINE) == folder


def test_repository_interrupted_keeps_finished_files_and_goes_on(kept: Path) -> None:
    broken = {"model.safetensors"}
    with hub(FILES, broken=broken) as (address, requested):
        with pytest.raises(BackboneError, match=r"cannot be downloaded .*: repeat the command"):
            download_repository("st/mini", SENTENCE_ENCODER, hub=address)
        assert not (kept / "st" / "mini" / "model.safetensors").exists()
        broken.clear()
        requested.clear()
        folder = download_repository("st/mini", SENTENCE_ENCODER, hub=address)
    assert requested == ["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == CONTENT


def test_repository_with_weights_of_another_hash_leaves_no_weights(kept: Path) -> None:
    with (
        hub(FILES, sha256="0" * 64) as (address, _),
        pytest.raises(BackboneError, match=f"SHA-256 {SHA256[:12]}, not 000000000000"),
    ):
        download_repository("st/mini", SENTENCE_ENCODER, hub=address)
    assert not (kept / "st" / "mini" / "model.safetensors").exists()


def test_repository_without_weights_or_a_network_is_refused_in_a_sentence(kept: Path) -> None:
    with (
        hub({"README.md": b"read me"}) as (address, _),
        pytest.raises(BackboneError, match="has no weights that Hasse reads"),
    ):
        download_repository("st/mini", SENTENCE_ENCODER, hub=address)
    with pytest.raises(BackboneError, match=r"cannot be downloaded .*elsewhere and put") as caught:
        download_repository("st/mini", SENTENCE_ENCODER, hub=OFFLINE)
    assert str(kept / "st" / "mini") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wanted_files_prefers_the_first_weights_and_needs_all_that_is_needed() -> None:
    wanted = EncoderFiles(("a", "b"), needed=("c",), optional=("d",))
    assert wanted.choose(["b", "d", "c", "a"]) == ["d", "c", "a"]
    assert wanted.choose(["c", "b"]) == ["c", "b"]
    assert wanted.choose(["a", "b", "d"]) == []
    names = ["open_clip_pytorch_model.bin", "open_clip_config.json", "README.md"]
    assert open_clip.FILES.choose(names) == [names[1], names[0]]


def test_published_url_is_of_weights_that_take_224_pixels() -> None:
    assert published_url("vgg19").endswith("vgg19-dcbb9e9d.pth")
    assert "_lc_" in published_url("vit_h_14")
    with pytest.raises(BackboneError, match="publishes no weights"):
        download_weights("torchvision/nothing")
