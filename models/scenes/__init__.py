"""The built-in collection: drawn scenes whose meaning, and so every caption's truth, is known."""

from models.scenes.captions import abstract, captions, describe, sample_statements
from models.scenes.composing import compose
from models.scenes.drawing import draw
from models.scenes.generate import generate, scene_and_captions
from models.scenes.scene import Entity, Relation, Scene, Situation, Statement
from models.scenes.truth import SceneTable, entails, holds

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
