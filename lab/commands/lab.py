"""`hasse lab`: the group of commands that make, measure and try models."""

from __future__ import annotations

from hasse.lab.commands.data import data
from hasse.lab.commands.embed import embed
from hasse.lab.commands.evaluate import evaluate
from hasse.lab.commands.features import features
from hasse.lab.commands.group import NeedsTorch
from hasse.lab.commands.index import index
from hasse.lab.commands.model import model
from hasse.lab.commands.train import train
from hasse.service.cli.collection.captions import captions
from hasse.service.cli.serving.key import key
from hasse.service.cli.terminal.help_text import Commands

lab = Commands(
    cls=NeedsTorch,
    help="""Make and measure models: datasets, features, training.

    \b
    A model of your own, from captioned pictures:
      hasse lab data import folder ~/Pictures --out data/mine
      hasse lab features data/mine --out data/mine-features
      hasse lab train data/mine --features data/mine-features \\
          --out data/mine-model
      hasse lab index build data/mine --model data/mine-model \\
          --library data/mine-library
    """,
)
lab.add_typer(data, name="data")
lab.add(features)
lab.add(train)
lab.add(evaluate)
lab.add(embed)
lab.add(captions)
lab.add_typer(index, name="index")
lab.add(key)
lab.add_typer(model, name="model")
