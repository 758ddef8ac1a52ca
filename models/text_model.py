"""The half of a trained model that encodes captions, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hasse.models.embedding_model import Points, Ungrounded
from hasse.models.encoders.hubness import HubnessCorrection, Kind
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.plain_text import PlainTextEncoder
from hasse.models.encoders.text_inference import PackedTextEncoder, ReadingOptions, TextInference
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.tensor_files import with_prefix
from hasse.models.vocabulary import Vocabulary


class TextModel(Ungrounded):
    """Encodes captions as `OrderEmbedding` with the same, constant weights.

    Attributes:
        config: with `is_packable`.
        vocabulary: its words.
        preprocessing: of pictures, for subclasses.
        references: points of training pictures (R, N) in the hubness correction, or None.
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
        """Make a model from the weights of a checkpoint, except those of pictures.

        `one_off` is for a process that encodes a few captions: it starts a second faster.
        """
        self.config, self.vocabulary, self.preprocessing = config, vocabulary, preprocessing
        encoder = PlainTextEncoder if one_off else PackedTextEncoder
        members = []
        for at in range(config.ensemble):
            reading = ReadingOptions(
                config.caption_pooling,
                config.score == "cosine",
                config.length,
                config.reads_backwards(at),
            )
            prefix = f"captions.{at}." if config.ensemble > 1 else "captions."
            members.append(encoder(with_prefix(prefix, weights), reading))
        self._inference = TextInference(members)
        self._correction: HubnessCorrection | None = None
        if config.hubness and weights["hubness.inverse_temperature"]:
            stored = with_prefix("hubness.", weights)
            self._correction = HubnessCorrection.of(config.score, stored, one_off=one_off)
        self.references = None if self._correction is None else self._correction.images

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        word_numbers = [self.vocabulary.encode(text, self.config.max_words) for text in texts]
        return self._correct(self._inference.points(word_numbers, batch_size), "caption")

    def _correct(self, points: Points, kind: Kind) -> Points:
        return points if self._correction is None else self._correction.correct(points, kind)
