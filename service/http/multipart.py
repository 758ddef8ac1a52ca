"""Multipart forms, taken apart in memory as they arrive, the way RFC 7578 says and no other."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from models.errors import HasseError

# What is wrong with a form is said to its sender; the log is not a client's to fill.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

_PARTS = 42  # a picture, 16 things to put in and 16 to take out, and how to search
_FILE_NAME_CHARACTERS = 200
_HEADER_BYTES = 4096
_TEXT_BYTES = 24 * 1024  # a thousand ids


class FormError(HasseError):
    """What was sent is not a form that can be read."""


@dataclass(slots=True)
class Part:
    """One field: a text, or a file when it has a file name."""

    name: str = ""
    is_file: bool = False
    file_name: str = ""
    content: bytearray = field(default_factory=bytearray)

    def text(self) -> str:
        """Return the content as text; raises FormError when it is not UTF-8."""
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormError("a field is not UTF-8") from error


class Form:
    """Feed it the chunks of a body, then `finish` it.

    Every method raises FormError for what is no form, and for fields beyond the bounds above;
    the size of files is for the caller to bound.
    """

    def __init__(self, content_type: str) -> None:
        try:
            _, options = parse_options_header(content_type)
            boundary = options.get(b"boundary", b"")
            if not boundary:
                raise FormError("there is no boundary")
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_end": self._on_end,
                },
            )
        except (FormParserError, ValueError) as error:
            raise FormError("the boundary cannot be read") from error
        self._parts: list[Part] = []
        self._header_name = bytearray()
        self._header_value = bytearray()
        self._disposition = ""
        self._ended = False

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk apart."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise FormError("the form cannot be read") from error

    def finish(self) -> list[Part]:
        """Return the fields in their order, once the whole body was fed."""
        if not self._ended:
            raise FormError("the form is cut short")
        return self._parts

    def _on_part_begin(self) -> None:
        if len(self._parts) == _PARTS:
            raise FormError(f"the form has more than {_PARTS} fields")
        self._parts.append(Part())
        self._disposition = ""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]
        self._check_header()

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]
        self._check_header()

    def _check_header(self) -> None:
        if len(self._header_name) + len(self._header_value) > _HEADER_BYTES:
            raise FormError("a header is too long")

    def _on_header_end(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value.decode("latin-1")
        self._header_name.clear()
        self._header_value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise FormError("a field has no name")
        part = self._parts[-1]
        part.name = options[b"name"].decode("utf-8", "replace")
        part.is_file = b"filename" in options
        part.file_name = _file_name(options.get(b"filename", b""))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self._parts[-1]
        part.content += memoryview(data)[start:end]
        if not part.is_file and len(part.content) > _TEXT_BYTES:
            raise FormError("a field is too long")

    def _on_end(self) -> None:
        self._ended = True


def _file_name(sent: bytes) -> str:
    """Return the last part of a path, without what cannot be shown; it names nothing on a disk."""
    name = re.split(r"[/\\]", sent.decode("utf-8", "replace"))[-1]
    return "".join(filter(str.isprintable, name)).strip()[-_FILE_NAME_CHARACTERS:]
