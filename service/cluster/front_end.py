"""Settings, model and index of a front end, whose searches go to shards."""

from __future__ import annotations

from hasse.index.store import Index
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.cluster.index import ClusterIndex, Shards
from hasse.service.core import loading
from hasse.service.settings import Settings

# Batches that are sent to the shards at a time: a worker mostly waits for them.
_SEARCH_WORKERS = 4


def settings_of(settings: Settings) -> Settings:
    """Return the settings of a front end: one process, which merges no segments."""
    workers = max(settings.search_workers, _SEARCH_WORKERS)
    return settings.model_copy(
        update={"processes": 1, "compact_seconds": 0, "search_workers": workers}
    )


def model_and_index(shards: Shards, count: int, settings: Settings) -> tuple[Checkpoint, Index]:
    """Load the checkpoint and open the index on `count` shards.

    Raises:
        CheckpointError: this machine lacks the checkpoint.
        HasseIndexError: the index cannot be used, or a shard does not answer.
    """
    index = ClusterIndex(settings.index, shards, count, partial=settings.partial_answers)
    with loading.close_on_failure(index):
        return loading.ModelLoader(settings).of(index), index
