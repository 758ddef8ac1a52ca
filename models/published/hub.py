"""Downloads a published model from the Hugging Face hub, or from the one that HF_ENDPOINT names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from hasse.models.errors import pip_install
from hasse.models.published.layout import PublishedModelError, layout_of

_TIMEOUT = httpx.Timeout(30.0)  # seconds without an answer
_BLOCK = 1 << 20

Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub describes it.

    Attributes:
        name: its path in the repository.
        size: bytes.
        sha256: of its content, for large files.
        blob: git's number of it, for small ones.
    """

    name: str
    size: int
    sha256: str | None
    blob: str | None

    @property
    def label(self) -> str:
        """A text that changes with the content."""
        return (self.sha256 or self.blob or "new")[:12]


@dataclass(frozen=True, slots=True)
class HubModel:
    """The files of a model, in one revision of its repository.

    Attributes:
        address: of the repository.
        revision: the commit.
        files: those that Hasse needs.
    """

    repository: str
    address: str
    revision: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def look_up(repository: str) -> HubModel:
    """Ask the hub which files a model has, and how large they are.

    Raises:
        PublishedModelError: the hub cannot be reached or has no such model, or the package
            `huggingface_hub` is missing.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise PublishedModelError(
            f"downloads need a package that is missing: {pip_install('clip')}"
        ) from error
    # Read at each call. Public models need no account.
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=False)
    address = f"{api.endpoint}/{repository}"
    try:
        info = api.model_info(repository, files_metadata=True, timeout=_TIMEOUT.read)
    except Exception as error:  # of the library, and of the HTTP client below it
        raise _unreachable(address, error) from error
    siblings = {each.rfilename: each for each in info.siblings or ()}
    layout = layout_of(siblings, address)
    if layout is None or info.sha is None:
        raise PublishedModelError(
            f"{address} holds no ONNX graphs of immich's or Transformers.js' layout: choose "
            f"another repository"
        )
    files = tuple(_file(siblings[name]) for name in sorted(siblings) if layout.wants(name))
    return HubModel(repository, address, info.sha, files)


def download(model: HubModel, folder: Path, report: Report) -> None:
    """Download a model to a folder; a repeated call goes on where an earlier one stopped.

    `report` gets the bytes that are there, and those of all files.

    Raises:
        PublishedModelError: the hub cannot be reached, or a file is not what the hub states.
    """
    done = 0
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
        for file in model.files:
            path = folder / file.name
            if not (path.is_file() and _is_right(path, file)):
                _download(client, model, file, path, partial(_report, report, done, model.size))
            done += file.size
            report(done, model.size)


def _download(
    client: httpx.Client, model: HubModel, file: HubFile, path: Path, report: Callable[[int], None]
) -> None:
    """Download one file, after the bytes that an earlier call has left."""
    unfinished = path.with_name(f"{path.name}.{file.label}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    size = unfinished.stat().st_size if unfinished.is_file() else 0
    url = f"{model.address}/resolve/{model.revision}/{file.name}"
    try:
        if size < file.size or not file.size:
            headers = {"Accept-Encoding": "identity"}  # ranges count bytes of the file itself
            if size:
                headers["Range"] = f"bytes={size}-"
            with client.stream("GET", url, headers=headers) as answer:
                answer.raise_for_status()
                goes_on = answer.status_code == httpx.codes.PARTIAL_CONTENT
                size = size if goes_on else 0
                with unfinished.open("ab" if goes_on else "wb") as target:
                    for block in answer.iter_bytes(_BLOCK):
                        target.write(block)
                        size += len(block)
                        if size > file.size:
                            break
                        report(size)
    except httpx.HTTPError as error:
        raise _unreachable(f"{model.address}/{file.name}", error) from error
    if size < file.size:
        raise PublishedModelError(
            f"{url} ended after {size:,} of {file.size:,} bytes: repeat the command, which goes on "
            f"from there"
        )
    if not _is_right(unfinished, file):
        unfinished.unlink()
        raise PublishedModelError(
            f"{url} is not what the hub states (its size or checksum differs), and was deleted: "
            f"repeat the command; if it happens again, something between here and the hub alters it"
        )
    unfinished.replace(path)


def _report(report: Report, before: int, total: int, size: int) -> None:
    """Report the bytes of one file after those of the files before it."""
    report(before + size, total)


def _file(sibling: Any) -> HubFile:
    sha256 = sibling.lfs.sha256 if sibling.lfs is not None else None
    return HubFile(sibling.rfilename, int(sibling.size or 0), sha256, sibling.blob_id)


def _is_right(path: Path, file: HubFile) -> bool:
    """Return whether a file has the size and the checksum that the hub states."""
    if path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        if file.sha256 is not None:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
        if file.blob is None:
            return True
        digest = hashlib.sha1(b"blob %d\0" % file.size + content.read(), usedforsecurity=False)
        return digest.hexdigest() == file.blob


def _unreachable(address: str, error: Exception) -> PublishedModelError:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return PublishedModelError(
        f"{address} cannot be downloaded ({reason}): check the network and repeat the command, or "
        f"download the repository elsewhere and name its folder, by 'hasse use FOLDER'"
    )
