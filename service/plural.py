"""Formats numbers of things for people."""

from __future__ import annotations


def count(number: int, thing: str) -> str:
    """Return a number of things, as in "2,000 pictures"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
