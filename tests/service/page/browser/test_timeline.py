"""Pictures by date in a browser: endless, with one heading a month, a menu and a scrubber."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.collection import make_collection
from tests.service.page.browser.actions import NEEDS_BROWSER, address, serving

pytestmark = NEEDS_BROWSER
DAY = 86_400_000  # milliseconds
MONTHS, EACH = 36, 10


@pytest.fixture(scope="module")
def dated_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service of 360 pictures, ten of each month of three years, the last in December 2023."""
    library = make_collection(tmp_path_factory.mktemp("timeline"))
    months = np.arange("2021-01", "2024-01", dtype="datetime64[M]").astype("datetime64[ms]")
    times = [int(month) + at * DAY for month in months.astype(np.int64) for at in range(EACH)]
    with Index.open(library, threads=1) as index:
        points = np.repeat(np.stack(list(index.points("image", [1000]).values())), len(times), 0)
        rows = [
            ImageRow(at, f"{at}.png", f"{at}.png", 64, 48, taken=time)
            for at, time in enumerate(times)
        ]
        index.add(rows, points)
    with serving(create_app(Settings(library=library, device="cpu"))) as url:
        yield url


@pytest.fixture
def timeline(context: BrowserContext, dated_url: str) -> Page:
    """All pictures by date."""
    page = context.new_page()
    page.goto(f"{dated_url}/?taken_from=2021-01-01")
    return page


def test_timeline_goes_on_with_one_heading_for_each_month(timeline: Page) -> None:
    headings = timeline.locator("#hits > .heading")
    expect(headings.first).to_have_text("December 2023")
    while timeline.locator(".card").count() < MONTHS * EACH:
        timeline.mouse.wheel(0, 5000)
        timeline.wait_for_timeout(20)
    texts = headings.all_text_contents()
    assert len(texts) == len(set(texts)) == MONTHS
    assert texts[-1] == "January 2021"
    assert "offset=336" in address(timeline)


def test_scrubber_shows_the_year_and_jumps_to_a_month(timeline: Page) -> None:
    expect(timeline.locator(".scrubber [aria-current]")).to_have_text("2023")
    timeline.locator(".scrubber").get_by_text("2021").hover()
    timeline.get_by_role("link", name="June 2021, 10").click()
    expect(timeline.locator("#hits > .heading").first).to_have_text("June 2021")
    expect(timeline.locator(".scrubber [aria-current]")).to_have_text("2021")
    timeline.get_by_role("link", name="From the beginning").click()
    expect(timeline.locator("#hits > .heading").first).to_have_text("December 2023")


def test_menu_sorts_and_a_question_begins_with_the_best(timeline: Page) -> None:
    timeline.locator(".sort > summary").click()
    timeline.get_by_role("link", name="Oldest first").click()
    expect(timeline.locator("#hits > .heading").first).to_have_text("January 2021")
    timeline.fill("#q", "a dog")
    expect(timeline.locator(".proof")).to_contain_text("Checked all")
    assert "sort" not in address(timeline)
    timeline.locator(".sort > summary").click()
    timeline.get_by_role("link", name="Newest first").click()
    expect(timeline.locator(".sort > summary")).to_contain_text("Newest first")
    timeline.fill("#q", "a cat")
    expect(timeline.locator("h1")).to_contain_text("a cat")
    assert "sort=newest" in address(timeline)
