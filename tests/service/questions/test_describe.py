"""Captions written for a picture: by HTTP, in a program's process, by a command, on the page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hasse as package
from hasse.index.search.distinct import one_text
from hasse.index.store import Index
from hasse.index.verify import verify
from hasse.models.captioning.phrases import PhraseWriter
from hasse.models.checkpoints import checkpoint
from hasse.service.app import create_app
from hasse.service.pipelines.describing import describe_index
from hasse.service.settings import Settings
from tests.phrases import make_phrases
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png
from tests.service.problems import problem
from tests.tiny import tiny_checkpoint


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an index without captions, whose model has phrases."""
    folder = make_collection(tmp_path_factory.mktemp("described"), captions_each=0)
    make_phrases(checkpoint.load(folder.parent / "model"))
    return folder


@pytest.fixture(scope="module")
def writing(described: Path) -> Iterator[Client]:
    with Client(create_app(Settings(library=described, device="cpu"))) as client:
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
        assert set(one) == {"text", "violation", "probability"}
        assert 0 <= one["probability"] <= 1
        claim = writing.post("/entails", json={"premise": 1003, "hypothesis": one["text"]})
        assert one["violation"] == pytest.approx(claim.json()["violation"], abs=1e-5)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"image_id": 5}, 404, "not_found"),
        ({"image_id": 1003, "k": 0}, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"image_id": 1003, "mode": "exact"}, 422, "invalid"),
    ],
)
def test_describe_of_what_cannot_be_described_is_refused(
    writing: Client, body: dict[str, object], status: int, reason: str
) -> None:
    problem(writing.post("/describe", json=body), status, reason)


def test_describe_by_a_model_without_phrases_is_refused_with_what_to_do(client: Client) -> None:
    response = client.post("/describe", json={"image_id": 1003})
    assert "hasse study photographs phrases" in problem(response, 409, "no_captioner").detail


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
    asked = ("--library", described, "--device", "cpu", "-n", 2)
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
    alone = hasse("describe", photo, "--model", described.parent / "model", "-n", 2, "--json")
    assert [one["text"] for one in json.loads(alone.out)["captions"]] == texts[0]
    model = package.load_model(described.parent / "model", device="cpu")
    assert [one.text for one in model.describe(photo, k=2).captions] == texts[0]
    refused = hasse("describe", "a dog", *asked)
    assert refused.status == 1
    assert "names no picture" in refused.err
    photo.write_text("<html>")
    assert f"{photo}: not a picture" in hasse("describe", photo, *asked).err


