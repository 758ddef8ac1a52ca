"""Captions written for a picture: by HTTP, in a program's process, by a command, on the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hasse as package
from models.checkpoints import checkpoint
from service.app import create_app
from service.settings import Settings
from tests.captioner import make_captioner
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png
from tests.service.problems import problem
from tests.tiny import tiny_checkpoint


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an index without captions, whose model has a captioner."""
    folder = make_collection(tmp_path_factory.mktemp("described"), captions_each=0)
    model = checkpoint.load(folder.parent / "model")
    make_captioner(model, model.folder / "captioner")
    return folder


@pytest.fixture(scope="module")
def writing(described: Path) -> Iterator[Client]:
    with Client(create_app(Settings(index=described, device="cpu"))) as client:
        yield client


def test_describe_of_an_upload_and_of_the_stored_picture_write_the_same(writing: Client) -> None:
    sent = writing.post("/describe", data={"k": "2"}, files={"image": ("a.png", png(3))})
    stored = writing.post("/describe", json={"image_id": 1003, "k": 2})
    assert sent.status_code == stored.status_code == 200
    assert "Server-Timing" in sent.headers
    captions = stored.json()["captions"]
    assert len(captions) == 2
    assert [one["text"] for one in captions] == [one["text"] for one in sent.json()["captions"]]
    for one in captions:
        assert set(one) == {"text", "violation", "probability", "in_training"}
        assert 0 <= one["probability"] <= 1
        claim = writing.post("/entails", json={"premise": 1003, "hypothesis": one["text"]})
        assert one["violation"] == pytest.approx(claim.json()["violation"], abs=1e-5)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"image_id": 5}, 404, "not_found"),
        ({"image_id": 1003, "draws": 1001}, 422, "invalid"),
        ({"image_id": 1003, "k": 0}, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"image_id": 1003, "mode": "exact"}, 422, "invalid"),
    ],
)
def test_describe_of_what_cannot_be_described_is_refused(
    writing: Client, body: dict[str, object], status: int, reason: str
) -> None:
    problem(writing.post("/describe", json=body), status, reason)


def test_describe_without_a_captioner_is_refused_with_what_to_do(client: Client) -> None:
    response = client.post("/describe", json={"image_id": 1003})
    assert "hasse captioner train" in problem(response, 409, "no_captioner").detail


def test_upload_that_is_no_picture_is_refused(writing: Client) -> None:
    response = writing.post("/describe", files={"image": ("a.png", b"nothing")})
    problem(response, 415, "not_a_picture")


def test_index_in_this_process_describes_as_the_service_does(
    writing: Client, described: Path
) -> None:
    with package.open_index(described, device="cpu") as index:
        found, sent = index.describe(1003, k=2), index.describe(png(3), k=2)
    expected = writing.post("/describe", json={"image_id": 1003, "k": 2}).json()
    assert [one.text for one in found.captions] == [one.text for one in sent.captions]
    assert [one.text for one in found.captions] == [one["text"] for one in expected["captions"]]


def test_command_describes_a_picture_or_an_image_of_the_index(
    described: Path, tmp_path: Path
) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(png(3))
    asked = ("--index", described, "--device", "cpu", "-k", 2)
    texts = [
        [
            one["text"]
            for one in json.loads(hasse("describe", what, *asked, "--json").out)["captions"]
        ]
        for what in (photo, 1003)
    ]
    assert texts[0] == texts[1]
    shown = hasse("describe", photo, *asked)
    assert texts[0][0] in shown.out
    assert "%" in shown.out
    alone = hasse("describe", photo, "--model", described.parent / "model", "-k", 2, "--json")
    assert [one["text"] for one in json.loads(alone.out)["captions"]] == texts[0]
    model = package.load_model(described.parent / "model", device="cpu")
    assert [one.text for one in model.describe(photo, k=2).captions] == texts[0]
    refused = hasse("describe", "a dog", *asked)
    assert refused.status == 1
    assert "names no picture" in refused.err
    photo.write_text("<html>")
    assert f"{photo}: not a picture" in hasse("describe", photo, *asked).err


def test_index_describe_writes_a_caption_for_each_picture_that_can_be_added(
    tmp_path: Path,
) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    model = checkpoint.load(folder.parent / "model")
    make_captioner(model, model.folder / "captioner")
    out = tmp_path / "written.jsonl"
    made = hasse("index", "describe", folder, "--out", out, "--device", "cpu")
    assert made.status == 0, made.err
    assert f"{IMAGES} captions written" in made.out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["image_id"] for row in rows] == list(range(1000, 1000 + IMAGES))
    assert all(row["written_by"].startswith("tiny ") for row in rows)
    out.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:5]))
    again = hasse("index", "describe", folder, "--out", out, "--device", "cpu")
    assert f"{IMAGES - 5} captions written" in again.out

    with package.open_index(folder, device="cpu") as index:
        assert index.image(1003).captions == []  # the index did not change
    added = hasse("index", "add", folder, tmp_path / "pictures", "--captions", out)
    assert added.status == 0, added.err
    with package.open_index(folder, device="cpu") as index:
        assert [one.caption for one in index.image(1003).captions] == [rows[3]["caption"]]

    out.write_text("{}\n")
    refused = hasse("index", "describe", folder, "--out", out)
    assert (refused.status, "line 1" in refused.err) == (1, True)


def test_captioner_that_is_named_has_to_be_that_of_the_model(
    described: Path, tmp_path: Path
) -> None:
    other = checkpoint.load(tiny_checkpoint(tmp_path / "other", seed=1))
    make_captioner(other, tmp_path / "captioner")
    asked = ("--index", described, "--captioner", tmp_path / "captioner")
    refused = hasse("describe", 1003, *asked)
    assert refused.status == 1
    assert "writes captions for another model" in refused.err
    shutil.rmtree(tmp_path / "captioner")
    assert "holds no model of captioning" in hasse("describe", 1003, *asked).err


def test_page_describes_pictures_without_captions_and_uploads(
    writing: Client, client: Client
) -> None:
    text = writing.post("/describe", json={"image_id": 1003}).json()["captions"][0]["text"]
    for page in (
        writing.get("/?image=1003").text,
        writing.post("/page/picture", files={"image": ("a.png", png(3))}).text,
    ):
        assert "Written for it by a model" in page
        assert f'href="/?q={text.replace(" ", "+")}">{text}</a>' in page
        assert "% likely true" in page
    assert "Written for it by a model" not in client.get("/?image=1003").text
