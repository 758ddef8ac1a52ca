"""Searches an index in the caller's process, with the methods and answers of `hasse.Client`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Self, TypeAlias, TypeVar, Unpack

from PIL import Image
from pydantic import TypeAdapter, ValidationError

from models.errors import HasseError
from service.client.call import Options, Picture, fields_of, file_of, several
from service.client.errors import problem_error
from service.core import lattice
from service.core.engine import Engine
from service.core.pictures import read_picture
from service.core.stages import Stages
from service.core.write_queue import Upload
from service.errors import ServiceError, invalid, problem_body, reason_of
from service.http.bodies import validated
from service.lattice_schemas import (
    PARTS_MAXIMUM,
    AllOfAnswer,
    CommonAnswer,
    Entailment,
    JsonPart,
)
from service.lattice_schemas import Part as EnginePart
from service.schemas import (
    AddedImage,
    CaptionAnswer,
    ImageAnswer,
    ImageQuery,
    ImageRecord,
    Problem,
    SearchOptions,
    UploadFields,
)
from service.settings import Settings

Result = TypeVar("Result")
# A text is a caption, a number an image of the index, anything else a picture.
Part: TypeAlias = str | int | bytes | os.PathLike[str] | Image.Image

_JSON_PARTS: TypeAdapter[list[str | int]] = TypeAdapter(list[JsonPart])


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
    return LocalIndex(Engine.open(settings))


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

    def search_images(self, caption: str, **options: Unpack[Options]) -> ImageAnswer:
        """Return the images a caption is true of, the best first."""

        def ask() -> Coroutine[Any, Any, ImageAnswer]:
            query = validated(ImageQuery, {"caption": caption, **fields_of(options)})
            return self._engine.images_by_caption(query.caption, query)

        return self._run(ask)

    def search_captions(self, picture: Picture, **options: Unpack[Options]) -> CaptionAnswer:
        """Return the captions that are true of a picture."""
        _, content = file_of(picture)
        return self._run(
            lambda: self._engine.captions_by_picture(content, _search_options(options))
        )

    def search_all_of(self, parts: Iterable[Part], **options: Unpack[Options]) -> AllOfAnswer:
        """Return the images that several parts are true of at once."""
        given = several(parts)
        return self._run(
            lambda: lattice.all_of(
                self._engine, _parts("all_of", given), _search_options(options), Stages()
            )
        )

    def search_common(self, parts: Iterable[Part], **options: Unpack[Options]) -> CommonAnswer:
        """Return the captions that are true of all parts."""
        given = several(parts)
        return self._run(
            lambda: lattice.common(
                self._engine, _parts("common", given), _search_options(options), Stages()
            )
        )

    def search_like(
        self,
        like: Part,
        plus: Iterable[Part],
        minus: Iterable[Part] = (),
        **options: Unpack[Options],
    ) -> ImageAnswer:
        """Return images like one, with `plus` in the place of `minus`."""
        put, taken = several(plus), several(minus)
        return self._run(
            lambda: lattice.like(
                self._engine,
                _parts("like", [like])[0],
                _parts("plus", put),
                _parts("minus", taken, least=0),
                _search_options(options),
                Stages(),
            )
        )

    def entails(self, premise: Part, hypothesis: str) -> Entailment:
        """Tell whether a caption is true of an image or a picture, or follows from a caption."""

        def ask() -> Coroutine[Any, Any, Entailment]:
            (given,), (claim,) = _parts("premise", [premise]), _parts("hypothesis", [hypothesis])
            return lattice.entails(self._engine, given, str(claim), Stages())

        return self._run(ask)

    def image(self, image_id: int) -> ImageRecord:
        """Return what is known of an image."""
        return self._run(lambda: self._engine.image(image_id))

    def picture(self, image_id: int) -> bytes:
        """Return the stored picture of an image."""

        async def ask() -> bytes:
            path = await self._engine.picture_path(image_id)
            content, _ = await self._engine.in_catalog(lambda: read_picture(path))
            return content

        return self._run(ask)

    def add_image(
        self,
        picture: Picture,
        captions: Iterable[str] = (),
        *,
        image_id: int | None = None,
        split: str = "",
    ) -> AddedImage:
        """Add a picture with its captions, or captions to a picture that is there already."""
        file_name, content = file_of(picture)
        given = {"caption": several(captions), "image_id": image_id, "split": split}

        def ask() -> Coroutine[Any, Any, AddedImage]:
            fields = validated(UploadFields, given)
            upload = Upload(content, file_name, fields.caption, fields.image_id, fields.split)
            return self._engine.add(upload)

        return self._run(ask)

    def remove_image(self, image_id: int) -> None:
        """Remove an image and its captions."""
        self._run(lambda: self._engine.remove(image_id))

    def _run(self, ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine of the engine in its event loop, and raise its errors as a client's."""
        if self._loop.is_closed():
            raise HasseError("this index is closed: open it again")
        try:
            return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()
        except ServiceError as error:
            raise problem_error(Problem.model_validate_json(problem_body(error, ""))) from None


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _search_options(options: Options) -> SearchOptions:
    return validated(SearchOptions, fields_of(options))


def _parts(field: str, given: Sequence[Part], least: int = 1) -> list[EnginePart]:
    """Check parts as the service does; raises ServiceError `invalid`."""
    if not least <= len(given) <= PARTS_MAXIMUM:
        raise invalid(field, f"there may be {least} to {PARTS_MAXIMUM} of these")
    captions_and_ids = [one for one in given if isinstance(one, (str, int))]
    try:
        known = iter(_JSON_PARTS.validate_python(captions_and_ids, strict=True))
    except ValidationError as error:
        row = error.errors()[0]
        raise invalid(f"{field}.{row['loc'][0]}", reason_of(row)) from None
    return [next(known) if isinstance(one, (str, int)) else file_of(one)[1] for one in given]
