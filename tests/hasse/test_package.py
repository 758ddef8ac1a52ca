"""The package: what it exports, and how little of the rest it loads."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import hasse

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "torchvision", "numpy", "faiss", "numba", "PIL", "sqlalchemy", "fastapi"}
HEAVY |= {"starlette", "pydantic_settings"}


def loaded(code: str) -> set[str]:
    """Return the modules that a program loads."""
    program = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_package_import_loads_nothing_else() -> None:
    modules = loaded("import hasse")
    names = {name.partition(".")[0] for name in modules}
    assert not names & (HEAVY | {"httpx", "pydantic"})
    assert {name for name in modules if name.startswith("hasse")} == {"hasse"}


@pytest.mark.parametrize("name", ["Client", "AsyncClient", "HasseError", "NotFoundError"])
def test_client_import_loads_httpx_and_pydantic_alone(name: str) -> None:
    modules = loaded(f"import hasse; hasse.{name}")
    assert not {module.partition(".")[0] for module in modules} & HEAVY
    assert not any(module.startswith("hasse.index") for module in modules)
    ours = {module for module in modules if module.startswith("hasse.models.")}
    assert ours <= {"hasse.models.errors", "hasse.models.captioning"}, "a constant and the errors"


def test_package_exports_all_its_names() -> None:
    assert dir(hasse) == hasse.__all__
    for name in hasse.__all__:
        assert getattr(hasse, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'search'"):
        getattr(hasse, "search")  # noqa: B009


def test_version_is_that_of_the_distribution() -> None:
    assert hasse.__version__ == version("hasse-search")


def test_package_is_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["hasse"]
    assert (ROOT / "hasse" / "py.typed").is_file()
