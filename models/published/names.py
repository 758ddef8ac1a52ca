"""Published models by short names: what `hasse use NAME` downloads after a yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model on the Hugging Face hub.

    Attributes:
        name: the short name.
        repository: on the hub; of ONNX graphs exported by immich.
        licence: of the weights, as their makers state it.
        languages: of the texts that it knows.
    """

    name: str
    repository: str
    licence: str
    languages: str


PUBLISHED: Mapping[str, PublishedModel] = {
    model.name: model
    for model in (
        PublishedModel("clip", "immich-app/ViT-B-32__laion2b-s34b-b79k", "MIT", "English"),
        PublishedModel(
            "clip-multilingual",
            "immich-app/XLM-Roberta-Base-ViT-B-32__laion5b_s13b_b90k",
            "MIT",
            "about 100 languages",
        ),
        PublishedModel(
            "siglip", "immich-app/ViT-B-16-SigLIP2__webli", "Apache-2.0", "many languages"
        ),
    )
}
