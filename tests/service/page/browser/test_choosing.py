"""Typing, choosing several pictures, and large uploads, in a browser."""

from __future__ import annotations

import re
import time
from io import BytesIO
from zipfile import ZipFile

import pytest
from PIL import Image
from playwright.sync_api import Page, Request, expect

from hasse import Client
from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
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
    page.get_by_role("button", name="With all of it").click()
    expect(page.locator(".compared img")).to_have_count(2)
    assert address(page) == f"/page/combine?operation=all_of&image={ids[0]}&image={ids[2]}"


def test_search_by_chosen_pictures_takes_more_and_less_of_others(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".view.results")).to_be_visible()
    page.get_by_role("button", name="Choose").click()
    expect(page.get_by_role("button", name="Less like these")).to_be_hidden()
    page.locator(".card .shot").first.click()
    first = page.locator(".card .shot").first.get_attribute("data-image")
    page.get_by_role("button", name="More like these").click()
    expect(page.locator(".weight")).to_have_text(re.compile("more like it"))
    expect(page.locator(".card")).to_have_count(11)
    page.get_by_role("button", name="Choose").click()
    page.locator(".card .shot").first.click()
    other = page.locator(".card .shot").first.get_attribute("data-image")
    page.get_by_role("button", name="Less like these").click()
    expect(page.locator(".weight")).to_have_count(2)
    expect(page.locator(".weight").last).to_contain_text("less like it")
    assert address(page) == f"/page/combine?operation=like&image={first}&less={other}"
    page.get_by_role("link", name="More like this one").first.click()
    expect(page.locator(".weight").first).to_contain_text("more like it × 2")
    page.get_by_role("link", name="Leave this one out").last.click()
    expect(page.locator(".weight")).to_have_count(1)


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


def test_chosen_pictures_are_annotated_downloaded_and_removed(page: Page, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    library = make_collection(tmp_path_factory.mktemp("removed"))
    settings = Settings(library=library, device="cpu", open_writes=True)
    with serving(create_app(settings)) as url:
        other = page.context.new_page()
        other.goto(f"{url}/?q=a+dog")
        other.get_by_role("button", name="Choose").click()
        other.locator(".card .shot").first.click()
        other.locator(".card .shot").nth(2).click(modifiers=["Shift"])
        other.get_by_role("button", name="Caption or keyword").click()
        for text, button in (("our dog Rex", "Add caption"), ("Rex", "Add keyword")):
            other.get_by_label("A caption or a keyword").fill(text)
            other.get_by_role("button", name=button).click()
            expect(other.locator("#selection .count")).to_have_text("Added to 3")
            expect(other.get_by_label("A caption or a keyword")).to_have_value("")
        with other.expect_download() as download:
            other.get_by_role("button", name="Download").click()
        with ZipFile(download.value.path()) as archive:
            assert len(archive.namelist()) == 3
        other.keyboard.press("Escape")
        other.fill("#q", "Rex")
        other.keyboard.press("Enter")
        expect(other.locator(".says").nth(2)).to_contain_text("Rex")
        other.get_by_role("button", name="Choose").click()
        other.locator(".card .shot").first.click()
        other.get_by_role("button", name="Remove").click()
        expect(other.locator(".says:visible")).to_have_count(2)
        other.get_by_role("button", name="Undo").click()
        expect(other.locator(".says:visible")).to_have_count(3)
        expect(other.locator("#undo")).to_be_hidden()
        other.get_by_role("button", name="Choose").click()
        other.locator(".card .shot").first.click()
        other.get_by_role("button", name="Remove").click()
        expect(other.locator("#undo")).to_contain_text("1 removed")
        assert address(other) == "/?q=Rex"
        other.goto(f"{url}/page/narrow")  # what a minute had to take back is done now
        with Client(url) as hasse:
            while len(hasse.search_images("Rex", evidence="says").hits) > 2:
                time.sleep(0.05)
        other.close()


def test_browser_that_opens_the_address_with_the_key_may_write_and_no_other(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library, key = make_collection(tmp_path_factory.mktemp("keyed")), new_key()
    settings = Settings(library=library, device="cpu", write_keys=f"this-run:{fingerprint(key)}")
    with serving(create_app(settings)) as url:
        other = page.context.new_page()
        other.goto(f"{url}/?image=1003")
        expect(other.get_by_label("Your key")).to_be_visible()
        other.goto(f"{url}/#key={key}")
        assert address(other) == "/"
        assert "key" not in other.evaluate("location.hash")
        other.close()
        mine = page.context.new_page()  # another tab of the same browser
        mine.goto(f"{url}/?image=1003")
        expect(mine.get_by_label("Your key")).to_be_hidden()
        mine.get_by_label("A caption or a keyword of it").fill("our dog Rex")
        mine.get_by_role("button", name="Add caption").click()
        expect(mine.locator(".own li").first).to_be_visible()
        expect(mine.locator(".own")).to_contain_text("our dog Rex")
        mine.evaluate(
            "[sessionStorage, localStorage].map((kept) => kept.setItem('hasse-key', 'old'))"
        )
        mine.goto(f"{url}/?image=1003")
        mine.get_by_label("A caption or a keyword of it").fill("our cat")
        mine.get_by_role("button", name="Add caption").click()
        expect(mine.locator(".view.error")).to_be_visible()
        mine.goto(f"{url}/?image=1003")  # a key that is refused is asked for again
        expect(mine.get_by_label("Your key")).to_be_visible()
        mine.close()


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


def test_search_is_narrowed_by_what_the_options_show_and_stays_so(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    page.locator("#options > summary").click()
    page.get_by_role("link", name=re.compile("^with 12")).click()
    expect(page.locator(".unfilter")).to_contain_text("with captions of people")
    expect(page.locator("#narrow")).to_be_hidden()
    page.fill("#q", "a dog runs")  # typing keeps it
    expect(page.locator("h1")).to_contain_text("a dog runs")
    assert address(page) == "/?q=a+dog+runs&has_captions=yes"
    page.locator(".unfilter").click()
    expect(page.locator(".unfilter")).to_have_count(0)
    page.fill("#q", "a dog")
    expect(page.locator("h1")).not_to_contain_text("runs")
    assert address(page) == "/?q=a+dog"
