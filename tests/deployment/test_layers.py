"""Imports point one way: the service knows the index and the models, and neither knows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"models", "index", "service", "lab", "studies", "scenes"}
OURS = {"hasse", "benchmarks", "tests"}


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, also inside of functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("package", "known"),
    [
        ("scenes", {"hasse.scenes"}),
        ("models", {"hasse.models"}),
        (
            "index",
            {
                "hasse.index",
                "hasse.models.errors",
                "hasse.models.order",
                "hasse.models.regular_file",
                "hasse.models.spelling",
                "hasse.models.score",
            },
        ),
        ("service", {"hasse.service", "hasse.index", "hasse.models", "hasse.scenes"}),
        (
            "lab",
            {"hasse.lab", "hasse.service", "hasse.index", "hasse.models", "hasse.scenes"},
        ),
        ("studies", {"hasse"}),
        (
            "benchmarks",
            {"benchmarks", "tests", *(f"hasse.{one}" for one in PACKAGES - {"studies"})},
        ),
        (
            "hasse",
            {"hasse.local_index", "hasse.model", "hasse.models", "hasse.index", "hasse.service"},
        ),
    ],
)
def test_package_imports_only_those_below_it(package: str, known: set[str]) -> None:
    for path in (ROOT / package).rglob("*.py"):
        for name in imported(path):
            assert name.split(".")[0] not in PACKAGES, f"{path}: {name} is hasse.{name}"
            if name.split(".")[0] in OURS and name not in {"hasse", "hasse.models"}:
                allowed = any(name == one or name.startswith(f"{one}.") for one in known)
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


# Kernels for GPUs, behind the extra `gpu`.
WITH_TORCH = {ROOT / "index/kernels/triton_scan.py", ROOT / "index/search/gpu_scan.py"}


@pytest.mark.parametrize("package", ["models", "index", "service", "hasse", "scenes"])
def test_package_without_training_imports_no_torch(package: str) -> None:
    for path in set((ROOT / package).rglob("*.py")) - WITH_TORCH:
        libraries = {name.split(".")[0] for name in imported(path)}
        assert not libraries & {"torch", "torchvision", "triton"}, path.relative_to(ROOT)


@pytest.mark.parametrize("package", ["models", "index", "service"])
def test_errors_of_a_package_derive_from_the_base_that_users_are_shown(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                bases = {ast.unparse(base) for base in node.bases}
                bare = bases & {"Exception", "ValueError", "RuntimeError", "OSError", "LookupError"}
                assert not bare or path == ROOT / "models/errors.py", f"{path}: {node.name}"
