"""Published weights of encoders, downloaded on request and cached.

The cache is the folder `encoders` of Hasse's home. It can be copied to a machine without network,
where the same commands find it. The libraries show their own progress bars.
"""

from __future__ import annotations

import hashlib
import http.client
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import torch

from hasse.models.errors import BackboneError
from hasse.models.home import home

HUB = "https://huggingface.co"
_TIMEOUT = 30.0  # seconds without an answer; torch's function has no timeout

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EncoderFiles:
    """Names of the files of an encoder in a repository.

    Attributes:
        weights: alternative names of the weights, the best first; one of them is required.
        needed: other required files.
        optional: files to download if they exist.
    """

    weights: tuple[str, ...]
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def choose(self, names: Collection[str]) -> list[str]:
        """Choose among a repository's files, weights last; [] if a required one is missing."""
        weights = next((name for name in self.weights if name in names), None)
        if weights is None or not all(name in names for name in self.needed):
            return []
        return [*(name for name in self.optional if name in names), *self.needed, weights]


def downloads() -> Path:
    """Return the folder of downloaded files."""
    return home() / "encoders"


def download_file(url: str, relative_path: str, tell: Tell = lambda line: None) -> Path:
    """Download a file once to `relative_path` in the folder of downloads, and return its path.

    The file's name ends with the start of its SHA-256, as torchvision's do. `tell` gets one line.

    Raises:
        BackboneError: it cannot be downloaded; the message names the file and where to put it.
    """
    path = downloads() / relative_path
    if path.is_file():
        return path
    tell(f"downloading {url} to {path}")
    old_timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), path.stem.rsplit("-", 1)[-1])
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        raise BackboneError(
            f"{url} cannot be downloaded ({_reason(error)}): repeat the command, or download the "
            f"file elsewhere and put it at {path}, or name it with --weights"
        ) from error
    finally:
        socket.setdefaulttimeout(old_timeout)
    return path


def download_repository(
    repository: str, wanted_files: EncoderFiles, tell: Tell = lambda line: None, hub: str = HUB
) -> Path:
    """Download files of a repository of the Hugging Face hub once, and return their folder.

    Complete files are not downloaded again. The weights come last: if they exist, the hub is not
    contacted. `tell` gets one line for each file.

    Raises:
        BackboneError: the repository has no such files, or they cannot be downloaded.
    """
    folder = downloads() / repository
    if wanted_files.choose({path.name for path in folder.glob("*")}):
        return folder
    from huggingface_hub import HfApi

    api = HfApi(endpoint=hub)
    try:
        info = api.model_info(repository, files_metadata=True)
        files = {file.rfilename: file for file in info.siblings or ()}
        names = wanted_files.choose(files)
        if not names:
            raise BackboneError(
                f"{hub}/{repository} has no weights that Hasse reads: name a file with --weights"
            )
        for name in names:
            size = f", {(files[name].size or 0) / 1e6:,.1f} MB"
            tell(f"downloading {hub}/{repository}/{name}{size} to {folder / name}")
            path = api.hf_hub_download(repository, name, revision=info.sha, local_dir=folder)
            if (published := files[name].lfs) is not None:
                _check(Path(path), published.sha256)
    except BackboneError:
        raise
    except Exception as error:  # the errors of the HTTP client that the hub's library uses
        raise BackboneError(
            f"{hub}/{repository} cannot be downloaded ({_reason(error)}): repeat the command, or "
            f"download its files elsewhere and put them into {folder}, or name their folder with "
            f"--weights"
        ) from error
    return folder


def _check(path: Path, sha256: str) -> None:
    """Delete a file whose SHA-256 is not the published one, and raise an OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        path.unlink()
        raise OSError(f"{path.name} has the SHA-256 {digest[:12]}, not {sha256[:12]}")


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
