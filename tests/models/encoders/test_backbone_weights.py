"""Weights are downloaded once, checked, and never half written."""

from __future__ import annotations

import hashlib
import http.server
import itertools
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.encoders.backbone_weights import BackboneError, download_weights, published_url

SMALL = "shufflenet_v2_x0_5"

CONTENT = b"weights" * 1000


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_download_weights_fetches_once_and_stores_where_torchvision_looks(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    name = f"net-{hashlib.sha256(CONTENT).hexdigest()[:8]}.pth"
    url = f"{server}/{name}"
    seen: list[tuple[int, int]] = []
    path = download_weights(SMALL, lambda done, total: seen.append((done, total)), url)
    assert path == tmp_path / "hub" / "checkpoints" / name
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    url = f"http://127.0.0.1:9/{name}"
    assert download_weights(SMALL, url=url) == path


def test_download_weights_of_another_hash_leaves_no_file(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(BackboneError, match="is not what it should be"):
        download_weights(SMALL, url=f"{server}/net-00000000.pth")
    assert not list((tmp_path / "hub" / "checkpoints").iterdir())


def test_download_weights_offline_says_which_file_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(BackboneError) as caught:
        download_weights(SMALL, url="http://127.0.0.1:9/net-0.pth")
    assert "http://127.0.0.1:9/net-0.pth" in str(caught.value)
    assert str(tmp_path / "hub" / "checkpoints" / "net-0.pth") in str(caught.value)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Give the address of a server that says this to one who asks, whatever was asked."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "*")
        with socketserver.TCPServer(("127.0.0.1", 0), Answer) as running:
            running.timeout = 60
            thread = threading.Thread(target=running.handle_request, daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{running.server_address[1]}"
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"what is this?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400\r\nonly the beginning",
    ],
)
def test_download_weights_from_a_broken_response_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with answering(answer) as address:
        url = f"{address}/net-0.pth"
        with pytest.raises(BackboneError, match=r"cannot be fetched .*: download http://127"):
            download_weights(SMALL, url=url)
    assert not list((tmp_path / "hub" / "checkpoints").iterdir())


def test_two_downloads_of_the_same_weights_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, go_on = threading.Event(), threading.Event()
    answered = itertools.count()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first = next(answered) == 0
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENT[:3000])
            if first:
                half.set()
                go_on.wait(60)
            self.wfile.write(CONTENT[3000:])

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    name = f"net-{hashlib.sha256(CONTENT).hexdigest()[:8]}.pth"
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running,
        ThreadPoolExecutor() as pool,
    ):
        threading.Thread(target=running.serve_forever, args=(0.01,)).start()
        url = f"http://127.0.0.1:{running.server_port}/{name}"
        try:
            slow = pool.submit(download_weights, SMALL, None, url)
            assert half.wait(60)
            quick = download_weights(SMALL, url=url)
            assert quick.read_bytes() == CONTENT
            go_on.set()
            assert slow.result(60).read_bytes() == CONTENT
        finally:
            go_on.set()
            running.shutdown()
    assert list(quick.parent.iterdir()) == [quick]


def test_download_weights_without_a_folder_to_write_to_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "file"))
    with pytest.raises(BackboneError, match=r"cannot be fetched .*: download http://127"):
        download_weights(SMALL, url="http://127.0.0.1:9/net-0.pth")


def test_download_weights_reads_a_response_of_unknown_length_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    name = f"net-{hashlib.sha256(CONTENT).hexdigest()[:8]}.pth"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"
    seen: list[tuple[int, int]] = []
    with answering(head + CONTENT) as address:
        url = f"{address}/{name}"
        path = download_weights(SMALL, lambda done, total: seen.append((done, total)), url)
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_published_url_is_of_weights_that_take_224_pixels() -> None:
    assert published_url("vgg19").endswith("vgg19-dcbb9e9d.pth")
    assert "_lc_" in published_url("vit_h_14")
    with pytest.raises(BackboneError, match="publishes no weights"):
        download_weights("nothing")
