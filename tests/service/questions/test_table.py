"""The table of questions agrees with what is made from it."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from hasse.index.types import MODES
from hasse.service.client import options
from hasse.service.questions import requests
from hasse.service.questions.handlers import HANDLERS
from hasse.service.questions.table import DIAGRAM, QUESTIONS, Question


def test_every_question_has_a_handler() -> None:
    assert set(HANDLERS) == {*QUESTIONS, DIAGRAM}


@pytest.mark.parametrize(
    ("typed", "model", "own"),
    [
        (options.Options, requests.SearchOptions, set()),
        (options.ImageOptions, requests.ImageOptions, set()),
        (options.DistinctOptions, requests.DistinctOptions, set()),
        (options.DistinctOptions, requests.CaptionQuery, {"image"}),
    ],
)
def test_typed_options_are_the_fields_of_the_request(
    typed: type, model: type[requests.SearchOptions], own: set[str]
) -> None:
    assert set(get_type_hints(typed)) == set(model.model_fields) - own


def test_modes_are_those_of_the_index() -> None:
    assert get_args(requests.Mode) == MODES


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.request.__name__)
def test_parts_and_picture_of_a_question_are_fields_of_its_request(
    question: Question[Any, Any],
) -> None:
    parts = question.request.parts
    assert set(parts) <= set(question.request.model_fields)
    assert question.picture in {"", *parts}
