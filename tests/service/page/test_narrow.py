"""What a search can be narrowed to, in numbers that are links."""

from __future__ import annotations

from hasse.index.catalog.overview import Overview, PlaceCount
from hasse.service.page.narrow import calendar, draw_map, folder_tree
from tests.service.client import Client
from tests.service.page.markup import Tags


def test_narrow_links_keep_the_query_and_take_off_what_is_on(client: Client) -> None:
    page = client.get("/page/narrow?q=a+dog&has_captions=yes").text
    links = {str(link["href"]): link.get("aria-current") for link in Tags(page).of("a")}
    assert links["/?q=a+dog"] == "true"
    assert links["/?q=a+dog&has_captions=no"] is None
    assert "with <small>12</small>" in page
    assert "without <small>0</small>" in page
    found = client.get("/?q=a+dog&has_captions=no").text
    assert "There are no such pictures in this collection" in found
    assert client.get("/?q=a+dog&has_captions=yes").text.count('<li class="card') == 12


def test_folder_tree_holds_what_lies_in_folders_with_numbers() -> None:
    tree = folder_tree(Overview({"a/": 3, "a/b/": 2, "a/b/c/": 1, "d/": 1}), "")
    assert [(one.name, one.path, one.images) for one in tree] == [("a", "a/", 3), ("d", "d/", 1)]
    assert [(one.name, one.path) for one in tree[0].below[0].below] == [("c", "a/b/c/")]


def test_folder_tree_of_very_many_folders_shows_the_outer_ones_and_the_current() -> None:
    folders = {f"{at:04}/": 1 for at in range(1200)} | {"1199/in/": 1, "0000/in/": 1}
    tree = folder_tree(Overview(dict(sorted(folders.items()))), "1199/in/")
    assert len(tree) == 1001
    assert [one.path for one in tree[-1].below] == ["1199/in/"]
    assert tree[0].below == []


def test_calendar_has_twelve_months_of_each_year_the_last_first() -> None:
    found = calendar({"2023-12": 1, "2024-02": 100})
    assert list(found) == ["2024", "2023"]
    december, february = found["2023"][11], found["2024"][1]
    assert (december.start, december.end, december.name) == (
        *("2023-12-01", "2024-01-01"),
        "December 2023",
    )
    assert [one.shade for one in (december, february, found["2024"][0])] == [1, 4, 0]


def test_map_shows_places_within_its_frame_north_up() -> None:
    places = [PlaceCount("Oslo, Norway", 59.9, 10.7, 9), PlaceCount("", -33.9, 18.4, 1)]
    drawn = draw_map(places)
    assert drawn is not None
    left, top, width, height = map(float, drawn.box.split())
    assert width == 2 * height
    north, south = drawn.places
    assert north.y < south.y
    assert all(left < one.x < left + width and top < one.y < top + height for one in drawn.places)
    assert (north.name, north.near) == ("Oslo, Norway", "59.9000,10.7000,10")
    assert south.name == "33.9° S, 18.4° E"
    assert draw_map([]) is None
