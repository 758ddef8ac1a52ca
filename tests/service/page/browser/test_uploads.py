"""Pictures that are chosen, dropped or pasted, in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import (
    Page,
    Request,
    expect,
)

from tests.service.collection import png
from tests.service.page.browser.actions import (
    NEEDS_BROWSER,
    address,
    choose_mode,
    claim,
    dispatch,
    open_captions,
    upload,
)

pytestmark = NEEDS_BROWSER


def test_dropped_picture_is_answered(page: Page) -> None:
    expect(page.locator("#drop")).to_be_hidden()
    dispatch(page, "DragEvent", "dragenter", png())
    expect(page.locator("#drop")).to_be_visible()
    dispatch(page, "DragEvent", "drop", png())
    expect(page.locator("#drop")).to_be_hidden()
    expect(page.locator("h1")).to_have_text("About this picture")


def test_drag_that_leaves_hides_the_drop_area(page: Page) -> None:
    dispatch(page, "DragEvent", "dragenter", png())
    dispatch(page, "DragEvent", "dragleave", png())
    expect(page.locator("#drop")).to_be_hidden()


def test_pasted_picture_is_answered(page: Page) -> None:
    dispatch(page, "ClipboardEvent", "paste", png())
    expect(page.locator("h1")).to_have_text("About this picture")


def test_changed_options_repeat_the_search_by_picture(page: Page) -> None:
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    open_captions(page)
    expect(page.locator(".proof")).to_contain_text("Checked all")
    choose_mode(page, "exact")
    expect(page.locator(".proof")).to_contain_text("one by one")
    open_captions(page)
    page.locator(".of a").first.click()
    expect(page.locator(".origin a")).to_be_visible()
    expect(page.locator(".panel")).to_be_hidden()
    choose_mode(page, "certified")
    expect(page.locator(".proof")).to_contain_text("Checked all")
    expect(page.locator(".origin a")).to_be_visible()


def test_upload_that_is_no_picture_shows_error_and_link(page: Page) -> None:
    page.set_input_files(
        "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": b"not a picture"}
    )
    expect(page.get_by_role("alert")).to_contain_text("That is not a picture Hasse can read")
    page.get_by_role("link", name="Go to the first page").click()
    expect(page.locator("h1")).to_contain_text("Find pictures")


def test_upload_that_is_too_large_is_not_sent(page: Page) -> None:
    page.evaluate("document.getElementById('upload').dataset.limit = '1000000'")
    requests: list[Request] = []

    def note(request: Request) -> None:
        requests.append(request)

    page.on("request", note)
    page.set_input_files(
        "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": bytes(1_000_001)}
    )
    expect(page.get_by_role("alert")).to_contain_text("You can send at most 1 MB.")
    # The browser may still be fetching its icon.
    assert [request.url for request in requests if request.method == "POST"] == []


def test_claim_about_upload_can_be_repeated(page: Page) -> None:
    upload(page, png())
    for said in ("a dog runs", "a cat"):
        claim(page, said)
        expect(page.locator(".view.claim img")).to_have_js_property("naturalWidth", 64)
    # As after the picture was let go and the page come back to.
    page.evaluate("document.getElementById('picture').value = ''")
    page.get_by_label("Is this true of it?").fill("a child")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose the picture once more")


def test_tabs_of_an_upload_show_pictures_like_it_and_keep_the_options(page: Page) -> None:
    upload(page, png())
    page.get_by_role("button", name="Pictures that show more").click()
    expect(page.locator("h1")).to_have_text("Pictures that show more")
    assert re.fullmatch(r"/page/picture\?upload=\w+&similar=more_specific", address(page))
    choose_mode(page, "exact")
    expect(page.locator(".proof")).to_contain_text("one by one")
    expect(page.locator("h1")).to_have_text("Pictures that show more")
    page.get_by_role("button", name="About it").click()
    expect(page.locator("h1")).to_have_text("About this picture")
    expect(page.locator(".proof")).to_contain_text("one by one")


def test_going_back_from_verdict_shows_the_upload(page: Page) -> None:
    upload(page, png())
    claim(page, "a dog runs")
    claim(page, "a cat")
    page.go_back()
    expect(page.locator("h1")).to_contain_text("a dog runs")
    page.go_back()
    expect(page.locator("h1")).to_have_text("About this picture")
    claim(page, "a child")  # the picture is still the uploaded one
    page.reload()
    expect(page.locator("h1")).to_have_text("That picture was not kept")


def test_going_back_from_second_upload_shows_the_first(page: Page) -> None:
    shown = page.locator(".subject img")
    upload(page, png())
    first = shown.get_attribute("src")
    upload(page, png(4))
    expect(shown).not_to_have_attribute("src", first)
    page.go_back()
    expect(shown).to_have_attribute("src", first)
    expect(page.locator(".choose img")).to_have_count(0)
    page.get_by_label("Is this true of it?").fill("a child")
    page.get_by_role("button", name="Ask").click()
    # The browser has the other one.
    expect(page.get_by_role("alert")).to_contain_text("Choose the picture once more")
