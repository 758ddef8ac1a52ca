"""The page as a person with photographs meets it: 40 steps, with the time and clicks of each.

`pytest -s` prints them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from hasse.index.store import Index
from hasse.models.checkpoints import checkpoint
from hasse.service.app import create_app
from hasse.service.settings import Settings
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from hasse.service.writing.indexing import identity_of
from tests.service.page.browser.actions import NEEDS_BROWSER, serving
from tests.tiny import tiny_checkpoint

pytestmark = NEEDS_BROWSER

PICTURES = 60
PLACES = {"Berlin": (52.0, 30.0, 13.0, 20.0), "Lisbon": (38.0, 42.0, 9.0, 8.0)}
SAID = ("a dog in the park", "a red cat", "a child runs", "")


def photograph(path: Path, at: int) -> None:
    """Write a picture with a date, a camera and a place, and a caption beside most."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(at).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0110] = f"Camera {at % 3}"
    exif.get_ifd(0x8769)[0x9003] = f"20{20 + at % 4}:0{1 + at % 9}:15 12:00:00"
    north, minutes, east, east_minutes = PLACES["Berlin" if at % 2 else "Lisbon"]
    place = {1: "N", 2: (north, minutes, 0.0), 3: "E" if at % 2 else "W"}
    exif.get_ifd(0x8825).update(place | {4: (east, east_minutes, 0.0)})
    Image.fromarray(colours).resize((300, 200)).save(path, exif=exif)
    if text := SAID[at % len(SAID)]:
        path.with_suffix(".txt").write_text(f"{text}\n")
    os.utime(path, (1, 1))  # a file that is still being written looks younger


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A service over a library of photographs in folders, which takes writes."""
    loaded = checkpoint.load(tiny_checkpoint(tmp_path / "model"))
    for at in range(PICTURES):
        photograph(tmp_path / "Pictures" / f"20{20 + at % 4}" / f"IMG_{at}.jpg", at)
    folder = tmp_path / "index"
    with Index.create(folder, identity_of(loaded), threads=1) as index:
        sync = FolderSync(index, scan([tmp_path / "Pictures"]), remove=False)
        assert sync.apply(Encoders(lambda: loaded, ImageSource)).added == PICTURES
    settings = Settings(library=folder, model=tmp_path / "model", device="cpu")
    app = create_app(settings.model_copy(update={"open_writes": True}))
    with serving(app) as found:
        yield found


class Person:
    """Somebody at the page: counts the clicks and keystrokes of each step, and its time."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.rows: list[tuple[float, int, int, str]] = []
        self._started = time.perf_counter()
        self._clicks = self._keys = 0

    def click(self, target: Locator | str, *keys: str) -> None:
        """Click on something, or on a button or link by its name."""
        if isinstance(target, str):
            name = re.compile(rf"^{re.escape(target)}")
            button = self.page.get_by_role("button", name=name)
            target = button.or_(self.page.get_by_role("link", name=name)).first
        target.click(modifiers=list(keys))  # type: ignore[arg-type]
        self._clicks += 1

    def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            self.page.keyboard.press(key)
        self._keys += len(keys)

    def type(self, label: str, text: str) -> None:
        """Type into a field, in the place of what is there."""
        self.page.get_by_label(label, exact=True).first.fill(text)
        self._keys += len(text)

    def sees(self, selector: str, text: str | re.Pattern[str] = "") -> None:
        """Wait until something that is visible says a text."""
        found = self.page.locator(selector).filter(visible=True)
        if text:
            found = found.filter(has_text=text)
        expect(found.first).to_be_visible()

    def done(self, what: str) -> None:
        """End a step."""
        now = time.perf_counter()
        self.rows.append((now - self._started, self._clicks, self._keys, what))
        self._started, self._clicks, self._keys = now, 0, 0


