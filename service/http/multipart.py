"""Parses multipart forms (RFC 7578) in memory, and the values of their fields.

Starlette's parser writes files to disk, reads a file without a file name as text, and refuses a
preamble.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from hasse.service.errors import invalid, repeated_field, shortened, too_many, validated
from hasse.service.schemas import kind_of

# The parser logs errors of forms. Clients must not be able to fill the log.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

Model = TypeVar("Model", bound=BaseModel)

_DIGITS = re.compile(r"[0-9]{1,19}")
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?")
# Clients in Python send True, HTML check boxes send 1.
_BOOLEANS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}
_MAX_FIELDS = 300  # a picture with 255 texts to embed, or 32 parts with all options
_MAX_NAME_CHARACTERS = 200
_MAX_HEADER_BYTES = 4096
_MAX_TEXT_BYTES = 24 * 1024  # a thousand ids


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form: a text, or a file with its name, which may be empty."""

    name: str
    is_file: bool
    file_name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Form:
    """A multipart form: its files, and the names and texts of its other fields."""

    files: list[FormField]
    texts: list[tuple[str, str]]

    @classmethod
    def read(cls, content_type: str, body: bytes) -> Form:
        """Parse a form; raises ServiceError `invalid`."""
        fields = parse_form(content_type, body)
        texts = [(field.name, _text(field)) for field in fields if not field.is_file]
        return cls([field for field in fields if field.is_file], texts)

    def picture(self) -> FormField:
        """Return the only file, `image`; raises ServiceError `invalid` if it is not there."""
        if "image" in dict(self.texts):
            raise invalid("image", "send a file, with a file name")
        for file in self.files:
            if file.name != "image":
                raise invalid(shortened(file.name), "there is no such file field")
        if not self.files:
            raise invalid("image", "this file field is required")
        if len(self.files) > 1:
            raise repeated_field("image")
        return self.files[0]

    def as_model(self, model: type[Model], picture: str) -> Model:
        """Return the form as `model`; raises ServiceError `invalid` if it does not fit.

        The picture becomes the field `picture`, or its first item if the field is a list.
        """
        values: dict[str, Any] = {}
        for name, text in self.texts:
            kind = kind_of(model.model_fields[name]) if name in model.model_fields else str
            if name == picture and kind is not list:
                raise invalid(name, "there is no such field")
            if kind is list:
                values.setdefault(name, []).append(text)
            elif name in values:
                raise repeated_field(name)
            # An empty text means the default, except in these two fields: no split, and no images.
            elif text or name in ("split", "image_ids"):
                values[name] = _value(kind, name, text)
        content = self.picture().content
        if kind_of(model.model_fields[picture]) is list:
            texts = values.get(picture, [])
            (limit,) = (
                constraint.max_length
                for constraint in model.model_fields[picture].metadata
                if hasattr(constraint, "max_length")
            )
            if len(texts) >= limit:
                raise invalid(picture, too_many(limit - 1, len(texts)))
            values[picture] = [content, *texts]
        else:
            values[picture] = content
        return validated(model, values)


def _value(kind: Any, name: str, text: str) -> Any:
    """Read the text of a field; raises ServiceError `invalid`."""
    if kind is int:
        return _whole_number(name, text)
    if kind is bool:
        if text not in _BOOLEANS:
            raise invalid(name, "this is neither true nor false")
        return _BOOLEANS[text]
    if kind == list[int]:
        return [_whole_number(name, part.strip()) for part in text.split(",")] if text else []
    if kind is float:
        if not _NUMBER.fullmatch(text):
            raise invalid(name, "this is not a number of 0 or more")
        return float(text)
    return text


def _whole_number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise invalid(name, "this is not a whole number")
    return int(text)


def _text(field: FormField) -> str:
    try:
        return field.content.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("body", "a field is not UTF-8") from None


def parse_form(content_type: str, body: bytes) -> list[FormField]:
    """Return the fields of a form. The caller limits the size of files.

    Raises:
        ServiceError: `invalid` if the body is not a form, or the form is over a limit.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        raise invalid("body", "there is no boundary")
    fields: list[tuple[Message, list[memoryview]]] = []
    header = ""
    is_whole = False

    def on_part_begin() -> None:
        if len(fields) == _MAX_FIELDS:
            raise invalid("body", f"the form has more than {_MAX_FIELDS} fields")
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
            max_header_size=_MAX_HEADER_BYTES,
        )
        # The parser does not accept a preamble. It gets the whole body at once, so that it calls
        # back once for each name and each value of a header.
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
    # RFC 6266: `filename*` wins over `filename`; it comes last here.
    options = {key.lower(): value for key, value in headers.get_params([], "content-disposition")}
    if "name" not in options:
        raise invalid("body", "a field has no name")
    # Some clients send the content type text/plain with a text, which is the default.
    is_file = "filename" in options or headers.get_content_type() != "text/plain"
    if not is_file and len(content) > _MAX_TEXT_BYTES:
        raise invalid("body", "a field is too long")
    # The last part of a path, without unprintable characters. It is never used as a path.
    file_name = re.split(r"[/\\]", _decode_option(options.get("filename", "")))[-1]
    printable = "".join(filter(str.isprintable, file_name)).strip()
    return FormField(
        _decode_option(options["name"]), is_file, printable[-_MAX_NAME_CHARACTERS:], content
    )


def _decode_option(value: str | tuple[str | None, str | None, str]) -> str:
    """Decode an option of a header: UTF-8 as browsers send it, or RFC 8187 with a charset.

    Browsers escape only quotes and line breaks, as in a URL.
    """
    if isinstance(value, str):
        text = value.encode("latin-1").decode("utf-8", "replace")
        return re.sub("%(22|0D|0A)", lambda escape: unquote(escape[0]), text)
    try:
        return collapse_rfc2231_value(value)
    except ValueError:
        raise invalid("body", "the charset of a name cannot be read") from None
