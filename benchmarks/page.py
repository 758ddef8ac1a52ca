"""What the page costs a browser and a disk, over photographs.

    python -m benchmarks.page PHOTOGRAPHS [--pictures 10000] [--searches 60]

serves `--pictures` rows over a folder of photographs, by the built-in model and random points, and
opens them in Chromium: first paint, layout shift and blocked time of three views; a search scrolled
to its last hit, with the memory of the tab and the time of a frame; searches beside a maker of
previews, and the disk that a preview takes; and every photograph at full screen.
"""

from __future__ import annotations

import gzip
import statistics
import time
from argparse import Namespace
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import httpx
import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.reliability.served import served
from benchmarks.report import Line, finish, machine, megabytes, milliseconds, parser_of
from hasse.index.store import Index
from hasse.index.types import ImageRow
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.images.decoding import picture_size
from hasse.models.images.formats import PICTURE_SUFFIXES
from hasse.service.core.previews import FOLDER
from hasse.service.page.static_files import FOLDER as STATIC
from hasse.service.runtime.previewing import maintain_previews
from hasse.service.settings import Settings
from hasse.service.writing.indexing import identity_of

_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_SCREEN = 3840, 2160
_PATIENCE = 600_000  # milliseconds; the first look at a view makes thumbnails and previews
_QUERY = "a dog on a beach"

# What Lighthouse scores: paints, shifts, and tasks over 50 ms after the first paint.
_WATCH = """
window.seen = { shift: 0, blocked: 0, largest: 0, first: 0, frames: [] };
const watch = (type, take) => new PerformanceObserver((list) => list.getEntries().forEach(take))
  .observe({ type, buffered: true });
watch("layout-shift", (one) => { if (!one.hadRecentInput) seen.shift += one.value; });
watch("longtask", (one) => { seen.blocked += Math.max(0, one.duration - 50); });
watch("largest-contentful-paint", (one) => { seen.largest = one.startTime; });
watch("paint", (one) => { seen.first = one.startTime; });
"""
# The nearest that may not be it are behind a click.
_DOWN = """() => {
  document.querySelector("details.nearest:not([open])")?.setAttribute("open", "");
  scrollTo(0, document.documentElement.scrollHeight);
}"""
_FRAMES = """async () => {
  const times = [];
  let last = performance.now();
  const step = (now) => { times.push(now - last); last = now; requestAnimationFrame(step); };
  requestAnimationFrame(step);
  window.frames_ = times;
}"""


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--searches", type=int, default=60)
    given = parser.parse_args()
    at, lines = machine(), _scripts()
    with TemporaryDirectory() as place:
        library = Path(place, "library")
        photographs = _make(library, given)
        with served(library, follow="false") as service:
            url = f"http://{service.host}:{service.port}"
            lines += _in_browser(url, given.pictures, photographs)
            lines += _previews(library, url, given.searches)
    finish(f"{given.pictures:,} pictures of {len(photographs)} photographs", lines, at)


def _make(library: Path, given: Namespace) -> list[Path]:
    """Make an index whose rows show the photographs in turn; return the photographs."""
    found = sorted(given.photographs.resolve().rglob("*"))
    photographs = [path for path in found if path.suffix.lower() in PICTURE_SUFFIXES]
    sizes = [picture_size(path) for path in photographs]
    model = checkpoint.load(named_models.PRETRAINED / "photographs")
    rows = []
    for at in range(given.pictures):
        path = photographs[at % len(photographs)]
        rows.append(ImageRow(at, path.name, str(path), *sizes[at % len(photographs)]))
    points = np.random.default_rng(0).random((given.pictures, model.model.config.dimension))
    with Index.create(library, identity_of(model)) as index:
        index.add(rows, points.astype(np.float32))
    return photographs


def _scripts() -> list[Line]:
    sizes = [
        len(gzip.compress(path.read_bytes())) for path in STATIC.glob("*.js") if path.stem != "docs"
    ]
    total = sum(sizes)
    return [
        Line("scripts, compressed", f"{total / 1e3:.1f} kB", "under 60 kB", kept=total < 60_000)
    ]


def _in_browser(url: str, pictures: int, photographs: Sequence[Path]) -> list[Line]:
    lines = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=_FLAGS)
        for name, path in (("home", "/"), ("results", f"/?q={_QUERY}"), ("picture", "/?image=1")):
            context = browser.new_context(viewport={"width": 1350, "height": 940})
            context.set_default_timeout(_PATIENCE)
            page = context.new_page()
            page.add_init_script(_WATCH)
            page.goto(url + path)  # once, so that thumbnails are there
            page.wait_for_load_state("networkidle")
            page.reload()
            page.wait_for_load_state("networkidle")
            lines.append(_paints(page, name))
            context.close()
        context = browser.new_context(viewport={"width": 1350, "height": 940})
        context.set_default_timeout(_PATIENCE)
        page = context.new_page()
        page.goto(url)
        lines.append(_first_results(page))
        lines += _scrolled(page, pictures)
        context.close()
        width, height = _SCREEN
        context = browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(_PATIENCE)
        lines.append(_full_screen(context.new_page(), url, photographs))
        browser.close()
    return lines


