"""Addresses of pages: read back as they were made, and kind to odd options."""

from __future__ import annotations

from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasse.index.catalog.overview import PlaceCount
from hasse.service.errors import ServiceError
from hasse.service.page.query import DEFAULT_SIZE, PageQuery, period_name
from hasse.service.questions.requests import REACH_MAXIMUM, CaptionQuery, ImageQuery, Mode
from hasse.service.settings import Settings

SETTINGS = Settings()


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40),
    st.integers(1, 1000),
    st.sampled_from(["certified", "exact", "fast"]),
)
def test_query_read_from_its_own_address_is_equal(text: str, k: int, mode: Mode) -> None:
    query = PageQuery(text=" ".join(text.split()), k=k, mode=mode, offset=k)
    parts = {name: values[0] for name, values in parse_qs(urlsplit(query.url()).query).items()}
    assert PageQuery.read(parts, SETTINGS) == query


def test_url_leaves_out_defaults() -> None:
    assert PageQuery().url() == "/"
    assert PageQuery(text="a dog & a cat").url() == "/?q=a+dog+%26+a+cat"
    assert PageQuery(image_id=7, k=24).url() == "/?image=7&k=24"
    assert PageQuery(image_id=0).url() == "/?image=0"
    assert PageQuery(k=12, mode="exact").upload_url() == "/page/picture?k=12&mode=exact"


def test_urls_of_other_queries_keep_the_options() -> None:
    query = PageQuery(text="a dog", k=96, mode="fast")
    assert query.image_url(5) == "/?image=5&k=96&mode=fast"
    assert query.text_url("a cat") == "/?q=a+cat&k=96&mode=fast"


@pytest.mark.parametrize("k", ["", "0x10", "-3", "¾", "many", "9" * 30])
def test_read_option_that_makes_no_sense_gives_the_default(k: str) -> None:
    query = PageQuery.read({"q": "a dog", "k": k, "mode": "sideways"}, SETTINGS)
    assert query == PageQuery(text="a dog", k=DEFAULT_SIZE, mode="certified")


def test_page_url_leads_to_the_hits_from_an_offset_on() -> None:
    query = PageQuery(text="a dog", offset=48)
    assert query.page_url(96) == "/?offset=96&q=a+dog"
    assert query.page_url(0) == "/?q=a+dog"
    assert query.page_url(REACH_MAXIMUM) == ""
    assert query.image_url(3) == "/?image=3"


def test_read_k_beyond_bounds_is_clamped() -> None:
    assert PageQuery.read({"k": "5000"}, SETTINGS).k == SETTINGS.k_maximum
    assert PageQuery.read({"k": "0"}, SETTINGS).k == 1


@pytest.mark.parametrize(
    "image", ["dog", "-1", "1.5", "²", "9" * 19, "9" * 400, "0" * 5000, "0" * 20 + "9" * 20]
)
def test_about_what_is_no_id_is_not_found(image: str) -> None:
    with pytest.raises(ServiceError) as caught:
        PageQuery().about(image)
    assert caught.value.reason == "not_found"


def test_about_keeps_a_text_and_ignores_a_blank_image() -> None:
    assert PageQuery(text="a dog").about("5") == PageQuery(text="a dog")
    assert PageQuery(k=7).about(" ") == PageQuery(k=7)


def test_options_are_fields_of_requests_for_images_and_captions() -> None:
    query = PageQuery.read({"k": "12", "mode": "exact"}, SETTINGS)
    images = ImageQuery(caption="a dog", **query.options)
    captions = CaptionQuery(image=7, **query.options)
    assert (images.k, images.mode) == (captions.k, captions.mode) == (12, "exact")


