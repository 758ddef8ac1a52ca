"""Train a captioner on the captions of a dataset, and measure its texts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image as Picture
from PIL.Image import fromarray

from hasse.lab.evaluation.ranking import best_ranks
from hasse.lab.pipelines.dataset_encoding import encode_dataset
from hasse.lab.pipelines.training import ProgressBars, split_for_training
from hasse.lab.pipelines.training_inputs import Collections
from hasse.lab.training.run import Progress, Stop
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Dataset, Image
from hasse.models.embedding_model import Points
from hasse.models.score import penalties_between
from hasse.scenes import Scene, holds
from hasse.scenes.reading import names_main_thing, read
from hasse.service.writing.image_source import ImageSource
from hasse.studies.captioner import DRAWS
from hasse.studies.captioner.building import Prepared
from hasse.studies.captioner.caption_metrics import bleu, cider
from hasse.studies.captioner.checkpoint import CaptionerCheckpoint, save
from hasse.studies.captioner.corpus import Sentence, sentences
from hasse.studies.captioner.judgement import Judgement, JudgementInputs
from hasse.studies.captioner.judging import learn
from hasse.studies.captioner.language_model import LanguageModel
from hasse.studies.captioner.ranking import CandidateScores, rank
from hasse.studies.captioner.training import CaptionerTraining
from hasse.studies.captioner.writing import Writer
from hasse.studies.wordnet.lexicon import Lexicon

RANKINGS = ("order", "paper")


@dataclass(frozen=True, slots=True)
class CaptionerRequest:
    """Arguments of `hasse study captioner train`.

    Attributes:
        lexicon: knows the parts of speech.
        source: of the points of validation pictures, which are read only where the truth of any
            text is known.
    """

    dataset: Dataset
    encoder: Checkpoint
    config: CaptionerTraining
    lexicon: Lexicon
    source: ImageSource

    def prepared(self, bars: ProgressBars) -> Prepared:
        """Read and encode the captions.

        Raises:
            DatasetError: there is nothing to learn from, or nothing to validate by.
        """
        train, validation = (self._sentences(part, bars) for part in self._parts)
        return Prepared.of(train, validation, self.encoder, self.config.min_word_count)

    @property
    def _parts(self) -> Collections:
        return split_for_training(self.dataset, "train", "val")

    def _sentences(self, part: Dataset, bars: ProgressBars) -> list[Sentence]:
        with bars("reading captions") as progress:
            return sentences(part, self.lexicon, progress)

    def train(
        self,
        prepared: Prepared,
        out: Path,
        bars: ProgressBars,
        report: Callable[[Progress[float]], None],
        stop: Stop,
    ) -> CaptionerCheckpoint:
        """Train and write the captioner, which is written after each better epoch, too."""
        started = time.monotonic()

        def keep(model: LanguageModel, perplexity: float) -> CaptionerCheckpoint:
            captioner = prepared.captioner(model, self.encoder)
            metrics = {
                "dataset": self.dataset.name,
                "captions": len(prepared.train),
                "perplexity": perplexity,
                "seconds": round(time.monotonic() - started, 1),
            }
            best = CaptionerCheckpoint(
                captioner, self.encoder.fingerprint, asdict(self.config), None, metrics
            )
            save(best, out, self.encoder.name)
            return best

        run = prepared.training(self.config, self.encoder, keep)
        run.run(report, stop)
        best = keep(run.best, -run.notes["best"])
        validation = self._parts[1]
        if all(image.meaning is not None for image in validation.images):
            best = replace(best, judgement=self._judgement(best, validation, bars))
            save(best, out, self.encoder.name)
        return best

    def _judgement(
        self, captioner: CaptionerCheckpoint, validation: Dataset, bars: ProgressBars
    ) -> Judgement | None:
        """Learn to judge captions written for validation pictures, and for pictures of nothing."""
        writer, model = Writer(self.encoder, captioner), self.encoder.model
        with bars("judging written captions") as progress:
            encoded = encode_dataset(model, validation, self.source, progress)
            nothing = model.encode_images(pictures_of_nothing(max(1, len(encoded.images) // 10)))
            images: list[Image | None] = [*encoded.dataset.images, *[None] * len(nothing)]
            seen: list[JudgementInputs] = []
            true: list[list[bool]] = []
            for image, point in zip(images, (*encoded.images, *nothing), strict=True):
                candidates = writer.draw(point)
                points = model.encode_captions(candidates.texts)
                judged = writer.judge(point, candidates, points)
                if judged.inputs is not None:
                    seen.append(judged.inputs)
                    true.append(
                        [image is not None and is_true(text, image) for text in candidates.texts]
                    )
        return learn(seen, true, self.config.seed) if seen else None


def _without_truth(judged: CandidateScores) -> CandidateScores:
    """Return texts that are ranked as in the paper, which knows nothing of truth."""
    return replace(judged, probability=None)


def pictures_of_nothing(number: int, size: int = 128) -> list[Picture]:
    """Return pictures that no caption is true of: one colour, or noise around it."""
    draw = np.random.default_rng(0)
    pictures = []
    for _ in range(number):
        colour, noise = draw.uniform(0, 255, 3), draw.choice((0, 20, 80))
        pixels = draw.normal(colour, noise, (size, size, 3)).clip(0, 255).astype(np.uint8)
        pictures.append(fromarray(pixels))
    return pictures


def is_true(text: str, image: Image) -> bool:
    """Tell whether a text is true of a drawn scene; an unreadable one is not."""
    statement = read(text)
    return statement is not None and holds(statement, Scene.from_json(image.meaning or {}))


@dataclass(frozen=True, slots=True)
class CaptionerEvaluation:
    """Measures the first caption that is written for each picture of a split.

    Attributes:
        draws: texts drawn for a picture.
    """

    writer: Writer
    dataset: Dataset
    source: ImageSource
    draws: int = DRAWS

    def run(self, bars: ProgressBars) -> dict[str, Any]:
        """Return the figures of both rankings as plain values."""
        model = self.writer.encoder.model
        with bars("encoding") as progress:
            encoded = encode_dataset(model, self.dataset, self.source, progress)
        written: dict[str, list[str]] = {by: [] for by in RANKINGS}
        random, seconds = [], []
        choose = np.random.default_rng(0)
        with bars("writing") as progress:
            for at, point in enumerate(encoded.images, start=1):
                started = time.perf_counter()
                candidates = self.writer.draw(point, self.draws)
                points = model.encode_captions(candidates.texts)
                judged = self.writer.judge(point, candidates, points)
                for by, known in zip(RANKINGS, (judged, _without_truth(judged)), strict=True):
                    written[by].append(rank(known, candidates)[0].text)
                seconds.append(time.perf_counter() - started)
                likely = (
                    judged.probability if judged.probability is not None else -judged.violations
                )
                near = np.argsort(-likely, kind="stable")[: max(1, len(likely) // 4)]
                random.append(candidates.texts[choose.choice(near)])
                progress(at, len(encoded.images))
        images = encoded.dataset.images
        return {
            "dataset": self.dataset.name,
            "images": len(images),
            "draws": self.draws,
            "milliseconds": 1e3 * float(np.median(seconds)),
            "perplexity": self.writer.captioner.metrics["perplexity"],
            **{by: self._figures(written[by], images, encoded.images) for by in RANKINGS},
            "random likely text": self._figures(random, images, encoded.images),
        }

    def _figures(
        self, texts: list[str], images: tuple[Image, ...], points: Points
    ) -> dict[str, Any]:
        """Measure one text for each picture."""
        model = self.writer.encoder.model
        known = [[caption.text for caption in image.captions] for image in images]
        encoded = model.encode_captions(texts)
        ranks = np.concatenate(
            [
                best_ranks(
                    penalties_between(model.config.score, points, encoded[at : at + 1]).T,
                    np.arange(len(points))[None] == at,
                )[0]
                for at in range(len(texts))
            ]
        )
        figures: dict[str, Any] = {
            "bleu": bleu(texts, known),
            "cider": cider(texts, known),
            "copied": 100 * float(self.writer.captioner.captioner.in_training(texts).mean()),
            "words": float(np.mean([len(text.split()) for text in texts])),
            "median_rank_of_picture": float(np.median(ranks)),
            "mean_rank_of_picture": float(np.mean(ranks)),
        }
        if all(image.meaning is not None for image in images):
            true = np.array(
                [is_true(text, image) for text, image in zip(texts, images, strict=True)]
            )
            main = np.array(
                [
                    names_main_thing(read(text), Scene.from_json(image.meaning or {}))
                    for text, image in zip(texts, images, strict=True)
                ]
            )
            figures |= {
                "true": 100 * float(true.mean()),
                "true_main": 100 * float((true & main).mean()),
            }
        return figures
