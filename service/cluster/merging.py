"""Merges the answers of shards into the answer of the whole index, by (violation, id)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hasse.index.search.query import Answer, RowCounts, Seconds

_MAX_SAME = 100  # captions with the text of a hit that an answer names


def merge_answers(answers: Sequence[Answer], k: int, *, complete: bool = True) -> Answer:
    """Return the k best hits of one query over the answers of shards.

    The result is certified if it is `complete`, with the answers of all shards, and all are.
    """
    ids = np.concatenate([answer.ids for answer in answers])
    violations = np.concatenate([answer.violations for answer in answers])
    order = np.lexsort((ids, violations))[:k]
    parts = [answer.parts for answer in answers if answer.parts is not None]
    return replace(
        answers[0],
        ids=ids[order],
        violations=violations[order],
        certified=complete and all(answer.certified for answer in answers),
        searched=sum(answer.searched for answer in answers),
        rescored=sum(answer.rescored for answer in answers),
        plan=_merge_plans(answers),
        work=RowCounts(*np.sum([answer.work for answer in answers], axis=0).tolist()),
        seconds=Seconds(*np.max([answer.seconds for answer in answers], axis=0).tolist()),
        parts=np.concatenate(parts)[order] if parts else None,
        same={hit: same for answer in answers for hit, same in answer.same.items()},
    )


def merge_texts(answer: Answer, texts: Mapping[int, str], k: int) -> Answer:
    """Return the k best of an answer with one hit for each text; `same` names the other captions.

    Within a shard, texts are distinct already. `texts` are by caption id.
    """
    first: dict[str, int] = {}
    same = {hit: list(others) for hit, others in answer.same.items()}
    rows: list[int] = []
    for at, hit in enumerate(answer.ids.tolist()):
        text = texts.get(hit, f"\0{hit}")  # a caption that was removed since stays a hit
        first_hit = first.setdefault(text, hit)
        if first_hit == hit:
            rows.append(at)
        else:
            others = {*same.get(first_hit, []), hit, *same.pop(hit, [])}
            same[first_hit] = sorted(others)[:_MAX_SAME]
    rows = rows[:k]
    ids = answer.ids[rows]
    return replace(
        answer,
        ids=ids,
        violations=answer.violations[rows],
        parts=None if answer.parts is None else answer.parts[rows],
        same={hit: same.get(hit, []) for hit in ids.tolist()},
    )


def _merge_plans(answers: Sequence[Answer]) -> str:
    """Add the numbers of segments in plans such as "2 scan, 1 heaviest+bounds"."""
    segments: Counter[str] = Counter()
    for answer in answers:
        for part in filter(None, answer.plan.split(", ")):
            number, method = part.split(" ", 1)
            segments[method] += int(number)
    return ", ".join(f"{segments[method]} {method}" for method in sorted(segments))
