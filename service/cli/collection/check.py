"""`hasse check`: tells whether a caption is true of a picture or follows from a caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import Asked, answer_to, import_numpy
from hasse.service.cli.collection.hits import warn_of_unknown_words
from hasse.service.cli.collection.parts import checked_text, names_picture, parse_part
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Json, Place
from hasse.service.questions import table
from hasse.service.questions.requests import EntailsQuery
from hasse.service.verdict import CLAIM_WORDS, TEXT_WORDS, percent, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasse.service.questions.answers import Entailment
    from hasse.service.questions.requests import Part
    from hasse.service.settings import Settings
    from hasse.service.verdict import Verdict


def check(
    *,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="PICTURE", help="Its path, or the id of one in the library; or a text."
        ),
    ],
    words: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="What may be true of it, or follow from it.")
    ],
    where: Annotated[
        bool, typer.Option("--where", help="Say where in the picture the named things are.")
    ] = False,
    as_json: Json = False,
    place: Place,
) -> None:
    """Tell whether a text is true of a picture, or follows from another text.

    It needs no library.

    \b
    Examples:
      hasse check photo.jpg a dog on a beach --where
      hasse check "a poodle on a beach" "an animal outdoors"
    """
    part, text = _pair(subject, words)
    if where and isinstance(part, str):
        raise CommandError("a text has no places: name a picture, or leave --where out")
    answer = _judged(place.settings(), {"premise": part, "hypothesis": text, "where": where})
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    meanings = TEXT_WORDS if isinstance(part, str) else CLAIM_WORDS
    typer.echo(_sentence(answer, meanings))
    for line in _places(answer):
        typer.echo(line)
    warn_of_unknown_words(answer)


def _pair(subject: str, words: Sequence[str]) -> tuple[Part, str]:
    """Return what is given and the text that may be true of it; a picture may come last too."""
    if len(words) == 1 and names_picture(words[0]):
        subject, words = words[0], [subject]
    if any(names_picture(word) for word in words):
        raise CommandError("name one picture, and a text: 'hasse like' compares pictures")
    part = parse_part(subject)
    if isinstance(part, str) and len(words) > 1:
        raise CommandError("put two texts in quotes, as in: hasse check 'a poodle' 'an animal'")
    return part, checked_text(" ".join(words))


def _judged(settings: Settings, fields: dict[str, Any]) -> Entailment:
    """Judge a pair: by the library only where it names one of its images."""
    premise = fields["premise"]
    if isinstance(premise, int):
        answer: Entailment = answer_to(settings, Asked(table.ENTAILS, fields))
        return answer
    import_numpy()
    from hasse.service.errors import validated
    from hasse.service.questions import entails
    from hasse.service.runtime import loading

    request = validated(EntailsQuery, fields)
    is_picture = isinstance(premise, bytes)
    loaded = loading.ModelLoader(settings, is_picture, one_off=True).alone()
    picture = None
    if isinstance(premise, bytes):
        from hasse.models.images.decoding import open_picture

        side = loaded.model.preprocessing.resize * (entails.ENLARGEMENT if request.where else 1)
        picture = open_picture(premise, settings.picture_limits, side)
    return entails.answer_without_index(loaded, request, picture)


def _sentence(answer: Entailment, words: Mapping[Verdict, str]) -> str:
    if answer.probability is not None:
        return f"{words[verdict(answer.probability)]}: {percent(answer.probability)} likely"
    if answer.unknown_words:
        return "hard to say: the model knows no word of a caption"
    return f"hard to say: the model {answer.model} is not calibrated for such a pair"


def _places(answer: Entailment) -> list[str]:
    """Return a line for each thing that was found, or one that says that none was."""
    if answer.where is None:
        return []
    return [
        f"{one.text}: {one.left:.0%} to {one.right:.0%} from the left, "
        f"{one.top:.0%} to {one.bottom:.0%} from the top"
        for one in answer.where
    ] or ["it names nothing that the model can point at here"]
