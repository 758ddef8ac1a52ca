"""`hasse entails`: is this true of that? From the shell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.collection.search import answered, part, sayable, tell_unknown
from service.cli.terminal.configuration import configure
from service.cli.terminal.options import Json, ServiceDevice, ServiceIndex, ServiceModel

if TYPE_CHECKING:
    from service.core.engine import Engine
    from service.lattice_schemas import Entailment


def entails(
    *,
    premise: Annotated[
        str,
        typer.Argument(help="Words, the path of a picture, or the number of a stored image."),
    ],
    hypothesis: Annotated[str, typer.Argument(help="The caption that may be true of it.")],
    index: ServiceIndex = None,
    model: ServiceModel = None,
    device: ServiceDevice = None,
    as_json: Json = False,
) -> None:
    """Tell whether a caption is true of a picture, or follows from another caption.

    The verdict is that of the model's calibration: what violates less than its threshold is
    called true.

    \b
    [bold]Examples[/bold]
      hasse entails photo.jpg "a dog on a beach"
      hasse entails "a poodle on a beach" "an animal outdoors"
    """
    settings = configure(index=index, model=model, device=device)
    given, said = part(premise), sayable(hypothesis)

    async def ask(engine: Engine) -> Entailment:
        from service.core import lattice
        from service.core.stages import Stages

        return await lattice.entails(engine, given, said, Stages())

    answer = asyncio.run(answered(settings, ask, [given]))
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    typer.echo(_sentence(answer))
    tell_unknown(answer)


def _sentence(answer: Entailment) -> str:
    if answer.threshold is None:
        return f"violation {answer.violation:.4f}; the model was not calibrated to say more"
    if answer.probability is None:
        return (
            f"violation {answer.violation:.4f}; of a caption without a word that the model knows "
            "it says no more"
        )
    return (
        f"{'yes' if answer.entailed else 'no'}: {answer.probability:.0%} likely; violation "
        f"{answer.violation:.4f}, true below {answer.threshold:.4f}"
    )
