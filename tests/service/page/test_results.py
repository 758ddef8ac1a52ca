"""What pages show of answers: captions without repeats, notices and proofs."""

from __future__ import annotations

import pytest

from hasse.service.page.query import PageQuery
from hasse.service.page.results import (
    Ranked,
    ShownPicture,
    distinct,
    images_of,
    proof_of,
)
from hasse.service.questions.answers import CaptionAnswer, CaptionHit, SameCaption, Work
from hasse.service.questions.requests import Mode
from hasse.service.schemas import ImageRecord
from hasse.service.telemetry.stages import Stages


def stages(seconds: float = 0.0124) -> Stages:
    """Stages of a search that took so long."""
    found = Stages()
    found.seconds["total"] = seconds
    return found


def caption_answer(
    *hits: tuple[int, str, float],
    mode: Mode = "certified",
    certified: bool = True,
    searched: int = 2000,
) -> CaptionAnswer:
    """An answer with hits given as image id, caption and violation."""
    return CaptionAnswer(
        hits=[
            CaptionHit(
                rank=at + 1,
                caption_id=at,
                image_id=image_id,
                path="a.jpg",
                paths=["a.jpg"],
                caption=text,
                written_by=None,
                violation=violation,
                probability=None,
                same=[],
            )
            for at, (image_id, text, violation) in enumerate(hits)
        ],
        mode=mode,
        certified=certified,
        searched=searched,
        rescored=3,
        plan="1 scan",
        work=Work(scanned=3, proposed=0, bounded=0, checked=0, survivors=0, bytes=0),
        model="tiny",
        generation=1,
    )


def test_images_of_a_caption_are_those_of_all_that_read_the_same() -> None:
    answer = caption_answer((1, "a dog", 0.1), (3, "a cat", 0.2))
    same = [SameCaption(caption_id=at, image_id=image) for at, image in ((5, 2), (6, 1), (7, 2))]
    dog, cat = answer.hits[0].model_copy(update={"same": same}), answer.hits[1]
    assert (images_of(dog), images_of(cat)) == ([1, 2], [3])


def test_stored_picture_is_shown_as_a_preview() -> None:
    record = ImageRecord(
        image_id=3,
        file_name="3.png",
        path="sea/3.png",
        paths=["sea/3.png", "3.png"],
        width=64,
        height=48,
        split="",
        added="2026-01-01T00:00:00Z",
        captions=[],
        image_url="/file",
        thumbnail_url="/thumbnail",
    )
    shown = ShownPicture.stored(record, PageQuery(k=12))
    assert (shown.url, shown.file_url, shown.alt) == ("/images/3/preview/medium", "/file", "3.png")
    assert shown.pixels == (64, 48)
    assert shown.link == "/?image=3&k=12"


def captions(*probabilities: float | None) -> list[CaptionHit]:
    (hit,) = caption_answer((1, "a dog", 0.1)).hits
    return [
        hit.model_copy(update={"rank": at, "probability": p}) for at, p in enumerate(probabilities)
    ]


def test_ranked_divides_hits_by_their_verdicts_and_keeps_their_order() -> None:
    hits = captions(0.6, 0.1, None, 0.3)
    ranked = Ranked.of(hits)
    assert (ranked.likely, ranked.nearest) == ([hits[0], hits[3]], [hits[1], hits[2]])
    assert ranked.verdict == "shows"
    assert Ranked.of(hits[1:3]).verdict == "not"
    assert Ranked.of(hits[3:]).verdict == "may_show"


def test_ranked_without_any_probability_doubts_no_hit() -> None:
    hits = captions(None, None)
    ranked = Ranked.of(hits)
    assert (ranked.likely, ranked.nearest, ranked.verdict) == (hits, (), None)
    assert Ranked.of([]).verdict is None


def test_distinct_keeps_the_first_of_captions_that_read_the_same() -> None:
    assert distinct(["a dog runs", "a dog", "A dog runs."]) == ["a dog runs", "a dog"]


@pytest.mark.parametrize(
    ("mode", "certified", "proof", "words"),
    [
        ("certified", True, "proved", "Checked all 2,000 captions in 12 ms"),
        ("exact", True, "proved", "Compared all 2,000 captions one by one in 12 ms"),
        ("fast", True, "proved", "Checked all 2,000 captions in 12 ms"),
        ("fast", False, "likely", "Searched all 2,000 captions in 12 ms; a good one may be missed"),
    ],
)
def test_proof_of_claims_a_proof_only_if_there_is_one(
    mode: Mode, certified: bool, proof: str, words: str
) -> None:
    found = proof_of(caption_answer(mode=mode, certified=certified), "caption", stages())
    assert (found.kind, found.sentence) == (proof, words)


def test_proof_of_takes_at_least_1_ms() -> None:
    found = proof_of(caption_answer(), "caption", stages(0.0001))
    assert found.sentence.endswith(" in 1 ms")


def test_proof_of_one_and_of_none_says_so() -> None:
    found = proof_of(caption_answer(searched=1), "picture", stages())
    assert found.sentence == "Checked the only picture in 12 ms"
    found = proof_of(caption_answer(searched=0), "caption", stages())
    assert found.sentence == "There are no captions here to search"
