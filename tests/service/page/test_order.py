"""The pages that walk the order, and several parts in the search box."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from models.evaluation.calibration import Calibration, Calibrations
from service.core.engine import Engine
from tests.service.client import Client
from tests.service.collection import png
from tests.service.page.markup import HTMX, Tags, said


@pytest.mark.parametrize("path", ["/page/order?q=a+dog+runs", "/page/order?image=1003"])
def test_every_node_of_a_diagram_leads_to_its_own_and_is_named(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, response.text
    links = re.findall(r'<a class="(?:focus|above|below|beside)" href="([^"]+)"', response.text)
    labels = re.findall(r'aria-label="[^"]+ \((?:you are here|more|neither)', response.text)
    assert len(links) == len(labels) > 0
    assert response.text.count('aria-current="true"') == 1
    for link in links:
        assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_a_diagram_names_words_never_seen_and_counts_its_captions(client: Client) -> None:
    page = said(client.get("/page/order?q=a+zorp+dog", headers=HTMX))
    assert "never seen the word “zorp” : the answer rests" in page
    assert "never seen" not in said(client.get("/page/order?q=a+dog"))
    shown = client.get("/diagram?caption=a+zorp+dog").json()["nodes"]
    captions = sum(len(node["captions"]) for node in shown)
    assert f"{captions} caption{'s' * (captions != 1)} in the diagram." in page


def test_a_claim_is_answered_with_a_verdict_and_can_be_asked_again(client: Client) -> None:
    response = client.get("/page/claim?image=1003&hypothesis=a+dog+runs")
    assert response.status_code == 200
    assert re.search(r'class="verdict (yes|no)">(True|Not true)<', response.text)
    assert 'name="hypothesis"' in response.text
    assert 'name="hypothesis"' in client.get("/?image=1003").text


@pytest.mark.parametrize(
    "path",
    [
        "/page/order?q=a+dog+runs",
        "/page/order?image=1003",
        "/page/claim?hypothesis=a+dog&image=1003",
        "/?image=1003",
    ],
)
def test_the_options_stay_from_view_to_view(client: Client, path: str) -> None:
    response = client.get(f"{path}&k=7&mode=exact", headers=HTMX)
    page = Tags(response.text)
    assert response.headers["HX-Push-Url"] == f"{path}&k=7&mode=exact"
    links = [str(link["href"]) for link in page.of("a") if "/file" not in str(link["href"])]
    assert links
    assert [link for link in links if not link.endswith("&k=7&mode=exact")] == []
    forms = [form for form in page.of("form") if form.get("method") == "get"]
    hidden = [(found["name"], found["value"]) for found in page.of("input") if "value" in found]
    assert hidden.count(("k", "7")) == hidden.count(("mode", "exact")) == len(forms)


def test_without_scripts_a_claim_of_a_picture_that_is_brought_keeps_the_options(
    client: Client,
) -> None:
    form = {"hypothesis": "a dog", "k": "7", "mode": "exact"}
    response = client.post("/page/claim", files={"image": ("a.png", png())}, data=form)
    asked = response.text[response.text.index('id="claim"') :]
    (unscripted,) = re.findall(r"<noscript>(.*?)</noscript>", asked, re.DOTALL)
    assert 'name="k" value="7"' in unscripted
    assert 'name="mode" value="exact"' in unscripted


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/page/order", 422),
        ("/page/order?image=7", 404),
        ("/page/claim?image=1003", 422),
        ("/page/claim?image=x&hypothesis=a", 404),
        ("/?q=" + "+%2B+".join(["a"] * 20), 422),
    ],
)
def test_what_cannot_be_shown_is_said_in_words(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert 'data-view="problem"' in response.text


def test_parts_joined_by_a_plus_are_searched_for_together(client: Client) -> None:
    page = client.get("/", params={"q": "a dog + a cat"}).text
    found = client.post("/search/all_of", json={"all_of": ["a dog", "a cat"], "k": 12}).json()
    shown = re.findall(r'class="shot" href="/\?image=(\d+)', page)
    assert shown == [str(hit["image_id"]) for hit in found["hits"]]


def test_a_claim_about_a_picture_that_is_brought_has_the_verdict_of_the_api(client: Client) -> None:
    form = {"hypothesis": " a  dog runs ", "k": "12", "mode": "exact"}
    files = {"image": ("a.png", png())}
    response = client.post("/page/claim", files=files, data=form)
    answer = client.post("/entails", files=files, data={"hypothesis": "a dog runs"}).json()
    assert response.status_code == 200
    assert (">True<" if answer["entailed"] else ">Not true<") in response.text
    assert f"by {answer['violation']:.3f}" in said(response)
    assert "a dog runs" in said(response)
    assert 'src="data:image/jpeg;base64,' in response.text
    assert 'hx-post="/page/claim"' in response.text
    again = client.post("/page/claim", files=files, headers={"HX-Request": "true"}, data=form)
    assert again.headers["HX-Push-Url"] == "/page/picture?hypothesis=a+dog+runs&k=12&mode=exact"


@pytest.mark.parametrize(("content", "hypothesis", "status"), [(png(), " ", 422), (b"x", "a", 415)])
def test_a_claim_that_cannot_be_judged_is_answered_in_words(
    client: Client, content: bytes, hypothesis: str, status: int
) -> None:
    files = {"image": ("a.png", content)}
    response = client.post("/page/claim", files=files, data={"hypothesis": hypothesis})
    assert response.status_code == status
    assert 'data-view="problem"' in response.text


@pytest.mark.parametrize(("threshold", "is_said"), [(0.0, True), (1.0, False)])
def test_no_good_match_is_said_where_even_the_best_is_beyond_the_threshold(
    client: Client, monkeypatch: pytest.MonkeyPatch, threshold: float, is_said: bool
) -> None:
    engine: Engine = client.engine
    known = Calibrations(image=Calibration((0.1, 0.9), (0.9, 0.1), threshold, 100, 10))
    monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=known))
    for path, words in (
        ("/?q=a+red+animal", "This is not likely to be true of any picture here."),
        ("/?image=1003", "No caption here is likely to be true of it."),
        ("/?q=a+red+animal+%2B+a+dog", "This is not likely to be true of any picture here."),
        (
            "/page/together?ask=all_of&image=1003&words=a+dog",
            "It is not likely that any picture here has it all.",
        ),
        (
            "/page/together?ask=common&image=1003&image=1004",
            "No caption here is likely to be true of it all.",
        ),
    ):
        page = client.get(path)
        assert (f"{words} The nearest come first." in said(page)) is is_said
        if path.startswith("/?q="):  # what shows nothing of the sort shares nothing of it either
            assert ("/page/together?ask=common" in page.text) is not is_said


def test_what_words_share_is_doubted_by_what_follows_from_words(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Engine = client.engine
    strict = Calibration((0.1, 0.9), (0.9, 0.1), 0.0, 100, 10)
    for known, is_said in (
        (Calibrations(image=strict), False),
        (Calibrations(image=replace(strict, threshold=9.0), caption=strict), True),
    ):
        monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=known))
        page = client.get("/page/together?ask=common&words=a+person+runs%0Aa+cat+runs")
        assert ("No caption here is likely to be true of it all." in said(page)) is is_said


def test_nothing_is_said_of_doubt_where_nobody_measured_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Engine = client.engine
    strict = Calibrations(image=Calibration((0.1, 0.9), (0.9, 0.1), 0.0, 100, 10))
    monkeypatch.setattr(engine, "checkpoint", replace(engine.checkpoint, calibration=strict))
    # How far a picture is from another is no violation of a caption.
    page = client.get("/page/together?ask=all_of&image=1003&image=1005")
    assert "The nearest come first" not in said(page)
    unknown = replace(engine.checkpoint, calibration=Calibrations())
    monkeypatch.setattr(engine, "checkpoint", unknown)
    assert "The nearest come first" not in said(client.get("/?q=a+red+animal"))
