"""The page in a real Chromium, over a real server and a small real collection."""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from index.store import Index
from index.types import CaptionRow
from service.app import create_app
from service.core.engine import Engine
from service.http.access import fingerprint, new_key
from service.services import services_of
from service.settings import Settings
from tests.service.collection import make_collection, png

CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("HASSE_REQUIRE_BROWSER"),
        reason="there is no chromium on this machine",
    ),
]

# Without the second half Chromium calls home at every start, and fails slowly where it cannot.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# What Chromium and htmx report of requests that fail or are overtaken, as some here are meant to.
REPORTS = ("Failed to load resource", "htmx:afterRequest", "htmx:send", "Response Status Error")
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
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
FILE = """(bytes) => {
  const content = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([content], "mine.png", { type: "image/png" }));
  return carried;
}"""


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """Serve an application on a free port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module")
def url(settings: Settings) -> Iterator[str]:
    """A service that is ready."""
    app = create_app(settings)
    with serving(app) as url:
        while services_of(app).readiness.engine is None:
            time.sleep(0.01)
        yield url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A visitor."""
    context = chromium.new_context(viewport={"width": 1100, "height": 800})
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, url: str) -> Iterator[Page]:
    """A visitor on the first page, who must meet no error and nothing from elsewhere."""
    page = context.new_page()
    faults: list[str] = []
    page.add_init_script(WATCH)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((url, "data:", "blob:")) else faults.append(request.url)
        ),
    )
    page.goto(url)
    yield page
    faults += page.evaluate("window.violations")
    assert [fault for fault in faults if not fault.startswith(REPORTS)] == []


def address(page: Page) -> str:
    """Return the address without the origin."""
    found: str = page.evaluate("location.pathname + location.search")
    return found


def bring(page: Page, content: bytes) -> None:
    """Choose a picture and wait for its answer."""
    with page.expect_response("**/page/picture"):
        page.set_input_files(
            "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": content}
        )
    expect(page.locator("h1")).to_have_text("True of this picture")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")


def claim(page: Page, said: str) -> None:
    """Ask whether a caption is true of the picture that is shown, and wait for the verdict."""
    page.get_by_label("Is this true of it?").fill(said)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("h1")).to_contain_text(said)
    expect(page.locator(".claimed .verdict")).to_have_text(re.compile("True|Not true"))


def offer(page: Page, kind: str, event: str, content: bytes) -> None:
    """Let an event that carries a picture happen to the page, as a visitor would cause it."""
    carried = page.evaluate_handle(FILE, base64.b64encode(content).decode())
    key = "clipboardData" if kind == "ClipboardEvent" else "dataTransfer"
    page.evaluate(
        f"""(carried) => document.body.dispatchEvent(new {kind}("{event}", {{
          {key}: carried, bubbles: true, cancelable: true,
        }}))""",
        carried,
    )


