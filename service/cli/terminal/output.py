"""Escapes text for the terminal, so that any locale can show it and a row stays one line."""

from __future__ import annotations

import codecs
import re
import sys
from io import TextIOWrapper

# Control characters, separators of lines and paragraphs, and changes of direction.
_BREAKING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ERROR_HANDLER = "hasse-escape"


def one_line(text: str) -> str:
    """Escape the characters of a text that would split its line or move the cursor."""
    return _BREAKING.sub(lambda match: _SHORT_ESCAPES.get(match[0]) or escape(match[0]), text)


def escape(text: str) -> str:
    """Escape all characters as JSON does, so that JSON stays JSON in any encoding."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def accept_any_character() -> None:
    """Make standard output and standard error escape characters that their encodings lack."""
    codecs.register_error(_ERROR_HANDLER, _escape_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_ERROR_HANDLER)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escape(error.object[error.start : error.end]), error.end
