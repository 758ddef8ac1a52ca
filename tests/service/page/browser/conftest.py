"""A Chromium, and a page over a real server and a small real collection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    expect,
    sync_playwright,
)

from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.service.page.browser.actions import CHROMIUM, serving

# The second half keeps Chromium from network requests at start, which fail slowly offline.
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

PATIENCE = 60_000  # milliseconds; a busy machine may take more than the usual five seconds
expect.set_options(timeout=PATIENCE)

# What Chromium and htmx report of requests that fail or are aborted, as some tests intend.
REPORTS = ("Failed to load resource", "htmx:afterRequest", "htmx:send", "Response Status Error")

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@pytest.fixture(scope="package")
def url(settings: Settings) -> Iterator[str]:
    """A service that is ready."""
    app = create_app(settings)
    with serving(app) as url:
        yield url


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser context of its own for each test."""
    context = chromium.new_context(viewport={"width": 1100, "height": 800})
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, url: str) -> Iterator[Page]:
    """The first page, on which no error may occur and nothing external be requested."""
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