@pytest.mark.slow
def test_trial_of_40_steps_ends_each_step_as_a_person_expects(chromium: Browser, url: str) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    person = Person(page)
    _look_around(person, url)
    _look_at_pictures(person)
    _narrow(person)
    _say_something(person)
    _do_something(person)
    assert faults == []
    assert len(person.rows) == 40
    for seconds, clicks, keys, what in person.rows:
        sys.stdout.write(f"{seconds:6.2f} s  {clicks} clicks  {keys:2} keys  {what}\n")
    sys.stdout.write(f"{sum(row[0] for row in person.rows):6.2f} s in all\n")
    context.close()


def _look_around(person: Person, url: str) -> None:
    page = person.page
    page.goto(url)
    person.sees(".card .shot img")
    person.done("open the first page: pictures and things to try")
    person.press("?")
    person.sees("#keys", "the next picture")
    person.press("Escape")
    person.done("look at the keys, and close them")
    person.press("/")
    person.type("Words to find pictures by", "a dog")
    person.sees("h1", "a dog")
    person.done("type 'a dog': results follow")
    with page.expect_response(re.compile("zep")):
        person.type("Words to find pictures by", "a dog zep")
    person.sees("h1", re.compile("a dog”?$"))
    person.sees(".card")
    person.done("go on typing: an unfinished word changes nothing")
    person.type("Words to find pictures by", "a doog in the park")
    person.press("Enter")
    person.sees(".notice", "Did you mean")
    person.done("misspell a word: it is asked what was meant")
    person.click(page.locator(".notice a"))
    person.sees("h1", "a dog in the park")
    person.done("take what was meant")
    person.sees(".says, .card .caption", "a dog in the park")
    person.done("read why the first hit is there")


def _look_at_pictures(person: Person) -> None:
    page, viewer = person.page, person.page.locator("#viewer")
    person.click(page.locator(".card .shot").first)
    person.sees("#viewer .at", "1 of")
    person.done("click on a hit: it fills the screen")
    person.press("ArrowRight", "ArrowRight")
    person.sees("#viewer .at", "3 of")
    person.done("go on by arrow keys")
    person.press("z")
    expect(viewer).to_have_class("zoomed")
    person.press("z")
    person.done("zoom in and out")
    person.press("i")
    for words in ("Taken", "Camera", "Place", "Folder", "Size"):
        person.sees("#viewer dt", words)
    person.done("see date, camera, place, folder and size")
    person.click(page.locator("#viewer .path"))
    expect(page.locator("#viewer .path.copied")).to_be_visible()
    person.done("copy its path")
    person.press("Escape")
    expect(viewer).to_be_hidden()
    expect(page.locator(".card .shot").nth(2)).to_be_focused()
    person.done("close it: back at the same place")
    while page.locator(".card").count() < PICTURES:
        page.mouse.wheel(0, 3000)
        page.wait_for_timeout(30)
    person.done("scroll: all 60 pictures come by themselves")


