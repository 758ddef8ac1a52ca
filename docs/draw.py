"""Draws the pictures of the docs from boxes and arrows: `python docs/draw.py` writes them.

SVG by hand needs no program and no script from elsewhere. A test fails while a drawing on disk
differs from what this makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "drawings"
COLUMN, ROW, WIDTH, HEIGHT, MARGIN, LINE = 216, 92, 184, 58, 16, 16
FILLS = {"": "#eef2fb", "disk": "#fdf1dc", "proof": "#e2f4e6", "picture": "#f7e6ee"}


@dataclass(frozen=True, slots=True)
class Box:
    """A box at a place of the grid, with a line of text for each line."""

    column: float
    row: float
    text: str
    kind: str = ""

    @property
    def middle(self) -> tuple[float, float]:
        return MARGIN + self.column * COLUMN + WIDTH / 2, MARGIN + self.row * ROW + HEIGHT / 2

    def border_towards(self, other: Box) -> tuple[float, float]:
        """Return where the straight line to another box leaves this one."""
        (x, y), (x2, y2) = self.middle, other.middle
        ratios = [half / abs(d) for half, d in ((WIDTH / 2, x2 - x), (HEIGHT / 2, y2 - y)) if d]
        part = min(ratios)
        return x + (x2 - x) * part, y + (y2 - y) * part

    def svg(self) -> str:
        """Return the box and its text."""
        x, y = self.middle
        lines = self.text.split("\n")
        first = y - LINE * (len(lines) - 1) / 2 + 4
        texts = "".join(
            f'<text x="{x:g}" y="{first + LINE * at:g}">{escape(line)}</text>'
            for at, line in enumerate(lines)
        )
        return (
            f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}"'
            f' rx="6" fill="{FILLS[self.kind]}" stroke="#56617a"/>{texts}'
        )


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes by name, and arrows between them: "a b" or "a b what it carries"."""

    title: str
    boxes: dict[str, Box]
    arrows: tuple[str, ...]

    def svg(self) -> str:
        """Return the drawing as one file."""
        width = max(box.column for box in self.boxes.values()) * COLUMN + WIDTH + 2 * MARGIN
        height = max(box.row for box in self.boxes.values()) * ROW + HEIGHT + 2 * MARGIN
        inner = [*map(self._arrow, self.arrows), *(box.svg() for box in self.boxes.values())]
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'width="{width:g}" font-family="sans-serif" font-size="12.5" '
                f'text-anchor="middle" role="img">',
                f"<title>{escape(self.title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
                'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#56617a"/></marker>'
                "</defs>",
                f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
                *inner,
                "</svg>\n",
            )
        )

    def _arrow(self, arrow: str) -> str:
        start, end, *label = arrow.split(" ", 2)
        a, b = self.boxes[start], self.boxes[end]
        (x, y), (x2, y2) = a.border_towards(b), b.border_towards(a)
        line = (
            f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#56617a" '
            'marker-end="url(#tip)"/>'
        )
        at = f'x="{(x + x2) / 2:.0f}" y="{(y + y2) / 2 - 5:.0f}"'
        return line + "".join(
            f'<text {at} font-size="11" fill="#56617a">{escape(each)}</text>' for each in label
        )


