"""The layout on phones and desks."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    Page,
    expect,
)

from hasse.index.store import Index
from hasse.index.types import CaptionRow
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.collection import make_collection
from tests.service.page.browser.actions import NEEDS_BROWSER, serving

pytestmark = NEEDS_BROWSER


def test_picture_beside_verdict_keeps_its_shape(page: Page, url: str) -> None:
    page.goto(url + "/page/claim?image=1003&hypothesis=a+dog")
    shown = page.locator(".view.claim img").bounding_box()
    assert shown is not None
    assert shown["width"] / shown["height"] == pytest.approx(64 / 48, abs=0.02)


def test_page_on_a_phone_never_scrolls_sideways(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for view in (
        "/",
        "/?q=a+dog",
        "/?image=1003",
        "/?image=5",
        "/page/picture",
        "/page/diagram?image=1003",
        "/page/claim?image=1003&hypothesis=a+dog",
        "/page/claim?image=1003&hypothesis=" + "w" * 200,
        "/page/claim?image=1003&hypothesis=a+dog+" + "w" * 200,
        "/?q=" + "w" * 200,
        "/?q=a+dog+" + "w" * 200,
        "/page/combine",
        "/page/combine?operation=like&image=1003&words=a+dog",
        "/page/combine?operation=common&image=1003&image=1004&image=1005",
    ):
        page.goto(url + view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        page.locator("#options > summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        panel = page.locator(".panel").bounding_box()
        assert panel is not None, view
        assert panel["x"] >= 0, view
        assert panel["x"] + panel["width"] <= 360, view


def test_missing_picture_on_a_phone_is_no_wider_than_the_screen(page: Page, url: str) -> None:
    page.route("**/thumbnail", lambda route: route.fulfill(status=404))
    page.set_viewport_size({"width": 320, "height": 740})
    page.goto(f"{url}/page/claim?image=1003&hypothesis=a+dog")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_small_diagram_on_a_phone_is_not_enlarged(page: Page, url: str) -> None:
    page.goto(f"{url}/page/diagram?q=red+blue+red+blue+red+blue+person")
    expect(page.locator(".hasse rect")).to_have_count(1)
    before = page.locator(".hasse rect").bounding_box()
    page.set_viewport_size({"width": 360, "height": 740})
    after = page.locator(".hasse rect").bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] == pytest.approx(before["width"], abs=0.1)


def test_long_words_on_a_phone_are_broken(chromium: Browser, tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    with Index.open(folder) as index:
        (point,) = index.points("caption", [10030]).values()
        index.add([], point[None][:0], [CaptionRow(99, 1003, "w" * 200)], point[None])
    app = create_app(Settings(library=folder, device="cpu"))
    with serving(app) as url:
        context = chromium.new_context(viewport={"width": 360, "height": 740})
        page = context.new_page()
        for view in ("/?image=1003", "/?q=a+dog", "/page/combine?operation=common&image=1003"):
            page.goto(url + view)
            for more in page.locator(".more summary").all():
                more.click()
            expect(page.get_by_text("w" * 200).first).to_be_attached()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
        context.close()


def test_header_without_scripts_fits_a_phone(chromium: Browser, url: str) -> None:
    context = chromium.new_context(
        java_script_enabled=False, viewport={"width": 360, "height": 740}
    )
    page = context.new_page()
    for view in ("/", "/?q=a+dog", "/?image=1003", "/page/combine"):
        page.goto(url + view)
        for control in ("#q", ".go", "#options > summary", "#picture", ".send"):
            box = page.locator(control).bounding_box()
            assert box is not None, (view, control)
            assert box["x"] >= 0, (view, control)
            assert box["x"] + box["width"] <= 360, (view, control)
    context.close()
