"""`hasse entails`: tells whether a caption is true of a picture or follows from a caption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.collection.asking import Asked, answer_to
from hasse.service.cli.collection.hits import warn_of_unknown_words
from hasse.service.cli.collection.parts import checked_text, parse_part
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.options import Json, Library, ServiceDevice, ServiceModel
from hasse.service.questions import table
from hasse.service.verdict import CLAIM_WORDS, TEXT_WORDS, percent, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasse.service.questions.answers import Entailment
    from hasse.service.verdict import Verdict


def entails(
    *,
    premise: Annotated[
        str,
        typer.Argument(help="A caption, the path of a picture, or the id of a stored image."),
    ],
    hypothesis: Annotated[str, typer.Argument(help="The caption that may be true of it.")],
    library: Library = None,
    model: ServiceModel = None,
    device: ServiceDevice = None,
    as_json: Json = False,
) -> None:
    """Tell whether a caption is true of a picture, or follows from another caption.

    The answer is a verdict and the probability that it rests on.

    \b
    [bold]Examples[/bold]
      hasse entails photo.jpg "a dog on a beach"
      hasse entails "a poodle on a beach" "an animal outdoors"
    """
    settings = configure(library=library, model=model, device=device)
    part, caption = parse_part(premise), checked_text(hypothesis)
    fields = {"premise": part, "hypothesis": caption}
    answer = answer_to(settings, Asked(table.ENTAILS, fields))
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    words = TEXT_WORDS if isinstance(part, str) else CLAIM_WORDS
    typer.echo(_sentence(answer, words))
    warn_of_unknown_words(answer)


def _sentence(answer: Entailment, words: Mapping[Verdict, str]) -> str:
    if answer.probability is not None:
        return f"{words[verdict(answer.probability)]}: {percent(answer.probability)} likely"
    if answer.unknown_words:
        return "hard to say: the model knows no word of a caption"
    return f"hard to say: the model {answer.model} is not calibrated for such a pair"
