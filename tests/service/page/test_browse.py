"""Looking without a search: folders and years on the first page, and the pictures in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.service.app import create_app
from hasse.service.questions import sample
from hasse.service.settings import Settings
from tests.service.client import Client
from tests.service.collection import make_collection
from tests.service.page.markup import HTMX, Tags, said

DAY = 86_400_000  # milliseconds


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A collection with pictures of two years."""
    library = make_collection(tmp_path_factory.mktemp("dated"))
    with Index.open(library, threads=1) as index:
        points = np.stack(list(index.points("image", [1000, 1001, 1002]).values()))
        times = (0, 400 * DAY, 401 * DAY)
        rows = [
            ImageRow(at, f"{at}.png", f"{at}.png", 64, 48, taken=time)
            for at, time in enumerate(times)
        ]
        index.add(rows, points)
    with Client(create_app(Settings(library=library, device="cpu"))) as client:
        yield client


def shown(text: str) -> list[int]:
    return [int(one) for one in re.findall(r'<li class="card r\d+" id="i(\d+)"', text)]


def test_home_leads_to_the_pictures_of_each_year(dated: Client) -> None:
    page = Tags(dated.get("/").text)
    years = [str(link["href"]) for link in page.of("a") if "taken_from" in str(link["href"])]
    assert years == [
        "/?taken_from=1971-01-01&taken_before=1972-01-01",
        "/?taken_from=1970-01-01&taken_before=1971-01-01",
    ]
    found = dated.get(years[0])
    assert shown(found.text) == [2, 1]  # the newest first
    assert "2 pictures" in said(found)
    assert "1971 ×" in said(found)


def test_browsing_goes_on_page_by_page(dated: Client) -> None:
    address, found = "/?path_prefix=picture-&k=5", list[int]()
    while address:
        page = dated.get(address).text
        found += shown(page)
        more = [str(link["href"]) for link in Tags(page).of("a") if link.get("hx-trigger")]
        address = more[0] if more else ""
    assert found == list(range(1011, 999, -1))


def headings(text: str) -> list[str]:
    return re.findall(r'<h2 class="heading"><bdi>(.*?)</bdi>', text)


def test_pictures_without_a_question_are_by_date_with_headings_and_a_menu(dated: Client) -> None:
    page = dated.get("/?sort=newest").text
    assert shown(page)[:3] == [2, 1, 0]
    assert headings(page) == ["February 1971", "January 1970", "Without a date"]
    oldest = dated.get("/?sort=oldest").text
    assert shown(oldest)[:3] == [0, 1, 2]
    assert headings(oldest) == ["January 1970", "February 1971", "Without a date"]
    menu = re.search(r'<details class="sort">(.*?)</details>', oldest, re.DOTALL)
    assert menu is not None
    links = [str(link["href"]) for link in Tags(menu[1]).of("a")]
    assert links == [f"/?sort={sort}" for sort in ("newest", "oldest", "added", "rating", "folder")]
    assert Tags(menu[1]).of("a")[1]["aria-current"] == "true"


def test_months_of_a_timeline_lead_to_their_first_picture(dated: Client) -> None:
    for sort, months in (
        ("newest", {"February 1971, 2": [2, 1, 0], "January 1970, 1": [0]}),
        ("oldest", {"January 1970, 1": [0, 1, 2], "February 1971, 2": [1, 2]}),
    ):
        page = Tags(dated.get(f"/?sort={sort}").text)
        stops = {str(link.get("aria-label")): str(link["href"]) for link in page.of("a")}
        for name, ids in months.items():
            assert shown(dated.get(stops[name]).text)[: len(ids)] == ids


def test_pictures_by_folder_have_headings_of_folders(client: Client) -> None:
    assert headings(client.get("/?sort=folder").text) == []  # they lie in no followed folder


def test_hits_of_a_question_are_sorted_by_the_menu_and_keep_it_in_the_address(
    dated: Client,
) -> None:
    page = dated.get("/?q=a+dog&sort=newest").text
    assert headings(page)[0] in ("February 1971", "January 1970", "Without a date")
    assert "/?q=a+dog&sort=oldest" in [str(link["href"]) for link in Tags(page).of("a")]
    assert 'name="sort" value="newest"' in page


def test_date_of_a_file_says_so(dated: Client) -> None:
    with Index.open(dated.engine.index.folder, threads=1) as index:
        points = np.stack(list(index.points("image", [1000]).values()))
        index.add([ImageRow(9, "9.png", "9.png", 64, 48, taken=900 * DAY + 1)], points)
    dated.engine.index.refresh()
    assert "date of its file" in dated.get("/?taken_from=1972-01-01").text
    assert "date of its file" not in dated.get("/?taken_before=1972-01-01").text


def test_browsing_where_nothing_lies_says_so(dated: Client) -> None:
    assert "There are no such pictures" in said(dated.get("/?path_prefix=nowhere/"))


def test_unfinished_word_changes_nothing_while_it_is_typed(client: Client) -> None:
    draft = HTMX | {"Hasse-Draft": "1"}
    for typed in ("a dog runs in the pa", "zep", "dog " * 101, "!?"):
        assert client.get("/", params={"q": typed}, headers=draft).status_code == 204
    for typed in ("a dog runs in the park", "a zeppelin dog", "a dog zep "):
        assert client.get("/", params={"q": typed}, headers=draft).status_code == 200
    assert (
        client.get("/", params={"q": "zep", "evidence": "shows"}, headers=HTMX).status_code == 422
    )


def test_examples_are_things_that_pictures_show(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = ("a dog", "a cat", "a zeppelin", "a child")
    monkeypatch.setattr(sample, "THINGS", things)
    found = client.run(sample.surest_things(client.engine))
    best = {}
    for thing in ("a dog", "a cat", "a child"):
        (hit,) = client.post("/search/images", json={"caption": thing, "k": 1}).json()["hits"]
        best[thing] = hit["probability"]
    assert found == sorted((t for t in best if best[t] >= 0.5), key=lambda t: -best[t])


def test_path_of_each_hit_is_there_to_be_copied(client: Client) -> None:
    page = client.get("/", params={"q": "a dog", "k": "3"})
    hits = client.post("/search/images", json={"caption": "a dog", "k": 3}).json()["hits"]
    cards = [item for item in Tags(page.text).of("li") if item.get("data-path")]
    assert [card["data-path"] for card in cards] == [hit["path"] for hit in hits]


def test_selection_offers_removal_only_where_writes_are_taken(
    client: Client, collection: Path
) -> None:
    assert 'data-do="remove"' not in client.get("/").text
    settings = Settings(library=collection, device="cpu", open_writes=True)
    with Client(create_app(settings)) as other:
        assert 'data-do="remove"' in other.get("/").text


def test_caption_that_says_the_words_is_written_once_on_its_card(client: Client) -> None:
    cards = re.findall(r'<div class="meta">(.*?)</li>', client.get("/?q=a+dog").text, re.DOTALL)
    said_words = [one for one in cards if 'class="says"' in one and "in its caption" in one]
    assert said_words
    for one in said_words:
        (text,) = re.findall(r"<q>(.*?)</q>", one)
        assert one.count(f">{text}<") == 1
