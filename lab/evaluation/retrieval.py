"""Caption and image retrieval as the field measures them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasse.lab.evaluation.ground_truth import caption_owners, has_meanings, known_ground_truth
from hasse.lab.evaluation.ranking import Ranking, RankingMetrics, average_precisions, best_ranks
from hasse.models.datasets import Dataset
from hasse.models.embedding_model import Points
from hasse.models.score import Score, penalties_between

BLOCK_ENTRIES = 1 << 23

Rows = NDArray[np.int64]
Truths = Callable[[Rows, Rows], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Both directions of retrieval over one collection.

    Attributes:
        caption_retrieval: an image is the query for its captions.
        image_retrieval: a caption is the query for its image.
        ground_truth: which captions count as true: "annotation" (the image's own) or "meaning"
            (all that are true, known for scenes).
    """

    images: int
    captions: int
    ground_truth: str
    caption_retrieval: RankingMetrics
    image_retrieval: RankingMetrics

    @property
    def rsum(self) -> float:
        """Add up the six recalls, in percent: 600 is perfect."""
        return sum(
            metrics.r1 + metrics.r5 + metrics.r10
            for metrics in (self.caption_retrieval, self.image_retrieval)
        )

    @property
    def quality(self) -> float:
        """The number by which epochs of a training are compared; higher is better.

        Where the whole ground truth is known, it counts all true items, by their precision.
        """
        if self.ground_truth == "meaning":
            return (
                self.image_retrieval.mean_average_precision
                + self.caption_retrieval.mean_average_precision
            )
        return self.rsum

    @property
    def summary(self) -> str:
        """The text for the progress line of an epoch."""
        return (
            f"R@1 {self.caption_retrieval.r1:.1f} captions by image, "
            f"{self.image_retrieval.r1:.1f} images by caption, rsum {self.rsum:.1f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything measured, as plain values."""
        return asdict(self) | {"rsum": self.rsum}

    @classmethod
    def mean(cls, blocks: Sequence[Evaluation]) -> Evaluation:
        """Average every metric over blocks, medians too, as papers do; counts are added up."""
        return cls(
            sum(block.images for block in blocks),
            sum(block.captions for block in blocks),
            blocks[0].ground_truth,
            RankingMetrics.mean_of([block.caption_retrieval for block in blocks]),
            RankingMetrics.mean_of([block.image_retrieval for block in blocks]),
        )


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Ranks of all queries of one collection; the names are those of `Evaluation`."""

    images: int
    captions: int
    ground_truth: str
    caption_retrieval: Ranking
    image_retrieval: Ranking

    @property
    def evaluation(self) -> Evaluation:
        """Summarise both directions."""
        return Evaluation(
            self.images,
            self.captions,
            self.ground_truth,
            self.caption_retrieval.metrics,
            self.image_retrieval.metrics,
        )


def evaluate(
    dataset: Dataset, images: Points, captions: Points, score: Score, entries: int = BLOCK_ENTRIES
) -> Evaluation:
    """Measure retrieval in both directions over the points of a dataset; see `retrieve`."""
    return retrieve(dataset, images, captions, score, entries).evaluation


def retrieve(
    dataset: Dataset, images: Points, captions: Points, score: Score, entries: int = BLOCK_ENTRIES
) -> Retrieval:
    """Rank all items for every query, in both directions, over the points of a dataset.

    Args:
        dataset: its ground truth decides which captions are true of which images.
        images: (I, N), in the order of `dataset.images`.
        captions: (C, N), in the order of `dataset.captions`.
        score: the model's score.
        entries: maximum number of entries of the penalty matrix in memory.

    Images without captions are items but no queries. Memory does not grow with
    images x captions.
    """
    owners = caption_owners(dataset)
    if len(images) != len(dataset) or len(captions) != len(owners):
        raise ValueError("the points are not those of this dataset")
    by_meaning = has_meanings(dataset)

    def own_pairs(image_rows: Rows, caption_rows: Rows) -> NDArray[np.bool_]:
        return np.equal.outer(image_rows, owners[caption_rows])

    true: Truths = known_ground_truth(dataset).holds if by_meaning else own_pairs
    query_images = np.unique(owners)
    all_images, all_captions = np.arange(len(images)), np.arange(len(captions))

    # The whole matrix, if it is small enough, serves both directions.
    small = len(images) * len(captions) <= entries
    whole = penalties_between(score, images, captions) if small else None

    def penalty(image_rows: Rows, caption_rows: Rows) -> NDArray[np.float32]:
        if whole is not None:
            return whole[np.ix_(image_rows, caption_rows)]
        return penalties_between(score, images[image_rows], captions[caption_rows])

    return Retrieval(
        images=len(images),
        captions=len(captions),
        ground_truth="meaning" if by_meaning else "annotation",
        caption_retrieval=_rank(
            query_images,
            query_images,
            max(1, entries // len(captions)),
            lambda rows: penalty(rows, all_captions),
            lambda rows: true(rows, all_captions),
        ),
        image_retrieval=_rank(
            all_captions,
            owners,
            max(1, entries // len(images)),
            lambda rows: penalty(all_images, rows).T,
            lambda rows: true(all_images, rows).T,
        ),
    )


def _rank(
    queries: Rows,
    owners: Rows,
    step: int,
    penalty: Callable[[Rows], NDArray[np.float32]],
    true: Callable[[Rows], NDArray[np.bool_]],
) -> Ranking:
    ranks, precisions, tied = [], [], 0
    for start in range(0, len(queries), step):
        rows = queries[start : start + step]
        block, block_true = penalty(rows), true(rows)  # (q, collection)
        block_ranks, block_tied = best_ranks(block, block_true)
        ranks.append(block_ranks)
        precisions.append(average_precisions(block, block_true))
        tied += block_tied
    return Ranking(owners, np.concatenate(ranks), np.concatenate(precisions), tied)
