"""The pages of the diagram and of claims, and several parts in the search box."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hasse.models.calibration import Calibration, Calibrations
from hasse.service.page import lattice
from hasse.service.questions.answers import Entailment, Place
from hasse.service.verdict import CLAIM_WORDS, percent, verdict
from tests.service.calibrated import calibrate
from tests.service.client import Client
from tests.service.collection import png
from tests.service.page.markup import HTMX, Tags, said


@pytest.mark.parametrize("path", ["/page/diagram?q=a+dog+runs", "/page/diagram?image=1003"])
def test_diagram_nodes_have_labels_and_link_to_their_diagrams(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, response.text
    links = re.findall(r'<a class="(?:focus|above|below|beside)" href="([^"]+)"', response.text)
    labels = re.findall(r'aria-label="[^"]+ \((?:you are here|more|neither)', response.text)
    assert len(links) == len(labels) > 0
    assert response.text.count('aria-current="true"') == 1
    for link in links:
        assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_diagram_names_unknown_words_and_counts_captions(client: Client) -> None:
    page = said(client.get("/page/diagram?q=a+zorp+dog", headers=HTMX))
    assert "never seen the word “zorp” : the answer rests" in page
    assert "never seen" not in said(client.get("/page/diagram?q=a+dog"))
    shown = client.get("/diagram?caption=a+zorp+dog").json()["nodes"]
    captions = sum(len(node["captions"]) for node in shown)
    assert f"{captions} caption{'s' * (captions != 1)} in the diagram." in page


def test_claim_shows_a_verdict_and_the_form(client: Client) -> None:
    response = client.get("/page/claim?image=1003&hypothesis=a+dog+runs")
    assert response.status_code == 200
    assert re.search(
        r'class="verdict (shows|may_show|not)">(Shows|May show|Does not show) it<', response.text
    )
    assert 'name="hypothesis"' in response.text
    assert 'name="hypothesis"' in client.get("/?image=1003").text


def test_claim_outlines_what_was_found_and_says_where_nothing_was(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(**found: Any) -> str:
        fields: dict[str, Any] = {"violation": 0.1, "entailed": True, "model": "tiny"}
        fields["unknown_words"] = []
        answer = Entailment(**fields, **found)

        async def asked(*_: object) -> Entailment:
            return answer

        monkeypatch.setattr(lattice, "ask", asked)
        return client.get("/page/claim?image=1003&hypothesis=a+dog").text

    place = Place(text="dog", left=0.25, top=0, right=1, bottom=0.5)
    page = shown(probability=0.9, where=[place])
    (outline,) = (one for one in Tags(page).of("rect") if one.get("class") == "place")
    sides = {name: float(outline[name] or "") for name in ("x", "y", "width", "height")}
    assert sides == {"x": 0.25, "y": 0, "width": 0.75, "height": 0.5}
    assert "Outlined: dog." in page
    assert "cannot point at any of this" in shown(probability=0.9, where=[])
    assert "cannot point" not in shown(probability=0.1, where=[])


@pytest.mark.parametrize(
    "path",
    [
        "/page/diagram?q=a+dog+runs",
        "/page/diagram?image=1003",
        "/page/claim?hypothesis=a+dog&image=1003",
        "/?image=1003",
    ],
)
def test_links_of_each_page_keep_the_options(client: Client, path: str) -> None:
    response = client.get(f"{path}&k=7&mode=exact", headers=HTMX)
    page = Tags(response.text)
    assert response.headers["HX-Push-Url"] == f"{path}&k=7&mode=exact"
    links = [
        str(link["href"])
        for link in page.of("a")
        if not re.search("/file|/preview/", str(link["href"]))
    ]
    assert links
    assert [link for link in links if not link.endswith("&k=7&mode=exact")] == []
    forms = [form for form in page.of("form") if form.get("method") == "get"]
    hidden = [(found["name"], found["value"]) for found in page.of("input") if "value" in found]
    assert hidden.count(("mode", "exact")) == len(forms)


def test_claim_form_without_scripts_keeps_the_options(
    client: Client,
) -> None:
    form = {"hypothesis": "a dog", "k": "7", "mode": "exact"}
    response = client.post("/page/claim", files={"image": ("a.png", png())}, data=form)
    asked = response.text[response.text.index('id="claim"') :]
    (unscripted,) = re.findall(r"<noscript>(.*?)</noscript>", asked, re.DOTALL)
    assert 'name="mode" value="exact"' in unscripted


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/page/diagram", 422),
        ("/page/diagram?image=7", 404),
        ("/page/claim?image=1003", 422),
        ("/page/claim?image=x&hypothesis=a", 404),
        ("/?q=" + "+%2B+".join(["a"] * 20), 422),
    ],
)
def test_page_that_cannot_be_shown_is_an_error_page(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert 'data-view="error"' in response.text


def test_search_by_parts_with_plus_shows_the_pictures_of_the_api(client: Client) -> None:
    page = client.get("/", params={"q": "a dog + a cat"}).text
    found = client.post("/search/all_of", json={"all_of": ["a dog", "a cat"], "k": 12}).json()
    shown = re.findall(r'class="shot" href="/\?image=(\d+)', page)
    assert shown == [str(hit["image_id"]) for hit in found["hits"]]


def test_claim_about_upload_has_the_verdict_of_the_api(client: Client) -> None:
    form = {"hypothesis": " a  dog runs ", "k": "12", "mode": "exact"}
    files = {"image": ("a.png", png())}
    response = client.post("/page/claim", files=files, data=form)
    answer = client.post("/entails", files=files, data={"hypothesis": "a dog runs"}).json()
    assert response.status_code == 200
    words = CLAIM_WORDS[verdict(answer["probability"])].capitalize()
    assert f"{words} {percent(answer['probability'])} likely." in said(response)
    assert "a dog runs" in said(response)
    assert 'src="data:image/jpeg;base64,' in response.text
    assert 'hx-post="/page/claim"' in response.text
    again = client.post("/page/claim", files=files, headers={"HX-Request": "true"}, data=form)
    assert again.headers["HX-Push-Url"] == "/page/picture?hypothesis=a+dog+runs&k=12&mode=exact"


@pytest.mark.parametrize(("content", "hypothesis", "status"), [(png(), " ", 422), (b"x", "a", 415)])
def test_claim_about_upload_that_cannot_be_read_is_an_error_page(
    client: Client, content: bytes, hypothesis: str, status: int
) -> None:
    files = {"image": ("a.png", content)}
    response = client.post("/page/claim", files=files, data={"hypothesis": hypothesis})
    assert response.status_code == status
    assert 'data-view="error"' in response.text


@pytest.mark.parametrize(("probability", "level"), [(0.1, "not"), (0.3, "may"), (0.9, "shows")])
def test_heading_is_the_verdict_on_the_best_hit(
    client: Client, monkeypatch: pytest.MonkeyPatch, probability: float, level: str
) -> None:
    known = Calibration((0.1, 0.9), (probability, probability), 0.5, 100, 10)
    calibrate(client, monkeypatch, Calibrations(image=known, caption=known))
    pictures = {
        "not": "Nothing here shows this",
        "may": "Pictures that may show this",
        "shows": "Pictures that show this",
    }
    common = {
        "not": "No caption here is true of it all",
        "may": "What it all may have in common",
        "shows": "What it all has in common",
    }
    captions = {
        "not": "No caption here is true of this picture",
        "may": "May be true of this picture",
        "shows": "About this picture",
    }
    for path, headings in (
        ("/?q=a+red+animal&evidence=shows", pictures),
        ("/?image=1003", captions),
        ("/?q=a+red+animal+%2B+a+dog", pictures),
        ("/page/combine?operation=all_of&words=a+dog%0Aa+cat", pictures),
        ("/page/combine?operation=common&image=1003&image=1004", common),
        ("/page/combine?operation=common&words=a+person+runs%0Aa+cat+runs", common),
    ):
        page = client.get(path)
        assert headings[level] in page.text
        assert ('<details class="nearest"' in page.text) is (level == "not")
        if path.startswith("/?q="):  # what shows nothing of the sort shares nothing of it either
            shared = "/page/combine?operation=common" in page.text
            assert shared is (level != "not")


def test_heading_without_calibration_makes_no_claim(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How far a picture is from another is no violation of a caption.
    page = client.get("/page/combine?operation=all_of&image=1003&image=1005").text
    assert 'class="nearest"' not in page
    calibrate(client, monkeypatch, Calibrations())
    page = client.get("/?q=a+red+animal&evidence=shows").text
    assert "Pictures nearest to this" in page
    assert 'class="nearest"' not in page
