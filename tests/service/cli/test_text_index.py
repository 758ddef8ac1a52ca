from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from hasse.index.catalog.schema import DOCUMENTS
from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.service.cli.app import app
from tests.index.samples import small_index


def test_text_makes_the_text_index_anew(tmp_path: Path) -> None:
    with small_index(tmp_path / "i") as index, index.catalog.writing() as connection:
        connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.image_id.in_([1, 2])))
    assert not verify(tmp_path / "i").ok
    done = CliRunner().invoke(app, ["lab", "index", "text", "--library", str(tmp_path / "i")])
    assert done.exit_code == 0, done.output
    assert "made anew; generation 2" in done.output
    with Index.open(tmp_path / "i"):
        assert verify(tmp_path / "i").ok
