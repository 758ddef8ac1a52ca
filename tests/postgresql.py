"""Databases of a real PostgreSQL server, for tests.

`.ci/run` starts a server and names it in HASSE_TEST_POSTGRESQL. Without it these tests are skipped,
or fail where HASSE_REQUIRE_POSTGRESQL is 1.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sql

SERVER = os.environ.get("HASSE_TEST_POSTGRESQL")
REQUIRED = os.environ.get("HASSE_REQUIRE_POSTGRESQL") == "1"


@contextmanager
def new_database() -> Iterator[sql.URL]:
    """Make an empty database, whose owner the user of the address is, and drop it at the end."""
    if not SERVER:
        reason = "no PostgreSQL server: name one in HASSE_TEST_POSTGRESQL, as .ci/run does"
        (pytest.fail if REQUIRED else pytest.skip)(reason)
    server = sql.make_url(SERVER)
    name = f"hasse_{uuid.uuid4().hex}"
    execute(server, f"CREATE DATABASE {name}")
    try:
        yield server.set(database=name)
    finally:
        execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def execute(url: sql.URL, *statements: str) -> None:
    """Run statements one by one, each committed."""
    engine = sql.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sql.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def disconnect(url: sql.URL) -> None:
    """End all connections to a database, and wait until they have ended."""
    others = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = "
    execute(sql.make_url(SERVER or ""), f"{others}'{url.database}'")


def place_catalog(folder: Path, url: sql.URL) -> Path:
    """Make the folder of an index whose catalog is in a database."""
    folder.mkdir(parents=True)
    (folder / "catalog.url").write_text(url.render_as_string(hide_password=False))
    return folder
