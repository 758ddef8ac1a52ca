"""The engine: a model and an index, with the queues and threads that answer questions."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeVar

from hasse.index.catalog.ordering import counts_by_day
from hasse.index.catalog.text_search import CountCache
from hasse.index.errors import CatalogUnreachableError
from hasse.index.info import IndexInfo
from hasse.index.search.query import Query
from hasse.index.segments.file_checks import FileChecks
from hasse.index.segments.upkeep import Upkeep
from hasse.index.store import Index
from hasse.index.types import Kind, Points
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.core import loading
from hasse.service.core.admission import Admission
from hasse.service.core.caption_order import CaptionOrder
from hasse.service.core.encoding import EncodingQueue
from hasse.service.core.searching import SearchKey, SearchQueue, ShownPaths
from hasse.service.errors import UNREADABLE, ServiceError, unreachable, writing_catalog
from hasse.service.settings import Settings
from hasse.service.telemetry.logs import event
from hasse.service.telemetry.stages import Stages

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from hasse.models.captioning.phrases import PhraseWriter
    from hasse.service.core.pictures import PictureReader
    from hasse.service.core.write_queue import WriteQueue
    from hasse.service.telemetry.metrics import Metrics

Result = TypeVar("Result")
_SWEEP_SECONDS = 5.0


class Engine:
    """The parts that questions and writes use.

    Its coroutines belong to one event loop; its work runs in threads.

    Attributes:
        checkpoint, index, settings: its parts.
        judge: judges texts by pictures; None without a calibration.
        vocabulary: the words that the model knows.
        admission, pictures, encoder, searcher, writing: its queues.
        paths: the paths of files in answers.
        upkeep: merges segments in the background.
        text_counts: number of images for each word of earlier searches.
        count_days: returns the number of images that a query selects in a generation, by day.
        checks: compares large segments with their checksums in the background.
        stage_seconds: histograms of the stages of answers; empty without metrics.
        probe_seconds: maximum time of a probe for readiness.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        index: Index,
        settings: Settings,
        metrics: Metrics | None = None,
        admission: Admission | None = None,
        on_death: Callable[[], None] = lambda: None,
        *,
        absolute_paths: bool = False,
    ) -> None:
        batch_size = None if metrics is None else metrics.batch_size
        admission = admission or Admission.of(settings)
        self.checkpoint = checkpoint
        self.judge = checkpoint.judge("image")
        self.vocabulary = checkpoint.vocabulary
        self.index = index
        self.settings = settings
        self.probe_seconds = 5.0
        self.admission = admission
        self.paths = ShownPaths(index, absolute_paths)
        self._batch_size: Histogram | None = batch_size
        self._on_death = on_death
        self.encoder = EncodingQueue(
            checkpoint.model, settings, batch_size=batch_size, on_death=on_death
        )
        self.searcher = SearchQueue(
            index,
            settings,
            caption_order=CaptionOrder(checkpoint),
            admission=admission,
            batch_size=batch_size,
            on_death=on_death,
        )
        self.stage_seconds = {} if metrics is None else metrics.stage_seconds
        self.text_counts = CountCache()
        self.count_days = lru_cache(maxsize=16)(self._count_days)  # each page of a list asks
        self._info = index.info()
        self._swept = (0, 0.0)  # the generation, and when its previews were swept
        self._catalog_pool = ThreadPoolExecutor(2, thread_name_prefix="catalog")
        self.upkeep = Upkeep(
            lambda progress: index.compact(progress=progress),
            index.release_memory,
            settings.compact_seconds,
            on_compaction=lambda done: event("compacted", **asdict(done)),
            on_error=lambda error: event("compaction failed", logging.ERROR, error=str(error)),
        )
        self.checks = FileChecks(
            lambda: index.snapshot,
            index.check_counts,
            lambda size, took: event("checksums compared", bytes=size, seconds=round(took, 1)),
        )
        if metrics is not None:
            self._watch(metrics)

    @classmethod
    def open(
        cls,
        settings: Settings,
        metrics: Metrics | None = None,
        admission: Admission | None = None,
        on_death: Callable[[], None] = lambda: None,
        *,
        absolute_paths: bool = False,
        load: loading.Load = loading.model_and_index,
    ) -> Engine:
        """Load the checkpoint, open its index, and encode once to warm up.

        With `absolute_paths`, for clients on this machine, answers show absolute paths and
        `path_prefix` names them. `load` loads the model and the index.

        Raises:
            models.checkpoints.model_folder.CheckpointError: the checkpoint is not usable.
            index.errors.HasseIndexError: the index is not usable, or belongs to another model.
            service.runtime.device.DeviceError: this machine has no such device.
        """
        loaded, index = load(settings)
        with loading.close_on_failure(index):
            captioner = loading.prepare(loaded, index)
        engine = cls(
            loaded, index, settings, metrics, admission, on_death, absolute_paths=absolute_paths
        )
        engine.captioner = captioner
        return engine

    @classmethod
    def for_one_question(
        cls, settings: Settings, *, with_pictures: bool, one_off: bool = True
    ) -> Engine:
        """Open without warming up, and without the image encoder unless `with_pictures`.

        Its paths are absolute. `one_off` is false for a question that encodes many captions. Raises
        as `open`.
        """
        loader = loading.ModelLoader(settings, with_pictures, one_off)
        loaded, index = loader.with_index()
        return cls(loaded, index, settings, absolute_paths=True)

    @cached_property
    def pictures(self) -> PictureReader:
        """The reader of pictures, created on first use: a search by words needs none."""
        from hasse.service.core.pictures import PictureReader
        from hasse.service.core.previews import FOLDER, PreviewCache

        settings, folder = self.settings, self.index.folder / FOLDER
        previews = PreviewCache(folder, settings.preview_cache_bytes)
        return PictureReader(settings, self.checkpoint.model.preprocessing, previews)

    @cached_property
    def writing(self) -> WriteQueue:
        """The queue of writes, created on first use."""
        from hasse.service.core.write_queue import WriteQueue

        return WriteQueue(
            self.index,
            self.encoder,
            self.pictures,
            self.settings,
            self.paths,
            on_change=self._after_write,
            batch_size=self._batch_size,
            on_death=self._on_death,
        )

    @cached_property
    def captioner(self) -> PhraseWriter | None:
        """The captioner with its encoder, if there is one; raises CheckpointError."""
        return loading.load_captioner(self.checkpoint)

    @property
    def info(self) -> IndexInfo:
        """The counts of the index, as of its last refresh."""
        return self._info

    def recalibrate(self, checkpoint: Checkpoint) -> None:
        """Use another calibration of the same model from now on."""
        self.checkpoint, self.judge = checkpoint, checkpoint.judge("image")
        self.searcher.caption_order = CaptionOrder(checkpoint)

    async def keep_fresh(self) -> None:
        """Load new generations of other processes until cancelled; start merges and checks.

        Raises:
            DamagedIndexError: a file no longer has its checksum.
        """
        self.upkeep.start()
        self.checks.start()
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            if self.checks.damage is not None:
                raise self.checks.damage
            try:
                await self._in_thread(self._refresh)
                await self._sweep_previews()
            except Exception as error:
                event("refresh failed", logging.ERROR, error=str(error))

    def _refresh(self) -> None:
        self.index.refresh()
        self._update_info()

    async def _sweep_previews(self) -> None:
        """Delete previews of pictures that are gone, at most every few seconds."""
        generation, now = self.index.generation, time.monotonic()
        if generation != self._swept[0] and now - self._swept[1] >= _SWEEP_SECONDS:
            self._swept = generation, now
            await self._in_thread(lambda: self.pictures.sweep_previews(self.index))

    def _count_days(self, generation: int, query: Query) -> dict[int | None, int]:
        with self.index.catalog.reading() as connection:
            return counts_by_day(connection, self.index.listed(query, connection))

    def _after_write(self) -> None:
        # Before the write is acknowledged: its client may send the next request to another process.
        self.index.announce()
        self._update_info()

    def _update_info(self) -> None:
        if self.index.generation != self._info.generation:
            self._info = self.index.info()
            self.checks.notify()

    async def probe(self) -> str | None:
        """Encode a caption and a picture and search for both; return the failure, or None."""
        for batcher in (self.encoder.batcher, self.searcher.batcher):
            if not batcher.alive:
                return f"the {batcher.name} has stopped"
            if batcher.busy_seconds() > self.settings.stall_seconds:
                return f"the {batcher.name} hangs"
        from PIL import Image

        stage = "caption encoder"
        try:
            async with asyncio.timeout(self.probe_seconds):
                stages = Stages()
                caption = await self.encoder.encode("a", stages)
                stage = "picture encoder"
                pixels = self.checkpoint.model.preprocessing.apply(Image.new("RGB", (32, 32)))
                picture = await self.encoder.encode(pixels, stages)
                stage = "index"
                probes: list[tuple[Kind, Points]] = [("image", caption), ("caption", picture)]
                for kind, point in probes:
                    key = SearchKey(Query(kind, 1, "fast"))
                    await self.searcher.search(key, point[None], stages)
        except TimeoutError:
            return f"the {stage} did not answer a probe in time"
        except Exception as error:
            reason = error.reason if isinstance(error, ServiceError) else repr(error)
            event("probe failed", logging.ERROR, stage=stage, error=reason)
            if reason == "catalog_unreachable":
                return "the catalog does not answer"
            return f"the {stage} failed a probe"
        return None

    async def in_catalog(self, read: Callable[[], Result]) -> Result:
        """Run a read of the catalog outside the event loop, within the deadline of a search.

        Raises:
            ServiceError: `catalog_unreachable` after the deadline.
        """
        seconds = self.settings.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._in_thread(read)
        except TimeoutError:
            late = CatalogUnreachableError(f"no answer in {seconds} seconds")
            raise unreachable(late) from None
        except UNREADABLE as error:
            raise unreachable(error) from None

    async def change_catalog(self, write: Callable[[], Result]) -> Result:
        """Run a write of the catalog outside the event loop; raises as `writing_catalog`."""
        async with self.writing.admission.enter(Stages()):
            with writing_catalog():
                return await self._in_thread(write)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        run = copy_context().run  # the trace of the request
        return await asyncio.get_running_loop().run_in_executor(self._catalog_pool, run, work)

    def close(self) -> None:
        """End all threads and close the index."""
        self.upkeep.close()
        self.checks.close()
        if "writing" in vars(self):
            self.writing.batcher.close()
        self.encoder.batcher.close()
        self.searcher.batcher.close()
        if "pictures" in vars(self):
            self.pictures.close()
        self._catalog_pool.shutdown(wait=True, cancel_futures=True)
        self.index.close()

    def _watch(self, metrics: Metrics) -> None:
        metrics.watch("hasse_in_flight", lambda: self.admission.in_flight)
        metrics.watch("hasse_queue_length", lambda: self.admission.waiting)
        metrics.watch("hasse_generation", lambda: self.index.generation)
        metrics.watch("hasse_rows", lambda: self._info.images, kind="image")
        metrics.watch("hasse_rows", lambda: self._info.captions, kind="caption")
        metrics.watch("hasse_device_memory_bytes", self._device_memory)

    def _device_memory(self) -> float:
        torch = sys.modules.get("torch")  # imported if the index is on a device
        return 0.0 if torch is None else float(torch.cuda.memory_allocated())
