"""`backup.json`: the contents of a backup, with the size and the SHA-256 of each file.

It is written last, after all other files were checked. A backup without it was cut short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from hasse.index.catalog.records import FileRecord, file_records
from hasse.index.errors import BackupError

MANIFEST = "backup.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a backup.

    Attributes:
        generation: generation of the library.
        moment: the backup holds every write that was acknowledged before; ISO 8601, in UTC.
        images, captions: their numbers.
        catalog: name of the file with the catalog, always a SQLite database.
        files: all files, by their paths in the backup.
    """

    generation: int
    moment: str
    images: int
    captions: int
    catalog: str
    files: Mapping[str, FileRecord]

    @property
    def size(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files.values())

    def to_json(self) -> bytes:
        """Return the content of `backup.json`."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes, place: Path) -> Self:
        """Read `backup.json` of the backup at a place.

        Raises:
            BackupError: a newer version wrote it, or it is damaged.
        """
        try:
            fields = json.loads(content)
            version = fields.pop("format")
            if version == FORMAT:
                return cls(**fields | {"files": file_records(fields["files"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{MANIFEST} of {place} is damaged: use another backup") from error
        raise BackupError(
            f"{place} has the format {version} of a newer version of Hasse, and this version reads "
            f"{FORMAT}: install that version"
        )
