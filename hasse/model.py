"""A model without an index: captions and pictures become points, and pictures captions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hasse.models.captioning.phrases import PhraseWriter
from hasse.models.checkpoints import checkpoint, named_models
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.images.decoding import open_file, open_picture
from hasse.models.score import penalties_between
from hasse.service.client.call import Picture, file_of, list_of
from hasse.service.core.device import pick_device
from hasse.service.errors import validated
from hasse.service.questions import describe as describing
from hasse.service.questions.answers import Description, Entailment
from hasse.service.questions.entails import entailment_fields
from hasse.service.questions.requests import DescribeQuery
from hasse.service.settings import Settings

Points: TypeAlias = NDArray[np.float32]


def load_model(model: str | os.PathLike[str], *, device: str = "auto") -> Model:
    """Load a built-in model by its name, or a checkpoint by its folder.

    Raises:
        HasseError: there is no such model, or it cannot be used; the message says what to do.
    """
    folder = named_models.find(Path(model))
    runtime = Settings().encoder_runtime
    return Model(checkpoint.load(folder, pick_device(device), runtime=runtime))


class Model:
    """Encodes captions and pictures. Not for several threads at a time.

    Attributes:
        name: the name of the model.
        fingerprint: the SHA-256 over the files that decide how it encodes.
        score: how it compares: "order", "order-reversed" or "cosine".
        dimension: coordinates of a point.
    """

    def __init__(self, loaded: Checkpoint) -> None:
        self._loaded = loaded
        self.name = loaded.name
        self.fingerprint = loaded.fingerprint
        self.score = loaded.model.config.score
        self.dimension = loaded.model.config.dimension

    def encode_captions(self, captions: Iterable[str]) -> Points:
        """Return the points of captions: (B, N) float32."""
        return self._loaded.model.encode_captions(list_of(captions))

    def encode_pictures(self, pictures: Iterable[Picture]) -> Points:
        """Return the points of pictures: (B, N) float32; raises HasseError for what is none."""
        return self._loaded.model.encode_images([self._opened(picture) for picture in pictures])

    def describe(self, picture: Picture, *, k: int = 5) -> Description:
        """Return captions written for a picture; raises HasseError if the model has no phrases."""
        request = validated(DescribeQuery, {"image_id": b"", "k": k})
        return describing.answer_without_index(self._writer, self._opened(picture), request)

    @cached_property
    def _writer(self) -> PhraseWriter:
        return PhraseWriter(self._loaded)

    def _opened(self, picture: Picture) -> Image.Image:
        size = self._loaded.model.preprocessing.resize
        limits = Settings().picture_limits
        if isinstance(picture, bytes | Image.Image):
            return open_picture(file_of(picture)[1], limits, size)
        return open_file(Path(picture), limits, size)

    def violations(self, premises: Points, captions: Points) -> Points:
        """Return how far captions are from following: (P, N), (C, N) -> (P, C).

        Premises are points of pictures or of captions. 0 means that a caption follows.
        """
        return penalties_between(self.score, premises, captions)

    def entails(self, premise: str | bytes | Path | Image.Image, hypothesis: str) -> Entailment:
        """Tell whether a caption follows from a caption, or is true of a picture.

        A premise that is a text is a caption; bytes, a `Path` and an `Image` are pictures.
        """
        if isinstance(premise, str):
            first = self.encode_captions([premise])
        else:
            first = self.encode_pictures([premise])
        points = np.concatenate([first, self.encode_captions([hypothesis])])
        part = premise if isinstance(premise, str) else b""
        return Entailment(**entailment_fields(self._loaded, part, hypothesis, points))
