"""What images say is found, in SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import log1p
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sql

from hasse.index.catalog.database import STATEMENTS
from hasse.index.catalog.documents import merge
from hasse.index.catalog.schema import DOCUMENTS
from hasse.index.catalog.searches import save_search, saved_searches
from hasse.index.catalog.selection import Selection
from hasse.index.catalog.text_search import (
    CountCache,
    DocumentCounts,
    TextMatches,
    match_texts,
)
from hasse.index.search.query import Query
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.text.query import Form, ResolvedTerm, TextQuery
from hasse.index.text.spelling import inflections, off_by_one
from hasse.index.types import CaptionRow, ImageRow, Metadata, PathRow, VersionRow
from hasse.index.verify import verify
from tests.index.samples import embeddings, model
from tests.postgresql import new_database, place_catalog

CAPTIONS = {
    1: "our cat Felix",
    2: "a cat on a sofa",
    3: "Straßenbahn in 東京都庁",
    5: "wifi password: 1234",
    6: "password for the wifi",
    11: "Köln, Ｄｏｍ ﬁnal № 7",
    12: "서울에서 만난 친구",
    13: "مُحَمَّد",
    14: "תִּקּוּן",
}
METADATA = {
    8: Metadata(
        (("title", "Sunset & sea"), ("keyword", "Ostsee"), ("camera", "Canon EOS 5D")),
        "Canon EOS 5D",
        4,
        52.5,
        13.4,
    ),
    9: Metadata((), "", None, -89.99, 179.0),
}
KNOWN = {"cat", "dog", "sofa", "password", "sunset"}  # to the model


@pytest.fixture(params=["sqlite", "postgresql"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    folder = tmp_path / "index"
    if request.param == "sqlite":
        with filled(folder) as made:
            yield made
    else:
        with new_database() as url, filled(place_catalog(folder, url)) as made:
            yield made


def filled(folder: Path) -> Index:
    index = Index.create(folder, model())
    rows = [
        ImageRow(id_, f"IMG_20{id_:02}.jpg", f"/home/x/IMG_20{id_:02}.jpg") for id_ in range(40)
    ]
    captions = [CaptionRow(id_, id_, text) for id_, text in CAPTIONS.items()]
    captions.append(CaptionRow(90, 4, "a dog", "some model"))
    points = embeddings(np.random.default_rng(0), 40 + len(captions), 16)
    paths = {row.id: [PathRow(row.id, row.path)] for row in rows}
    paths[7] = [PathRow(7, "/home/x/Paris weekend/day 1/a.jpg", "/home/x/Paris weekend")]
    index.change(Change(rows, points[:40], captions, points[40:], paths=paths, metadata=METADATA))
    return index


def found(
    index: Index,
    query: str,
    selection: Selection | None = None,
    knows: Collection[str] = frozenset(KNOWN),
) -> TextMatches:
    with index.catalog.searching() as connection:
        chosen = selection.conditions(connection, index.folder) if selection else ()
        read = TextQuery.read(query)
        return match_texts(
            connection,
            read,
            lambda word: word.lower() in knows,
            100,
            DocumentCounts(40, {}),
            chosen,
        )


@pytest.mark.parametrize(
    ("query", "image"),
    [
        ("our cat Felix", 1),
        ("FÉLIX", 1),
        ("strassenbahn", 3),
        ("東京", 3),
        ("都庁", 3),
        ("koln dom", 11),
        ("final", 11),
        ("№ 7 Köln", 11),
        ("IMG_2017", 17),
        ("img_2017.jpg", 17),
        ("2033", 33),
        ("paris", 7),
        ("weekend day", 7),
        ("Ostsee", 8),
        ("canon sea", 8),
        ("osts", 8),  # the beginning of a word
        ("서울", 12),  # of two syllables, before a particle
        ("محمد", 13),  # without vowel marks
        ("תקון", 14),
    ],
)
def test_image_that_says_the_words_is_found_alone(index: Index, query: str, image: int) -> None:
    assert found(index, query).all_words == (image,)


@pytest.mark.parametrize(
    ("query", "image"),
    [
        ("felxi", 1),  # off by one letter
        ("felx", 1),
        ("weeknd", 7),
        ("our cat felxi", 1),
        ("033", 33),  # a part of a word
    ],
)
def test_word_that_nothing_knows_is_found_by_what_resembles_it(
    index: Index, query: str, image: int
) -> None:
    answer = found(index, query)
    assert answer.resembling == (image,) or image in answer.partial
    assert not answer.all_words
    assert not answer.unknown_words


@pytest.mark.parametrize("query", ["sofas", "dogs", "cats", "sunsets"])
def test_known_word_is_found_in_its_plural_and_singular(index: Index, query: str) -> None:
    index.change(Change(texts={"text in the picture": {20: ["the dog and"]}}))
    answer = found(index, query, knows={"sofas", "dogs", "cats", "sunsets"})
    assert answer.all_words
    assert not answer.terms[0].is_corrected


@pytest.mark.parametrize("query", ["beach", "deer", "two", "cat", "sun", "wi"])
def test_known_word_is_not_found_in_words_that_resemble_it(index: Index, query: str) -> None:
    words = ["the old bench", "beer", "network", "concatenated category", "sunset", "wifi"]
    index.change(
        Change(removed_captions=[1, 2], texts={"text in the picture": {20: words}}),
    )
    answer = found(index, query, knows={query})
    assert answer.all_words + answer.partial + answer.resembling == ()


def test_question_looks_all_misspelt_words_up_in_few_statements(index: Index) -> None:
    before = STATEMENTS.sent
    answer = found(index, " ".join(["weeknd", "felxi", "sonset", "strassenbahm", "zeeman"] * 9))
    assert STATEMENTS.sent - before <= 7
    assert {term.text for term in answer.terms} >= {"weekend", "felix", "sunset"}


def test_word_that_is_not_said_any_more_is_no_correction(index: Index) -> None:
    index.change(Change(texts={"text in the picture": {10: ["felxy"], 20: ["felixi"]}}))
    index.remove([10])
    answer = found(index, "felxi")
    assert answer.terms[0].text in {"felix", "felixi"}
    index.change(Change(removed_captions=[1], texts={"text in the picture": {20: []}}))
    assert found(index, "felxi").terms == ()


def test_catalog_without_the_words_of_texts_gets_them_when_it_is_opened(index: Index) -> None:
    if not index.catalog.is_server:
        return  # SQLite reads them from the text index
    with index.catalog.writing() as connection:
        connection.exec_driver_sql("DROP TABLE documents_vocabulary")
        connection.exec_driver_sql("DROP FUNCTION add_terms CASCADE")
    with Index.open(index.folder, verify="sizes") as opened:
        assert found(opened, "felxi").resembling == (1,)
        opened.change(Change(texts={"text in the picture": {10: ["zeppelin"]}}))
        assert found(opened, "zepelin").resembling == (10,)


def test_words_that_the_model_does_not_know_are_names(index: Index) -> None:
    answer = found(index, "felix sleeping on the sofa")
    assert answer.unknown_words == (1,)
    assert not answer.all_words


def test_words_that_the_model_knows_are_not_taken_for_others(index: Index) -> None:
    assert not found(index, "dog").all_words
    assert found(index, "sunse").all_words == (8,)
    assert found(index, "dog").partial == (4,)  # what a model wrote


def test_captions_of_a_model_are_found_after_those_of_people(index: Index) -> None:
    assert found(index, "cat").all_words == (2, 1)
    assert found(index, "a dog").partial == (4,)


@pytest.mark.parametrize("query", ["100% ", "fel%x", "f_lix", '" OR *', "東都", "home", "zzzz"])
def test_wildcards_operators_and_folders_above_find_nothing(index: Index, query: str) -> None:
    answer = found(index, query)
    assert answer.all_words + answer.unknown_words + answer.partial + answer.resembling == ()


@pytest.mark.parametrize(
    ("selection", "images"),
    [
        (Selection(phrases=("wifi password",)), {5}),
        (Selection(excluded_phrases=("cat", "wifi"), image_ids=(1, 2, 3, 5)), {3}),
        (Selection(camera="eos 5d"), {8}),
        (Selection(camera="%"), set()),
        (Selection(rating=4), {8}),
        (Selection(rating=5), set()),
        (Selection(near=(52.51, 13.39, 5)), {8}),
        (Selection(near=(52.51, 13.39, 1)), set()),
        (Selection(near=(-90, -100, 2)), {9}),
        (Selection(near=(-89.99, -179.0, 1)), {9}),
        (Selection(near=(0, 0, 21_000)), {8, 9}),
        (Selection(has_place=True), {8, 9}),
        (Selection(has_place=False), set(range(40)) - {8, 9}),
    ],
)
def test_selection_by_metadata_and_texts(
    index: Index, selection: Selection, images: set[int]
) -> None:
    every = np.arange(40)
    assert set(selection.ids(index.catalog, index.folder, "image", every).tolist()) == images


def test_search_of_a_selection_finds_only_what_is_selected(index: Index) -> None:
    assert found(index, "cat", Selection(image_ids=(1,))).all_words == (1,)


def test_text_index_follows_changes(index: Index) -> None:
    index.change(Change(texts={"text in the picture": {10: ["Total 12,50 EUR"]}}))
    assert found(index, "total eur").all_words == (10,)
    index.change(Change(removed_captions=[1], metadata={8: Metadata()}))
    assert not found(index, "felix").all_words
    assert not found(index, "ostsee").all_words
    index.remove([10])
    assert not found(index, "total").all_words
    assert verify(index.folder).findings == ()


def test_verify_names_a_text_index_that_lags_and_rebuilding_mends_it(index: Index) -> None:
    with index.catalog.writing() as connection:
        connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.image_id == 1))
    (finding,) = verify(index.folder).findings
    assert "is out of date for 1 images" in finding
    with index.writing() as writer:
        writer.rebuild_text_index()
    assert verify(index.folder).ok
    assert found(index, "felix").all_words == (1,)


def test_both_databases_answer_200_queries_as_reading_every_document_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    syllables = ["ba", "ki", "lo", "mü", "ß", "京", "ta", "ne", "2", "é", "ru", "so"]
    lexicon = ["".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(60)]
    texts = [" ".join(rng.choice(lexicon, rng.integers(1, 9))) for _ in range(400)]
    queries = [" ".join(rng.choice(lexicon, rng.integers(1, 4))) for _ in range(120)]
    queries += [query[1:] for query in queries[:40]] + [query[:-1] for query in queries[:40]]
    answers: list[list[TextMatches]] = []
    others: list[list[object]] = []
    with new_database() as url:
        for folder in (tmp_path / "index", place_catalog(tmp_path / "server", url)):
            with Index.create(folder, model()) as index:
                rows = [ImageRow(id_, f"{id_}.jpg", "") for id_ in range(100)]
                captions = [
                    CaptionRow(at, at % 100, text, None if at % 9 else "a model")
                    for at, text in enumerate(texts)
                ]
                points = embeddings(np.random.default_rng(0), 500, 16)
                titles = {at: Metadata((("title", text),)) for at, text in enumerate(texts[:50])}
                same = [VersionRow(id_, "ab", id_ // 7 * 7) for id_ in range(100)]
                own = {"metadata": titles, "versions": same}
                index.change(Change(rows, points[:100], captions, points[100:], **own))  # type: ignore[arg-type]
                save_search(index.catalog, "ä", '{"caption":"京"}', [2**60, 1])
                known = KNOWN | set(lexicon[::2])
                hits, _ = index.catalog.image_hits(range(100))
                every = np.arange(100)
                others.append(
                    [
                        index.catalog.hit_texts(hits),
                        index.versions(Query("image", 5), range(100)),
                        [(one.name, one.seen) for one in saved_searches(index.catalog)],
                        *(
                            sorted(one.ids(index.catalog, folder, "image", every).tolist())
                            for query in queries[:20]
                            for one in (
                                Selection(phrases=(query,)),
                                Selection(excluded_phrases=(query, "京")),
                            )
                        ),
                        *(
                            index.search(Query("image", 5, selection=one), points[0]).ids.tolist()
                            for one in (Selection(phrases=(query,)) for query in queries[:20])
                        ),
                    ]
                )
                counts = DocumentCounts(100, {})
                with index.catalog.reading() as connection:
                    stored = connection.execute(sql.select(DOCUMENTS)).all()
                    # Again with counts that are known.
                    for _ in range(2):
                        answers.append(
                            [
                                match_texts(connection, one, known.__contains__, 20, counts)
                                for one in map(TextQuery.read, queries)
                            ]
                        )
    assert len(queries) == 200
    documents = {id_: (human, written) for id_, human, written, _ in stored}
    expected = [read_one_by_one(documents, TextQuery.read(one), known, 20) for one in queries]
    for each in answers:
        assert [
            (one.all_words, one.unknown_words, one.partial, one.resembling) for one in each
        ] == expected
    assert others[0] == others[1]
    assert sum(bool(one.all_words) for one in answers[0]) > 50


def _padded(term: ResolvedTerm) -> str:
    """Return what a text with a space at both ends has in it if it contains a term."""
    before, after = {"word": (" ", " "), "beginning": (" ", ""), "part": ("", "")}[term.form]
    return f"{before}{term.text}{after}"


def read_one_by_one(
    documents: dict[int, tuple[str, str]], query: TextQuery, known: set[str], limit: int
) -> tuple[tuple[int, ...], ...]:
    """Return what `match_texts` should, of documents (human, written) by id: read every one."""

    def saying(*wanted: ResolvedTerm, column: int = 0) -> list[int]:
        texts = {id_: f" {texts[column]} " for id_, texts in documents.items()}
        patterns = [_padded(one) for one in wanted]
        return sorted(id_ for id_ in texts if all(one in texts[id_] for one in patterns))[::-1]

    if not query.terms:
        return (), (), (), ()
    resolved = []
    for term in query.terms:
        knows = term.written in known
        forms = [ResolvedTerm(term, term.folded, "word", knows)]
        if knows:
            others = inflections(term.folded)
        else:
            if len(term.folded) >= 3:
                unknown_forms: tuple[Form, ...] = ("beginning", "part")
                forms += [ResolvedTerm(term, term.folded, form, knows) for form in unknown_forms]
            is_long = len(term.folded) >= 4 and " " not in term.folded
            others = list(off_by_one(term.folded)) if is_long else []
        forms += [ResolvedTerm(term, word, "word", knows) for word in others]
        resolved += [next((one for one in forms if saying(one)), None)]
    found = [one for one in resolved if one is not None]
    exact = [one for one in found if not one.only_resembles]
    whole = saying(*found)[:limit] if len(found) == len(resolved) and exact == found else []
    unknown = [one for one in found if not one.known]
    names, resembling = [], []
    if unknown and all(one in exact for one in unknown):
        names = [id_ for id_ in saying(*unknown)[:limit] if id_ not in whole]
    if exact != found:
        resembling = saying(*unknown)[:limit]
    weights = {one: log1p(len(documents) / len(saying(one))) for one in found}
    total = (len(resolved) - len(found)) * log1p(len(documents))
    said_of = dict.fromkeys(documents, 0.0)
    for one in found if len(resolved) > 1 else ():
        total += weights[one]
        for id_ in saying(one)[:limit] if one in exact else ():
            said_of[id_] += weights[one]
    some = [id_ for id_ in documents if said_of[id_] and said_of[id_] >= 0.4 * total]
    some = sorted(some, key=lambda id_: (-said_of[id_], -id_))[:limit]
    written = saying(
        *(ResolvedTerm(one, one.folded, "word", known=True) for one in query.terms), column=1
    )
    less = dict.fromkeys((*written[:limit], *some))
    something = [id_ for id_ in less if id_ not in whole and id_ not in names]
    last = [id_ for id_ in resembling if id_ not in {*whole, *names, *less}]
    return tuple(whole), tuple(names), tuple(something[:limit]), tuple(last)


def test_counts_are_of_one_generation_and_never_none(index: Index) -> None:
    kept = CountCache()
    counts = kept.of(1, 40)
    with index.catalog.reading() as connection:
        match_texts(connection, TextQuery.read("cat zzzz"), KNOWN.__contains__, 100, counts)
    assert counts.documents == {("cat", "word"): 2}
    assert kept.of(1, 40).documents is counts.documents
    assert kept.of(2, 40).documents == {}


def test_merging_lists_leaves_one_for_each_word(tmp_path: Path) -> None:
    parts = sql.text("SELECT count(DISTINCT segid) FROM documents_words_idx")
    with filled(tmp_path / "index") as index:
        for id_ in range(20, 22):
            index.change(Change(texts={"text in the picture": {id_: ["a cat at sea"]}}))
        before = found(index, "cat")
        with index.catalog.reading() as connection:
            assert connection.execute(parts).scalar_one() > 1
        with index.catalog.writing() as connection:
            merge(connection)
            assert connection.execute(parts).scalar_one() == 1
        assert found(index, "cat") == before
        assert verify(index.folder).findings == ()


def test_server_without_trigrams_finds_parts_of_words(tmp_path: Path) -> None:
    with new_database() as url, filled(place_catalog(tmp_path / "index", url)) as index:
        with index.catalog.creating() as connection:
            connection.execute(sql.text("DROP INDEX IF EXISTS ix_documents_trigrams"))
        assert found(index, "033").resembling == (33,)
