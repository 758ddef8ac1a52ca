"""`hasse check`: judges whether a caption is true of a picture, or follows from a caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hasse.service.cli.collection.asking import FilledQuestion, answer_question, import_numpy
from hasse.service.cli.collection.hits import warn_of_unknown_words
from hasse.service.cli.collection.parts import is_picture_name, parse_part, parse_text
from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.options import Json, LibraryOptions
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
    library: LibraryOptions,
) -> None:
    """Tell whether a text is true of a picture, or follows from another text.

    It needs no library.

    \b
    Examples:
      hasse check photo.jpg a dog on a beach --where
      hasse check "a poodle on a beach" "an animal outdoors"
    """
    part, text = _parse_pair(subject, words)
    if where and isinstance(part, str):
        raise CommandError("a text has no places: name a picture, or leave --where out")
    answer = _judge(library.settings(), {"premise": part, "hypothesis": text, "where": where})
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
        return
    verdict_words = TEXT_WORDS if isinstance(part, str) else CLAIM_WORDS
    typer.echo(_sentence(answer, verdict_words))
    for line in _box_lines(answer):
        typer.echo(line)
    warn_of_unknown_words(answer)


def _parse_pair(subject: str, words: Sequence[str]) -> tuple[Part, str]:
    """Return the picture or text, and the text that may be true of it. A picture may be last."""
    if len(words) == 1 and is_picture_name(words[0]):
        subject, words = words[0], [subject]
    if any(is_picture_name(word) for word in words):
        raise CommandError("name one picture, and a text: 'hasse like' compares pictures")
    part = parse_part(subject)
    if isinstance(part, str) and len(words) > 1:
        raise CommandError("put two texts in quotes, as in: hasse check 'a poodle' 'an animal'")
    return part, parse_text(" ".join(words))


def _judge(settings: Settings, fields: dict[str, Any]) -> Entailment:
    """Judge a pair. The library is opened only for the id of an image."""
    premise = fields["premise"]
    if isinstance(premise, int):
        answer: Entailment = answer_question(settings, FilledQuestion(table.ENTAILS, fields))
        return answer
    import_numpy()
    from hasse.service.core import loading
    from hasse.service.errors import validated
    from hasse.service.questions import entails

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


def _box_lines(answer: Entailment) -> list[str]:
    """Return a line for each thing that the model located, or one line if there is none."""
    if answer.where is None:
        return []
    return [
        f"{box.text}: {box.left:.0%} to {box.right:.0%} from the left, "
        f"{box.top:.0%} to {box.bottom:.0%} from the top"
        for box in answer.where
    ] or ["it names nothing that the model can point at here"]
