"""Keep the figures of each release, and print how they moved.

    python -m benchmarks.search | python -m benchmarks.history --keep 0.3.0
    python -m benchmarks.history

The first keeps the tables that a program prints in benchmarks/history/0.3.0.json, with the machine
that they were measured on. The second prints each figure of all releases, and the share of the last
one in the one before: a loss is seen there. Figures of different machines are no comparison.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from benchmarks.report import parser_of, table

Figures: TypeAlias = dict[str, dict[str, str]]  # by title, and by name

FOLDER = Path(__file__).parent
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_MACHINE = re.compile(r"[^.;]+, \d+ cores, load [\d.]+ at the start, Python [\d.]*\d")
_PROMISED = "promised"  # a column that is no figure


def tables(lines: Iterable[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of a printed text, each with its title and the machine.

    The title is the heading above a table, of which it may be a part, or the first line above it in
    a text without headings. The machine is named once.
    """
    title = on = ""
    has_headings = False
    rows: list[list[str]] = []
    for line in (*map(str.strip, lines), ""):
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        if rows:
            yield f"{title} · {on}", rows
            rows, title = [], title if has_headings else ""
        is_heading = line.startswith("#")
        has_headings |= is_heading
        if is_heading or not title:
            title = line.strip("# ")
        if found := _MACHINE.search(line):
            on = found.group().strip()


def figures(rows: list[list[str]]) -> dict[str, str]:
    """Return the cells of a table by the names of their row and column.

    Columns that are named alike are left out: they compare others.
    """
    (_, *heads), _, *body = rows
    named = [(at, head) for at, head in enumerate(heads, 1) if heads.count(head) == 1]
    named = [(at, head) for at, head in named if head != _PROMISED]
    return {
        f"{row[0]}: {head}" if len(named) > 1 else row[0]: row[at]
        for row in body
        for at, head in named
        if row[at]
    }


def keep(release: str, lines: Iterable[str], folder: Path = FOLDER) -> None:
    """Keep the figures of a printed text, in place of those of the same names and titles."""
    path = folder / f"{release}.json"
    kept: Figures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for above, rows in tables(lines):
        kept[above] = kept.get(above, {}) | figures(rows)
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read(folder: Path = FOLDER) -> dict[str, Figures]:
    """Return the figures of all releases, the first release first."""
    paths = sorted(folder.glob("*.json"), key=lambda path: list(map(int, path.stem.split("."))))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def moved(releases: Mapping[str, Figures]) -> Iterator[tuple[str, str]]:
    """Yield the title of each table, and a table of its figures in all releases."""
    titles = dict.fromkeys(_title(above) for each in releases.values() for above in each)
    for title in titles:
        columns = [_of_title(each, title) for each in releases.values()]
        names = dict.fromkeys(name for column in columns for name in column)
        rows = [
            [name, *(column.get(name, "") for column in columns), _last_share(name, columns)]
            for name in names
        ]
        yield title, table(["", *releases, "last"], rows)


def _title(above: str) -> str:
    return above.partition(" · ")[0]


def _of_title(each: Figures, title: str) -> dict[str, str]:
    return {
        name: figure
        for above, found in each.items()
        if _title(above) == title
        for name, figure in found.items()
    }


def _last_share(name: str, columns: list[dict[str, str]]) -> str:
    """Return the last figure as a share of the one before, of figures that are numbers."""
    known = [found.group() for column in columns if (found := _NUMBER.search(column.get(name, "")))]
    numbers = [float(one.replace(",", "")) for one in known]
    return next((f"x {b / a:.2f}" for a, b in reversed(list(pairwise(numbers))) if a), "")


def main() -> None:
    """Keep what is printed to this program, or print what is kept."""
    parser = parser_of(__doc__)
    parser.add_argument("--keep", metavar="RELEASE")
    given = parser.parse_args()
    if given.keep:
        keep(given.keep, sys.stdin)
        return
    releases = read()
    for title, drawn in moved(releases):
        print(f"\n{title}\n\n{drawn}")


if __name__ == "__main__":
    main()
