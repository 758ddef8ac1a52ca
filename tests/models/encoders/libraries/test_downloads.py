"""Files of encoders are downloaded once, checked, resumed, and never half written."""

from __future__ import annotations

import hashlib
import http.server
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hasse.models.encoders.libraries.downloads import (
    PublishedFile,
    download,
    download_repository,
    hub_files,
)
from hasse.models.encoders.libraries.sentence_transformers import wanted_files
from hasse.models.encoders.libraries.torchvision import published_url
from hasse.models.encoders.registry import download_weights
from hasse.models.encoders.weights import BackboneError

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OFFLINE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which downloads are kept."""
    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "encoders"


Respond = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def serving(respond: Respond) -> Iterator[str]:
    """Give the address of a server that answers so."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            respond(self)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


def send(handler: http.server.BaseHTTPRequestHandler, content: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def whole(handler: http.server.BaseHTTPRequestHandler) -> None:
    send(handler, CONTENT)


def file_at(address: str, sha256: str = SHA256) -> PublishedFile:
    return PublishedFile(f"{address}/net.pth", "library/net.pth", sha256, len(CONTENT))


def test_download_fetches_once_says_what_and_stores_it(kept: Path) -> None:
    seen: list[tuple[int, int]] = []
    said: list[str] = []
    with serving(whole) as address:
        file = file_at(address)
        path = download(file, lambda done, total: seen.append((done, total)), said.append)
    assert path == kept / "library" / "net.pth"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert said == [f"downloading {file.url}, 0.0 MB to {path}"]
    assert download(file_at(OFFLINE)) == path


def test_download_that_was_interrupted_goes_on_where_it_was(kept: Path) -> None:
    asked: list[str | None] = []

    def rest(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers["Range"])
        send(handler, CONTENT[3000:], http.HTTPStatus.PARTIAL_CONTENT)

    partial = kept / "library" / "net.pth.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:3000])
    with serving(rest) as address:
        assert download(file_at(address)).read_bytes() == CONTENT
    assert asked == ["bytes=3000-"]
    assert not partial.exists()


def test_download_from_a_server_that_cannot_resume_begins_anew(kept: Path) -> None:
    partial = kept / "library" / "net.pth.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"other")
    with serving(whole) as address:
        assert download(file_at(address)).read_bytes() == CONTENT


def test_download_of_another_hash_leaves_no_file(kept: Path) -> None:
    with serving(whole) as address, pytest.raises(BackboneError, match="not what it should be"):
        download(file_at(address, "0" * 64))
    assert not list((kept / "library").iterdir())


def test_download_offline_says_which_file_to_put_where(kept: Path) -> None:
    with pytest.raises(BackboneError) as caught:
        download(file_at(OFFLINE))
    assert f"{OFFLINE}/net.pth" in str(caught.value)
    assert str(kept / "library" / "net.pth") in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"what is this?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 7000\r\n\r\nonly the beginning",
    ],
)
def test_download_from_a_broken_response_leaves_no_whole_file(kept: Path, answer: bytes) -> None:
    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Answer) as running:
        running.timeout = 60
        thread = threading.Thread(target=running.handle_request, daemon=True)
        thread.start()
        with pytest.raises(BackboneError, match=r"cannot be downloaded .*: do the same again"):
            download(file_at(f"http://127.0.0.1:{running.server_address[1]}"))
        thread.join()
    assert not (kept / "library" / "net.pth").exists()


def test_two_downloads_of_the_same_file_fetch_it_once() -> None:
    asked, go_on = threading.Event(), threading.Event()
    answers: list[int] = []

    def slowly(handler: http.server.BaseHTTPRequestHandler) -> None:
        answers.append(1)
        asked.set()
        go_on.wait(60)
        whole(handler)

    with serving(slowly) as address, ThreadPoolExecutor() as pool:
        first = pool.submit(download, file_at(address))
        assert asked.wait(60)
        second = pool.submit(download, file_at(address))
        go_on.set()
        assert first.result(60) == second.result(60)
        assert first.result().read_bytes() == CONTENT
    assert answers == [1]


def test_download_without_a_folder_to_write_to_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HASSE_HOME", str(tmp_path / "file"))
    with pytest.raises(BackboneError, match="or download it elsewhere and put it at"):
        download(file_at(OFFLINE))


def test_hub_files_are_listed_with_their_sums_and_sizes() -> None:
    listed = (
        b'[{"type": "directory", "path": "onnx"}, {"type": "file", "path": "config.json", '
        b'"size": 5}, {"type": "file", "path": "model.safetensors", "size": 9, '
        b'"lfs": {"oid": "ab"}}]'
    )
    with serving(lambda handler: send(handler, listed)) as address:
        files = hub_files("timm/net", address)
    url = f"{address}/timm/net/resolve/main"
    assert files == [
        PublishedFile(f"{url}/config.json", "timm/net/config.json", "", 5),
        PublishedFile(f"{url}/model.safetensors", "timm/net/model.safetensors", "ab", 9),
    ]
    with pytest.raises(BackboneError, match=r"cannot be read .*: download .* elsewhere"):
        hub_files("timm/net", OFFLINE)


def test_repository_is_downloaded_once_with_its_weights_last(kept: Path) -> None:
    asked: list[str] = []

    def respond(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        if "/api/" in handler.path:
            names = ("README.md", "tokenizer.json", "model.safetensors", "config.json")
            listed = [{"type": "file", "path": name, "size": len(CONTENT)} for name in names]
            send(handler, json.dumps(listed).encode())
        else:
            whole(handler)

    for _ in range(2):  # the second time nothing is asked for
        with serving(respond) as address:
            folder = download_repository("st/mini", wanted_files, hub=address)
    assert folder == kept / "st" / "mini"
    resolved = [path.rsplit("/", 1)[1] for path in asked[1:]]
    assert resolved == ["config.json", "tokenizer.json", "model.safetensors"]
    with (
        serving(respond) as address,
        pytest.raises(BackboneError, match="has no weights that Hasse reads"),
    ):
        download_repository("st/other", lambda names: [], hub=address)


def test_published_url_is_of_weights_that_take_224_pixels() -> None:
    assert published_url("vgg19").endswith("vgg19-dcbb9e9d.pth")
    assert "_lc_" in published_url("vit_h_14")
    with pytest.raises(BackboneError, match="publishes no weights"):
        download_weights("torchvision/nothing")
