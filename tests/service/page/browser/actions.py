"""What browser tests do on a page."""

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

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import (
    Page,
    expect,
)

from hasse.service.http.services import services_of

CHROMIUM = shutil.which("chromium")
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("HASSE_REQUIRE_BROWSER"),
        reason="there is no chromium on this machine",
    ),
]

FILE = """(bytes) => {
  const content = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([content], "mine.png", { type: "image/png" }));
  return carried;
}"""


@contextmanager
def serving(app: FastAPI, *, wait: bool = True) -> Iterator[str]:
    """Serve an application on a free port of this machine, and wait until it is ready."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        readiness = services_of(app).readiness
        while wait and readiness.engine is None:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def address(page: Page) -> str:
    """Return the address without the origin."""
    found: str = page.evaluate("location.pathname + location.search")
    return found


def upload(page: Page, content: bytes) -> None:
    """Choose a picture and wait for its answer."""
    with page.expect_response("**/page/picture"):
        page.set_input_files(
            "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": content}
        )
    expect(page.locator("h1")).to_have_text("About this picture")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")


def claim(page: Page, said: str) -> None:
    """Ask whether a caption is true of the picture that is shown, and wait for the verdict."""
    page.get_by_label("Is this true of it?").fill(said)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("h1")).to_contain_text(said)
    expect(page.locator(".view.claim .verdict")).to_have_text(re.compile("show it|Shows it"))


def dispatch(page: Page, kind: str, event: str, content: bytes) -> None:
    """Dispatch an event that carries a picture, as dropping or pasting does."""
    carried = page.evaluate_handle(FILE, base64.b64encode(content).decode())
    key = "clipboardData" if kind == "ClipboardEvent" else "dataTransfer"
    page.evaluate(
        f"""(carried) => document.body.dispatchEvent(new {kind}("{event}", {{
          {key}: carried, bubbles: true, cancelable: true,
        }}))""",
        carried,
    )


def choose_mode(page: Page, mode: str) -> None:
    """Choose how thoroughly to search."""
    if page.locator("#options[open]").count() == 0:
        page.locator("#options > summary").click()
    if page.locator(".advanced[open]").count() == 0:
        page.locator(".advanced > summary").click()
    page.locator(f'#options input[name="mode"][value="{mode}"]').check()


def open_captions(page: Page) -> None:
    """Open the captions of other pictures that are true of the one that is shown."""
    page.locator(".elsewhere > summary").click()
    expect(page.locator(".captions .caption").first).to_be_visible()
