"""Features of texts on disk, made once by a frozen sentence encoder.

A folder of three files: `features.f16` has a row of float16 for each text, `texts.jsonl` the texts
as JSON strings, a line each, and `manifest.json` the number of valid rows and the encoder. Rows
beyond that number are of an interrupted run, and the next run overwrites them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hasse.lab.features.feature_store import MANIFEST, FeaturesError, require_files
from hasse.models.files import lock_folder, write_at, write_atomically

FEATURES, TEXTS = "features.f16", "texts.jsonl"
_FORMAT = 1
_KEYS = {"format", "name", "fingerprint", "dimension", "rows", "bytes_of_texts"}
_BLOCK = 2048  # texts between two commits
_BATCH = 128


class Encoder(Protocol):
    """Encodes texts to features; see `SentenceEncoder`."""

    name: str
    fingerprint: str
    dimension: int

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class TextExtractionStopped(Exception):
    """The caller stopped the extraction; all features so far are on disk."""


@dataclass(frozen=True)
class TextFeatures:
    """Texts and their features.

    Attributes:
        maker: the name and the fingerprint of the sentence encoder.
        texts: each once.
        rows: (n, F) float16, mapped from disk.
    """

    folder: Path
    maker: tuple[str, str]
    texts: tuple[str, ...]
    rows: NDArray[np.float16]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the features of `extract_texts`, finished or not.

        Raises:
            FeaturesError: there is nothing, or the files do not agree.
        """
        found = _read_manifest(folder)
        if found is None or not found["rows"]:
            raise FeaturesError(
                f"there are no features of texts in {folder}: make them with 'hasse study "
                "photographs features'"
            )
        count, dimension = int(found["rows"]), int(found["dimension"])
        sizes = {FEATURES: 2 * count * dimension, TEXTS: int(found["bytes_of_texts"])}
        require_files(folder, sizes)
        lines = (folder / TEXTS).read_bytes().splitlines()[:count]
        rows = np.memmap(folder / FEATURES, dtype="<f2", mode="r", shape=(count, dimension))
        maker = (str(found["name"]), str(found["fingerprint"]))
        return cls(folder, maker, tuple(json.loads(line) for line in lines), rows)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each text."""
        return {text: row for row, text in enumerate(self.texts)}

    def rows_of(self, texts: Sequence[str], what: str) -> NDArray[np.int64]:
        """Return the rows of texts; `what` names their kind in messages.

        Raises:
            FeaturesError: one has none.
        """
        texts = [" ".join(text.split()) for text in texts]  # as a file has them
        missing = [text for text in texts if text not in self.row_of]
        if missing:
            raise FeaturesError(
                f"{what} without features in {self.folder}: {len(missing):,}, the first is "
                f"'{missing[0]}'; add them to the file of texts and run 'hasse study photographs "
                "features' again"
            )
        return np.array([self.row_of[text] for text in texts], dtype=np.int64)


def extract_texts(
    texts: Sequence[str],
    encoder: Encoder,
    folder: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> TextFeatures:
    """Compute the features of all texts that have none in `folder` yet, and open them.

    Texts of like length are encoded together. A killed run goes on where it was.

    Raises:
        FeaturesError: another encoder made the features in `folder`.
        TextExtractionStopped: `stop` returned true.
    """
    maker = {"name": encoder.name, "fingerprint": encoder.fingerprint}
    with lock_folder(folder):
        found = _read_manifest(folder)
        if found is not None and {key: found[key] for key in maker} != maker:
            raise FeaturesError(
                f"the features in {folder} were made by {found['name']} and not by "
                f"{encoder.name}: name another folder, or delete that one"
            )
        count, size = (0, 0) if found is None else (found["rows"], found["bytes_of_texts"])
        there = set(TextFeatures.open(folder).texts) if count else set()
        todo = sorted((text for text in dict.fromkeys(texts) if text not in there), key=len)
        for start in range(0, len(todo), _BLOCK):
            block = todo[start : start + _BLOCK]
            features = np.concatenate(
                [encoder.features(block[at : at + _BATCH]) for at in range(0, len(block), _BATCH)]
            )
            lines = "".join(json.dumps(text) + "\n" for text in block).encode()
            at = 2 * count * encoder.dimension
            write_at(folder / FEATURES, at, features.astype("<f2").tobytes())
            write_at(folder / TEXTS, size, lines)
            count, size = count + len(block), size + len(lines)
            document = {
                **{"format": _FORMAT, **maker, "dimension": encoder.dimension},
                **{"rows": count, "bytes_of_texts": size},
            }
            write_atomically(folder / MANIFEST, json.dumps(document, indent=1).encode())
            progress(start + len(block), len(todo))
            if stop() and start + len(block) < len(todo):
                raise TextExtractionStopped(f"{count:,} texts are done and kept in {folder}")
    return TextFeatures.open(folder)


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT or found.keys() != _KEYS:
            raise ValueError("another format")
    except (ValueError, KeyError, TypeError) as error:
        raise FeaturesError(
            f"{path} cannot be read ({error}): delete {folder} and make the features again"
        ) from error
    return found
