"""Hits and whole libraries as files for other programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow
from hasse.models.errors import HasseError
from hasse.service.app import create_app
from hasse.service.routes import export_formats
from hasse.service.routes.export_formats import ExportError, Originals
from hasse.service.settings import Settings
from tests.index.samples import embeddings, model
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.problems import problem

NAMES = ["one.png", "sub/two, too.png", "../two, too.png", "gone.png"]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Four images, of which two have files of one name and one has none any more."""
    folder = tmp_path / "pictures"
    (folder / "sub").mkdir(parents=True)
    rows = []
    for id_, name in enumerate(NAMES, start=1):
        path = folder / name
        if name != "gone.png":
            path.write_bytes(name.encode() * 100_000)
        rows.append(ImageRow(id_, path.name, str(path.resolve()), 4, 3, taken=1000 * id_))
    points = embeddings(np.random.default_rng(0), 5, 8)
    with Index.create(tmp_path / "index", model(8), threads=1) as made:
        made.add(rows, points[:4], [CaptionRow(1, 2, 'a "dog",\nand a cat')], points[4:])
        yield made


def test_csv_and_json_lines_have_every_image_and_come_back_as_they_were(index: Index) -> None:
    rows = list(export_formats.images(index))
    text = b"".join(export_formats.lines(rows, "csv")).decode()
    read = list(csv.DictReader(StringIO(text, newline="")))
    assert [row["file_name"] for row in read] == [Path(name).name for name in NAMES]
    assert read[1]["captions"] == 'a "dog",\nand a cat'
    parsed = [
        json.loads(line) for line in b"".join(export_formats.lines(rows, "jsonl")).splitlines()
    ]
    assert parsed == rows


def test_zip_of_originals_has_each_file_once_and_names_the_missing(index: Index) -> None:
    originals = Originals(
        index, [{"image_id": at, "path": name} for at, name in enumerate(NAMES, 1)]
    )
    with ZipFile(BytesIO(b"".join(originals.zip_pieces()))) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == ["one.png", "sub/two, too.png", "two, too.png", "missing.txt"]
        assert archive.read("sub/two, too.png") == b"sub/two, too.png" * 100_000
        assert archive.read("missing.txt") == b"gone.png\n"
    assert originals.size == sum(100_000 * len(name) for name in NAMES[:3])


def test_zip_is_made_in_small_pieces(index: Index) -> None:
    originals = Originals(index, [{"image_id": 1, "path": "one.png"}])
    assert max(map(len, originals.zip_pieces())) < 300_000


def test_links_lead_to_the_originals_and_overwrite_nothing(index: Index, tmp_path: Path) -> None:
    rows = [{"image_id": id_, "path": "same.png"} for id_ in (1, 2)]
    Originals(index, rows).link(tmp_path / "links")
    contents = {path.name: path.read_bytes()[:7] for path in (tmp_path / "links").iterdir()}
    assert contents == {"same.png": b"one.png", "2-same.png": b"sub/two"}
    with pytest.raises(ExportError, match="not empty"):
        Originals(index, rows).link(tmp_path / "links")


def test_parquet_has_rows_and_embeddings_of_the_model_it_names(
    index: Index, tmp_path: Path
) -> None:
    from pyarrow import parquet

    rows = export_formats.images(index)
    export_formats.write_parquet(index, rows, tmp_path / "all.parquet", lambda done: None)
    read = parquet.read_table(tmp_path / "all.parquet")
    assert read["image_id"].to_pylist() == [1, 2, 3, 4]
    assert read["captions"].to_pylist()[1] == ['a "dog",\nand a cat']
    points = index.points("image", [3])[3]
    assert np.array_equal(np.array(read["embedding"].to_pylist()[2], np.float32), points)
    assert read.schema.metadata[b"fingerprint"].decode() == index.model.fingerprint


def test_parquet_without_its_package_names_the_extra(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HasseError, match=r"\[parquet\]"):
        export_formats.write_parquet(index, [], tmp_path / "all.parquet", lambda done: None)


def asked(client: Client, format_: str, **more: Any) -> Any:
    body = {"caption": "a dog", "k": 3, **more}
    return client.post(f"/search/images/export?format={format_}", json=body)


def test_http_sends_the_hits_of_a_search_as_each_format(client: Client) -> None:
    hits = client.post("/search/images", json={"caption": "a dog", "k": 3}).json()["hits"]
    ids = [hit["image_id"] for hit in hits]
    lines = asked(client, "jsonl")
    assert lines.headers["content-disposition"] == 'attachment; filename="hits.jsonl"'
    assert [json.loads(line)["image_id"] for line in lines.content.splitlines()] == ids
    rows = csv.DictReader(StringIO(asked(client, "csv").text, newline=""))
    assert [int(row["image_id"]) for row in rows] == ids
    with ZipFile(BytesIO(asked(client, "zip").content)) as archive:
        originals = [client.get(f"/images/{id_}/file").content for id_ in ids]
        assert [archive.read(name) for name in archive.namelist()] == originals


def test_http_refuses_a_zip_beyond_the_limit_and_formats_it_does_not_know(
    settings: Settings,
) -> None:
    small = settings.model_copy(update={"export_bytes": 1024})
    with Client(create_app(small)) as client:
        assert problem(asked(client, "zip"), 422, "invalid").errors[0].field == "k"
        assert asked(client, "csv").status_code == 200
        assert asked(client, "exe").status_code == 422
        assert asked(client, "csv", zorp=1).status_code == 422


def test_command_exports_a_search_and_a_whole_library(settings: Settings, tmp_path: Path) -> None:
    place = ("--library", settings.index)
    assert hasse("export", tmp_path / "a.csv", "a", "dog", "-n", 2, *place).status == 0
    text = (tmp_path / "a.csv").read_text()
    assert len(list(csv.DictReader(StringIO(text, newline="")))) == 2
    assert hasse("export", tmp_path / "all.jsonl", *place).status == 0
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 12
    assert hasse("export", tmp_path / "links", "a", "dog", "-n", 2, *place).status == 0
    assert len([path for path in (tmp_path / "links").rglob("*") if path.is_symlink()]) == 2
    assert "exists" in hasse("export", tmp_path / "a.csv", *place).error
    assert "end the name" in hasse("export", tmp_path / "a.docx", *place).error


def test_rows_of_hits_are_those_that_show_or_say_it_with_their_verdict() -> None:
    says = [{"where": "caption", "text": "a dog"}]
    hits: list[dict[str, Any]] = [
        {"image_id": 1, "probability": 0.9, "shows": {"probability": 0.9}, "says": []},
        {"image_id": 2, "probability": 0.0, "shows": {"probability": 0.0}, "says": says},
        {"image_id": 3, "probability": 0.1, "shows": {"probability": 0.1}, "says": []},
        {"image_id": 4, "probability": 0.1, "shows": {"probability": 0.1}, "says": []},
        {"image_id": 5, "probability": None, "shows": None, "says": []},
    ]
    rows = export_formats.rows_of(hits, nearest=0)
    assert [(row["image_id"], row["verdict"]) for row in rows] == [
        (1, "shows it"),
        (2, "says it"),
        (5, None),
    ]
    assert [row["image_id"] for row in export_formats.rows_of(hits, nearest=1)] == [1, 2, 3, 5]
    table = b"".join(export_formats.lines(rows, "csv")).decode()
    (_, second, _) = csv.DictReader(StringIO(table))
    assert second["says"] == "caption: a dog"
    assert "shows" not in second
    assert "{" not in table
