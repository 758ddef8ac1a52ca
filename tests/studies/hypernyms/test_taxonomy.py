from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hasse.studies.hypernyms.taxonomy import Concept, HypernymError, Taxonomy, read_wordnet
from hasse.studies.wordnet.synsets import AbstractionError
from tests.studies.hypernyms.dictionary import SMALL, lines, offset, write


def named(taxonomy: Taxonomy, concept: int) -> str:
    return taxonomy.concepts[concept].name


def test_hypernyms_and_instances_are_read_and_other_pointers_are_not(tmp_path: Path) -> None:
    taxonomy = read_wordnet(write(tmp_path))
    found = {(named(taxonomy, a), named(taxonomy, b)) for a, b in taxonomy.edges.tolist()}
    assert found == {
        (word, above.removeprefix("@i "))
        for word, all_above in SMALL.items()
        for above in all_above
    }
    dog = taxonomy.concepts[taxonomy.senses("dog")[0]]
    assert dog.words == ("dog", "dog_thing")
    assert dog.key == offset("dog")
    assert dog.gloss == 'what a dog is; "a dog!"'


def test_a_hypernym_that_is_named_twice_is_above_once(tmp_path: Path) -> None:
    taxonomy = read_wordnet(write(tmp_path, {"entity": (), "object": ("entity", "@i entity")}))
    assert taxonomy.edges.tolist() == [[1, 0]]


def test_a_hypernym_of_another_part_of_speech_is_none(tmp_path: Path) -> None:
    text = "\n".join(lines()).replace("+ 00000002 v", "@ 00000002 v")
    (tmp_path / "data.noun").write_text(text)
    assert read_wordnet(tmp_path).edges.tolist() == read_wordnet(write(tmp_path)).edges.tolist()


def test_only_a_new_line_ends_a_synset(tmp_path: Path) -> None:
    line = "00001740 03 n 01 entity 0 000 | what is \u2028 or \x0c was\n"
    (tmp_path / "data.noun").write_text(line, encoding="utf-8")
    (concept,) = read_wordnet(tmp_path).concepts
    assert concept.gloss == "what is \u2028 or \x0c was"


def test_the_file_may_be_named_instead_of_its_folder(tmp_path: Path) -> None:
    assert len(read_wordnet(write(tmp_path) / "data.noun")) == len(SMALL)


def test_an_edge_of_the_closure_is_counted_once_for_each_path(tmp_path: Path) -> None:
    taxonomy = read_wordnet(write(tmp_path))
    pairs, ways = taxonomy.paths()
    found = Counter(
        {
            (named(taxonomy, a), named(taxonomy, b)): w
            for (a, b), w in zip(pairs.tolist(), ways.tolist(), strict=True)
        }
    )
    assert found["dog", "animal"] == 1
    assert found["dog", "object"] == found["Rex", "entity"] == 2
    assert ("animal", "dog") not in found
    assert len(pairs) == len({tuple(pair) for pair in pairs.tolist()}) == 23
    concepts = [Concept(name, (name,)) for name in "abc"]
    both_ways = Taxonomy(concepts, np.array([[0, 1], [0, 2], [1, 2]])).paths()
    assert dict(zip(map(tuple, both_ways[0].tolist()), both_ways[1].tolist(), strict=True)) == {
        (0, 1): 1,
        (0, 2): 2,
        (1, 2): 1,
    }


def test_a_circle_is_named(tmp_path: Path) -> None:
    round_about = dict(SMALL) | {"animal": ("object", "poodle")}
    with pytest.raises(HypernymError, match=r"circle: (?=.*animal)(?=.*poodle)(?=.*dog)"):
        read_wordnet(write(tmp_path, round_about))


def test_a_long_circle_is_named_by_its_ends(tmp_path: Path) -> None:
    words = "abcdefghijk"
    circle = {word: (words[(at + 1) % len(words)],) for at, word in enumerate(words)}
    name = r"\w \(\d+\)"
    ends = rf"circle: ({name} -> ){{4}}\.\. 4 more \.\. -> ({name} -> ){{3}}{name};"
    with pytest.raises(HypernymError, match=ends):
        read_wordnet(write(tmp_path, circle))


