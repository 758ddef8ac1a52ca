"""Answers put into words, bars and links."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.evaluation.calibration import Calibration
from service.core.stages import Stages
from service.errors import ServiceError
from service.page.scale import Scale
from service.page.views import DEFAULT_SIZE, Query, cards, doubt, folding, lines, links, verdict
from service.schemas import CaptionAnswer, CaptionHit, ImageAnswer, ImageHit, Mode
from service.settings import Settings

SETTINGS = Settings()


def stages(seconds: float = 0.0124) -> Stages:
    """A stopwatch that was stopped."""
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
                caption=text,
                violation=violation,
                probability=None,
            )
            for at, (image_id, text, violation) in enumerate(hits)
        ],
        mode=mode,
        certified=certified,
        searched=searched,
        rescored=3,
        model="tiny",
        generation=1,
    )


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40),
    st.integers(1, 1000),
    st.sampled_from(["certified", "exact", "fast"]),
)
def test_an_address_is_read_back_as_the_query_it_was_made_from(
    text: str, k: int, mode: Mode
) -> None:
    query = Query(text=" ".join(text.split()), k=k, mode=mode)
    parts = {name: values[0] for name, values in parse_qs(urlsplit(query.url()).query).items()}
    assert Query.read(parts, SETTINGS) == query


def test_an_address_leaves_out_what_is_usual() -> None:
    assert Query().url() == "/"
    assert Query(text="a dog & a cat").url() == "/?q=a+dog+%26+a+cat"
    assert Query(image_id=7, k=48).url() == "/?image=7&k=48"
    assert Query(image_id=0).url() == "/?image=0"
    assert Query(k=12, mode="exact").picture_url() == "/page/picture?k=12&mode=exact"


def test_links_keep_the_options_and_change_the_question() -> None:
    query = Query(text="a dog", k=96, mode="fast")
    assert query.of_image(5) == "/?image=5&k=96&mode=fast"
    assert query.of_text("a cat") == "/?q=a+cat&k=96&mode=fast"


@pytest.mark.parametrize("k", ["", "0x10", "-3", "¾", "many", "9" * 30])
def test_options_that_make_no_sense_are_the_usual_ones(k: str) -> None:
    query = Query.read({"q": "a dog", "k": k, "mode": "sideways"}, SETTINGS)
    assert query == Query(text="a dog", k=DEFAULT_SIZE, mode="certified")


def test_more_results_than_allowed_are_as_many_as_allowed() -> None:
    assert Query.read({"k": "5000"}, SETTINGS).k == SETTINGS.k_maximum
    assert Query.read({"k": "0"}, SETTINGS).k == 1


@pytest.mark.parametrize(
    "image", ["dog", "-1", "1.5", "²", "9" * 19, "9" * 400, "0" * 5000, "0" * 20 + "9" * 20]
)
def test_what_is_no_number_of_an_image_is_not_found(image: str) -> None:
    with pytest.raises(ServiceError) as caught:
        Query().about(image)
    assert caught.value.reason == "not_found"


def test_words_win_over_an_image_and_an_image_left_blank_is_none() -> None:
    assert Query(text="a dog").about("5") == Query(text="a dog")
    assert Query(k=7).about(" ") == Query(k=7)


def test_captions_that_say_the_same_are_one_line_with_their_pictures() -> None:
    answer = caption_answer(
        (1, "a dog", 0.1),
        (2, "A dog.", 0.1),
        (2, "a  dog!", 0.1),
        (3, "a cat", 0.2),
        (4, "a dog", 0.3),
        (5, "a dog", 0.3),
    )
    dog, cat = lines(answer, Query(), Scale.even(), lambda _: True)
    assert (dog.text, dog.count, dog.more) == ("a dog", 4, 1)
    assert [image.thumbnail_url for image in dog.images] == [
        f"/images/{n}/thumbnail" for n in (1, 2, 4)
    ]
    assert dog.fit == Scale.even().fit(0.1)
    assert (cat.text, cat.count, cat.more) == ("a cat", 1, 0)


def test_a_picture_is_told_by_its_first_caption_or_its_name() -> None:
    hits = [
        ImageHit(
            rank=at + 1,
            image_id=at,
            file_name=f"{at}.png",
            violation=0.1,
            probability=None,
            captions=captions,
            image_url="",
            thumbnail_url="",
        )
        for at, captions in enumerate((["a dog", "an animal"], []))
    ]
    facts = caption_answer().model_dump() | {"hits": hits, "unknown_words": []}
    told, untold = cards(ImageAnswer.model_validate(facts), Query(), Scale.even())
    assert (told.alt, untold.alt) == ("a dog", "1.png")
    assert [link.text for link in told.captions] == ["a dog", "an animal"]


def test_nothing_is_said_of_how_a_caption_fits_of_which_the_model_knows_no_word() -> None:
    answer = caption_answer((1, "zorp glim", 0.0), (2, "a dog", 0.0))
    nonsense, dog = lines(answer, Query(), Scale.even(), lambda text: text == "a dog")
    assert (nonsense.fit.percent, nonsense.fit.word) == (0, "unknown words")
    assert (dog.fit.percent, dog.fit.word) == (100, "fits")


def test_doubt_is_told_of_the_first_caption_that_says_something() -> None:
    known = Calibration((0.1, 0.2), (0.9, 0.3), 0.15, 10, 4)
    nonsense = (1, "zorp glim", 0.0)

    def told(*hits: tuple[int, str, float]) -> str:
        return doubt(caption_answer(*hits), [known], "Unlikely", lambda text: text != "zorp glim")

    assert told(nonsense, (2, "a dog", 0.2)) == "Unlikely. The nearest come first."
    assert told(nonsense, (2, "a dog", 0.15)) == ""  # at the threshold it is true
    assert told(nonsense) == ""


def test_no_more_lines_are_shown_than_were_asked_for() -> None:
    answer = caption_answer(*((n, f"thing {n}", 0.1) for n in range(30)))
    assert len(lines(answer, Query(k=12), Scale.even(), lambda _: True)) == 12


def test_a_picture_that_says_a_thing_twice_is_quoted_once_in_its_own_order() -> None:
    found = links(["a dog runs", "a dog", "A dog runs."], Query())
    assert [link.text for link in found] == ["a dog runs", "a dog"]


@pytest.mark.parametrize(
    ("mode", "certified", "proof", "words"),
    [
        ("certified", True, "proved", "The best 2 of 2,000 captions, proved exact, in 12 ms"),
        ("exact", True, "proved", "The best 2 of 2,000 captions, every one compared, in 12 ms"),
        ("fast", True, "proved", "The best 2 of 2,000 captions, proved exact, in 12 ms"),
        (
            "fast",
            False,
            "likely",
            "The best 2 of 2,000 captions, found in 12 ms, likely but not proved",
        ),
    ],
)
def test_the_verdict_claims_a_proof_only_where_there_is_one(
    mode: Mode, certified: bool, proof: str, words: str
) -> None:
    found = verdict(caption_answer(mode=mode, certified=certified), 2, "caption", stages())
    assert (found.proof, found.sentence) == (proof, words)


def test_no_answer_claims_to_have_taken_no_time() -> None:
    found = verdict(caption_answer(), 2, "caption", stages(0.0001))
    assert found.sentence.endswith(", in 1 ms")


def test_a_small_collection_is_shown_whole() -> None:
    for searched, words in ((1, "The only picture"), (2, "All 2 pictures, the best first")):
        found = verdict(caption_answer(searched=searched), searched, "picture", stages())
        assert found.sentence == f"{words}, proved exact, in 12 ms"
    found = verdict(caption_answer(searched=0), 0, "caption", stages())
    assert found.sentence == "There are no captions here to search"


def test_what_is_folded_is_never_more_than_one_answer_may_hold() -> None:
    few = Settings(k_maximum=30)
    assert folding(Query.read({"k": "1000"}, SETTINGS), SETTINGS).k == SETTINGS.k_maximum
    assert folding(Query.read({"k": "12"}, few), few).k == few.k_maximum
