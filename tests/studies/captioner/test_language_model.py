"""The structure-content language model against the equations of the paper, word by word."""

from __future__ import annotations

import torch

from hasse.models.vocabulary import PADDING
from hasse.studies.captioner.language_model import NO_TAG, LanguageModel, LanguageModelConfig

SIZES = LanguageModelConfig(word_dimension=6, slices=5, factors=4, context=2, ahead=1)
WORDS, TAGS, DIMENSION = 9, 4, 7


def tiny(config: LanguageModelConfig = SIZES) -> LanguageModel:
    torch.manual_seed(1)
    model = LanguageModel(config, WORDS, TAGS, DIMENSION)
    torch.nn.init.normal_(model.word_bias)
    torch.nn.init.normal_(model.bias)
    return model


def by_the_paper(
    model: LanguageModel, words: list[int], tags: list[int], at: int, point: torch.Tensor
) -> torch.Tensor:
    """Return the logits of word `at`, with representations that exist, as the paper writes them."""
    represented = model.word_factors.T @ model.words.T  # E: (K, V)
    r = torch.zeros(SIZES.word_dimension)
    for distance in (1, 2):
        word = words[at - distance] if at >= distance else PADDING
        r = r + model.context[distance - 1] @ represented[:, word]
    u = model.content @ point + model.bias
    for ahead in (0, 1):
        tag = tags[at + ahead] if at + ahead < len(tags) else NO_TAG
        u = u + model.structure[ahead] @ model.tags[tag]
    factors = (model.word_factors @ r) * (model.slice_factors @ u.relu())
    return model.words @ factors + model.word_bias


def test_logits_are_those_of_the_papers_equations() -> None:
    model, words, tags = tiny(), [3, 7, 5], [1, 3, 2]
    point = torch.randn(DIMENSION)
    found = model(torch.tensor([words]), torch.tensor([tags]), point[None])[0]
    expected = torch.stack([by_the_paper(model, words, tags, at, point) for at in range(3)])
    assert torch.allclose(found, expected, atol=1e-4)


def test_decoded_words_are_the_likeliest_after_those_before_them() -> None:
    model = tiny()
    tags = torch.tensor([[1, 2, 3, 1], [2, 2, NO_TAG, NO_TAG]])
    points = torch.randn(2, DIMENSION)
    words = model.decode(tags, points)
    logits = model(words, tags, points)
    logits[..., :3] = -torch.inf  # padding, the unknown word and the end are no words
    assert torch.equal(words, torch.where(tags == NO_TAG, PADDING, logits.argmax(2)))


def test_controls_do_not_depend_on_what_they_are_not_given() -> None:
    words, tags = torch.tensor([[3, 4]]), torch.tensor([[1, 2]])
    points = torch.randn(2, 1, DIMENSION)
    without = tiny(LanguageModelConfig(6, 5, 4, 2, 1, content=False))
    assert torch.equal(without(words, tags, points[0]), without(words, tags, points[1]))
    without = tiny(LanguageModelConfig(6, 5, 4, 2, 1, structure=False))
    assert torch.equal(without(words, tags, points[0]), without(words, tags.flip(1), points[0]))