def test_words_are_counted_in_hexadecimal(tmp_path: Path) -> None:
    words = " ".join(f"word{at} 0" for at in range(10))
    (tmp_path / "data.noun").write_text(f"00001740 03 n 0a {words} 000 | ten words\n")
    (concept,) = read_wordnet(tmp_path).concepts
    assert concept.words == tuple(f"word{at}" for at in range(10))


def test_a_pointer_to_no_synset_is_named_with_its_line(tmp_path: Path) -> None:
    kept = [line for line in lines() if not line.startswith(offset("pet"))]
    (tmp_path / "data.noun").write_text("\n".join(kept))
    with pytest.raises(HypernymError, match=rf"line 5: dog .* points to {offset('pet')}"):
        read_wordnet(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not a synset at all", "not an offset"),
        ("00001740 03 n 01 entity 0 003 @ 00001930 n", "ends too early"),
        ("00001740 03 n 05 entity 0", "list index|ends too early"),
        ("00001740 03 n zz entity 0 000 | x", "invalid literal"),
        ("00001740 29 v 01 breathe 0 000 | x", "of type 'v'"),
        ("00001740 03 n 00 000 | x", "no words"),
        ("1740", "list index|not an offset"),
    ],
)
def test_a_line_that_is_no_synset_is_named(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "data.noun").write_text(f"{lines()[1]}\n{line}\n")
    with pytest.raises(AbstractionError, match=rf"line 2 is no synset \(.*({reason})"):
        read_wordnet(tmp_path)


def test_a_synset_that_comes_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.noun").write_text("\n".join([*lines(), lines()[1]]))
    with pytest.raises(HypernymError, match="line 10: synset 00001000 comes twice"):
        read_wordnet(tmp_path)


def test_what_is_not_wordnet_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(AbstractionError, match=r"no file .*data\.noun: .*apt-get"):
        read_wordnet(tmp_path)
    with pytest.raises(AbstractionError, match="there is no file"):
        read_wordnet(tmp_path / "nowhere")
    (tmp_path / "data.noun").mkdir()
    with pytest.raises(AbstractionError, match="cannot be read: it is not a file"):
        read_wordnet(tmp_path)
    (tmp_path / "data.noun").rmdir()
    (tmp_path / "data.noun").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AbstractionError, match="not UTF-8 text"):
        read_wordnet(tmp_path)
    with pytest.raises(AbstractionError, match="there is no file"):
        read_wordnet(tmp_path / "data.noun" / "deeper")
    (tmp_path / "data.noun").write_text("  1 only the licence\n\n")
    with pytest.raises(HypernymError, match="no synset"):
        read_wordnet(tmp_path)


def test_the_likeliest_meaning_of_a_word_comes_first(tmp_path: Path) -> None:
    words = {"entity": (), "rex": ("entity",)} | {k: v for k, v in SMALL.items() if k != "entity"}
    taxonomy = read_wordnet(write(tmp_path, words))
    assert [named(taxonomy, at) for at in taxonomy.senses("Rex")] == ["Rex", "rex"]
    assert [named(taxonomy, at) for at in taxonomy.senses("dog thing")] == ["dog"]
    assert taxonomy.senses("unicorn") == []
    assert taxonomy.senses(offset("cat", words)) == taxonomy.senses("cat")


def test_of_several_meanings_the_one_that_is_called_so_first_and_written_so_comes_first() -> None:
    called = (("hound", "dog"), ("Dog",), ("dog", "hound"), ("cat",))
    concepts = [Concept(f"{at}", words) for at, words in enumerate(called)]
    taxonomy = Taxonomy(concepts, np.empty((0, 2), dtype=np.int64))
    assert taxonomy.senses(" dog ") == [2, 0, 1]
    assert taxonomy.senses("1") == [1], "by its key"
    assert Concept("5", ("hot_dog", "frank")).name == "hot dog"
