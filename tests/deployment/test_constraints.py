"""constraints.txt pins what we ask for, and nothing that ties it to a place or a platform."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)==(\d+(?:\.\d+)*(?:b\d+)?)")


def pins() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        match = PIN.fullmatch(line)
        assert match, f"not 'name==version' in lower case: {line!r}"
        assert match[1] not in found, f"{match[1]} is pinned twice"
        found[match[1]] = match[2]
    return found


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def test_every_line_is_a_name_and_a_version_in_order() -> None:
    names = list(pins())
    assert names == sorted(names)


def test_every_direct_dependency_is_pinned_at_or_above_its_minimum() -> None:
    extras = project()["optional-dependencies"].values()
    asked = [*project()["dependencies"], *(each for extra in extras for each in extra)]
    for requirement in asked:
        if requirement.startswith("hasse-search["):
            continue
        name, _, minimum = requirement.partition(";")[0].partition(">=")
        assert minimum, f"{requirement}: say the oldest version that works"
        pinned = tuple(int(part) for part in pins()[name.split("[")[0]].split("."))
        assert pinned >= tuple(int(part) for part in minimum.split(".")), requirement


def test_no_library_of_one_platform_is_pinned() -> None:
    assert not [name for name in pins() if re.match(r"nvidia-|cuda-|triton", name)]


def test_torch_and_torchvision_are_pinned_together() -> None:
    # Their wheels only import beside the release they were built with.
    assert {"torch", "torchvision"} <= set(pins())
