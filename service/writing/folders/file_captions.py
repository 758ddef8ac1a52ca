"""The captions of files, as JSON in `PathRow.captions`: from text files and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hasse.index.types import PathRow


def texts_of(rows: Sequence[PathRow]) -> list[str]:
    """Return the captions of the files of an image, each once."""
    texts = (
        text
        for row in rows
        if row.captions != "{}"
        for texts in json.loads(row.captions).values()
        for text in texts
    )
    return list(dict.fromkeys(texts))


def update_captions(captions_before: str, texts: Mapping[str, Sequence[str]]) -> str:
    """Replace the captions of the sources in `texts`; those of other sources stay."""
    captions = {**json.loads(captions_before), **texts}
    nonempty = {source: captions[source] for source in sorted(captions) if captions[source]}
    return json.dumps(nonempty, ensure_ascii=False)


def carry_captions(
    rows: list[PathRow], old_rows: Sequence[PathRow], new_rows: Sequence[PathRow]
) -> list[PathRow]:
    """Give the captions of tables from the former files of an image to its first new file.

    A text file beside a picture is scanned where it lies now, so its captions are not carried.
    """
    if not new_rows:
        return rows
    target = new_rows[0]
    tables: dict[str, list[str]] = {}
    for row in old_rows:
        captions = json.loads(row.captions)
        tables |= {source: texts for source, texts in captions.items() if source}
    if not tables:
        return rows
    captions = update_captions(json.dumps(tables), json.loads(target.captions))
    return [row._replace(captions=captions) if row is target else row for row in rows]
