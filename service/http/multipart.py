"""Parses multipart forms (RFC 7578) in memory."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from email.message import Message
from email.utils import collapse_rfc2231_value
from urllib.parse import unquote

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from hasse.service.errors import invalid

# The parser logs what is wrong with a form. Clients must not be able to fill the log.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

_FIELDS = 45  # a picture, 16 of `plus`, 16 of `minus`, and 12 options
_FILE_NAME_CHARACTERS = 200
_HEADER_BYTES = 4096
_TEXT_BYTES = 24 * 1024  # a thousand ids


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form: a text, or a file with its name, which may be empty."""

    name: str
    is_file: bool
    file_name: str
    content: bytes


def parse_form(content_type: str, body: bytes) -> list[FormField]:
    """Return the fields of a form; ServiceError `invalid` for what is none or beyond the limits.

    The caller limits the size of files.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        raise invalid("body", "there is no boundary")
    fields: list[tuple[Message, list[memoryview]]] = []
    header = ""
    is_whole = False

    def on_part_begin() -> None:
        if len(fields) == _FIELDS:
            raise invalid("body", f"the form has more than {_FIELDS} fields")
        fields.append((Message(), []))

    def on_header_field(data: bytes, start: int, end: int) -> None:
        nonlocal header
        header = data[start:end].decode("latin-1")

    def on_header_value(data: bytes, start: int, end: int) -> None:
        fields[-1][0][header] = data[start:end].decode("latin-1")

    def on_part_data(data: bytes, start: int, end: int) -> None:
        fields[-1][1].append(memoryview(data)[start:end])

    def on_end() -> None:
        nonlocal is_whole
        is_whole = True

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": on_part_begin,
                "on_header_field": on_header_field,
                "on_header_value": on_header_value,
                "on_part_data": on_part_data,
                "on_end": on_end,
            },
            max_header_size=_HEADER_BYTES,
        )
        # The parser takes no preamble. It gets all of the body at once, so that it calls back once
        # for each name and each value of a header.
        delimiter = b"--" + boundary
        if not body.startswith(delimiter):
            _, newline, body = body.partition(b"\r\n" + delimiter)
            body = delimiter + body if newline else b""
        parser.write(body)
    except FormParserError:
        raise invalid("body", "the form cannot be read") from None
    if not is_whole:
        raise invalid("body", "the form is cut short")
    return [_field(headers, b"".join(pieces)) for headers, pieces in fields]


def _field(headers: Message, content: bytes) -> FormField:
    # RFC 6266: of `filename` and `filename*` the latter wins; it comes last here.
    options = {key.lower(): value for key, value in headers.get_params([], "content-disposition")}
    if "name" not in options:
        raise invalid("body", "a field has no name")
    # Some clients label texts as text/plain, which is what a field without a label is.
    is_file = "filename" in options or headers.get_content_type() != "text/plain"
    if not is_file and len(content) > _TEXT_BYTES:
        raise invalid("body", "a field is too long")
    # The last part of a path, without what cannot be shown; it names nothing on a disk.
    file_name = re.split(r"[/\\]", _decoded(options.get("filename", "")))[-1]
    printable = "".join(filter(str.isprintable, file_name)).strip()
    return FormField(
        _decoded(options["name"]), is_file, printable[-_FILE_NAME_CHARACTERS:], content
    )


def _decoded(value: str | tuple[str | None, str | None, str]) -> str:
    """Decode an option of a header: UTF-8 as browsers send it, or RFC 8187 with its charset.

    Browsers escape a quote and line breaks as in a URL, and nothing else.
    """
    if isinstance(value, str):
        text = value.encode("latin-1").decode("utf-8", "replace")
        return re.sub("%(22|0D|0A)", lambda escape: unquote(escape[0]), text)
    try:
        return collapse_rfc2231_value(value)
    except ValueError:
        raise invalid("body", "the charset of a name cannot be read") from None
