"""Text that any terminal and any locale can show, with one line for each row."""

from __future__ import annotations

import codecs
import re
import sys
from io import TextIOWrapper

# Control characters, separators of lines and paragraphs, and changes of direction.
_BREAKING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_HANDLER = "hasse-escape"


def one_line(text: str) -> str:
    """Return a text with escapes for characters that would split its line or move the cursor."""
    return _BREAKING.sub(lambda found: _NAMED.get(found[0]) or escaped(found[0]), text)


def escaped(text: str) -> str:
    """Return characters as JSON escapes them, so that JSON stays JSON in any encoding."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def accept_any_character() -> None:
    """Let standard output and standard error escape characters that their encodings lack."""
    codecs.register_error(_HANDLER, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escaped(error.object[error.start : error.end]), error.end
