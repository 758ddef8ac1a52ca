"""The built-in models describe pictures that they have never seen."""

from __future__ import annotations

from hasse.models.captioning.phrases import PhraseWriter
from hasse.models.checkpoints import checkpoint, named_models
from hasse.scenes import draw, holds, scene_and_captions
from hasse.scenes.reading import names_main_thing, read
from tests.service.collection import picture

COUNT = 24


def test_first_captions_of_scenes_are_true_and_name_what_is_done() -> None:
    encoder = checkpoint.load(named_models.pretrained("scenes"))
    writer = PhraseWriter(encoder)
    scenes = [scene_and_captions(0, "test", at)[0] for at in range(COUNT)]
    points = encoder.model.encode_images([draw(scene, 192) for scene in scenes])
    first = [read(writer.describe(point)[0].text) for point in points]
    true = [
        statement is not None and holds(statement, scene)
        for statement, scene in zip(first, scenes, strict=True)
    ]
    main = [
        names_main_thing(statement, scene) for statement, scene in zip(first, scenes, strict=True)
    ]
    assert sum(true) >= 0.85 * COUNT
    assert sum(map(min, true, main)) >= 0.5 * COUNT


def test_captions_of_noise_by_the_model_of_photographs_are_not_called_certain() -> None:
    encoder = checkpoint.load(named_models.pretrained("photographs"))
    (point,) = encoder.model.encode_images([picture(0, (300, 300))])
    captions = PhraseWriter(encoder).describe(point)
    assert all(caption.text and caption.probability < 0.9 for caption in captions)
