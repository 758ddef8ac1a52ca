"""The lesson of texts without pictures, taught by a frozen sentence encoder.

A second caption encoder, the teacher, learns beside the model's: a small head on the features of a
frozen sentence encoder. Both learn from the same captions and images. Texts of like meaning have
like features, so the teacher soon knows the points of texts that no image has. The caption encoder
learns those points from the teacher (Hinton et al., "Distilling the knowledge in a neural
network"). The teacher is not part of the model.

Both may also learn from texts that follow from captions, and from pictures of classes made of
features; see `DerivedTexts` and `ClassPictures`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, normalize

from hasse.lab.encoders.order_embedding import OrderEmbedding
from hasse.lab.features.feature_store import FeaturesError
from hasse.lab.training.batches import TokenTable
from hasse.lab.training.config import LARGEST_FACTOR, TrainingConfig
from hasse.lab.training.inputs import ImageInput
from hasse.lab.training.lesson import BatchRows, EncodedBatch, Lesson
from hasse.lab.training.run import TrainingError
from hasse.models.datasets import Dataset, load
from hasse.models.encoders.names import LITE
from hasse.models.networks.efficientnet_lite import classifier, read_tensors
from hasse.models.vocabulary import SPECIAL, Vocabulary
from hasse.studies.photographs.chains import Chain, read_chains
from hasse.studies.photographs.class_pictures import ClassFeatures, ClassPictures
from hasse.studies.photographs.classes import PictureClass, read_classes
from hasse.studies.photographs.derived import DerivedTexts
from hasse.studies.photographs.text_features import TextFeatures

Rows = NDArray[np.int64]

_HIDDEN = 1024
_SCALE = 10.0  # of unit features, so that a linear map's first outputs are of about unit size
_FORGETS, _DROPS = 0.1, 0.2  # shares of features, and of hidden units, left out in training
_SPREAD = 0.15  # standard deviation of the first word vectors


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The options of `TextLesson`.

    Attributes:
        distillation: weight of the distance between the caption encoder's points and the teacher's.
        other_texts: number of texts without images in a batch.
        derived: weight of the loss of images and texts derived from their captions.
        classes: weight of the loss of pictures of classes and their names.
        class_pictures: number of pictures of classes in a batch.
    """

    distillation: float = 4.0
    other_texts: int = 768
    derived: float = 0.5
    classes: float = 0.3
    class_pictures: int = 128

    def __post_init__(self) -> None:
        """Refuse impossible options (ValueError)."""
        if min(self.other_texts, self.class_pictures) < 1:
            raise ValueError("other_texts and class_pictures are at least 1")
        if not all(
            0 <= each <= LARGEST_FACTOR for each in (self.distillation, self.derived, self.classes)
        ):
            raise ValueError(
                f"distillation, derived and classes are at least 0 and at most {LARGEST_FACTOR:g}"
            )


@dataclass(frozen=True, slots=True)
class TextSources:
    """The texts and classes of a `TextLesson`.

    Attributes:
        features: features of texts, with all texts below and the training captions among them.
        chains: texts derived from captions of training images.
        classes: texts true of each class of the image encoder's classifier.
        class_weights: (K, F), that classifier's weights; needed with classes.
        class_features: features of real pictures of classes.
    """

    features: TextFeatures
    chains: Sequence[Chain] = ()
    classes: Sequence[PictureClass] = ()
    class_weights: Tensor | None = None
    class_features: ClassFeatures | None = None

    @classmethod
    def read(
        cls,
        texts: Path,
        derived: Path | None,
        classes: Path | None,
        class_pictures: tuple[Path, Path] | None,
        encoder: str,
    ) -> Self:
        """Read sources from the files of commands.

        Args:
            class_pictures: a dataset, and features of its pictures.
            encoder: the name of the encoder that made the features of images.

        Raises:
            FeaturesError, DatasetError, AbstractionError: something is not there, or is damaged.
            TrainingError: classes are given whose classifier is not known.
        """
        if classes is not None and encoder != LITE:
            raise TrainingError(
                f"classes are learned from by the classifier of {LITE}, and the features are of "
                f"{encoder}: leave --classes out"
            )
        named = () if classes is None else read_classes(classes)
        real = None
        if class_pictures is not None:
            real = ClassFeatures.read(class_pictures[1], load(class_pictures[0]), named)
        return cls(
            TextFeatures.open(texts),
            () if derived is None else read_chains(derived),
            named,
            None if classes is None else torch.from_numpy(classifier(read_tensors())[0]),
            real,
        )

    def fingerprint(self) -> list[Any]:
        """Return what distinguishes these sources from others, as JSON."""
        digest = hashlib.sha256("\n".join(self.features.texts).encode())
        for chain in self.chains:
            digest.update(repr((chain.image_id, chain.texts)).encode())
        for one in self.classes:
            digest.update(repr((one.texts, one.steps)).encode())
        if self.class_features is not None:
            digest.update(np.ascontiguousarray(self.class_features.classes).data)
            digest.update(np.ascontiguousarray(self.class_features.rows).data)
        return [*self.features.maker, digest.hexdigest()[:12]]


