"""`hasse study hypernyms`: train, measure, query and draw a hierarchy of concepts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hasse.lab.commands.training_report import training_report
from hasse.service.cli.terminal.errors import CommandError, resumable
from hasse.service.cli.terminal.help_text import Commands
from hasse.service.cli.terminal.options import Json
from hasse.service.cli.terminal.progress import progress
from hasse.service.cli.terminal.table import print_table
from hasse.studies.options import Options, with_options

if TYPE_CHECKING:
    from hasse.studies.hypernyms.query import Ancestor
    from hasse.studies.hypernyms.taxonomy import Taxonomy
    from hasse.studies.labelled_pairs import Threshold

hypernyms = Commands(help="Learn from WordNet what is a kind of what, and ask.")

WordNet = Annotated[
    Path,
    typer.Argument(
        metavar="WORDNET",
        help="The folder of WordNet's database files, or its data.noun. On Debian: apt-get "
        "install wordnet-base, then /usr/share/wordnet.",
    ),
]
LearnedHierarchy = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A folder that 'hasse study hypernyms train' wrote.")
]
SLICE = (
    *("entity", "object", "organism", "animal", "dog", "cat", "horse", "bird", "plant", "tree"),
    *("person", "artifact", "vehicle", "car", "boat"),
)


ModelFolder = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Where the checkpoint goes.")
]
ProtocolName = Annotated[
    Literal["clean", "paper"],
    typer.Option(
        help="clean: no pair is both given to learn from and withheld, though most of the "
        "withheld follow from the given; false pairs are false. paper: as in the paper, where "
        "neither holds."
    ),
]
ComparisonName = Annotated[
    Literal["order", "symmetric", "bilinear"],
    typer.Option(help="How concepts are compared: order, or one of the paper's baselines."),
]
HeldOut = Annotated[
    int, typer.Option(min=1, help="True pairs withheld for validation, and as many for the test.")
]


@hypernyms.add
def train(
    *,
    wordnet: WordNet,
    out: ModelFolder,
    protocol: ProtocolName = "clean",
    comparison: ComparisonName = "order",
    held_out: HeldOut = 4000,
    options: Options = None,
) -> None:
    """Learn concepts of WordNet as points in an order, from a part of its hypernyms.

    It takes a few minutes and is not resumed: stopped, it leaves nothing.

    \b
    Examples:
      hasse study hypernyms train /usr/share/wordnet --out data/hypernyms
      hasse study hypernyms train /usr/share/wordnet --protocol paper \\
          --out data/hypernyms-paper
    """
    from hasse.studies.hypernyms import checkpoint
    from hasse.studies.hypernyms.task import make_task
    from hasse.studies.hypernyms.taxonomy import read_wordnet
    from hasse.studies.hypernyms.training import PRESETS, HypernymRun
    from hasse.studies.new_model import new_model

    config = with_options(PRESETS[comparison], options)
    taxonomy = read_wordnet(wordnet)
    task = make_task(taxonomy, protocol, config.seed, held_out)
    started = time.monotonic()
    kept = "nothing is kept; it takes a few minutes from start to end"
    with resumable(lambda: kept), new_model(out):
        with progress("training") as bar:
            report = training_report(bar, config.epochs, _summary)
            model, threshold = HypernymRun(config, task).train(report)
        metrics = {
            "validation_accuracy": 100 * threshold.accuracy,
            "edges": len(task.train),
            "seconds": round(time.monotonic() - started, 1),
        }
        withheld = checkpoint.Withheld(protocol, config.seed, held_out, task.fingerprint)
        checkpoint.save(
            checkpoint.HypernymCheckpoint(
                model, taxonomy, threshold.value, withheld, config, metrics, out
            )
        )
    typer.echo(
        f"{out}: {len(taxonomy):,} concepts, learned from {len(task.train):,} pairs; "
        f"{threshold.summary}"
    )
    typer.echo(f"next: hasse study hypernyms evaluate {out}", err=True)


@hypernyms.add
def evaluate(*, model: LearnedHierarchy, as_json: Json = False) -> None:
    """Measure a model on the pairs withheld from it, beside transitivity alone.

    The threshold is that of the validation pairs. No WordNet files are needed.
    """
    from hasse.studies.hypernyms import checkpoint, training
    from hasse.studies.labelled_pairs import print_accuracies

    loaded = checkpoint.load(model)
    task = loaded.task()
    learned = training.evaluate(loaded.model, loaded.threshold, task)
    inferred = training.evaluate_closure(task)
    if as_json:
        result = {
            "protocol": task.protocol,
            "comparison": loaded.model.comparison,
            "threshold": loaded.threshold,
            "model": learned.to_json(),
            "transitive_closure": inferred.to_json(),
            "oracle": 100 * task.oracle,
        }
        typer.echo(json.dumps(result, indent=2))
        return
    print_accuracies({"transitive closure": inferred, loaded.model.comparison: learned})
    typer.echo(
        f"percent of {learned.pairs:,} pairs called right; protocol {task.protocol}, on which full "
        f"knowledge of the hierarchy scores {100 * task.oracle:.2f}"
    )


@hypernyms.add
def query(
    *,
    word: Annotated[
        str,
        typer.Argument(metavar="WORD", help='A word ("dog", "New York"), or a synset\'s offset.'),
    ],
    model: Annotated[
        Path,
        typer.Option("--model", "-m", metavar="DIR", help="From 'hasse study hypernyms train'."),
    ] = Path("data/hypernyms"),
    sense: Annotated[
        int, typer.Option(min=1, help="Which of its meanings, if it has several.")
    ] = 1,
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=1000, help="How many at most.")] = 10,
    as_json: Json = False,
) -> None:
    """Show the concepts that a model puts above a word, from specific to general.

    \b
    Examples:
      hasse study hypernyms query dog --model data/hypernyms
      hasse study hypernyms query bank --sense 2 -k 5
    """
    from hasse.studies.hypernyms import checkpoint
    from hasse.studies.hypernyms.query import ancestors

    loaded = checkpoint.load(model)
    senses = _senses(loaded.taxonomy, word)
    if sense > len(senses):
        raise CommandError(
            f"'{word}' has no meaning {sense} here: the last --sense is {len(senses)}"
        )
    concept = senses[sense - 1]
    found = ancestors(loaded, concept, k)
    if as_json:
        result = {
            "concept": _described(loaded.taxonomy, concept),
            "ancestors": [
                _described(loaded.taxonomy, one.concept)
                | {"violation": one.violation, "known": one.known}
                for one in found
            ],
            "senses": [_described(loaded.taxonomy, one) for one in senses],
        }
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
        return
    _show_ancestors(loaded.taxonomy, concept, found)
    if len(senses) > 1:
        typer.echo(f"'{word}' has {len(senses)} meanings; another with --sense:", err=True)
        for at, other in enumerate(senses[:10], start=1):
            typer.echo(f"  {at}  {_short(loaded.taxonomy.concepts[other].gloss)}", err=True)


def _show_ancestors(taxonomy: Taxonomy, concept: int, found: Sequence[Ancestor]) -> None:
    concepts = taxonomy.concepts
    typer.echo(f"{concepts[concept].name}: {_short(concepts[concept].gloss)}")
    if not found:
        typer.echo("the model puts nothing above it")
        return
    rows = [
        (
            f"{one.violation:.4f}",
            concepts[one.concept].name,
            "yes" if one.known else "no",
            _short(concepts[one.concept].gloss),
        )
        for one in found
    ]
    print_table(("violation", "is a", "in WordNet", "meaning"), rows)


@hypernyms.add
def plot(
    *,
    wordnet: WordNet,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the picture goes: an .svg.")
    ],
    words: Annotated[
        str, typer.Option(help="The words, with commas; the likeliest meaning of each is shown.")
    ] = ",".join(SLICE),
    seed: Annotated[int, typer.Option(help="Another seed is another picture.")] = 0,
) -> None:
    """Learn a few concepts in two dimensions and draw them (the paper's Figure 2).

    Green arrows lead from a concept to what is directly above it; dashed ones are true but not
    in order, pink ones in order but not true.

    \b
    Examples:
      hasse study hypernyms plot /usr/share/wordnet --out hypernyms.svg
      hasse study hypernyms plot /usr/share/wordnet \\
          --words "animal,dog,puppy,cat" --out dogs.svg
    """
    from hasse.studies.hypernyms.plane import draw, learn_plane
    from hasse.studies.hypernyms.taxonomy import read_wordnet
    from hasse.studies.plotter import require_matplotlib

    require_matplotlib()
    taxonomy = read_wordnet(wordnet)
    chosen = [_senses(taxonomy, word)[0] for word in words.split(",") if word.strip()]
    with progress("learning") as report:
        plane = learn_plane(taxonomy, chosen, seed, report)
    draw(plane, out)
    typer.echo(
        f"{out}: {len(plane.names)} concepts, {len(plane.true) - len(plane.missed)} of "
        f"{len(plane.true)} direct hypernyms in order, {len(plane.spurious)} spurious"
    )


def _senses(taxonomy: Taxonomy, word: str) -> list[int]:
    senses = taxonomy.senses(word)
    if not senses:
        raise CommandError(
            f"WordNet's nouns have no '{word.strip()}': try its singular, or another"
        )
    return senses


def _described(taxonomy: Taxonomy, concept: int) -> dict[str, object]:
    one = taxonomy.concepts[concept]
    words = [word.replace("_", " ") for word in one.words]
    return {"key": one.key, "name": one.name, "words": words, "gloss": one.gloss}


def _short(gloss: str) -> str:
    """Return the definition without its examples, in one line of a table."""
    definition = gloss.partition('; "')[0]
    return definition if len(definition) <= 70 else f"{definition[:69].rstrip()}…"


def _summary(threshold: Threshold) -> str:
    return threshold.summary
