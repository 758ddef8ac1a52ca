"""The captions that came with files, as the catalog keeps them in `PathRow.captions`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hasse.index.types import PathRow


def texts_of(rows: Sequence[PathRow]) -> list[str]:
    """Return the captions that came with the files of an image, each once."""
    texts = (
        text
        for row in rows
        if row.captions != "{}"
        for texts in json.loads(row.captions).values()
        for text in texts
    )
    return list(dict.fromkeys(texts))


def updated(before: str, read: Mapping[str, Sequence[str]]) -> str:
    """Return captions with those of the sources that were `read` in place of what they were."""
    every = {**json.loads(before), **read}
    return json.dumps({key: every[key] for key in sorted(every) if every[key]}, ensure_ascii=False)


def carried(
    kept: list[PathRow], dropped: Sequence[PathRow], fresh: Sequence[PathRow]
) -> list[PathRow]:
    """Let the captions of tables follow a file that moved; those beside it have moved or not."""
    if not fresh:
        return kept
    to = fresh[0]
    tables: dict[str, list[str]] = {}
    for row in dropped:
        tables |= {key: texts for key, texts in json.loads(row.captions).items() if key}
    if not tables:
        return kept
    captions = updated(json.dumps(tables), json.loads(to.captions))
    return [row._replace(captions=captions) if row is to else row for row in kept]
