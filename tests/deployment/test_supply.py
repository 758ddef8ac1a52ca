"""What is installed is known: hashes of every file, a bill of materials, and every licence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.test_constraints import pins, project

ROOT = Path(__file__).parents[2]
SBOM = ROOT / "docker" / "sbom.py"
# Tools of this clone and platforms; all else is an extra of the product.
EXTRAS = sorted(project()["optional-dependencies"].keys() - {"dev"})


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Return version and hashes of each requirement."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    found = {}
    for block in re.split(r"\n(?=\w)", text.strip()):
        first, *rest = block.split("\\\n")
        match = re.match(r"([a-z0-9-]+)==([^\s;]+)", first)
        assert match, first
        found[match[1]] = match[2], [each.strip() for each in rest]
    return found


def printed(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SBOM), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["base", "gpu", "all"])
def test_every_requirement_has_its_pin_and_hashes_and_no_address(name: str) -> None:
    pinned = pins()
    for package, (version, hashes) in locked(name).items():
        assert pinned.get(package, version) == version, f"{package}: run 'make lock'"
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), package
    assert "://" not in (ROOT / "requirements" / f"{name}.txt").read_text()


def test_requirements_hold_what_the_project_asks_for() -> None:
    asked = {re.split(r"[>\[]", each)[0] for each in project()["dependencies"]}
    assert asked <= locked("base").keys() <= locked("gpu").keys() <= locked("all").keys()
    extras = project()["optional-dependencies"]
    every = {re.split(r"[>\[]", each)[0] for extra in EXTRAS for each in extras[extra]}
    assert every - {"hasse-search"} <= locked("all").keys()


def test_requirements_of_a_plain_installation_hold_neither_torch_nor_cuda() -> None:
    heavy = re.compile(r"torch|triton|nvidia-|cuda-")
    assert [package for package in locked("base") if heavy.match(package)] == []
    assert {"torch", "triton"} <= locked("gpu").keys()


def test_bill_of_materials_has_the_shape_of_cyclonedx() -> None:
    bill: dict[str, Any] = json.loads(printed())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    refs = {bill["metadata"]["component"]["bom-ref"]}
    for each in bill["components"]:
        assert re.fullmatch(r"pkg:pypi/[a-z0-9-]+@\S+", each["purl"])
        assert each["licenses"]
        refs.add(each["bom-ref"])
    assert {"pkg:pypi/numpy", "pkg:pypi/openvino"} <= {ref.partition("@")[0] for ref in refs}
    assert {each["ref"] for each in bill["dependencies"]} == refs
    assert all(set(each["dependsOn"]) <= refs for each in bill["dependencies"])
    assert printed() == json.dumps(bill, indent=1) + "\n", "the same packages, the same bytes"


def test_every_licence_that_is_not_permissive_is_named_in_the_docs() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    section = page[page.index("## Licences") :]
    for line in printed("--licences", *EXTRAS).splitlines():
        package, _version, kind, *_ = line.split()
        if package.startswith(("nvidia-", "cuda-")):
            package = "nvidia-*"
        assert kind == "permissive" or f"`{package}`" in section, line
