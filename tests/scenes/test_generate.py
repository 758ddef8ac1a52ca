"""Scenes of a seed: the same ones every time, and all of them drawable."""

from __future__ import annotations

import json
from hashlib import sha256
from random import Random

from hasse.scenes import Scene, compose, draw, scene_and_captions
from hasse.scenes.concepts import leaves


def test_every_leaf_appears_and_every_scene_can_be_drawn() -> None:
    seen: set[str] = set()
    for index in range(1200):
        scene = scene_and_captions(8, "train", index)[0]
        seen.update(entity.kind for entity in scene.situation.entities)
        seen.add(scene.situation.place or "")
        if index < 300:
            assert draw(scene, 48).size == (48, 48)
    for root in ("person", "animal", "thing", "outdoors", "indoors"):
        assert set(leaves(root)) <= seen


def test_look_changes_the_picture_and_not_the_meaning() -> None:
    scene = compose(Random(9))
    other = Scene(scene.situation, scene.look + 1)
    assert draw(scene, 64).tobytes() == draw(scene, 64).tobytes()
    assert draw(scene, 64).tobytes() != draw(other, 64).tobytes()


def test_scenes_of_a_seed_are_those_of_earlier_versions() -> None:
    """The checkpoint `scenes` and published figures are of these pictures and captions."""
    pixels, meanings = sha256(), sha256()
    for index in range(40):
        scene, statements = scene_and_captions(0, "train", index)
        said = [statement.to_json() for statement in statements]
        meanings.update(json.dumps([scene.to_json(), said]).encode())
        pixels.update(draw(scene, 96).tobytes())
    assert meanings.hexdigest().startswith("c4f2c80c2f6a37be9950ba71")
    assert pixels.hexdigest().startswith("396945060eeb72d3dde53107")
