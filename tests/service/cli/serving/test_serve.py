"""`hasse serve` and `hasse demo`: start or fail with one line, and build nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hasse.index.store import Index
from hasse.lab.checkpoints import learned_model
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.encoders.names import LITE
from hasse.service.cli.collection import additions
from hasse.service.cli.serving import demo as demo_command
from hasse.service.cli.serving.serve import is_private
from hasse.service.cli.terminal.configuration import parse_pairs
from hasse.service.settings import Settings
from hasse.service.writing.indexing import identity_of
from tests.service.cli.shell import Outcome, hasse
from tests.service.cli.test_interruption import ctrl_c_at
from tests.service.collection import make_collection, picture
from tests.tiny import tiny_checkpoint


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    listener = socket.create_server(("127.0.0.1", 0))
    yield listener.getsockname()[1]
    listener.close()


def test_serve_and_demo_with_port_in_use_fail_before_any_work(
    taken: int, collection: Path, tmp_path: Path
) -> None:
    for command in (
        ("serve", "--library", collection),
        ("demo", "--library", tmp_path / "index"),
    ):
        refused = hasse(*command, "--port", taken)
        assert refused.status == 1
        assert f"127.0.0.1:{taken}" in refused.error
        assert "--port" in refused.error
    assert not (tmp_path / "index-scenes").exists()


def test_serve_without_index_says_how_to_build_one(tmp_path: Path) -> None:
    refused = hasse("serve", "--library", tmp_path / "absent", "--port", 0)
    assert refused.status == 1
    assert "hasse add FOLDER" in refused.error


def test_serve_settings_lists_every_setting_with_its_value() -> None:
    shown = hasse("serve", "--settings", "--port", 0, "--set", "in_flight=7")
    assert shown.status == 0
    lines = {line.split()[0]: line.split()[1] for line in shown.out.splitlines()[1:]}
    assert set(lines) == {f"HASSE_{name.upper()}" for name in Settings.model_fields}
    assert lines["HASSE_PORT"] == "0"
    assert lines["HASSE_IN_FLIGHT"] == "7"
    assert "None" not in shown.out


def test_serve_option_takes_precedence_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HASSE_PORT", "9001")
    monkeypatch.setenv("HASSE_K_MAXIMUM", "50")
    shown = hasse("serve", "--settings", "--port", 9002).out
    lines = {line.split()[0]: line.split()[1] for line in shown.splitlines()[1:]}
    assert (lines["HASSE_PORT"], lines["HASSE_K_MAXIMUM"]) == ("9002", "50")


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (("--set", "in_flight"), {}, "NAME=VALUE"),
        (("--set", "colour=red"), {}, "no setting 'colour'"),
        (("--set", "in_flight=many"), {}, "error: --set in_flight: "),
        ((), {"HASSE_PORT": "http"}, "HASSE_PORT"),
        (("--set", "write_keys=me"), {}, "--set write_keys: this is not name:SHA-256, as"),
    ],
)
def test_serve_with_bad_setting_names_it(
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    environment: dict[str, str],
    said: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refused = hasse("serve", *options)
    assert refused.status == 1
    assert said in refused.error


def test_serve_with_misspelt_variable_warns_of_it_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = ("PORT", "PORT_8000_TCP", "SERVICE_HOST", "DEMO", "SITE", "REQUIRE_BROWSER")
    for name in ("READ_KEY", *others):
        monkeypatch.setenv(f"HASSE_{name}", "1")
    monkeypatch.setenv("hasse_in_flight", "1")  # is read as well
    monkeypatch.setenv("hasse_write_key", "1")
    told = hasse("serve", "--settings").err.splitlines()
    assert told == [
        "warning: HASSE_READ_KEY is not a setting: did you mean HASSE_READ_KEYS?",
        "warning: hasse_write_key is not a setting: did you mean HASSE_WRITE_KEYS?",
    ]


@pytest.mark.parametrize("name", ["read_keys", "write_keys"])
def test_serve_with_key_instead_of_fingerprint_does_not_print_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = hasse("serve", "--set", f"{name}=me:hasse_secret")
    monkeypatch.setenv(f"HASSE_{name.upper()}", "me:hasse_secret")
    for refused in (given, hasse("serve")):
        assert refused.status == 1
        assert "this is not name:SHA-256" in refused.error
        assert "secret" not in refused.out + refused.err


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand a tiny model in for the built-in one, to be quick."""
    folder = tiny_checkpoint(tmp_path / "tiny-1")
    monkeypatch.setattr(named_models, "pretrained", lambda: folder)
    return folder


def demo(home: Path, *options: object) -> Outcome:
    made = hasse(*("demo", "--no-serve", "--device", "cpu", "--library", home / "index", *options))
    assert made.status == 0, made.err
    return made


def images(home: Path) -> tuple[int, int]:
    document = json.loads(hasse("lab index info", "--library", home / "index", "--json").out)
    return document["images"], document["generation"]


def test_demo_twice_builds_once(built_in: Path, tmp_path: Path) -> None:
    demo(tmp_path, "--count", 6)
    assert images(tmp_path) == (6, 1)
    drawn = {path: path.stat().st_mtime_ns for path in (tmp_path / "index-scenes").iterdir()}
    demo(tmp_path)
    assert images(tmp_path) == (6, 1)
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / "index-scenes").iterdir()
    } == drawn
    for other in (5, 7):
        refused = hasse("demo", "--no-serve", "--count", other, "--library", tmp_path / "index")
        assert refused.status == 1
        assert "holds 6 images" in refused.error


