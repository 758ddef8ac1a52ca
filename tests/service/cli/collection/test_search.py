"""`hasse search` and `hasse like`: the same answers as over HTTP, without a service."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from hasse.models.checkpoints import checkpoint, named_models
from hasse.service.cli.collection import parts, selecting
from hasse.service.cli.collection.asking import FilledQuestion
from hasse.service.questions.answers import CaptionAnswer, ImageAnswer
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.collection import picture, without_paths
from tests.tiny import tiny_checkpoint


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    picture(3).save(path)
    return path


def alike(found: Any, served: Any) -> bool:
    """Tell whether two answers are the same but for the last digits of their numbers."""
    if isinstance(found, dict):
        return found.keys() == served.keys() and all(
            alike(found[key], served[key]) for key in found
        )
    if isinstance(found, list):
        return len(found) == len(served) and all(map(alike, found, served))
    if isinstance(found, float):
        return math.isclose(found, served, rel_tol=1e-5, abs_tol=1e-7)
    return bool(found == served)


def test_search_by_caption_prints_the_answer_of_the_service(
    collection: Path, client: Client
) -> None:
    found = hasse("search", "a dog", "--library", collection, "-n", 5, "--json")
    assert found.status == 0, found.err
    answer = ImageAnswer.model_validate_json(found.out)
    served = client.post("/search/images", json={"caption": "a dog", "k": 5}).json()
    assert alike(without_paths(json.loads(found.out)), without_paths(served))
    assert answer.certified


def test_captions_of_a_picture_are_the_answer_of_the_service(
    collection: Path, client: Client, photo: Path
) -> None:
    command = ("lab captions", photo, "--library", collection)
    found = hasse(*command, "-n", 4, "--mode", "exact", "--json")
    assert found.status == 0, found.err
    CaptionAnswer.model_validate_json(found.out)
    form = {"k": "4", "mode": "exact"}
    served = client.post("/search/captions", data=form, files={"image": photo.read_bytes()}).json()
    assert alike(without_paths(json.loads(found.out)), without_paths(served))


def test_search_by_caption_prints_a_table_of_images(collection: Path) -> None:
    found = hasse("search", "a dog", "--library", collection, "-n", 3, "--evidence", "shows")
    head, *rows = found.out.splitlines()
    assert head.split()[3:] == ["likely", "verdict", "path", "text"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert all(".png" in row and row.count(" runs") == 1 for row in rows)
    assert all(re.search(r"\d %  +(shows|may show|nearest, but not) it", row) for row in rows)
    command = ("search", "a", "dog", "--library", collection, "-n", 3, "--json")
    as_json = hasse(*command, "--evidence", "shows")
    hits = json.loads(as_json.out)["hits"]
    assert [int(row.split()[1]) for row in rows] == [hit["image_id"] for hit in hits]
    assert all(
        hit["path"] in row and Path(hit["path"]).is_file()
        for hit, row in zip(hits, rows, strict=True)
    )
    assert "checked all 12" in found.err


def test_captions_of_a_picture_are_a_table(collection: Path, photo: Path) -> None:
    command = ("lab captions", photo, "--library", collection, "-n", 3)
    head, *rows = hasse(*command).out.splitlines()
    assert head.split()[3:] == ["likely", "verdict", "caption", "path"]
    found = json.loads(hasse(*command, "--json").out)["hits"]
    assert [int(row.split()[1]) for row in rows] == [hit["image_id"] for hit in found]
    assert [row.split()[-1] for row in rows] == [hit["path"] for hit in found]


def test_captions_of_a_stored_picture_need_no_image_encoder(collection: Path) -> None:
    found = hasse("lab captions", 1003, "--library", collection, "-n", 3, "--json")
    assert found.status == 0, found.err
    assert len(json.loads(found.out)["hits"]) == 3


def test_search_with_unknown_words_names_them(collection: Path) -> None:
    assert "zeppelin" in hasse("search", "a zeppelin", "--library", collection).err


@pytest.mark.parametrize(
    ("text", "told"), [("zeppelin", "never seen the word “zeppelin”"), ("🐕", "none in “🐕”")]
)
def test_search_without_a_known_word_is_refused(collection: Path, text: str, told: str) -> None:
    refused = hasse("search", text, "--library", collection, "--evidence", "shows")
    assert refused.status == 1
    assert refused.out == ""
    assert told in refused.error


def test_search_with_max_violation_may_print_no_hits(collection: Path) -> None:
    found = hasse("search", "a dog", "--library", collection, "--max-violation", 0, "--json")
    assert found.status == 0
    assert json.loads(found.out)["hits"] == []


@pytest.mark.parametrize(
    ("command", "query", "reason"),
    [
        ("like", "absent.jpg", "no picture absent.jpg"),
        ("like", "text.jpg", "text.jpg: not a picture"),
        ("like", "cut.jpg", "cut.jpg: damaged or cut short"),
        ("like", "empty.png", "empty.png: the file is empty"),
        ("like", "a dog", "'a dog' names no picture"),
        ("search", "whole.jpg", "'hasse like whole.jpg' finds pictures like it"),
        ("search", " ", "say what the pictures show"),
        ("search", "dog " * 200, "words"),
        ("search", "d\udce9j\udce0", "UTF-8"),
    ],
)
def test_search_with_bad_query_is_one_error_line(
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    query: str,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    picture(1).save("whole.jpg")
    whole = Path("whole.jpg").read_bytes()
    Path("cut.jpg").write_bytes(whole[: len(whole) // 2])
    Path("text.jpg").write_text("not a picture")
    Path("empty.png").touch()
    failed = hasse(command, query, "--library", collection)
    assert failed.status == 1
    assert reason in failed.error


def test_search_without_library_says_what_to_type_first(tmp_path: Path) -> None:
    failed = hasse("search", "a dog", "--library", tmp_path / "absent")
    assert failed.status == 1
    assert "hasse add FOLDER" in failed.error


def test_search_with_checkpoint_of_another_model_is_refused(
    collection: Path, tmp_path: Path
) -> None:
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    failed = hasse("search", "a dog", "--library", collection, "--model", other)
    assert failed.status == 1
    assert "made by the model" in failed.error
    assert "hasse use" in failed.error


def test_search_with_name_of_built_in_checkpoint_finds_it(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(named_models, "PRETRAINED", collection.parent)
    found = hasse("search", "a dog", "--library", collection, "--model", "model")
    assert found.status == 0, found.err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--device", "abacus"), "cpu, cuda"),
        (("--device", "cuda:99"), "no cuda:99"),
        (("--max-violation", "inf"), "number"),
    ],
)
def test_search_with_bad_option_is_one_error_line(
    collection: Path, options: tuple[str, ...], reason: str
) -> None:
    failed = hasse("search", "a dog", "--library", collection, *options)
    assert failed.status == 1
    assert reason in failed.error


@pytest.mark.parametrize(("option", "most"), [("-n", 1000), ("--candidates", 1_000_000)])
def test_search_with_option_beyond_its_bound_names_the_bound(
    collection: Path, option: str, most: int
) -> None:
    failed = hasse("search", "a dog", "--library", collection, option, most + 1)
    assert failed.status == 2
    assert option in failed.err
    assert str(most) in failed.err
    assert hasse("search", "a dog", "--library", collection, option, most).status == 0


@pytest.mark.parametrize("text", ["²", "٣", str(2**63), "9" * 5000])
def test_parse_part_that_is_no_id_is_a_caption(text: str) -> None:
    assert parts.parse_part(text) == text


@pytest.mark.parametrize("number", [0, 7, 10**18, 2**63 - 1])
def test_parse_part_that_is_an_id_is_an_id(number: int) -> None:
    assert parts.parse_part(str(number)) == number


@pytest.mark.parametrize(
    ("question", "looks"),
    [
        (["search", "a dog"], False),
        pytest.param(
            ["search", "--all-of", "a dog", "--all-of", "PHOTO"], True, marks=pytest.mark.slow
        ),
    ],
)
def test_search_by_captions_does_not_load_the_image_encoder(
    collection: Path, photo: Path, question: list[str], *, looks: bool
) -> None:
    asked = [str(photo) if word == "PHOTO" else word for word in question]
    command = ["hasse", *asked, "--library", str(collection), "--device", "cpu", "--json"]
    encoder = "openvino"
    program = f"""
