"""The built-in collection: drawn scenes whose meaning, and so every caption's truth, is known."""

from hasse.scenes.captions import abstract, captions, describe, sample_statements
from hasse.scenes.composing import compose
from hasse.scenes.drawing.scene import draw
from hasse.scenes.entailment import SceneTable, entails, holds
from hasse.scenes.generate import scene_and_captions
from hasse.scenes.scene import Entity, Relation, Scene, Situation, Statement

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
    "holds",
    "sample_statements",
    "scene_and_captions",
]
