"""Texts about an image, and their sources."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

# The most informative source first.
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
# Sources of `Metadata.texts`, which are replaced together.
METADATA_SOURCES: tuple[TextSource, ...] = ("title", "keyword", "description", "place", "camera")


class SourcedText(NamedTuple):
    """A text of an image, and its source."""

    source: TextSource
    text: str
