"""The product stands alone: without `studies/` its tests run, without `lab/` it imports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("hasse", "index", "lab", "models", "scenes", "service"),
    *("benchmarks", "docker", "tests", "docs"),
)
IMPORT_ALL = """
import importlib, pkgutil, hasse
for module in pkgutil.walk_packages(hasse.__path__, "hasse."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
SOME_TESTS = (
    *("tests/service/cli/test_help.py", "tests/service/pipelines/test_scenes.py"),
    *("tests/models/captioning", "tests/lab/training/test_lesson.py"),
)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree without `studies/` and its tests; built-in models are linked."""
    copy = tmp_path_factory.mktemp("product")
    pretrained = ROOT / "models" / "pretrained"
    for name in FOLDERS:
        skipped = shutil.ignore_patterns("__pycache__", "studies", pretrained.name)
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=skipped)
    (copy / "models" / pretrained.name).symlink_to(pretrained)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, copy)
    return copy


def run(product: Path, program: str, *arguments: str) -> None:
    """Run a program on the copy, without the finder that an editable installation adds."""
    alone = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in repr(f)]"
    done = subprocess.run(
        [sys.executable, "-c", f"{alone}\n{program}", *arguments],
        cwd=product,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_product_without_studies_imports(product: Path) -> None:
    run(product, IMPORT_ALL)


@pytest.mark.slow
def test_product_without_the_laboratory_imports_without_torch(product: Path) -> None:
    (product / "lab").rename(product.parent / "lab")
    (product / "hasse" / "lab").rename(product.parent / "link")
    try:
        kernels = "('hasse.index.kernels.triton_scan', 'hasse.index.search.gpu_scan')"
        program = IMPORT_ALL.replace('"__main__")', f'"__main__") and module.name not in {kernels}')
        run(product, f"import sys; sys.modules['torch'] = None\n{program}")
    finally:
        (product.parent / "lab").rename(product / "lab")
        (product.parent / "link").rename(product / "hasse" / "lab")


@pytest.mark.slow
def test_product_without_studies_passes_its_tests(product: Path) -> None:
    program = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    options = ("-q", "-n0", "-p", "no:cacheprovider")
    run(product, program, *options, "--collect-only", "tests")
    run(product, program, *options, "-m", "not slow and not browser", *SOME_TESTS)
