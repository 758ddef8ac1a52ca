"""Options of a study on its command line."""

from __future__ import annotations


def options(*chosen: str) -> tuple[str, ...]:
    """Return the words of `--set NAME=VALUE` for each option."""
    return tuple(word for one in chosen for word in ("--set", one))
