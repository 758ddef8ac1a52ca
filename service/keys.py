"""Reads access keys from settings and files: the SHA-256 of each, by the name of the client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_KEY = re.compile(r"[A-Za-z0-9._-]{1,32}:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class KeysFile:
    """The content of a file of keys: the SHA-256 of each, by name.

    A line is `read NAME:SHA-256` or `write NAME:SHA-256`. A # begins a comment.
    """

    path: Path
    readers: Mapping[str, str] = field(default_factory=dict)
    writers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def read(cls, value: object) -> object:
        """Read the file at a path; None for an empty path, ValueError for a wrong line."""
        if not isinstance(value, (str, Path)):
            return value
        if not str(value):
            return None
        path = Path(value)
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} cannot be read ({error})") from None
        entries: dict[str, list[str]] = {"read": [], "write": []}
        for number, line in enumerate(lines, start=1):
            words = line.partition("#")[0].split()
            if words:
                if len(words) != 2 or words[0] not in entries or not _KEY.fullmatch(words[1]):
                    raise ValueError(
                        f"line {number} of {path} is not 'read NAME:SHA-256' or 'write "
                        "NAME:SHA-256', as 'hasse lab key NAME' prints it"
                    )
                entries[words[0]].append(words[1])
        if not any(entries.values()):  # without keys, everybody could read
            raise ValueError(f"there is no key in {path}: write one, or leave the setting empty")
        return cls(path, *(keys_of(",".join(lines)) for lines in entries.values()))


def keys_of(setting: str) -> dict[str, str]:
    """Return the SHA-256 of each key of a setting, by name; ValueError for a wrong setting."""
    digests: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in setting.split(","))):
        name, _, digest = entry.partition(":")
        if not _KEY.fullmatch(entry):
            raise ValueError(
                "this is not name:SHA-256, as 'hasse lab key NAME' prints it, with commas between"
            )
        if name in digests:
            raise ValueError(f"the name {name} is given twice")
        digests[name] = digest
    return digests
