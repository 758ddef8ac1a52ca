"""What cannot work is refused in one sentence, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasse.service.cluster.connection import ClusterError, connect
from tests.index.samples import small_index
from tests.ray import require_ray
from tests.service.cli.shell import hasse


@pytest.mark.parametrize("command", ["plan", "serve"])
def test_index_in_sqlite_is_refused(tmp_path: Path, command: str) -> None:
    small_index(tmp_path / "index").close()
    done = hasse("cluster", command, "--library", tmp_path / "index", "--shards", 2)
    assert done.status == 1
    assert "write the address of a PostgreSQL database into catalog.url" in done.error


def test_address_without_a_cluster_is_refused() -> None:
    require_ray()
    with pytest.raises(ClusterError, match="no cluster answers at"):
        connect("127.0.0.1:9")


def test_token_is_needed_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_ray()
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ClusterError, match="there is no token"):
        connect()
