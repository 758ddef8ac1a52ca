"""`hasse key`: a key, and the setting that makes the service accept it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from hasse.service.http.access import Access
from hasse.service.settings import Settings
from tests.service.cli.shell import hasse


@pytest.mark.parametrize("name", ["alice", "A.b-c_9", "a" * 32])
def test_key_prints_settings_that_admit_the_key_without_containing_it(
    name: str, tmp_path: Path
) -> None:
    made = hasse("lab key", name)
    (key,) = made.out.splitlines()
    assert key not in made.err
    setting, line = (part.partition(": ")[2] for part in made.err.splitlines())
    file = tmp_path / "keys"
    file.write_text(f"# of today\n\n{line}\n")
    for settings in (
        Settings(write_keys=setting.removeprefix("HASSE_WRITE_KEYS=")),
        Settings.model_validate({"keys_file": file}),
    ):
        access = Access(settings)
        assert access.admit(Headers({"Authorization": f"Bearer {key}"}), "write") == name
    assert hasse("lab key", name).out != made.out


@pytest.mark.parametrize("name", ["", "a" * 33, "alice:", "al,ice", "al ice", "älice", "alice\n"])
def test_key_with_bad_name_is_refused(name: str) -> None:
    refused = hasse("lab key", name)
    assert (refused.status, refused.out) == (1, "")
    assert "up to 32 letters, digits" in refused.error