import sys
sys.argv = {command!r}
from hasse.service.cli.app import main
try:
    main()
finally:
    print("{encoder}" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    *answer, looked = done.stdout.splitlines()
    assert json.loads("\n".join(answer))
    assert looked == str(looks)


def test_search_paths_prints_paths_alone(collection: Path) -> None:
    found = hasse("search", "a", "dog", "--library", collection, "-n", 2, "--paths")
    assert all(Path(line).is_file() for line in found.out.splitlines())
    assert len(found.out.splitlines()) == 2
    null = hasse("search", "a", "dog", "--library", collection, "-n", 2, "--paths", "-0")
    assert null.out.split("\0") == [*found.out.splitlines(), ""]


def test_search_in_a_folder_finds_its_files_only(collection: Path, tmp_path: Path) -> None:
    def count(folder: Path, *options: str) -> int:
        command = ("search", "a dog", "--library", collection, "--in", folder, "--paths", *options)
        return len(hasse(*command).out.splitlines())

    assert count(collection.parent / "pictures") == 10
    assert count(collection.parent / "pict") == 0
    assert count(tmp_path) == 0
    assert count(collection.parent, "--split", "none") == 0


def test_like_finds_the_images_of_the_service(
    collection: Path, photo: Path, client: Client
) -> None:
    command = ("like", photo, "--library", collection, "--similar", "more_specific", "--json")
    served = client.post(
        "/search/images", data={"similar": "more_specific"}, files={"image": photo.read_bytes()}
    ).json()
    assert alike(without_paths(json.loads(hasse(*command).out)), without_paths(served))


@pytest.mark.parametrize(
    "typed",
    ["dog on a beach -people -indoors", "-people dog -indoors on a beach"],
    ids=["last", "first"],
)
def test_words_after_a_dash_reach_the_query_and_are_no_options(
    collection: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    asked: list[str] = []

    def note(_settings: object, question: FilledQuestion, *_more: object) -> None:
        asked.append(question.fields["caption"])
        assert question.fields["k"] == 3

    monkeypatch.setattr(selecting, "show_hits", note)
    shown = hasse("search", *typed.split(), "-n3", "--library", collection)
    assert shown.status == 0, shown.err
    assert asked == [typed]


def test_search_open_opens_the_first_hits(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(typer, "launch", opened.append)
    found = hasse("search", "a dog", "--library", collection, "--paths", "--open")
    assert opened == found.out.splitlines()[:5]


def test_search_preview_writes_pictures_to_a_terminal_that_shows_them(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "iTerm.app")
    found = hasse("search", "a dog", "--library", collection, "-n", 2, "--preview")
    assert found.out.count("\033]1337;File=inline=1") == 2


def test_word_that_names_a_file_is_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    picture(1).save(tmp_path / "dog", "PNG")
    content = (tmp_path / "dog").read_bytes()
    assert parts.parse_text_or_picture("dog") == "dog"
    assert parts.parse_text_or_picture("a dog") == "a dog"
    assert parts.parse_text_or_picture("./dog") == content
    assert parts.parse_text_or_picture(str(tmp_path / "dog")) == content
    (tmp_path / "dog").rename("my dog.png")
    assert parts.parse_text_or_picture("my dog.png") == content


def test_saved_search_says_once_what_is_new(tmp_path: Path) -> None:
    library, pictures = tmp_path / "library", tmp_path / "pictures"
    for number, name in enumerate(("felix", "rex")):
        (pictures / name).mkdir(parents=True)
        picture(number).save(pictures / name / "a.png")
    here = ("--library", library)
    added = hasse("add", pictures, *here, "--model", tiny_checkpoint(tmp_path / "model"))
    assert added.status == 0, added.err
    within = ("--in", pictures / "felix", "--evidence", "says")
    kept = hasse("search", "a", *here, *within, "--save", "our cat")
    assert kept.status == 0, kept.err
    picture(7).save(pictures / "felix" / "a b.png")
    assert hasse("sync", *here).status == 0
    (listed,) = json.loads(hasse("search", "@", *here, "--json").out)
    assert (listed["name"], listed["count"], listed["new"]) == ("our cat", 2, 1)
    assert listed["search"]["path_prefix"] == "felix/"
    again = hasse("search", "@our", "cat", *here, "--paths")
    assert len(again.out.splitlines()) == 2
    assert "1 new since" in again.err
    assert "a b.png" in again.err
    assert "new since" not in hasse("search", "@our cat", *here).err
    assert hasse("search", "@", *here).out.split()[4:9] == ["@our", "cat", "2", "0", "a"]
    assert "forgotten" in hasse("remove", "@our cat", *here).out
    assert "no search" in hasse("search", "@our cat", *here).error
    assert "no search" in hasse("remove", "@our cat", *here).error


_TEXTS_ALONE = """
import sys
from hasse.service.cli.app import app

compiled = {"numba", "llvmlite", "scipy"}
for command, allowed in {
    "search a dog": set(),
    "search --all-of a --all-of dog": set(),
    "check a dog": set(),
    "status": {"PIL"},
    "export {out} a dog": {"PIL"},
    "duplicates": {"PIL"} | compiled,
}.items():
    try:
        app([*command.format(out=sys.argv[2]).split(), "--library", sys.argv[1]])
    except SystemExit as ended:
        assert not ended.code, command
    heavy = {"torch", "torchvision", "fastapi", "faiss", "PIL"} | compiled
    loaded = heavy & sys.modules.keys() - allowed
    assert not loaded, (command, loaded)
"""


def test_commands_without_a_picture_import_nothing_heavy(collection: Path, tmp_path: Path) -> None:
    own = shutil.copytree(collection, tmp_path / "own")  # duplicates are noted in it
    command = [sys.executable, "-c", _TEXTS_ALONE, str(own), str(tmp_path / "found.csv")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "verdict" in ran.stdout


_PICTURES = """
import sys
from hasse.service.cli.app import app

photo, library = sys.argv[1:]
heavy = {"torch", "torchvision", "faiss", "fastapi"}
for command, more in (
    (f"check {photo} a dog --model photographs --where", {"numba"}),
    (f"like {photo} --library {library}", {"numba"}),
    (f"search --all-of dog --all-of {photo} --library {library}", {"numba"}),
    (f"describe {photo} --model photographs", set()),  # which encodes many captions
):
    try:
        app(command.split())
    except SystemExit as ended:
        assert not ended.code, command
    loaded = (heavy | more) & sys.modules.keys()
    assert not loaded, (command, loaded)
"""


@pytest.mark.slow
def test_commands_with_a_picture_import_nothing_heavy_once_its_network_is_exported(
    collection: Path, photo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if find_spec("openvino") is None:  # `importorskip` would import it with its telemetry
        pytest.skip("OpenVINO is not installed")
    monkeypatch.setenv("HASSE_HOME", str(tmp_path))
    monkeypatch.setenv("HASSE_ENCODER_RUNTIME", "openvino")
    for folder in (named_models.pretrained("photographs"), collection.parent / "model"):
        checkpoint.load(folder, runtime="openvino")
    command = [sys.executable, "-c", _PICTURES, str(photo), str(collection)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "likely" in ran.stdout


def test_search_without_words_lists_what_the_options_select(collection: Path) -> None:
    shown = hasse("search", "--library", collection, "--sort", "newest", "-n", 3, "--json")
    assert [hit["image_id"] for hit in json.loads(shown.out)["hits"]] == [1011, 1010, 1009]
    assert hasse("search", "--library", collection, "-n", 3).status == 1
