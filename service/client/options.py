"""The options of searches, for type checkers of programs that use a client.

A test compares them with the fields of the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from hasse.service.questions.requests import Evidence, Mode, Sort, Versions


class Options(TypedDict, total=False):
    """How to search. The service has a default for each option; /docs describes them."""

    k: int
    mode: Mode
    candidates: int
    max_violation: float
    offset: int
    split: str
    image_ids: Sequence[int]
    added_from: datetime | str
    added_before: datetime | str
    taken_from: datetime | str
    taken_before: datetime | str
    path_prefix: str
    camera: str
    rating: int
    near: str
    has_place: bool
    has_captions: bool


class ImageOptions(Options, total=False):
    """How to search for images."""

    versions: Versions


class SortedOptions(ImageOptions, total=False):
    """How to search for images, and how to sort them."""

    sort: Sort


class EvidenceOptions(SortedOptions, total=False):
    """How to search for images by a caption."""

    evidence: Evidence


class DistinctOptions(Options, total=False):
    """How to search for captions."""

    distinct: bool
    written: bool
