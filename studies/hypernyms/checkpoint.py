"""A learned hierarchy on disk: a folder of four files, none of which can run code.

    model.safetensors   points of concepts, the relation if there is one, the direct hypernyms
    concepts.json       what the concepts are called and mean
    config.json         how it was trained, on what, its threshold and what it measured
    SHA256SUMS          the checksums of all

The hierarchy itself is among them, so that a model can be measured and asked without the files
that it was learned from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hasse.lab.tensors import arrays, tensors
from hasse.models.checkpoints.model_folder import ModelKind
from hasse.models.checkpoints.weights import weights
from hasse.studies.hypernyms.embedding import ConceptEmbedding
from hasse.studies.hypernyms.task import Task, make_task
from hasse.studies.hypernyms.taxonomy import Concept, Edges, HypernymError, Taxonomy
from hasse.studies.hypernyms.training import HypernymTraining

CONCEPTS = "concepts.json"
KIND = ModelKind("hypernyms", "hasse study hypernyms train", 1, (CONCEPTS,))


@dataclass(frozen=True, slots=True)
class Withheld:
    """The split of the pairs: arguments of `make_task`, and the fingerprint of its result."""

    protocol: Any
    seed: int
    held_out: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class HypernymCheckpoint:
    """A loaded model, its hierarchy, and how it was trained."""

    model: ConceptEmbedding
    taxonomy: Taxonomy
    threshold: float
    withheld: Withheld
    training: HypernymTraining
    metrics: Mapping[str, Any]
    folder: Path

    def task(self) -> Task:
        """Split the hierarchy again as it was split for training.

        Raises:
            HypernymError: the split comes out differently, so test pairs may have been trained on.
        """
        withheld = self.withheld
        task = make_task(self.taxonomy, withheld.protocol, withheld.seed, withheld.held_out)
        if task.fingerprint != withheld.fingerprint:
            raise HypernymError(
                f"{self.folder}: the withheld pairs cannot be drawn again as they were (another "
                f"version of numpy?), so the test would not be fair: train the model again"
            )
        return task


def save(checkpoint: HypernymCheckpoint) -> None:
    """Write a checkpoint to its folder, each file whole or not at all."""
    model, taxonomy = checkpoint.model, checkpoint.taxonomy
    config = {
        "threshold": checkpoint.threshold,
        "withheld": asdict(checkpoint.withheld),
        "training": asdict(checkpoint.training),
        "metrics": dict(checkpoint.metrics),
    }
    concepts = [[concept.key, concept.words, concept.gloss] for concept in taxonomy.concepts]
    learned = {"points": model.points, "edges": torch.from_numpy(taxonomy.edges).int()}
    if model.relation is not None:
        learned["relation"] = model.relation
    others = {CONCEPTS: json.dumps(concepts, ensure_ascii=False).encode()}
    KIND.save(checkpoint.folder, config, arrays(learned), others)


def load(folder: Path) -> HypernymCheckpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: a file is missing, damaged, or of another kind or format; it is named.
    """
    with KIND.open(folder) as (config, _):
        training = HypernymTraining(**config["training"])
        withheld = Withheld(**config["withheld"])
        threshold, metrics = float(config["threshold"]), dict(config["metrics"])
        listed = json.loads((folder / CONCEPTS).read_bytes())
        concepts = [Concept(key, tuple(words), gloss) for key, words, gloss in listed]
        with weights(folder) as found:
            model, edges = _learned(tensors(found), len(concepts), training)
    return HypernymCheckpoint(
        model, Taxonomy(concepts, edges), threshold, withheld, training, metrics, folder
    )


def _learned(
    tensors: Mapping[str, Tensor], concepts: int, training: HypernymTraining
) -> tuple[ConceptEmbedding, Edges]:
    """Return the model and the direct hypernyms (E, 2) that the weights of a folder hold.

    Raises:
        ValueError: they do not go together.
    """
    points, edges = tensors["points"], tensors["edges"].long().numpy()
    if points.shape != (concepts, training.dimension):
        raise ValueError(f"the points of {concepts:,} concepts are {tuple(points.shape)}")
    if edges.ndim != 2 or edges.min(initial=0) < 0 or edges.max(initial=-1) >= concepts:
        raise ValueError("the hypernyms lead nowhere")
    relation = tensors.get("relation")
    if (relation is None) == (training.comparison == "bilinear"):
        raise ValueError("the relation is not what the comparison needs")
    return ConceptEmbedding(training.comparison, points, relation), edges
