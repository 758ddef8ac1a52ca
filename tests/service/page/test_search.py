"""The page as the server sends it: complete without JavaScript, and in fragments for htmx."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow
from hasse.lab.checkpoints import learned_model
from hasse.models.calibration import Calibration, Calibrations
from hasse.models.vocabulary import Vocabulary
from hasse.service.app import create_app
from hasse.service.core import records
from hasse.service.core.engine import Engine
from hasse.service.errors import ServiceError
from hasse.service.http.access import fingerprint, new_key
from hasse.service.page.rendering import HERE
from hasse.service.settings import Settings
from hasse.service.verdict import HIT_WORDS, NOTHING_SHOWS, percent, verdict
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png
from tests.service.page.markup import HTMX, Tags, said, upload
from tests.tiny import tiny_model

HOSTILE = "a dog <img src=x onerror=alert(1)> \"'&"
VIEWS = ["/", "/?q=a+dog+zeppelin", "/?image=1003", "/?image=5", "/page/picture"]


def test_home_shows_pictures_facts_and_examples(client: Client) -> None:
    response = client.get("/")
    page = Tags(response.text)
    assert response.status_code == 200
    assert len([image for image in page.of("img") if image["alt"]]) == IMAGES
    assert "12 pictures and 24 captions, answered by the model tiny." in said(response)
    assert [link for link in page.of("a") if str(link["href"]).startswith("/?q=a+")]


def test_search_by_words_shows_the_pictures_of_the_api(client: Client) -> None:
    response = client.get("/", params={"q": "a dog runs", "k": "5"})
    answer = client.post("/search/images", json={"caption": "a dog runs", "k": 5}).json()
    page = Tags(response.text)
    shown = [link["href"] for link in page.of("a") if link.get("class") == "shot"]
    assert shown == [f"/?image={hit['image_id']}&k=5" for hit in answer["hits"]]
    assert re.search(r"Checked all 12 pictures in [\d,]+ ms", said(response))
    assert f"{percent(answer['hits'][0]['probability'])} likely" in said(response)
    assert ("input", "a dog runs") in [(tag, found.get("value")) for tag, found in page.tags]
    assert "total;dur=" in response.headers["server-timing"]


def test_search_by_stored_picture_shows_each_caption_once(client: Client) -> None:
    response = client.get("/", params={"image": "1003"})
    page = Tags(response.text)
    shown = [link["href"] for link in page.of("a") if link.get("class") == "caption"]
    assert len(shown) == len(set(shown)) == 6
    assert "/?q=a+person+runs" in shown
    assert {"type": "hidden", "name": "image", "value": "1003", "form": "search"} in page.of(
        "input"
    )


def test_search_by_stored_picture_links_to_its_file(client: Client) -> None:
    page = Tags(client.get("/", params={"image": "1003"}).text)
    assert page.of("img")[0]["src"] == "/images/1003/preview/medium"
    (original,) = [link for link in page.of("a") if link["href"] == "/images/1003/file"]
    assert "download" in original


def test_search_in_empty_collection_claims_no_best(tmp_path: Path) -> None:
    with Client(create_app(Settings(library=make_collection(tmp_path), device="cpu"))) as client:
        client.engine.index.remove(range(1000, 1000 + IMAGES))
        for response, words in (
            (client.get("/", params={"q": "a dog"}), "There are no pictures in this collection"),
        ):
            assert words in said(response)
            assert "here to search" in said(response)
        assert "About this picture" in said(upload(client, png()))


def test_search_with_unknown_words_names_them(client: Client) -> None:
    one = client.get("/", params={"q": "a dog zeppelin"})
    assert "never seen the word “zeppelin” : the answer rests" in said(one)
    three = client.get("/", params={"q": "zeppelin dirigible dog airship"})
    assert "never seen the words “zeppelin” , “dirigible” and “airship” :" in said(three)
    assert "never seen" not in said(client.get("/", params={"q": "a dog"}))


def test_search_by_texts_alone_says_so_and_claims_no_empty_collection(client: Client) -> None:
    page = said(client.get("/", params={"q": "zeppelin"}))
    assert "the answer rests on what is written about the pictures." in page
    assert f"Searched what is written about all {IMAGES} pictures" in page
    assert "Nothing that is written about these pictures says this." in page
    assert "no pictures in this collection" not in page


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zeppelin", "Hasse has never seen the word “zeppelin”: say it in other words."),
        ("Zeppelin, 狗 zeppelin", "Hasse has never seen the words “zeppelin” and “狗”: say it"),
        ("a dog + zeppelin", "Hasse has never seen the word “zeppelin”: say it"),
        ("🐕!", "Hasse reads words, and there are none in “🐕!”."),
    ],
)
def test_search_without_a_known_word_is_refused(client: Client, text: str, told: str) -> None:
    last = text.rpartition(" + ")[2]
    for path, fields in (
        ("/", {"q": text, "evidence": "shows"}),
        ("/page/diagram", {"q": last}),
        ("/page/claim", {"image": "1003", "hypothesis": last}),
        ("/page/combine", {"operation": "all_of", "words": "a dog\n" + last}),
        (
            "/page/combine",
            {"operation": "like", "image": "1003", "words": "dog", "without": last},
        ),
    ):
        response = client.get(path, params=fields)
        assert response.status_code == 422
        assert told in said(response)


@pytest.mark.parametrize(
    "asked", ["/?image=1003", "/page/combine?operation=common&image=1003&words=a+dog"]
)
def test_caption_without_a_known_word_has_no_verdict(
    client: Client, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    def parts() -> int:  # of the bars: each has a track, and what fills it
        return len([tag for tag in Tags(client.get(asked).text).of("rect") if "class" in tag])

    before = parts()
    monkeypatch.setattr(Vocabulary, "knows", lambda _, text: text != "a dog runs")
    assert parts() == before - 2


@pytest.mark.parametrize(
    "asked", ["/?image=1003", "/page/claim?image=1003&hypothesis=a", "/page/combine?image=1003"]
)
def test_busy_page_has_retry_after_and_is_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    def full(*_: object) -> None:
        raise ServiceError("busy", "full", retry_after=7)

    def refused() -> float:
        name, reason = "hasse_rejections_total", {"reason": "busy"}
        return client.services.metrics.registry.get_sample_value(name, reason) or 0

    before = refused()
    monkeypatch.setattr(records, "image", full)
    response = client.get(asked)
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert refused() == before + 1


@pytest.mark.parametrize("mode", ["certified", "exact", "fast"])
def test_link_with_options_shows_them(client: Client, mode: str) -> None:
    page = Tags(client.get("/", params={"q": "a dog", "mode": mode}).text)
    chosen = [found["value"] for found in page.of("input") if "checked" in found]
    assert chosen == [mode]


def test_heading_words_and_bars_all_come_from_the_probability(tmp_path: Path) -> None:
    settings = Settings(library=make_collection(tmp_path), device="cpu")
    known = Calibration((0.1, 0.2), (0.9, 0.01), 9.0, pairs=100, true=2)
    learned_model.save(tmp_path / "model", tiny_model(), "tiny", {}, Calibrations(image=known))
    doubted = set()
    with Client(create_app(settings)) as client:
        for text in ("a dog runs", "a red animal", "a dog", "dog"):
            asked = {"caption": text, "k": 12, "evidence": "shows"}
            answer = client.post("/search/images", json=asked).json()
            each = [hit["probability"] for hit in answer["hits"]]
            page = client.get("/", params={"q": text, "evidence": "shows"})
            shown = re.findall(r'class="word">([^<]+)<', page.text)
            assert shown == [HIT_WORDS[verdict(one)] for one in each]
            lengths = [
                tag["width"] for tag in Tags(page.text).of("rect") if tag.get("class") == "fill"
            ]
            assert lengths == [f"{100 * one:.1f}" for one in each]
            nothing = verdict(max(each)) == "not"
            assert (NOTHING_SHOWS in said(page)) is nothing
            assert page.text.count('<details class="nearest"') == (verdict(min(each)) == "not")
            doubted.add(nothing)
    assert doubted == {True, False}


def test_query_and_captions_are_escaped(tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    with Index.open(folder, threads=1) as index:
        point = np.eye(1, index.model.dimension, dtype=np.float32)
        Image.new("RGB", (8, 8)).save(tmp_path / "hostile.png")
        row = ImageRow(1, HOSTILE, str(tmp_path / "hostile.png"), 8, 8)
        index.add([row], point, [CaptionRow(1, 1, HOSTILE)], point)
    with Client(create_app(Settings(library=folder, device="cpu"))) as client:
        for view in ({"q": HOSTILE}, {"image": "1"}, {"q": "a dog", "k": "13"}, {}):
            page = Tags(client.get("/", params=view).text)
            assert all("onerror" not in found for _, found in page.tags)
            assert len(page.of("script")) == 4
            assert "onerror=alert(1)" in page.words or not view


@pytest.mark.parametrize("view", VIEWS)
def test_page_has_no_inline_code_and_no_external_files(client: Client, view: str) -> None:
    page = Tags(client.get(view).text)
    for tag, found in page.tags:
        assert tag != "style"
        assert not [name for name in found if name == "style" or name.startswith("on")]
        for name in ("src", "href", "action"):
            target = found.get(name)
            assert target is None or re.match(r"/(?!/)|#|data:image/", target)
    for script in page.of("script"):
        assert str(script["src"]).startswith("/static/")


def test_page_names_only_static_files_that_exist(client: Client) -> None:
    page = Tags(client.get("/").text)
    names = [found["href"] for found in page.of("link")]
    names += [found["src"] for found in page.of("script")]
    for name in names:
        found = client.get(str(name))
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]
        for other in (str(name).partition("?")[0], f"{name}0"):  # may be another one tomorrow
            assert "cache-control" not in client.get(other).headers
    assert "Zero-Clause BSD" in (HERE / "static" / "htmx.LICENSE.txt").read_text("utf-8")


def test_htmx_gets_a_fragment_and_history_restore_a_document(client: Client) -> None:
    whole = client.get("/", params={"q": "a dog"})
    part = client.get("/", params={"q": "a dog"}, headers=HTMX)
    restored = client.get(
        "/", params={"q": "a dog"}, headers=HTMX | {"HX-History-Restore-Request": "true"}
    )
    assert "<html" in whole.text
    assert "<html" not in part.text
    assert part.text.startswith("<title>a dog · Hasse</title>")
    assert "<html" in restored.text


def test_fragments_and_documents_are_cached_apart(client: Client) -> None:
    whole, part = client.get("/"), client.get("/", headers=HTMX)
    assert "HX-Request" in whole.headers["Vary"]
    assert whole.headers["Cache-Control"] == "no-cache"
    assert "HX-Request" in part.headers["Vary"]
    assert part.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("current", "typing", "name", "value"),
    [
        ("http://hasse.test/", False, "HX-Push-Url", "/?q=a+dog"),
        ("http://hasse.test/?q=a", True, "HX-Replace-Url", "/?q=a+dog"),
        ("http://hasse.test/?q=a+dog", False, "HX-Push-Url", "false"),
        ("http://[no-address", False, "HX-Push-Url", "/?q=a+dog"),
    ],
)
def test_typing_replaces_one_history_entry(
    client: Client, current: str, typing: bool, name: str, value: str
) -> None:
    headers = HTMX | {"HX-Current-URL": current} | ({"Hasse-Typing": "1"} if typing else {})
    response = client.get("/", params={"q": " a  dog "}, headers=headers)
    assert response.headers[name] == value


@pytest.mark.parametrize(
    ("view", "status", "words"),
    [
        ({"image": "5"}, 404, "That picture is not here"),
        ({"image": "dog"}, 404, "That picture is not here"),
        ({"q": "dog " * 101}, 422, "That cannot be asked More than 100 words."),
        ({"q": "d" * 2001}, 422, "That cannot be asked More than 2,000 characters."),
    ],
)
def test_search_error_is_a_page_with_its_status(
    client: Client, view: dict[str, str], status: int, words: str
) -> None:
    response = client.get("/", params=view)
    assert response.status_code == status
    assert words in said(response)
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.fixture
def loading(settings: Settings) -> Iterator[Client]:
    """An application whose engine takes its time."""
    go_on = threading.Event()

    def open_late(*arguments: object) -> Engine:
        go_on.wait(120)
        return Engine.open(settings)

    with Client(create_app(settings, open_late), wait=False) as client:
        try:
            yield client
        finally:
            go_on.set()


def test_page_while_loading_reloads_by_itself(loading: Client) -> None:
    response = loading.get("/", params={"q": "a dog"})
    page = Tags(response.text)
    elsewhere = Tags(loading.get("/page/diagram", params={"q": "a dog"}).text)
    assert response.status_code == 503
    assert "Retry-After" in response.headers
    assert "Still loading" in said(response)
    assert {"http-equiv": "refresh", "content": "3"} in page.of("meta")
    assert [found["hx-get"] for found in page.of("div") if "hx-get" in found] == ["/?q=a+dog"]
    again = [found["hx-get"] for found in elsewhere.of("div") if "hx-get" in found]
    assert again == ["/page/diagram?q=a+dog"]


def test_openapi_leaves_out_the_page(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if path == "/" or path.startswith(("/page", "/static"))]


def test_page_answers_head(client: Client) -> None:
    assert client.request("HEAD", "/").status_code == 200


def test_page_uses_singular_for_one(client: Client) -> None:
    page = said(client.get("/", params={"q": "a dog", "k": 1}))
    assert not re.search(r"\b1 (?:more )?(?:result|picture|caption)s\b", page)


@pytest.mark.parametrize("headers", [{}, HTMX])
@pytest.mark.parametrize(
    "asked", ["/?q=a+dog", "/?image=1003", "/page/combine?operation=all_of&words=dog&image=1004"]
)
def test_missing_key_and_spent_quota_are_error_pages(
    collection: Path, asked: str, headers: dict[str, str]
) -> None:
    key = new_key()
    settings = Settings(
        library=collection, device="cpu", read_keys=f"eve:{fingerprint(key)}", searches_per_minute=1
    )
    with Client(create_app(settings)) as client:
        locked = client.get(asked, headers=headers)
        headers = {**headers, "Authorization": f"Bearer {key}"}
        assert client.get(asked, headers=headers).status_code == 200
        spent = client.get(asked, headers=headers)
    assert (locked.status_code, spent.status_code) == (401, 429)
    assert locked.headers["WWW-Authenticate"].startswith("Bearer, Basic")
    assert int(spent.headers["Retry-After"]) >= 1
    for response in (locked, spent):
        assert response.headers["Content-Type"].startswith("text/html")
        links = [a["href"] for a in Tags(response.text).of("a") if a.get("class") == "again"]
        assert links[0] == asked  # the next is in the error template of hasse.js
        assert response.headers.get("HX-Push-Url", asked) == asked
    assert "as the password" in said(locked)
    assert "1 such request in a minute" in said(spent)


def test_search_with_filters_that_leave_nothing_says_so_and_takes_each_off(
    client: Client,
) -> None:
    page = client.get(
        "/", params={"q": "a dog", "path_prefix": "nowhere/", "taken_from": "2020-01-01"}
    )
    assert "There are no such pictures in this collection" in said(page)
    taken_off = [
        link["href"] for link in Tags(page.text).of("a") if link.get("class") == "unfilter"
    ]
    assert taken_off == ["/?q=a+dog&taken_from=2020-01-01", "/?q=a+dog&path_prefix=nowhere%2F"]
    assert 'name="path_prefix" value="nowhere/"' in page.text


def test_pages_of_hits_follow_one_another(client: Client) -> None:
    found = client.post("/search/images", json={"caption": "a dog", "k": 12}).json()["hits"]
    address, shown = "/?q=a+dog&k=5", []
    while address:
        page = client.get(address).text
        shown += [int(one) for one in re.findall(r'<li class="card r\d+" id="i(\d+)"', page)]
        more = [link["href"] for link in Tags(page).of("a") if link.get("hx-trigger")]
        address = str(more[0]) if more else ""
    assert shown == [hit["image_id"] for hit in found]
    assert "There are no further pictures" in said(client.get("/?q=a+dog&offset=100"))


def test_facts_of_a_picture_are_its_size_path_and_original(client: Client) -> None:
    page = client.get("/page/facts?image=1003", headers=HTMX)
    assert "64 × 48 pixels" in said(page)
    assert 'title="Copy the path picture-3.png"' in page.text
    assert {"href": "/images/1003/file", "hx-boost": "false", "download": None} in Tags(
        page.text
    ).of("a")
    assert page.headers["HX-Push-Url"] == "false"
    assert client.get("/page/facts").status_code == 422
    assert client.get("/page/facts?image=5").status_code == 404
