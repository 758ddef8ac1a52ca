"""What a running service takes again: keys, limits, the log level and the calibration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from hasse.models.calibration import Calibrations
from hasse.models.checkpoints import checkpoint
from hasse.service.app import create_app
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.http.access import fingerprint, new_key
from hasse.service.http.services import services_of
from hasse.service.runtime.reloading import Reloading, changes
from hasse.service.settings import RELOADED, Settings
from hasse.service.telemetry.logs import LOGGER
from tests.service.client import Client
from tests.tiny import DIMENSION

KEYS = {name: new_key() for name in ("ann", "bob")}
LINES = {name: f"read {name}:{fingerprint(key)}" for name, key in KEYS.items()}
Reload = Callable[[], dict[str, Any]]


class Service:
    """A running application whose settings stand in a file."""

    def __init__(self, folder: Path, collection: Path) -> None:
        self.keys, self.file = folder / "keys", folder / "settings"
        self.keys.write_text(LINES["ann"])
        self.write()
        self._given: dict[str, Any] = {
            "library": collection,
            "device": "cpu",
            "settings_file": str(self.file),
        }
        self.app = create_app(self.reread())
        self.client = Client(self.app)

    def write(self, **settings: object) -> None:
        pairs = {"keys_file": self.keys, "deadline_seconds": 60, **settings}
        self.file.write_text("\n".join(f"HASSE_{n.upper()}={v}" for n, v in pairs.items()))

    def reread(self) -> Settings:
        return configure(**self._given)

    def reload(self) -> Mapping[str, Any]:
        """Reload, and return the facts of the one line that is logged."""
        lines: list[Any] = []
        handle, LOGGER.handle = LOGGER.handle, lines.append  # type: ignore[method-assign,assignment]
        try:
            Reloading(services_of(self.app), self.reread).reload()
        finally:
            LOGGER.handle = handle  # type: ignore[method-assign]
        (line,) = lines
        return {"event": line.getMessage(), **line.facts}

    def status(self, name: str, k: int = 1) -> int:
        headers = {"X-API-Key": KEYS[name]}
        question = {"caption": "a dog", "k": k}
        return self.client.post("/search/images", json=question, headers=headers).status_code


@pytest.fixture
def service(tmp_path: Path, collection: Path) -> Iterator[Service]:
    service = Service(tmp_path, collection)
    level = LOGGER.level
    with service.client:
        yield service
    LOGGER.setLevel(level)


def test_reload_takes_new_keys_and_refuses_removed_ones(service: Service) -> None:
    assert (service.status("ann"), service.status("bob")) == (200, 401)
    service.keys.write_text(LINES["bob"])
    assert service.reload() == {"event": "reloaded", "changed": "readers +bob -ann"}
    assert (service.status("ann"), service.status("bob")) == (401, 200)


def test_reload_takes_limits_quotas_and_the_log_level(service: Service) -> None:
    service.write(k_maximum=2, searches_per_minute=2, log_level="error", port=9)
    found = service.reload()
    assert found["event"] == "reloaded"
    assert "k_maximum 1000 -> 2" in found["changed"]
    assert found["after_restart"] == "port"
    assert LOGGER.level == 40
    assert [service.status("ann", k) for k in (3, 2, 2)] == [422, 200, 429]


@pytest.mark.parametrize("wrong", ["keys", "limit", "unknown", "calibration"])
def test_reload_of_anything_wrong_leaves_everything_as_it_was(
    wrong: str, service: Service, tmp_path: Path, collection: Path
) -> None:
    engine = services_of(service.app).readiness.engine
    assert engine is not None
    before = engine.checkpoint
    service.write(k_maximum=2, **{"limit": {"queued": -1}, "unknown": {"colour": 3}}.get(wrong, {}))
    service.keys.write_text("" if wrong == "keys" else LINES["bob"])
    if wrong == "calibration":
        copy = shutil.copytree(before.folder, tmp_path / "model")
        (copy / "calibration.json").write_text("{}")
        engine.checkpoint = replace(before, folder=copy)
    found = service.reload()
    assert found["event"] == "not reloaded"
    assert {"keys": "HASSE_KEYS_FILE", "limit": "QUEUED", "unknown": "COLOUR"}.get(
        wrong, "calibration.json"
    ) in found["reason"]
    assert (service.status("ann", 3), service.status("bob")) == (200, 401)


def test_reload_takes_another_calibration_of_the_model(service: Service, tmp_path: Path) -> None:
    engine = services_of(service.app).readiness.engine
    assert engine is not None
    folder = shutil.copytree(engine.checkpoint.folder, tmp_path / "model")
    engine.checkpoint = replace(engine.checkpoint, folder=folder)
    checkpoint.write_calibration(folder, Calibrations())
    before = engine.searcher.caption_order
    assert service.reload()["changed"] == "calibration"
    asked = (["a dog"], np.zeros(1, np.float32), np.zeros(DIMENSION, np.float32), 1)
    assert np.isfinite(before.keys(*asked)).all()
    assert np.isinf(engine.searcher.caption_order.keys(*asked)).all()
    headers = {"X-API-Key": KEYS["ann"]}
    question = {"caption": "a dog", "k": 1, "evidence": "shows"}
    answer = service.client.post("/search/images", json=question, headers=headers)
    assert json.loads(answer.content)["hits"][0]["probability"] is None


def test_reload_without_a_change_says_so(service: Service) -> None:
    assert service.reload() == {"event": "reloaded", "changed": "nothing"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "there is no key in"),
        ("# none\n", "there is no key in"),
        (f"{LINES['ann']}\nread bob", "line 2 of"),
        ("own ann:" + "0" * 64, "line 1 of"),
        (f"{LINES['ann']}\n{LINES['ann']}", "the name ann is given twice"),
    ],
    ids=["empty", "remark", "no entry", "no purpose", "twice"],
)
def test_keys_file_with_a_wrong_line_is_refused(content: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(ValidationError, match=reason):
        Settings.model_validate({"keys_file": tmp_path / "keys"})
    with pytest.raises(CommandError, match=r"^--set keys_file: .*" + reason):
        configure([f"keys_file={tmp_path / 'keys'}"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_files_of_keys_and_settings_may_begin_with_a_byte_order_mark(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text(LINES["ann"], encoding=encoding)
    (tmp_path / "settings").write_text("HASSE_QUEUED=1\n", encoding=encoding)
    monkeypatch.setenv("HASSE_SETTINGS_FILE", str(tmp_path / "settings"))
    found = configure([f"keys_file={tmp_path / 'keys'}"])
    assert found.queued == 1
    assert found.keys_file is not None
    assert found.keys_file.readers or found.keys_file.writers


def test_settings_file_yields_to_the_environment_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings"
    file.write_text("HASSE_QUEUED=1\nHASSE_PORT=2\nHASSE_IN_FLIGHT=3\n")
    monkeypatch.setenv("HASSE_SETTINGS_FILE", str(file))
    monkeypatch.setenv("HASSE_PORT", "20")
    found = configure(["in_flight=30"])
    assert (found.queued, found.port, found.in_flight) == (1, 20, 30)
    file.unlink()
    with pytest.raises(CommandError, match=r"HASSE_SETTINGS_FILE: .* cannot be read"):
        configure()


def test_operators_are_told_which_settings_are_taken_again() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operating.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("Taken again are ")]
    assert set(RELOADED) == {name.lower() for name in line.split("`")[1::2]}


def test_changes_name_no_secret() -> None:
    before = Settings(read_keys=LINES["ann"].split()[1])
    changed, others = changes(before, Settings(write_keys=LINES["bob"].split()[1]))
    assert (changed, others) == (["readers -ann", "writers +bob"], [])