@pytest.mark.slow
def test_demo_after_ctrl_c_continues(
    built_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        ctrl_c_at(1, additions.build_index, patch)
        places = ("--library", tmp_path / "index")
        stopped = hasse("demo", "--no-serve", "--count", 6, *places)
    assert stopped.status == 130
    assert f"what is encoded is kept in {tmp_path / 'index'}" in stopped.err
    demo(tmp_path, "--count", 6)
    assert images(tmp_path) == (6, 1)


def test_demo_after_kill_before_the_first_batch_builds(built_in: Path, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", identity_of(checkpoint.load(built_in))).close()
    demo(tmp_path, "--count", 6)
    assert images(tmp_path) == (6, 1)


def test_demo_of_earlier_model_version_is_built_again(built_in: Path, tmp_path: Path) -> None:
    demo(tmp_path, "--count", 6)
    before = hasse("lab index info", "--library", tmp_path / "index", "--json").out
    tiny_checkpoint(built_in, seed=1)
    assert "built again" in demo(tmp_path, "--count", 6).err
    after = hasse("lab index info", "--library", tmp_path / "index", "--json").out
    fingerprints = {json.loads(text)["model"]["fingerprint"] for text in (before, after)}
    assert len(fingerprints) == 2


@pytest.mark.slow
def test_demo_of_earlier_model_version_with_changes_is_refused(
    built_in: Path, tmp_path: Path
) -> None:
    demo(tmp_path, "--count", 6)
    own = tmp_path / "own.jpg"
    picture(1).save(own)
    places = ("--library", tmp_path / "index")
    assert hasse("add", own, "--library", tmp_path / "index").status == 0
    tiny_checkpoint(built_in, seed=1)
    refused = hasse("demo", "--no-serve", *places)
    assert refused.status == 1
    assert "changed since: remove it, or choose another with --library" in refused.error
    assert images(tmp_path) == (7, 2)


@pytest.mark.slow
def test_demo_with_scenes_but_no_index_reuses_the_scenes(built_in: Path, tmp_path: Path) -> None:
    demo(tmp_path, "--count", 6)
    drawn = {path: path.stat().st_mtime_ns for path in (tmp_path / "index-scenes").iterdir()}
    shutil.rmtree(tmp_path / "index")
    demo(tmp_path, "--count", 6)
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / "index-scenes").iterdir()
    } == drawn
    shutil.rmtree(tmp_path / "index")
    demo(tmp_path, "--count", 7)
    assert images(tmp_path) == (7, 1)


def test_demo_serves_with_the_model_that_built_the_index(
    built_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(library=tmp_path / "index", device="cpu")
    assert demo_command.prepare(settings, 6).model == built_in
    named = settings.model_copy(update={"model": tmp_path / "named"})
    assert demo_command.prepare(named, None).model == tmp_path / "named"
    later = tiny_checkpoint(tmp_path / "tiny-2", seed=1)
    monkeypatch.setattr(named_models, "pretrained", lambda: later)
    # The index is not of the built-in model any more, and remembers where its own is.
    assert demo_command.prepare(settings, None).model is None


def test_demo_with_index_of_another_model_leaves_it_unchanged(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.tiny import tiny_model

    other = tmp_path / "other"
    learned_model.save(other, tiny_model(seed=2), "scenes-1", {})
    monkeypatch.setattr(named_models, "pretrained", lambda: other)
    before = hasse("lab index info", "--library", collection, "--json").out
    kept = hasse("demo", "--no-serve", "--library", collection)
    assert kept.status == 0
    assert "used as it is" in kept.err
    assert hasse("lab index info", "--library", collection, "--json").out == before
    assert not collection.with_name(f"{collection.name}-scenes").exists()


def test_serve_answers_and_takes_the_key_it_prints_and_ctrl_c_exits_with_status_0(
    tmp_path: Path,
) -> None:
    library = make_collection(tmp_path, backbone=LITE)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hasse",
            "serve",
            "--library",
            str(library),
            "--port",
            "0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    with process:
        try:
            lines = [process.stdout.readline()]
            while "#key=" not in lines[-1]:
                assert lines[-1], process.stderr and process.stderr.read()
                lines.append(process.stdout.readline())
            address, _, key = lines[-1].split()[1].partition("/#key=")
            assert httpx.get(f"{address}/readyz", timeout=120).status_code == 200
            body = {"image_ids": [1000], "keywords": ["Rex"]}
            for headers, status in (({}, 401), ({"X-API-Key": key}, 204)):
                written = httpx.post(
                    f"{address}/annotations", json=body, headers=headers, timeout=120
                )
                assert written.status_code == status, written.text
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def test_parse_pairs_accepts_dashes_and_capitals_in_names() -> None:
    assert parse_pairs(["Refresh-Seconds=0.5", "log_level=info"]) == {
        "refresh_seconds": "0.5",
        "log_level": "info",
    }


@pytest.mark.parametrize(
    ("fields", "private"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),  # noqa: S104
        ({"host": "photos.example.org"}, False),
        ({"open_writes": True}, False),
        ({"write_keys": f"me:{'0' * 64}"}, False),
        ({"read_keys": f"me:{'0' * 64}"}, False),
        ({"trusted_proxies": "127.0.0.1"}, False),
    ],
)
def test_only_a_service_of_one_machine_without_keys_makes_one_for_its_run(
    fields: dict[str, Any], private: bool
) -> None:
    assert is_private(Settings(**fields)) is private
