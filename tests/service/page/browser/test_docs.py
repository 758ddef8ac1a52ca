"""Swagger UI at /docs in a real Chromium, under a policy that allows nothing from other sites."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.service.collection import png
from tests.service.page.browser.actions import NEEDS_BROWSER

pytestmark = NEEDS_BROWSER


@pytest.mark.slow
def test_docs_requests_and_forms_can_be_tried_out(page: Page, url: str) -> None:
    page.goto(f"{url}/docs")
    search = page.locator("#operations-search-search_images_search_images_post")
    search.locator(".opblock-summary-control").click()
    expect(search.locator("textarea.body-param__text")).to_contain_text("a dog runs on the beach")
    search.get_by_role("button", name="Execute").click()
    expect(search.locator(".live-responses-table")).to_contain_text('"certified": true')
    search = page.locator("#operations-search-search_captions_search_captions_post")
    search.locator(".opblock-summary-control").click()
    search.locator("input[type=file]").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": png(1)}
    )
    search.get_by_role("button", name="Execute").click()
    expect(search.locator(".live-responses-table")).to_contain_text('"caption_id"')


def test_docs_have_an_icon(page: Page, url: str) -> None:
    page.goto(f"{url}/docs")
    icon = page.locator("link[rel=icon]").evaluate("link => link.href")
    assert page.request.get(icon).status == 200


def test_docs_on_a_phone_never_scroll_sideways(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 320, "height": 740})
    page.goto(f"{url}/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
