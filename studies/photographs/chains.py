"""Chains: texts from general to specific, all true of one picture, and their file.

A file has a JSON object a line:

    {"image_id": 1, "chain": ["bird", "blue bird", "blue bird on a branch"], "implied": ["animal"]}

`implied` may name words that hold of the picture beside those of the chain. A CSV of HierarCaps
(Alper and Averbuch-Elor, 2024) is read too: a column `captions` or `chain` has the texts as
"a => b => c". The picture is that of a column `image_id`, or of the number that the file name in
a column `image_url` ends with (`COCO_val2014_000000000042.jpg`), or else of `id`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hasse.models.datasets.dataset import DatasetError
from hasse.models.datasets.source import read_text
from hasse.models.files import write_atomically

_ARROW = "=>"
_NUMBER = re.compile(r"(\d+)\.\w+$")


@dataclass(frozen=True, slots=True)
class Chain:
    """Texts true of an image, the most general first; see the module's docstring."""

    image_id: int
    texts: tuple[str, ...]
    implied: tuple[str, ...] = ()


def read_chains(path: Path) -> list[Chain]:
    """Read a file of chains.

    Raises:
        DatasetError: there is no such file, or a row is no chain; its line is named.
    """
    if not path.is_file():
        raise DatasetError(
            f"there is no file of chains {path}: 'hasse study photographs abstract' writes one"
        )
    lines = read_text(path, DatasetError).splitlines()
    rows: Iterable[Any]
    if path.suffix.lower() == ".csv":
        rows = csv.DictReader(lines)
    else:
        rows = (line for line in lines if line.strip())
    chains: list[Chain] = []
    for number, row in enumerate(rows, start=1):
        try:
            chains.append(_from_json(json.loads(row)) if isinstance(row, str) else _from_csv(row))
        except (ValueError, KeyError, TypeError) as error:
            reason = f"there is no {error.args[0]}" if isinstance(error, KeyError) else error
            raise DatasetError(
                f"{path}, row {number} is no chain ({reason}): it needs image_id and at least two "
                f"texts, such as {{"
                f'"image_id": 1, "chain": ["bird", "blue bird"]}}'
            ) from None
    if not chains:
        raise DatasetError(f"{path} holds no chain")
    return chains


def write_chains(path: Path, chains: Iterable[Chain]) -> None:
    """Write a file that `read_chains` reads."""
    rows = (
        {"image_id": chain.image_id, "chain": chain.texts, "implied": chain.implied}
        for chain in chains
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def _from_json(row: Mapping[str, Any]) -> Chain:
    return _chain(row["image_id"], row["chain"], row.get("implied", ()))


def _from_csv(row: Mapping[str, str]) -> Chain:
    texts = row.get("captions") or row["chain"]
    in_url = _NUMBER.search(row.get("image_url") or "")
    image_id = row.get("image_id") or (row["id"] if in_url is None else in_url[1])
    return _chain(image_id, texts.split(_ARROW), ())


def _chain(image_id: Any, texts: Iterable[Any], implied: Iterable[Any]) -> Chain:
    read = tuple(str(text).strip() for text in texts)
    if len(read) < 2 or not all(read):
        raise ValueError("it has fewer than two texts, or an empty one")
    return Chain(int(image_id), read, tuple(str(word) for word in implied))
