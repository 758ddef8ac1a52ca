"""Where a text about an image stands."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

# Where a text stands, the most telling first. What `Metadata` brings is replaced as a whole.
TextSource: TypeAlias = Literal[
    "caption",
    "title",
    "keyword",
    "added keyword",
    "description",
    "file name",
    "text in the picture",
    "place",
    "camera",
    "folder",
    "written caption",
]
TEXT_SOURCES: tuple[TextSource, ...] = get_args(TextSource)
METADATA_SOURCES: tuple[TextSource, ...] = (
    "title",
    "keyword",
    "description",
    "place",
    "camera",
)