def test_filters_are_read_kept_in_addresses_and_given_to_searches() -> None:
    fields = {"path_prefix": " trips/a b/\0", "taken_from": "2026-01-31", "taken_before": "31.1.26"}
    query = PageQuery.read({"q": "a dog", **fields}, SETTINGS)
    assert query.filters == {"path_prefix": "trips/a b/", "taken_from": "2026-01-31"}
    assert query.url() == "/?q=a+dog&path_prefix=trips%2Fa+b%2F&taken_from=2026-01-31"
    assert [(words, left.url()) for words, left in query.chips()] == [
        ("in trips/a b/", "/?q=a+dog&taken_from=2026-01-31"),
        ("taken from 2026-01-31", "/?q=a+dog&path_prefix=trips%2Fa+b%2F"),
    ]
    assert query.options["path_prefix"] == "trips/a b/"
    assert query.options["taken_from"] == "2026-01-31T00:00:00Z"
    assert query.options["taken_before"] is None
    assert query.image_url(7) == "/?image=7&path_prefix=trips%2Fa+b%2F&taken_from=2026-01-31"


def test_filters_of_camera_place_and_captions_are_read_and_given_to_searches() -> None:
    fields = {"camera": "Nikon\0 Z 6 ", "near": "52.5,-13.25,10", "has_captions": "no"}
    query = PageQuery.read({"q": "a dog", **fields}, SETTINGS)
    assert query.options["camera"] == "Nikon Z 6"
    assert query.options["near"] == "52.5,-13.25,10"
    assert query.options["has_captions"] is False
    assert PageQuery.read(dict(parse_qsl(urlsplit(query.url()).query)), SETTINGS) == query
    assert [words for words, _ in query.chips()] == [
        *("by Nikon Z 6", "near 52.5° N, 13.2° W (10 km)", "without captions of people")
    ]
    odd = {"near": "somewhere", "has_captions": "perhaps"}
    assert PageQuery.read(odd, SETTINGS) == PageQuery()


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ("2024-01-01", "2025-01-01", "2024"),
        ("2024-12-01", "2025-01-01", "December 2024"),
        ("2024-07-31", "2024-08-01", "31 July 2024"),
    ],
)
def test_dates_of_a_period_are_one_chip_in_words(start: str, end: str, words: str) -> None:
    query = PageQuery(text="a dog", taken_from=start, taken_before=end)
    assert [(said, left.url()) for said, left in query.chips()] == [
        (f"taken in {words}", "/?q=a+dog")
    ]


def test_dates_of_no_period_are_a_chip_each() -> None:
    for end in ("2024-03-02", "2025-02-01", "2024-02-01"):
        assert len(PageQuery(taken_from="2024-02-01", taken_before=end).chips()) == 2
    assert period_name("", "2024-01-01") == ""


def test_chip_of_a_place_has_its_name_where_one_is_known() -> None:
    query = PageQuery(near="45.4400,12.3300,10")
    places = [
        PlaceCount("", 45.44, 12.33, 1),
        PlaceCount("Venice, Veneto, Italy", 45.441, 12.33, 3),
    ]
    assert [words for words, _ in query.chips(places)] == ["near Venice, Italy (10 km)"]
    assert [words for words, _ in query.chips()] == ["near 45.4° N, 12.3° E (10 km)"]


def test_sort_and_stars_are_read_kept_in_addresses_and_given_to_searches() -> None:
    query = PageQuery.read({"rating": "4", "sort": "oldest", "offset": "50000"}, SETTINGS)
    assert query.url() == "/?offset=50000&sort=oldest&rating=4"
    assert (query.image_options["sort"], query.image_options["rating"]) == ("oldest", 4)
    assert query.page_url(50_048) == "/?offset=50048&sort=oldest&rating=4"
    assert query.sort_url("added") == "/?sort=added&rating=4"
    assert query.text_url("a dog") == "/?q=a+dog&rating=4"
    assert [words for words, _ in query.chips()] == ["★★★★ or more"]
    assert PageQuery.read({"rating": "9", "sort": "none"}, SETTINGS) == PageQuery()
