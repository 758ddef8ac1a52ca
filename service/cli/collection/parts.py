"""Reads an argument as a caption, a picture or the id of an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasse.models.images.formats import PICTURE_SUFFIXES
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import CommandError

if TYPE_CHECKING:
    from hasse.service.questions.requests import Part

_PATH_STARTS = ("./", "../", "/")  # no caption begins so


def parse_part(text: str) -> Part:
    """Read an argument as the id of a stored image, a picture, or a caption."""
    from hasse.service.schemas import image_id_of

    image_id = image_id_of(text)
    return parse_text_or_picture(text) if image_id is None else image_id


def parse_picture(text: str) -> int | bytes:
    """Read an argument as the id of a stored image or a picture.

    Raises:
        CommandError: the argument is a caption.
    """
    part = parse_part(text)
    if isinstance(part, str):
        raise CommandError(
            f"'{text}' names no picture: give the path of one, or the id of one in the library"
        )
    return part


def parse_text_or_picture(query: str) -> str | bytes:
    """Return the bytes of the picture at a path, or the caption itself.

    A file may be called like a word. So a text is a path only if it ends with the suffix of a
    picture, or begins with ./, ../ or /.
    """
    if not (is_picture_name(query) or query.startswith(_PATH_STARTS)) or "\0" in query:
        return parse_text(query)
    from hasse.models.images.decoding import open_file

    try:
        content = Path(query).read_bytes()
    except FileNotFoundError:
        raise CommandError(f"there is no picture {query}: check the path") from None
    except OSError as error:
        raise CommandError(f"{query} cannot be read: {error.strerror}") from None
    open_file(Path(query), picture_limits(), at_least=1)  # its error names the file
    return content


def parse_text(text: str) -> str:
    """Return a caption; raises CommandError if it is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # Python represents undecodable bytes as surrogates
        raise CommandError("the query is not text in UTF-8: check the shell's locale") from None
    return text


def is_picture_name(text: str) -> bool:
    """Return whether a text ends with the suffix of a picture."""
    return Path(text).suffix.lower() in PICTURE_SUFFIXES