def test_typing_finds_pictures_and_the_address_follows(page: Page) -> None:
    page.locator("#q").press_sequentially("a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    expect(page.locator(".card")).to_have_count(12)
    expect(page).to_have_title("a dog · Hasse")
    expect(page.locator("#verdict")).to_contain_text("12 pictures.")
    assert address(page) == "/?q=a+dog"


def test_all_that_is_typed_is_one_step_back(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    page.fill("#q", "a dog runs")
    expect(page.locator("h1")).to_contain_text("a dog runs")
    page.go_back()
    expect(page.locator("h1")).to_contain_text("Find pictures")
    expect(page.locator("#q")).to_have_value("")
    page.go_forward()
    expect(page.locator("h1")).to_contain_text("a dog runs")
    expect(page.locator("#q")).to_have_value("a dog runs")


def test_a_picture_leads_to_its_captions_and_a_caption_to_its_pictures(page: Page) -> None:
    page.locator(".mosaic a").first.click()
    expect(page.locator("h1")).to_have_text("True of this picture")
    expect(page.locator("h1")).to_be_focused()
    assert address(page).startswith("/?image=10")
    line = page.locator(".lines .caption").first
    said = line.inner_text()
    line.click()
    expect(page.locator("#q")).to_have_value(said)
    expect(page.locator("h1")).to_contain_text(said)
    assert address(page) == f"/?q={said.replace(' ', '+')}"
    page.locator(".card .shot").first.click()
    expect(page.locator("h1")).to_have_text("True of this picture")
    page.go_back()
    page.go_back()
    expect(page.locator("h1")).to_have_text("True of this picture")
    expect(page.locator("#q")).to_have_value("")


def test_a_shared_link_opens_the_same_answer(page: Page, url: str) -> None:
    page.goto(f"{url}/?q=a+red+animal&k=12&mode=exact")
    expect(page.locator("#q")).to_have_value("a red animal")
    expect(page.locator(".proof")).to_contain_text("every one compared")
    expect(page.locator("#k")).to_have_value("12")


def test_a_chosen_picture_is_answered_and_can_be_come_back_to(page: Page) -> None:
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator("h1")).to_have_text("True of this picture")
    assert re.fullmatch(r"/page/picture\?brought=\w+", address(page))
    assert page.locator(".subject img").evaluate("image => image.naturalWidth") == 64
    assert page.locator(".choose img").evaluate("image => image.naturalWidth") == 64
    page.locator(".lines .caption").first.click()
    expect(page.locator(".cards")).to_be_visible()
    expect(page.locator(".choose img")).to_have_count(0)
    page.go_back()
    expect(page.locator("h1")).to_have_text("True of this picture")
    assert page.locator(".subject img").evaluate("image => image.naturalWidth") == 64


def test_a_picture_can_be_dropped_anywhere(page: Page) -> None:
    expect(page.locator("#drop")).to_be_hidden()
    offer(page, "DragEvent", "dragenter", png())
    expect(page.locator("#drop")).to_be_visible()
    offer(page, "DragEvent", "drop", png())
    expect(page.locator("#drop")).to_be_hidden()
    expect(page.locator("h1")).to_have_text("True of this picture")


def test_a_drag_that_leaves_again_leaves_no_trace(page: Page) -> None:
    offer(page, "DragEvent", "dragenter", png())
    offer(page, "DragEvent", "dragleave", png())
    expect(page.locator("#drop")).to_be_hidden()


def test_a_picture_can_be_pasted(page: Page) -> None:
    offer(page, "ClipboardEvent", "paste", png())
    expect(page.locator("h1")).to_have_text("True of this picture")


def test_options_ask_the_question_again(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".proof")).to_contain_text("proved exact")
    page.locator("#options summary").click()
    page.get_by_label("Exhaustive").check()
    expect(page.locator(".proof")).to_contain_text("every one compared")
    assert address(page) == "/?q=a+dog&mode=exact"
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_be_hidden()
    page.locator(".card .shot").first.click()
    expect(page.locator(".lines")).to_be_visible()
    assert address(page).endswith("&mode=exact")


def test_options_ask_about_the_same_picture_again(page: Page) -> None:
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator(".proof")).to_contain_text("proved exact")
    page.locator("#options summary").click()
    page.get_by_label("Exhaustive").check()
    expect(page.locator(".proof")).to_contain_text("every one compared")
    page.locator(".of a").first.click()
    expect(page.locator(".origin a")).to_be_visible()
    expect(page.locator(".panel")).to_be_hidden()
    page.locator("#options summary").click()
    page.locator("[value=certified]").check()
    expect(page.locator(".proof")).to_contain_text("proved exact")
    expect(page.locator(".origin a")).to_be_visible()


