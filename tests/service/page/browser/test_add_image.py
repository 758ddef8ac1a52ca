"""Adding a picture, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    BrowserContext,
    FilePayload,
    expect,
)

from hasse.service.app import create_app
from hasse.service.http.access import fingerprint, new_key
from hasse.service.settings import Settings
from tests.service.collection import make_collection, png
from tests.service.page.browser.actions import NEEDS_BROWSER, serving

pytestmark = NEEDS_BROWSER


KEY = new_key()


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[str]:
    """A service that takes pictures from who has the key."""
    settings = Settings(
        library=make_collection(tmp_path), device="cpu", write_keys=f"a:{fingerprint(KEY)}"
    )
    app = create_app(settings)
    with serving(app) as url:
        yield url


def test_add_picture_with_the_keyboard_alone(context: BrowserContext, writable: str) -> None:
    page = context.new_page()
    page.goto(writable)
    page.get_by_role("link", name="Add a picture").press("Enter")
    heading = page.get_by_role("heading", name="Add a picture")
    expect(heading).to_be_focused()
    page.get_by_label("Picture", exact=True).set_input_files(
        {"name": "beach.png", "mimeType": "image/png", "buffer": png(60)}
    )
    page.get_by_label("What is true of it").fill("a dog in the park\n\na red animal")
    page.get_by_label("Your key").fill("wrong")
    page.get_by_label("Your key").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("This key is not known here")
    expect(page.locator("#added")).to_contain_text("This key is not known here")
    expect(page.get_by_label("What is true of it")).to_have_value(re.compile("red animal"))
    page.get_by_label("Your key").fill(KEY)
    page.get_by_label("Your key").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The picture was added.")
    expect(page.locator("#added")).to_contain_text("Added: beach.png, with 2 captions.")
    expect(page.get_by_label("What is true of it")).to_have_value("")
    assert KEY not in page.content()
    page.locator("#added a").first.press("Enter")
    expect(page.get_by_role("heading", name="About this picture")).to_be_visible()
    page.goto(f"{writable}/page/add")  # the tab remembers the key, another does not
    expect(page.get_by_label("Your key")).to_have_value(KEY)
    assert page.evaluate("JSON.stringify(localStorage)").count(KEY) == 0
    other = context.new_page()
    other.goto(f"{writable}/page/add")
    expect(other.get_by_label("Your key")).to_have_value("")


def test_add_file_that_is_no_picture_says_so(context: BrowserContext, writable: str) -> None:
    page = context.new_page()
    page.goto(f"{writable}/page/add")
    page.get_by_label("Picture", exact=True).set_input_files(
        {"name": "beach.png", "mimeType": "image/png", "buffer": b"no picture"}
    )
    page.get_by_label("Your key").fill(KEY)
    page.get_by_role("button", name="Add it").click()
    expect(page.locator("#added")).to_contain_text("That is not a picture Hasse can read")
    expect(page.get_by_role("status")).to_contain_text("That is not a picture Hasse can read")


def test_many_pictures_are_added_with_progress_and_refusals_named(
    context: BrowserContext, writable: str
) -> None:
    page = context.new_page()
    page.goto(f"{writable}/page/add")
    files = [
        FilePayload(name=f"{at}.png", mimeType="image/png", buffer=png(60 + at) if at else b"no")
        for at in range(5)
    ]
    page.get_by_label("Picture", exact=True).set_input_files(files)
    expect(page.get_by_label("What is true of it")).to_be_disabled()
    page.get_by_label("Your key").fill(KEY)
    page.get_by_role("button", name="Add 5 pictures").click()
    expect(page.get_by_role("status")).to_have_text("4 pictures added, 0 known before, 1 refused.")
    expect(page.locator("#added")).to_contain_text("0.png: That is not a picture Hasse can read")
    expect(page.locator("#add progress")).to_be_hidden()
    expect(page.get_by_role("button", name="Add it")).to_be_visible()
    page.get_by_role("link", name="See the collection").click()
    expect(page.locator(".facts")).to_contain_text("16 pictures")