def _narrow(person: Person) -> None:
    page = person.page
    cards = page.locator("#hits .card")

    def open_options() -> None:
        person.click(page.locator("#options > summary"))
        person.sees("#narrow h2", "Folders")

    open_options()
    person.click(page.locator("#narrow .tree").get_by_role("link", name="2021"))
    person.sees(".unfilter", "in 2021/")
    expect(cards).to_have_count(15)
    person.done("narrow to a folder by the tree")
    open_options()
    month = page.locator("#narrow .calendar").get_by_role("link", name="March 2021")
    person.click(month.and_(page.locator("[href*=path_prefix]")))  # of this folder
    person.sees(".unfilter", "taken in")
    person.done("narrow to a month")
    person.click(page.locator(".unfilter", has_text="taken in"))
    expect(cards).to_have_count(15)
    person.done("take the month off by its chip")
    person.click(page.locator(".unfilter"))
    expect(page.locator(".unfilter")).to_have_count(0)
    person.done("take the folder off")
    open_options()
    person.click(page.locator("#narrow section", has_text="Places").locator(".facet").first)
    person.sees(".unfilter", "near")
    expect(cards).to_have_count(PICTURES // 2)
    person.done("narrow to a place")
    open_options()
    person.click(page.locator("#narrow").get_by_role("link", name="Camera 1"))
    person.sees(".unfilter", "by Camera 1")
    expect(cards).to_have_count(PICTURES // 6)
    person.done("narrow to a camera, too")
    page.go_back()
    expect(page.locator(".unfilter")).to_have_count(1)
    person.done("go back: the camera is off again")
    open_options()
    person.click(page.locator("#narrow").get_by_role("link", name=re.compile("^without ")))
    person.sees(".unfilter", "without captions of people")
    person.done("narrow to pictures without captions")
    person.click(page.get_by_role("link", name="Hasse, first page"))
    person.sees("h1", "Find pictures")
    person.done("back to the first page")
    person.click(page.locator(".chips.quiet a", has_text="2022").first)
    person.sees("h1", "15 pictures")
    person.done("look through a folder without a search")


def _say_something(person: Person) -> None:
    page = person.page
    person.click(page.locator(".card .shot").nth(1))
    person.press("i")
    person.click("What is true of it")  # beside the picture
    person.sees("h1", "About this picture")
    person.done("open the page of a picture")
    person.type("A caption or a keyword of it", "our dog Rex")
    person.click("Add caption")
    person.sees(".own a", "our dog Rex")
    person.done("add a caption")
    person.type("A caption or a keyword of it", "holidays")
    person.click("Add keyword")
    person.sees(".keywords a", "holidays")
    person.done("add a keyword")
    person.click(page.locator(".keywords a", has_text="holidays"))
    person.sees(".says", "as a keyword")
    person.done("find it by the keyword")
    page.go_back()
    person.click("Take away “holidays”")
    expect(page.locator(".keywords")).to_have_count(0)
    person.done("take the keyword away")
    person.type("Is this true of it?", "a dog")
    person.click("Ask")
    person.sees(".verdict", re.compile("show it|Shows it|hard to say", re.I))
    person.done("ask whether something is true of it")
    person.click("What is true of this picture")
    person.click("Pictures that show more")
    person.sees("h1", "Pictures that show more")
    person.done("see pictures that show more")
    person.click("About it")
    person.type("with", "a cat")
    person.type("without", "a dog")
    person.click("Find")
    person.sees("#result h1", "a cat")
    person.done("search like it, with a cat and without a dog")


def _do_something(person: Person) -> None:
    page, count = person.page, person.page.locator("#selection .count")
    shots = page.locator(".card .shot")
    person.click("Choose")
    person.click(shots.first)
    person.click(shots.nth(2), "Shift")
    expect(count).to_have_text("3 chosen")
    person.done("choose three pictures by a click with Shift")
    person.click("Copy paths")
    expect(count).to_have_text("3 paths copied")
    person.done("copy their paths")
    with page.expect_download() as download:
        person.click("Download")
    with ZipFile(download.value.path()) as archive:
        assert len(archive.namelist()) == 3
    person.done("download them")
    person.click("Caption or keyword")
    person.type("A caption or a keyword of all chosen pictures", "a day at the lake")
    person.click(page.locator("#say").get_by_role("button", name="Add caption"))
    expect(count).to_have_text("Added to 3")
    person.done("give all three a caption")
    person.click("More like these")
    expect(page.locator(".weight")).to_have_count(4)
    person.done("search for more like these")
    person.click("Choose")
    person.click(shots.first)
    person.click("Less like these")
    person.sees(".weight", "less like it")
    person.done("and less like another one")
    person.click("Choose")
    person.click(shots.first)
    person.click(page.locator("#selection").get_by_role("button", name="Remove"))
    person.sees("#undo", "1 removed")
    person.done("remove one from the library")
    picture = page.locator(".card .shot img:visible").first.screenshot()
    with page.expect_response("**/page/picture"):
        page.set_input_files(
            "#picture", {"name": "a.png", "mimeType": "image/png", "buffer": picture}
        )
    person.sees("h1", "About this picture")
    person.done("search by a picture of one's own")
