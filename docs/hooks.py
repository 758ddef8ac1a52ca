"""Hooks of mkdocs: the pages of the site that lie outside docs/, and links to and from them.

The same Markdown is read in the repository and on the site: its links are those of files, and are
turned here. A link to a file that is no page stays as text, since the site has no repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Files of the repository that are pages, and their names in the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "models/pretrained/photographs/README.md": "photographs.md",
}
API = "api.md"  # its tables name what the site documents
_ROW = re.compile(r"\| `(\w+)` \|")
_SOURCES = {name: path for path, name in PAGES.items()}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/."""
    for path, name in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    name = page.file.src_uri
    source = _SOURCES.get(name, f"docs/{name}")

    def turned(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups(default="")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        uri = PAGES.get(path) or path.removeprefix("docs/")
        if files.get_file_from_path(uri) is None and (ROOT / path).exists():
            return text
        return f"{image}[{text}]({uri}{anchor})"

    markdown = _LINK.sub(turned, markdown)
    return _with_references(markdown) if name == API else markdown


def _with_references(markdown: str) -> str:
    """Put what docstrings say of each name in a table of the API below the table."""
    lines = []
    names: list[str] = []
    for line in [*markdown.splitlines(), ""]:
        if row := _ROW.match(line):
            names.append(row[1])
        elif names:
            lines += [line, *(f"::: hasse.{name}\n" for name in names)]
            names = []
        lines.append(line)
    return "\n".join(lines)
