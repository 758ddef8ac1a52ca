from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from hasse.service.cli.terminal.errors import CommandError
from hasse.studies.options import with_options


@dataclass(frozen=True)
class Shape:
    size: int = 3
    kind: Literal["wide", "deep"] = "wide"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("size is at least 1")


@dataclass(frozen=True)
class Training:
    shape: Shape = field(default_factory=Shape)
    rate: float = 0.1


def test_options_replace_fields_also_of_inner_configurations() -> None:
    assert with_options(Training(), None) == Training()
    changed = with_options(Training(), ["rate=1e-3", "size=7", "kind=deep"])
    assert changed == Training(Shape(7, "deep"), 1e-3)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("length=1", "no option 'length'; there are: kind, rate, size"),
        ("size=seven", "size cannot be 'seven': input should be a valid integer"),
        ("kind=long", "kind cannot be 'long'"),
        ("size=0", "do not go together: size is at least 1"),
        ("size", "write it as --set NAME=VALUE"),
    ],
)
def test_option_that_cannot_be_is_refused_with_the_reason(option: str, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        with_options(Training(), [option])