DRAWINGS = {
    "search": Drawing(
        "From a caption to a proof",
        {
            "caption": Box(0, 0, 'a caption\n"a dog on a beach"'),
            "checked": Box(1, 0, "checked\nkeys, limits, filters"),
            "point": Box(2, 0, "text encoder\none point, N coordinates"),
            "half": Box(3, 0, "half a byte a coordinate\nlower bound of every row"),
            "byte": Box(3, 1, "a byte a coordinate\nof rows not ruled out"),
            "exact": Box(2, 1, "float32\nexact violation of\nsome dozens of rows"),
            "proof": Box(
                1,
                1,
                "k best, certified: no other\nrow's lower bound is\nwithin the k-th violation",
                "proof",
            ),
            "answer": Box(0, 1, "answer\nnames, captions,\nprobabilities"),
            "catalog": Box(0, 2, "catalog\n(SQL)", "disk"),
            "segments": Box(3, 2, "segments\n(mapped files)", "disk"),
        },
        (
            "caption checked",
            "checked point",
            "point half",
            "half byte",
            "byte exact",
            "exact proof",
            "proof answer",
            "catalog answer",
            "segments byte",
        ),
    ),
    "write": Drawing(
        "From a picture to the disk",
        {
            "upload": Box(0, 0, "POST /images"),
            "folder": Box(0, 1, "a followed folder\n(hasse add, sync, serve)"),
            "dataset": Box(0, 2, "a dataset\n(hasse lab index build)"),
            "inspect": Box(1, 1, "inspected, decoded once\nin a process that\ncan be killed"),
            "encode": Box(2, 1, "image encoder\none point"),
            "change": Box(3, 1, "a change: rows, points,\nthumbnails, texts"),
            "segment": Box(3, 0, "1. segment folder\nwritten, then fsync", "disk"),
            "commit": Box(3, 2, "2. one SQL transaction:\nthe next generation", "disk"),
            "seen": Box(2, 2, "answer 201;\nthe next search sees it", "proof"),
        },
        (
            "upload inspect",
            "folder inspect",
            "dataset inspect",
            "inspect encode",
            "encode change",
            "change segment",
            "change commit",
            "commit seen",
        ),
    ),
    "index": Drawing(
        "The folder of an index",
        {
            "folder": Box(0, 1.5, "data/mine-index/"),
            "catalog": Box(
                1, 0, "catalog.db\nimages, captions, texts,\nwhich segments count", "disk"
            ),
            "segments": Box(1, 1, "segments/\nnever changed, checked\nby SHA-256", "disk"),
            "pictures": Box(1, 2, "pictures/\noriginals sent by HTTP", "disk"),
            "rest": Box(1, 3, "previews/, lock, readers\nmade anew when missing"),
            "url": Box(2, 0, "or catalog.url:\na PostgreSQL database"),
            "image": Box(2, 1, "image-25f7.../\npoints, ids, codes,\nmanifest.json", "disk"),
            "caption": Box(2, 2, "caption-1757.../\nthe same of captions", "disk"),
            "yours": Box(2, 3, "your pictures stay\nwhere they are", "picture"),
        },
        (
            "folder catalog",
            "folder segments",
            "folder pictures",
            "folder rest",
            "segments image",
            "segments caption",
        ),
    ),
    "house": Drawing(
        "The house: an arrow means imports",
        {
            "studies": Box(0.5, 0, "studies/\nthe papers, built-in models"),
            "lab": Box(0.5, 1, "lab/ learns\ndatasets, features,\ntraining, evaluation"),
            "api": Box(2.5, 1, "hasse/\nClient, open_index,\nload_model"),
            "service": Box(
                1.5, 2, "service/ answers\nquestions, writing, http,\npage, cli, client, cluster"
            ),
            "index": Box(
                0.5, 3, "index/ remembers\ncatalog, segments, bounds,\nkernels, search, text"
            ),
            "models": Box(
                1.5, 4, "models/ runs\nnetworks, encoders, images,\ngrounding, checkpoints"
            ),
            "scenes": Box(2.5, 3, "scenes/\ndraws pictures whose\ntruth is known"),
        },
        (
            "studies lab",
            "lab service",
            "api service",
            "service index",
            "service models",
            "index models order, score",
            "service scenes",
        ),
    ),
    "order": Drawing(
        "A Hasse diagram: what is true of more stands higher",
        {
            "something": Box(1.5, 0, "something outdoors"),
            "animal": Box(0.5, 0, "an animal"),
            "dog": Box(0, 1, "a dog"),
            "beach": Box(2, 1, "a beach"),
            "both": Box(1, 2, "a dog on a beach"),
            "first": Box(0, 3, "dog asleep at home", "picture"),
            "second": Box(1, 3, "dog runs by the sea", "picture"),
            "third": Box(2, 3, "empty beach", "picture"),
        },
        (
            "dog animal",
            "beach something",
            "both dog",
            "both beach",
            "first dog",
            "second both",
            "third beach",
        ),
    ),
}


def main() -> None:
    """Write all drawings."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawing in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(drawing.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
