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

if TYPE_CHECKING:
    from hasse.service.questions.answers import Entailment


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

    The answer is yes if the violation is below the threshold of the model's calibration.

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
    typer.echo(_sentence(answer))
    warn_of_unknown_words(answer)


def _sentence(answer: Entailment) -> str:
    violation = f"violation {answer.violation:.4f}"
    if answer.threshold is None:
        return f"{violation}; the model is not calibrated for such a pair, so there is no yes or no"
    if answer.probability is None:
        return f"{violation}; the model knows no word of a caption, so there is no yes or no"
    return (
        f"{'yes' if answer.entailed else 'no'}: {violation}, and pairs up to "
        f"{answer.threshold:.4f} are called true; {answer.probability:.0%} likely"
    )
