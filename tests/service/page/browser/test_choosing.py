"""Typing, choosing several pictures, and large uploads, in a browser."""

from __future__ import annotations

import re
from io import BytesIO

from PIL import Image
from playwright.sync_api import Page, Request, expect

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.collection import make_collection, picture
from tests.service.page.browser.actions import NEEDS_BROWSER, address, serving

pytestmark = NEEDS_BROWSER


def test_unfinished_word_keeps_the_results_while_one_types(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    with page.expect_response(re.compile("zep")) as found:
        page.fill("#q", "a dog zep")
    assert found.value.status == 204
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    expect(page.locator("h1")).to_contain_text("a dog")
    expect(page.locator(".card").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".notice").first).to_contain_text("zep")


def test_error_while_one_types_stands_below_the_results(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    page.route("**/?q=*", lambda route: route.abort())
    page.fill("#q", "a dog runs")
    expect(page.locator("#toast")).to_contain_text("The service cannot be reached.")
    expect(page.locator(".card").first).to_be_visible()


def test_chosen_pictures_are_searched_by_together(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".view.results")).to_be_visible()
    shots = page.locator(".card .shot")
    ids = shots.evaluate_all("(all) => all.map((one) => one.dataset.image)")
    page.get_by_role("button", name="Choose").click()
    shots.nth(0).click()
    shots.nth(2).click(modifiers=["Shift"])
    expect(page.locator("#selection .count")).to_have_text("3 chosen")
    shots.nth(1).click()
    expect(page.locator("#selection .count")).to_have_text("2 chosen")
    expect(page.locator("#viewer")).to_be_hidden()
    page.get_by_role("button", name="Copy paths").click()
    expect(page.locator("#selection .count")).to_have_text("2 paths copied")
    page.get_by_role("button", name="Pictures with all of it").click()
    expect(page.locator(".compared img")).to_have_count(2)
    assert address(page) == f"/page/combine?operation=all_of&image={ids[0]}&image={ids[2]}"


def test_escape_ends_choosing(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".view.results")).to_be_visible()
    page.get_by_role("button", name="Choose").click()
    page.get_by_role("button", name="All that are shown").click()
    expect(page.locator("#selection .count")).to_have_text("12 chosen")
    page.keyboard.press("Escape")
    expect(page.locator("#selection")).to_be_hidden()
    expect(page.locator(".chosen")).to_have_count(0)
    expect(page.locator("h1")).to_contain_text("a dog")


def test_removed_pictures_leave_the_page_and_the_library(page: Page, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    library = make_collection(tmp_path_factory.mktemp("removed"))
    settings = Settings(library=library, device="cpu", open_writes=True)
    with serving(create_app(settings)) as url:
        other = page.context.new_page()
        other.on("dialog", lambda dialog: dialog.accept())
        other.goto(f"{url}/?q=a+dog")
        other.get_by_role("button", name="Choose").click()
        other.locator(".card .shot").first.click()
        other.get_by_role("button", name="Remove").click()
        expect(other.locator(".card")).to_have_count(11)
        other.reload()
        expect(other.locator(".card")).to_have_count(11)
        other.close()


def test_large_picture_is_reduced_before_it_is_sent(page: Page) -> None:
    out = BytesIO()
    picture(1, (2600, 300)).save(out, "PNG")
    assert len(out.getvalue()) > 1_000_000
    sent: list[int] = []

    def note(request: Request) -> None:
        if request.method == "POST":
            sent.append(len(request.post_data_buffer or b""))

    page.on("request", note)
    page.set_input_files(
        "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": out.getvalue()}
    )
    expect(page.locator("h1")).to_have_text("About this picture")
    assert len(sent) == 1
    assert sent[0] < 0.7 * len(out.getvalue())
    shown = page.locator(".choose img").evaluate("(picture) => picture.naturalWidth")
    assert shown == 1600
    assert Image.open(BytesIO(out.getvalue())).width == 2600
