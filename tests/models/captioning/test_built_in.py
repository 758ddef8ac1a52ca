"""The built-in captioner keeps its promises on scenes that it has never seen."""

from __future__ import annotations

from hasse.models.captioning.checkpoint import load
from hasse.models.captioning.writing import Writer, folder_of, load_writer
from hasse.models.checkpoints import checkpoint, named_models
from hasse.scenes import draw, holds, scene_and_captions
from hasse.scenes.reading import names_main_thing, read
from tests.service.collection import picture

COUNT = 24


def test_first_captions_written_for_scenes_are_true_and_name_what_is_done() -> None:
    encoder = checkpoint.load(named_models.pretrained("scenes"))
    writer = Writer(encoder, load(folder_of(encoder), encoder))
    scenes = [scene_and_captions(0, "test", at)[0] for at in range(COUNT)]
    points = encoder.model.encode_images([draw(scene, 192) for scene in scenes])
    first = [writer.describe(point)[0] for point in points]
    said = [read(one.text) for one in first]
    true = [one is not None and holds(one, scene) for one, scene in zip(said, scenes, strict=True)]
    named = [names_main_thing(one, scene) for one, scene in zip(said, scenes, strict=True)]
    assert sum(true) >= 0.85 * COUNT
    assert sum(map(min, true, named)) >= 0.3 * COUNT
    assert all((one.probability or 0) > 0.5 for one in first)


def test_captions_written_for_noise_by_the_model_of_photographs_are_not_called_certain() -> None:
    encoder = checkpoint.load(named_models.pretrained("photographs"))
    writer = load_writer(encoder)
    (point,) = encoder.model.encode_images([picture(0, (300, 300))])
    written = writer.describe(point)
    assert all(one.text and (one.probability or 0) < 0.9 for one in written)
