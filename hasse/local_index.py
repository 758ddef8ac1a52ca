"""Searches an index in the caller's process, with the methods and answers of `hasse.Client`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable
from pathlib import Path
from threading import Thread
from typing import Any, Self, TypeVar

from hasse.models.errors import HasseError
from hasse.service.client.call import Ask, Picture, file_of, is_picture, list_of, plain_fields
from hasse.service.client.calls import Blocking, Questions, annotation_fields, embed_calls
from hasse.service.client.errors import problem_error
from hasse.service.core import records
from hasse.service.core.engine import Engine
from hasse.service.core.pictures import open_original
from hasse.service.errors import ServiceError, problem_body, validated
from hasse.service.questions.answers import Embedding
from hasse.service.questions.handlers import ask
from hasse.service.schemas import AddedImage, AnnotationFields, ImageRecord, Problem, UploadFields
from hasse.service.settings import Settings

Result = TypeVar("Result")


def open_index(
    folder: str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
) -> LocalIndex:
    """Open an index that `hasse add` or `hasse lab index build` made.

    Args:
        folder: the folder of the index; by default `HASSE_LIBRARY`, or your own library.
        model: the folder of a checkpoint, or the name of a built-in one; by default the model
            that the index was built with.
        device: where the model encodes: "cpu", "cuda", or "auto".

    Raises:
        HasseError: the index or the model cannot be used; the message says what to do.
    """
    settings = Settings(model=None if model is None else Path(model), device=device)
    if folder is not None:
        settings = settings.model_copy(update={"library": Path(folder)})
    return LocalIndex(Engine.open(settings, absolute_paths=True))


class LocalIndex(Questions, Blocking):
    """An open index. Threads may share it; close it, or use it in a `with` block.

    It follows what other processes add and remove. Limits, such as the time a search may take,
    are those of the `HASSE_*` settings. Methods raise `HasseError`; for a request that a service
    would refuse it is the `ProblemError` that `hasse.Client` raises.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="hasse-index", daemon=True)
        self._thread.start()
        self._fresh = asyncio.run_coroutine_threadsafe(engine.keep_fresh(), self._loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index; a second time does nothing."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._engine.close()

    def make(self, asked: Ask[Result]) -> Result:
        """Answer a question, which may have any number of pictures."""
        fields = {name: _read(value) for name, value in plain_fields(asked.fields).items()}

        async def answer() -> Any:
            request = validated(asked.question.request, fields)
            return await ask(self._engine, asked.question, request)

        return asked.convert(self._run(answer()))

    def embed(self, texts: Iterable[str]) -> list[Embedding]:
        """Return the embeddings of any number of texts."""
        return [one for asked in embed_calls(texts) for one in self.make(asked)]

    def image(self, image_id: int) -> ImageRecord:
        """Return what is known of an image."""
        return self._run(records.image(self._engine, image_id))

    def picture(self, image_id: int) -> bytes:
        """Return the stored picture of an image."""
        path, _ = self._run(records.picture_file(self._engine, image_id))
        original = self._run(self._engine.in_catalog(lambda: open_original(path)))
        return b"".join(original.pieces())

    def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> AddedImage:
        """Add a picture with its captions, or captions to a picture that is there already."""
        given = {"caption": list_of(captions), "image_id": image_id, "split": split}
        file_name, content = file_of(picture)

        async def add() -> AddedImage:
            fields = validated(UploadFields, given)
            return await self._engine.writing.add(content, file_name, fields)

        return self._run(add())

    def annotate(
        self, image_ids: Iterable[int], captions: Iterable[str] = (), keywords: Iterable[str] = ()
    ) -> None:
        """Give images captions and keywords that they lack."""
        self._run(self._engine.writing.annotate(_annotation(image_ids, captions, keywords)))

    def unannotate(
        self, image_ids: Iterable[int], captions: Iterable[str] = (), keywords: Iterable[str] = ()
    ) -> None:
        """Take captions of people, and keywords given by `annotate`, away from images."""
        self._run(self._engine.writing.unannotate(_annotation(image_ids, captions, keywords)))

    def remove_image(self, image_id: int) -> None:
        """Remove an image and its captions."""
        self._run(self._engine.writing.remove(image_id))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the event loop of the index, and raise its errors as a client's."""
        if self._loop.is_closed():
            work.close()
            raise HasseError("this index is closed: open it again")
        if self._fresh.done():  # with what is damaged
            work.close()
            self._fresh.result()
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except ServiceError as error:
            raise problem_error(Problem.model_validate_json(problem_body(error, ""))) from None


def _annotation(
    image_ids: Iterable[int], captions: Iterable[str], keywords: Iterable[str]
) -> AnnotationFields:
    return validated(AnnotationFields, annotation_fields(image_ids, captions, keywords))


def _read(value: Any) -> Any:
    """Return a field with the bytes of its pictures."""
    if isinstance(value, list):
        return [_read(part) for part in value]
    return file_of(value)[1] if is_picture(value) else value


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