def test_options_are_those_of_the_answer_that_is_come_back_to(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    page.locator("#options summary").click()
    page.get_by_label("How many").select_option("48")
    page.wait_for_url("**/?q=a+dog&k=48")  # a question that is overtaken has no place in history
    page.get_by_label("Exhaustive").check()
    expect(page.locator(".proof")).to_contain_text("every one compared")
    page.go_back()
    page.go_back()
    expect(page.locator(".proof")).to_contain_text("proved exact")
    assert address(page) == "/?q=a+dog"
    expect(page.locator("#k")).to_have_value("24")
    expect(page.locator("[type=radio][value=certified]")).to_be_checked()
    page.fill("#q", "a dog runs")
    expect(page.locator("h1")).to_contain_text("a dog runs")
    assert address(page) == "/?q=a+dog+runs"


def test_escape_in_a_field_of_a_form_keeps_what_was_typed(page: Page, url: str) -> None:
    page.goto(url + "/page/together")
    page.fill("#words", "a dog")
    page.keyboard.press("Escape")
    page.locator("#words").blur()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#words")).to_have_value("a dog")


def test_keys_reach_everything_and_the_focus_is_seen(page: Page) -> None:
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
    expect(page.locator(".cards")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_contain_text("Find pictures")


def test_landmarks_and_names_are_there_for_screen_readers(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".cards")).to_be_visible()
    for role in ("banner", "search", "main", "status"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Words to find pictures by")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert page.evaluate("[...document.images].every((image) => image.hasAttribute('alt'))")
    assert page.evaluate("document.documentElement.lang") == "en"


def test_dark_follows_the_system(page: Page) -> None:
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert page.evaluate(shade) > 200
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(shade) < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "view",
    [
        "/?q=a+zebra",
        "/?image=1003",
        "/page/claim?image=1003&hypothesis=a+dog",
        "/page/together?ask=common&image=1003&image=1004",
    ],
)
def test_all_that_is_said_can_be_told_from_its_ground(
    page: Page, url: str, scheme: Literal["light", "dark"], view: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(url + view)
    found = page.evaluate(CONTRASTS)
    for verdict in page.locator(".verdict").all():  # and as it looks when it is the other one
        verdict.evaluate("(shown) => shown.classList.toggle('yes')")
        found += page.evaluate(CONTRASTS)
    assert found
    assert [(said, there) for said, there, needed in found if there < needed] == []


def test_a_picture_keeps_its_shape_beside_a_verdict(page: Page, url: str) -> None:
    page.goto(url + "/page/claim?image=1003&hypothesis=a+dog")
    shown = page.locator(".claimed img").bounding_box()
    assert shown is not None
    assert shown["width"] / shown["height"] == pytest.approx(64 / 48, abs=0.02)


def test_motion_stops_where_it_is_not_wanted(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("document.body.classList.add('busy')")
    moving = "getComputedStyle(document.querySelector('.progress'), '::before').animationName"
    assert page.evaluate(moving) == "none"


@pytest.mark.parametrize(
    "view",
    [
        "/",
        "/?q=a+dog",
        "/?image=1003",
        "/?image=5",
        "/page/picture",
        "/page/order?image=1003",
        "/page/claim?image=1003&hypothesis=a+dog",
        "/page/claim?image=1003&hypothesis=" + "w" * 200,
        "/page/claim?image=1003&hypothesis=a+dog+" + "w" * 200,
        "/?q=" + "w" * 200,
        "/?q=a+dog+" + "w" * 200,
        "/page/together",
        "/page/together?ask=like&image=1003&words=a+dog",
        "/page/together?ask=common&image=1003&image=1004&image=1005",
    ],
)
def test_a_phone_never_scrolls_sideways(page: Page, url: str, view: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(url + view)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#options summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    panel = page.locator(".panel").bounding_box()
    assert panel is not None
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= 360


def test_docs_requests_can_be_tried_out(page: Page, url: str) -> None:
    page.goto(f"{url}/docs")
    search = page.locator("#operations-search-search_images_search_images_post")
    search.locator(".opblock-summary-control").click()
    expect(search.locator("textarea.body-param__text")).to_contain_text("a dog runs on the beach")
    search.get_by_role("button", name="Execute").click()
    expect(search.locator(".live-responses-table")).to_contain_text('"certified": true')


def test_docs_on_a_phone_never_scroll_sideways(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 320, "height": 740})
    page.goto(f"{url}/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_docs_try_out_of_a_form_takes_a_picture(page: Page, url: str) -> None:
    page.goto(f"{url}/docs")
    search = page.locator("#operations-search-search_captions_search_captions_post")
    search.locator(".opblock-summary-control").click()
    search.locator("input[type=file]").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": png(1)}
    )
    search.get_by_role("button", name="Execute").click()
    expect(search.locator(".live-responses-table")).to_contain_text('"caption_id"')


def test_a_picture_whose_file_is_gone_is_no_wider_than_a_phone(page: Page, url: str) -> None:
    page.route("**/thumbnail", lambda route: route.fulfill(status=404))
    page.set_viewport_size({"width": 320, "height": 740})
    page.goto(f"{url}/page/claim?image=1003&hypothesis=a+dog")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_phone_draws_no_caption_of_a_small_diagram_larger_than_a_desk(
    page: Page, url: str
) -> None:
    page.goto(f"{url}/page/order?q=red+blue+red+blue+red+blue+person")
    expect(page.locator(".hasse rect")).to_have_count(1)
    before = page.locator(".hasse rect").bounding_box()
    page.set_viewport_size({"width": 360, "height": 740})
    after = page.locator(".hasse rect").bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] == pytest.approx(before["width"], abs=0.1)


def test_captions_that_are_one_long_word_are_broken(chromium: Browser, tmp_path: Path) -> None:
    folder = make_collection(tmp_path)
    with Index.open(folder) as index:
        (point,) = index.points("caption", [10030]).values()
        index.add([], point[None][:0], [CaptionRow(99, 1003, "w" * 200)], point[None])
    app = create_app(Settings(index=folder, device="cpu"))
    with serving(app) as url:
        while services_of(app).readiness.engine is None:
            time.sleep(0.01)
        context = chromium.new_context(viewport={"width": 360, "height": 740})
        page = context.new_page()
        for view in ("/?image=1003", "/?q=a+dog", "/page/together?ask=common&image=1003"):
            page.goto(url + view)
            for more in page.locator(".more summary").all():
                more.click()
            expect(page.get_by_text("w" * 200).first).to_be_attached()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
        context.close()


def test_a_question_under_way_is_seen_and_heard(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/?q=*", hold)
    page.fill("#q", "a dog")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".progress")).to_be_visible()
    while not held:  # the page may show that it asks before it has
        page.wait_for_timeout(10)
    held[0].continue_()
    expect(page.locator(".cards")).to_be_visible()
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")


def test_the_last_question_wins_over_a_slower_one_before_it(page: Page) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if "cat" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/?q=*", hold_the_first)
    page.fill("#q", "a cat")
    expect(page.locator("body")).to_have_class("busy")
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    assert len(held) == 1


def test_an_error_is_a_sentence_with_a_way_on(page: Page) -> None:
    page.set_input_files(
        "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": b"not a picture"}
    )
    expect(page.get_by_role("alert")).to_contain_text("That is not a picture Hasse can read")
    page.get_by_role("link", name="Go to the first page").click()
    expect(page.locator("h1")).to_contain_text("Find pictures")


