"""The docs as a site: built strictly, no broken link, no page that nothing leads to."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import hasse

ROOT = Path(__file__).parents[2]
# A question, and where it is answered. The page has to be linked from the text of the first page,
# so that two clicks suffice.
ANSWERS = {
    "add HEIC": "collections.html#formats",
    "move an index": "collections.html#folders-and-indexes-that-move",
    "rotate a key": "operating.html#keys-and-quotas",
    "train on my captions": "training.html#step-by-step",
    "why is it exact": "search.html#how-a-certified-search-goes",
}


class Html(HTMLParser):
    """A page: its ids, what it loads, and its links, those of its text apart."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loaded: set[str] = set()
        self.links: set[str] = set()
        self.links_of_text: set[str] = set()
        self._articles = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        self._articles += tag == "article"
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
            if self._articles:
                self.links_of_text.add(given["href"])
        elif tag in {"script", "img", "iframe"} and given.get("src"):
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("rel") in {"stylesheet", "preload", "preconnect"}:
            self.loaded.add(given["href"])

    def handle_endtag(self, tag: str) -> None:
        self._articles -= tag == "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Html]:
    found = {path.name: Html(path) for path in site.glob("*.html") if path.name != "404.html"}
    assert len(found) > 15
    return found


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_a_place_there(site: Path, pages: dict[str, Html]) -> None:
    for name, page in pages.items():
        for link in page.links | page.loaded:
            address = urlsplit(link)
            if address.scheme:
                continue
            target = unquote(address.path) or name
            assert (site / target).exists(), f"{name}: {link}"
            if address.fragment and target in pages:
                assert unquote(address.fragment) in pages[target].ids, f"{name}: {link}"


def test_every_page_is_linked_from_the_text_of_another(pages: dict[str, Html]) -> None:
    for name in pages.keys() - {"index.html"}:
        others = (page.links_of_text for other, page in pages.items() if other != name)
        linked = {link.partition("#")[0] for links in others for link in links}
        assert name in linked, f"no page links to {name}"


def test_site_loads_nothing_from_elsewhere(pages: dict[str, Html]) -> None:
    for name, page in pages.items():
        assert not [each for each in page.loaded if urlsplit(each).netloc], name


def test_api_page_has_every_promised_name_and_method(pages: dict[str, Html]) -> None:
    ids = pages["api.html"].ids
    assert {f"hasse.{name}" for name in hasse.__all__} <= ids
    for owner in ("Client", "AsyncClient", "LocalIndex", "Model"):
        methods = {name for name in dir(getattr(hasse, owner)) if not name.startswith("_")}
        assert {f"hasse.{owner}.{name}" for name in methods} <= ids


@pytest.mark.parametrize("question", ANSWERS)
def test_question_is_answered_two_clicks_from_the_first_page(
    question: str, pages: dict[str, Html]
) -> None:
    name, _, place = ANSWERS[question].partition("#")
    assert name in {link.partition("#")[0] for link in pages["index.html"].links_of_text}
    assert place in pages[name].ids


def test_drawings_are_those_that_the_program_makes() -> None:
    found = importlib.util.spec_from_file_location("draw", ROOT / "docs" / "draw.py")
    assert found is not None
    assert found.loader is not None
    draw = importlib.util.module_from_spec(found)
    sys.modules[found.name] = draw  # its dataclasses look themselves up there
    found.loader.exec_module(draw)
    for name, drawing in draw.DRAWINGS.items():
        assert (draw.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == drawing.svg(), name