class TextTeacher(nn.Module):
    """A head on features of sentences: for each member of an ensemble a linear map and an MLP."""

    def __init__(self, features: int, dimension: int, ensemble: int) -> None:
        super().__init__()
        share = dimension // ensemble
        self.inner = nn.ModuleList(nn.Linear(features, _HIDDEN) for _ in range(ensemble))
        self.outer = nn.ModuleList(nn.Linear(_HIDDEN, share) for _ in range(ensemble))
        self.direct = nn.ModuleList(nn.Linear(features, share) for _ in range(ensemble))

    def forward(self, features: Tensor) -> Tensor:
        """Encode the mean and the largest states of sentences: (B, F) -> (B, N)."""
        # Each half of the features has one length.
        halves = [normalize(half, dim=-1) for half in features.chunk(2, -1)]
        unit = _SCALE * torch.cat(halves, -1)
        shares = []
        for inner, outer, direct in zip(self.inner, self.outer, self.direct, strict=True):
            seen = dropout(unit, _FORGETS, self.training)
            hidden = dropout(gelu(inner(seen)), _DROPS, self.training)
            shares.append(outer(hidden) + direct(seen))
        return torch.cat(shares, -1)


class TextLesson(Lesson):
    """Teaches the caption encoder texts that no image has."""

    options: TextOptions

    def __init__(self, sources: TextSources, options: TextOptions) -> None:
        """Take the texts, and how much each kind of them counts."""
        super().__init__()
        self._sources, self.options = sources, options

    def fingerprint(self) -> Any:
        """Return the options and what distinguishes the texts."""
        return [super().fingerprint(), self._sources.fingerprint()]

    def vocabulary(self, config: TrainingConfig) -> Vocabulary:
        """Return the words of all texts."""
        try:
            return Vocabulary.build(self._sources.features.texts, config.min_word_count)
        except ValueError:
            raise FeaturesError(
                f"the texts in {self._sources.features.folder} have no word that comes "
                f"{config.min_word_count:,} times: give more texts, or lower min_word_count"
            ) from None

    def prepare(
        self, config: TrainingConfig, dataset: Dataset, images: ImageInput, model: OrderEmbedding
    ) -> None:
        """Number all texts and make the teacher.

        Raises:
            FeaturesError: a caption or a text has no features.
        """
        sources, shape = self._sources, model.config
        self._images, found = images, sources.features
        captions = [caption.text for caption in dataset.captions]
        self._captions = found.rows_of(captions, "captions")
        numbered = [model.vocabulary.encode(text, shape.max_words) for text in found.texts]
        self._tokens = TokenTable(numbered, config.unknown_rate)
        self._derived = self._classes = None
        if sources.chains:
            self._derived = DerivedTexts(dataset.images, sources.chains)
            self._derived_rows = found.rows_of(self._derived.texts, "derived texts")
        if sources.classes and sources.class_weights is not None:
            self._classes = ClassPictures(
                sources.classes, sources.class_weights, sources.class_features
            )
            self._class_rows = found.rows_of(self._classes.texts, "names of classes")
        torch.manual_seed(config.seed)
        self.teacher = TextTeacher(found.rows.shape[1], shape.dimension, shape.ensemble)

    def begin(self, model: OrderEmbedding) -> None:
        """Start word vectors as the main axes of the sentence encoder's features of words."""
        features, words = self._sources.features, model.vocabulary.words
        at = [row for row, word in enumerate(words) if word in features.row_of]
        rows = [features.row_of[words[row]] for row in at]
        half = features.rows.shape[1] // 2
        means = normalize(torch.from_numpy(features.rows[rows, :half].astype(np.float32)))
        means = means - means.mean(0)
        dimension = model.config.word_dimension
        axes = torch.linalg.eigh(means.T @ means).eigenvectors.flip(1)[:, :dimension]
        vectors = means @ axes
        vectors = vectors * (_SPREAD / vectors.std())
        with torch.no_grad():
            for encoder in model.captions.encoders:
                encoder.embedding.weight[torch.tensor(at) + len(SPECIAL), : vectors.shape[1]] = (
                    vectors.to(encoder.embedding.weight)
                )

    def read(self, rows: BatchRows, draw: np.random.Generator) -> tuple[Tensor, ...]:
        """Read features of the captions; other texts; derived texts; and pictures of classes.

        The first are (C, F). The second are tokens, lengths and features. The third, if there are
        any, are rows (D,) of the batch's images, then tokens, lengths and features of a text for
        each, then which texts hold of which images, (D, D). The last, if there are any, are
        features of pictures, then the same as for derived texts.
        """
        features = self._sources.features
        others = draw.integers(len(features.texts), size=self.options.other_texts)
        derived: tuple[Tensor, ...] = ()
        if self._derived is not None:
            places, texts, holds = self._derived.draw(rows.images, draw)
            read = self._texts(self._derived_rows[texts], draw)
            derived = (torch.from_numpy(places), *read, torch.from_numpy(holds))
        classes: tuple[Tensor, ...] = ()
        if self._classes is not None:
            count = self.options.class_pictures
            some = rows.inputs[draw.integers(len(rows.inputs), size=count)]
            made, texts, holds = self._classes.draw(self._images.read(some, draw), draw)
            read = self._texts(self._class_rows[texts], draw)
            classes = (made, *read, torch.from_numpy(holds))
        own = torch.from_numpy(features.rows[self._captions[rows.captions]].astype(np.float32))
        return own, *self._texts(others, draw), *derived, *classes

    def _texts(self, texts: Rows, draw: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens, the lengths and the features of texts."""
        features = torch.from_numpy(self._sources.features.rows[texts].astype(np.float32))
        return *self._tokens.tokens(texts, draw), features

    def loss(self, model: OrderEmbedding, batch: EncodedBatch, *read: Tensor) -> Tensor:
        """Return the teacher's own loss and the weighted losses of all that was read, ()."""
        own, tokens, lengths, features, *more = read
        total = batch.pair_loss(batch.images, self._taught(model, own), batch.owners, batch.true)
        others = model.caption_points(tokens, lengths)
        missed = self._missed(model, batch.captions, own) + self._missed(model, others, features)
        total = total + self.options.distillation * missed
        if self._derived is not None:
            places, *texts = more[:5]
            found = self._pair_losses(model, batch, batch.images[places], *texts)
            total, more = total + self.options.derived * found, more[5:]
        if self._classes is not None:
            pictures, *texts = more
            found = self._pair_losses(model, batch, model.feature_points(pictures), *texts)
            total = total + self.options.classes * found
        return total

    def _pair_losses(
        self, model: OrderEmbedding, batch: EncodedBatch, images: Tensor, *texts: Tensor
    ) -> Tensor:
        """Return the losses of images and a text of each, by the model and by the teacher."""
        tokens, lengths, features, holds = texts
        each = torch.arange(len(holds), device=holds.device)
        points = model.caption_points(tokens, lengths), self._taught(model, features)
        first, second = (batch.pair_loss(images, one, each, holds) for one in points)
        return first + second

    def _taught(self, model: OrderEmbedding, features: Tensor) -> Tensor:
        """Return the teacher's points of texts: (B, F) -> (B, N)."""
        return model.to_points(self.teacher(features))

    def _missed(self, model: OrderEmbedding, points: Tensor, features: Tensor) -> Tensor:
        """Return one minus the mean cosine of points of texts and the teacher's points of them."""
        self.teacher.eval()
        with torch.no_grad():
            target = self._taught(model, features)
        self.teacher.train()
        return (1 - (points * target).sum(-1)).mean()