def test_a_picture_that_is_too_large_is_not_even_sent(page: Page) -> None:
    page.evaluate("document.getElementById('upload').dataset.limit = '1000000'")
    requests: list[Request] = []

    def note(request: Request) -> None:
        requests.append(request)

    page.on("request", note)
    page.set_input_files(
        "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": bytes(1_000_001)}
    )
    expect(page.get_by_role("alert")).to_contain_text("At most 1 MB can be sent.")
    # The browser may still be fetching its icon.
    assert [request.url for request in requests if request.method == "POST"] == []


def test_a_service_that_is_gone_is_named_and_can_be_tried_again(page: Page) -> None:
    page.route("**/?q=*", lambda route: route.abort())
    page.fill("#q", "a dog")
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached.")
    page.unroute("**/?q=*")
    page.fill("#q", "a dog runs")
    expect(page.locator(".cards")).to_be_visible()


def test_an_answer_that_is_no_page_is_told_in_its_own_words(page: Page) -> None:
    told = '{"detail": "The moon is in the wrong phase."}'
    page.route(
        "**/?q=*",
        lambda route: route.fulfill(status=429, content_type="application/problem+json", body=told),
    )
    page.fill("#q", "a dog")
    expect(page.get_by_role("alert")).to_contain_text("The moon is in the wrong phase.")


def test_a_service_that_wakes_up_goes_on_with_the_question(
    context: BrowserContext, settings: Settings
) -> None:
    awake = threading.Event()

    def open_late(*arguments: object) -> Engine:
        awake.wait(60)
        return Engine.open(settings)

    try:
        with serving(create_app(settings, open_late)) as url:
            page = context.new_page()
            page.goto(f"{url}/?q=a+dog")
            expect(page.locator("h1")).to_have_text("Still loading")
            awake.set()
            expect(page.locator(".cards")).to_be_visible()
            expect(page.locator("h1")).to_contain_text("a dog")
            page.close()
    finally:
        awake.set()


def test_a_claim_about_a_picture_that_was_brought_can_be_asked_again_and_again(page: Page) -> None:
    bring(page, png())
    for said in ("a dog runs", "a cat"):
        claim(page, said)
        assert page.locator(".claimed img").evaluate("image => image.naturalWidth") == 64
    # As after the picture was let go and the page come back to.
    page.evaluate("document.getElementById('picture').value = ''")
    page.get_by_label("Is this true of it?").fill("a child")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose the picture once more")


def test_one_goes_back_from_a_verdict_to_the_picture_that_was_brought(page: Page) -> None:
    bring(page, png())
    claim(page, "a dog runs")
    claim(page, "a cat")
    page.go_back()
    expect(page.locator("h1")).to_contain_text("a dog runs")
    page.go_back()
    expect(page.locator("h1")).to_have_text("True of this picture")
    claim(page, "a child")  # the picture is still the one that was brought
    page.reload()
    expect(page.locator("h1")).to_have_text("That picture was not kept")