def _paints(page: Page, name: str) -> Line:
    seen = page.evaluate("seen")
    return Line(
        f"{name}: first paint, largest, shift, blocked",
        f"{seen['first']:.0f} ms, {seen['largest']:.0f} ms, {seen['shift']:.3f}, "
        f"{seen['blocked']:.0f} ms",
        "shift 0",
        kept=seen["shift"] < 0.01,
    )


def _first_results(page: Page) -> Line:
    """Time from the last key to the first hit on the screen, of several searches."""
    took = []
    for text in ("a dog", "a boat", "two children", "a red car", "snow", "a bird", "a bus"):
        page.evaluate("document.querySelector('#answer .card')?.remove()")
        page.fill("#q", text)
        started = time.perf_counter()
        page.keyboard.press("Enter")
        page.wait_for_function(
            "(text) => document.querySelector('.view.results')?.dataset.query === text", arg=text
        )
        took.append(time.perf_counter() - started)
    middle = statistics.median(took)
    return Line("from Enter to results, median", milliseconds(middle), "300 ms", kept=middle < 0.3)


def _scrolled(page: Page, pictures: int) -> list[Line]:
    """Scroll to the last hit; return what the tab holds then, and how long its frames take."""
    before = _held(page)
    reached = min(pictures, 10_000)
    started = time.perf_counter()
    while page.locator(".card").count() < reached:
        page.evaluate(_DOWN)
        page.wait_for_timeout(50)
    took = time.perf_counter() - started
    after = _held(page)
    page.evaluate(_FRAMES)
    for _ in range(100):
        page.mouse.wheel(0, -900)
        page.wait_for_timeout(16)
    frames = page.evaluate("frames_")
    return [
        Line(f"scrolled to hit {reached:,}", f"{took:.0f} s"),
        Line("script memory, nodes: before", f"{megabytes(before[0])}, {before[1]:,.0f}"),
        Line("script memory, nodes: at the end", f"{megabytes(after[0])}, {after[1]:,.0f}"),
        Line(
            "frame at the end, median and 95 %",
            f"{statistics.median(frames):.0f} ms, {sorted(frames)[int(0.95 * len(frames))]:.0f} ms",
        ),
    ]


def _held(page: Page) -> tuple[float, float]:
    """Return the bytes that scripts hold, after what is garbage went, and the number of nodes."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {
        one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
    }
    return metrics["JSHeapUsedSize"], metrics["Nodes"]


def _full_screen(page: Page, url: str, photographs: Sequence[Path]) -> Line:
    """Look at each photograph at 3840 x 2160: it is as sharp as the screen or the file."""
    blurred = []
    for at, path in enumerate(photographs):
        page.goto(f"{url}/images/{at}/preview/large")
        found = page.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]")
        width, height = picture_size(path)
        fits = min(1.0, _SCREEN[0] / width, _SCREEN[1] / height)
        if found[0] < int(fits * width) or found[1] < int(fits * height):
            blurred.append(path.name)
    return Line(
        f"sharp at {_SCREEN[0]} x {_SCREEN[1]}",
        f"{len(photographs) - len(blurred)} of {len(photographs)} {' '.join(blurred)}",
        "all",
        kept=not blurred,
    )


def _previews(library: Path, url: str, searches: int) -> list[Line]:
    """Search while no previews are made and while they are; count what they take."""
    alone = _searched(url, searches)
    maker = get_context("spawn").Process(target=_make_previews, args=(library,))
    started = time.perf_counter()
    maker.start()
    while not (library / FOLDER).exists():
        time.sleep(0.1)
    beside = _searched(url, searches)
    maker.terminate()
    maker.join()
    took = time.perf_counter() - started
    files = [path.stat().st_size for path in (library / FOLDER).rglob("*.webp")]
    return [
        Line("a search alone, median", milliseconds(alone)),
        Line(
            "a search while previews are made",
            f"{milliseconds(beside)} ({100 * (beside / alone - 1):+.0f} %)",
            "+10 %",
            kept=beside < 1.1 * alone,
        ),
        Line("previews", f"{len(files)} in {took:.0f} s, {np.mean(files) / 1e3:.0f} kB each"),
    ]


def _make_previews(library: Path) -> None:
    with Index.open(library) as index:
        maintain_previews(index, Settings(library=library, preview_cache_bytes=10**12))


def _searched(url: str, searches: int) -> float:
    took = []
    with httpx.Client(base_url=url) as client:
        for at in range(searches):
            started = time.perf_counter()
            client.post("/search/images", json={"caption": f"{_QUERY} {at}"}).raise_for_status()
            took.append(time.perf_counter() - started)
            time.sleep(0.02)
    return statistics.median(took)


if __name__ == "__main__":
    main()
