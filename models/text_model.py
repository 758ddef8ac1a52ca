"""The half of a trained model that encodes captions, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hasse.models.embedding_model import Points, Ungrounded
from hasse.models.encoders.hubness import HubnessCorrection, Kind
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.plain_text import PlainTextEncoder
from hasse.models.encoders.text_inference import PackedTextEncoder, Reading, TextInference
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.tensor_files import below
from hasse.models.vocabulary import Vocabulary


class TextModel(Ungrounded):
    """Encodes captions as `OrderEmbedding` does with the same weights, which never change.

    Attributes:
        config: one that `is_packable`.
        vocabulary: the words that it knows.
        preprocessing: of pictures, which it does not encode.
        references: points of training pictures (R, N) that correct hubness, or None.
    """

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        weights: Mapping[str, Points],
        *,
        one_off: bool = False,
    ) -> None:
        """Take the weights of a checkpoint; those of pictures are not read.

        With `one_off`, for a process that encodes a few captions, it is ready a second sooner.
        """
        self.config, self.vocabulary, self.preprocessing = config, vocabulary, preprocessing
        encoder = PlainTextEncoder if one_off else PackedTextEncoder
        members = []
        for at in range(config.ensemble):
            reading = Reading(
                config.caption_pooling,
                config.score == "cosine",
                config.length,
                config.reads_backwards(at),
            )
            prefix = f"captions.{at}." if config.ensemble > 1 else "captions."
            members.append(encoder(below(prefix, weights), reading))
        self._inference = TextInference(members)
        self._correction: HubnessCorrection | None = None
        if config.hubness and weights["hubness.inverse_temperature"]:
            stored = below("hubness.", weights)
            self._correction = HubnessCorrection.of(config.score, stored, one_off=one_off)
        self.references = None if self._correction is None else self._correction.images

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        numbered = [self.vocabulary.encode(text, self.config.max_words) for text in texts]
        return self._corrected(self._inference.points(numbered, batch_size), "caption")

    def _corrected(self, points: Points, kind: Kind) -> Points:
        return points if self._correction is None else self._correction.correct(points, kind)
