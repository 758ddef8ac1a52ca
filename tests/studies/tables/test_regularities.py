from __future__ import annotations

from pathlib import Path

from hasse.models.datasets import Caption, Dataset, Image
from hasse.scenes import scene_and_captions
from hasse.studies.tables.regularities import counterfactuals, questions_in_captions


def test_counterfactuals_keep_all_but_one_colour() -> None:
    scenes = [scene_and_captions(0, "test", at)[0] for at in range(30)]
    drawn, questions = counterfactuals(scenes, 10)
    every = [scene.situation for scene in (*scenes, *drawn)]
    assert len(questions) == 10
    for question in questions:
        assert question.right
        assert question.row not in question.changed
        assert question.right < question.changed  # beside them, others keep less
        before = every[question.row]
        for row in question.right:
            after = every[row]
            assert (after.place, after.sky, after.relations) == (
                before.place,
                before.sky,
                before.relations,
            )
            pairs = zip(before.entities, after.entities, strict=True)
            ((old, new),) = [(a, b) for a, b in pairs if a != b]
            assert (new.colour, old.colour) == question.word
            assert (new.kind, new.size, new.action) == (old.kind, old.size, old.action)


def test_exchanges_of_photographs_are_read_in_their_captions() -> None:
    def image(number: int, *texts: str) -> Image:
        captions = tuple(Caption(10 * number + at, number, text) for at, text in enumerate(texts))
        return Image(number, f"{number}.jpg", Path(f"{number}.jpg"), captions=captions)

    dataset = Dataset(
        "dogs",
        (
            image(1, "a brown dog runs", "the Brown dog jumps"),
            image(2, "a black dog sits"),
            image(3, "a black dog beside a brown dog"),
            image(4, "a black and white cat"),
        ),
    )
    (question,) = questions_in_captions(dataset)
    assert (question.row, question.word) == (0, ("black", "brown"))
    assert question.right == {1}
