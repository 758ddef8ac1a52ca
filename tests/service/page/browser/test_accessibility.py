"""Keyboard, screen readers, contrast, motion, and use without scripts."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import (
    Browser,
    Page,
    expect,
)

from tests.service.collection import png
from tests.service.page.browser.actions import NEEDS_BROWSER

pytestmark = NEEDS_BROWSER


# What people read against what it stands on, after WCAG 2.2: what is there, and what it takes.
CONTRASTS = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (name) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = name;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = colour(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
  };
  const said = (element) => element.placeholder
    || [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const seen = (element) => element.checkVisibility({ opacityProperty: true });
  const all = [...document.querySelectorAll("body :not(svg *)")];
  return all.filter(said).filter(seen).map((element) => {
    const style = getComputedStyle(element, element.placeholder ? "::placeholder" : null);
    const pair = [light(colour(style.color)), light(ground(element))].sort((a, b) => b - a);
    const pixels = parseFloat(style.fontSize);
    const isLarge = pixels >= 24 || (pixels > 18.6 && style.fontWeight >= 700);
    return [element.outerHTML.slice(0, 80), (pair[0] + 0.05) / (pair[1] + 0.05), isLarge ? 3 : 4.5];
  });
}"""


def test_keyboard_reaches_everything_with_visible_focus(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    assert page.locator("#q").evaluate("box => getComputedStyle(box).outlineStyle") == "solid"
    page.keyboard.type("a/b")
    expect(page.locator("#q")).to_have_value("a/b")
    page.locator(".view").evaluate("view => view.classList.add('former')")
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_have_value("")
    expect(page.locator(".view:not(.former)")).to_be_visible()  # what is replaced loses its focus
    expect(page.locator("h1")).to_contain_text("Find pictures")
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
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_contain_text("Find pictures")


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
def test_text_has_enough_contrast(page: Page, url: str, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    for view in (
        "/?q=a+zebra",
        "/?image=1003",
        "/page/claim?image=1003&hypothesis=a+dog",
        "/page/combine?operation=common&image=1003&image=1004",
    ):
        page.goto(url + view)
        found = page.evaluate(CONTRASTS)
        for verdict in page.locator(".verdict").all():  # and as it looks when it is another one
            for level in ("shows", "may_show", "not"):
                verdict.evaluate(f"(shown) => shown.className = 'verdict {level}'")
                found += page.evaluate(CONTRASTS)
        assert found, view
        assert [(said, there) for said, there, needed in found if there < needed] == [], view


def test_what_opens_and_closes_is_large_enough_to_hit(page: Page, url: str) -> None:
    page.goto(f"{url}/?image=1003")
    for target in page.locator(".elsewhere > summary, .tabs a, .path, #options > summary").all():
        box = target.bounding_box()
        assert box is not None
        assert box["height"] >= 24  # WCAG 2.2, 2.5.8


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
