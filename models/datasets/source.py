"""Reads the files that describe a collection; errors name the place of the fault."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

from hasse.models.datasets.dataset import DatasetError
from hasse.models.errors import HasseError
from hasse.models.regular_file import NotRegularFile, open_regular, raise_system_error


def read_text(
    path: Path, error_class: type[HasseError] = DatasetError, max_bytes: int | None = None
) -> str:
    """Return the text of a UTF-8 file, or of a UTF-16 file with a byte-order mark.

    Raises:
        DatasetError, or `error_class`: the file is missing, empty, longer than `max_bytes`, or not
            text.
    """
    try:
        with open_regular(path) as file:
            content = file.read() if max_bytes is None else file.read(max_bytes + 1)
        if max_bytes is not None and len(content) > max_bytes:
            raise error_class(
                f"{path} has more than {max_bytes:,} bytes: shorten it, or leave it out"
            )
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError as error:
        raise error_class(f"there is no file {path}: check the path") from error
    except UnicodeDecodeError as error:
        raise error_class(
            f"{path} is not UTF-8 text (byte {error.start:,} is not): save it as UTF-8, or "
            f"fetch it again"
        ) from error
    except NotRegularFile as error:
        raise error_class(f"{path} cannot be read: it is not a file") from error
    except OSError as error:
        raise_system_error(error)
        raise error_class(f"{path} cannot be read: {error.strerror}") from error
    if not text.strip():
        raise error_class(f"{path} is empty: fill it, leave it out, or fetch it again")
    return text


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        DatasetError: as `read_text`; or it is not JSON (with line and column), or not an object.
    """
    try:
        document = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            f"a download that broke off ends like this, fetch it again"
        ) from error
    except (RecursionError, ValueError) as error:
        raise DatasetError(f"{path} is not JSON that can be read: {error}") from error
    if not isinstance(document, dict):
        raise DatasetError(f"{path} holds no JSON object at its top: it is not an annotation file")
    return document


def rows(document: dict[str, Any], name: str, path: Path, expected: str) -> list[Any]:
    """Return a list of a JSON document.

    Raises:
        DatasetError: there is no such list; `expected` says what the file should be.
    """
    rows = document.get(name)
    if not isinstance(rows, list):
        raise DatasetError(f"{path} has no list '{name}': {expected}")
    return rows


def folder(path: Path) -> Path:
    """Return a folder's absolute path.

    Raises:
        DatasetError: there is no such folder, or its path is not text.
    """
    if not path.is_dir():
        raise DatasetError(f"there is no folder {path}: name the one that holds the pictures")
    resolved = path.resolve()
    if not is_text(str(resolved)):
        raise DatasetError(
            f"the path of the folder {str(resolved)!a} has broken characters: rename it"
        )
    return resolved


def is_file(path: Path) -> bool:
    """Return whether there is a file that the system can describe."""
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False


def is_text(text: str) -> bool:
    """Return whether text can be written as UTF-8 and to a database."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
