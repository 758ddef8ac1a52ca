"""`hasse lab`: from captioned pictures to a model, and what that model can do."""

from __future__ import annotations

from hasse.service.cli.model.data import data
from hasse.service.cli.model.embed import embed
from hasse.service.cli.model.evaluate import evaluate
from hasse.service.cli.model.features import features
from hasse.service.cli.model.model import model
from hasse.service.cli.model.train import train
from hasse.service.cli.terminal.help_text import Commands, join_lines

lab = Commands(
    no_args_is_help=True,
    help=join_lines("""Make and measure models: datasets, features, training.

    \b
    [bold]A model of your own, from captioned pictures[/bold]
      hasse lab data import folder ~/Pictures --out data/mine
      hasse lab features data/mine --download-weights --out data/mine-features
      hasse lab train data/mine --features data/mine-features \\
          --out data/mine-model
      hasse index build data/mine --model data/mine-model --out data/mine-index
    """),
)
lab.add_typer(data, name="data")
lab.add(features)
lab.add(train)
lab.add(evaluate)
lab.add(embed)
lab.add_typer(model, name="model")
