"""`hasse entails`: tells whether a caption is true of a picture or follows from a caption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.collection.hits import warn_of_unknown_words
from hasse.service.cli.collection.parts import checked_text, parse_part
from hasse.service.cli.collection.search import ask
from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.options import Json, ServiceDevice, ServiceIndex, ServiceModel

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine
    from hasse.service.lattice_schemas import Entailment


def entails(
    *,
    premise: Annotated[
        str,
        typer.Argument(help="A caption, the path of a picture, or the id of a stored image."),
    ],
    hypothesis: Annotated[str, typer.Argument(help="The caption that may be true of it.")],
    index: ServiceIndex = None,
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
    settings = configure(index=index, model=model, device=device)
    part, caption = parse_part(premise), checked_text(hypothesis)

    async def question(engine: Engine) -> Entailment:
        from hasse.service.core import lattice
        from hasse.service.core.stages import Stages

        return await lattice.entails(engine, part, caption, Stages())

    answer = ask(settings, question, [part])
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
