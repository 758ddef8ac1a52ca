"""`hasse study distill`: a small network learns the features of a larger one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hasse.service.cli.terminal.configuration import picture_limits
from hasse.service.cli.terminal.errors import resumable
from hasse.service.cli.terminal.long_running import (
    AGAIN,
    consistent_options,
    stoppable,
    training_report,
)
from hasse.service.cli.terminal.options import DatasetFolder, Device, Workers
from hasse.service.cli.terminal.progress import progress, tell

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
Student = Annotated[str, typer.Option(help="The torchvision network that learns, a smaller one.")]
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
Side = Annotated[int, typer.Option(min=32, help="Pixels along a side of the student's input.")]
TeacherSide = Annotated[
    int, typer.Option(min=32, help="Pixels along a side of the teacher's input.")
]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the pictures, each with new crops.")]
Batch = Annotated[int, typer.Option(min=2, help="Crops at a time.")]
LearningRate = Annotated[float, typer.Option(help="AdamW's highest rate.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]


def distill(
    *,
    dataset: DatasetFolder,
    out: StudentFolder,
    teacher: Teacher = "torchvision/mobilenet_v2",
    weights: TeacherWeights = None,
    student: Student = "torchvision/mnasnet1_0",
    start: Start = None,
    split: Split = "train",
    side: Side = 128,
    teacher_side: TeacherSide = 224,
    epochs: Epochs = 60,
    batch_size: Batch = 128,
    learning_rate: LearningRate = 2e-3,
    seed: Seed = 0,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Train a small network to predict the features of a larger one.

    Both see the same random crops of the pictures, with changed colours and mixed with each other.
    The student predicts the teacher's features and the grids of its layers. A checkpoint as the
    teacher leaves out what no caption describes. More epochs are better, for a long time. Stop it
    at any time and run the same command to go on. The result are weights for 'hasse
    features --backbone'.

    \b
    [bold]Examples[/bold]
      hasse study distill data/flickr8k --weights mobilenet_v2.safetensors \\
          --out data/student
      hasse study distill data/flickr8k --teacher data/model --epochs 280 \\
          --out data/student
      hasse study distill data/coco --teacher torchvision/resnet50 \\
          --weights resnet50.pth --out data/student
    """
    from hasse.models.encoders.mixed_precision import supports_bfloat16
    from hasse.service.runtime.device import pick_device
    from hasse.studies.distillation.distillation import DistillationConfig
    from hasse.studies.distillation.pipeline import DistillationPlan

    place = pick_device(device)
    with consistent_options():
        config = DistillationConfig(
            student=student,
            side=side,
            teacher_side=teacher_side,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            bfloat16=supports_bfloat16(place),
            seed=seed,
        )
    plan = DistillationPlan.of(
        config, dataset, split, teacher=teacher, weights=weights, start=start
    )
    path = _learn(plan, out, place, workers)
    typer.echo(f"{path}: weights of {student}")
    advice = f"hasse lab features {dataset} --backbone {student} --weights {path}"
    typer.echo(f"next: {advice} --resize {side} --crop {side} --framing whole --out ...", err=True)


def _learn(plan: DistillationPlan, out: Path, device: str, workers: int | None) -> Path:
    from hasse.models.files import lock_folder
    from hasse.models.training.run import TrainingStopped

    kept = f"what is done is kept in {out}; {AGAIN}"
    with resumable(lambda: kept), lock_folder(out):
        run = plan.prepare(out, device, progress, tell, workers, picture_limits())
        with progress("learning") as bar, stoppable(lambda: kept, TrainingStopped) as stop:
            return run.train(training_report(bar, plan.config.epochs, _described), stop)


def _described(explained: float) -> str:
    return f"explains {explained:.1%} of the teacher's features of held-out pictures"
