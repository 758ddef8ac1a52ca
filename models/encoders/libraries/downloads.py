"""Files of pretrained encoders, downloaded when a command asks for it, and kept.

They are kept in the folder `encoders` of Hasse's home. It can be carried to a machine without
network, where the same commands find them.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hasse.models.encoders.weights import BackboneError
from hasse.models.files import publish_file
from hasse.models.home import home

HUB = "https://huggingface.co"
_CHUNK = 1 << 20
_TIMEOUT = 30.0

Progress = Callable[[int, int], None]  # bytes that are there, bytes in all
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file that can be downloaded.

    Attributes:
        place: below the folder of downloads.
        sha256: its SHA-256 in hexadecimal, or how that begins; empty where none is published.
        size: in bytes; 0 where it is not known.
    """

    url: str
    place: str
    sha256: str = ""
    size: int = 0


def downloads() -> Path:
    """Return the folder in which downloaded files are kept."""
    return home() / "encoders"


def hub_files(repository: str, hub: str = HUB) -> list[PublishedFile]:
    """List the files of a repository of the Hugging Face hub.

    Raises:
        BackboneError: the hub cannot be asked.
    """
    url = f"{hub}/api/models/{repository}/tree/main?recursive=true"
    folder = downloads() / repository
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:  # noqa: S310
            listed = json.load(response)
        return [
            PublishedFile(
                f"{hub}/{repository}/resolve/main/{file['path']}",
                f"{repository}/{file['path']}",
                file.get("lfs", {}).get("oid", ""),
                int(file["size"]),
            )
            for file in listed
            if file["type"] == "file"
        ]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise BackboneError(
            f"{url} cannot be read ({str(error).strip()}): download {hub}/{repository} elsewhere "
            f"and put its files into {folder}, or name their folder with --weights"
        ) from error


def download_repository(
    repository: str,
    choose: Callable[[Sequence[str]], list[str]],
    progress: Progress | None = None,
    tell: Tell = lambda line: None,
    hub: str = HUB,
) -> Path:
    """Download the files that are needed of a repository once, and return their folder.

    `choose` returns them in the order in which to download them, given the names of all, or none
    where something is missing. The last is the one that makes the others worth having: where it
    is, nothing is asked of the hub.

    Raises:
        BackboneError: they are not there, or cannot be downloaded.
    """
    folder = downloads() / repository
    there = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    if choose(there):
        return folder
    files = {file.place.removeprefix(f"{repository}/"): file for file in hub_files(repository, hub)}
    wanted = choose(list(files))
    if not wanted:
        raise BackboneError(
            f"{hub}/{repository} has no weights that Hasse reads: name a file with --weights"
        )
    for name in wanted:
        download(files[name], progress, tell)
    return folder


def download(
    file: PublishedFile, progress: Progress | None = None, tell: Tell = lambda line: None
) -> Path:
    """Download a file once, and return where it is kept.

    A download that was interrupted goes on where it was. `tell` is given one line of what is
    downloaded from where.

    Raises:
        BackboneError: it cannot be downloaded; the message names the file and where to put it.
    """
    path = downloads() / file.place
    if path.is_file():
        return path
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(partial):
            if path.is_file():  # another process has downloaded it meanwhile
                return path
            size = f", {file.size / 1e6:,.1f} MB" if file.size else ""
            tell(f"downloading {file.url}{size} to {path}")
            _fetch(file, partial, progress)
            digest = _sum_of(partial)
            if not digest.startswith(file.sha256):
                partial.unlink()
                raise BackboneError(
                    f"what came from {file.url} is not what it should be (SHA-256 {digest[:12]}, "
                    f"not {file.sha256[:12]}): try again, or name a file with --weights"
                )
            publish_file(partial, path)
    except (OSError, http.client.HTTPException) as error:
        raise BackboneError(
            f"{file.url} cannot be downloaded ({str(error).strip()}): do the same again to go on, "
            f"or download it elsewhere and put it at {path}, or name it with --weights"
        ) from error
    return path


@contextmanager
def _alone(partial: Path) -> Iterator[None]:
    """Wait until no other process downloads the same file."""
    with partial.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(file: PublishedFile, partial: Path, progress: Progress | None) -> None:
    done = partial.stat().st_size if partial.is_file() else 0
    request = urllib.request.Request(file.url)  # noqa: S310
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # all of it is there; what it is its checksum will tell
    with response, partial.open("ab") as out:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            out.truncate(0)
            done = 0
        total = done + (response.length or 0)  # missing or not a number: unknown
        while chunk := response.read(_CHUNK):
            out.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, max(done, total))
        if done < total:  # a connection that ends early is not an error to `read`
            raise OSError(f"{done:,} of {total:,} bytes came")


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