def test_of_two_pictures_that_were_brought_one_goes_back_to_the_first(page: Page) -> None:
    shown = page.locator(".subject img")
    bring(page, png())
    first = shown.get_attribute("src")
    bring(page, png(4))
    expect(shown).not_to_have_attribute("src", first)
    page.go_back()
    expect(shown).to_have_attribute("src", first)
    expect(page.locator(".choose img")).to_have_count(0)
    page.get_by_label("Is this true of it?").fill("a child")
    page.get_by_role("button", name="Ask").click()
    # The browser has the other one.
    expect(page.get_by_role("alert")).to_contain_text("Choose the picture once more")


def test_a_picture_leads_to_more_like_it_but_for_some_words(page: Page, url: str) -> None:
    page.goto(f"{url}/?image=1003")
    page.get_by_label("with", exact=True).fill("a cat")
    page.get_by_label("without", exact=True).fill("a dog")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".card")).to_have_count(11)
    assert address(page) == "/page/together?ask=like&words=a+cat&without=a+dog&image=1003"
    expect(page.get_by_label("Words", exact=True)).to_have_value("a cat")
    page.locator(".compared a").click()
    expect(page.locator("h1")).to_have_text("True of this picture")


def test_an_answer_is_seen_at_once_on_a_phone_too(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for _ in range(2):  # by a link, then by the form below which the answer stands
        if page.locator("#together").count():
            page.get_by_role("button", name="Find", exact=True).click()
        else:
            page.goto(f"{url}/?image=1003")
            page.get_by_label("with", exact=True).fill("a cat")
            page.get_by_role("button", name="Find").click()
        expect(page.locator("h1")).to_contain_text("a cat")
        expect(page.locator("h1")).to_be_in_viewport()


def test_what_the_first_pictures_share_is_one_click_away(page: Page) -> None:
    page.fill("#q", "a dog")
    link = page.get_by_role("link", name="What do the first pictures share?")
    link.click()
    expect(page.locator("h1")).to_have_text("What it all has in common")
    expect(page.locator(".compared img")).to_have_count(3)
    expect(page.locator(".lines .caption").first).to_be_visible()


def test_pictures_of_ones_own_are_put_together_with_words_and_the_collection(page: Page) -> None:
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("link", name="Put it together").click()
    expect(page.locator("h1")).to_have_text("Put things together")
    chosen = "document.getElementById('pictures').files.length"
    page.wait_for_function(f"{chosen} === 1")  # the heading is there before the picture
    offer(page, "ClipboardEvent", "paste", png(4))
    assert page.evaluate(chosen) == 2
    page.get_by_label("Words to find pictures to tick").fill("a dog")
    page.keyboard.press("Enter")
    page.locator("#pick input[type=checkbox]").nth(1).check()
    page.get_by_label("Words", exact=True).fill("a red animal\na cat")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("h1")).to_contain_text("Pictures with all of it")
    expect(page.locator(".compared img")).to_have_count(3)
    expect(page.locator(".card")).to_have_count(12)
    expect(page.get_by_role("status")).to_contain_text("proved exact")
    page.get_by_label("What it all has in common").check()
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".lines .caption").first).to_be_visible()
    expect(page.locator(".compared img")).to_have_count(3)
    page.locator("#options summary").click()
    page.get_by_label("Exhaustive").check()
    expect(page.locator(".proof")).to_contain_text("every one compared")


def test_what_was_put_together_is_there_when_one_comes_back(page: Page, url: str) -> None:
    page.goto(f"{url}/page/together?image=1003&image=1004")
    page.set_input_files("#pictures", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_label("Words", exact=True).fill("a red animal")
    page.locator("#pick input[type=checkbox]").first.uncheck()
    page.get_by_role("button", name="Find", exact=True).click()
    page.locator(".card .shot").first.click()
    expect(page.locator("h1")).to_have_text("True of this picture")
    page.go_back()
    expect(page.locator(".compared img")).to_have_count(2)
    expect(page.get_by_label("Words", exact=True)).to_have_value("a red animal")
    expect(page.locator("#pick :checked")).to_have_count(1)
    expect(page.locator("#pictures-hint")).to_contain_text("once more")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("Choose your pictures once more")
    expect(page.get_by_label("Words", exact=True)).to_have_value("a red animal")


def test_what_cannot_be_put_together_is_said_and_the_form_stays(page: Page, url: str) -> None:
    page.goto(f"{url}/page/together")
    expect(page.get_by_label("Without", exact=True)).to_be_hidden()
    page.get_by_label("Pictures like one").check()
    page.get_by_label("Without", exact=True).fill("a dog")
    page.set_input_files("#pictures", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Say what takes the place")
    expect(page.get_by_label("Without", exact=True)).to_have_value("a dog")
    page.get_by_label("Words", exact=True).fill("a cat")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".card")).to_have_count(12)
    page.set_input_files(
        "#pictures", {"name": "b.png", "mimeType": "image/png", "buffer": b"not a picture"}
    )
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("b.png: That is not a picture")