def test_index_describe_writes_marked_captions_until_people_caption_the_picture(
    tmp_path: Path,
) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    make_phrases(checkpoint.load(folder.parent / "model"))
    made = hasse("describe", "--all", "--library", folder, "--device", "cpu")
    assert made.status == 0, made.err
    assert f"{IMAGES} captions written" in made.out
    with package.open_index(folder, device="cpu") as index:
        (written,) = index.image(1003).captions
        assert (written.written_by or "").startswith("tiny ")
        best = index.describe(1003, k=1).captions[0]
        assert written.caption == best.text
        found = index.search_captions(png(3), k=1000, distinct=False).hits
        assert {hit.written_by for hit in found} == {written.written_by}
        (own,) = (hit for hit in found if hit.image_id == 1003)
        assert own.violation == pytest.approx(best.violation, abs=1e-5)
        assert index.search_captions(png(3), written=False).searched == 0
        assert index.search_common([1003]).hits[0].written_by == written.written_by
        hits = index.search_images(written.caption, k=12).hits
        (hit,) = (hit for hit in hits if hit.image_id == 1003)
        assert (hit.captions, hit.written_captions) == ([], [written.caption])
    shown = hasse("lab captions", tmp_path / "pictures/picture-3.png", "--library", folder)
    assert "(written by a model)" in shown.out
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        for sought, searched in (("true", len(found)), ("false", 0)):
            asked = {"written": sought, "distinct": "false"}
            files = {"image": ("a.png", png(3))}
            answer = client.post("/search/captions", data=asked, files=files)
            assert answer.json()["searched"] == searched
        page = client.get("/?image=1003").text
        assert "<h2>What a model wrote for it</h2>" in page
        said_of_it = page.partition('<section class="own">')[2].partition("</section>")[0]
        assert "What people say of it" in said_of_it
        assert "<li>" not in said_of_it
        marked = '<span class="byline">written by a model</span>'
        alike, _, elsewhere = page.partition('<details class="elsewhere">')
        assert alike.count(marked) == alike.count('<li class="card') > 0
        assert elsewhere.count(marked) == len({one_text(hit.caption) for hit in found})
        assert client.get("/?q=a+dog&evidence=shows").text.count(marked) == IMAGES
        by_text = client.get("/?q=a+dog").text
        found_by_text = by_text.count("in a caption by a model")
        assert by_text.count(marked) + found_by_text == IMAGES

    pictures = tmp_path / "pictures"
    (pictures / "picture-3.txt").write_text(written.caption)
    assert "1 caption added" in hasse("add", pictures, "--library", folder).out
    with package.open_index(folder, device="cpu") as index:
        index.add_image(png(4), ["a person says this"])
        for image_id, text in ((1003, written.caption), (1004, "a person says this")):
            (caption,) = index.image(image_id).captions
            assert (caption.caption, caption.written_by) == (text, None)
        found = index.search_captions(png(3), k=1000).hits
        assert {hit.image_id for hit in found} == {1003, 1004}
    shown = hasse("lab captions", pictures / "picture-3.png", "-l", folder, "--written", "-n", 99)
    assert "(written by a model)" in shown.out


def test_index_describe_that_was_stopped_goes_on_and_other_phrases_write_anew(
    tmp_path: Path,
) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    model = checkpoint.load(folder.parent / "model")
    make_phrases(model)
    first = PhraseWriter(model)
    make_phrases(model, limit=8.0)
    second = PhraseWriter(model)

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with Index.open(folder) as index:
        with pytest.raises(KeyboardInterrupt):
            describe_index(index, first, report=stop)
        assert describe_index(index, first) == (IMAGES - 5, 0)
        assert describe_index(index, first) == (0, 0)
        assert describe_index(index, second) == (IMAGES, 0)
        authors = {row.written_by for row in index.catalog.all_rows()[1]}
        assert authors == {f"tiny {second.fingerprint[:12]}"}
    assert verify(folder).ok


def test_phrases_for_another_model_are_refused(tmp_path: Path) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    other = checkpoint.load(tiny_checkpoint(tmp_path / "other", seed=1))
    make_phrases(other)
    shutil.copytree(other.folder / "captioner", folder.parent / "model" / "captioner")
    refused = hasse("describe", 1003, "--library", folder)
    assert refused.status == 1
    assert "has phrases for another model" in refused.err


def test_page_does_not_describe_a_picture_of_which_nothing_is_sure(tmp_path: Path) -> None:
    folder = make_collection(tmp_path, captions_each=0)
    make_phrases(checkpoint.load(folder.parent / "model"), limit=0.0)
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        assert client.post("/describe", json={"image_id": 1003}).json() == {"captions": []}
        assert "What the model says of it" not in client.get("/?image=1003").text


def test_page_describes_pictures_without_captions_and_uploads(
    writing: Client, client: Client
) -> None:
    text = writing.post("/describe", json={"image_id": 1003}).json()["captions"][0]["text"]
    for page in (
        writing.get("/?image=1003").text,
        writing.post("/page/picture", files={"image": ("a.png", png(3))}).text,
    ):
        assert "What the model says of it" in page
        assert f'href="/?q={text.replace(" ", "+")}">{text}</a>' in page
        assert re.search(r'<span class="likely">[^<]*\d+\s% likely</span>', page)
    assert "What the model says of it" not in client.get("/?image=1003").text
