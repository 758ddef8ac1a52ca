"""Records of the catalog: files, segments, deletions and the state of a generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hasse.index.errors import ModelMismatchError
from hasse.index.types import Ids, Kind, ModelIdentity
from hasse.models.score import Score

# Ids that were removed, and the generations that removed them: (D,) each.
Deletions: TypeAlias = Mapping[Kind, tuple[Ids, Ids]]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The size and the SHA-256 that a file of a segment must have."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """One row of the segments table."""

    name: str
    kind: Kind
    rows: int
    dimension: int
    dtype: str
    score: Score
    files: Mapping[str, FileRecord]
    generation: int = 0

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files.values())


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Contents of one generation, or of a shard's part of it."""

    model: ModelIdentity
    generation: int
    segments: tuple[SegmentRecord, ...]
    deleted: Deletions


def file_records(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, FileRecord]:
    """Return records of files, by name, from their JSON form."""
    return {name: FileRecord(**record) for name, record in plain.items()}


def model_of(meta: Any) -> ModelIdentity:
    """Return the model that the row of the table `meta` names."""
    return ModelIdentity(meta.name, meta.fingerprint, meta.dimension, meta.score, meta.checkpoint)


def refuse_other_model(opened: ModelIdentity, current: ModelIdentity) -> None:
    """Refuse to go on with an index that was re-encoded since it was opened.

    Raises:
        ModelMismatchError: its points are those of another model now.
    """
    if opened.fingerprint != current.fingerprint:
        raise ModelMismatchError(
            f"the index was re-encoded with the model '{current.name}' since it was opened for "
            f"'{opened.name}': open it again with that model (restart a running service)"
        )