def test_arrows_walk_the_diagram(page: Page, url: str) -> None:
    page.goto(f"{url}/page/order?image=1003")
    here = page.locator(".hasse [aria-current]")
    here.focus()
    page.keyboard.press("ArrowUp")
    expect(here).not_to_be_focused()
    expect(page.locator(".hasse a:focus")).to_have_count(1)
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    expect(here).to_be_focused()


def test_everything_works_without_scripts(chromium: Browser, url: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    page.fill("#q", "a dog")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".card")).to_have_count(12)
    page.locator(".shot").first.click()
    expect(page.locator("h1")).to_have_text("True of this picture")
    page.locator(".lines .caption").first.click()
    expect(page.locator(".cards")).to_be_visible()
    page.set_input_files("#picture", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("button", name="Search by this picture").click()
    expect(page.locator("h1")).to_have_text("True of this picture")
    expect(page.locator(".origin")).to_have_text("Your picture was read, not kept.")
    page.get_by_role("link", name="Put it together").click()
    page.get_by_label("Words to find pictures to tick").fill("a dog")
    page.get_by_role("button", name="Find some to tick").click()
    page.locator("#pick input[type=checkbox]").first.check()
    page.get_by_label("Words", exact=True).fill("a cat")
    page.set_input_files("#pictures", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator(".compared img")).to_have_count(2)
    expect(page.locator(".card")).to_have_count(12)
    context.close()


@pytest.mark.parametrize("view", ["/", "/?q=a+dog", "/?image=1003", "/page/together"])
def test_without_scripts_all_of_the_head_is_on_a_phone(
    chromium: Browser, url: str, view: str
) -> None:
    context = chromium.new_context(
        java_script_enabled=False, viewport={"width": 360, "height": 740}
    )
    page = context.new_page()
    page.goto(url + view)
    for control in ("#q", ".go", "#options summary", "#picture", ".send"):
        box = page.locator(control).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    context.close()


KEY = new_key()


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[str]:
    """A service that takes pictures from who has the key."""
    settings = Settings(
        index=make_collection(tmp_path), device="cpu", write_keys=f"a:{fingerprint(KEY)}"
    )
    app = create_app(settings)
    with serving(app) as url:
        while services_of(app).readiness.engine is None:
            time.sleep(0.01)
        yield url


def test_a_picture_is_added_with_the_keyboard_alone(context: BrowserContext, writable: str) -> None:
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
    expect(page.locator("#added")).to_contain_text("A key is needed")
    expect(page.get_by_label("What is true of it")).to_have_value(re.compile("red animal"))
    page.get_by_label("Your key").fill(KEY)
    page.get_by_label("Your key").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The picture was added.")
    expect(page.locator("#added")).to_contain_text("Added: beach.png, with 2 captions.")
    expect(page.get_by_label("What is true of it")).to_have_value("")
    assert KEY not in page.content()
    page.locator("#added a").first.press("Enter")
    expect(page.get_by_role("heading", name="True of this picture")).to_be_visible()
    page.goto(f"{writable}/page/add")  # the tab remembers the key, another does not
    expect(page.get_by_label("Your key")).to_have_value(KEY)
    assert page.evaluate("JSON.stringify(localStorage)").count(KEY) == 0
    stranger = context.new_page()
    stranger.goto(f"{writable}/page/add")
    expect(stranger.get_by_label("Your key")).to_have_value("")


def test_what_cannot_be_added_is_said_plainly(context: BrowserContext, writable: str) -> None:
    page = context.new_page()
    page.goto(f"{writable}/page/add")
    page.get_by_label("Picture", exact=True).set_input_files(
        {"name": "beach.png", "mimeType": "image/png", "buffer": b"no picture"}
    )
    page.get_by_label("Your key").fill(KEY)
    page.get_by_role("button", name="Add it").click()
    expect(page.locator("#added")).to_contain_text("That is not a picture Hasse can read")
    expect(page.get_by_role("status")).to_contain_text("That is not a picture Hasse can read")
