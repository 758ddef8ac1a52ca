"""Learn what texts without pictures mean, from an encoder of sentences that has read many.

Beside the caption encoder learns a second one, the teacher: a small head on the features of a
frozen sentence encoder. Both learn from the same captions and images. The teacher soon also knows
where texts belong that no image has, since the features of what means the same are alike. The
caption encoder learns to put such texts where the teacher puts them (Hinton et al., "Distilling
the knowledge in a neural network"). The teacher is not part of the model.

Both may also learn from texts that follow from captions, and from pictures of classes that are
made of features; see `DerivedTexts` and `ClassPictures`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, normalize

from hasse.models.datasets import Dataset, load
from hasse.models.encoders.libraries.efficientnet_lite import classifier_weights
from hasse.models.encoders.names import LITE
from hasse.models.model import OrderEmbedding
from hasse.models.training.batches import TextInputs, TokenTable
from hasse.models.training.config import TrainingConfig
from hasse.models.training.inputs import ImageInput
from hasse.models.training.run import TrainingError
from hasse.models.vocabulary import SPECIAL, Vocabulary
from hasse.studies.photographs.chains import Chain, read_chains
from hasse.studies.photographs.class_pictures import ClassFeatures, ClassPictures
from hasse.studies.photographs.classes import PictureClass, read_classes
from hasse.studies.photographs.derived import DerivedTexts
from hasse.studies.photographs.text_features import TextFeatures

Rows = NDArray[np.int64]
PairLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

_HIDDEN = 1024
_SCALE = 10.0  # of unit features, so that a linear map's first outputs are of about unit size
_FORGETS, _DROPS = 0.1, 0.2  # shares of features, and of hidden units, left out in training
_SPREAD = 0.15  # standard deviation of the first word vectors


@dataclass(frozen=True, slots=True)
class TextSources:
    """What there is to learn from beside images and their captions.

    Attributes:
        features: of texts, all those below and the training captions among them.
        chains: texts derived from captions of training images.
        classes: what is true of the classes of the classifier of the image encoder.
        class_weights: (K, F), that classifier's weights; needed with classes.
        class_features: of real pictures of classes.
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
        """Read sources from where commands wrote them.

        Args:
            class_pictures: a dataset, and features of its pictures.
            encoder: the name of what made the features of images.

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
            None if classes is None else classifier_weights(),
            real,
        )

    def fingerprint(self) -> list[Any]:
        """Return what tells apart sources, as JSON."""
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


class TextLesson:
    """What each step of a training learns from texts.

    Attributes:
        teacher: learns with the model.
    """

    def __init__(
        self,
        sources: TextSources,
        config: TrainingConfig,
        dataset: Dataset,
        images: ImageInput,
        vocabulary: Vocabulary,
    ) -> None:
        """Number all texts.

        Args:
            dataset: of the training; its captions must have features.
            images: what is read of its images.

        Raises:
            FeaturesError: a text has no features.
        """
        self._config, self._images = config, images
        found = self._features = sources.features
        captions = [caption.text for caption in dataset.captions]
        self._captions = found.rows_of(captions, "captions")
        numbered = [vocabulary.encode(text, config.model.max_words) for text in found.texts]
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
        model = config.model
        self.teacher = TextTeacher(found.rows.shape[1], model.dimension, model.ensemble)

    def begin(self, model: OrderEmbedding) -> None:
        """Let word vectors start as the main axes of what the sentence encoder says of words."""
        words = model.vocabulary.words
        at = [row for row, word in enumerate(words) if word in self._features.row_of]
        rows = [self._features.row_of[words[row]] for row in at]
        half = self._features.rows.shape[1] // 2
        said = normalize(torch.from_numpy(self._features.rows[rows, :half].astype(np.float32)))
        said = said - said.mean(0)
        dimension = model.config.word_dimension
        axes = torch.linalg.eigh(said.T @ said).eigenvectors.flip(1)[:, :dimension]
        vectors = said @ axes
        vectors = vectors * (_SPREAD / vectors.std())
        with torch.no_grad():
            for encoder in model.captions.encoders:
                encoder.embedding.weight[torch.tensor(at) + len(SPECIAL), : vectors.shape[1]] = (
                    vectors.to(encoder.embedding.weight)
                )

    def read(
        self, rows: Rows, image_rows: Rows, captions: Rows, draw: np.random.Generator
    ) -> TextInputs:
        """Return what a step learns from.

        Args:
            rows: (B,), of the batch's images in the dataset.
            image_rows: (B,), the same in what is read of images.
            captions: (C,), of the batch's captions.
        """
        config = self._config
        others = draw.integers(len(self._features.texts), size=config.other_texts)
        derived: tuple[Tensor, ...] = ()
        if self._derived is not None:
            places, texts, holds = self._derived.draw(rows, draw)
            read = self._read(self._derived_rows[texts], draw)
            derived = (torch.from_numpy(places), *read, torch.from_numpy(holds))
        classes: tuple[Tensor, ...] = ()
        if self._classes is not None:
            some = image_rows[draw.integers(len(image_rows), size=config.class_pictures)]
            made, texts, holds = self._classes.draw(self._images.read(some, draw), draw)
            read = self._read(self._class_rows[texts], draw)
            classes = (made, *read, torch.from_numpy(holds))
        given = self._features.rows[self._captions[captions]].astype(np.float32)
        return TextInputs(torch.from_numpy(given), self._read(others, draw), derived, classes)

    def _read(self, texts: Rows, draw: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return the words, the lengths and the features of texts."""
        features = torch.from_numpy(self._features.rows[texts].astype(np.float32))
        return *self._tokens.tokens(texts, draw), features

    def loss(
        self,
        model: OrderEmbedding,
        pair_loss: PairLoss,
        images: Tensor,
        captions: Tensor,
        owners: Tensor,
        true: Tensor,
        read: TextInputs,
    ) -> Tensor:
        """Return what is to be added to the mean loss of a caption, ().

        Args:
            pair_loss: the mean loss of a caption by points of images, points of captions, owners
                and truth; see `hasse.models.training.loss`.
            images, captions, owners, true: of the batch; see `TrainingStep`.
        """
        config = self._config
        total = pair_loss(images, self._taught(model, read.captions), owners, true)
        tokens, lengths, features = read.others
        missed = self._missed(model, captions, read.captions)
        others = model.caption_points(tokens, lengths)
        missed = missed + self._missed(model, others, features)
        total = total + config.distillation * missed
        for weight, given in ((config.derived, read.derived), (config.classes, read.classes)):
            if given:
                first, tokens, lengths, features, holds = given
                seen = images[first] if given is read.derived else model.feature_points(first)
                each = torch.arange(len(holds), device=holds.device)
                for points in (
                    model.caption_points(tokens, lengths),
                    self._taught(model, features),
                ):
                    total = total + weight * pair_loss(seen, points, each, holds)
        return total

    def _taught(self, model: OrderEmbedding, features: Tensor) -> Tensor:
        """Return the teacher's points of texts: (B, F) -> (B, N)."""
        return model.to_points(self.teacher(features))

    def _missed(self, model: OrderEmbedding, points: Tensor, features: Tensor) -> Tensor:
        """Return one minus the mean cosine of points and where the teacher puts the texts."""
        self.teacher.eval()
        with torch.no_grad():
            target = self._taught(model, features)
        self.teacher.train()
        return (1 - (points * target).sum(-1)).mean()
