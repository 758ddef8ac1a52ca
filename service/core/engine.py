"""The engine: a model and an index that answer together, for the API and for the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import torch
from PIL import Image

from hasse.index.errors import CatalogUnreachableError
from hasse.index.info import IndexInfo
from hasse.index.segments.upkeep import Upkeep
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Kind
from hasse.models.captioning.writing import Writer
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.embedding_model import Words
from hasse.models.evaluation.calibration import Calibrations
from hasse.models.score import Score
from hasse.models.specificity import Specificity
from hasse.service.core.admission import Admission
from hasse.service.core.encoding import Encoder, Point, check_query
from hasse.service.core.pictures import PictureReader, version_of
from hasse.service.core.searching import Found, Places, Searcher
from hasse.service.core.serialization import caption_record, image_record
from hasse.service.core.stages import Stages
from hasse.service.core.writing.write_queue import WriteQueue
from hasse.service.errors import ServiceError, invalid, no_image, reaching_catalog
from hasse.service.runtime import loading
from hasse.service.runtime.logs import event
from hasse.service.runtime.metrics import Metrics
from hasse.service.schemas import (
    CaptionRecord,
    ImageAnswer,
    ImageAnswers,
    ImageRecord,
    SearchOptions,
)
from hasse.service.settings import Settings

Result = TypeVar("Result")
_PROBE = SearchOptions(k=1, mode="fast")


class Engine:
    """Answers searches. Its coroutines belong to one event loop; its work runs in threads.

    All searches raise `ServiceError`: `invalid` for a query out of bounds, `busy` and `late`
    under load, `encoding_failed` and `not_ready` when something inside is broken, and what
    `PictureReader.pixels` says of a picture.
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
        metrics = metrics or Metrics()
        admission = admission or Admission.of(settings)
        self.checkpoint = checkpoint
        self.index = index
        self.settings = settings
        self.probe_seconds = 5.0  # most that a probe for readiness may take
        self.admission = admission
        self._places = Places(index.folder, absolute_paths)
        self.pictures = PictureReader(settings, checkpoint.model.preprocessing)
        self.encoder = Encoder(
            checkpoint.model, settings, batch_size=metrics.batch_size, on_death=on_death
        )
        self.searcher = Searcher(
            index,
            checkpoint.calibration.image,
            settings,
            self._places,
            admission=admission,
            batch_size=metrics.batch_size,
            on_death=on_death,
        )
        self.writing = WriteQueue(
            index,
            self.encoder,
            self.pictures,
            settings,
            self._places,
            on_change=self._changed,
            batch_size=metrics.batch_size,
            on_death=on_death,
        )
        self.specificity = Specificity(checkpoint.model)
        # What others ask of the parts.
        self.enter = admission.enter
        self.encode_captions = self.encoder.captions
        self.search = self.searcher.search
        self.search_jointly = self.searcher.search_jointly
        self.preview = self.pictures.preview
        self.add = self.writing.add
        self.remove = self.writing.remove
        self._stage_seconds = metrics.stage_seconds
        self._info = index.info()
        self._catalog_pool = ThreadPoolExecutor(2, thread_name_prefix="catalog")
        self.upkeep = Upkeep(
            lambda progress: index.compact(progress=progress),
            index.release_memory,
            settings.compact_seconds,
            on_compaction=lambda done: event("compacted", **asdict(done)),
            on_error=lambda error: event("compaction failed", logging.ERROR, error=str(error)),
        )
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
    ) -> Engine:
        """Load the checkpoint, open the index it made, and encode once to be warm.

        `absolute_paths` is for those who may know where files lie: answers tell them, and
        `path_prefix` names them.

        Raises:
            models.checkpoints.model_folder.CheckpointError: the checkpoint cannot be used.
            index.errors.HasseIndexError: the index cannot be used, or another model made it.
            service.runtime.device.DeviceError: this machine has no such device.
        """
        loaded, index = loading.model_and_index(settings)
        with loading.closed_on_failure(index):
            writer = loading.prepare(loaded, index, settings)
        engine = cls(
            loaded, index, settings, metrics, admission, on_death, absolute_paths=absolute_paths
        )
        engine.writer = writer
        return engine

    @classmethod
    def for_one_question(cls, settings: Settings, *, with_pictures: bool) -> Engine:
        """Open what answers a question sooner than `open` does, one with pictures or without.

        Its paths are absolute; it raises what `open` does.
        """
        loaded, index = loading.model_and_index(settings, with_pictures=with_pictures)
        return cls(loaded, index, settings, absolute_paths=True)

    @cached_property
    def writer(self) -> Writer | None:
        """What writes captions, if there is a captioner; raises CheckpointError."""
        return loading.writer(self.settings, self.checkpoint)

    @property
    def info(self) -> IndexInfo:
        """What the index held when it was last looked at."""
        return self._info

    @property
    def generation(self) -> int:
        """The generation that is searched."""
        return self.index.generation

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.checkpoint.name

    @property
    def score(self) -> Score:
        """How the model compares points."""
        return self.checkpoint.model.config.score

    @property
    def device(self) -> torch.device:
        """Where the encoders run."""
        return self.checkpoint.model.device

    @property
    def vocabulary(self) -> Words:
        """The words that the model knows."""
        return self.checkpoint.model.vocabulary

    @property
    def calibration(self) -> Calibrations:
        """What violations mean, where the model is calibrated."""
        return self.checkpoint.calibration

    async def keep_fresh(self) -> None:
        """Follow the generations that other processes make, until cancelled; merge segments."""
        self.upkeep.start()
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            try:
                await self._apart(self._refresh)
            except Exception as error:
                event("refresh failed", logging.ERROR, error=str(error))

    def _refresh(self) -> None:
        self.index.refresh()
        self._look()

    def _changed(self) -> None:
        # Before the change is acknowledged: its client may ask another process next.
        self.index.announce()
        self._look()

    def _look(self) -> None:
        if self.index.generation != self._info.generation:
            self._info = self.index.info()

    async def images_by_caption(
        self, caption: str, options: SearchOptions, *, stages: Stages | None = None
    ) -> ImageAnswer:
        """Return the images a caption is true of, the best first."""
        stages = stages or Stages()
        return ImageAnswer.model_validate(await self.image_fields(caption, options, stages))

    async def image_fields(
        self, caption: str, options: SearchOptions, stages: Stages
    ) -> dict[str, Any]:
        """Return the fields of what `images_by_caption` returns, in their order.

        Validating an answer takes as long as writing it, so a route sends these fields as they are.
        """
        self.check_options(options)
        check_query(caption, self.vocabulary, self.settings)
        async with self.enter(stages):
            found = await self.searcher.search_encoded(
                "image", self.encoder, caption, options, stages
            )
        fields = self._image_fields(caption, found)
        self.finish(stages)
        return fields

    async def images_by_captions(
        self, captions: Sequence[str], options: SearchOptions, *, stages: Stages | None = None
    ) -> ImageAnswers:
        """Return the images that each caption is true of, all answered as one batch."""
        stages = stages or Stages()
        self.check_options(options)
        for at, caption in enumerate(captions):
            check_query(caption, self.vocabulary, self.settings, f"captions.{at}")
        async with self.enter(stages):
            points = await self.encoder.captions(captions, stages)
            found = await self.searcher.search_all(captions, points, options, stages)
        answers = list(map(self._image_fields, captions, found))
        self.finish(stages)
        return ImageAnswers.model_validate({"answers": answers})

    async def image(self, image_id: int) -> ImageRecord:
        """Return what the catalog knows of an image; raises ServiceError `not_found`."""
        found = await self.in_catalog(lambda: self.index.described_images([image_id]))
        return image_record(_there(found, image_id), self._places)

    async def caption(self, caption_id: int) -> CaptionRecord:
        """Return what the catalog knows of a caption; raises ServiceError `not_found`."""
        rows = await self.in_catalog(lambda: self.index.captions([caption_id]))
        if caption_id not in rows:
            raise ServiceError("not_found", f"there is no caption with the id {caption_id}")
        return caption_record(rows[caption_id])

    async def picture_file(self, image_id: int) -> tuple[Path, str]:
        """Return the picture file of an image and its name; raises ServiceError `not_found`."""
        rows = await self.in_catalog(lambda: self.index.images([image_id]))
        row = _there(rows, image_id)
        return self.index.path_of(row), row.file_name

    async def picture_path(self, image_id: int) -> Path:
        """Return the picture file of an image; raises ServiceError `not_found`."""
        return (await self.picture_file(image_id))[0]

    async def thumbnail(self, image_id: int, known: Callable[[str], bool]) -> tuple[str, bytes]:
        """Return the version of an image's thumbnail, and the JPEG unless that is `known`.

        Raises:
            ServiceError: `not_found`, `picture_missing`, or `busy` when too many wait.
        """
        path = await self.picture_path(image_id)
        version = version_of(path, self.settings.thumbnail_size)
        return version, b"" if known(version) else await self.pictures.thumbnail(path, version)

    async def encode_picture(self, picture: bytes, stages: Stages) -> Point:
        """Return the point of a picture that a client sent: (N,) float32."""
        return await self.encoder.encode(await self.pictures.pixels(picture, stages), stages)

    async def stored_points(self, kind: Kind, ids: Sequence[int]) -> dict[int, Point]:
        """Return the points of those rows that are there, by id."""
        return await self.in_catalog(lambda: self.index.points(kind, ids))

    async def captions_of(self, image_ids: Sequence[int]) -> dict[int, list[CaptionRow]]:
        """Return the captions of images, by the id of the image."""
        return await self.in_catalog(lambda: self.index.captions_of(image_ids))

    async def probe(self) -> str | None:
        """Encode a caption and a picture and search for both; return what fails, or None."""
        for batcher in (self.encoder.batcher, self.searcher.batcher):
            if not batcher.alive:
                return f"the {batcher.name} has stopped"
            if batcher.busy_seconds() > self.settings.stall_seconds:
                return f"the {batcher.name} hangs"
        stage = "caption encoder"
        try:
            async with asyncio.timeout(self.probe_seconds):
                stages = Stages()
                caption = await self.encoder.encode("a", stages)
                stage = "picture encoder"
                pixels = self.checkpoint.model.preprocessing.apply(Image.new("RGB", (32, 32)))
                picture = await self.encoder.encode(pixels, stages)
                stage = "index"
                await self.searcher.search("image", caption, _PROBE, stages)
                await self.searcher.search("caption", picture, _PROBE, stages)
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
        """Run a read of the catalog outside the event loop, for as long as a search may take.

        Raises:
            ServiceError: `catalog_unreachable` when there is no answer by then.
        """
        seconds = self.settings.deadline_seconds
        with reaching_catalog():
            try:
                async with asyncio.timeout(seconds):
                    return await self._apart(read)
            except TimeoutError:
                raise CatalogUnreachableError(f"no answer in {seconds} seconds") from None

    async def _apart(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._catalog_pool, work)

    def close(self) -> None:
        """End all threads and let go of the index."""
        self.upkeep.close()
        self.writing.batcher.close()
        self.encoder.batcher.close()
        self.searcher.batcher.close()
        self.pictures.close()
        self._catalog_pool.shutdown(wait=True, cancel_futures=True)
        self.index.close()

    def _image_fields(self, caption: str, found: Found) -> dict[str, Any]:
        return {
            "hits": found.image_hits(),
            **found.facts(self.name),
            "unknown_words": self.vocabulary.unknown(caption),
        }

    def check_options(self, options: SearchOptions) -> None:
        """Refuse options that this service does not take; raises ServiceError `invalid`."""
        if options.k > self.settings.k_maximum:
            raise invalid("k", f"this service gives at most {self.settings.k_maximum} hits")

    def finish(self, stages: Stages) -> None:
        """Stop the watch of a search and count it."""
        stages.seconds["total"] = perf_counter() - stages.started
        # Later: the answer does not wait for it.
        asyncio.get_running_loop().call_soon(self._count, stages)

    def _count(self, stages: Stages) -> None:
        for stage, seconds in stages.seconds.items():
            if seconds:
                self._stage_seconds[stage].observe(seconds)

    def _watch(self, metrics: Metrics) -> None:
        metrics.watch("hasse_in_flight", lambda: self.admission.in_flight)
        metrics.watch("hasse_queue_length", lambda: self.admission.waiting)
        metrics.watch("hasse_generation", lambda: self.generation)
        metrics.watch("hasse_rows", lambda: self._info.images, kind="image")
        metrics.watch("hasse_rows", lambda: self._info.captions, kind="caption")
        metrics.watch("hasse_device_memory_bytes", self._device_memory)

    def _device_memory(self) -> float:
        device = self.checkpoint.model.device
        return float(torch.cuda.memory_allocated(device)) if device.type == "cuda" else 0.0


def _there(rows: Mapping[int, Result], image_id: int) -> Result:
    if image_id not in rows:
        raise no_image(image_id)
    return rows[image_id]
