"""The built-in collection: drawn scenes whose meaning, and so every caption's truth, is known."""

from hasse.models.datasets.scenes.captions import abstract, captions, describe, sample_statements
from hasse.models.datasets.scenes.composing import compose
from hasse.models.datasets.scenes.drawing.scene import draw
from hasse.models.datasets.scenes.entailment import SceneTable, entails, holds
from hasse.models.datasets.scenes.generate import generate, scene_and_captions
from hasse.models.datasets.scenes.scene import Entity, Relation, Scene, Situation, Statement

__all__ = [
    "Entity",
    "Relation",
    "Scene",
    "SceneTable",
    "Situation",
    "Statement",
    "abstract",
    "captions",
    "compose",
    "describe",
    "draw",
    "entails",
    "generate",
    "holds",
    "sample_statements",
    "scene_and_captions",
]
