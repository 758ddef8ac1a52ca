"""Searching, options, history and errors, in a browser."""

from __future__ import annotations

import threading

from playwright.sync_api import (
    BrowserContext,
    Page,
    Route,
    expect,
)

from hasse.service.app import create_app
from hasse.service.core.engine import Engine
from hasse.service.settings import Settings
from tests.service.page.browser.actions import (
    NEEDS_BROWSER,
    address,
    choose_mode,
    open_captions,
    serving,
)

pytestmark = NEEDS_BROWSER


def test_going_back_skips_what_was_typed_in_between(page: Page) -> None:
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


def test_search_does_not_wait_behind_pictures_and_gives_them_back_where_it_fails(
    page: Page, url: str
) -> None:
    page.route("**/thumbnail*", lambda route: None)  # they do not come
    page.goto(f"{url}/?q=a+dog", wait_until="domcontentloaded")
    stopped: list[str] = []
    page.on("requestfailed", lambda request: stopped.append(request.url))
    waiting = "document.querySelectorAll('.card img[srcset*=thumbnail]').length"
    shown = page.evaluate(waiting)
    asked: list[Route] = []

    def keep(route: Route) -> None:  # nor does the answer
        asked.append(route)

    page.route(lambda to: "runs" in to, keep)
    page.fill("#q", "a dog runs")
    expect(page.locator("body.busy")).to_be_visible()
    held = page.evaluate(waiting)
    assert held < shown
    page.wait_for_timeout(100)
    assert len(stopped) >= min(6, shown - held)
    asked[0].abort()
    expect(page.locator("#toast")).to_be_visible()
    assert page.evaluate(waiting) == shown


def test_links_lead_from_picture_to_captions_and_back(page: Page) -> None:
    page.locator(".card .shot").first.click()
    page.keyboard.press("i")
    page.get_by_role("link", name="What is true of it").click()
    expect(page.locator("h1")).to_have_text("About this picture")
    assert address(page).startswith("/?image=10")
    open_captions(page)
    line = page.locator(".captions .caption").first
    said = line.inner_text()
    line.click()
    expect(page.locator("#q")).to_have_value(said)
    expect(page.locator("h1")).to_contain_text(said)
    assert address(page) == f"/?q={said.replace(' ', '+')}"
    page.go_back()
    expect(page.locator("h1")).to_have_text("About this picture")
    expect(page.locator("#q")).to_have_value("")


def test_shared_link_opens_the_same_answer(page: Page, url: str) -> None:
    page.goto(f"{url}/?q=a+red+animal&k=12&mode=exact")
    expect(page.locator("#q")).to_have_value("a red animal")
    expect(page.locator(".proof")).to_contain_text("one by one")


def test_changed_options_repeat_the_search(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator(".proof")).to_contain_text("Checked all")
    choose_mode(page, "exact")
    expect(page.locator(".proof")).to_contain_text("one by one")
    assert address(page) == "/?q=a+dog&mode=exact"
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_be_hidden()
    page.locator(".card .caption a").first.click()
    expect(page.locator(".proof")).to_contain_text("one by one")
    assert address(page).endswith("&mode=exact")


def test_going_back_restores_the_options(page: Page) -> None:
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    choose_mode(page, "fast")
    page.wait_for_url("**/?q=a+dog&mode=fast")  # one that is overtaken has no place in history
    choose_mode(page, "exact")
    expect(page.locator(".proof")).to_contain_text("one by one")
    page.go_back()
    page.go_back()
    expect(page.locator(".proof")).to_contain_text("Checked all")
    assert address(page) == "/?q=a+dog"
    expect(page.locator("[type=radio][value=certified]")).to_be_checked()
    page.fill("#q", "a dog runs")
    expect(page.locator("h1")).to_contain_text("a dog runs")
    assert address(page) == "/?q=a+dog+runs"


def test_filters_of_a_view_hold_as_soon_as_it_is_shown(page: Page) -> None:
    page.evaluate("htmx.config.defaultSettleDelay = 60000")
    page.evaluate("""() => {
      const link = document.createElement("a");
      Object.assign(link, { href: "/?path_prefix=2021/", textContent: "go" });
      document.querySelector("#answer").prepend(link);
      htmx.process(link);
    }""")
    page.get_by_text("go", exact=True).click()
    expect(page.locator(".unfilter")).to_contain_text("in 2021/")
    assert page.evaluate("document.forms.search.elements.path_prefix.value") == "2021/"


def test_search_in_progress_is_shown_as_busy(page: Page) -> None:
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


def test_last_search_wins_over_a_slower_earlier_one(page: Page) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if "cat" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/?q=*", hold_the_first)
    page.fill("#q", "a cat")
    expect(page.locator("body")).to_have_class("busy")
    while not held:  # the page may show that it asks before it has
        page.wait_for_timeout(10)
    page.fill("#q", "a dog")
    expect(page.locator("h1")).to_contain_text("a dog")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    assert len(held) == 1


def test_unreachable_service_is_named_and_can_be_retried(page: Page) -> None:
    page.route("**/?q=*", lambda route: route.abort())
    page.fill("#q", "a dog")
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached.")
    page.unroute("**/?q=*")
    page.fill("#q", "a dog runs")
    expect(page.locator(".cards")).to_be_visible()


def test_problem_document_is_shown_with_its_detail(page: Page) -> None:
    told = '{"detail": "The moon is in the wrong phase."}'
    page.route(
        "**/?q=*",
        lambda route: route.fulfill(status=429, content_type="application/problem+json", body=told),
    )
    page.fill("#q", "a dog")
    expect(page.get_by_role("alert")).to_contain_text("The moon is in the wrong phase.")


def test_search_while_loading_continues_when_ready(
    context: BrowserContext, settings: Settings
) -> None:
    awake = threading.Event()

    def open_late(*arguments: object) -> Engine:
        awake.wait(60)
        return Engine.open(settings)

    try:
        with serving(create_app(settings, open_late), wait=False) as url:
            page = context.new_page()
            page.goto(f"{url}/?q=a+dog")
            expect(page.locator("h1")).to_have_text("Still loading")
            awake.set()
            expect(page.locator(".cards")).to_be_visible()
            expect(page.locator("h1")).to_contain_text("a dog")
            page.close()
    finally:
        awake.set()
