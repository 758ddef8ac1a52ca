"""Sdist and wheel work without the clone, and type checkers find types, installed either way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import httpx
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGES = ("hasse", "index", "lab", "models", "scenes", "service", "src", "studies")
FILES = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "constraints.txt", "pyproject.toml")
CONSUMER = """
import hasse
reveal_type(hasse.HasseError("no").remedy)
hasse.Nothing
"""


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command without the clone's import path, and return what it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # The first search compiles kernels.
    environment |= {"HASSE_HOME": str(cwd), "HASSE_DEADLINE_SECONDS": "200"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments: object) -> None:
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", *arguments, *offline, "--quiet")


def environment(folder: Path) -> Path:
    """Make a virtual environment with the libraries of this one, but not Hasse."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    # Lines name folders; what their own .pth files would add, such as this clone, is not added.
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("\n".join(libraries))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what a build reads, so that nothing is written beside this clone."""
    folder = tmp_path_factory.mktemp("clone")
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def built(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from it, as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, clone)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel; return the interpreter that has it."""
    python = environment(tmp_path_factory.mktemp("environment"))
    pip("--python", python, "install", wheel)
    return python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a working folder with modules of the user's own, which must not be imported."""
    (tmp_path / "index").mkdir()
    for name in ("models.py", "service.py", "index/__init__.py"):
        (tmp_path / name).write_text('raise ImportError("the module of the user")\n')
    return tmp_path


def test_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    version = wheel.name.split("-")[1]
    assert {name.split("/")[0] for name in names} == {"hasse", f"hasse_search-{version}.dist-info"}
    needed = {
        "hasse/py.typed",
        "hasse/models/order.py",
        "hasse/models/pretrained/photographs/model.safetensors",
        "hasse/service/page/templates/add_form.html",
        "hasse/studies/__init__.py",
    }
    assert needed <= set(names), needed - set(names)


def test_sdist_holds_pins_and_changes_and_no_tests(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "LICENSE", "constraints.txt", "src/hasse/models/order.py"} <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]


def test_metadata_names_version_licence_and_pythons(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    released = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert metadata["Version"] == released[0]
    assert metadata["License-Expression"] == "MIT"
    pythons = {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)}
    assert pythons <= set(metadata.get_all("Classifier", []))


def test_wheel_is_imported_beside_modules_named_like_its_parts(
    installed: Path, folder: Path
) -> None:
    program = """
import hasse, hasse.models.order, hasse.index.types, hasse.service.schemas
print(hasse.load_model("scenes").encode_captions(["a red circle"]).shape, hasse.__file__)
"""
    shown = run(installed, "-c", program, cwd=folder)
    assert shown.startswith("(1, ")
    assert str(installed.parents[1]) in shown


@pytest.fixture
def address(installed: Path, folder: Path) -> Iterator[str]:
    """Serve the index in the folder, and give the address."""
    command = [str(installed.with_name("hasse")), "serve", "--library", "made", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            found = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in lines)
            yield next(match.group() for match in found if match)
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.timeout(900)  # kernels are compiled anew for the installation
def test_wheel_draws_adds_searches_and_serves_from_an_empty_folder(
    installed: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    hasse = installed.with_name("hasse")
    demo = ("--count", 20, "--library", "made", "--no-serve")
    run(hasse, "demo", *demo, cwd=folder)
    found = run(hasse, "search", "a red circle", "--library", "made", "--json", cwd=folder)
    assert json.loads(found)["hits"]
    (folder / "mine").mkdir()
    Image.new("RGB", (64, 64), (200, 30, 40)).save(folder / "mine" / "red.png")
    run(hasse, "add", "mine", "--library", "own", cwd=folder)
    own = run(hasse, "status", "--library", "own", "--json", cwd=folder)
    assert json.loads(own)["pictures"] == 1
    address = request.getfixturevalue("address")
    assert httpx.get(f"{address}/livez", timeout=60).status_code == 200


@pytest.mark.parametrize("editable", [False, True])
def test_type_checker_of_a_consumer_knows_the_types(
    editable: bool, clone: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if editable:
        python = environment(tmp_path / "environment")
        pip("--python", python, "install", "--editable", clone)
    else:
        python = request.getfixturevalue("installed")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    checked = subprocess.run(
        [*map(str, mypy), "consumer.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.stdout.splitlines() == [
        'consumer.py:3: note: Revealed type is "str"',
        'consumer.py:4: error: Module has no attribute "Nothing"  [attr-defined]',
        "Found 1 error in 1 file (checked 1 source file)",
    ], checked.stdout + checked.stderr
