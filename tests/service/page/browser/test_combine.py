"""Combining pictures and words, in a browser."""

from __future__ import annotations

from playwright.sync_api import (
    Page,
    expect,
)

from tests.service.collection import png
from tests.service.page.browser.actions import NEEDS_BROWSER, address, choose_mode, dispatch

pytestmark = NEEDS_BROWSER


def test_picture_page_finds_pictures_like_it_with_other_words(page: Page, url: str) -> None:
    page.goto(f"{url}/?image=1003")
    page.get_by_label("with", exact=True).fill("a cat")
    page.get_by_label("without", exact=True).fill("a dog")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".view.combine .card")).to_have_count(11)
    assert address(page) == "/page/combine?operation=like&words=a+cat&without=a+dog&image=1003"
    expect(page.get_by_label("Words", exact=True)).to_have_value("a cat")
    page.locator(".compared a").first.click()
    expect(page.locator("h1")).to_have_text("About this picture")


def test_combine_on_a_phone_scrolls_to_the_result(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for _ in range(2):  # by a link, then by the form below which the answer stands
        if page.locator("#combine").count():
            page.get_by_role("button", name="Find", exact=True).click()
        else:
            page.goto(f"{url}/?image=1003")
            page.get_by_label("with", exact=True).fill("a cat")
            page.get_by_role("button", name="Find").click()
        expect(page.locator("h1")).to_contain_text("a cat")
        expect(page.locator("h1")).to_be_in_viewport()


def test_search_links_to_what_the_first_pictures_have_in_common(page: Page) -> None:
    page.fill("#q", "a dog")
    link = page.get_by_role("link", name="What do the first pictures have in common?")
    link.click()
    expect(page.locator("h1")).to_have_text("What it all has in common")
    expect(page.locator(".compared img")).to_have_count(3)
    expect(page.locator(".captions .caption").first).to_be_visible()


def test_combine_uploads_words_and_stored_pictures(page: Page) -> None:
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("link", name="Combine it with").click()
    expect(page.locator("h1")).to_have_text("Combine pictures and words")
    chosen = "document.getElementById('pictures').files.length"
    page.wait_for_function(f"{chosen} === 1")  # the heading is there before the picture
    dispatch(page, "ClipboardEvent", "paste", png(4))
    page.wait_for_function(f"{chosen} === 2")
    page.get_by_label("Words to find pictures to choose from").fill("a dog")
    page.keyboard.press("Enter")
    page.locator("#pick input[type=checkbox]").nth(1).check()
    page.get_by_label("Words", exact=True).fill("a red animal\na cat")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("h1")).to_contain_text("a red animal + a cat")
    expect(page.locator(".compared img")).to_have_count(3)
    expect(page.locator(".card")).to_have_count(12)
    expect(page.get_by_role("status")).to_contain_text("Checked all")
    page.get_by_label("What it all has in common").check()
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".captions .caption").first).to_be_visible()
    expect(page.locator(".compared img")).to_have_count(3)
    choose_mode(page, "exact")
    expect(page.locator(".proof")).to_contain_text("one by one")


def test_going_back_to_combine_restores_the_form(page: Page, url: str) -> None:
    page.goto(f"{url}/page/combine?image=1003&image=1004")
    page.set_input_files("#pictures", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_label("Words", exact=True).fill("a red animal")
    page.locator("#pick input[type=checkbox]").first.uncheck()
    page.get_by_role("button", name="Find", exact=True).click()
    page.locator(".card .caption a").first.click()
    expect(page.locator(".view.results")).to_be_visible()
    page.go_back()
    expect(page.locator(".compared img")).to_have_count(2)
    expect(page.get_by_label("Words", exact=True)).to_have_value("a red animal")
    expect(page.locator("#pick :checked")).to_have_count(1)
    expect(page.locator("#pictures-hint")).to_contain_text("once more")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("Choose your pictures once more")
    expect(page.get_by_label("Words", exact=True)).to_have_value("a red animal")


def test_combine_that_fails_keeps_the_form(page: Page, url: str) -> None:
    page.goto(f"{url}/page/combine")
    expect(page.get_by_label("Without", exact=True)).to_be_hidden()
    page.get_by_label("More like these, and less like those").check()
    page.get_by_label("Words", exact=True).fill("a cat")
    page.get_by_label("Without", exact=True).fill("a dog")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Without", exact=True)).to_have_value("a dog")
    page.set_input_files("#pictures", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".card")).to_have_count(12)
    page.set_input_files(
        "#pictures", {"name": "b.png", "mimeType": "image/png", "buffer": b"not a picture"}
    )
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("b.png: That is not a picture")
