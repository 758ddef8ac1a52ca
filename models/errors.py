"""The base class of every error for users. Standard library only."""

from __future__ import annotations

from pathlib import Path

_CLONE = Path(__file__).resolve().parents[1]


def pip_install(extra: str) -> str:
    """Return the command that installs an extra: in a clone, or for an installed wheel.

    The distribution is `hasse-search`; the package index has another project's `hasse`.
    """
    if (_CLONE / "pyproject.toml").is_file():
        return f'pip install -e ".[{extra}]"'
    return f'pip install "hasse-search[{extra}]"'


class HasseError(Exception):
    """An error for users: what went wrong, and what to do about it.

    Attributes:
        message: what went wrong; it may name the remedy itself.
        remedy: what to do about it. A subclass may set one for all of its errors.
    """

    remedy: str = ""

    def __init__(self, message: str = "", remedy: str | None = None) -> None:
        super().__init__(*([message] if remedy is None else [message, remedy]))
        self.message = message
        if remedy is not None:
            self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message


class BackboneError(HasseError):
    """An encoder or weights cannot be used; the message has the reason and the remedy."""
