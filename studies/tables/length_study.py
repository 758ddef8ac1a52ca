"""Do captions of very different detail still find each other? (Vendrov et al., section 4.3)

Length stands for detail. Of all pairs of captions of one image, those with the largest gap in
length are taken, no more than `PAIRS`. Both captions of a pair ask for their image; and the
shorter asks, among all captions, for the longer, which it is to be more general than.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.lab.evaluation.ground_truth import caption_owners
from hasse.lab.evaluation.ranking import best_ranks
from hasse.models.datasets import Dataset
from hasse.models.embedding_model import Points
from hasse.models.score import Score, penalties_between
from hasse.models.vocabulary import words
from hasse.studies.bootstrap import interval

PAIRS = 100
BLOCK_ROWS = 16

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LengthStudy:
    """Results of the study; ranks are 1-based and ties count half.

    Attributes:
        pairs: of captions, the shorter first.
        least_gap: words between the captions of a pair, at least.
        image_rank: mean over both captions of every pair, with its 95 % interval over pairs.
        caption_rank: mean rank of the longer caption when the shorter asks, likewise.
    """

    pairs: int
    least_gap: int
    image_rank: float
    image_rank_interval: tuple[float, float]
    caption_rank: float
    caption_rank_interval: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def length_study(
    dataset: Dataset, images: Points, captions: Points, score: Score, block: int = BLOCK_ROWS
) -> LengthStudy | None:
    """Run the study; None where no image has two captions of different lengths.

    Args:
        dataset: says which captions are whose.
        images: (I, N), in the order of `dataset.images`.
        captions: (C, N), in the order of `dataset.captions`.
        score: how the model compares an image with a caption. A longer caption takes the
            image's place when captions are compared.
        block: queries that are ranked at one time.
    """
    lengths = np.array([len(words(caption.text)) for caption in dataset.captions])
    pairs = largest_gaps(dataset, lengths)
    if not len(pairs):
        return None
    short, long = pairs.T
    owners = caption_owners(dataset)
    of_images = np.stack(
        [_ranks(score, captions[rows], images, owners[rows], block) for rows in (short, long)]
    ).mean(0)  # (pairs,)
    of_captions = _ranks(score, captions[short], captions, long, block, asking=short)
    return LengthStudy(
        len(pairs),
        int((lengths[long] - lengths[short]).min()),
        float(of_images.mean()),
        interval(of_images),
        float(of_captions.mean()),
        interval(of_captions),
    )


def largest_gaps(dataset: Dataset, lengths: Rows, most: int = PAIRS) -> Rows:
    """Return pairs of captions of one image, the shorter first, by falling gap: (pairs, 2)."""
    found: list[tuple[int, int]] = []
    first = 0
    for image in dataset.images:
        for one, other in combinations(range(first, first + len(image.captions)), 2):
            if lengths[one] != lengths[other]:
                found.append((one, other) if lengths[one] < lengths[other] else (other, one))
        first += len(image.captions)
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    gaps = lengths[pairs[:, 1]] - lengths[pairs[:, 0]]
    return pairs[np.argsort(-gaps, kind="stable")[:most]]


def _ranks(
    score: Score,
    queries: Points,
    collection: Points,
    wanted: Rows,
    block_rows: int,
    asking: Rows | None = None,
) -> NDArray[np.float64]:
    """Rank each query's wanted row, leaving out the row that is the query itself: -> (Q,)."""
    ranks = []
    for start in range(0, len(queries), block_rows):
        rows = slice(start, start + block_rows)
        block = penalties_between(score, collection, queries[rows]).T.copy()  # (q, collection)
        if asking is not None:
            block[np.arange(len(block)), asking[rows]] = np.inf
        ranks.append(best_ranks(block, np.arange(len(collection)) == wanted[rows][:, None])[0])
    return np.concatenate(ranks)
