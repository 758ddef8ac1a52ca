"""What axe finds, keyboard, screen readers, motion, and use without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page, expect

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.collection import png
from tests.service.page.browser.actions import NEEDS_BROWSER, serving

pytestmark = NEEDS_BROWSER


# By axe-core: the success criteria of WCAG 2.2, levels A and AA, and what it calls best practice.
AXE = """async (tags) => {
  const { violations } = await axe.run(document, { runOnly: { type: "tag", values: tags } });
  const told = (id, { html }) => `${id}: ${html.slice(0, 120)}`;
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => told(id, node)));
}"""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
VIEWS = (
    "/",
    "/?q=a+dog",
    "/?q=a+zebra",
    "/?q=a+dog&path_prefix=nowhere/",
    "/?has_captions=yes",
    "/?image=1003",
    "/?image=1003&similar=alike",
    "/?image=5",
    "/page/add",
    "/page/claim?image=1003&hypothesis=a+dog",
    "/page/combine?operation=common&image=1003&image=1004",
    "/page/combine?operation=like&image=1003&image=1003&less=1004&words=a+dog",
    "/page/diagram?image=1003",
    "/page/narrow",
    "/page/picture",
)


def faults(page: Page) -> list[str]:
    """Return what axe finds on the page as it is."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(AXE, TAGS)
    return found


@pytest.fixture(scope="module")
def writable_url(settings: Settings) -> Iterator[str]:
    """The same collection with all that is there for those who may write; nothing is written."""
    with serving(create_app(settings.model_copy(update={"open_writes": True}))) as url:
        yield url


def test_keyboard_reaches_everything_with_visible_focus(page: Page, url: str) -> None:
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    assert page.locator("#q").evaluate("box => getComputedStyle(box).outlineStyle") == "solid"
    page.keyboard.type("a/b")
    expect(page.locator("#q")).to_have_value("a/b")
    page.keyboard.press("Escape")
    expect(page.locator("#q")).not_to_be_focused()
    expect(page.locator("#q")).to_have_value("a/b")
    page.goto(url)
    page.keyboard.press("/")
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.closest('[id], .chips, .mosaic').id"))
        ring = "getComputedStyle(document.activeElement.matches('.file')"
        ring += " ? document.querySelector('.choose') : document.activeElement).outlineStyle"
        assert page.evaluate(ring) == "solid"
    assert "options" in reached
    assert "picture" in reached
    page.locator(".chips a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".view.results")).to_be_visible()
    words = page.locator("#q").input_value()
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(page.locator(".view.results")).to_be_visible()
    assert page.locator("#q").input_value() == words


def test_arrows_move_among_pictures_and_question_mark_shows_the_keys_in_the_viewer(
    page: Page, url: str
) -> None:
    page.goto(f"{url}/?sort=newest")
    shots = page.locator(".card .shot")
    page.keyboard.press("ArrowRight")
    expect(shots.nth(0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(shots.nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    lower = page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert lower > page.evaluate("document.querySelector('.shot').getBoundingClientRect().bottom")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#viewer")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


def test_page_has_landmarks_and_names_for_screen_readers(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".cards")).to_be_visible()
    for role in ("banner", "search", "main", "status"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("combobox", name="Words to find pictures by")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert page.evaluate("[...document.images].every((image) => image.hasAttribute('alt'))")
    assert page.evaluate("document.documentElement.lang") == "en"


def test_dark_mode_follows_the_system(page: Page) -> None:
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert page.evaluate(shade) > 200
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(shade) < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.slow
def test_axe_finds_no_fault_on_any_view(
    context: BrowserContext, writable_url: str, scheme: Literal["light", "dark"]
) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    for view in VIEWS:
        page.goto(writable_url + view)
        assert faults(page) == [], view
    for level in ("shows", "may_show", "not"):  # as the verdict looks when it is another one
        page.goto(writable_url + "/page/claim?image=1003&hypothesis=a+dog")
        page.locator(".verdict").evaluate(f"(shown) => shown.className = 'verdict {level}'")
        assert faults(page) == [], level
        page.goto(writable_url + "/?q=a+dog")
        bars = page.locator(".card .chance")
        bars.evaluate_all(f"(all) => all.forEach((one) => one.className = 'chance {level}')")
        assert faults(page) == [], level


@pytest.mark.slow
def test_axe_finds_no_fault_in_what_opens(context: BrowserContext, writable_url: str) -> None:
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{writable_url}/?q=a+dog")
    page.locator("#options > summary").click()
    expect(page.locator("#narrow h2").first).to_be_visible()
    assert faults(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Choose").click()
    page.locator(".card .shot").first.click()
    page.get_by_role("button", name="Caption or keyword").click()
    assert faults(page) == []
    page.get_by_role("button", name="Done").click()
    page.keyboard.press("?")
    assert faults(page) == []
    page.keyboard.press("Escape")
    page.locator(".card .shot").first.click()
    page.keyboard.press("i")
    expect(page.locator("#viewer dt").first).to_be_visible()
    assert faults(page) == []


def test_reduced_motion_stops_animations(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("document.body.classList.add('busy')")
    moving = "getComputedStyle(document.querySelector('.progress'), '::before').animationName"
    assert page.evaluate(moving) == "none"


def test_arrow_keys_move_in_the_diagram(page: Page, url: str) -> None:
    page.goto(f"{url}/page/diagram?image=1003")
    here = page.locator(".hasse [aria-current]")
    here.focus()
    page.keyboard.press("ArrowUp")
    expect(here).not_to_be_focused()
    expect(page.locator(".hasse a:focus")).to_have_count(1)
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    expect(here).to_be_focused()


@pytest.mark.slow
def test_all_searches_work_without_scripts(chromium: Browser, url: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    page.fill("#q", "a dog")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".card")).to_have_count(12)
    page.locator(".shot").first.click()
    expect(page.locator("h1")).to_have_text("About this picture")
    page.locator(".elsewhere > summary").click()
    page.locator(".captions .caption").first.click()
    expect(page.locator(".cards")).to_be_visible()
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("button", name="Search by this picture").click()
    expect(page.locator("h1")).to_have_text("About this picture")
    expect(page.locator(".origin")).to_have_text("Your picture was read, not kept.")
    page.get_by_role("link", name="Combine it with").click()
    page.get_by_label("Words to find pictures to choose from").fill("a dog")
    page.get_by_role("button", name="Find pictures").click()
    page.locator("#pick input[type=checkbox]").first.check()
    page.get_by_label("Words", exact=True).fill("a cat")
    page.set_input_files("#pictures", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".compared img")).to_have_count(2)
    expect(page.locator(".card")).to_have_count(12)
    context.close()
