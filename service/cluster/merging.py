"""Merge the answers of shards into that of the whole index, by (violation, id)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hasse.index.search.query import Answer, RowCounts, Seconds

_SAME = 100  # other captions of a text that are named at most


def merged(answers: Sequence[Answer], k: int, *, whole: bool = True) -> Answer:
    """Return the k best hits of one query over all shards that answered.

    It is certified where each shard proved its part, and `whole` says that all shards answered.
    """
    ids = np.concatenate([one.ids for one in answers])
    violations = np.concatenate([one.violations for one in answers])
    order = np.lexsort((ids, violations))[:k]
    joint = answers[0].parts is not None
    each = [one.parts for one in answers if one.parts is not None]
    return replace(
        answers[0],
        ids=ids[order],
        violations=violations[order],
        certified=whole and all(one.certified for one in answers),
        searched=sum(one.searched for one in answers),
        rescored=sum(one.rescored for one in answers),
        plan=_plan(answers),
        work=RowCounts(*np.sum([one.work for one in answers], axis=0).tolist()),
        seconds=Seconds(*np.max([one.seconds for one in answers], axis=0).tolist()),
        parts=np.concatenate(each)[order] if joint else None,
        same={hit: others for one in answers for hit, others in one.same.items()},
    )


def distinct(answer: Answer, texts: Mapping[int, str], k: int) -> Answer:
    """Return the k best of an answer with one hit for each text; `same` names the others.

    Each shard answers with one caption for each text of its own. `texts` are by caption id.
    """
    first: dict[str, int] = {}
    same = {hit: list(others) for hit, others in answer.same.items()}
    keep: list[int] = []
    for at, hit in enumerate(answer.ids.tolist()):
        text = texts.get(hit, f"\0{hit}")  # one that was removed since has its own
        known = first.setdefault(text, hit)
        if known == hit:
            keep.append(at)
        else:
            same[known] = sorted({*same.get(known, []), hit, *same.pop(hit, [])})[:_SAME]
    places = keep[:k]
    ids = answer.ids[places]
    return replace(
        answer,
        ids=ids,
        violations=answer.violations[places],
        parts=None if answer.parts is None else answer.parts[places],
        same={hit: same.get(hit, []) for hit in ids.tolist()},
    )


def _plan(answers: Sequence[Answer]) -> str:
    """Return how all segments were searched: each shard says "2 scan, 1 heaviest+bounds"."""
    ways: Counter[str] = Counter()
    for one in answers:
        for part in filter(None, one.plan.split(", ")):
            number, way = part.split(" ", 1)
            ways[way] += int(number)
    return ", ".join(f"{ways[way]} {way}" for way in sorted(ways))
