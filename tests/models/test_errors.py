"""The base of errors: a sentence, and the remedy after it where there is one."""

from __future__ import annotations

import copy

from hasse.models.errors import HasseError


class FilledError(HasseError):
    """An error with one remedy for all."""

    remedy = "free some space"


def test_message_of_an_error_ends_with_its_remedy() -> None:
    assert str(HasseError("x is missing: restore it")) == "x is missing: restore it"
    assert str(HasseError("x is missing", "restore it")) == "x is missing: restore it"
    assert str(FilledError("the disk is full")) == "the disk is full: free some space"
    assert str(FilledError("the disk is full", "use another")) == "the disk is full: use another"


def test_error_keeps_message_and_remedy_when_copied() -> None:
    again = copy.copy(HasseError("x is missing", "restore it"))
    assert (again.message, again.remedy) == ("x is missing", "restore it")
