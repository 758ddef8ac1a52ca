"""Looking at pictures: the viewer, and rows that go on while one scrolls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.service.app import create_app
from hasse.service.page.query import DEFAULT_SIZE
from hasse.service.settings import Settings
from tests.service.collection import make_collection, picture
from tests.service.page.browser.actions import NEEDS_BROWSER, address, serving

pytestmark = NEEDS_BROWSER

MANY = 3 * DEFAULT_SIZE + 5


def shown(page: Page) -> str:
    """The address of the picture that fills the screen."""
    source: str = page.locator("#viewer img").evaluate("(picture) => picture.currentSrc")
    return source


def test_viewer_steps_through_hits_and_closes_at_the_same_place(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".view.results")).to_be_visible()
    shots = page.locator(".card .shot")
    ids = shots.evaluate_all("(all) => all.map((one) => one.dataset.image)")
    shots.nth(1).click()
    viewer = page.locator("#viewer")
    expect(viewer).to_be_visible()
    page.wait_for_function(
        "() => document.querySelector('#viewer img').currentSrc.includes('preview')"
    )
    assert f"/images/{ids[1]}/preview" in shown(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        f"() => document.querySelector('#viewer img').currentSrc.includes('/{ids[2]}/')"
    )
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        f"() => document.querySelector('#viewer img').currentSrc.includes('/{ids[0]}/')"
    )
    expect(page.get_by_role("button", name="The picture before")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()
    expect(shots.first).to_be_focused()
    assert address(page) == "/?q=a+dog"


def test_viewer_shows_facts_zooms_and_closes_by_going_back(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".view.results")).to_be_visible()
    page.locator(".card .shot").first.click()
    viewer = page.locator("#viewer")
    page.keyboard.press("i")
    expect(viewer.locator("aside")).to_contain_text("64 × 48 pixels")
    expect(viewer.get_by_role("link", name="Download the original")).to_be_visible()
    page.keyboard.press("z")
    expect(viewer.locator(".zoom")).to_have_attribute("aria-pressed", "true")
    box = viewer.locator("img").bounding_box()
    assert box is not None
    assert box["width"] > 2 * 700
    page.keyboard.press("Escape")
    expect(viewer.locator(".zoom")).to_have_attribute("aria-pressed", "false")
    page.go_back()
    expect(viewer).to_be_hidden()
    expect(page.locator("h1")).to_contain_text("a dog")
    page.locator(".card .shot").first.click()
    viewer.get_by_role("link", name="What is true of it").click()
    expect(page.locator("h1")).to_have_text("About this picture")


def test_question_mark_lists_the_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("the next picture")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with more hits than a page, of odd shapes too."""
    folder = tmp_path_factory.mktemp("many")
    library = make_collection(folder)
    picture(1, (960, 48)).save(folder / "wide.png")
    picture(2, (48, 960)).save(folder / "tall.png")
    with Index.open(library, threads=1) as index:
        points = np.stack(list(index.points("image", range(1000, 1012)).values()))
        rows = [
            ImageRow(at, f"{at}.png", str(folder / "pictures" / f"picture-{at % 12}.png"), 64, 48)
            for at in range(MANY - 14)
        ]
        rows.append(ImageRow(998, "wide.png", str(folder / "wide.png"), 960, 48))
        rows.append(ImageRow(999, "tall.png", str(folder / "tall.png"), 48, 960))
        index.add(rows, points[np.arange(len(rows)) % 12])
    with serving(create_app(Settings(library=library, device="cpu"))) as url:
        yield url


def test_rows_go_on_while_one_scrolls_to_the_last_hit(chromium: Browser, many: str) -> None:
    page = chromium.new_page(viewport={"width": 1100, "height": 800})
    page.goto(f"{many}/?q=a+dog")
    cards = page.locator(".card")
    expect(cards).to_have_count(DEFAULT_SIZE)
    for opened in page.locator("details.nearest:not([open]) > summary").all():
        opened.click()
    for _ in range(200):
        if cards.count() == MANY:
            break
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(50)
        for opened in page.locator("details.nearest:not([open]) > summary").all():
            opened.click()
    expect(cards).to_have_count(MANY)
    ids = cards.evaluate_all("(all) => all.map((one) => one.id)")
    assert len(set(ids)) == MANY
    expect(page.locator(".next")).to_have_count(0)
    assert "offset=" in page.url
    assert page.evaluate("sessionStorage.getItem('htmx-history-cache')") is None  # no copies
    page.locator(".card .caption a").first.click()
    expect(cards).to_have_count(DEFAULT_SIZE)
    page.go_back()
    expect(cards).to_have_count(MANY)
    page.close()


def test_rows_fill_the_width_whatever_the_shapes(chromium: Browser, many: str) -> None:
    page = chromium.new_page(viewport={"width": 1100, "height": 800})
    page.goto(f"{many}/?q=a+dog&k={MANY}")
    for opened in page.locator("details.nearest > summary").all():
        opened.click()
    boxes = page.locator(".card").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect()).map((box) => [box.top, box.right])"
    )
    width = page.evaluate("document.querySelector('.cards').getBoundingClientRect().right")
    rows: dict[float, float] = {}
    for top, right in boxes:
        rows[top] = max(right, rows.get(top, 0.0))
    assert max(rows.values()) <= width + 1
    ends = sorted(rows)
    assert sum(abs(rows[top] - width) < 1.5 for top in ends) >= len(ends) - 2  # the last of a list
    page.close()
