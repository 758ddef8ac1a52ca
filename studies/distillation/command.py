"""`hasse study distill`: a small network learns the features of a larger one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.lab.commands.long_running import CONTINUE_MESSAGE, stoppable
from hasse.lab.commands.options import DatasetFolder
from hasse.lab.commands.training_report import training_report
from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.options import Device, Workers
from hasse.service.cli.terminal.progress import progress, tell
from hasse.studies.options import Options, with_options

if TYPE_CHECKING:
    from hasse.studies.distillation.pipeline import DistillationPlan

StudentFolder = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="DIR", help="Folder of the student and its state."),
]
Teacher = Annotated[
    str,
    typer.Option(
        help="A torchvision network; or a checkpoint, and the student learns only the features "
        "that distinguish captions."
    ),
]
TeacherWeights = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="those of the checkpoint",
        help="The weights of a torchvision teacher: .safetensors, or torchvision's own .pth.",
    ),
]
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        show_default="random weights",
        help="First weights of the student: a file, or a checkpoint's network (a folder, or a "
        "built-in one's name).",
    ),
]
Split = Annotated[str, typer.Option(help="The pictures to learn from; captions are not read.")]


def distill(
    *,
    dataset: DatasetFolder,
    out: StudentFolder,
    teacher: Teacher = "torchvision/mobilenet_v2",
    weights: TeacherWeights = None,
    start: Start = None,
    split: Split = "train",
    device: Device = "auto",
    workers: Workers = None,
    options: Options = None,
) -> None:
    """Train a small network to predict the features of a larger one.

    Both see the same random crops of the pictures, with changed colours and mixed with each other.
    The student predicts the teacher's features and the grids of its layers. A checkpoint as the
    teacher leaves out what no caption describes. More epochs are better, for a long time. Stop it
    at any time and run the same command to go on. The result is a file of weights for
    'hasse lab features --weights'.

    \b
    Examples:
      hasse study distill data/flickr8k --weights mobilenet_v2.safetensors \\
          --out data/student
      hasse study distill data/flickr8k --teacher data/model --set epochs=280 \\
          --out data/student
      hasse study distill data/coco --teacher torchvision/resnet50 \\
          --weights resnet50.pth --out data/student
    """
    from hasse.lab.encoders.mixed_precision import supports_bfloat16
    from hasse.service.core.device import pick_device
    from hasse.studies.distillation.distillation import DistillationConfig
    from hasse.studies.distillation.pipeline import DistillationPlan

    place = pick_device(device)
    usual = DistillationConfig(bfloat16=supports_bfloat16(place))
    config = with_options(usual, options)
    plan = DistillationPlan.of(
        config, dataset, split, teacher=teacher, weights=weights, start=start
    )
    path = _learn(plan, out, place, workers)
    typer.echo(f"{path}: weights of {config.student}")
    advice = f"hasse lab features {dataset} --backbone {config.student} --weights {path}"
    looks = f"--resize {config.side} --crop {config.side} --framing whole"
    typer.echo(f"next: {advice} {looks} --out ...", err=True)


def _learn(plan: DistillationPlan, out: Path, device: str, workers: int | None) -> Path:
    from hasse.lab.training.run import TrainingStopped
    from hasse.models.files import lock_folder

    kept = f"what is done is kept in {out}; {CONTINUE_MESSAGE}"
    with resumable(lambda: kept), lock_folder(out):
        run = plan.prepare(out, device, progress, tell, workers, picture_limits())
        with progress("learning") as bar, stoppable(lambda: kept, TrainingStopped) as stop:
            return run.train(training_report(bar, plan.config.epochs, _described), stop)


def _described(explained: float) -> str:
    return f"explains {explained:.1%} of the teacher's features of held-out pictures"
