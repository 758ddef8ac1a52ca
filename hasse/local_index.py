"""Searches an index in the caller's process, with the methods and answers of `hasse.Client`."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from PIL import Image
from pydantic import TypeAdapter, ValidationError

from hasse.models.captioning import DRAWS
from hasse.models.errors import HasseError
from hasse.service import picture_schemas as schemas
from hasse.service.client.call import (
    CaptionOptions,
    DistinctOptions,
    Options,
    Picture,
    fields_of,
    file_of,
    several,
)
from hasse.service.client.errors import problem_error
from hasse.service.core import by_picture, describing, lattice
from hasse.service.core.engine import Engine
from hasse.service.core.pictures import open_original
from hasse.service.core.stages import Stages
from hasse.service.core.writing.write_queue import Upload
from hasse.service.errors import ServiceError, invalid, problem_body, reason_of
from hasse.service.http.bodies import validated
from hasse.service.lattice_schemas import (
    PARTS_MAXIMUM,
    AllOfAnswer,
    CommonAnswer,
    Entailment,
    JsonPart,
)
from hasse.service.lattice_schemas import Part as EnginePart
from hasse.service.picture_schemas import CaptionAnswer, Description, Relation, SimilarOptions
from hasse.service.schemas import (
    AddedImage,
    ImageAnswer,
    ImageQuery,
    ImageRecord,
    Problem,
    SearchOptions,
    UploadFields,
)
from hasse.service.settings import Settings

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# A text is a caption, a number an image of the index, anything else a picture.
Part: TypeAlias = str | int | bytes | os.PathLike[str] | Image.Image

_JSON_PART: TypeAdapter[str | int] = TypeAdapter(JsonPart)


def open_index(
    folder: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
) -> LocalIndex:
    """Open an index that `hasse index build` made.

    Args:
        folder: the folder of the index.
        model: the folder of a checkpoint, or the name of a built-in one; by default the model
            that the index was built with.
        device: where the model encodes: "cpu", "cuda", or "auto".

    Raises:
        HasseError: the index or the model cannot be used; the message says what to do.
    """
    settings = Settings(
        index=Path(folder), model=None if model is None else Path(model), device=device
    )
    return LocalIndex(Engine.open(settings, absolute_paths=True))


def _blocking(
    method: Callable[Concatenate[LocalIndex, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[LocalIndex, Arguments], Result]:
    """Run a method in the event loop of the index, and raise its errors as a client's."""

    @functools.wraps(method)
    def run(self: LocalIndex, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        if self._loop.is_closed():
            raise HasseError("this index is closed: open it again")
        work = method(self, *args, **options)
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except ServiceError as error:
            raise problem_error(Problem.model_validate_json(problem_body(error, ""))) from None

    return run


class LocalIndex:
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
        asyncio.run_coroutine_threadsafe(engine.keep_fresh(), self._loop)

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

    @_blocking
    async def search_images(self, caption: str, **options: Unpack[Options]) -> ImageAnswer:
        """Return the images a caption is true of, the best first."""
        query = validated(ImageQuery, {"caption": caption, **fields_of(options)})
        return await self._engine.images_by_caption(query.caption, query)

    @_blocking
    async def search_captions(
        self, picture: Picture, **options: Unpack[CaptionOptions]
    ) -> CaptionAnswer:
        """Return the captions that are true of a picture."""
        _, content = await asyncio.to_thread(file_of, picture)
        query = validated(schemas.CaptionOptions, fields_of(options))
        return await by_picture.captions(self._engine, content, query, Stages())

    @_blocking
    async def search_similar(
        self, picture: Picture, similar: Relation = "alike", **options: Unpack[Options]
    ) -> ImageAnswer:
        """Return the images like a picture, more specific than it, or more general."""
        _, content = await asyncio.to_thread(file_of, picture)
        query = validated(SimilarOptions, {"similar": similar, **fields_of(options)})
        return await by_picture.similar(self._engine, content, query, Stages())

    @_blocking
    async def describe(
        self, picture: int | Picture, *, k: int = 5, draws: int = DRAWS
    ) -> Description:
        """Return captions written for an image of the collection, by its id, or for a picture."""
        options = validated(schemas.DescribeOptions, {"k": k, "draws": draws})
        if isinstance(picture, int):
            return await describing.describe(self._engine, picture, options, Stages())
        _, content = await asyncio.to_thread(file_of, picture)
        return await describing.describe(self._engine, content, options, Stages())

    @_blocking
    async def search_all_of(self, parts: Iterable[Part], **options: Unpack[Options]) -> AllOfAnswer:
        """Return the images that several parts are true of at once."""
        query, given = _search_options(options), await _parts("all_of", several(parts))
        return await lattice.all_of(self._engine, given, query, Stages())

    @_blocking
    async def search_common(
        self, parts: Iterable[Part], **options: Unpack[DistinctOptions]
    ) -> CommonAnswer:
        """Return the captions that are true of all parts."""
        query = validated(schemas.DistinctOptions, fields_of(options))
        given = await _parts("common", several(parts))
        return await lattice.common(self._engine, given, query, Stages())

    @_blocking
    async def search_like(
        self,
        like: Part,
        plus: Iterable[Part],
        minus: Iterable[Part] = (),
        **options: Unpack[Options],
    ) -> ImageAnswer:
        """Return images like one, with `plus` in the place of `minus`."""
        (start,) = await _parts("like", [like])
        put = await _parts("plus", several(plus))
        taken = await _parts("minus", several(minus), least=0)
        query = _search_options(options)
        return await lattice.like(self._engine, start, put, taken, query, Stages())

    @_blocking
    async def entails(self, premise: Part, hypothesis: str) -> Entailment:
        """Tell whether a caption is true of an image or a picture, or follows from a caption."""
        (given,) = await _parts("premise", [premise])
        (claim,) = await _parts("hypothesis", [hypothesis])
        return await lattice.entails(self._engine, given, str(claim), Stages())

    @_blocking
    async def image(self, image_id: int) -> ImageRecord:
        """Return what is known of an image."""
        return await self._engine.image(image_id)

    @_blocking
    async def picture(self, image_id: int) -> bytes:
        """Return the stored picture of an image."""
        path = await self._engine.picture_path(image_id)
        original = await self._engine.in_catalog(lambda: open_original(path))
        return b"".join(original.pieces())

    @_blocking
    async def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> AddedImage:
        """Add a picture with its captions, or captions to a picture that is there already."""
        given = {"caption": several(captions), "image_id": image_id, "split": split}
        fields = validated(UploadFields, given)
        file_name, content = await asyncio.to_thread(file_of, picture)
        return await self._engine.add(
            Upload(content, file_name, fields.caption, fields.image_id, fields.split)
        )

    @_blocking
    async def remove_image(self, image_id: int) -> None:
        """Remove an image and its captions."""
        await self._engine.remove(image_id)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _search_options(options: Options) -> SearchOptions:
    return validated(SearchOptions, fields_of(options))


async def _parts(field: str, given: Sequence[Part], least: int = 1) -> list[EnginePart]:
    """Check parts as the service does, and read pictures; raises ServiceError `invalid`."""
    if not least <= len(given) <= PARTS_MAXIMUM:
        raise invalid(field, f"there may be {least} to {PARTS_MAXIMUM} of these")
    parts: list[EnginePart] = []
    for at, part in enumerate(given):
        if not isinstance(part, (str, int)):
            parts.append((await asyncio.to_thread(file_of, part))[1])
            continue
        try:
            parts.append(_JSON_PART.validate_python(part, strict=True))
        except ValidationError as error:
            raise invalid(f"{field}.{at}", reason_of(error.errors()[0])) from None
    return parts
